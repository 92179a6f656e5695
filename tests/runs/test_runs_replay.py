"""Replaying a record, and what the manifest tells of versions."""

import json
import math
import subprocess
import sys
from dataclasses import dataclass, replace
from types import SimpleNamespace

import numpy as np
import pytest

from skidpad.core.images import pixel_hash
from skidpad.core.stimuli import Params, Recipe
from skidpad.runs.manifest import FORMAT, RUNTIMES, Manifest, Processor, VersionChange, current_versions, manifest_content
from skidpad.runs.records import Record, case_id
from skidpad.runs.replay import PictureMatch, ReplayOutcome, replay

RECIPE = Recipe.of("darken", Params(by=40))
MANIFEST = Manifest.collect(device="cpu", seed=1, hashes={"subject": "aa", "drive": "bb"}, command=("skidpad", "test", "\udcff"))


@dataclass(frozen=True)
class Within:
    tolerance_rad: float = 0.1
    name: str = "within"

    def excess(self, answers):
        change = np.abs(answers.mutant - answers.original) / self.tolerance_rad
        return np.where(np.isfinite(answers.mutant), change, np.inf)


def render(frame_id, recipe):
    frame = np.full((4, 6, 3), 100 + len(frame_id), np.uint8)
    return frame - np.uint8(recipe.steps[0].params.whole("by")) if recipe.steps else frame


def predict(frame_id, recipe):
    return float(render(frame_id, recipe).mean()) / 100.0


def record(**changes):
    original, mutant = (predict("f1", recipe) for recipe in (Recipe(), RECIPE))
    stored = Record(
        case_id("f1", RECIPE), 0, "f1", RECIPE, math.nan, original, mutant, 4.0, True, 5, pixel_hash(render("f1", RECIPE)), None
    )
    return replace(stored, **changes)


def test_a_finding_computed_again_is_the_same():
    result = replay(record(), MANIFEST, render, predict, Within())
    assert result.picture is PictureMatch.SAME
    assert result.same_verdict
    assert result.answer_change == 0.0
    assert result.excess == pytest.approx(4.0)
    assert result.version_changes == ()
    assert result.is_reproduced()


