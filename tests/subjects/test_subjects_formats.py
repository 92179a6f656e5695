"""One network, whatever file it comes in: the same layers, answers and coverage."""

from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Protocol

import numpy as np
import pytest
import torch
from format_family import WRITERS
from torch import nn

from skidpad.coverage.criteria import KMNC, NBC, NC, Criterion
from skidpad.coverage.profile import Profile
from skidpad.coverage.tracker import CoverageTracker
from skidpad.subjects.base import Subject
from skidpad.subjects.description import Description, Format, write_description
from skidpad.subjects.loading import load_subject
from skidpad.subjects.network_subject import NetworkSubject
from skidpad.subjects.probe import NeuronUnit
from skidpad.subjects.zoo import ARCHITECTURES

NETWORKS = ("pilotnet", "dave-dropout", "chauffeur-cnn")


@cache
def network(name: str) -> nn.Module:
    torch.manual_seed(11)
    return ARCHITECTURES.get(name).build().eval()


def frames(count: int) -> np.ndarray:
    """Smooth pictures, so that the neurons' values differ as they do on a road."""
    rng = np.random.default_rng(5)
    small = rng.integers(0, 256, (count, 6, 8, 3)).astype(np.float64)
    return np.kron(small, np.ones((1, 16, 16, 1))).astype(np.uint8)


def described(name: str) -> Description:
    return ARCHITECTURES.get(name).describe(name, "", None)


class Load(Protocol):
    def __call__(self, name: str, format_: Format, unit: NeuronUnit = NeuronUnit.FILTER) -> Subject: ...


@pytest.fixture
def subject_of(tmp_path: Path) -> Load:
    """Writes a network of the zoo in a format and loads it."""

    def load(name: str, format_: Format, unit: NeuronUnit = NeuronUnit.FILTER) -> Subject:
        description = described(name)
        file = WRITERS[format_](network(name), description.input.shape, tmp_path)
        write_description(tmp_path / "net.toml", replace(description, file=file.name, format=format_, architecture=None))
        return load_subject(tmp_path / "net.toml", unit=unit)

    return load


class Covered:
    """Which regions half of the pictures cover, with bounds from the other half of what the reference network shows."""

    def __init__(self, reference: Subject, pictures: np.ndarray) -> None:
        self.layers = reference.layers
        self.profile = Profile(self.layers[-1].stop, subject_sha256="", drive_sha256="")
        self.profile.update(reference.observe(pictures[::2]).values)

    def bits(self, values: torch.Tensor, criterion: Criterion) -> torch.Tensor:
        tracker = CoverageTracker([criterion], self.layers, self.profile)
        tracker.update(values)
        return tracker.state(criterion.name).bits.clone()

    def on_an_edge(self, values: torch.Tensor, criterion: Criterion) -> torch.Tensor:
        """Neurons with a value that the last bits of a sum could push into another region."""
        slack = 1e-6 * values.abs() + 1e-7 * (values != 0)  # a dead neuron is dead in every format
        return (self.bits(values - slack, criterion) != self.bits(values + slack, criterion)).any(1)


@pytest.mark.parametrize("format_", WRITERS)
@pytest.mark.parametrize("name", NETWORKS)
def test_one_network_answers_and_covers_alike_in_every_format(name: str, format_: Format, subject_of: Load) -> None:
    pictures = frames(8)
    reference = NetworkSubject.of_module(network(name), described(name))
    subject = subject_of(name, format_)
    assert subject.layers == reference.layers
    np.testing.assert_allclose(subject.predict(pictures), reference.predict(pictures), rtol=0, atol=1e-5)
    seen, expected = subject.observe(pictures), reference.observe(pictures)
    np.testing.assert_allclose(seen.answers, expected.answers, rtol=0, atol=1e-5)
    np.testing.assert_allclose(seen.values.numpy(), expected.values.numpy(), rtol=1e-4, atol=1e-5)
    covered = Covered(reference, pictures)
    for criterion in (NC(), KMNC(10), NBC()):
        bits, same = (covered.bits(observed.values[1::2], criterion) for observed in (seen, expected))
        edge = covered.on_an_edge(expected.values[1::2], criterion)
        assert edge.float().mean() < 0.02
        assert same.any()
        assert torch.equal(bits[~edge], same[~edge])


@pytest.mark.parametrize("format_", WRITERS)
def test_every_element_of_every_map_is_alike_in_every_format(format_: Format, subject_of: Load) -> None:
    pictures = frames(3)
    reference = NetworkSubject.of_module(network("pilotnet"), described("pilotnet"), unit=NeuronUnit.ELEMENT)
    subject = subject_of("pilotnet", format_, NeuronUnit.ELEMENT)
    assert subject.layers == reference.layers
    assert subject.layers[0].neurons == 24 * 31 * 98
    np.testing.assert_allclose(subject.observe(pictures).values.numpy(), reference.observe(pictures).values.numpy(), rtol=1e-4, atol=1e-5)


def test_other_weights_cover_otherwise(subject_of: Load) -> None:
    pictures = frames(8)
    subject = subject_of("pilotnet", Format.ONNX)
    torch.manual_seed(12)
    other = NetworkSubject.of_module(ARCHITECTURES.get("pilotnet").build(), described("pilotnet"))
    covered = Covered(subject, pictures)
    for criterion in (NC(), KMNC(10), NBC()):
        one, two = (covered.bits(net.observe(pictures[1::2]).values, criterion) for net in (subject, other))
        assert (one != two).float().mean() > 0.05
