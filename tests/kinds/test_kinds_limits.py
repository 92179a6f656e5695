"""`skidpad limits`: a planted limit is found to a step, with few predictions, and a run that was killed ends the same."""

import json
import re
import threading
from dataclasses import dataclass, replace
from enum import Enum
from math import log2
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from limit_toys import CONDITIONS, STEPS, Planted, limits, toy_drive
from online_toys import demo

from skidpad.core.errors import BadDriveError, BadParametersError, InterruptedRunError, UnknownNameError
from skidpad.drives.opening import drive_from_arrays
from skidpad.kinds.drives.loop import Course
from skidpad.kinds.drives.work import ClosedLoopRunner
from skidpad.kinds.limits.curves import LimitCurve, LimitPoint, Standing, all_rows, frontier, row_named, rows_of
from skidpad.kinds.limits.holding import read_hold
from skidpad.kinds.limits.odd import attribute_of, odd_payload, statement
from skidpad.kinds.limits.page import limits_figures, limits_page, note_of
from skidpad.kinds.limits.probes import FrameSample
from skidpad.kinds.limits.replaying import replay_case
from skidpad.kinds.limits.summary import Found, Limit
from skidpad.page.writing import render_page
from skidpad.runs.folder import Run
from skidpad.runs.workers.here import Here
from skidpad.statistics.intervals import Interval, share_over_stretches
from skidpad.stimuli.registry import stimuli

ACCEPTED = 0.05


def executed(campaign: Any, folder: Path) -> tuple[Run, Found]:
    run = campaign.start(folder / "run")
    campaign.execute(run, workers=Here(1))
    return run, Found.of(campaign, run)


def point(position: int, share: float, half: float = 0.0, kept: float = 1.0) -> LimitPoint:
    return LimitPoint(position, Interval(share, share - half, share + half, 0.95, 100), kept)


def searched(failing: Any) -> LimitCurve:
    """Follows the search on a curve that is known."""
    curve = LimitCurve.of((), ACCEPTED, STEPS)
    while wanted := curve.wanted():
        assert not {each.position for each in curve.points} & set(wanted)
        curve = LimitCurve.of((*curve.points, *(point(position, failing(position)) for position in wanted)), ACCEPTED, STEPS)
    return curve


@pytest.mark.parametrize("first", range(1, STEPS + 2))
def test_the_search_finds_every_limit_to_a_step_with_a_part_of_the_grids_points(first: int) -> None:
    curve = searched(lambda position: float(position >= first))
    held, failing = curve.holds_to, curve.fails_from
    assert (0 if held is None else held.position) == first - 1
    assert (STEPS + 1 if failing is None else failing.position) == first
    assert len(curve.points) <= STEPS // 3


def test_a_gap_that_frames_cannot_tell_lies_between_the_two_limits() -> None:
    def standing(position: int) -> float:
        return 0.0 if position < 10 else 0.5 if position > 20 else ACCEPTED

    curve = searched(standing)
    assert curve.holds_to is not None
    assert curve.holds_to.position == 9
    assert curve.fails_from is not None
    assert curve.fails_from.position == 21
    assert curve.at(16) is not None
    assert curve.at(16).standing(ACCEPTED) is Standing.OPEN


def test_a_curve_that_recovers_holds_only_up_to_where_it_first_fails() -> None:
    curve = searched(lambda position: float(8 <= position < 20))
    assert curve.holds_to is not None
    assert curve.holds_to.position == 7
    assert curve.fails_from is not None
    assert curve.fails_from.position == 8
    assert "fails less again beyond" in note_of(Limit(all_rows(CONDITIONS, STEPS)[0], curve, ()))