def test_another_picture_is_noticed():
    result = replay(record(), MANIFEST, lambda *case: render(*case) // np.uint8(2) * np.uint8(2) + np.uint8(1), predict, Within())
    assert result.picture is PictureMatch.DIFFERENT
    assert not result.is_reproduced()


def test_a_picture_that_was_not_stored_does_not_count_against_it():
    result = replay(record(picture=None), MANIFEST, render, predict, Within())
    assert result.picture is PictureMatch.NOT_STORED
    assert result.picture_again == pixel_hash(render("f1", RECIPE))
    assert result.is_reproduced()


def test_a_mended_subject_has_another_verdict():
    result = replay(record(), MANIFEST, render, lambda *_: 0.3, Within())
    assert not result.same_verdict
    assert not result.violated
    assert result.answer_change == pytest.approx(record().original - 0.3)
    assert not result.is_reproduced()


def test_rounding_is_tolerated_and_the_tolerance_is_an_argument():
    result = replay(record(), MANIFEST, render, lambda *case: predict(*case) + 1e-5, Within())
    assert result.is_reproduced()
    assert not result.is_reproduced(tolerance=1e-6)


@pytest.mark.parametrize(
    ("stored", "again", "change"),
    [(math.nan, math.nan, 0.0), (math.inf, math.inf, 0.0), (math.nan, 0.5, math.inf), (math.inf, 0.5, math.inf)],
)
def test_answers_that_are_no_numbers_are_compared(stored, again, change):
    def answers(_frame_id, recipe):
        return again if recipe.steps else 1.02

    assert replay(record(mutant=stored), MANIFEST, render, answers, Within()).answer_change == change


def test_version_changes_are_told_by_name():
    then = replace(MANIFEST, versions={**current_versions(), "numpy": "1.0", "tensorflow": "2"})
    changes = replay(record(), then, render, predict, Within()).version_changes
    assert changes == (VersionChange("numpy", "1.0", current_versions()["numpy"]), VersionChange("tensorflow", "2", ""))
    assert str(changes[1]) == "tensorflow 2 -> absent"


OTHER = Processor("Some CPU", "SomeVendor", "AVX2")


def other_picture(*case):
    return render(*case) // np.uint8(2) * np.uint8(2) + np.uint8(1)


@pytest.mark.parametrize(
    ("drawn", "off", "here", "there"),
    [
        (render, 0.0, ReplayOutcome.IDENTICAL, ReplayOutcome.IDENTICAL),
        (render, 1e-5, ReplayOutcome.WITHIN_BOUND, ReplayOutcome.WITHIN_BOUND),
        (render, 1e-3, ReplayOutcome.DIFFERENT, ReplayOutcome.WITHIN_BOUND),
        (other_picture, 0.0, ReplayOutcome.DIFFERENT, ReplayOutcome.WITHIN_BOUND),
        (other_picture, 1e-2, ReplayOutcome.DIFFERENT, ReplayOutcome.DIFFERENT),
    ],
)
def test_another_processor_has_a_bound_of_its_own(drawn, off, here, there):
    elsewhere = replace(MANIFEST, processor=OTHER)
    found = {
        manifest: replay(record(), then, drawn, lambda *case: predict(*case) + off, Within()).reproduction()
        for manifest, then in (("here", MANIFEST), ("there", elsewhere))
    }
    assert (found["here"].outcome, found["there"].outcome) == (here, there)
    assert found["there"].is_reproduced is (there is not ReplayOutcome.DIFFERENT)
    if there is ReplayOutcome.WITHIN_BOUND:
        now = Processor.current("cpu")
        assert found["there"].said.endswith(f"on another processor: Some CPU (SomeVendor, AVX2) in the run, {now} now")


def test_near_a_threshold_another_verdict_is_different_on_any_processor():
    def barely(_frame_id, recipe):
        return 0.1 - 1e-6 if recipe.steps else 0.0

    stored = record(original=0.0, mutant=0.1 + 1e-6, excess=1.00001)
    result = replay(stored, replace(MANIFEST, processor=OTHER), render, barely, Within())
    assert result.reproduction().outcome is ReplayOutcome.DIFFERENT
    assert result.reproduction().said == "NOT reproduced: answers, verdict"


def test_a_manifest_names_the_processor_and_an_older_one_has_none():
    here = json.loads(MANIFEST.to_json())
    assert here["processor"]["model"]
    assert here["processor"]["instructions"]
    del here["processor"]
    older = Manifest.from_content(here, "run")
    assert [(change.part, change.then) for change in older.changes()] == [("processor", "unknown")]


def test_a_setting_of_the_libraries_makes_another_processor(monkeypatch):
    assert MANIFEST.changes() == ()
    monkeypatch.setenv("MKL_CBWR", "COMPATIBLE")
    assert [change.part for change in MANIFEST.changes()] == ["processor"]
    assert Processor.current("cpu").instructions.endswith(" MKL_CBWR=COMPATIBLE")


def test_a_runtime_counts_only_for_runs_that_it_made(monkeypatch):
    monkeypatch.setitem(sys.modules, "onnxruntime", SimpleNamespace(__version__="9.9"))
    assert "onnxruntime" in current_versions()
    without = {name: value for name, value in current_versions().items() if name != "onnxruntime"}
    assert replace(MANIFEST, versions=without).changes() == ()
    older = replace(MANIFEST, versions={**without, "onnxruntime": "0.1"})
    assert [change.part for change in older.changes()] == ["onnxruntime"]
    monkeypatch.delitem(sys.modules, "onnxruntime")
    assert "onnxruntime" not in current_versions()
    assert [change.part for change in older.changes()] == ["onnxruntime"]


def test_a_manifest_comes_back_from_its_json():
    assert Manifest.from_content(manifest_content(MANIFEST.to_json(), "run"), "run") == MANIFEST
    assert json.loads(MANIFEST.to_json())["skidpad_run"] == FORMAT
    assert set(MANIFEST.versions) - set(RUNTIMES) == {"skidpad", "python", "numpy", "opencv", "pyarrow", "torch"}
    assert all(MANIFEST.versions.values())
    assert MANIFEST.created.endswith("+00:00")


def test_runs_and_searches_do_not_import_torch():
    code = "import sys, skidpad.runs.replay, skidpad.kinds.shards, skidpad.search.pairs; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
