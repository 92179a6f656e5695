"""The realism questionnaire: pairs of a real and a synthesised scene, two questions, and what people answered.

Reference: TACTIC 4.3. Everyone is given the same pairs in the same order; an answer may be corrected, and the last one counts.
Deviates: the paper prints the two questions as questionnaires of their own; here one person answers both, the first for all pairs and
then the second. Which of a pair comes first is drawn once for the study, which the paper does not say.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import Enum
from hashlib import blake2b
from pathlib import Path
from secrets import token_hex
from typing import Self

from skidpad.core.errors import SkidpadError, UnknownNameError
from skidpad.core.seeding import child_rng
from skidpad.runs.journal import Journal
from skidpad.ui.study_pictures import Scene, StudyPicture, pictures_in

PER_APPROACH = 20
"""Synthesised pictures of each approach, as in the paper."""
_PARTICIPANT = re.compile(r"[0-9a-f]{16}", re.ASCII)


class Realism(Enum):
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
class Pair:
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
class Question:
    """One thing to answer. part: 1 asks for the more realistic of a pair, 2 for the type of its synthesised picture."""

    number: int
    part: int
    pair: Pair

    @property
    def choices(self) -> tuple[str, ...]:
        """What may be answered."""
        return tuple(choice.value for choice in (Realism if self.part == 1 else Scene))


class Study:
    """A questionnaire over two folders of pictures; answers go to an append-only file."""

    def __init__(self, pairs: Sequence[Pair], journal: Journal) -> None:
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
                pairs.append(Pair(f"{picture.key}{other.key}", picture, other, real_first=bool(rng.integers(2))))
        return cls([pairs[place] for place in rng.permutation(len(pairs)).tolist()], Journal(answers))

    @property
    def count(self) -> int:
        """How many questions there are in all."""
        return 2 * len(self.pairs)

    def question(self, number: int) -> Question:
        """Returns the question of a number from 0."""
        if not 0 <= number < self.count:
            raise UnknownNameError(f"the questionnaire has {self.count} questions; there is no number {number + 1}")
        part, place = divmod(number, len(self.pairs))
        return Question(number, part + 1, self.pairs[place])

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
                question = Question(0, int(row["part"]), self.pairs[0])
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
            raise UnknownNameError("nobody of this name takes part in this questionnaire; begin again at /study")
