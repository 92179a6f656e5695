"""A questionnaire about pictures: scenes, questions, answers and their tally, without what gives a picture away."""

from __future__ import annotations

import os
import re
import stat
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import Enum
from hashlib import blake2b
from pathlib import Path
from secrets import token_hex
from typing import Self

import cv2
import numpy as np

from skidpad.core.errors import SkidpadError, UnknownNameError
from skidpad.core.images import decode, encode
from skidpad.core.seeding import child_rng
from skidpad.runs.tags import Journal
from skidpad.statistics.intervals import Interval, wilson

MAX_WIDTH_PX = 640
_MAX_BYTES = 32 << 20
_MAX_PICTURES = 20_000
_MAX_DEPTH = 4
_SUFFIXES = frozenset({".jpg", ".jpeg", ".png", ".webp", ".bmp"})


class SceneChoice(Enum):
    """The seven choices of TACTIC's second question; the last is no type."""

    RAIN = "rain"
    SUNSHINE = "sunshine"
    NIGHT = "night"
    FOG = "fog"
    SNOW_DAY = "snow in daytime"
    SNOW_NIGHT = "snow in night"
    UNREALISTIC = "image unrealistic"


_NAMED = {
    "rain": SceneChoice.RAIN,
    "rainy": SceneChoice.RAIN,
    "wet": SceneChoice.RAIN,
    "sunshine": SceneChoice.SUNSHINE,
    "sunny": SceneChoice.SUNSHINE,
    "clear": SceneChoice.SUNSHINE,
    "night": SceneChoice.NIGHT,
    "fog": SceneChoice.FOG,
    "foggy": SceneChoice.FOG,
    "snow": SceneChoice.SNOW_DAY,
    "snow day": SceneChoice.SNOW_DAY,
    "snow in daytime": SceneChoice.SNOW_DAY,
    "snow night": SceneChoice.SNOW_NIGHT,
    "snow in night": SceneChoice.SNOW_NIGHT,
}
"""What folders may be called, in lower case with spaces between words."""


@dataclass(frozen=True, slots=True)
class StudyPicture:
    """One picture file. key: a hash of its content, which says nothing about where it comes from."""

    key: str
    path: Path
    approach: str
    scene: SceneChoice | None

    def shown(self) -> bytes:
        """Returns the picture as JPEG, no wider than others and without what its file says besides pixels."""
        frame = decode(self.path.read_bytes())
        if frame is None:
            raise SkidpadError(f"the picture {str(self.path)!r} can no longer be read; put it back and begin again")
        height, width = frame.shape[:2]
        if width != MAX_WIDTH_PX:
            size = (MAX_WIDTH_PX, max(1, round(height * MAX_WIDTH_PX / width)))
            frame = np.asarray(
                cv2.resize(frame, size, interpolation=cv2.INTER_AREA if width > MAX_WIDTH_PX else cv2.INTER_LINEAR), np.uint8
            )
        return encode(frame, ".jpg", 90)


def pictures_in(folder: Path) -> list[StudyPicture]:
    """Returns the pictures below a folder, by path; links are not followed."""
    if not folder.is_dir():
        raise SkidpadError(f"no folder {str(folder)!r}; --study takes a folder of real and one of synthesised pictures")
    found = [_picture(folder, path) for path in sorted(_files(folder, 0))[:_MAX_PICTURES]]
    if not found:
        raise SkidpadError(f"the folder {str(folder)!r} holds no pictures ({', '.join(sorted(_SUFFIXES))})")
    return found


def scene_named(name: str) -> SceneChoice | None:
    """Returns the environmental type that a folder's name is, or None."""
    return _NAMED.get(" ".join(re.split(r"[\W_]+", name.strip().lower())))


def _files(folder: Path, depth: int) -> Iterator[Path]:
    with os.scandir(folder) as entries:
        for entry in entries:
            status = entry.stat(follow_symlinks=False)
            path = Path(entry.path)
            if stat.S_ISDIR(status.st_mode) and depth < _MAX_DEPTH and not entry.name.startswith("."):
                yield from _files(path, depth + 1)
            elif stat.S_ISREG(status.st_mode) and path.suffix.lower() in _SUFFIXES and status.st_size <= _MAX_BYTES:
                yield path


