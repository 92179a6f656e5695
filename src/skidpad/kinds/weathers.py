"""What reports say of learned weathers, whatever a campaign uses them for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from skidpad.page.wording import percent

if TYPE_CHECKING:
    from skidpad.core.stimuli import Stimulus
    from skidpad.stimuli.weather.files import WeatherCard


def lost_road_words(card: WeatherCard) -> str:
    """Says that nobody should test under a weather, where its card says that it loses the road; empty elsewhere."""
    if not card.loses_road or card.road_lost is None:
        return ""
    return (
        f"{card.name} moves or hides the road: at the end of its training the referee found the road lost in {percent(card.road_lost)} of "
        "the sampled pictures. Do not test under it: a wrong answer to a scene without its road is no finding. Learn it for longer, or "
        "with a larger --road."
    )


def drawn_sentence(name: str, card: WeatherCard) -> str:
    """Says what is drawn on top of a weather's pictures; empty where nothing is."""
    return f"Drawn on top of the pictures of {name}: {card.drawn}." if card.drawn else ""


def lost_roads(stimuli: Mapping[str, Stimulus]) -> tuple[str, ...]:
    """Warns of the learned weathers among stimuli that lose the road."""
    return tuple(words for card in cards_of(stimuli).values() if (words := lost_road_words(card)))


def drawn_remarks(stimuli: Mapping[str, Stimulus]) -> tuple[str, ...]:
    """Says what the learned weathers among stimuli have drawn on top."""
    return tuple(words for name, card in cards_of(stimuli).items() if (words := drawn_sentence(name, card)))


def cards_of(stimuli: Mapping[str, Stimulus]) -> Mapping[str, WeatherCard]:
    """Returns the cards of the learned weathers among stimuli, by the names of the stimuli."""
    found = {name: getattr(getattr(stimulus, "stimulus", stimulus), "card", None) for name, stimulus in stimuli.items()}
    return {name: card for name, card in found.items() if card is not None}