@pytest.mark.parametrize(
    ("shares", "peak"),
    [
        ((0.0, 0.1, 0.0), 16),  # open, then no failure at all
        ((0.2, 0.9, 0.5), 16),  # still fails, but clearly less often
        ((0.2, 0.9, 0.85), None),  # the intervals overlap
        ((0.0, 0.5, 1.0), None),
    ],
)
def test_a_curve_that_falls_again_is_told_from_one_that_only_wavers(shares: tuple[float, ...], peak: int | None) -> None:
    points = [point(8 * number, share, half=0.06) for number, share in enumerate(shares, 1)]
    found = LimitCurve.of(points, ACCEPTED, STEPS).falls_after
    assert (found.position if found else None) == peak


def test_a_severity_that_the_referee_refuses_neither_holds_nor_fails() -> None:
    refused = point(32, 1.0, kept=0.4)
    curve = LimitCurve.of((point(8, 0.0), point(16, 0.0), point(31, 0.0), refused), ACCEPTED, STEPS)
    assert refused.standing(ACCEPTED) is Standing.REFUSED
    assert (curve.holds_to, curve.fails_from, curve.is_refused) == (curve.points[2], None, True)
    assert LimitPoint(4, Interval(float("nan"), float("nan"), float("nan"), 0.95, 0), 1.0).standing(ACCEPTED) is Standing.REFUSED


def test_few_frames_without_a_failure_hold_but_are_not_called_sure() -> None:
    few, many = (LimitPoint(8, share_over_stretches(np.zeros(frames), 4, np.random.default_rng(0)), 1.0) for frames in (20, 400))
    assert (few.standing(ACCEPTED), many.standing(ACCEPTED)) == (Standing.HOLDS, Standing.HOLDS)
    assert (few.is_sure(ACCEPTED), many.is_sure(ACCEPTED)) == (False, True)


