"""The bounds of every neuron over a training drive, kept with the hashes of what they were measured on."""

from __future__ import annotations

import json
from collections.abc import Iterable
from contextlib import closing
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Self

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save

from skidpad.core.files import write_atomically
from skidpad.core.progress import Progress, silent
from skidpad.coverage.criteria import BadCoverageError, check_values, neurons_of
from skidpad.drives.frames import map_ahead

if TYPE_CHECKING:
    from skidpad.drives.drive import FrameBatch
    from skidpad.subjects.base import Subject

_FORMAT = "skidpad-profile-1"
_DTYPES = {"low": torch.float32, "high": torch.float32, "count": torch.int64, "mean": torch.float64, "m2": torch.float64}


class Profile:
    """Smallest, largest, mean and spread of each neuron's values; not-finite values are left out and counted.

    low, high: (neurons,) float32; they do not depend on order or batch size. mean and std: (neurons,) float64, which
    do so only by rounding; m2 is the sum of squared distances from the mean. A neuron never seen finite has low = +inf and high = -inf.

    Reference: TACTIC, section 3.2.1 (low and high over the training set).
    """

    def __init__(self, neurons: int, *, subject_sha256: str, drive_sha256: str, device: torch.device | str = "cpu") -> None:
        self.neurons = neurons
        self.subject_sha256 = subject_sha256
        self.drive_sha256 = drive_sha256
        self.pictures = 0
        self.low = torch.full((neurons,), torch.inf, dtype=torch.float32, device=device)
        self.high = torch.full((neurons,), -torch.inf, dtype=torch.float32, device=device)
        self.count = torch.zeros(neurons, dtype=torch.int64, device=device)
        self.mean = torch.zeros(neurons, dtype=torch.float64, device=device)
        self.m2 = torch.zeros(neurons, dtype=torch.float64, device=device)

    @property
    def std(self) -> torch.Tensor:
        """The population standard deviation, (neurons,); zero for a neuron never seen finite."""
        return (self.m2 / self.count.clamp(min=1)).sqrt()

    @property
    def observed(self) -> int:
        """How many neurons were seen finite at least once."""
        return int((self.count > 0).sum())

    @property
    def skipped(self) -> int:
        """How many values were not finite and left out."""
        return self.pictures * self.neurons - int(self.count.sum())

    @property
    def fingerprint(self) -> str:
        """The hash of the bounds: coverage counted under other bounds must not be merged."""
        # adding zero turns -0.0 into 0.0, which differ in bytes alone
        bounds = torch.cat([self.low, self.high]).add(0.0).cpu().numpy()
        return sha256(bounds.astype("<f4").tobytes()).hexdigest()

    def bounds(self, margin_std: float = 0.0) -> tuple[torch.Tensor, torch.Tensor]:
        """Returns low and high, widened by a margin in standard deviations; NaN, so never passed, where not observed."""
        unseen = self.count == 0
        low, high = self.low, self.high
        if margin_std:
            margin = (self.std * margin_std).to(low.dtype)
            low, high = low - margin, high + margin
        return low.masked_fill(unseen, torch.nan), high.masked_fill(unseen, torch.nan)

    def update(self, values: torch.Tensor) -> None:
        """Takes in the values of one batch, (N, neurons)."""
        check_values(values, self.neurons)
        if len(values) == 0:
            return
        values = values.to(self.low.device)
        finite = values.isfinite()
        wide = values.double().masked_fill_(~finite, 0.0)
        count = finite.sum(dim=0)
        mean = wide.sum(dim=0) / count.clamp(min=1)
        m2 = (wide - mean).square_().masked_fill_(~finite, 0.0).sum(dim=0)
        self._join(
            values.masked_fill(~finite, torch.inf).amin(dim=0).float(),
            values.masked_fill(~finite, -torch.inf).amax(dim=0).float(),
            count,
            mean,
            m2,
        )
        self.pictures += len(values)

    def merge(self, other: Profile) -> None:
        """Takes in what another profile of the same subject and drive has seen."""
        _check_same("subject", self.subject_sha256, other.subject_sha256, "these two profiles")
        _check_same("training drive", self.drive_sha256, other.drive_sha256, "these two profiles")
        if other.neurons != self.neurons:
            raise BadCoverageError(
                f"cannot merge a profile of {other.neurons} neurons into one of {self.neurons}; merge profiles of one subject"
            )
        other = other.to(self.low.device)
        self._join(other.low, other.high, other.count, other.mean, other.m2)
        self.pictures += other.pictures

    def _join(self, low: torch.Tensor, high: torch.Tensor, count: torch.Tensor, mean: torch.Tensor, m2: torch.Tensor) -> None:
        self.low = torch.minimum(self.low, low)
        self.high = torch.maximum(self.high, high)
        # whole numbers would divide to float32
        both = (self.count + count).clamp(min=1).double()
        step = mean - self.mean
        # the parallel variance of Chan, Golub and LeVeque
        self.m2 = self.m2 + m2 + step.square() * (self.count * count / both)
        self.mean = self.mean + step * (count / both)
        self.count = self.count + count

    def to(self, device: torch.device | str) -> Profile:
        """Returns the profile on a device; itself where it is already there."""
        device = torch.device(device)
        if self.low.device == device:
            return self
        moved = Profile(self.neurons, subject_sha256=self.subject_sha256, drive_sha256=self.drive_sha256, device=device)
        moved.pictures = self.pictures
        for name, tensor in self._tensors().items():
            setattr(moved, name, tensor.to(device))
        return moved

    def _tensors(self) -> dict[str, torch.Tensor]:
        return {"low": self.low, "high": self.high, "count": self.count, "mean": self.mean, "m2": self.m2}

    def save(self, path: Path) -> None:
        """Writes the profile as safetensors, whole or not at all."""
        tensors = {name: tensor.cpu().contiguous() for name, tensor in self._tensors().items()}
        metadata = {
            "format": _FORMAT,
            "subject_sha256": self.subject_sha256,
            "drive_sha256": self.drive_sha256,
            "pictures": str(self.pictures),
            "sha256": _digest(tensors),
        }
        write_atomically(path, _in_order(save(tensors, metadata)))

    @classmethod
    def load(cls, path: Path, *, subject_sha256: str | None = None, drive_sha256: str | None = None) -> Self:
        """Reads a profile to the CPU; refuses a damaged one, and one of another subject or drive where a hash is given."""
        metadata, tensors = _read(path)
        if subject_sha256 is not None:
            _check_same("subject", subject_sha256, metadata["subject_sha256"], f"the profile {path}")
        if drive_sha256 is not None:
            _check_same("training drive", drive_sha256, metadata["drive_sha256"], f"the profile {path}")
        profile = cls(len(tensors["low"]), subject_sha256=metadata["subject_sha256"], drive_sha256=metadata["drive_sha256"])
        profile.pictures = int(metadata["pictures"])
        profile.low, profile.high, profile.count = tensors["low"], tensors["high"], tensors["count"]
        profile.mean, profile.m2 = tensors["mean"], tensors["m2"]
        return profile


