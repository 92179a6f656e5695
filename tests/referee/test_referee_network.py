"""The network that tells where the road is: shapes, what it is taught, what it scores on cameras that it never saw."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

from skidpad.cli.main import app
from skidpad.core.errors import SkidpadError
from skidpad.core.images import write_image
from skidpad.referee.network import HEIGHT_PX, WIDTH_PX, Class, RoadNet, drivable_areas, load_road_net, save_road_net, segmented
from skidpad.referee.training import LabelledPictures, RefereeSettings, augmented, scores_of, train_referee


def striped(count: int = 4) -> LabelledPictures:
    """Grey road below, green above."""
    pictures = torch.zeros(count, 3, 240, 320, dtype=torch.uint8)
    pictures[:, :, 120:] = 110
    pictures[:, 1, :120] = 140
    classes = torch.full((count, 240, 320), int(Class.OTHER), dtype=torch.uint8)
    classes[:, 120:] = int(Class.ROAD)
    return LabelledPictures(pictures, classes)


@pytest.mark.parametrize("shape", [(240, 320), (160, 320), (97, 320), (66, 200)])
def test_pictures_of_any_shape_have_a_class_for_each_pixel(shape: tuple[int, int]) -> None:
    frames = np.random.default_rng(0).integers(0, 256, (2, *shape, 3), np.uint8)
    found = segmented(load_road_net(), frames)
    assert found.shape == (2, HEIGHT_PX, WIDTH_PX)
    assert found.max() < len(Class)


def sure_of(share: float) -> RoadNet:
    """A network that calls each pixel a road with this probability, and else the rest."""
    network = RoadNet(4)
    torch.nn.init.zeros_(network.head.weight)
    logits = torch.full((len(Class), 4), -50.0)
    logits[Class.ROAD], logits[Class.OTHER] = float(np.log(share)), float(np.log(1.0 - share))
    with torch.no_grad():
        assert network.head.bias is not None
        network.head.bias.copy_(logits.flatten())
    return network.eval()


def test_several_networks_vote_by_the_mean_of_their_probabilities() -> None:
    frames = np.zeros((1, 64, 96, 3), np.uint8)
    road, doubt, rest = sure_of(0.9), sure_of(0.45), sure_of(0.02)
    assert drivable_areas([road], frames).shape == (1, HEIGHT_PX, WIDTH_PX)
    assert [bool(drivable_areas(nets, frames).all()) for nets in ([road], [road, doubt], [road, rest], [doubt])] == [
        True,
        True,
        False,
        False,
    ]


def test_labels_move_with_the_pixels_and_a_road_painted_over_is_no_road() -> None:
    data = striped(64)
    pictures, labels = augmented(data.pictures, data.classes, torch.Generator().manual_seed(0))
    assert pictures.shape == (64, 3, HEIGHT_PX, WIDTH_PX)
    assert labels.shape == (64, HEIGHT_PX, WIDTH_PX)
    assert set(labels.unique().tolist()) == {Class.ROAD, Class.OTHER}
    road = labels == Class.ROAD
    assert 0.02 < 1.0 - road.flatten(1).any(1).float().mean() < 0.4  # about one in seven is painted over whole


def test_a_network_learns_and_is_written_and_read(tmp_path: Path) -> None:
    data = striped()
    taught = train_referee(data, RefereeSettings(filters=4, steps=60, batch=8, rate=1e-2))
    again = train_referee(data, RefereeSettings(filters=4, steps=60, batch=8, rate=1e-2))
    assert all(torch.equal(one, other) for one, other in zip(taught.state_dict().values(), again.state_dict().values(), strict=True))
    save_road_net(taught, tmp_path / "net.safetensors")
    read = load_road_net(tmp_path / "net.safetensors")
    assert isinstance(read, RoadNet)
    assert read.filters == 4
    assert scores_of(read, data).by_class.keys() == set(Class)


def test_scores_are_intersection_over_union_counted_by_hand() -> None:
    class Half(RoadNet):
        def forward(self, pictures: torch.Tensor) -> torch.Tensor:
            logits = torch.zeros(len(pictures), len(Class), HEIGHT_PX, WIDTH_PX)
            logits[:, Class.ROAD, :, : WIDTH_PX // 2] = 1.0
            logits[:, Class.OTHER, :, WIDTH_PX // 2 :] = 1.0
            return logits

    scores = scores_of(Half(4), striped())
    assert scores.by_class[Class.ROAD] == pytest.approx(1 / 3)
    assert scores.drivable == pytest.approx(1 / 3)
    assert np.isnan(scores.by_class[Class.MOVABLE])


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("nowhere", "--masks", "nowhere"), "there is no folder"),
        (("{here}", "--masks", "{here}"), "no picture in"),
        (("{full}", "--masks", "{full}", "--values", "street=1"), "--values is as road=1"),
        (("{full}", "--masks", "{full}", "--group", "("), "is no regular expression"),
        (("{full}", "--masks", "{full}", "--group", "a"), "tells 1 cameras apart"),
    ],
)
def test_bad_use_is_one_sentence(tmp_path: Path, words: tuple[str, ...], said: str) -> None:
    (tmp_path / "full").mkdir()
    write_image(tmp_path / "full" / "a.png", np.zeros((8, 8, 3), np.uint8))
    (tmp_path / "here").mkdir()
    given = [word.format(here=tmp_path / "here", full=tmp_path / "full") for word in words]
    with pytest.raises(SkidpadError, match=said):
        raise CliRunner().invoke(app, ["referee", *given]).exception or AssertionError


@pytest.mark.real_data
def test_it_knows_the_road_on_cameras_that_it_never_saw(shared_data: Path) -> None:
    """The card says road 0.852, marking 0.398, drivable 0.879 on these 307 pictures, by the GPU that taught it."""
    folder = shared_data / "comma10k"
    words = ["referee", str(folder / "imgs"), "--masks", str(folder / "masks"), "--group", "_([0-9a-f]{16})_", "--json"]
    result = CliRunner().invoke(app, words)
    found = json.loads(result.stdout)
    assert found["pictures"] == 307
    assert found["road_iou"] == pytest.approx(0.852, abs=0.005)
    assert found["marking_iou"] == pytest.approx(0.398, abs=0.005)
    assert found["drivable_iou"] == pytest.approx(0.879, abs=0.005)
    assert found["ms_per_picture"] > 0.0
