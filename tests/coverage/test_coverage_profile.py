"""Neuron bounds: free of batches, mergeable, kept on disk with the hashes of what they belong to."""

import math
import subprocess
import sys
from dataclasses import dataclass

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from safetensors.torch import save_file

from skidpad.coverage.criteria import BadCoverageError
from skidpad.coverage.profile import Profile, profile_of
from skidpad.subjects.base import Layer

NUMBERS = st.one_of(st.floats(-1e3, 1e3, width=32), st.sampled_from([math.nan, math.inf, -math.inf]))
BATCHES = hnp.arrays(np.float32, st.tuples(st.integers(0, 6), st.just(3)), elements=NUMBERS)


def blank(subject: str = "s" * 64, drive: str = "d" * 64) -> Profile:
    return Profile(3, subject_sha256=subject, drive_sha256=drive)


def over(values: np.ndarray) -> Profile:
    profile = blank()
    profile.update(torch.from_numpy(values))
    return profile


@settings(max_examples=50, deadline=None)
@given(BATCHES, st.integers(0, 6))
def test_parts_merge_to_the_whole(values, cut):
    whole, left, right = over(values), over(values[:cut]), over(values[cut:])
    left.merge(right)
    assert left.fingerprint == whole.fingerprint
    assert (left.pictures, left.skipped, left.observed) == (whole.pictures, whole.skipped, whole.observed)
    for neuron in range(3):
        finite = values[np.isfinite(values[:, neuron]), neuron].astype(np.float64)
        assert int(left.count[neuron]) == len(finite)
        if len(finite):
            assert (float(left.low[neuron]), float(left.high[neuron])) == (finite.min(), finite.max())
            assert float(left.mean[neuron]) == pytest.approx(finite.mean(), abs=1e-9)
            assert float(left.std[neuron]) == pytest.approx(finite.std(), abs=1e-6)
        else:
            assert (float(left.low[neuron]), float(left.high[neuron]), float(left.std[neuron])) == (math.inf, -math.inf, 0.0)
            assert bool(torch.stack(left.bounds(1.0))[:, neuron].isnan().all())


def test_round_trip_on_disk(tmp_path):
    profile = over(np.array([[1, 2, math.nan], [3, -2, math.nan]], np.float32))
    path = tmp_path / "bounds.safetensors"
    profile.save(path)
    again = Profile.load(path, subject_sha256="s" * 64, drive_sha256="d" * 64)
    assert again.fingerprint == profile.fingerprint
    assert (again.pictures, again.skipped, again.observed) == (2, 2, 2)
    assert torch.equal(again.std, profile.std)
    again.merge(profile)
    assert again.pictures == 4
    assert [file.name for file in tmp_path.iterdir()] == ["bounds.safetensors"]


def test_another_subject_or_drive_is_refused(tmp_path):
    path = tmp_path / "bounds.safetensors"
    over(np.ones((1, 3), np.float32)).save(path)
    with pytest.raises(BadCoverageError, match="another subject: expected sha256 xxxxxxxxxxxx, got ssssssssssss; build it again"):
        Profile.load(path, subject_sha256="x" * 64)
    with pytest.raises(BadCoverageError, match="another training drive"):
        Profile.load(path, subject_sha256="s" * 64, drive_sha256="y" * 64)
    with pytest.raises(BadCoverageError, match="different subjects"):
        blank().merge(blank(subject="x"))
    with pytest.raises(BadCoverageError, match="different training drives"):
        blank().merge(blank(drive="x"))
    with pytest.raises(BadCoverageError, match="4 neurons into one of 3"):
        blank().merge(Profile(4, subject_sha256="s" * 64, drive_sha256="d" * 64))
    with pytest.raises(BadCoverageError, match=r"shape \(N, 3\)"):
        blank().update(torch.zeros(2, 4))


def test_missing_foreign_and_damaged_files_are_named(tmp_path):
    path = tmp_path / "bounds.safetensors"
    with pytest.raises(BadCoverageError, match="there is no profile at"):
        Profile.load(path)
    over(np.ones((1, 3), np.float32)).save(path)
    data = path.read_bytes()
    for broken in (b"", data[:20], data[:-1], data[:-1] + bytes([data[-1] ^ 1])):
        path.write_bytes(broken)
        with pytest.raises(BadCoverageError, match="damaged"):
            Profile.load(path)
    save_file({"low": torch.zeros(3)}, path)
    with pytest.raises(BadCoverageError, match="no profile of this version"):
        Profile.load(path)
    save_file({"low": torch.zeros(3)}, path, metadata={"format": "skidpad-profile-1"})
    with pytest.raises(BadCoverageError, match="damaged"):
        Profile.load(path)


@dataclass
class Observed:
    values: torch.Tensor


@dataclass
class Batch:
    clip: np.ndarray

    def __len__(self):
        return len(self.clip)


class Mirror:
    """A subject whose neurons are its pixels."""

    layers = (Layer("a", 0, 3),)
    sha256 = "m" * 64

    def observe(self, frames):
        return Observed(torch.from_numpy(frames.astype(np.float32)))


def test_a_profile_does_not_depend_on_the_threads():
    frames = np.random.default_rng(2).normal(size=(60, 3))
    one, three = (
        profile_of(Mirror(), [Batch(frames[start : start + 7]) for start in range(0, 60, 7)], "", threads=threads) for threads in (1, 3)
    )
    for name in ("low", "high", "count", "mean", "m2"):
        assert torch.equal(getattr(one, name), getattr(three, name)), name
    assert three.pictures == 60


def test_profile_of_a_subject_over_batches():
    frames = np.arange(15).reshape(5, 3)
    steps: list[tuple[int, int]] = []
    profile = profile_of(
        Mirror(),
        [Batch(frames[:2]), Batch(frames[:0]), Batch(frames[2:])],
        "d" * 64,
        5,
        lambda done, total, note="": steps.append((done, total)),
    )
    assert steps == [(2, 5), (2, 5), (5, 5)]
    assert profile.low.tolist() == [0, 1, 2]
    assert profile.high.tolist() == [12, 13, 14]
    assert (profile.subject_sha256, profile.drive_sha256) == ("m" * 64, "d" * 64)


def test_the_same_profile_has_the_same_bytes_in_every_process(tmp_path):
    code = (
        "import sys, torch; from pathlib import Path; from skidpad.coverage.profile import Profile\n"
        "profile = Profile(5, subject_sha256='s' * 64, drive_sha256='d' * 64)\n"
        "profile.update(torch.arange(10.0).reshape(2, 5))\n"
        "profile.save(Path(sys.argv[1]))\n"
    )
    paths = [tmp_path / f"{number}.safetensors" for number in range(2)]
    for path in paths:
        subprocess.run([sys.executable, "-c", code, path], check=True)
    assert len({path.read_bytes() for path in paths}) == 1
    assert Profile.load(paths[0]).pictures == 2
    assert sorted(path.name for path in tmp_path.iterdir()) == [path.name for path in paths]
