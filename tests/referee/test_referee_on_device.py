"""Judged on a device, pictures get the words that they get on the CPU, where the plain formulas are."""

import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import cv2
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from skidpad.core.images import Camera, NumpyFrames, as_numpy, split_views
from skidpad.core.stimuli import grid_recipes
from skidpad.drives.opening import open_drive
from skidpad.kinds.pictures import work
from skidpad.kinds.pictures.campaign import DeepTest
from skidpad.kinds.pictures.settings import DeepTestSettings
from skidpad.referee import on_device
from skidpad.referee.borders import may_have_border
from skidpad.referee.on_device import SeenOriginals
from skidpad.referee.verdict import Reason, Verdicts, has_border, judge
from skidpad.runs.workers.here import Here
from skidpad.stimuli.registry import Preset, preset_stimuli
from skidpad.subjects.description import pretrained

sys.path.insert(0, str(Path(__file__).parents[2]))
from benchmarks import referee as bench

SIZES = [(320, 160), (640, 480), (212, 160), (97, 61), (200, 66)]
NEEDS_GPU = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")


def rendered(width: int = 320, height: int = 160, count: int = 3, seed: int = 3) -> NumpyFrames:
    frames = open_drive(f"rendered?frames={count}&seed={seed}").read(range(count)).frames
    return np.stack([np.asarray(cv2.resize(frame, (width, height), interpolation=cv2.INTER_AREA), np.uint8) for frame in frames])


