"""`worst` is a failure that the stimulus caused, wherever one is named: on the command line, in the report, in a bundle."""

from pathlib import Path

import numpy as np
import pytest

from skidpad.cli.runs import case_named
from skidpad.core.errors import SkidpadError
from skidpad.core.stimuli import Params, Recipe
from skidpad.kinds.pictures.page import showcase
from skidpad.runs.findings import worst_finding
from skidpad.runs.folder import Run
from skidpad.runs.manifest import Manifest
from skidpad.runs.records import ShardResult, build_records

ORIGINAL_DEG = np.array([1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 30.0])
"""Labels are 0; five times the mean square is within 23.8 degrees, which the last frame breaks as it is."""


def run_of(path: Path, mutant_deg: list[float], relation: str = "label-mse") -> Run:
    config = {"campaign": "deeptest", "relation": relation, "tolerance": 5.0, "unit": "rad"}
    run = Run.create(path, config, Manifest.collect(device="cpu", seed=0, hashes={}, command=("skidpad",)))
    original, mutant = np.radians(ORIGINAL_DEG), np.radians(mutant_deg)
    excess = mutant**2 / (5.0 * np.mean(original**2))
    for phase, recipe, answer, found in (
        ("originals", Recipe(), original, np.full(8, np.nan)),
        ("grid", Recipe.of("deeptest-fog", Params(density=0.5)), mutant, excess),
    ):
        table = build_records(
            frame_index=np.arange(8),
            frame_ids=[str(place) for place in range(8)],
            recipes=[recipe] * 8,
            label=np.zeros(8),
            original=original,
            mutant=answer,
            excess=found,
            violated=found > 1.0,
            active_neurons=np.zeros(8, np.int64),
        )
        run.commit(ShardResult(phase, 0, table))
    return run


def frame_of(run: Run, case: str | None) -> str:
    assert case is not None
    return run.find(case).frame_id


def test_the_worst_is_one_that_the_stimulus_caused(tmp_path: Path) -> None:
    run = run_of(tmp_path / "run", [0.0, 25.0, 40.0, 0.0, 0.0, 0.0, 0.0, 90.0])
    assert run.findings(limit=1)["frame_id"].to_pylist() == ["7"], "furthest beyond the tolerance, and failing as it is"
    assert frame_of(run, worst_finding(run)) == "2"
    assert frame_of(run, case_named(run, "worst")) == "2"
    assert [record.frame_id for record in showcase(run)] == ["2", "1", "7"]


def test_where_all_fail_as_they_are_the_furthest_is_the_worst(tmp_path: Path) -> None:
    run = run_of(tmp_path / "run", [0.0] * 7 + [90.0])
    assert frame_of(run, worst_finding(run)) == "7"


def test_under_a_relation_without_labels_the_furthest_is_the_worst(tmp_path: Path) -> None:
    run = run_of(tmp_path / "run", [0.0, 25.0, 40.0, 0.0, 0.0, 0.0, 0.0, 90.0], "steers-alike")
    assert frame_of(run, worst_finding(run)) == "7"


def test_no_findings_have_no_worst(tmp_path: Path) -> None:
    run = run_of(tmp_path / "run", [0.0] * 8)
    assert worst_finding(run) is None
    with pytest.raises(SkidpadError, match="none is the worst"):
        case_named(run, "worst")
