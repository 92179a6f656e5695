"""What campaigns over a drive do on a GPU, tried on the CPU: `cpu:0` is a device that is not called `cpu`."""

import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import cv2
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from skidpad.core.errors import BadParametersError, InterruptedRunError, LostDriveError, UnknownNameError
from skidpad.core.images import pixel_hash, write_image
from skidpad.core.stimuli import Params, Recipe, Step, grid_recipes
from skidpad.drives import drive_from_arrays, open_drive
from skidpad.drives.drive import Drive
from skidpad.kinds.pictures import reading
from skidpad.kinds.pictures import work as batches
from skidpad.kinds.pictures.campaign import DeepTest
from skidpad.kinds.pictures.judging import fetched, uploaded
from skidpad.kinds.pictures.reading import KeptBlocks, LastRead, Shown
from skidpad.kinds.pictures.settings import DeepTestSettings
from skidpad.kinds.pictures.weather.campaign import InWeathers, StyleChoice, drawn_styles
from skidpad.kinds.pictures.work import DeepTestWork, cut, default_shard_frames, grid_cut, lanes
from skidpad.referee.on_device import SeenOriginals
from skidpad.runs.folder import Run
from skidpad.runs.workers.here import Here, open_lanes
from skidpad.stimuli.pictures import stimuli
from skidpad.stimuli.weather.blocks import start
from skidpad.stimuli.weather.files import WeatherCard
from skidpad.stimuli.weather.samples import fresh_model
from skidpad.stimuli.weather.settings import Method, Sizes, WeatherSettings
from skidpad.stimuli.weather.stimulus import WeatherLooks
from skidpad.stimuli.weather.translation import Weather
from skidpad.subjects.description import pretrained
from skidpad.subjects.network_subject import NetworkSubject
from skidpad.subjects.zoo import ARCHITECTURES

GPU = "cpu:0"
NEEDS_GPU = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
SIZES = Sizes(filters=4, blocks=1, style=3, hidden=8, scales=1)


def noise(frames: int) -> np.ndarray:
    rng = np.random.default_rng(4)
    return np.stack([cv2.resize(rng.integers(0, 256, (6, 8, 3), dtype=np.uint8), (80, 60)) for _ in range(frames)])


def made(device: str, **changes: object) -> DeepTest:
    architecture = ARCHITECTURES.get("pilotnet")
    with torch.random.fork_rng([]):
        torch.manual_seed(0)
        subject = NetworkSubject.of_module(architecture.build(), architecture.describe("net", "net.safetensors"), device=device)
    given = {"transforms": ("brightness", "shear"), "searches": ("grid", "greedy", "random"), "shard_frames": 7, **changes}
    settings = DeepTestSettings(
        subject="net", drive="noise", relation="steers-alike", tolerance=1e-3, seeds=1, max_failed_tries=4, device=device, **given
    )
    return DeepTest(settings, subject, drive_from_arrays(noise(12)), stimuli(settings.transforms))


def run_of(campaign: DeepTest, folder: Path, threads: int = 0) -> Run:
    run = campaign.start(folder)
    campaign.execute(run, workers=Here(threads) if threads else None)
    return run


def segments(run: Run) -> list[str]:
    return sorted(path.name for path in (run.path / "segments").iterdir())


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> tuple[Run, Run]:
    """A run as a GPU gets it, in several small batches a block, by three lanes and by one."""
    folder = tmp_path_factory.mktemp("runs")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(batches, "_GPU_FRAMES", 4)
        patch.setattr(batches, "_GPU_LANES", 3)
        return run_of(made(GPU), folder / "few"), run_of(made(GPU), folder / "alone", 1)


