"""What a reader must know before believing figures under a learned weather."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from skidpad.subjects.base import Subject
    from skidpad.weather.files import WeatherCard

_RENDERED = "rendered"


def weather_warnings(cards: Sequence[WeatherCard], drive: str, subject: Subject) -> tuple[str, ...]:
    """Warns of weathers from rendered pictures on a drive that is none, and of those with fewer pixels than the subject sees.

    drive: the text that names it.
    """
    warnings = []
    foreign = [card.name for card in cards if card.rendered]
    if foreign and drive.partition("?")[0].partition(":")[0] != _RENDERED:
        them = "it makes" if len(foreign) == 1 else "they make"
        was = "was" if len(foreign) == 1 else "were"
        warnings.append(
            f"{', '.join(foreign)} {was} learned from rendered pictures, and this drive is not rendered: what {them} of it is no weather "
            "that a camera meets, so the figures say little. Look at the scenes first; learn a weather from photographs with "
            "skidpad weather train."
        )
    small = enlarged(cards, subject)
    if small:
        warnings.append(
            f"Learned at fewer pixels than the subject sees: {', '.join(small)}. The scenes are enlarged, and part of the change may be "
            "blur; learn at a larger --size."
        )
    return tuple(warnings)


def enlarged(cards: Sequence[WeatherCard], subject: Subject) -> tuple[str, ...]:
    """Names the weathers that were learned at fewer pixels than the subject sees, so that their scenes are blurred as well."""
    spec = subject.description.input
    return tuple(card.name for card in cards if card.size_px < min(spec.height_px, spec.width_px))