def everything(frames: NumpyFrames) -> dict[str, NumpyFrames]:
    """Returns the frames changed and ruined in every way that the benchmark knows, and burnt roads."""
    height = frames.shape[1]
    made = {**bench.kept(frames, 1), **bench.ruined(frames, bench.roads_of(frames), 2)}
    for name, rows in {"burnt": slice(height * 6 // 10, None), "pale": slice(height * 5 // 10, height * 7 // 10)}.items():
        made[name] = frames.copy()
        made[name][:, rows] = 255
    return made


def differing(one: Verdicts, other: Verdicts) -> list[tuple[Reason, Reason]]:
    """Returns the reasons that differ; the numbers behind them must be near each other."""
    np.testing.assert_allclose(other.overlap, one.overlap, atol=0.03)
    np.testing.assert_allclose(other.likeness, one.likeness, atol=0.02)
    return [(here, there) for here, there in zip(one.reasons, other.reasons, strict=True) if here is not there]


def agreement(frames: NumpyFrames, changed: dict[str, NumpyFrames], device: str = "cpu") -> tuple[int, int]:
    """Returns how many reasons differ on a device, of how many."""
    seen = SeenOriginals(frames, device)
    apart = {name: differing(judge(frames, some), seen.judge(some)) for name, some in changed.items()}
    return sum(map(len, apart.values())), sum(map(len, changed.values()))


@pytest.mark.parametrize("size", SIZES, ids=lambda size: f"{size[0]}x{size[1]}")
def test_pictures_of_any_size_get_the_same_reasons_but_for_one_in_a_hundred(size: tuple[int, int]) -> None:
    frames = rendered(*size, count=2)
    differ, judged = agreement(frames, everything(frames))
    assert differ <= judged // 100


@pytest.mark.parametrize("preset", list(Preset))
def test_conditions_and_transforms_get_the_same_reasons_but_for_one_in_a_hundred(preset: Preset) -> None:
    frames, given_stimuli = rendered(count=2), preset_stimuli(preset)
    recipes = [recipe for recipe in grid_recipes(given_stimuli) if not recipe.moves_camera(given_stimuli)]
    made = {recipe.to_json(): as_numpy(recipe.apply(frames, given_stimuli)) for recipe in recipes[::5]}
    differ, judged = agreement(frames, made)
    assert judged > 30
    assert differ <= judged // 100


@pytest.mark.real_data
@pytest.mark.parametrize("folder", ["comma10k/imgs", "weather/comma_night", "udacity-ch2-test/center"])
def test_recorded_pictures_get_the_same_reasons_but_for_one_in_a_hundred(shared_data: Path, folder: str) -> None:
    frames = bench.read(bench.chosen(shared_data / folder, 3))
    differ, judged = agreement(frames, everything(frames))
    assert differ <= judged // 100


@pytest.mark.cuda
@NEEDS_GPU
@pytest.mark.parametrize("size", SIZES, ids=lambda size: f"{size[0]}x{size[1]}")
def test_a_gpu_gives_the_same_reasons_but_for_one_in_fifty(size: tuple[int, int]) -> None:
    frames = rendered(*size)
    differ, judged = agreement(frames, everything(frames), "cuda")
    assert differ <= judged // 50


def test_only_the_places_that_are_asked_about_are_judged_and_in_their_order() -> None:
    frames = rendered(count=4)
    changed = np.stack([frames[0], frames[1] * 0, frames[2], np.full_like(frames[3], 128)])
    seen = SeenOriginals(torch.from_numpy(frames), "cpu")
    whole = judge(frames, changed).reasons
    assert whole == (Reason.SAME_SCENE, Reason.BLANK) * 2
    for places in ([0, 1, 2, 3], [3, 0], [1], [2, 2]):
        for some in (changed, torch.from_numpy(changed)):
            assert seen.judge(some, np.array(places)).reasons == tuple(whole[place] for place in places)
    assert len(seen.judge(changed, np.zeros(0, np.int64))) == 0


def test_copies_that_are_at_hand_are_looked_at_instead_of_new_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    frames = rendered(count=3)
    changed = frames.copy()
    changed[1:, :, :80] = 0  # a border
    seen, places = SeenOriginals(torch.from_numpy(frames), "cpu"), np.array([2, 0, 1])
    whole = seen.judge(torch.from_numpy(changed), places).reasons
    assert whole == (Reason.BORDER, Reason.SAME_SCENE, Reason.BORDER)
    asked: list[int] = []

    def copies(numbers):
        asked.extend(numbers)
        return [(frames[places[number]], changed[places[number]]) for number in numbers]

    monkeypatch.setattr(on_device, "_copied", lambda *_: pytest.fail("copied again"))
    assert seen.judge(torch.from_numpy(changed), places, copies).reasons == whole
    assert {0, 2} <= set(asked)


def test_nothing_is_judged_where_nothing_is_asked() -> None:
    frames = rendered(count=1)
    assert len(SeenOriginals(frames[:0], "cpu").judge(frames[:0])) == 0


def test_originals_are_looked_at_once_by_however_many_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[int] = []
    of = on_device._Originals.of
    monkeypatch.setattr(on_device._Originals, "of", lambda frames, *given: (looked.append(len(frames)), of(frames, *given))[1])
    frames = rendered()
    seen = SeenOriginals(frames, "cpu")
    with ThreadPoolExecutor(3) as threads:
        found = list(threads.map(lambda _: seen.judge(frames).reasons, range(6)))
    assert looked == [3]
    assert set(found) == {(Reason.SAME_SCENE,) * 3}


def test_a_device_gets_batches_of_one_size_and_no_picture_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    frames = rendered(count=5)
    changed = np.stack([frames[0], frames[1] * 0, frames[2][:, ::-1], np.full_like(frames[3], 128), frames[4] // 2])
    sizes: list[int] = []
    classes_of = on_device.classes_of
    monkeypatch.setattr(on_device, "_BATCH", 2)
    monkeypatch.setattr(on_device, "_TOGETHER_PX", 3 * 320 * 160)
    monkeypatch.setattr(on_device, "classes_of", lambda network, some: (sizes.append(len(some)), classes_of(network, some))[1])
    monkeypatch.setattr(on_device, "_BATCHES", 1)
    there = judge(frames, changed, device="cpu:0")  # the CPU by a name that is asked as a device is
    assert set(sizes) == {2}
    monkeypatch.setattr(on_device, "_BATCHES", 2)
    sizes.clear()
    assert not differing(there, judge(frames, changed, device="cpu:0"))
    assert set(sizes) == {2, 4}
    assert not differing(judge(frames, changed), there)


def test_cameras_side_by_side_speak_for_their_frame() -> None:
    frames = rendered(width=960, count=3)
    frames[:, :, 320:640], frames[:, :, 640:] = rendered(seed=4), rendered(seed=5)
    covered = frames.copy()
    covered[1:, :, 640:] = 0
    here, there = judge(frames, covered, views=3), SeenOriginals(frames, "cpu", views=3).judge(torch.from_numpy(covered))
    assert not differing(here, there)
    assert there.reasons[1:] == (Reason.BLANK,) * 2
    some = SeenOriginals(frames, "cpu", views=3).judge(covered, np.array([2, 0]))
    assert some.reasons == (here.reasons[2], here.reasons[0])
    assert len(split_views(frames, 3)) == 9


def test_a_moved_camera_is_compared_with_what_it_must_show() -> None:
    frames, conditions = rendered(count=2), preset_stimuli(Preset.CONDITIONS)
    moving = [recipe for recipe in grid_recipes(conditions) if recipe.moves_camera(conditions)]
    assert len({recipe.name for recipe in moving}) > 3
    for recipe in moving[::4]:
        pixel_map = recipe.pixel_map(conditions, Camera.guess(160, 320))
        shown, changed = as_numpy(recipe.reference(frames, conditions)), as_numpy(recipe.apply(frames, conditions))
        there = SeenOriginals(torch.from_numpy(shown), "cpu", pixel_map).judge(torch.from_numpy(changed))
        assert not differing(judge(shown, changed, pixel_map), there)


PATCHES = st.lists(
    st.tuples(*[st.integers(0, 40)] * 4, st.sampled_from([0, 1, 3, 39, 41, 43, 90, 128, 250, 255]), st.integers(0, 3)),
    min_size=1,
    max_size=6,
)


@settings(max_examples=300)
@given(st.integers(0, 2**32), st.integers(3, 48), st.integers(3, 48), PATCHES, st.booleans())
def test_no_border_is_missed(seed: int, height: int, width: int, patches: list[tuple[int, ...]], is_alike: bool) -> None:
    rng = np.random.default_rng(seed)
    before = cv2.resize(rng.integers(0, 256, (4, 4, 3), np.uint8), (width, height))
    after = before.copy() if is_alike else rng.integers(0, 256, (height, width, 3), np.uint8)
    for top, left, down, across, level, spread in patches:
        part = after[top : top + down + 1, left : left + across + 1]
        part[:] = np.clip(level + rng.integers(-spread, spread + 1, part.shape), 0, 255)
    if seed % 3 == 0:
        after = after[::-1, ::-1].copy()
    named = may_have_border(torch.from_numpy(before)[None], torch.from_numpy(after)[None])
    assert bool(named[0]) or not has_border(before, after)


def test_the_borders_that_ruin_leaves_are_named_and_few_others() -> None:
    frames = rendered()
    there = torch.from_numpy(frames)
    for name, change in bench.RUINING.items():
        changed = np.stack([change(frame, np.random.default_rng(0)) for frame in frames])
        has = [has_border(*pair) for pair in zip(frames, changed, strict=True)]
        assert "black " not in name or all(has)
        assert all(named or not is_so for named, is_so in zip(may_have_border(there, torch.from_numpy(changed)).tolist(), has, strict=True))
    assert not may_have_border(there, there).any()


def test_an_original_of_another_size_is_scaled_before_corners_are_compared() -> None:
    frames, small = rendered(), rendered(200, 100)
    changed = np.stack([bench.RUINING["rotated 12 deg, black corners"](frame, np.random.default_rng(0)) for frame in small])
    there = SeenOriginals(frames, "cpu").judge(changed)
    assert there.reasons == judge(frames, changed).reasons == (Reason.BORDER,) * 3


def campaign(device: str, **changes: object) -> DeepTest:
    transforms = (
        "brightness(shift=40)",
        "contrast(gain=2.6)",
        "translation(dx_px=60,dy_px=0)",
        "camera-yaw(yaw_deg=3)",
        "rain(mm_per_h=20)",
    )
    settings_ = DeepTestSettings(
        subject=str(pretrained("pilotnet-rendered")),
        drive="rendered?frames=6&seed=3",
        transforms=transforms,
        relation="steers-alike",
        tolerance=0.01,
        referee="on",
        device=device,
        **{"criteria": (), **changes},
    )
    return DeepTest.load(settings_)


@pytest.mark.usefixtures("referee_on")
def test_a_campaign_on_a_device_looks_at_its_originals_once_and_finds_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[tuple[int, object]] = []
    of = on_device._Originals.of
    monkeypatch.setattr(on_device._Originals, "of", lambda frames, *given: (looked.append((len(frames), given[1])), of(frames, *given))[1])
    monkeypatch.setattr(on_device, "_BATCH", 2)
    monkeypatch.setattr(work, "_GPU_FRAMES", 4)
    monkeypatch.setattr(work, "_GPU_PART_PICTURES", 12)
    found = {}
    for device in ("cpu", "cpu:0"):
        made = campaign(device)
        run = made.start(tmp_path / device.replace(":", "-"))
        made.execute(run, workers=Here(2))
        rows = run.records("grid", ("case_id", "referee", "reason", "violated")).to_pylist()
        found[device] = {row["case_id"]: (row["referee"], row["reason"], row["violated"]) for row in rows}
    assert found["cpu:0"] == found["cpu"]
    assert {word for word, _, _ in found["cpu"].values()} >= {"kept", "refused"}
    # the two cuts of a block of six frames, whatever its parts
    assert sorted(frames for frames, pixel_map in looked if pixel_map is None) == [2, 4]


@pytest.mark.usefixtures("referee_on")
def test_a_search_on_a_device_looks_at_each_of_its_seed_frames_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[object] = []
    of = on_device._Originals.of
    monkeypatch.setattr(on_device._Originals, "of", lambda frames, *given: (looked.append(given[1]), of(frames, *given))[1])
    monkeypatch.setattr(on_device, "_BATCH", 1)
    made = campaign("cpu:0", searches=("greedy",), criteria=("nc",), seeds=2, max_failed_tries=2)
    run = made.start(tmp_path / "run")
    made.execute(run)
    assert run.records("greedy").num_rows > 2
    assert sum(pixel_map is None for pixel_map in looked) <= 1 + 2  # the block of the grid, and the seed frames
