"""Doubts about a run's answers come from its records, of pictures, searches and drives alike, and the page says them first."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pyarrow as pa
from bar_world import BarSubject, bar_campaign
from online_toys import online

from skidpad.core.images import FloatArray, Frames
from skidpad.core.stimuli import Params, Recipe
from skidpad.kinds.drives.records import SCHEMA
from skidpad.kinds.gating import check_gate
from skidpad.kinds.pictures.page import deeptest_page
from skidpad.oracles.doubts import DoubtKind
from skidpad.page.model import Tone
from skidpad.page.writing import page_markdown
from skidpad.runs.findings import run_doubts
from skidpad.runs.folder import Run
from skidpad.runs.gate import Limits
from skidpad.runs.manifest import Manifest
from skidpad.runs.records import ShardResult, build_records

LABEL = 0.2 * np.sin(np.linspace(0.0, 20.0, 40))


@dataclass(frozen=True)
class Spoiled(BarSubject):
    """Answers a multiple of what the bar says."""

    times: float = 1.0

    def predict(self, clip: Frames, now: Frames | None = None) -> FloatArray:
        return self.times * BarSubject.predict(self, clip, now)

    def observe(self, clip: Frames, now: Frames | None = None):
        seen = BarSubject.observe(self, clip, now)
        return replace(seen, answers=self.times * seen.answers)


def run_of(path: Path, times: float):
    campaign = bar_campaign(Spoiled(times=times), transforms=("brightness",), relation="steers-alike", tolerance=10.0)
    run = campaign.start(path)
    campaign.execute(run)
    return campaign, run


def test_a_constant_network_gives_no_findings_and_still_does_not_pass(tmp_path: Path) -> None:
    campaign, run = run_of(tmp_path / "run", times=0.0)
    report = deeptest_page(campaign, run)
    assert run.findings().num_rows == 0
    assert report.tone is Tone.UNKNOWN, "calm without it"
    assert report.verdict.startswith("In doubt: ")
    assert report.warnings[0].startswith("The network answers the same on every frame")
    assert "In doubt: " in page_markdown(report)
    refused = check_gate(run, Limits({"all": 0.0}))
    assert [outcome.name for outcome in refused.broken] == ["answers on unchanged frames"]
    accepted = check_gate(run, Limits({"all": 0.0}, accept_doubts=True))
    assert accepted.is_passed
    assert accepted.doubts == refused.doubts


def test_kinds_follow_from_the_stored_answers_alone(tmp_path: Path) -> None:
    found = {times: [doubt.kind for doubt in run_doubts(run_of(tmp_path / str(times), times)[1])] for times in (1.0, -1.0, 100.0)}
    assert found[1.0] == []
    assert DoubtKind.ANTI_CORRELATED in found[-1.0]
    assert found[100.0][0] is DoubtKind.IMPLAUSIBLE


def manifest() -> Manifest:
    return Manifest.collect(device="cpu", seed=0, hashes={"subject": "s", "drive": "d"}, command=("skidpad",))


def pictures(answer: np.ndarray, style: float) -> pa.Table:
    return build_records(
        frame_index=np.arange(40),
        frame_ids=[str(place) for place in range(40)],
        recipes=[Recipe.of("snow", Params(style_0=style))] * 40,
        label=LABEL,
        original=answer,
        mutant=answer,
        excess=np.zeros(40),
        violated=np.zeros(40, np.bool_),
        active_neurons=np.zeros(40, np.int64),
    )


def test_a_search_without_a_phase_of_originals_is_judged_by_its_first_condition(tmp_path: Path) -> None:
    run = Run.create(tmp_path / "run", {"campaign": "tactic", "bounds_deg": [10.0], "searches": ["es"]}, manifest())
    assert run_doubts(run) == ()
    run.commit(ShardResult("es-r00", 0, pictures(np.full(40, 0.1), 0.0)))
    run.commit(ShardResult("es-r00", 1, pictures(LABEL, 1.0)))
    assert [doubt.kind for doubt in run_doubts(run)] == [DoubtKind.CONSTANT]


def drives(run: Run, mode: str, answers: np.ndarray, recipe: Recipe) -> ShardResult:
    row = {field.name: {"string": "", "int32": 0, "double": 0.0, "binary": b"", "bool": False}[str(field.type)] for field in SCHEMA}
    series = {"answers_rad": answers.astype("<f8").tobytes(), "truth_rad": LABEL.astype("<f8").tobytes()}
    row |= {"case_id": f"{len(run.phases()):012d}", "mode": mode, "recipe": recipe.to_json(), **series}
    return ShardResult(mode if not recipe.steps else f"{mode}-changed", 0, pa.Table.from_pylist([row], schema=SCHEMA))


def test_drives_are_judged_where_the_truth_steers_and_nothing_is_changed(tmp_path: Path) -> None:
    run = Run.create(tmp_path / "run", {"campaign": "compare"}, manifest(), SCHEMA)
    run.commit(drives(run, "online", -LABEL, Recipe()))
    assert run_doubts(run) == (), "a car that strays is told to steer back, which is no label"
    run.commit(drives(run, "offline", np.zeros(40), Recipe.of("deeptest-fog", Params(density=0.5))))
    assert run_doubts(run) == ()
    run.commit(drives(run, "offline", -LABEL, Recipe()))
    assert DoubtKind.ANTI_CORRELATED in [doubt.kind for doubt in run_doubts(run)]


def test_a_drive_of_a_constant_network_is_doubted(tmp_path: Path) -> None:
    run = Run.create(tmp_path / "run", {"campaign": "online"}, manifest(), SCHEMA)
    run.commit(drives(run, "online", np.zeros(40), Recipe()))
    (doubt,) = run_doubts(run)
    assert doubt.kind is DoubtKind.CONSTANT
    assert "does the description prepare its input" in doubt.said


def trained_on(frame_aspect: float) -> BarSubject:
    plain = BarSubject().description
    return BarSubject(description=replace(plain, input=replace(plain.input, frame_aspect=frame_aspect)))


def test_squeezed_frames_are_a_doubt_of_every_run_and_refuse_no_gate(tmp_path: Path) -> None:
    campaign = bar_campaign(trained_on(9.0), transforms=("brightness",), relation="steers-alike", tolerance=10.0)
    run = campaign.start(tmp_path / "pictures")
    campaign.execute(run)
    assert [doubt.kind for doubt in run_doubts(Run.open(run.path))] == [DoubtKind.SQUEEZED]
    assert deeptest_page(campaign, run).warnings[0].startswith("Frames of ")
    assert check_gate(run, Limits({"all": 1.0})).is_passed


def test_a_closed_loop_compares_the_frames_of_its_world_with_those_of_the_training(tmp_path: Path) -> None:
    run = online(subject=trained_on(2.0)).start(tmp_path / "as-trained")
    assert run_doubts(run) == (), "the world's frames are 320 x 160 px"
    run = online(subject=trained_on(4 / 3)).start(tmp_path / "other")
    assert [doubt.kind for doubt in run_doubts(run)] == [DoubtKind.SQUEEZED]
    assert run_doubts(run)[0].said.startswith("Frames of 320 x 160 px are squeezed to 67 % of their width")


def test_an_output_that_is_no_angle_is_not_doubted(tmp_path: Path) -> None:
    for unit, wanted in (("rad", 1), ("fraction", 0)):
        run = Run.create(tmp_path / unit, {"campaign": "deeptest", "unit": unit}, manifest())
        run.commit(ShardResult("originals", 0, pictures(np.zeros(40), 0.0)))
        assert len(run_doubts(run)) == wanted
