"""PULP-DroNet v2 as published, on recorded frames: the example description reaches the known figures."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest
import torch
from test_subjects_onnx_reading import header, mutated

from skidpad.core.errors import BadSubjectError
from skidpad.drives import open_drive
from skidpad.oracles.error import prediction_error
from skidpad.subjects.base import Subject
from skidpad.subjects.description import Description, read_description, write_description
from skidpad.subjects.formats.onnx.network import open_onnx
from skidpad.subjects.loading import load_subject
from skidpad.subjects.probe import NeuronUnit

pytestmark = pytest.mark.real_data
EXAMPLE = Path(__file__).parents[2] / "examples" / "pulp-dronet.toml"


@pytest.fixture(scope="module")
def file(shared_data: Path) -> Path:
    return shared_data / "models" / "pulp-dronet-v2" / "model_original.onnx"


@pytest.fixture(scope="module")
def described(file: Path) -> Description:
    """The example, pointing to where the tests find the file."""
    return replace(read_description(EXAMPLE), file=str(file))


@pytest.fixture
def subject(described: Description, tmp_path: Path) -> Subject:
    write_description(tmp_path / "pulp-dronet.toml", described)
    return load_subject(tmp_path / "pulp-dronet.toml")


def score(subject: Subject, drive_path: Path, step: int) -> tuple[float, float]:
    drive = open_drive(str(drive_path))[::step]
    answers = np.concatenate([subject.predict(batch.frames)[:, 0] for batch in drive.batches(64)])
    error = prediction_error(answers, drive.steering_rad, 0)
    return error.rmse_rad, error.correlation


def test_every_tenth_frame_scores_as_measured_elsewhere(subject: Subject, shared_data: Path) -> None:
    rmse_rad, correlation = score(subject, shared_data / "udacity-ch2-test", 10)
    assert rmse_rad == pytest.approx(0.1273, abs=0.005)
    assert correlation == pytest.approx(0.831, abs=0.02)


@pytest.mark.slow
def test_all_frames_score_as_measured_elsewhere(subject: Subject, shared_data: Path) -> None:
    rmse_rad, correlation = score(subject, shared_data / "udacity-ch2-test", 1)
    assert rmse_rad == pytest.approx(0.1273, abs=0.003)
    assert correlation == pytest.approx(0.831, abs=0.005)


def test_both_outputs_and_all_layers_are_there(subject: Subject) -> None:
    frames = np.random.default_rng(1).integers(0, 256, (20, 240, 320, 3), dtype=np.uint8)
    observation = subject.observe(frames)
    assert [output.name for output in subject.description.outputs] == ["steering", "collision"]
    assert ((observation.answers[:, 1] >= 0) & (observation.answers[:, 1] <= 1)).all()
    assert [(layer.name, layer.neurons) for layer in subject.layers] == [
        *((f"conv{number}", filters) for number, filters in enumerate([32] * 4 + [64] * 3 + [128] * 3, 1)),
        ("dense1", 2),
    ]
    np.testing.assert_allclose(observation.answers, subject.predict(frames), atol=1e-6)


def test_spoiled_headers_neither_crash_nor_hang(file: Path, described: Description, tmp_path: Path) -> None:
    data = file.read_bytes()
    places = header(onnx.load_from_string(data), data)
    spoiled = tmp_path / "spoiled.onnx"
    said: list[str] = []
    for seed in range(200):
        spoiled.write_bytes(mutated(data, places, seed))
        try:
            open_onnx(spoiled, described, "cpu", NeuronUnit.FILTER).answer(torch.zeros(1, 1, 200, 200))
        except (BadSubjectError, RuntimeError, ValueError) as error:
            said.append(str(error))
    assert len(said) > 100
    assert all(len(sentence.splitlines()) == 1 for sentence in said)