def test_with_a_gpu_conditions_are_still_painted_on_every_core(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The subject has the GPU to itself: frames stay on the CPU, and as many threads paint as without one."""
    monkeypatch.setattr(torch, "get_num_threads", lambda: 3)
    threads: set[str] = set()

    class Watched(Planted):
        def predict(self, clip: Any, now: Any = None) -> Any:
            assert isinstance(clip, np.ndarray)
            threads.add(threading.current_thread().name)
            return super().predict(clip, now)

    campaign = limits(Watched(dark=40.0), names=("toy-dark",), device="cuda")
    campaign.execute(campaign.start(tmp_path / "run"))
    assert {name.rpartition("_")[0] for name in threads} == {"skidpad-lane"}, "threads of a pool, not the one that called"


def test_a_frontier_never_grows_again() -> None:
    held = {(one, two): one + two <= 2 for one in range(3) for two in range(3)}
    assert frontier(held, range(3), range(3)) == ((0, 2), (1, 1), (2, 0))
    held[1, 0] = False
    assert frontier(held, range(3), range(3)) == ((0, 2), (1, -1), (2, -1))


def test_a_planted_limit_is_found_to_a_step_and_lies_within_its_interval(tmp_path: Path) -> None:
    subject = Planted(dark=40.0)
    campaign = limits(subject, names=("toy-dark", "toy-bright"))
    run, found = executed(campaign, tmp_path)
    truth_ev = log2(40.0 / 127.5)  # the pictures' mean is 127.5 and every EV halves it
    under, over = found.limits
    step_ev = 4.0 / STEPS
    assert under.holds_to == pytest.approx(truth_ev, abs=step_ev)
    assert under.fails_from == pytest.approx(truth_ev, abs=step_ev)
    low, high = sorted(limits_figures(campaign, run)["limits"][0]["interval"])  # type: ignore[index]
    assert low <= truth_ev <= high
    assert (over.holds_to, over.fails_from) == (2.0, None)
    assert not limits_figures(campaign, run)["limits"][1]["is_sure"], "16 stretches could hide 17 %"  # type: ignore[index]
    page = limits_page(campaign, run)
    assert page.lead_tables[0].rows[-1][-1] == "too few frames to be sure"
    # the share in the table and in the figures is that of the same severity
    told = limits_figures(campaign, run)["limits"]
    assert page.lead_tables[0].columns[3] == "Failing at the limit (95 %)"
    assert [row[3].split("\u00a0")[0] for row in page.lead_tables[0].rows] == ["100", "0"]
    assert [(row["failing_at"], row["failing_share"]["share"]) for row in told] == [(under.fails_from, 1.0), (2.0, 0.0)]  # type: ignore[attr-defined]
    assert any("as far as so few runs could hide: 17.1\u00a0%" in note for note in page.notes)
    assert any("64 frames count as only 16 independent observations" in warning for warning in page.warnings)
    assert any("lies 10 degrees or more from" in note for note in page.notes)
    # one prediction for each frame as it is, then one for each frame and severity; a grid takes STEPS a row
    assert subject.asked == found.predictions == 64 * (1 + len(under.curve.points) + len(over.curve.points))
    assert found.predictions < found.grid_predictions / 4 == 64 * (1 + 2 * STEPS) / 4


def test_a_network_that_always_fails_holds_at_no_severity(tmp_path: Path) -> None:
    _, found = executed(limits(Planted(dark=126.9), names=("toy-dark",)), tmp_path)
    assert found.limits[0].holds_to is None
    assert found.limits[0].fails_from == pytest.approx(-4.0 / STEPS)


class FailsByChance(Planted):
    """Fails on about half of all changed pictures, however far they are changed: where the left half is the brighter one."""

    def predict(self, clip: Any, now: Any = None) -> Any:
        half = clip.shape[2] // 2
        is_left = clip[:, :, :half].mean(axis=(1, 2, 3)) > clip[:, :, half:].mean(axis=(1, 2, 3))
        return super().predict(clip, now) * is_left[:, None]


def test_a_row_that_neither_holds_nor_fails_shows_its_mildest_severity_as_that(tmp_path: Path) -> None:
    campaign = limits(FailsByChance(dark=126.0), names=("toy-dark",), accepted_share=0.5)
    run, found = executed(campaign, tmp_path)
    assert (found.limits[0].holds_to, found.limits[0].fails_from) == (None, None)
    page = limits_page(campaign, run)
    (card,) = page.pictures
    assert card.recipe == "toy-dark -0.125 EV (mildest tested: may already fail)"
    assert page.lead_tables[0].rows[0][1] == "at no tested severity"
    assert page.lead_tables[0].rows[0][-1] == "undecided"


def test_a_light_that_wanders_leaves_a_gap_that_covers_where_five_percent_fail(tmp_path: Path) -> None:
    drive = toy_drive(240, spread=30.0)
    _, found = executed(limits(Planted(dark=40.0), drive, names=("toy-dark",), stretch_frames=20, steps=128), tmp_path)
    light = np.array([drive.frame(index).mean() for index in range(240)])  # type: ignore[union-attr]
    truth_ev = log2(40.0 / np.quantile(light, ACCEPTED))
    limit = found.limits[0]
    assert limit.holds_to is not None
    assert limit.fails_from is not None
    assert limit.fails_from <= truth_ev <= limit.holds_to
    assert limit.fails_from < limit.holds_to - 4.0 / 128


class Said(Enum):
    KEPT = "kept"
    REFUSED = "refused"
    WHY = "too dark to be the same scene"


@dataclass(frozen=True)
class ToyVerdicts:
    words: tuple[Said, ...]

    @property
    def reasons(self) -> tuple[Said, ...]:
        return (Said.WHY,) * len(self.words)


def refuses_dark(reference: Any, changed: Any, pixel_map: Any = None) -> ToyVerdicts:
    assert len(reference) == len(changed)
    return ToyVerdicts(tuple(Said.REFUSED if frame.mean() < 20.0 else Said.KEPT for frame in changed))


def test_pictures_that_the_referee_refuses_end_the_range_instead_of_failing(tmp_path: Path) -> None:
    # without the referee it would fail below a mean of 15
    run, found = executed(limits(Planted(dark=15.0), names=("toy-dark",), judge=refuses_dark), tmp_path)
    limit = found.limits[0]
    assert limit.fails_from is None
    assert limit.holds_to == pytest.approx(log2(20.0 / 127.5), abs=4.0 / STEPS)
    assert limit.curve.is_refused
    assert limit.curve.points[-1].kept_share == 0.0
    assert set(run.records("round-00")["reason"].to_pylist()) == {"", Said.WHY.value}
    assert "referee keeps too few beyond" in render_page(limits_page(found.campaign, run))


def test_frames_that_are_wrong_before_anything_is_changed_do_not_count(tmp_path: Path) -> None:
    drive = toy_drive()
    label = np.zeros(64)
    label[:32] = np.radians(90.0)
    labelled = replace(drive, steering_rad=label)
    campaign = limits(Planted(dark=40.0), labelled, names=("toy-dark",), relation="label-mse", tolerance=0.1)
    _, found = executed(campaign, tmp_path)
    assert {each.failing.n for each in found.limits[0].curve.points} == {32}


def test_a_moved_camera_is_held_against_the_answer_moved_with_it(tmp_path: Path) -> None:
    # it answers 0 on both cuts, and the right answer has moved by the yaw: from 10 degrees tolerance on it fails
    campaign = limits(Planted(), names=("toy-yaw",), tolerance=4.0)
    run, found = executed(campaign, tmp_path)
    assert found.limits[0].holds_to == pytest.approx(4.0, abs=8.0 / STEPS)
    assert found.limits[0].fails_from == pytest.approx(4.0, abs=8.0 / STEPS)
    assert found.predictions == 64 + 2 * 64 * len(found.limits[0].curve.points)
    row = run.records("round-00").to_pylist()[-1]
    assert np.degrees(row["expected"]) == pytest.approx(8.0)
    replayed = replay_case(campaign, run, row["case_id"], tmp_path / "pair.png")
    assert replayed.reproduction.is_reproduced
    assert (tmp_path / "pair.png").exists()


def stopping(after: int) -> Any:
    calls = iter(range(after))

    def progress(*_: Any) -> None:
        if next(calls, None) is None:
            raise KeyboardInterrupt

    return progress


@pytest.mark.parametrize("after", [1, 4, 9, 13])
def test_a_run_that_was_killed_ends_as_one_that_was_not(tmp_path: Path, after: int) -> None:
    def campaign() -> Any:
        return limits(Planted(dark=40.0), toy_drive(spread=20.0), names=("toy-dark", "toy-fog"), pairs=("toy-dark,toy-fog",))

    whole, _ = executed(campaign(), tmp_path / "whole")
    run = campaign().start(tmp_path / "stopped")
    with pytest.raises(InterruptedRunError):
        campaign().execute(run, stopping(after), Here(1))
    again = Run.open(run.path)
    campaign().execute(again, workers=Here(2))
    names = [sorted(path.name for path in (each.path / "segments").iterdir()) for each in (whole, again)]
    assert names[0] == names[1]
    assert again.is_finished


def test_a_pair_is_mapped_with_its_frontier(tmp_path: Path) -> None:
    campaign = limits(Planted(dark=28.0), names=("toy-dark", "toy-bright", "toy-fog"), pairs=("toy-dark,toy-fog",))
    run, found = executed(campaign, tmp_path)
    (pair,) = limits_figures(campaign, run)["pairs"]  # type: ignore[misc]
    assert len(pair["cells"]) == 4 * 4 + 4 + 4
    assert [each["values"][0] for each in pair["cells"] if each["standing"] == "fails" and each["values"][1] == 2000.0] == [-3.0, -4.0]
    assert pair["frontier"][0] == [0.0, 20.0]
    assert found.predictions == 64 * (1 + sum(len(each.curve.points) for each in found.limits) + 4 * 4)
    assert found.grid_predictions == 64 * (1 + 3 * STEPS + 4 * 4), "a map is a grid, and counts on both sides"
    # the line surrounds cells without a failure, although 16 stretches could hide more than is accepted
    assert max(each["high"] for each in pair["cells"] if each["standing"] == "holds") > ACCEPTED
    page = render_page(limits_page(campaign, run))
    assert "no frame fails there, or the upper end of the 95 % interval is below" in page
    assert "toy-dark with toy-fog" in page
    assert "polyline" in found.maps[0].first.name or page.count("<polyline") > 0


def test_the_page_begins_with_the_table_then_curves_then_pictures(tmp_path: Path) -> None:
    campaign = limits(Planted(dark=40.0), names=("toy-dark", "toy-fog"))
    run, _ = executed(campaign, tmp_path)
    page = limits_page(campaign, run)
    html = render_page(page)
    places = [html.index(f'id="{key}"') for key in ("table-limits", "leads", "pictures")]
    assert places == sorted(places)
    assert page.lead_tables[0].rows[0][:2] == ("toy-dark", "-1.62 EV")
    assert "toy-dark from -1.75 EV on" in page.verdict
    assert [card.is_bad for card in page.pictures] == [True, False], "toy-fog never moves an answer"
    assert html.count('<span class="badge">') == html.count('<span class="badge good">') == 1


def test_as_many_conditions_are_counted_as_the_table_has_rows(tmp_path: Path) -> None:
    campaign = limits(Planted(), names=("toy-dark", "toy-bright", "toy-fog"))
    run, _ = executed(campaign, tmp_path)
    page = limits_page(campaign, run)
    assert len(page.lead_tables[0].rows) == 3
    assert "none of 3 conditions" in page.verdict
    assert page.headlines[0].value == "3"
    assert "It failed under none of the 3 conditions tested." in statement(campaign, run, ".md")


def test_a_statement_says_what_holds_and_what_was_not_tested(tmp_path: Path) -> None:
    campaign = limits(Planted(dark=40.0), names=("toy-dark", "toy-fog"))
    run, found = executed(campaign, tmp_path)
    told = odd_payload(found)
    assert [(each["part"], each["attribute"], each["name"]) for each in told["tested"]] == [
        ("Camera system", "camera exposure", "toy-dark"),
        ("Environmental conditions", "visibility", "toy-fog"),
    ]
    missing = {each["attribute"]: each["why"] for each in told["not_tested"]}
    assert (missing["wind"], missing["junctions"]) == ("no condition for it", "no condition for it")
    assert missing["rainfall"] == "left out: rain"
    assert missing["visibility"] == "tested in part; left out: fog, haze"
    assert {"dusk and night", "low sun", "cast shadows"} <= set(missing["illumination"].removeprefix("left out: ").split(", "))
    glass = replace(campaign.rows[0], severity=replace(campaign.rows[0].severity, attribute="windscreen and lens cover"))
    assert attribute_of(glass) == ("Camera system", "windscreen and lens cover")
    text = statement(campaign, run, ".md")
    assert "| visibility | toy-fog | 2000 to 20 m | 20 m | none, tested to 20 m |" in text
    assert "## Not tested" in text
    assert json.loads(statement(campaign, run, ".json")) == json.loads(json.dumps(told))
    html = statement(campaign, run, ".html")
    assert "Not tested" in html
    assert 'id="pictures"' not in html
    assert "steers-alike, tolerance 10 degrees; 5.0" in text
    assert "It failed under 1 of the 2 conditions tested." in text
    assert "…" not in text


def test_no_attribute_with_a_condition_is_said_to_have_none(tmp_path: Path) -> None:
    _, found = executed(limits(Planted(), names=("toy-fog",)), tmp_path)
    without = [each["attribute"] for each in odd_payload(found)["not_tested"] if each["why"] == "no condition for it"]
    said = " ".join(row.severity.attribute for row in all_rows(stimuli(), STEPS))
    assert [name for name in without if re.search(rf"\b{name.split()[0]}\b", said)] == []
    where = {row.stimulus: attribute_of(row)[1] for row in all_rows(stimuli(), STEPS)}
    assert (where["overcast"], where["street-lamps"], where["headlights"]) == ("cloudiness", *["artificial illumination"] * 2)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("toy-fog.visibility_m=5", "tested from 2000 to 20 m; got 5"),
        ("toy-fog.visibility_m=nan", "tested from 2000 to 20 m; got nan"),
        ("toy-fog.visibility_km=1", "no parameter of 'toy-fog' named 'visibility_km'; did you mean 'visibility_m'"),
        ("toy-fog.visibility_m=150m", "a plain number in m"),
        ("toy-frog=100", "no condition named 'toy-frog'; did you mean 'toy-fog'"),
        ("toy-fog", "written as fog.visibility_m=150"),
        ("exposure-toy=much", "means 'toy-dark' and 'toy-bright'; write one of these names in its place"),
    ],
)
def test_a_limit_to_hold_that_makes_no_sense_is_a_sentence(text: str, sentence: str) -> None:
    with pytest.raises((BadParametersError, UnknownNameError)) as caught:
        read_hold(text, all_rows(CONDITIONS, STEPS))
    assert sentence in str(caught.value)
    assert row_named("fog-toy.visibility_m", all_rows(CONDITIONS, STEPS)).name == "toy-fog"


def test_the_sign_tells_which_of_two_directions_is_to_be_held() -> None:
    rows = all_rows(CONDITIONS, STEPS)
    assert [read_hold(f"exposure-toy.ev={value}", rows)[0].name for value in (1, -1)] == ["toy-bright", "toy-dark"]


def test_a_pair_brings_its_conditions_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("skidpad.kinds.limits.curves.stimuli", lambda _=(): dict(CONDITIONS))
    rows, made = rows_of(("toy-fog",), STEPS, ("toy-fog,exposure-toy.ev", "fog-toy,toy-dark"))
    assert [row.name for row in rows] == ["toy-fog", "toy-dark", "toy-bright"]
    assert set(made) == {"fog-toy", "exposure-toy"}


def test_a_condition_that_the_run_did_not_test_is_said_to_be_that() -> None:
    with pytest.raises(BadParametersError, match=r"rain was not tested in this run.*it tested toy-fog"):
        read_hold("rain.mm_per_h=3", [row for row in all_rows(CONDITIONS, STEPS) if row.name == "toy-fog"])


def test_drives_that_nothing_can_be_told_from_are_a_sentence_each() -> None:
    with pytest.raises(BadDriveError, match="`limits` needs at least 80 frames here, two stretches of 40"):
        limits(Planted(), stretch_frames=40).check_frames()
    with pytest.raises(BadDriveError, match="'memory' gives 5"):
        limits(Planted(), drive_from_arrays(np.zeros((5, 32, 64, 3), np.uint8)), stretch_frames=0).check_frames()
    with pytest.raises(BadDriveError, match="show nothing"):
        limits(Planted(), drive_from_arrays(np.full((64, 32, 64, 3), 90, np.uint8))).check_frames()
    with pytest.raises(BadDriveError, match=r"keeps none of 8 unchanged frames .*too dark"):
        limits(Planted(), toy_drive(light=10.0), judge=refuses_dark).check_frames()


def test_grey_frames_are_tested_and_the_page_says_what_they_cannot_tell(tmp_path: Path) -> None:
    grey = np.repeat(np.random.default_rng(0).integers(0, 255, (64, 32, 64, 1)).astype(np.uint8), 3, axis=3)
    campaign = limits(Planted(), drive_from_arrays(grey), names=("toy-dark",))
    campaign.check_frames()
    run, _ = executed(campaign, tmp_path)
    assert any("no colour" in remark for remark in limits_page(campaign, run).remarks)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"pairs": ("toy-dark",)}, "two conditions with a comma"),
        ({"pairs": ("toy-dark,toy-bright",)}, "both exposure-toy"),
        ({"pairs": ("toy-dark,toy-frog",)}, "did you mean 'toy-fog'"),
    ],
)
def test_a_pair_that_is_none_is_a_sentence(changes: dict[str, Any], sentence: str) -> None:
    with pytest.raises((BadParametersError, UnknownNameError), match=sentence):
        limits(Planted(), **changes).check_pairs()


def test_frames_are_chosen_evenly_and_a_subject_with_memory_sees_them_in_runs() -> None:
    drive = toy_drive(640)
    spread = FrameSample.of(drive, 64, 0, 0)
    assert (len(spread.indices), spread.indices[0], spread.indices[-1]) == (64, 0, 639)
    assert spread.stretch == 4  # two seconds at 20 Hz, of which every tenth frame is shown
    runs = FrameSample.of(drive, 64, 0, 5)
    assert len(runs.indices) == 64
    assert all(np.all(np.diff(runs.indices[chunk]) == 1) for chunk in runs.chunks)
    assert sum(chunk.stop - chunk.start for chunk in runs.chunks) == 64


def leaves_from(first_ev: float) -> Any:
    """Returns what makes drives in a world in which a car leaves its lane from an exposure on; the second scenario is lost anyway."""

    def courses(_: Any, cases: Any, *__: Any) -> list[Course]:
        found = []
        for number, case in enumerate(cases):
            dark = any(step.params.real("ev") <= first_ev for step in case.recipe.steps)
            found.append(Course(np.array([0.0, 2.0 if dark or number == 1 else 0.3]), np.zeros(2), np.zeros(2)))
        return found

    return courses


@pytest.mark.parametrize(("first_ev", "is_false_safe"), [(-1.0, True), (-3.0, False)])
def test_a_car_that_leaves_its_lane_where_offline_holds_is_the_marked_row(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, first_ev: float, is_false_safe: bool
) -> None:
    monkeypatch.setattr(ClosedLoopRunner, "courses", leaves_from(first_ev))
    campaign = limits(Planted(dark=40.0), names=("toy-bright", "toy-dark"), online=True, scenarios=3)
    run, found = executed(campaign, tmp_path)
    assert found.sound == (True, False, True)
    over, under = sorted(found.limits, key=lambda each: each.row.name)
    assert over.left_from is None
    assert under.left_from is not None
    assert (under.left_from.left, under.left_from.cases) == (2, 2)
    assert under.row.value(under.left_from.position) == pytest.approx(first_ev, abs=4.0 / 16)
    assert under.is_false_safe is is_false_safe
    page = limits_page(campaign, run)
    assert (page.lead_tables[0].rows[0][0] == "toy-dark", page.lead_tables[0].rows[0][-1].startswith("false-safe")) == (True, is_false_safe)
    assert any("Of 3 scenarios 2 count" in warning for warning in page.warnings)
    told = limits_figures(campaign, run)["limits"]
    assert [row["online_leaves_from"] is None for row in told] == [row["name"] == "toy-bright" for row in told]  # type: ignore[attr-defined]


@pytest.mark.slow
def test_the_network_that_comes_along_is_driven_under_a_condition(tmp_path: Path) -> None:
    campaign = limits(demo(), toy_drive(), names=("toy-dark",), online=True, scenarios=2, seconds=3.0)
    run, found = executed(campaign, tmp_path)
    assert sum(found.sound) > 0
    assert {each.position for each in found.limits[0].drives} >= {STEPS // 2, STEPS}
    row = run.records("online-01").to_pylist()[0]
    assert replay_case(campaign, run, row["case_id"]).reproduction.is_reproduced
