"""RQ4: do the metamorphic relations find erroneous behaviour? Everything is counted from stored answers.

Reference: DeepTest, section 5 (RQ4), Eq. 2 and 3, Tables 7 and 8, Figure 6.
Deviates: MSE_orig is that of the frames that were transformed; fog and rain have ten pictures a frame, one for each density.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import nan
from typing import TYPE_CHECKING

import numpy as np

from skidpad.core.units import AngleUnit
from skidpad.oracles.error import rad2_to_squared, squared_to_rad2
from skidpad.oracles.filters import TABLE_7_LAMBDAS, near_original, sweep_composite, sweep_simple
from skidpad.oracles.relations import Answers, squared_error_rad2
from skidpad.papers.deeptest import paper
from skidpad.papers.scoreboard import Row, p_text, ratio
from skidpad.statistics.ranks import signed_rank
from skidpad.stimuli.pictures import COMPOSITE, SIMPLE

if TYPE_CHECKING:
    from skidpad.core.images import BoolArray, FloatArray, IntArray
    from skidpad.runs.folder import Run


GUIDED = "guided"
_COLUMNS = ("stimulus", "recipe", "label", "original", "mutant")


@dataclass(frozen=True, slots=True)
class Mutants:
    """N answers of a phase: recipe (N,) as a whole number, stimulus (N,) names, squared errors (N,) of mutant and original."""

    recipe: IntArray
    stimulus: np.ndarray
    error_rad2: FloatArray
    original_error_rad2: FloatArray

    def of(self, names: tuple[str, ...]) -> Mutants:
        """Returns those of some stimuli."""
        chosen = np.isin(self.stimulus, names)
        return Mutants(self.recipe[chosen], self.stimulus[chosen], self.error_rad2[chosen], self.original_error_rad2[chosen])

    def __len__(self) -> int:
        return len(self.recipe)


@dataclass(frozen=True, slots=True)
class Deviation:
    """The violating pictures of one kind at lambda = 5 beside their originals; each violation has its own original."""

    pictures: str
    cases: int
    violations: int
    mse_violating_rad2: float
    mse_originals_rad2: float
    p_value: float

    @property
    def times(self) -> float:
        """How many times the originals' error the violating pictures have."""
        return ratio(self.mse_violating_rad2, self.mse_originals_rad2)


@dataclass(frozen=True, slots=True)
class Counts:
    """A column of Table 7: violations by lambda out of `cases`; `parameters` (transformation, parameter) pairs passed Eq. 3."""

    name: str
    cases: int
    violations: tuple[int, ...]
    parameters: int | None = None


@dataclass(frozen=True, slots=True)
class StimulusCount:
    """A row of Table 8: violations at lambda = 5, after Eq. 3's filter at epsilon = 0.03 for simple transformations."""

    stimulus: str
    violations: int
    cases: int
    kept_cases: int


@dataclass(frozen=True, slots=True)
class Erroneous:
    """mse_original_rad2: MSE_orig. simple: one column an epsilon. composite: fog, rain, guided."""

    mse_original_rad2: float
    lambdas: tuple[float, ...]
    epsilons_scaled2: tuple[float, ...]
    deviations: tuple[Deviation, ...]
    simple: tuple[Counts, ...]
    composite: tuple[Counts, ...]
    by_stimulus: tuple[StimulusCount, ...]

    def rows(self) -> tuple[Row, ...]:
        """Returns the scoreboard's rows."""
        simple = self.deviations[0]
        scaled = [rad2_to_squared(value, AngleUnit.SCALED_25) for value in (simple.mse_violating_rad2, simple.mse_originals_rad2)]
        note = f"{simple.violations} of {simple.cases} pictures violate Eq. 2, signed-rank {p_text(simple.p_value)}; the ratio has no unit"
        unit = "the paper's unit is not said; ours in (deg/25)^2, in rad^2 {:.3g}"
        return (
            Row.compared(
                "RQ4",
                "MSE of violating pictures over their originals'",
                paper.MSE_VIOLATING / paper.MSE_THEIR_ORIGINALS,
                simple.times,
                note,
            ),
            Row.beside("RQ4", "MSE of violating pictures", paper.MSE_VIOLATING, scaled[0], unit.format(simple.mse_violating_rad2)),
            Row.beside("RQ4", "MSE of their originals", paper.MSE_THEIR_ORIGINALS, scaled[1], unit.format(simple.mse_originals_rad2)),
            self._simple_row(),
            *(self._rate_row(count) for count in self.by_stimulus if count.stimulus in {*COMPOSITE, GUIDED}),
        )

    def _simple_row(self) -> Row:
        published = [found for found in paper.TABLE_8 if found.of_epoch is None]
        ours = [count for count in self.by_stimulus if count.stimulus in SIMPLE]
        violations, cases = sum(count.violations for count in ours), sum(count.cases for count in ours)
        kept = sum(count.kept_cases for count in ours)
        return Row.beside(
            "RQ4",
            "simple transformations: violations, lambda 5, epsilon 0.03",
            sum(found.epoch for found in published),
            violations,
            f"{100 * ratio(violations, cases):.2g} % of {cases} pictures; Eq. 3 keeps {kept} of them; counts depend on the pictures",
            f"Chauffeur {sum(found.chauffeur for found in published)}, Rambo {sum(found.rambo for found in published)}",
        )

    def _rate_row(self, ours: StimulusCount) -> Row:
        found = next(found for found in paper.TABLE_8 if found.stimulus == ours.stimulus)
        return Row.compared(
            "RQ4",
            f"{ours.stimulus}: violating pictures at lambda 5 (%)",
            100.0 * ratio(found.epoch, found.of_epoch or 0),
            100.0 * ratio(ours.violations, ours.cases),
            f"{ours.violations} of {ours.cases}; the paper {found.epoch} of {found.of_epoch}",
            f"counts: Chauffeur {found.chauffeur}, Rambo {found.rambo}",
        )


