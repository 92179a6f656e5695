"""What is to be said of the findings of a run: which is the worst, what the referee set apart and why, and what is to be doubted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from math import nan, radians
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import pyarrow as pa

from skidpad.core.images import FloatArray
from skidpad.core.stimuli import Recipe
from skidpad.oracles.doubts import Doubt, DoubtKind, doubts_of
from skidpad.oracles.relations import LabelMse, SteersAlike, fails_unchanged
from skidpad.referee.verdict import Word
from skidpad.runs.records import ORIGINALS, findings_of, holds_pictures, no_rows, worst_first
from skidpad.runs.tags import Tag, Tags
from skidpad.statistics.intervals import Interval, wilson
from skidpad.subjects.base import squeezed_frames

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
        told = f"The referee did not keep {self.apart} of the {total} failing pictures that it judged ({counts}), so they are not counted"
        return f"{told}: {why}.{f' {unseen}' if self.unseen else ''}"

    @property
    def compared(self) -> str:
        """How often people agree with it, in a sentence; empty where nobody has looked."""
        if not self.agreement:
            return ""
        return (
            f"People and the referee: of the findings that it kept and people decided, {100 * self.precision.estimate:.0f} % are real "
            f"faults (precision); of the real faults, it kept {100 * self.recall.estimate:.0f} % (recall)."
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


_NEEDED = ("case_id", "original", "label", "excess", "violated")


def worst_finding(run: Run) -> str | None:
    """Returns the case id of the worst finding, None where there is none.

    Under `label-mse` a frame may fail before anything is changed. Such a finding tells nothing of the stimulus and shrinks to nothing,
    so it is the worst only where all are of that kind.
    """
    relation = label_relation(run)
    if relation is None:
        found = run.findings(limit=1, columns=("case_id",))
    else:
        found = no_rows(run.schema, _NEEDED)
        for table in run.iter_records(None, _NEEDED):
            found = caused_first(pa.concat_tables([found, findings_of(table)]), relation, 1)
    return str(found["case_id"][0].as_py()) if found.num_rows else None


def caused_first(records: pa.Table, relation: LabelMse | None, limit: int | None = None) -> pa.Table:
    """Sorts findings by excess, those whose original fails by itself behind all others; then keeps the first `limit` rows."""
    if relation is None:
        return worst_first(records, limit)
    already = fails_unchanged(relation, records["original"].to_numpy(), records["label"].to_numpy())
    order = np.lexsort((-records["excess"].to_numpy(), already))
    return records.take(pa.array(order if limit is None else order[:limit]))


def label_relation(run: Run) -> LabelMse | None:
    """Returns the relation of a run that was judged against labels; None of any other, under which no original fails by itself."""
    lambda_ = run.config.get("tolerance")
    if not holds_pictures(run.schema) or run.config.get("relation") != LabelMse.name or not isinstance(lambda_, int | float):
        return None
    originals = run.records(ORIGINALS, ("original", "label"))
    error = originals["original"].to_numpy() - originals["label"].to_numpy()
    finite = error[np.isfinite(error)]
    return LabelMse(lambda_=lambda_, mse_original_rad2=float(np.mean(finite**2))) if len(finite) else None


_ANSWERED = ("frame_index", "original", "mutant", "label")
"""Columns of pictures: which frame, and what was answered on it as it is and changed, and by the human."""

_SERIES = ("mode", "recipe", "answers_rad", "truth_rad")
"""Columns of drives: who steers, what sits in front of the camera, and what was answered and right at every step."""

_NEED_LABELS = frozenset({DoubtKind.ANTI_CORRELATED, DoubtKind.WORSE_THAN_MEAN, DoubtKind.SCALE})


def run_doubts(run: Run) -> tuple[Doubt, ...]:
    """Returns what is odd about how a run's frames reach the network, and about its answers on unchanged ones where they are angles."""
    return (*_of_frames(run), *_of_answers(run))


def _of_frames(run: Run) -> tuple[Doubt, ...]:
    return tuple(Doubt(DoubtKind.SQUEEZED, said[0].upper() + said[1:] + ".") for said in squeezed_frames(run.manifest.subject))


def _of_answers(run: Run) -> tuple[Doubt, ...]:
    if holds_pictures(run.schema) or set(_ANSWERED) <= set(run.schema.names):
        return _of_pictures(run) if run.config.get("unit", "rad") == "rad" else ()
    return _of_drives(run) if set(_SERIES) <= set(run.schema.names) else ()


def _of_pictures(run: Run) -> tuple[Doubt, ...]:
    # a search keeps no phase of its own for scenes as they are, but every condition holds the answer to each of them
    phase = ORIGINALS if ORIGINALS in run.phases() else next(iter(run.phases()), "")
    tables = list(run.iter_records(phase, ("original", "label"))) if phase else []
    parts = tables if phase == ORIGINALS else tables[:1]
    answer, label = (_joined([part[name].to_numpy() for part in parts]) for name in ("original", "label"))
    return doubts_of(answer, label, radians(_tolerated_deg(run.config)))


def _tolerated_deg(config: Mapping[str, Any]) -> float:
    """Returns by how many degrees an answer may change; NaN where the relation compares with the label."""
    bounds = config.get("thresholds_deg") or config.get("bounds_deg")
    first = (
        bounds[0] if isinstance(bounds, list | tuple) else config.get("tolerance") if config.get("relation") == SteersAlike.name else nan
    )
    return float(first) if isinstance(first, int | float) else nan


def _of_drives(run: Run) -> tuple[Doubt, ...]:
    """Prefers drives that the truth steered: where the subject strays, what is right changes with where it has got to."""
    answers: dict[str, list[FloatArray]] = {}
    truths: dict[str, list[FloatArray]] = {}
    unchanged = Recipe().to_json()
    for table in run.iter_records(None, _SERIES):
        for row in table.to_pylist():
            if row["recipe"] == unchanged:
                answers.setdefault(row["mode"], []).append(np.frombuffer(row["answers_rad"], "<f8"))
                truths.setdefault(row["mode"], []).append(np.frombuffer(row["truth_rad"], "<f8"))
    mode = "offline" if "offline" in answers else "online"
    # a program that was served has no description: it prepares its frames itself
    prepared_by = "the program" if "clamped" in run.schema.names else "the description"
    found = doubts_of(_joined(answers.get(mode, [])), _joined(truths.get(mode, [])), prepared_by=prepared_by)
    return found if mode == "offline" else tuple(doubt for doubt in found if doubt.kind not in _NEED_LABELS)


def _joined(parts: list[FloatArray]) -> FloatArray:
    return np.concatenate(parts) if parts else np.zeros(0)
