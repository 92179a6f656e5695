import os
import pickle
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from torch import nn

from skidpad.core.errors import BadSubjectError
from skidpad.subjects.description import Format, write_description
from skidpad.subjects.inputs import Colour, InputSpec, Range
from skidpad.subjects.loading import load_subject
from skidpad.subjects.training.training import save_subject
from skidpad.subjects.zoo import ARCHITECTURES

pytestmark = [
    pytest.mark.filterwarnings("ignore:.*torch.jit.*deprecated:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
]
PILOTNET = ARCHITECTURES.get("pilotnet")


class CreatesMarker:
    """Unpickling it creates a file."""

    def __init__(self, marker: Path) -> None:
        self.marker = marker

    def __reduce__(self) -> tuple[object, tuple[object, ...]]:
        return os.mkdir, (str(self.marker),)


@pytest.fixture
def pilotnet() -> nn.Module:
    torch.manual_seed(4)
    return PILOTNET.build().eval()


def described(folder: Path, file: str, format_: Format, architecture: str | None = "pilotnet", spec: InputSpec | None = None) -> Path:
    toml = folder / "net.toml"
    description = replace(PILOTNET.describe("net", file, spec), format=format_, architecture=architecture)
    write_description(toml, description)
    return toml


FILES = {Format.SAFETENSORS: "net.safetensors", Format.STATE_DICT: "net.pt", Format.TORCHSCRIPT: "net.ts", Format.EXPORT: "net.pt2"}


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Mapping[Format, bytes]:
    """One PilotNet in every format."""
    folder = tmp_path_factory.mktemp("formats")
    torch.manual_seed(4)
    net, example = PILOTNET.build().eval(), torch.zeros(2, *PILOTNET.input.shape)
    save_file(net.state_dict(), folder / FILES[Format.SAFETENSORS])
    torch.save(net.state_dict(), folder / FILES[Format.STATE_DICT])
    torch.jit.save(torch.jit.trace(net, example), folder / FILES[Format.TORCHSCRIPT])
    shapes = ({0: torch.export.Dim("batch", min=1, max=512)},)
    torch.export.save(torch.export.export(net, (example,), dynamic_shapes=shapes), folder / FILES[Format.EXPORT])
    return {format_: (folder / file).read_bytes() for format_, file in FILES.items()}


def write(written: Mapping[Format, bytes], folder: Path, format_: Format) -> Path:
    (folder / FILES[format_]).write_bytes(written[format_])
    return described(folder, FILES[format_], format_, "pilotnet" if format_.weights_only else None)


@pytest.mark.parametrize("format_", FILES)
def test_every_format_answers_alike_and_shows_the_same_neurons(
    format_: Format, written: Mapping[Format, bytes], pilotnet: nn.Module, frames: np.ndarray, tmp_path: Path
) -> None:
    reference = load_subject(save_subject(pilotnet, PILOTNET.describe("net", ""), tmp_path / "reference").toml)
    subject = load_subject(write(written, tmp_path, format_))
    expected = reference.observe(frames)
    seen = subject.observe(frames)
    np.testing.assert_allclose(seen.answers, expected.answers, atol=1e-5)
    np.testing.assert_allclose(seen.values.numpy(), expected.values.numpy(), atol=1e-5)
    assert subject.layers == reference.layers
    assert subject.description.format is format_


def test_a_weights_file_stands_for_the_toml_beside_it(pilotnet: nn.Module, frames: np.ndarray, tmp_path: Path) -> None:
    saved = save_subject(pilotnet, PILOTNET.describe("net", ""), tmp_path / "net")
    assert load_subject(saved.weights).sha256 == load_subject(str(saved.toml)).sha256


def test_a_file_beside_the_description_of_another_is_not_taken_for_it(pilotnet: nn.Module, tmp_path: Path) -> None:
    save_subject(pilotnet, PILOTNET.describe("net", ""), tmp_path / "net")
    (tmp_path / "net.pt2").write_bytes(b"another network")
    with pytest.raises(BadSubjectError, match=r"describes net\.safetensors, not net\.pt2"):
        load_subject(tmp_path / "net.pt2")


def test_the_hash_follows_weights_and_description(pilotnet: nn.Module, tmp_path: Path) -> None:
    first = load_subject(save_subject(pilotnet, PILOTNET.describe("net", ""), tmp_path / "a").toml)
    renamed = load_subject(save_subject(pilotnet, PILOTNET.describe("other", ""), tmp_path / "b").toml)
    assert renamed.sha256 == first.sha256
    spec = InputSpec(200, 66, Colour.YUV, Range((-1.0,), (1.0,)))
    uncropped = load_subject(save_subject(pilotnet, PILOTNET.describe("net", "", spec), tmp_path / "c").toml)
    with torch.no_grad():
        pilotnet[0].bias[0] += 1e-3
    retrained = load_subject(save_subject(pilotnet, PILOTNET.describe("net", ""), tmp_path / "d").toml)
    assert len({first.sha256, uncropped.sha256, retrained.sha256}) == 3


def test_a_pickle_is_refused_and_never_run(pilotnet: nn.Module, tmp_path: Path) -> None:
    marker = tmp_path / "marker"
    for name, format_ in (("net.pkl", Format.STATE_DICT), ("net.pt", Format.STATE_DICT), ("net.ts", Format.TORCHSCRIPT)):
        (tmp_path / name).write_bytes(pickle.dumps(CreatesMarker(marker)))
        with pytest.raises(BadSubjectError):
            load_subject(described(tmp_path, name, format_))
    for name, format_ in (("zip.pt", Format.STATE_DICT), ("zip.ts", Format.TORCHSCRIPT), ("zip.pt2", Format.EXPORT)):
        torch.save({"weights": torch.zeros(1), "evil": CreatesMarker(marker)}, tmp_path / name)
        with pytest.raises(BadSubjectError):
            load_subject(described(tmp_path, name, format_, "pilotnet" if format_.weights_only else None))
    assert not marker.exists()
    torch.load(tmp_path / "zip.pt", weights_only=False)
    assert marker.exists(), "the trap itself must work"


@pytest.mark.parametrize("name", ["net.pkl", "net.PICKLE", "net.joblib"])
def test_a_pickle_without_a_description_names_the_way_out(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(pickle.dumps(3))
    with pytest.raises(BadSubjectError, match=r"is a pickle.*safetensors\.torch\.save_file"):
        load_subject(tmp_path / name)


def test_a_saved_module_names_the_way_out(pilotnet: nn.Module, tmp_path: Path) -> None:
    torch.save(pilotnet, tmp_path / "net.pt")
    with pytest.raises(BadSubjectError, match=r"holds more than weights.*save_file\(model\.state_dict"):
        load_subject(described(tmp_path, "net.pt", Format.STATE_DICT))


def test_weights_without_a_description_show_one_to_write(pilotnet: nn.Module, tmp_path: Path) -> None:
    save_file(pilotnet.state_dict(), tmp_path / "net.safetensors")
    with pytest.raises(BadSubjectError, match="has no description") as caught:
        load_subject(tmp_path / "net.safetensors")
    (tmp_path / "net.toml").write_text(str(caught.value).split("\n\n", 1)[1])
    assert load_subject(tmp_path / "net.safetensors").layers[0].name == "conv1"


def without(state: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    return {name: tensor for name, tensor in state.items() if name != "0.bias"}


def with_more(state: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    return {**state, **{f"extra{i}": torch.zeros(1) for i in range(5)}}


def mis_shaped(state: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    return {**state, "0.bias": torch.zeros(7)}


def with_nan(state: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    return {**state, "0.bias": torch.full((24,), torch.nan)}


@pytest.mark.parametrize("format_", [Format.SAFETENSORS, Format.STATE_DICT])
@pytest.mark.parametrize(
    ("change", "message"),
    [
        (without, "lacks tensors 0.bias; it is not a 'pilotnet' network"),
        (with_more, "has the unknown tensors extra0, extra1, extra2 and 2 more"),
        (mis_shaped, r"tensor '0.bias' has shape \(7,\).*needs \(24,\)"),
        (with_nan, "hold NaN or infinity"),
    ],
)
def test_weights_that_do_not_fit_are_one_sentence(
    change: Callable[[dict[str, torch.Tensor]], dict[str, torch.Tensor]], message: str, format_: Format, pilotnet: nn.Module, tmp_path: Path
) -> None:
    state = change(pilotnet.state_dict())
    if format_ is Format.SAFETENSORS:
        save_file(state, tmp_path / "net")
    else:
        torch.save(state, tmp_path / "net")
    with pytest.raises(BadSubjectError, match=message) as caught:
        load_subject(described(tmp_path, "net", format_))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("format_", FILES)
@pytest.mark.parametrize("damage", ["truncated", "text", "empty", "missing", "folder"])
def test_a_broken_file_is_one_sentence(damage: str, format_: Format, written: Mapping[Format, bytes], tmp_path: Path) -> None:
    toml = write(written, tmp_path, format_)
    file = next(path for path in tmp_path.iterdir() if path != toml)
    data = {"truncated": file.read_bytes()[:-5000], "text": b"weights, honestly\n" * 9, "empty": b""}.get(damage)
    file.unlink()
    if damage == "folder":
        file.mkdir()
    elif data is not None:
        file.write_bytes(data)
    with pytest.raises(BadSubjectError) as caught:
        load_subject(toml)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 700


def test_another_input_size_is_one_sentence(pilotnet: nn.Module, tmp_path: Path) -> None:
    save_file(pilotnet.state_dict(), tmp_path / "net.safetensors")
    for spec, message in ((InputSpec(320, 160), "needs"), (InputSpec(30, 20), "too small"), (InputSpec(200, 66, Colour.GREY), "needs")):
        with pytest.raises(BadSubjectError, match=message):
            load_subject(described(tmp_path, "net.safetensors", Format.SAFETENSORS, spec=spec))
    torch.jit.save(torch.jit.trace(pilotnet, torch.zeros(2, 3, 66, 200)), tmp_path / "net.ts")
    with pytest.raises(BadSubjectError, match=r"cannot take an input of shape .*correct width_px"):
        load_subject(described(tmp_path, "net.ts", Format.TORCHSCRIPT, None, InputSpec(320, 160)))


def test_an_unknown_architecture_is_named_with_the_nearest(pilotnet: nn.Module, tmp_path: Path) -> None:
    save_file(pilotnet.state_dict(), tmp_path / "net.safetensors")
    with pytest.raises(BadSubjectError, match="did you mean 'pilotnet'"):
        load_subject(described(tmp_path, "net.safetensors", Format.SAFETENSORS, "pilotnett"))


def test_a_state_dict_in_a_checkpoint_is_refused_with_what_to_do(pilotnet: nn.Module, tmp_path: Path) -> None:
    torch.save({"epoch": 3, "state_dict": pilotnet.state_dict()}, tmp_path / "net.pt")
    with pytest.raises(BadSubjectError, match=r"save model\.state_dict\(\) alone"):
        load_subject(described(tmp_path, "net.pt", Format.STATE_DICT))


def test_a_missing_subject_says_what_to_give(tmp_path: Path) -> None:
    with pytest.raises(BadSubjectError, match="there is no description"):
        load_subject(tmp_path / "net.toml")
    with pytest.raises(BadSubjectError, match="give the path of a description"):
        load_subject(tmp_path / "net.safetensors")
