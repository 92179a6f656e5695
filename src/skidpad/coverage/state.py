"""What has been covered so far: bits, one a region, that can only be set."""

from __future__ import annotations

import json
import zlib
from dataclasses import dataclass

import numpy as np
import torch

from skidpad.coverage.criterion import BadCoverageError, Criterion
from skidpad.coverage.profile import Profile

_MAGIC = b"SKC1"
_FEW = 2
"""Up to so many sections, one pass over the batch for each is faster than a scatter."""


@dataclass(frozen=True, slots=True)
class Coverage:
    """How much of a criterion is covered: `covered` of `total` regions, as the papers divide: regions of a neuron times neurons.

    reachable: the regions that can be covered at all. A constant neuron has one section of KMNC instead of k, and one that was never
    seen finite has none; so this is less than the total where a network has such neurons.
    """

    criterion: str
    covered: int
    total: int
    reachable: int

    @property
    def ratio(self) -> float:
        """The covered share in [0, 1], as the papers count it; NaN without neurons."""
        return self.covered / self.total if self.total else float("nan")

    @property
    def ratio_of_reachable(self) -> float:
        """The covered share of the reachable regions, in [0, 1]; NaN where there are none.

        Deviates: DeepGauge and TACTIC divide KMNC by k times the neurons, whatever the neurons' ranges.
        """
        return self.covered / self.reachable if self.reachable else float("nan")


class CoverageState:
    """The covered regions of one criterion, bool (neurons, sections).

    Never grows with the number of pictures; update and merge are an OR, so order, batch size, repetition and the
    number of workers leave the same bits.
    """

    def __init__(self, criterion: Criterion, neurons: int, profile: Profile | None = None, device: torch.device | str = "cpu") -> None:
        self.criterion = criterion
        self.neurons = neurons
        self.reachable = criterion.reachable(neurons, profile)
        bound = profile.fingerprint[:16] if criterion.needs_profile and profile is not None else "none"
        self.identity = f"{criterion!r} over {neurons} neurons, profile {bound}"
        # column 0 takes the hits of region -1, which spares sorting them out at every update
        self._padded = torch.zeros((neurons, criterion.sections + 1), dtype=torch.bool, device=device)

    @property
    def bits(self) -> torch.Tensor:
        """The covered regions, (neurons, sections) bool: a view, not to be written to."""
        return self._padded[:, 1:]

    @property
    def covered(self) -> int:
        """How many regions are covered."""
        return int(self.bits.sum())

    @property
    def ratio(self) -> float:
        """The covered share in [0, 1], as the papers count it."""
        return self.coverage().ratio

    def coverage(self) -> Coverage:
        """Returns the figures of this moment."""
        return Coverage(self.criterion.name, self.covered, self.neurons * self.criterion.sections, self.reachable)

    def update(self, regions: torch.Tensor) -> None:
        """Covers the regions of a batch, (N, neurons) with -1 for none."""
        self._check(regions)
        if self.criterion.sections <= _FEW:
            self._padded[:, 1:] |= self._hit(regions)
        else:
            self._padded.scatter_(1, _columns(regions), 1)

    def newly(self, regions: torch.Tensor) -> int:
        """Returns how many regions an update with the whole batch would add; changes nothing."""
        self._check(regions)
        if self.criterion.sections <= _FEW:
            return int((self._hit(regions) & ~self.bits).sum())
        fresh = self._fresh(regions)
        places = torch.arange(self.neurons, device=regions.device).mul_(self.criterion.sections) + regions
        return len(torch.unique(places[fresh]))

    def newly_each(self, regions: torch.Tensor) -> torch.Tensor:
        """Returns how many regions each picture alone would add to what is covered now, (N,) int64; changes nothing."""
        self._check(regions)
        return self._fresh(regions).sum(dim=1)

    def _hit(self, regions: torch.Tensor) -> torch.Tensor:
        if len(regions) == 0:
            return torch.zeros_like(self.bits)
        # the smallest distance to a section is many times faster to find than any() of a comparison
        return torch.stack([(regions - section).abs_().amin(dim=0) == 0 for section in range(self.criterion.sections)], dim=1)

    def _fresh(self, regions: torch.Tensor) -> torch.Tensor:
        return ~self._padded.gather(1, _columns(regions)).t() & (regions >= 0)

    def _check(self, regions: torch.Tensor) -> None:
        if regions.ndim != 2 or regions.shape[1] != self.neurons:
            raise BadCoverageError(
                f"regions must be of shape (N, {self.neurons}), got {tuple(regions.shape)}; give those of this state's subject"
            )

    def merge(self, other: CoverageState) -> None:
        """Covers what another state of the same criterion, settings and profile has covered."""
        if other.identity != self.identity:
            raise BadCoverageError(f"cannot merge coverage of {other.identity} into that of {self.identity}; merge states of one campaign")
        self._padded |= other._padded.to(self._padded.device)

    def fresh(self) -> CoverageState:
        """Returns a state of the same kind with nothing covered."""
        state = object.__new__(CoverageState)
        state.criterion, state.neurons, state.reachable, state.identity = self.criterion, self.neurons, self.reachable, self.identity
        state._padded = torch.zeros_like(self._padded)
        return state

    def pack(self) -> bytes:
        """Writes the bits compactly, with what they belong to and a checksum; equal bits give equal bytes."""
        header = json.dumps({"identity": self.identity, "neurons": self.neurons, "sections": self.criterion.sections}).encode()
        bits = zlib.compress(np.packbits(self.bits.cpu().numpy()).tobytes(), level=1)
        body = len(header).to_bytes(4, "little") + header + bits
        return _MAGIC + zlib.crc32(body).to_bytes(4, "little") + body

    def unpack(self, data: bytes) -> None:
        """Replaces the bits by packed ones; refuses damaged ones and those of another criterion, subject or profile."""
        body = memoryview(data)[8:]
        if data[:4] != _MAGIC or len(body) < 4 or zlib.crc32(body).to_bytes(4, "little") != data[4:8]:
            raise BadCoverageError("the stored coverage is damaged: its checksum does not match; start again or take an earlier checkpoint")
        start = 4 + int.from_bytes(body[:4], "little")
        header = json.loads(bytes(body[4:start]))
        if header["identity"] != self.identity:
            raise BadCoverageError(
                f"the stored coverage is of {header['identity']}, but this campaign counts {self.identity}; "
                "resume with the same criteria, subject and profile"
            )
        size = self.neurons * self.criterion.sections
        flat = np.unpackbits(np.frombuffer(zlib.decompress(body[start:]), np.uint8), count=size).view(np.bool_)
        self._padded[:, 1:] = torch.from_numpy(flat.reshape(self.neurons, self.criterion.sections)).to(self._padded.device)


def _columns(regions: torch.Tensor) -> torch.Tensor:
    return regions.long().add(1).t()