def _picture(folder: Path, path: Path) -> StudyPicture:
    parts = path.relative_to(folder).parts[:-1]
    scene = next((scene for scene in map(scene_named, reversed(parts)) if scene is not None), None)
    approach = next((part for part in parts if scene_named(part) is None), "synthesised")
    return StudyPicture(blake2b(path.read_bytes(), digest_size=8).hexdigest(), path, approach, scene)


PER_APPROACH = 20
"""Synthesised pictures of each approach, as in the paper."""
_PARTICIPANT = re.compile(r"[0-9a-f]{16}", re.ASCII)


class RealismChoice(Enum):
    """Question 1: which driving scene is more realistic?"""

    FIRST = "the first"
    SECOND = "the second"
    BOTH = "both are realistic"
    NEITHER = "both are unrealistic"


class Background(Enum):
    """Who answers; the paper tells 12 of industry from 22 students."""

    INDUSTRY = "industry"
    STUDENT = "student"
    OTHER = "other"


@dataclass(frozen=True, slots=True)
class StudyPair:
    """One synthesised picture beside a real one."""

    key: str
    synthesised: StudyPicture
    real: StudyPicture
    real_first: bool

    @property
    def pictures(self) -> tuple[StudyPicture, StudyPicture]:
        """Both, in the order in which they are shown."""
        return (self.real, self.synthesised) if self.real_first else (self.synthesised, self.real)


@dataclass(frozen=True, slots=True)
class StudyQuestion:
    """One thing to answer. part: 1 asks for the more realistic of a pair, 2 for the type of its synthesised picture."""

    number: int
    part: int
    pair: StudyPair

    @property
    def choices(self) -> tuple[str, ...]:
        """What may be answered."""
        return tuple(choice.value for choice in (RealismChoice if self.part == 1 else SceneChoice))


