import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from torch import nn

from skidpad.core.errors import BadSubjectError
from skidpad.subjects.description import Description, Format, write_description
from skidpad.subjects.inputs import InputSpec
from skidpad.subjects.loading import load_subject

SOURCE = """
from torch import nn


class Small(nn.Module):
    def __init__(self, width=3):
        super().__init__()
        self.conv = nn.Conv2d(3, width, 3)
        self.dense = nn.Linear(width, 1)

    def forward(self, x):
        return self.dense(self.conv(x).relu().mean((2, 3)))


def sized(spec):
    return nn.Sequential(nn.Conv2d(spec.colour.channels, 2, 3), nn.Flatten(), nn.Linear(2 * (spec.height_px - 2) * (spec.width_px - 2), 1))


def greedy(first, second):
    return nn.Linear(1, 1)


def leaves(spec):
    raise SystemExit("no")


TEXT = "a text"


def no_network():
    return TEXT
"""


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    path = list(sys.path)
    (tmp_path / "own_nets.py").write_text(SOURCE)
    (tmp_path / "weights").mkdir()
    yield tmp_path
    sys.path[:] = path
    sys.modules.pop("own_nets", None)


def described(folder: Path, name: str, format_: Format = Format.SAFETENSORS) -> Path:
    toml = folder / "net.toml"
    write_description(toml, Description("net", "weights/net", format_, InputSpec(24, 16), architecture=f"own_nets:{name}"))
    return toml


@pytest.mark.parametrize("format_", [Format.SAFETENSORS, Format.STATE_DICT])
def test_a_class_beside_the_description_gets_its_weights(format_: Format, folder: Path, frames: np.ndarray) -> None:
    conv, dense = nn.Conv2d(3, 3, 3), nn.Linear(3, 1)
    state = {f"{name}.{key}": tensor for name, layer in (("conv", conv), ("dense", dense)) for key, tensor in layer.state_dict().items()}
    (save_file if format_ is Format.SAFETENSORS else torch.save)(state, folder / "weights" / "net")
    subject = load_subject(described(folder, "Small", format_))
    small = torch.nn.functional.interpolate(torch.from_numpy(frames).permute(0, 3, 1, 2), (16, 24), mode="bilinear", antialias=True) / 255.0
    with torch.no_grad():
        expected = dense(conv(small).relu().mean((2, 3))).numpy()
    np.testing.assert_allclose(subject.predict(frames), expected, atol=1e-5)
    assert [layer.neurons for layer in subject.layers] == [3, 1]


def test_a_function_with_a_parameter_is_given_the_input(folder: Path) -> None:
    save_file(nn.Sequential(nn.Conv2d(3, 2, 3), nn.Flatten(), nn.Linear(2 * 14 * 22, 1)).state_dict(), folder / "weights" / "net")
    assert len(load_subject(described(folder, "sized")).layers) == 2


def test_every_weight_must_find_its_place(folder: Path) -> None:
    save_file({"conv.weight": torch.zeros(3, 3, 3, 3)}, folder / "weights" / "net")
    with pytest.raises(
        BadSubjectError, match=r"lacks tensors conv\.bias, dense\.bias, dense\.weight; it is not a 'own_nets:Small' network"
    ):
        load_subject(described(folder, "Small"))


def test_the_hash_follows_the_code(folder: Path) -> None:
    save_file(nn.Sequential(nn.Conv2d(3, 2, 3), nn.Flatten(), nn.Linear(2 * 14 * 22, 1)).state_dict(), folder / "weights" / "net")
    first = load_subject(described(folder, "sized")).sha256
    (folder / "own_nets.py").write_text(SOURCE + "# changed\n")
    assert load_subject(described(folder, "sized")).sha256 != first


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("Smal", "has no 'Smal'"),
        ("greedy", r"could not be built \(TypeError: .*called without arguments, or with the InputSpec"),
        ("leaves", "could not be built .SystemExit: no"),
        ("TEXT", "is a str and cannot be called"),
        ("no_network", "must give a torch.nn.Module; got a str"),
    ],
)
def test_what_builds_no_network_is_one_sentence(name: str, message: str, folder: Path) -> None:
    save_file({"x": torch.zeros(1)}, folder / "weights" / "net")
    with pytest.raises(BadSubjectError, match=message) as caught:
        load_subject(described(folder, name))
    assert "\n" not in str(caught.value)


def test_a_module_that_is_not_there_says_where_it_was_looked_for(folder: Path) -> None:
    save_file({"x": torch.zeros(1)}, folder / "weights" / "net")
    toml = described(folder, "Small")
    toml.write_text(toml.read_text().replace("own_nets", "own_nots"))
    with pytest.raises(BadSubjectError, match=r"'own_nots:Small', cannot be imported from .* or Python's path \(ModuleNotFoundError"):
        load_subject(toml)
