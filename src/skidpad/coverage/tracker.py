"""Several criteria over one campaign, updated together batch by batch."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from skidpad.core.errors import UnknownNameError
from skidpad.core.layers import Layer
from skidpad.coverage.activation import NC
from skidpad.coverage.criterion import BadCoverageError, Criterion, check_values, neurons_of
from skidpad.coverage.profile import Profile
from skidpad.coverage.state import Coverage, CoverageState

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