class TestDeepTest:
    def test_any_number_of_lanes_writes_the_same_bytes(self, runs: tuple[Run, Run]) -> None:
        few, alone = runs
        assert few.is_finished
        assert segments(few) == segments(alone)

    def test_the_results_are_those_of_the_cpu(self, runs: tuple[Run, Run], tmp_path: Path) -> None:
        # brightness is exact on both; shear rounds elsewhere
        columns = ("case_id", "stimulus", "recipe", "frame_index", "mutant", "active_neurons", "picture")
        on_cpu = run_of(made("cpu", searches=("grid",)), tmp_path / "cpu")
        theirs, ours = (run.records("grid", columns).to_pylist() for run in (runs[0], on_cpu))
        assert [row["case_id"] for row in theirs] == [row["case_id"] for row in ours]
        assert [row for row in theirs if row["stimulus"] == "brightness"] == [row for row in ours if row["stimulus"] == "brightness"]
        np.testing.assert_allclose([row["mutant"] for row in theirs], [row["mutant"] for row in ours], atol=5e-3)
        pictures = [row for row in theirs if row["picture"] is not None]
        assert len(pictures) > 20
        campaign = made(GPU)
        for row in pictures[::15]:
            assert pixel_hash(campaign.picture(row["frame_index"], Recipe.from_json(row["recipe"]))) == row["picture"]

    def test_records_come_recipe_by_recipe_however_frames_are_cut(self, runs: tuple[Run, Run]) -> None:
        campaign = made(GPU)
        rows = runs[0].records("grid", ("recipe", "frame_index")).to_pylist()
        recipes = [recipe.to_json() for recipe in grid_recipes(campaign.stimuli)]
        wanted = [(recipe, frame) for block in range(2) for recipe in recipes for frame in campaign.block(block)]
        assert [(row["recipe"], row["frame_index"]) for row in rows] == wanted

    @pytest.mark.cuda
    @NEEDS_GPU
    def test_any_number_of_lanes_writes_the_same_bytes_on_a_gpu(self, tmp_path: Path) -> None:
        few, alone = (run_of(made("cuda"), tmp_path / str(lanes_), lanes_) for lanes_ in (6, 1))
        assert segments(few) == segments(alone)

    def test_the_settings_keep_the_shards_that_a_device_gets(self) -> None:
        settings = {"subject": str(pretrained("pilotnet-rendered")), "drive": "rendered?frames=4&width=32&height=24", "tolerance": 10.0}
        for device, frames in (("cpu", 64), (GPU, 256)):
            campaign = DeepTest.load(DeepTestSettings(device=device, relation="steers-alike", **settings))
            assert (campaign.settings.shard_frames, campaign.shard_frames) == (frames, frames)

    def test_parts_hold_more_of_the_grid_on_a_gpu(self) -> None:
        parts = {device: grid_cut(made(device, shard_frames=0), 0) for device in ("cpu", GPU)}
        rows = len(grid_recipes(stimuli(("brightness", "shear"))))
        for cuts in parts.values():
            assert [row for part in cuts for row in range(rows)[part.rows]] == list(range(rows))
        assert parts[GPU][0].rows.stop == min(rows, 2048 // 12)


class TestBatches:
    @given(st.integers(0, 2000), st.integers(0, 300), st.sampled_from(["cpu", GPU]), st.integers(0, 4000 * 3000))
    def test_every_frame_is_in_one_batch(self, frames: int, lead: int, device: str, frame_px: int) -> None:
        parts = cut(frames, lead, device, frame_px)
        assert [place for part in parts for place in range(part.start, part.stop)] == list(range(frames))
        assert all(part.stop - part.start >= 2 * lead for part in parts[:-1])
        if device == "cpu":
            assert parts == cut(frames, lead)

    @pytest.mark.parametrize(("size", "batch", "shard"), [((240, 320), 256, 256), ((480, 640), 64, 256), ((1080, 1920), 9, 64)])
    def test_large_frames_are_shown_in_smaller_batches(self, size: tuple[int, int], batch: int, shard: int) -> None:
        drive = drive_from_arrays(np.zeros((1, *size, 3), np.uint8))
        assert cut(1000, 0, GPU, size[0] * size[1])[0] == slice(0, batch)
        assert default_shard_frames(0, GPU, drive) == shard
        assert default_shard_frames(0, "cpu", drive) == 64
        assert default_shard_frames(200, GPU, drive) == 400

    def test_a_gpu_is_fed_by_a_few_threads(self) -> None:
        assert lanes("cpu") == 0
        assert 1 <= lanes(GPU) <= 8


class TestLastRead:
    def test_what_is_read_ahead_is_read_once(self) -> None:
        kept, times, go = LastRead(2), [], threading.Event()

        def read() -> tuple:
            times.append(threading.current_thread() is threading.main_thread())
            go.wait(60)
            return "batch", "clip"

        kept.begin(7, read)
        kept.begin(7, read)
        go.set()
        assert kept.get(7, read) == ("batch", "clip")
        assert times == [False]

    def test_the_oldest_is_let_go(self) -> None:
        kept, times = LastRead(2), []

        def reader(key: int) -> Callable[[], tuple]:
            return lambda: (times.append(key), key)

        for key in (0, 1, 0, 2, 1, 0):
            assert kept.get(key, reader(key))[1] == key
        assert times == [0, 1, 2, 0]

    def test_a_drive_that_was_gone_is_read_again(self) -> None:
        kept, tried = LastRead(2), threading.Event()

        def gone() -> tuple:
            tried.set()
            raise LostDriveError("gone")

        kept.begin(1, gone)
        assert tried.wait(60)
        with pytest.raises(LostDriveError):
            kept.get(2, gone)
        assert kept.get(2, lambda: ("there", "again")) == ("there", "again")


class TestKeptBlocks:
    def test_frames_are_read_once_for_both_steps(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        read: list[list[int]] = []
        plain = Drive.read

        def counted(drive: Drive, indices: object, *given: object, **named: object) -> object:
            read.append(list(indices))  # type: ignore[call-overload]
            return plain(drive, indices, *given, **named)  # type: ignore[arg-type]

        monkeypatch.setattr(Drive, "read", counted)
        run_of(made(GPU, searches=("grid",)), tmp_path / "kept")
        assert sorted(read) == [list(range(7)), list(range(7, 12))]
        on_cpu = made("cpu", searches=("grid",))
        read.clear()
        run_of(on_cpu, tmp_path / "cpu", 1)
        assert len(read) == 4

    def test_a_run_that_goes_on_ends_with_the_same_bytes(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        whole = run_of(made(GPU, searches=("grid",)), tmp_path / "whole")
        campaign = made(GPU, searches=("grid",))
        run = campaign.start(tmp_path / "killed")

        def killed(*_: object) -> None:
            raise KeyboardInterrupt

        with monkeypatch.context() as patch:
            patch.setattr(DeepTestWork, "grid_part", killed)
            with pytest.raises(InterruptedRunError):
                campaign.execute(run, workers=Here(1))
        made(GPU, searches=("grid",)).execute(run, workers=Here(1))
        assert segments(run) == segments(whole)

    def test_what_does_not_fit_is_not_kept(self, monkeypatch: pytest.MonkeyPatch) -> None:
        drive = drive_from_arrays(noise(4))
        shown = [Shown(drive.read([place]), noise(1)) for place in range(3)]
        monkeypatch.setattr(reading, "_MOST_KEPT_BYTES", 4 * shown[0].batch.clip.nbytes)
        kept = KeptBlocks(GPU)
        assert [kept.keep(block, each) for block, each in enumerate(shown)] == [True, True, False]
        assert not kept.keep(0, shown[0]), "a block that is kept is not counted twice"
        assert kept.take(2) is None
        taken = kept.take(0)
        assert taken is not None
        np.testing.assert_array_equal(taken.batch.clip, shown[0].batch.clip)
        assert kept.take(0) is None
        assert kept.keep(2, shown[2])
        kept.close()
        assert kept.take(2) is None
        assert kept.keep(0, shown[0])
        assert not KeptBlocks("cpu").keep(0, shown[0])

    def test_what_the_referee_knows_counts_for_each_camera(self, monkeypatch: pytest.MonkeyPatch) -> None:
        shown = Shown(drive_from_arrays(noise(4)).read([0]), noise(1), seen=[SeenOriginals(noise(1), GPU)])
        monkeypatch.setattr(reading, "_MOST_KEPT_BYTES", 2 * shown.batch.clip.nbytes + 2 * reading._LOOKED_BYTES)
        assert KeptBlocks(GPU).keep(0, shown, views=2)
        assert not KeptBlocks(GPU).keep(0, shown, views=3)

    def test_the_referee_knows_about_as_much_as_is_counted(self) -> None:
        seen = SeenOriginals(open_drive("rendered?frames=4&width=160&height=80").read(range(4)).frames, GPU)
        seen.look()
        known = seen._known
        assert known is not None
        tensors = [known.roads, known.own_cars, known.clipped, known.is_steady, known.has_road]
        tensors += [*known.edges.doubled, known.edges.signed, known.edges.mirrored, known.edges.symmetry]
        tensors += [getattr(known.ground, name) for name in known.ground.__slots__]
        assert reading._LOOKED_BYTES * 0.9 < sum(each.nbytes for each in tensors) / 4 <= reading._LOOKED_BYTES

    def test_nothing_stays_after_a_run(self, tmp_path: Path) -> None:
        campaign = made(GPU, searches=("grid",))
        run_of(campaign, tmp_path / "run")
        assert campaign.kept_blocks.take(0) is None
        assert campaign.kept_blocks._bytes == 0

    def test_broken_frames_are_counted_once(self, tmp_path: Path) -> None:
        campaign = made(GPU, searches=("grid",))
        frames = noise(12)
        for number, frame in enumerate(frames):
            write_image(tmp_path / "drive" / f"{number:03d}.png", frame)
        (tmp_path / "drive" / "003.png").write_bytes(b"no picture")
        broken = replace(campaign, drive=open_drive(str(tmp_path / "drive")))
        run = run_of(broken, tmp_path / "run")
        assert [problem.frame_id for problem in run.problems()] == ["003"]
        assert set(run.records("grid", ("frame_index",))["frame_index"].to_pylist()) == set(range(12)) - {3}


class TestTransfers:
    def test_frames_come_back_as_they_went(self) -> None:
        frames = noise(6)
        there = uploaded(frames, GPU)
        places = np.array([4, 0, 5])
        for found in (fetched(there, places), fetched(frames, places)):
            np.testing.assert_array_equal(np.stack(found), frames[places])
        assert len(fetched(there, places[:0])) == 0
        assert all(np.shares_memory(found, frames) for found in fetched(frames, places))

    @pytest.mark.cuda
    @NEEDS_GPU
    def test_on_a_gpu_they_do_so_beside_its_work(self) -> None:
        frames = noise(64)
        there = uploaded(frames, "cuda")
        changed = 255 - there
        assert float(changed.float().mean()) > 0  # waits for it
        np.testing.assert_array_equal(np.stack(fetched(changed, np.arange(1, 64, 3))), 255 - frames[1::3])


class Counted(Weather):
    """Counts the frames that it encodes."""

    encoded_frames = 0

    def encode(self, frames):
        self.encoded_frames += len(frames)
        return super().encode(frames)


def looks(count: int, seed: int = 0, device: str = "cpu") -> WeatherLooks:
    with torch.random.fork_rng([]):
        torch.manual_seed(seed)
        model = fresh_model(WeatherSettings(sizes=SIZES, size_px=32, crop_px=32))
        start(model, gain_from_relu=True)
    card = WeatherCard(
        "toy", Method.MUNIT, SIZES, 24, "a", "", "b", "", rendered=True, steps=1, batch_size=1, crop_px=16, seed=0, weights_sha256=str(seed)
    )
    return WeatherLooks(Counted(card, model.state_dict(), device), drawn_styles(card, StyleChoice.RANDOM, count, 0))


class TestInWeathers:
    @pytest.mark.parametrize("as_tensors", [False, True])
    def test_styles_share_one_encoding_and_look_as_ever(self, as_tensors: bool) -> None:
        weathers = {"rain": looks(3), "snow": looks(2, seed=1)}
        frames = torch.from_numpy(noise(6)) if as_tensors else noise(6)
        plain = [np.asarray(recipe.apply(frames, weathers)) for recipe in grid_recipes(weathers)]
        for each in weathers.values():
            each.weather.encoded_frames = 0
        scene = InWeathers(frames, weathers)
        for recipe, picture in zip(grid_recipes(weathers), plain, strict=True):
            found = scene.under(recipe)
            assert type(found) is type(frames)
            np.testing.assert_array_equal(np.asarray(found), picture)
        # six frames are two groups of four, the last filled up
        assert [each.weather.encoded_frames for each in weathers.values()] == [8, 8]
        assert len({picture.tobytes() for picture in plain}) == 5

    def test_other_recipes_are_applied_step_by_step(self) -> None:
        weathers = {"rain": looks(2), "snow": looks(1, seed=1)}
        frames = noise(3)
        scene = InWeathers(frames, weathers)
        (first, second), (alone,) = weathers["rain"].space.grid, weathers["snow"].space.grid
        assert scene.under(Recipe()) is frames
        two = Recipe((Step("rain", first), Step("rain", second)))
        for recipe in (two, Recipe.of("snow", alone)):
            np.testing.assert_array_equal(scene.under(recipe), recipe.apply(frames, weathers))
        with pytest.raises(UnknownNameError, match="rain"):
            scene.under(Recipe.of("rian", first))
        with pytest.raises(BadParametersError, match="style_0"):
            scene.under(Recipe.of("rain", Params(**{**first, "style_0": 99.0})))
        assert len(InWeathers(frames[:0], weathers).under(Recipe.of("rain", first))) == 0

    @pytest.mark.cuda
    @NEEDS_GPU
    def test_threads_translate_side_by_side_on_a_gpu(self) -> None:
        weathers = {"rain": looks(3, device="cuda"), "snow": looks(2, seed=1, device="cuda")}
        frames = uploaded(noise(70), "cuda")
        with open_lanes(4) as threads:
            found = list(threads.map(lambda recipe: InWeathers(frames, weathers).under(recipe), grid_recipes(weathers)))
        for recipe, picture in zip(grid_recipes(weathers), found, strict=True):
            np.testing.assert_array_equal(picture.cpu(), recipe.apply(frames, weathers).cpu())
