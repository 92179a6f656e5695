"""Subjects with memory: what they are shown, and that batches, shards and threads change nothing."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from bar_world import BarSubject, bar_campaign, bar_drive, described

from skidpad.core.errors import UnknownNameError
from skidpad.core.images import pixel_hash
from skidpad.core.stimuli import Recipe
from skidpad.core.units import AngleUnit, PlainUnit
from skidpad.coverage.profile import profile_of
from skidpad.drives.drive import Drive, Problem, ProblemKind
from skidpad.drives.opening import drive_from_arrays
from skidpad.kinds.pictures.campaign import DeepTest
from skidpad.kinds.pictures.evidence import replay_case
from skidpad.kinds.pictures.guided import merged_coverage
from skidpad.kinds.pictures.work import cut, default_shard_frames
from skidpad.runs.folder import Run
from skidpad.runs.records import ORIGINALS
from skidpad.stimuli.pictures import stimuli
from skidpad.subjects.description import Output

LEAD = 3
BRIGHTNESS = described(Output("steering", AngleUnit.RAD), Output("brightness", PlainUnit.FRACTION))
REMEMBERS = BarSubject(lead=LEAD, description=BRIGHTNESS)


@pytest.fixture
def threads_as_before() -> Iterator[None]:
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


def broken_drive() -> Drive:
    whole = bar_drive(14)
    frames = [whole.frame(place) for place in range(len(whole))]
    for place in (0, 5, 6):
        frames[place] = Problem(ProblemKind.CORRUPT, f"{place:06d}", "cut off")
    return drive_from_arrays(frames, whole.steering_rad)


def run_of(campaign: DeepTest, path: Path) -> Run:
    run = campaign.start(path)
    campaign.execute(run)
    return run


def window(drive: Drive, index: int) -> list[np.ndarray]:
    """The last readable frames before and at an index, the first of all repeated in front: written out plainly."""
    readable = [drive.frame(place) for place in range(index + 1)]
    seen = [frame for frame in readable if not isinstance(frame, Problem)]
    return [seen[0]] * (LEAD + 1 - len(seen)) + seen[-LEAD - 1 :]


def expected(drive: Drive, index: int, recipe: Recipe, *, last_alone: bool) -> np.ndarray:
    """The answers on one frame: the mean of its window, every frame or the last under the recipe."""
    known = stimuli(("brightness", "contrast", "blur", "deeptest-rain"))
    frames = window(drive, index)
    changed = [
        recipe.apply(frame[np.newaxis], known)[0] if not last_alone or place == LEAD else frame for place, frame in enumerate(frames)
    ]
    return REMEMBERS.predict(np.stack(changed))[0]


@pytest.mark.parametrize("stimulus_on", ["window", "last-frame"])
@pytest.mark.parametrize("drive", [bar_drive(9), broken_drive()], ids=["whole", "broken"])
def test_every_phase_shows_the_window_that_the_setting_says(tmp_path: Path, stimulus_on: str, drive: Drive) -> None:
    campaign = bar_campaign(
        REMEMBERS,
        drive=drive,
        stimulus_on=stimulus_on,
        transforms=("brightness", "deeptest-rain"),
        searches=("grid", "greedy", "random"),
        seeds=3,
        max_failed_tries=2,
        tolerance=0.3,
    )
    run = run_of(campaign, tmp_path / "run")
    for phase in (ORIGINALS, "grid", "greedy", "random"):
        rows = run.records(phase).to_pylist()
        assert rows or phase == "greedy"
        for row in rows:
            answer = expected(drive, row["frame_index"], Recipe.from_json(row["recipe"]), last_alone=stimulus_on == "last-frame")[0]
            assert row["mutant"] == pytest.approx(answer, abs=1e-12)
            assert row["original"] == pytest.approx(expected(drive, row["frame_index"], Recipe(), last_alone=False)[0], abs=1e-12)
    assert len(run.problems()) == sum(isinstance(drive.frame(place), Problem) for place in range(len(drive)))


def test_one_frame_of_four_moves_the_mean_a_quarter_as_far(tmp_path: Path) -> None:
    moves = {}
    for stimulus_on in ("window", "last-frame"):
        campaign = bar_campaign(
            REMEMBERS, output="brightness", relation="answers-alike", tolerance=0.1, stimulus_on=stimulus_on, transforms=("brightness",)
        )
        rows = run_of(campaign, tmp_path / stimulus_on).records("grid").to_pylist()
        moves[stimulus_on] = np.array([row["mutant"] - row["original"] for row in rows])
    shifts = np.array([Recipe.from_json(row["recipe"]).steps[0].params.real("shift") for row in rows])
    np.testing.assert_allclose(moves["window"], shifts / 255, atol=1e-12)
    np.testing.assert_allclose(moves["last-frame"], shifts / 255 / (LEAD + 1), atol=1e-12)


@pytest.mark.parametrize("stimulus_on", ["window", "last-frame"])
def test_shards_and_threads_change_nothing(tmp_path: Path, stimulus_on: str, threads_as_before: None) -> None:
    def made(name: str, threads: int, shard_frames: int) -> tuple[Run, DeepTest]:
        torch.set_num_threads(threads)
        campaign = bar_campaign(
            REMEMBERS,
            drive=broken_drive(),
            stimulus_on=stimulus_on,
            searches=("grid", "greedy", "random"),
            max_failed_tries=3,
            transforms=("brightness", "shear"),
            shard_frames=shard_frames,
        )
        return run_of(campaign, tmp_path / name), campaign

    one, campaign = made("one", 1, 5)
    three, _ = made("three", 3, 5)
    names = [sorted(path.name for path in (run.path / "segments").iterdir()) for run in (one, three)]
    assert names[0] == names[1]
    key = [("case_id", "ascending")]
    blank = campaign.blank_tracker(None)
    for shard_frames in (1, 64):
        other, _ = made(f"other-{shard_frames}", 2, shard_frames)
        for phase in (ORIGINALS, "grid", "greedy", "random"):
            columns = [name for name in one.schema.names if phase != ORIGINALS or name != "excess"]  # not judged: NaN equals nothing
            assert other.records(phase, columns).sort_by(key).equals(one.records(phase, columns).sort_by(key))
            mine, theirs = (merged_coverage(run, phase, blank) for run in (one, other))
            assert {name: state.pack() for name, state in mine.items()} == {name: state.pack() for name, state in theirs.items()}


@pytest.mark.parametrize(
    ("stimulus_on", "words"), [("window", "on all 4 frames that the subject sees"), ("last-frame", "on the last of 4 frames alone")]
)
def test_a_finding_is_replayed_and_says_what_was_changed(tmp_path: Path, stimulus_on: str, words: str) -> None:
    campaign = bar_campaign(BarSubject(left_threshold=50, lead=LEAD), stimulus_on=stimulus_on)
    run = run_of(campaign, tmp_path / "run")
    worst = run.findings(limit=1).to_pylist()[0]
    result = replay_case(campaign, run, worst["case_id"])
    assert result.is_reproduced()
    assert result.answer_change == 0.0
    assert pixel_hash(campaign.picture(worst["frame_index"], result.record.recipe)) == worst["picture"]
    assert campaign.window_words == words
    assert bar_campaign(BarSubject(), stimulus_on=stimulus_on).window_words == ""


def test_a_profile_sees_every_window() -> None:
    drive = broken_drive()
    profile = profile_of(REMEMBERS, drive.batches(4, lead=LEAD), drive.sha256)
    readable = [place for place in range(len(drive)) if not isinstance(drive.frame(place), Problem)]
    values = np.stack([REMEMBERS.observe(np.stack(window(drive, place))).values.numpy()[0] for place in readable])
    assert profile.pictures == len(readable)
    np.testing.assert_array_equal(profile.low.numpy(), values.min(axis=0))
    np.testing.assert_array_equal(profile.high.numpy(), values.max(axis=0))


@pytest.mark.parametrize("lead", [0, 1, 2, 31, 99])
def test_a_long_memory_is_at_most_a_third_of_what_is_shown(lead: int) -> None:
    frames = default_shard_frames(lead, "cpu", broken_drive())
    for part in cut(10 * frames, lead)[:-1]:
        assert lead <= (part.stop - part.start + lead) / 3
    assert lead <= (frames + lead) / 3
    assert frames >= 64


def test_another_way_to_show_a_stimulus_is_refused() -> None:
    with pytest.raises(UnknownNameError, match="did you mean 'window'"):
        bar_campaign(REMEMBERS, stimulus_on="windows")
