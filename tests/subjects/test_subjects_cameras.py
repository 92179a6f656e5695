"""Several cameras, from a drive of the simulator to the network: each takes its own way, stimuli and referee look at each by itself."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from skidpad import api
from skidpad.core.errors import BadSubjectError, SkidpadError
from skidpad.core.images import Camera, Capture, encode
from skidpad.core.stimuli import Params, Recipe
from skidpad.core.units import AngleUnit
from skidpad.drives.drive import Drive, ProblemKind, capture_of
from skidpad.drives.opening import open_drive
from skidpad.oracles.error import steering_answers
from skidpad.referee.verdict import judge
from skidpad.stimuli.registry import stimuli_of
from skidpad.subjects.description import Description, Format, Output, format_description, parse_description
from skidpad.subjects.inputs import Cameras, Colour, Crop, History, HistoryKind, InputSpec, Join, Range, aspect_warning, described_shape
from skidpad.subjects.loading import load_subject
from skidpad.subjects.network_subject import NetworkSubject
from skidpad.subjects.preprocess import Preprocessor
from skidpad.subjects.training.fitting import TrainingSettings
from skidpad.subjects.training.training import train
from skidpad.subjects.windows import Assembler

CPU = torch.device("cpu")
NAMES = ("left", "center", "right")
THREE = Cameras(NAMES)
SPEC = InputSpec(16, 8, Colour.YUV, Range((-1.0, 0.0, 0.0), (1.0, 1.0, 2.0)), Crop(top=0.25), cameras=THREE)
STEERING = (Output("steering", AngleUnit.RAD),)


def noise(count: int, height: int = 24, width: int = 40) -> np.ndarray:
    return np.random.default_rng(7).integers(0, 256, (count, height, width, 3), np.uint8)


def write_track(folder: Path, frames: int = 6) -> Path:
    """A log of the simulator whose left camera is red, its centre green and its right blue, each as bright as its label wants."""
    (folder / "IMG").mkdir(parents=True)
    lines = []
    for number in range(frames):
        for place, camera in enumerate(("left", "center", "right")):
            picture = np.full((16, 32, 3), 20, np.uint8)
            picture[..., place] = 40 * number
            (folder / "IMG" / f"{camera}_{number}.png").write_bytes(encode(picture))
        lines.append(f"C:\\IMG\\center_{number}.png, C:\\IMG\\left_{number}.png, C:\\IMG\\right_{number}.png, {number / 10}, 0.5, 0, 20\n")
    (folder / "driving_log.csv").write_text("".join(lines))
    return folder


@pytest.fixture
def track(tmp_path: Path) -> Path:
    return write_track(tmp_path / "track")


def test_a_drive_shows_the_cameras_in_the_order_asked_for(track: Path) -> None:
    drive = open_drive(f"{track}?camera=left,right,center")
    assert drive.cameras == ("left", "right", "center")
    frame = drive.frame(3)
    assert frame.shape == (16, 96, 3)
    assert [frame[0, column].tolist() for column in (0, 40, 95)] == [[120, 20, 20], [20, 20, 120], [20, 120, 20]]
    assert drive.steering_rad.tolist() == open_drive(str(track)).steering_rad.tolist()
    assert open_drive(drive.origin).sha256 == drive.sha256 != open_drive(f"{track}?camera=left").sha256
    turned = open_drive(f"{track}?camera=left,right&rotate=180").frame(3)
    assert turned[0, 0].tolist() == [120, 20, 20], "each camera hung upside down in its own place"


def test_a_frame_that_lacks_a_camera_is_counted(track: Path) -> None:
    (track / "IMG" / "right_2.png").unlink()
    (track / "IMG" / "left_4.png").write_bytes(encode(np.zeros((8, 32, 3), np.uint8)))
    drive = open_drive(f"{track}?camera=center,left,right")
    assert list(drive.frame_ids) == [f"center_{number}" for number in (0, 1, 3, 4, 5)]
    assert [(problem.kind, problem.frame_id) for problem in drive.problems] == [(ProblemKind.MISSING_FILE, "center_2")]
    (broken,) = drive.read(np.arange(len(drive))).problems
    assert (broken.kind, broken.frame_id) == (ProblemKind.OTHER_SIZE, "center_4")
    with pytest.raises(SkidpadError, match="each camera is named once"):
        open_drive(f"{track}?camera=left,left")


@pytest.mark.parametrize("join", Join)
@pytest.mark.parametrize("history", [History(), History(3, HistoryKind.STACK), History(3, HistoryKind.RECURRENT)])
def test_every_camera_takes_the_way_of_a_single_one(join: Join, history: History) -> None:
    spec = replace(SPEC, cameras=Cameras(NAMES, join), history=history)
    alone = Assembler(replace(spec, cameras=None), CPU)
    joined = Assembler(spec, CPU)
    cameras = [noise(4), 255 - noise(4), noise(4)[::-1]]

    def inputs(assembler: Assembler, frames: np.ndarray) -> torch.Tensor:
        small, windows = assembler.windows(frames)
        return assembler.inputs(assembler.codes(small, windows), windows)

    seen = inputs(joined, np.concatenate(cameras, axis=2))
    each = [inputs(alone, camera) for camera in cameras]
    assert seen.shape[1:] == described_shape(spec)
    if join is Join.WIDTH:
        torch.testing.assert_close(seen, torch.cat(each, dim=-1), rtol=0, atol=0)
    else:
        # stacked frames come oldest first, and within each the cameras in their order
        frames = history.frames if history.kind is HistoryKind.STACK else 1
        parts = [camera.unflatten(-3, (frames, 3)) for camera in each]
        torch.testing.assert_close(seen, torch.cat(parts, dim=-3).flatten(-4, -3), rtol=0, atol=0)


def test_maps_are_what_normalise_gives() -> None:
    preprocessor = Preprocessor(SPEC, CPU)
    small = preprocessor.shrink(noise(3, width=120))
    torch.testing.assert_close(preprocessor.maps(small), preprocessor.normalise(small), rtol=0, atol=0)
    with pytest.raises(BadSubjectError, match="do not hold 3 cameras"):
        preprocessor.shrink(noise(1, width=121))


def test_a_description_says_its_cameras_and_keeps_its_hash_without() -> None:
    description = Description("net", "net.onnx", Format.ONNX, SPEC, STEERING)
    assert parse_description(format_description(description)) == description
    assert "cameras" not in format_description(replace(description, input=replace(SPEC, cameras=None)))
    for names in ((), ("left",), ("left", "left")):
        with pytest.raises(BadSubjectError, match="2 to 16 different names"):
            Cameras(names)
    with pytest.raises(BadSubjectError, match="optical flow is that of one camera"):
        replace(SPEC, history=History(2, HistoryKind.OPTICAL_FLOW))
    assert aspect_warning(replace(SPEC, frame_aspect=2.0), 160, 960) is None
    assert aspect_warning(replace(SPEC, frame_aspect=2.0), 160, 320) is not None


class Blueness(nn.Module):
    """Answers how much bluer than red the third camera is: RGB of three cameras, channel after channel."""

    def __init__(self) -> None:
        super().__init__()
        self.weigh = nn.Linear(9, 1, bias=False)
        with torch.no_grad():
            self.weigh.weight.copy_(torch.tensor([[0.0] * 6 + [-1.0, 0.0, 1.0]]))

    def forward(self, pictures: torch.Tensor) -> torch.Tensor:
        return self.weigh(pictures.mean(dim=(2, 3)))


def toy() -> NetworkSubject:
    spec = InputSpec(32, 16, Colour.RGB, Range((0.0,), (1.0,)), cameras=THREE)
    return NetworkSubject.of_module(Blueness(), Description("toy", "toy.pt2", Format.EXPORT, spec, STEERING))


def test_a_toy_answers_what_its_third_camera_shows(track: Path) -> None:
    answers, broken = steering_answers(toy(), open_drive(f"{track}?camera=left,center,right"))
    np.testing.assert_allclose(answers, (40 * np.arange(6) - 20) / 255.0, atol=1e-6)
    assert broken == 0


@pytest.mark.parametrize(
    ("asked", "words"),
    [("center", "has one camera"), ("right,center,left", "has the cameras right, center, left; .*[?]camera=left,center,right")],
)
def test_other_cameras_than_described_are_refused(track: Path, asked: str, words: str) -> None:
    drive = open_drive(f"{track}?camera={asked}")
    with pytest.raises(BadSubjectError, match=words):
        steering_answers(toy(), drive)
    with pytest.raises(BadSubjectError, match=words):
        api.test(toy(), drive, stimulus="brightness(shift=40)")


def test_a_network_of_three_cameras_does_not_drive_a_world_of_one() -> None:
    with pytest.raises(BadSubjectError, match="the network sees the cameras left, center, right, the world has one camera"):
        api.drive(toy(), scenarios=1, seconds=1.0)


def one_by_one(recipe: Recipe, drive: Drive, stimuli: dict, single: dict[str, Drive]) -> None:
    rows = np.array([1, 2, 4])
    whole = recipe.apply(drive.read(rows).frames, stimuli, capture_of(drive, rows))
    parts = [recipe.apply(each.read(rows).frames, stimuli, capture_of(each, rows)) for each in single.values()]
    assert np.array_equal(whole, np.concatenate(parts, axis=2)), str(recipe)


def test_stimuli_change_each_camera_by_itself(track: Path) -> None:
    rng = np.random.default_rng(0)
    for file in sorted((track / "IMG").iterdir()):
        file.write_bytes(encode(rng.integers(0, 256, (32, 64, 3), np.uint8)))
    drive, single = open_drive(f"{track}?camera=left,center,right"), {name: open_drive(f"{track}?camera={name}") for name in NAMES}
    stimuli = stimuli_of(("rotation", "fog", "camera-yaw", "late-frames"))
    one_by_one(Recipe.of("rotation", Params(angle_deg=9.0)), drive, stimuli, single)
    one_by_one(Recipe.of("fog", stimuli["fog"].space.grid[-1]), drive, stimuli, single)
    one_by_one(Recipe.of("late-frames", stimuli["late-frames"].space.grid[-1]), drive, stimuli, single)
    yaw = Recipe.of("camera-yaw", stimuli["camera-yaw"].space.grid[-1])
    one_by_one(yaw, drive, stimuli, single)
    rows = np.array([0])
    cut = yaw.reference(drive.read(rows).frames, stimuli, capture_of(drive, rows))
    parts = [yaw.reference(each.read(rows).frames, stimuli, capture_of(each, rows)) for each in single.values()]
    assert np.array_equal(cut, np.concatenate(parts, axis=2))
    frames = torch.from_numpy(drive.read(rows).frames)
    guessed = Capture(Camera.guess(32, 64), np.zeros(1), views=3)
    changed = Recipe.of("rotation", Params(angle_deg=9.0)).apply(frames, stimuli, guessed)
    assert changed.shape == frames.shape


def test_one_camera_that_is_refused_speaks_for_all() -> None:
    drive = open_drive("rendered?frames=2&width=160&height=80")
    road = drive.read([0, 1]).frames
    blank, sky = np.full_like(road, 90), np.full_like(road, 200)
    whole, covered = np.concatenate([road, road, sky], axis=2), np.concatenate([road, blank, sky], axis=2)
    assert judge(whole, whole, views=3).kept.all(), "a camera that sees no road says nothing where the others do"
    assert not judge(whole, covered, views=3).kept.any()
    assert [word.value for word in judge(covered, covered, views=3).words] == ["kept", "kept"]


def test_a_network_is_trained_on_three_cameras_and_tested_on_them(track: Path, tmp_path: Path) -> None:
    drive = open_drive(f"{track}?camera=left,center,right")
    train("pilotnet", drive, tmp_path / "net", TrainingSettings(epochs=1, validation_fraction=0.2))
    subject = load_subject(tmp_path / "net.toml")
    spec = subject.description.input
    assert (spec.cameras, spec.frame_aspect, spec.shape) == (THREE, 2.0, (9, 66, 200))
    run = api.test(subject, drive, stimulus="brightness(shift=40)", referee="off")
    assert 0.0 <= run.rate <= 1.0
