"""Networks of the zoo as Keras files of three generations, and files that the real Keras wrote: the same answers and coverage."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from keras_toys import GENERATIONS, described

from skidpad.coverage.criteria import NC
from skidpad.coverage.tracker import CoverageTracker
from skidpad.subjects.description import Description, Format, write_description
from skidpad.subjects.formats.keras.opening import open_keras
from skidpad.subjects.loading import load_network, load_subject
from skidpad.subjects.network_subject import NetworkSubject
from skidpad.subjects.zoo import ARCHITECTURES

REAL = Path(__file__).parents[1] / "keras_files"


def smooth_frames(count: int) -> np.ndarray:
    small = np.random.default_rng(5).integers(0, 256, (count, 6, 8, 3))
    return np.kron(small, np.ones((1, 16, 16, 1))).astype(np.uint8)


@pytest.mark.parametrize("generation", GENERATIONS)
@pytest.mark.parametrize("name", ["pilotnet", "dave-dropout", "epoch"])
def test_a_network_of_the_zoo_answers_and_covers_alike_as_a_keras_file(name: str, generation: str, tmp_path: Path) -> None:
    torch.manual_seed(11)
    architecture = ARCHITECTURES.get(name)
    spec = replace(architecture.input, width_px=40, height_px=32) if name == "epoch" else architecture.input  # of 34 million weights
    net = architecture.build(spec).eval()
    written = GENERATIONS[generation](net, (spec.colour.channels, spec.height_px, spec.width_px), tmp_path)
    lambdas = ((f"layer_{len(net)}", "2 * atan(x)"),) if name.startswith("dave") else ()
    description = Description(
        name, written.file, Format.KERAS, replace(spec, layout=written.layout), weights=written.weights, lambdas=lambdas
    )
    write_description(tmp_path / "net.toml", description)
    subject = load_subject(tmp_path / "net.toml")
    reference = NetworkSubject.of_module(net, architecture.describe(name, "", spec))
    pictures = smooth_frames(5)
    seen, expected = subject.observe(pictures), reference.observe(pictures)
    assert subject.layers == reference.layers
    np.testing.assert_allclose(seen.answers, expected.answers, rtol=0, atol=1e-5)
    np.testing.assert_allclose(seen.values.numpy(), expected.values.numpy(), rtol=1e-4, atol=1e-5)
    covered = []
    for values in (seen.values, expected.values):
        tracker = CoverageTracker([NC()], reference.layers, None)
        tracker.update(values)
        covered.append(tracker.state(NC().name).bits.clone())
    assert covered[1].any()
    assert not covered[1].all()
    assert torch.equal(*covered)


@pytest.mark.parametrize(
    ("name", "file", "weights"),
    [
        ("residual_keras3", "residual_keras3.keras", None),
        ("recurrent_keras3", "recurrent_keras3.keras", None),
        ("residual_keras2", "residual_keras2.h5", None),
        ("recurrent_keras2", "recurrent_keras2.json", "recurrent_keras2_weights.h5"),
        ("lambda_keras2", "lambda_keras2.h5", None),
    ],
)
def test_files_of_the_real_keras_answer_as_there(name: str, file: str, weights: str | None) -> None:
    with np.load(REAL / f"{name}.npz") as recorded:
        pictures = torch.from_numpy(recorded["picture"])
        answers = [recorded[f"answer_{number}"] for number in range(len(recorded.files) - 1)]
    lambdas = (("lambda", "x / 127.5 - 1"),) if name.startswith("lambda") else ()
    description = described(tuple(pictures.shape[1:]), len(answers), weights=weights, lambdas=lambdas)
    description = replace(description, file=file)
    net = open_keras(REAL / file, description).eval()
    with torch.inference_mode():
        found = net(pictures)
    found = found if isinstance(found, tuple) else (found,)
    assert len(found) == len(answers)
    for one, other in zip(found, answers, strict=True):
        np.testing.assert_allclose(one.numpy(), other, rtol=1e-5, atol=1e-5)


def test_the_rebuilt_network_can_be_trained(tmp_path: Path) -> None:
    description = replace(described((13, 18, 3), 2), file=str(REAL / "residual_keras2.h5"))
    write_description(tmp_path / "net.toml", description)
    subject = load_network(tmp_path / "net.toml")
    net = subject.module.requires_grad_(requires_grad=True)
    before = {name: tensor.clone() for name, tensor in net.state_dict().items()}
    optimizer = torch.optim.SGD(net.parameters(), 0.01)
    net.train()
    steering, collision = net(torch.rand(4, 13, 18, 3) * 255)
    torch.autograd.backward((steering + collision).square().mean())
    optimizer.step()
    changed = [name for name, tensor in net.state_dict().items() if not torch.equal(tensor, before[name])]
    assert set(changed) == before.keys()  # what the file fixes, as the numbers of Rescaling, is no state


def test_a_window_of_frames_shows_every_moment_of_every_layer(tmp_path: Path) -> None:
    spec = described((4, 8, 10, 3), 1 + 4 * 6, weights=str(REAL / "recurrent_keras2_weights.h5"))
    write_description(tmp_path / "net.toml", replace(spec, file=str(REAL / "recurrent_keras2.json")))
    subject = load_subject(tmp_path / "net.toml")
    assert subject.lead == 3
    clip = smooth_frames(5)
    seen = subject.observe(clip)
    assert seen.answers.shape == (2, 25)
    names = [layer.name for layer in subject.layers]
    assert [name for name in names if name.startswith("conv1")] == [f"conv1.t00{step}" for step in range(4)]
    recurrences = {name.partition(".")[0] for name in names if ".t" in name} - {"conv1", "dense1"}
    assert len(recurrences) == 5  # two directions of the first LSTM, the second, and the two GRUs
    np.testing.assert_allclose(subject.predict(clip[1:]), seen.answers[1:], atol=1e-5)
