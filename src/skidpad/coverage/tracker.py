"""What has been covered so far: bits, one a region, that can only be set; several criteria are updated together batch by batch."""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from skidpad.core.errors import UnknownNameError
from skidpad.coverage.criteria import NC, BadCoverageError, Criterion, check_values, neurons_of
from skidpad.coverage.profile import Profile
from skidpad.subjects.base import Layer

_STATE_MAGIC = b"SKC1"
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
        return _STATE_MAGIC + zlib.crc32(body).to_bytes(4, "little") + body

    def unpack(self, data: bytes) -> None:
        """Replaces the bits by packed ones; refuses damaged ones and those of another criterion, subject or profile."""
        body = memoryview(data)[8:]
        if data[:4] != _STATE_MAGIC or len(body) < 4 or zlib.crc32(body).to_bytes(4, "little") != data[4:8]:
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


_MAGIC = b"SKT1"


@dataclass(frozen=True, slots=True)
class Activity:
    """Which neurons each picture of a batch activated, in the sense of NC.

    active_neurons: (N,) int32. packed: (N, ceil(neurons / 8)) uint8 as of `numpy.packbits`, None unless asked for.
    """

    active_neurons: NDArray[np.int32]
    packed: NDArray[np.uint8] | None

    def of(self, place: int) -> Activity:
        """Returns what one picture activated."""
        some = slice(place, place + 1)
        return Activity(self.active_neurons[some], None if self.packed is None else self.packed[some])


class CoverageTracker:
    """Holds the states of several criteria for one subject, and counts the pictures.

    NC is always among the criteria, with the paper's threshold unless given, because the records of a run need its
    count. Bits merge by OR; the counts of pictures add, so a shard must be merged once. Of a black box, which has no
    layers, only the pictures are counted.
    """

    def __init__(
        self,
        criteria: Iterable[Criterion],
        layers: tuple[Layer, ...],
        profile: Profile | None = None,
        device: torch.device | str = "cpu",
    ) -> None:
        chosen = tuple(criteria)
        self._nc = next((criterion for criterion in chosen if isinstance(criterion, NC)), NC())
        others = tuple(criterion for criterion in chosen if criterion is not self._nc)
        names = [self._nc.name, *(criterion.name for criterion in others)]
        if len(set(names)) != len(names):
            raise BadCoverageError(f"every criterion may be tracked once, got {', '.join(names)}; use a second tracker for other settings")
        if others and not layers:
            raise BadCoverageError(f"the subject is a black box without layers, so {', '.join(names[1:])} cannot be counted; leave it out")
        self.layers = layers
        self.neurons = neurons_of(layers) if layers else 0
        self.device = torch.device(device)
        self.profile = profile.to(device) if profile is not None else None
        counted = (self._nc, *others) if layers else ()
        self.states = tuple(CoverageState(criterion, self.neurons, self.profile, device) for criterion in counted)
        self.pictures = 0
        self.broken_pictures = 0
        """Pictures with a neuron whose value was not finite."""

    def state(self, name: str) -> CoverageState:
        """Returns the state of the criterion `name`."""
        for state in self.states:
            if state.criterion.name == name:
                return state
        raise UnknownNameError.among("tracked criterion", name, [state.criterion.name for state in self.states])

    def regions(self, name: str, values: torch.Tensor) -> torch.Tensor:
        """Returns the regions that a batch hits under the criterion `name`, for `newly` of its state; changes nothing."""
        return self.state(name).criterion.regions(values.to(self.device), self.layers, self.profile)

    def update(self, values: torch.Tensor, *, packed: bool = False) -> Activity:
        """Covers what a batch hits, (N, neurons); answers with what each picture activated."""
        check_values(values, self.neurons)
        if len(values) == 0:
            return Activity(np.zeros(0, np.int32), np.zeros((0, -(-self.neurons // 8)), np.uint8) if packed else None)
        if not self.layers:
            self.pictures += len(values)
            return Activity(np.zeros(len(values), np.int32), np.zeros((len(values), 0), np.uint8) if packed else None)
        values = values.to(self.device)
        activated = self._nc.activated(values, self.layers)
        self.states[0].update(activated.to(torch.int8).sub_(1))
        for state in self.states[1:]:
            state.update(state.criterion.regions(values, self.layers, self.profile))
        # a sum is finite where all its terms are, unless it overflows; float64 cannot from float32
        broken = ~values.sum(dim=1, dtype=torch.float64).isfinite()
        counts = torch.stack([activated.sum(dim=1), broken.long()]).cpu().numpy()
        self.pictures += len(values)
        self.broken_pictures += int(counts[1].sum())
        return Activity(counts[0].astype(np.int32), np.packbits(activated.cpu().numpy(), axis=1) if packed else None)

    def coverage(self) -> tuple[Coverage, ...]:
        """Returns the figures of every criterion at this moment."""
        return tuple(state.coverage() for state in self.states)

    def merge(self, other: CoverageTracker) -> None:
        """Takes in what another tracker of the same criteria has covered and counted."""
        if [state.identity for state in other.states] != [state.identity for state in self.states]:
            raise BadCoverageError(
                f"cannot merge different criteria: {_names(other.states)} into {_names(self.states)}; merge shards of one campaign"
            )
        for mine, theirs in zip(self.states, other.states, strict=True):
            mine.merge(theirs)
        self.pictures += other.pictures
        self.broken_pictures += other.broken_pictures

    def fresh(self) -> CoverageTracker:
        """Returns a tracker of the same kind with nothing covered, as a shard needs it."""
        tracker = object.__new__(CoverageTracker)
        tracker._nc, tracker.layers, tracker.neurons = self._nc, self.layers, self.neurons
        tracker.device, tracker.profile = self.device, self.profile
        tracker.states = tuple(state.fresh() for state in self.states)
        tracker.pictures = tracker.broken_pictures = 0
        return tracker

    def pack(self) -> bytes:
        """Writes all states and counts compactly."""
        parts = [state.pack() for state in self.states]
        counts = b"".join(number.to_bytes(8, "little") for number in (self.pictures, self.broken_pictures, len(parts)))
        return _MAGIC + counts + b"".join(len(part).to_bytes(8, "little") + part for part in parts)

    def unpack(self, data: bytes) -> None:
        """Replaces states and counts by packed ones; on a refusal nothing is changed."""
        parts = _split(data)
        if len(parts) != len(self.states):
            raise BadCoverageError(
                f"the stored coverage has {len(parts)} criteria, but this campaign counts {len(self.states)} ({_names(self.states)}); "
                "resume with the same criteria"
            )
        restored = tuple(state.fresh() for state in self.states)
        for state, part in zip(restored, parts, strict=True):
            state.unpack(part)
        self.states = restored
        self.pictures, self.broken_pictures = (int.from_bytes(data[place : place + 8], "little") for place in (4, 12))


def _names(states: tuple[CoverageState, ...]) -> str:
    return ", ".join(repr(state.criterion) for state in states)


def _split(data: bytes) -> list[bytes]:
    parts: list[bytes] = []
    place = 28
    while place < len(data):
        stop = place + 8 + int.from_bytes(data[place : place + 8], "little")
        parts.append(data[place + 8 : stop])
        place = stop
    if data[:4] != _MAGIC or place != len(data) or int.from_bytes(data[20:28], "little") != len(parts):
        raise BadCoverageError("the stored coverage is damaged or cut off; start again or take an earlier checkpoint")
    return parts
