"""What the referee said in a run: how many mutants it set apart and why, and how often people who looked agree with it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from skidpad.referee.word import Word
from skidpad.runs.tags import Tag, Tags
from skidpad.statistics.intervals import Interval, wilson

if TYPE_CHECKING:
    from skidpad.runs.folder import Run


@dataclass(frozen=True, slots=True)
class Refereed:
    """The referee's words on the mutants of a run that broke their relation, and what people said of some of them.

    words, reasons: how many of each; both empty where it was not asked. agreement: how many mutants have a word of the referee and a
    tag, by both.
    """

    words: Mapping[Word, int]
    reasons: Mapping[str, int]
    agreement: Mapping[tuple[Word, Tag], int]
    unseen: int = 0
    """Findings that it could not judge because it saw no road in the original; they count."""

    @classmethod
    def of(cls, run: Run) -> Self:
        """Counts the words of a run, shard by shard."""
        tags = Tags.of(run.path).current()
        words: Counter[Word] = Counter()
        reasons: Counter[str] = Counter()
        agreement: Counter[tuple[Word, Tag]] = Counter()
        unseen = 0
        for table in run.iter_records(None, ("case_id", "referee", "reason")) if "referee" in run.schema.names else ():
            said = table.filter(table["referee"].is_valid())
            unseen += table.num_rows - said.num_rows - table.filter(table["referee"].is_null())["reason"].null_count
            for case_id, text, reason in zip(*(said[name].to_pylist() for name in ("case_id", "referee", "reason")), strict=True):
                word = Word(text)
                words[word] += 1
                if reason is not None:
                    reasons[reason] += 1
                if case_id in tags:
                    agreement[word, tags[case_id]] += 1
        return cls(dict(words), dict(reasons.most_common()), dict(agreement), unseen)

    @property
    def apart(self) -> int:
        """How many mutants broke their relation and count for nothing."""
        return self.words.get(Word.REFUSED, 0) + self.words.get(Word.UNCLEAR, 0)

    @property
    def precision(self) -> Interval:
        """Of the mutants that the referee kept and people decided, the share that people call real faults."""
        return wilson(
            self._agree(Word.KEPT, Tag.REAL_FAULT), self._agree(Word.KEPT, Tag.REAL_FAULT) + self._agree(Word.KEPT, Tag.FALSE_ALARM)
        )

    @property
    def recall(self) -> Interval:
        """Of the mutants that people call real faults, the share that the referee kept."""
        return wilson(self._agree(Word.KEPT, Tag.REAL_FAULT), sum(self._agree(word, Tag.REAL_FAULT) for word in Word))

    def _agree(self, word: Word, tag: Tag) -> int:
        return self.agreement.get((word, tag), 0)

    @property
    def said(self) -> str:
        """How many mutants were set apart and why, in a sentence; empty where none was."""
        unseen = f"The referee saw no road in the originals of {self.unseen} findings, so that it could not judge them: they count."
        if not self.apart:
            return unseen if self.unseen else ""
        why = ", ".join(f"{reason} ({number})" for reason, number in self.reasons.items())
        counts = f"{self.words.get(Word.REFUSED, 0)} refused, {self.words.get(Word.UNCLEAR, 0)} unclear"
        total = sum(self.words.values())
        told = f"The referee did not keep {self.apart} of the {total} changed pictures that failed ({counts}), so they are not counted"
        return f"{told}: {why}.{f' {unseen}' if self.unseen else ''}"

    @property
    def compared(self) -> str:
        """How often people agree with it, in a sentence; empty where nobody has looked."""
        if not self.agreement:
            return ""
        return (
            f"People and the referee: of the findings that it kept and people decided, {self.precision.estimate:.0%} are real faults "
            f"(precision); of the real faults, it kept {self.recall.estimate:.0%} (recall)."
        )

    def to_json(self) -> dict[str, object]:
        """Returns plain values for programs."""
        return {
            "referee": {
                **{word.value: self.words.get(word, 0) for word in Word},
                "reasons": dict(self.reasons),
                "precision": self.precision.estimate if self.agreement else None,
                "recall": self.recall.estimate if self.agreement else None,
            }
        }