def profile_of(
    subject: Subject, batches: Iterable[FrameBatch], drive_sha256: str, frames: int = 0, progress: Progress = silent, threads: int = 1
) -> Profile:
    """Builds the profile of a subject over the batches of a training drive; `frames` is for the progress alone.

    batches: read with the lead of the subject.
    threads: how many batches are observed at a time; the profile does not depend on it.
    """
    profile = Profile(neurons_of(subject.layers), subject_sha256=subject.sha256, drive_sha256=drive_sha256)

    def look(batch: FrameBatch) -> torch.Tensor | None:
        return subject.observe(batch.clip).values if len(batch) else None

    with closing(map_ahead(look, batches, threads, threads)) as observed:
        for values in observed:
            if values is not None:
                profile.update(values)
            progress(profile.pictures, frames, "neuron bounds")
    return profile


def _in_order(data: bytes) -> bytes:
    """Sorts the header of a safetensors file: the library writes the metadata in another order in every process."""
    size = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + size])
    text = json.dumps({**header, "__metadata__": dict(sorted(header["__metadata__"].items()))}, separators=(",", ":")).encode()
    return data[:8] + text.ljust(size) + data[8 + size :]


def _digest(tensors: dict[str, torch.Tensor]) -> str:
    digest = sha256()
    for name in sorted(tensors):
        digest.update(name.encode())
        digest.update(tensors[name].numpy().tobytes())
    return digest.hexdigest()


def _check_same(noun: str, expected: str, got: str, what: str) -> None:
    if expected != got:
        raise BadCoverageError(
            f"{what} belong to different {noun}s: expected sha256 {expected[:12] or 'none'}, got {got[:12] or 'none'}"
            if what.startswith("these")
            else f"{what} was made with another {noun}: expected sha256 {expected[:12] or 'none'}, got {got[:12] or 'none'}; build it again"
        )


def _read(path: Path) -> tuple[dict[str, str], dict[str, torch.Tensor]]:
    if not path.is_file():
        raise BadCoverageError(f"there is no profile at {path}; build one from the training drive")
    try:
        with safe_open(str(path), framework="pt") as file:
            metadata: dict[str, str] = file.metadata() or {}
            tensors: dict[str, torch.Tensor] = {name: file.get_tensor(name).clone() for name in file.keys()}  # noqa: SIM118  not a dict
    except (SafetensorError, OSError) as error:
        raise BadCoverageError(f"the profile {path} is damaged or no safetensors file ({error}); build it again") from error
    if metadata.get("format") != _FORMAT:
        raise BadCoverageError(
            f"{path} is no profile of this version: expected format {_FORMAT!r}, got {metadata.get('format')!r}; build it again"
        )
    shapes = {tuple(tensor.shape) for tensor in tensors.values()}
    types = {name: tensor.dtype for name, tensor in tensors.items()}
    keys = {"subject_sha256", "drive_sha256", "pictures", "sha256"}
    if types != _DTYPES or len(shapes) != 1 or not keys <= metadata.keys() or metadata["sha256"] != _digest(tensors):
        raise BadCoverageError(f"the profile {path} is damaged: its contents do not match its checksum; build it again")
    return metadata, tensors
