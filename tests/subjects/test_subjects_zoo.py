import numpy as np
import pytest
import torch

from skidpad.core.errors import BadSubjectError, UnknownNameError
from skidpad.subjects.description import InputSpec, Layout
from skidpad.subjects.torch_subject import TorchSubject
from skidpad.subjects.zoo import ARCHITECTURES

LAYERS = {
    "pilotnet": [24, 36, 48, 64, 64, 100, 50, 10, 1],
    "dave-orig": [24, 36, 48, 64, 64, 1164, 100, 50, 10, 1],
    "dave-dropout": [16, 32, 64, 500, 100, 20, 1],
    "epoch": [32, 64, 128, 1024, 1],
}


@pytest.mark.parametrize("name", ARCHITECTURES.names())
def test_every_network_has_the_layers_of_its_source(name: str, frames: np.ndarray) -> None:
    row = ARCHITECTURES.get(name)
    torch.manual_seed(0)
    subject = TorchSubject(row.build(), row.describe(name, "net.safetensors"))
    assert [layer.neurons for layer in subject.layers] == LAYERS[name]
    answers = subject.predict(frames)
    assert answers.shape == (5,)
    assert np.isfinite(answers).all()
    assert row.name == name
    assert name in str(row.describe("x", "y").architecture)


def test_weights_are_as_many_as_published() -> None:
    counts = {name: sum(tensor.numel() for tensor in ARCHITECTURES.get(name).build().parameters()) for name in ("pilotnet", "dave-orig")}
    # Bojarski et al. round to "about 250 thousand parameters"; 252,219 is their figure 4 multiplied out.
    assert counts == {"pilotnet": 252_219, "dave-orig": 2_116_983}


def test_deeptests_count_of_epoch_is_ours_with_dropout_and_input() -> None:
    net = ARCHITECTURES.get("epoch").build()
    ours = sum(LAYERS["epoch"])
    dropped = 32 + 64 + 128 + 1024
    assert sum(isinstance(module, torch.nn.Dropout) for module in net.modules()) == 4
    assert ours + dropped + 3 == 2500


def test_the_means_of_imagenet_are_subtracted_from_bgr() -> None:
    spec = ARCHITECTURES.get("dave-orig").input
    assert [low + high for low, high in zip(spec.range.low, spec.range.high, strict=True)] == pytest.approx([47.122, 21.442, 7.64])


@pytest.mark.parametrize("name", ["dave-orig", "dave-dropout"])
def test_angles_stay_within_half_a_turn(name: str) -> None:
    row = ARCHITECTURES.get(name)
    net = row.build().eval()
    with torch.no_grad():
        answers = net(torch.randn(3, *row.input.shape) * 1e4)
    assert (answers.abs() <= torch.pi).all()


def test_any_large_enough_input_can_be_built_for() -> None:
    row = ARCHITECTURES.get("pilotnet")
    assert row.build(InputSpec(320, 160)).eval()(torch.zeros(1, 3, 160, 320)).shape == (1, 1)
    with pytest.raises(BadSubjectError, match="20 x 30 px is too small for 'pilotnet'"):
        row.build(InputSpec(30, 20))
    with pytest.raises(BadSubjectError, match="layout 'nchw'"):
        row.build(InputSpec(200, 66, layout=Layout.NHWC))


def test_an_unknown_network_is_named_with_the_nearest() -> None:
    with pytest.raises(UnknownNameError, match="did you mean 'dave-orig'"):
        ARCHITECTURES.get("dave-org")
