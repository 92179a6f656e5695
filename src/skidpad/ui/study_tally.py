"""What the answers of a questionnaire say: Figure 5 and Figure 6, approach by approach.

Reference: TACTIC 4.3, Figures 5 and 6.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from skidpad.statistics.intervals import Interval, wilson
from skidpad.ui.study import Background, Realism
from skidpad.ui.study_pictures import Scene

if TYPE_CHECKING:
    from skidpad.ui.study import Pair, Study

PAPER = {
    "tactic": "44 % cannot be told from real scenes",
    "deeproad": "41 % cannot be told from real scenes",
    "deeptest": "in 94 % the real scene is more realistic",
    "prescan": "in 86 % the real scene is more realistic",
}
"""What the text says of Figure 5; the figure itself prints no numbers that could be read off."""


class Preference(Enum):
    """Which scene of a pair was found more realistic, wherever it stood."""

    REAL = "the real scene"
    SYNTHESISED = "the synthesised scene"
    BOTH = "both realistic"
    NEITHER = "both unrealistic"


class Recognition(Enum):
    """Whether the type of a synthesised scene was named rightly."""

    RIGHT = "the right type"
    WRONG = "another type"
    UNREALISTIC = "unrealistic"


@dataclass(frozen=True, slots=True)
class ApproachTally:
    """The answers about one approach. preferences: Figure 5; recognitions: Figure 6, only of pictures whose type is known."""

    approach: str
    preferences: Counter[Preference]
    recognitions: Counter[Recognition]

    @property
    def real_chosen(self) -> Interval:
        """How often the real scene was found more realistic: the grey sector of Figure 5."""
        return wilson(self.preferences[Preference.REAL], self.preferences.total())

    @property
    def recognised(self) -> Interval:
        """How often the type was named rightly: the blue sector of Figure 6."""
        return wilson(self.recognitions[Recognition.RIGHT], self.recognitions.total())

    @property
    def in_paper(self) -> str:
        """What the paper says of an approach of this name, "" where nothing."""
        return PAPER.get(self.approach.lower(), "")


@dataclass(frozen=True, slots=True)
class Tally:
    """All answers. participants: by background, those who answered at least once."""

    approaches: tuple[ApproachTally, ...]
    participants: Counter[Background]
    answers: int


def tally(study: Study) -> Tally:
    """Counts the last answer of every participant to every question."""
    pairs = {pair.key: pair for pair in study.pairs}
    preferences: dict[str, Counter[Preference]] = {}
    recognitions: dict[str, Counter[Recognition]] = {}
    for pair in study.pairs:
        preferences.setdefault(pair.synthesised.approach, Counter())
        recognitions.setdefault(pair.synthesised.approach, Counter())
    given = study.answers()
    for (_, part, key), choice in given.items():
        pair = pairs[key]
        if part == 1:
            preferences[pair.synthesised.approach][preference_of(pair, Realism(choice))] += 1
        elif pair.synthesised.scene is not None:
            recognitions[pair.synthesised.approach][_recognition(pair.synthesised.scene, Scene(choice))] += 1
    known = {background.value: background for background in Background}
    backgrounds = study.backgrounds()
    people = {who for who, _, _ in given}
    participants = Counter(known.get(backgrounds.get(who, ""), Background.OTHER) for who in sorted(people))
    rows = tuple(ApproachTally(name, preferences[name], recognitions[name]) for name in sorted(preferences))
    return Tally(rows, participants, len(given))


def preference_of(pair: Pair, choice: Realism) -> Preference:
    """Says of an answer which scene it prefers."""
    if choice is Realism.BOTH:
        return Preference.BOTH
    if choice is Realism.NEITHER:
        return Preference.NEITHER
    return Preference.REAL if (choice is Realism.FIRST) == pair.real_first else Preference.SYNTHESISED


def _recognition(scene: Scene, choice: Scene) -> Recognition:
    if choice is Scene.UNREALISTIC:
        return Recognition.UNREALISTIC
    return Recognition.RIGHT if choice is scene else Recognition.WRONG
