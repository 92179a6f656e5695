"""RQ4 on made-up answers, against plain loops."""

from __future__ import annotations

import numpy as np
import pytest
from replicate_toys import Case, made_up_run
from scipy import stats

from skidpad.core.stimuli import Recipe
from skidpad.papers.deeptest import paper
from skidpad.papers.deeptest import replication as tables
from skidpad.papers.deeptest.erroneous import Erroneous, judge, read_mutants
from skidpad.runs.folder import Run
from skidpad.stimuli.pictures import COMPOSITE, SIMPLE, stimuli

SCALED2_RAD2 = np.radians(25.0) ** 2
MSE_RAD2 = 0.002
FRAMES = 6


def spread_of(name: str, place: int) -> float:
    """How far the answers of a transformation's parameter are from the label: the later, the farther."""
    return 0.03 + 0.02 * place * (1 + (*SIMPLE, *COMPOSITE).index(name) / 4)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    rng = np.random.default_rng(2)
    grids = {name: stimulus.space.grid for name, stimulus in stimuli((*SIMPLE, *COMPOSITE)).items()}
    labels = rng.uniform(-0.3, 0.3, FRAMES)
    labels[5] = np.nan  # a frame that cannot be judged
    shards = [
        [
            Case(
                frame,
                Recipe.of(name, params),
                label=labels[frame],
                original=labels[frame] + rng.normal(0, 0.03),
                mutant=labels[frame] + rng.normal(0, spread_of(name, place)) if labels[frame] == labels[frame] else 0.1,
            )
            for name in grids
            for place, params in enumerate(grids[name])
            for frame in block
        ]
        for block in ((0, 1, 2, 3), (4, 5))
    ]
    broken = shards[1][0]
    shards[1][0] = Case(broken.frame, broken.recipe, broken.label, broken.original, float("nan"))
    pair = Recipe((*Recipe.of("blur", grids["blur"][0]).steps, *Recipe.of("deeptest-fog", grids["deeptest-fog"][0]).steps))
    greedy = [[Case(0, pair, 0.0, 0.01, answer) for answer in (0.0, 0.05, 0.11, 0.3)]]
    return made_up_run(tmp_path_factory.mktemp("made-up") / "run", {"grid": shards, "greedy": greedy})


@pytest.fixture(scope="module")
def answer(run: Run) -> Erroneous:
    return judge(read_mutants(run, "grid"), read_mutants(run, "greedy"), MSE_RAD2)


def plain_cases(run: Run, phase: str = "grid") -> list[tuple[str, str, float, float]]:
    """(stimulus, recipe, squared error, squared error of the original) of every judged case; an answer of NaN is infinitely wrong."""
    rows = [row for row in run.records(phase).to_pylist() if row["label"] == row["label"]]
    return [
        (
            row["stimulus"],
            row["recipe"],
            (row["mutant"] - row["label"]) ** 2 if np.isfinite(row["mutant"]) else float("inf"),
            (row["original"] - row["label"]) ** 2,
        )
        for row in rows
    ]


def plain_kept(cases: list[tuple[str, str, float, float]], epsilon_scaled2: float) -> set[str]:
    kept = set()
    for recipe in {case[1] for case in cases if case[0] in SIMPLE}:
        errors = [case[2] for case in cases if case[1] == recipe and np.isfinite(case[2])]
        if errors and abs(np.mean(errors) - MSE_RAD2) <= epsilon_scaled2 * SCALED2_RAD2:
            kept.add(recipe)
    return kept


def test_table_7_is_that_of_plain_loops(run: Run, answer: Erroneous) -> None:
    cases = plain_cases(run)
    assert 0 < len(plain_kept(cases, 0.01)) < len(plain_kept(cases, 0.05)) < 70  # the filter has something to do
    for column, epsilon in zip(answer.simple, paper.EPSILONS_SCALED2, strict=True):
        kept = plain_kept(cases, epsilon)
        assert column.parameters == len(kept)
        assert column.cases == 70 * FRAMES
        for lambda_, violations in zip(answer.lambdas, column.violations, strict=True):
            plain = sum(
                case[0] in SIMPLE and case[2] > lambda_ * MSE_RAD2 and (case[1] in kept or not np.isfinite(case[2])) for case in cases
            )
            assert violations == plain
    for column in answer.composite:
        chosen = plain_cases(run, "greedy") if column.name == "guided" else [case for case in cases if case[0] == column.name]
        assert list(column.violations) == [sum(case[2] > lambda_ * MSE_RAD2 for case in chosen) for lambda_ in answer.lambdas]