def read_mutants(run: Run, phase: str) -> Mutants:
    """Reads the answers of a phase; recipes become whole numbers as they come, so memory is 40 bytes a picture."""
    numbers: dict[str, int] = {}
    names: list[str] = []
    recipes: list[IntArray] = []
    errors: list[FloatArray] = []
    original_errors: list[FloatArray] = []
    for table in run.iter_records(phase, _COLUMNS):
        encoded = table["recipe"].combine_chunks().dictionary_encode()
        stimulus = dict(zip(table["recipe"].to_pylist(), table["stimulus"].to_pylist(), strict=True))
        for text in encoded.dictionary.to_pylist():
            if text not in numbers:
                numbers[text] = len(numbers)
                names.append(stimulus[text])
        local = np.array([numbers[text] for text in encoded.dictionary.to_pylist()], np.int64)
        recipes.append(local[encoded.indices.to_numpy()])
        original, mutant, label = (table[name].to_numpy() for name in ("original", "mutant", "label"))
        errors.append(squared_error_rad2(Answers(original, mutant, label)))
        original_errors.append(squared_error_rad2(Answers(original, original, label)))
    recipe = np.concatenate(recipes) if recipes else np.zeros(0, np.int64)
    none = np.zeros(0)
    return Mutants(
        recipe,
        np.asarray(names, dtype=np.str_)[recipe],
        np.concatenate(errors) if errors else none,
        np.concatenate(original_errors) if original_errors else none,
    )


def judge(grid: Mutants, guided: Mutants, mse_original_rad2: float) -> Erroneous:
    """Answers RQ4 from the answers of a grid over all nine transformations and of the guided search."""
    simple = grid.of(SIMPLE)
    kinds = {"simple": simple, **{name: grid.of((name,)) for name in COMPOSITE}, GUIDED: guided}
    tolerated_rad2 = paper.LAMBDA * mse_original_rad2
    epsilon_rad2 = squared_to_rad2(paper.EPSILON_SCALED2, AngleUnit.SCALED_25)
    kept = near_original(simple.recipe, simple.error_rad2, mse_original_rad2, epsilon_rad2).kept_cases
    sweep = sweep_simple(simple.recipe, simple.error_rad2, mse_original_rad2)
    return Erroneous(
        mse_original_rad2=mse_original_rad2,
        lambdas=TABLE_7_LAMBDAS,
        epsilons_scaled2=paper.EPSILONS_SCALED2,
        deviations=tuple(_deviation(name, mutants, tolerated_rad2) for name, mutants in kinds.items()),
        simple=tuple(
            Counts(f"epsilon {epsilon}", len(simple), tuple(sweep.violations[:, place].tolist()), int(sweep.kept_groups[place]))
            for place, epsilon in enumerate(paper.EPSILONS_SCALED2)
        ),
        composite=tuple(_composite(name, kinds[name], mse_original_rad2) for name in (*COMPOSITE, GUIDED)),
        by_stimulus=(
            *(_count(name, simple.stimulus == name, kept, simple.error_rad2 > tolerated_rad2) for name in SIMPLE),
            *(
                StimulusCount(name, int((kinds[name].error_rad2 > tolerated_rad2).sum()), len(kinds[name]), len(kinds[name]))
                for name in (*COMPOSITE, GUIDED)
            ),
        ),
    )


def _deviation(name: str, mutants: Mutants, tolerated_rad2: float) -> Deviation:
    broken = mutants.error_rad2 > tolerated_rad2
    errors, originals = mutants.error_rad2[broken], mutants.original_error_rad2[broken]
    finite = np.isfinite(errors) & np.isfinite(originals)
    return Deviation(
        pictures=name,
        cases=len(mutants),
        violations=int(broken.sum()),
        mse_violating_rad2=_mean(errors[finite]),
        mse_originals_rad2=_mean(originals[finite]),
        p_value=signed_rank(errors[finite], originals[finite]).p_value,
    )


def _composite(name: str, mutants: Mutants, mse_original_rad2: float) -> Counts:
    sweep = sweep_composite([name] * len(mutants), mutants.error_rad2, mse_original_rad2)
    return Counts(name, len(mutants), tuple(sweep.violations[:, 0].tolist()) if len(mutants) else (0,) * len(TABLE_7_LAMBDAS))


def _count(name: str, chosen: BoolArray, kept: BoolArray, broken: BoolArray) -> StimulusCount:
    return StimulusCount(name, int((chosen & kept & broken).sum()), int(chosen.sum()), int((chosen & kept).sum()))


def _mean(values: FloatArray) -> float:
    return float(values.mean()) if len(values) else nan
