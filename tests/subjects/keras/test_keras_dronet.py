"""DroNet as published, a pair of files of Keras 2.0.2, on recorded frames: the example description reaches the known figures."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from skidpad.drives import open_drive
from skidpad.oracles.error import prediction_error
from skidpad.subjects.base import Subject
from skidpad.subjects.description import read_description, write_description
from skidpad.subjects.loading import load_subject

pytestmark = pytest.mark.real_data
EXAMPLE = Path(__file__).parents[3] / "examples" / "dronet.toml"


@pytest.fixture
def subject(shared_data: Path, tmp_path: Path) -> Subject:
    """The example, pointing to where the tests find the files."""
    folder = shared_data / "models" / "dronet"
    described = replace(read_description(EXAMPLE), file=str(folder / "model_struct.json"), weights=str(folder / "model_weights.h5"))
    write_description(tmp_path / "dronet.toml", described)
    return load_subject(tmp_path / "dronet.toml")


def score(subject: Subject, drive_path: Path, step: int) -> tuple[float, float]:
    drive = open_drive(str(drive_path))[::step]
    answers = np.concatenate([subject.predict(batch.frames) for batch in drive.batches(64)])
    assert ((answers[:, 1] > 0.0) & (answers[:, 1] < 1.0)).all()
    error = prediction_error(answers[:, 0], drive.steering_rad, 0)
    return error.rmse_rad, error.correlation


def test_every_twentieth_frame_scores_as_before(subject: Subject, shared_data: Path) -> None:
    rmse_rad, correlation = score(subject, shared_data / "udacity-ch2-test", 20)
    assert rmse_rad == pytest.approx(0.1065, abs=0.001)
    assert correlation == pytest.approx(0.857, abs=0.003)


@pytest.mark.slow
def test_all_frames_score_as_measured_elsewhere(subject: Subject, shared_data: Path) -> None:
    rmse_rad, correlation = score(subject, shared_data / "udacity-ch2-test", 1)
    assert rmse_rad == pytest.approx(0.1076, abs=0.003)
    assert correlation == pytest.approx(0.860, abs=0.005)


def test_its_layers_are_seen(subject: Subject) -> None:
    assert [layer.name for layer in subject.layers] == [*(f"conv{number}" for number in range(1, 11)), "dense1", "dense2"]
    assert [layer.neurons for layer in subject.layers] == [32, 32, 32, 32, 64, 64, 64, 128, 128, 128, 1, 1]