def test_guided_pictures_are_counted_by_hand(answer: Erroneous) -> None:
    guided = answer.composite[-1]
    # squared errors 0, 0.0025, 0.0121 and 0.09 against lambda x 0.002
    assert guided.violations == (3, 2, 2, 2, 2, 2, 1, 1, 1, 1)
    assert guided.cases == 4


def test_table_8_sums_to_table_7(run: Run, answer: Erroneous) -> None:
    cases = plain_cases(run)
    kept = plain_kept(cases, 0.03)
    simple = [count for count in answer.by_stimulus if count.stimulus in SIMPLE]
    assert sum(count.violations for count in simple) == answer.simple[2].violations[4]
    for count in simple:
        mine = [case for case in cases if case[0] == count.stimulus]
        assert count.violations == sum(case[2] > 5 * MSE_RAD2 and (case[1] in kept or not np.isfinite(case[2])) for case in mine)
        assert count.cases == 10 * FRAMES
    assert {count.stimulus for count in answer.by_stimulus} == {found.stimulus for found in paper.TABLE_8}


def test_violating_pictures_are_compared_with_their_own_originals(run: Run, answer: Erroneous) -> None:
    broken = [case for case in plain_cases(run) if case[0] in SIMPLE and case[2] > 5 * MSE_RAD2]
    finite = [case for case in broken if np.isfinite(case[2])]
    simple = answer.deviations[0]
    assert simple.violations == len(broken) == len(finite) + 1
    assert simple.mse_violating_rad2 == pytest.approx(np.mean([case[2] for case in finite]))
    assert simple.mse_originals_rad2 == pytest.approx(np.mean([case[3] for case in finite]))
    expected = stats.wilcoxon([case[2] for case in finite], [case[3] for case in finite], correction=True, method="approx").pvalue
    assert simple.p_value == pytest.approx(expected, rel=1e-6)
    first = answer.rows()[0]
    assert first.paper == pytest.approx(0.41 / 0.035)
    assert first.ours == pytest.approx(simple.mse_violating_rad2 / simple.mse_originals_rad2)
    scaled = answer.rows()[1]
    assert scaled.ours == pytest.approx(simple.mse_violating_rad2 / SCALED2_RAD2)
    assert scaled.gap is None  # the paper's unit is not known


def test_rates_stand_beside_counts(answer: Erroneous) -> None:
    fog = next(row for row in answer.rows() if row.quantity.startswith("deeptest-fog"))
    counts = next(count for count in answer.by_stimulus if count.stimulus == "deeptest-fog")
    assert fog.paper == pytest.approx(100 * 135 / 5614)
    assert fog.ours == pytest.approx(100 * counts.violations / counts.cases)
    assert f"{counts.violations} of {counts.cases}" in fog.note
    published, ours = tables.table_7(answer)
    assert published.rows[4] == (5, 95, 171, 330, 382, 641, 4448, 741, 820)
    assert str(ours.rows[4][6]).startswith(f"{counts.violations} (")
    by_name = {row[0]: row for row in tables.table_8(answer).rows}
    assert by_name["deeptest-fog"][5:8] == (counts.violations, pytest.approx(100 * counts.violations / counts.cases), counts.cases)


def test_a_run_in_which_nothing_was_found_has_no_ratio_and_no_crash(run: Run) -> None:
    grid, nothing = read_mutants(run, "grid"), read_mutants(run, "random")
    calm = judge(grid, nothing, 1e9)
    assert calm.composite[-1].violations == (0,) * 10
    assert calm.deviations[0].violations == 1  # the answer that is no number breaks every relation
    assert calm.rows()[0].gap is None
    assert np.isnan(calm.deviations[-1].p_value)
    tables.figure_6(calm)