class Study:
    """A questionnaire over two folders of pictures; answers go to an append-only file."""

    def __init__(self, pairs: Sequence[StudyPair], journal: Journal) -> None:
        if not pairs:
            raise SkidpadError("a questionnaire needs at least one pair of pictures")
        self.pairs = tuple(pairs)
        self.journal = journal
        self.key = blake2b("".join(pair.key for pair in pairs).encode(), digest_size=6).hexdigest()
        self.pictures = {picture.key: picture for pair in pairs for picture in pair.pictures}

    @classmethod
    def of(cls, real: Path, synthesised: Path, answers: Path, per_approach: int = PER_APPROACH, seed: int = 0) -> Self:
        """Draws the pairs from two folders.

        Folders within `synthesised` name the approach and the environmental type of what they hold, as `tactic/fog/0001.jpg`; where
        `real` has folders of types as well, a picture is paired with a real one of its type.
        """
        real_ones, made = pictures_in(real), pictures_in(synthesised)
        approaches: defaultdict[str, list[StudyPicture]] = defaultdict(list)
        for picture in made:
            approaches[picture.approach].append(picture)
        rng = child_rng(seed, "study")
        pairs = []
        for _, pictures in sorted(approaches.items()):
            chosen = rng.permutation(len(pictures))[:per_approach]
            for place in sorted(chosen.tolist()):
                picture = pictures[place]
                alike = [other for other in real_ones if other.scene is picture.scene] or real_ones
                other = alike[int(rng.integers(len(alike)))]
                pairs.append(StudyPair(f"{picture.key}{other.key}", picture, other, real_first=bool(rng.integers(2))))
        return cls([pairs[place] for place in rng.permutation(len(pairs)).tolist()], Journal(answers))

    @property
    def count(self) -> int:
        """How many questions there are in all."""
        return 2 * len(self.pairs)

    def question(self, number: int) -> StudyQuestion:
        """Returns the question of a number from 0."""
        if not 0 <= number < self.count:
            raise UnknownNameError(f"the questionnaire has {self.count} questions; there is no number {number + 1}")
        part, place = divmod(number, len(self.pairs))
        return StudyQuestion(number, part + 1, self.pairs[place])

    def begin(self, background: Background) -> str:
        """Enters a new participant, without a name, and returns what they are called."""
        participant = token_hex(8)
        self._append({"participant": participant, "background": background.value})
        return participant

    def answer(self, participant: str, number: int, choice: str) -> None:
        """Keeps an answer; kept when this returns."""
        self._check(participant)
        question = self.question(number)
        if choice not in question.choices:
            raise UnknownNameError.among("answer", choice, question.choices)
        self._append({"participant": participant, "part": str(question.part), "pair": question.pair.key, "choice": choice})

    def answered(self, participant: str) -> Mapping[int, str]:
        """Returns what a participant answered, by number of the question."""
        self._check(participant)
        given = self.answers()
        places = {pair.key: place for place, pair in enumerate(self.pairs)}
        return {places[pair] + (part - 1) * len(self.pairs): choice for (who, part, pair), choice in given.items() if who == participant}

    def answers(self) -> Mapping[tuple[str, int, str], str]:
        """Returns the last answer to every (participant, part, pair) of this study."""
        pairs = {pair.key for pair in self.pairs}
        found: dict[tuple[str, int, str], str] = {}
        for row in self._rows():
            if row.get("pair") in pairs and row.get("part") in {"1", "2"}:
                question = StudyQuestion(0, int(row["part"]), self.pairs[0])
                if row.get("choice") in question.choices:
                    found[row["participant"], question.part, row["pair"]] = row["choice"]
        return found

    def backgrounds(self) -> Mapping[str, str]:
        """Returns the background of every participant who began."""
        return {row["participant"]: row["background"] for row in self._rows() if "background" in row}

    def _rows(self) -> list[Mapping[str, str]]:
        return [row for row in self.journal.read().rows if row.get("study") == self.key and "participant" in row]

    def _append(self, row: Mapping[str, str]) -> None:
        self.journal.append({**row, "study": self.key, "at": datetime.now(UTC).isoformat(timespec="seconds")})

    def _check(self, participant: str) -> None:
        if not _PARTICIPANT.fullmatch(participant) or participant not in self.backgrounds():
            raise UnknownNameError("there is no participant of this name in this questionnaire; begin again at /study")


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
class StudyTally:
    """All answers. participants: by background, those who answered at least once."""

    approaches: tuple[ApproachTally, ...]
    participants: Counter[Background]
    answers: int


def tally(study: Study) -> StudyTally:
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
            preferences[pair.synthesised.approach][preference_of(pair, RealismChoice(choice))] += 1
        elif pair.synthesised.scene is not None:
            recognitions[pair.synthesised.approach][_recognition(pair.synthesised.scene, SceneChoice(choice))] += 1
    known = {background.value: background for background in Background}
    backgrounds = study.backgrounds()
    people = {who for who, _, _ in given}
    participants = Counter(known.get(backgrounds.get(who, ""), Background.OTHER) for who in sorted(people))
    rows = tuple(ApproachTally(name, preferences[name], recognitions[name]) for name in sorted(preferences))
    return StudyTally(rows, participants, len(given))


def preference_of(pair: StudyPair, choice: RealismChoice) -> Preference:
    """Says of an answer which scene it prefers."""
    if choice is RealismChoice.BOTH:
        return Preference.BOTH
    if choice is RealismChoice.NEITHER:
        return Preference.NEITHER
    return Preference.REAL if (choice is RealismChoice.FIRST) == pair.real_first else Preference.SYNTHESISED


def _recognition(scene: SceneChoice, choice: SceneChoice) -> Recognition:
    if choice is SceneChoice.UNREALISTIC:
        return Recognition.UNREALISTIC
    return Recognition.RIGHT if choice is scene else Recognition.WRONG
