"""What a coverage criterion is, and those that there are: NC of DeepTest, NBC, SNAC, KMNC and TKNC of TACTIC and DeepGauge."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Protocol

import torch

from skidpad.core.errors import BadParametersError, SkidpadError
from skidpad.core.registry import Registry

if TYPE_CHECKING:
    from skidpad.coverage.profile import Profile
    from skidpad.subjects.base import Layer


class BadCoverageError(SkidpadError):
    """Coverage or a profile that is damaged, or that belongs to another subject, drive or criterion."""


class Criterion(Protocol):
    """Divides what a neuron can do into regions; a region is covered once one picture hits it.

    A criterion is a frozen dataclass of its settings, so that equal settings print alike and compare equal.
    A value that is not finite hits no region, under every criterion: a computation that broke down is a finding of
    its own, and must not earn coverage.
    """

    @property
    def name(self) -> str:
        """The name of its registry row."""

    @property
    def sections(self) -> int:
        """How many regions a neuron has, at most."""

    @property
    def needs_profile(self) -> bool:
        """Whether the regions depend on the bounds that a training drive gave."""

    def regions(self, values: torch.Tensor, layers: tuple[Layer, ...], profile: Profile | None, /) -> torch.Tensor:
        """Returns the region that each picture hits in each neuron, (N, neurons) whole; -1 where it hits none.

        int64, or int8 where a neuron has fewer than 128 regions. Pure; values: (N, neurons) floating, on any device,
        with the profile on the same one.
        """

    def reachable(self, neurons: int, profile: Profile | None, /) -> int:
        """Returns how many regions of all neurons can be hit at all; at most `sections` times the neurons, which papers divide by."""


CRITERIA: Registry[Callable[..., Criterion]] = Registry("criterion", "criteria", (__name__,))


def neurons_of(layers: tuple[Layer, ...]) -> int:
    """Returns how many neurons the layers have together; refuses layers that leave gaps or overlap."""
    stop = 0
    for layer in layers:
        if layer.start != stop or layer.stop <= layer.start:
            raise BadCoverageError(
                f"layer {layer.name!r} spans neurons {layer.start} to {layer.stop}, but the layer before it ends at {stop}; "
                "give non-empty layers that follow one another without gaps, or leave this one out"
            )
        stop = layer.stop
    if stop == 0:
        raise BadCoverageError(
            "the subject shows no layers, so its coverage cannot be measured; use a subject whose neurons can be observed"
        )
    return stop


def check_values(values: torch.Tensor, neurons: int) -> None:
    """Refuses anything but floating values of shape (N, neurons)."""
    if values.ndim != 2 or values.shape[1] != neurons or not values.is_floating_point():
        raise BadCoverageError(
            f"neuron values must be floating and of shape (N, {neurons}), got {values.dtype} of shape {tuple(values.shape)}; "
            "give the values of the same subject that the layers or the profile came from"
        )


def finite_or_nan(values: torch.Tensor) -> torch.Tensor:
    """Returns a copy in which every value that is not finite is NaN, which no comparison holds for."""
    nan = float("nan")
    return values.nan_to_num(nan=nan, posinf=nan, neginf=nan)


def required(profile: Profile | None, name: str, neurons: int) -> Profile:
    """Returns the profile that a criterion needs, or says that it is missing, empty or another subject's."""
    if profile is None:
        raise BadCoverageError(f"criterion {name!r} needs a profile of neuron bounds, got none; build one from the training drive")
    if profile.neurons != neurons:
        raise BadCoverageError(
            f"the profile has {profile.neurons} neurons and the subject {neurons}; build the profile again with this subject"
        )
    if profile.pictures == 0:
        raise BadCoverageError(
            f"criterion {name!r} needs neuron bounds, but the profile has seen no picture; update it with a training drive"
        )
    return profile


@CRITERIA.register("nc")
@dataclass(frozen=True, slots=True)
class NC:
    """Neuron coverage; one region a neuron, hit where the layer-scaled value is strictly above the threshold.

    Scaling is by the minimum and the maximum of the layer in that picture. A constant layer scales to zero, and so does
    a layer of one neuron, which therefore never passes; it is counted all the same, as the paper counts every neuron.
    Where a layer holds a value that is not finite it has no scale, and nothing in it is activated.

    Reference: DeepTest, section 3.1 and Eq. 1; threshold 0.2.
    """

    threshold: float = 0.2

    name: ClassVar[str] = "nc"
    sections: ClassVar[int] = 1
    needs_profile: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if not 0 <= self.threshold < 1:
            raise BadParametersError(f"criterion 'nc' takes threshold in [0, 1), got {self.threshold!r}; the paper uses 0.2")

    def activated(self, values: torch.Tensor, layers: tuple[Layer, ...]) -> torch.Tensor:
        """Tells which neurons each picture activates, (N, neurons) bool."""
        check_values(values, neurons_of(layers))
        # comparing in place, on floats, takes a CPU a third of the time of a comparison that answers with bools
        activated = values.clone()
        for layer in layers:
            part = values[:, layer.start : layer.stop]
            low, high = torch.aminmax(part, dim=1, keepdim=True)
            # scaling the threshold to the layer, not the layer to the threshold, spares a pass over the neurons;
            # the bar is NaN or infinite where the layer has no scale
            bar = torch.add(low, high - low, alpha=self.threshold)
            activated[:, layer.start : layer.stop].gt_(bar)
        return activated.to(torch.bool)

    def regions(self, values: torch.Tensor, layers: tuple[Layer, ...], _profile: Profile | None = None, /) -> torch.Tensor:
        """Returns 0 where a picture activates a neuron, else -1; (N, neurons) int8."""
        return self.activated(values, layers).to(torch.int8).sub_(1)

    def reachable(self, neurons: int, _profile: Profile | None = None, /) -> int:
        """Returns the number of neurons."""
        return neurons


@CRITERIA.register("nbc")
@dataclass(frozen=True, slots=True)
class NBC:
    """Neuron boundary coverage: region 0 is strictly below the profile's low, region 1 strictly above its high.

    `margin_std` widens the range on both sides by so many standard deviations of the neuron over the training drive.

    Reference: TACTIC, section 3.2.1 (no margin); DeepGauge for margins of 0.5 and 1 standard deviation.
    """

    margin_std: float = 0.0

    name: ClassVar[str] = "nbc"
    sections: ClassVar[int] = 2
    needs_profile: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if not 0 <= self.margin_std < float("inf"):
            raise BadParametersError(
                f"criterion {self.name!r} takes margin_std of at least 0, got {self.margin_std!r}; the papers use 0, 0.5 or 1"
            )

    def regions(self, values: torch.Tensor, layers: tuple[Layer, ...], profile: Profile | None, /) -> torch.Tensor:
        """Returns 0 below the range, 1 above it, else -1; (N, neurons) int8."""
        neurons = neurons_of(layers)
        check_values(values, neurons)
        low, high = required(profile, self.name, neurons).bounds(self.margin_std)
        clean = finite_or_nan(values)
        # masks as floats, made in place: on a CPU a third of the time of bools
        below = clean.clone().lt_(low)
        return clean.gt_(high).mul_(2).add_(below).sub_(1).to(torch.int8)

    def reachable(self, neurons: int, profile: Profile | None, /) -> int:
        """Returns the regions of every neuron that the profile knows."""
        return self.sections * required(profile, self.name, neurons).observed


@CRITERIA.register("snac")
@dataclass(frozen=True, slots=True)
class SNAC(NBC):
    """Strong neuron activation coverage: one region a neuron, strictly above the profile's high.

    Reference: DeepGauge; the upper half of TACTIC's NBC, section 3.2.1.
    """

    name: ClassVar[str] = "snac"
    sections: ClassVar[int] = 1

    def regions(self, values: torch.Tensor, layers: tuple[Layer, ...], profile: Profile | None, /) -> torch.Tensor:
        """Returns 0 above the range, else -1; (N, neurons) int8."""
        neurons = neurons_of(layers)
        check_values(values, neurons)
        _, high = required(profile, self.name, neurons).bounds(self.margin_std)
        return finite_or_nan(values).gt_(high).sub_(1).to(torch.int8)


@CRITERIA.register("kmnc")
@dataclass(frozen=True, slots=True)
class KMNC:
    """k-multisection neuron coverage: [low, high] of the profile in k equal sections.

    Section i (from 0) holds low + i w <= value < low + (i + 1) w; the maximum belongs to the last one. Outside of
    [low, high] is never a section. A neuron with low = high has one section; one that was never seen finite has none,
    and neither has one whose range is too wide for its float type.

    Reference: TACTIC, section 3.2.1, k = 1000 in its section 4.1, after DeepGauge.
    """

    sections: int = 1000

    name: ClassVar[str] = "kmnc"
    needs_profile: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if self.sections < 1:
            raise BadParametersError(f"criterion 'kmnc' takes sections of at least 1, got {self.sections!r}; the paper uses 1000")

    def regions(self, values: torch.Tensor, layers: tuple[Layer, ...], profile: Profile | None, /) -> torch.Tensor:
        """Returns the section of each value, (N, neurons) int64; -1 outside of the range."""
        neurons = neurons_of(layers)
        check_values(values, neurons)
        low, high = required(profile, self.name, neurons).bounds()
        width = high - low
        # NaN compares false with everything, which is how a neuron without sections hits none
        low = low.masked_fill(~torch.isfinite(width), torch.nan)
        clean = finite_or_nan(values)
        # masks as floats, made in place: on a CPU several times faster than bools and masked_fill
        inside = clean.clone().ge_(low).mul_(clean.clone().le_(high))
        # a quotient first, then times k: k / width would overflow where the range is a subnormal
        part = clean.sub_(low).div_(width.masked_fill(width == 0, 1.0)).mul_(self.sections).floor_().clamp_(0, self.sections - 1)
        return part.nan_to_num_(nan=0.0).add_(1).mul_(inside).sub_(1).long()

    def reachable(self, neurons: int, profile: Profile | None, /) -> int:
        """Returns k for every neuron with a range, 1 for every constant one, 0 for those without bounds."""
        low, high = required(profile, self.name, neurons).bounds()
        width = high - low
        return int((width == 0).sum()) + self.sections * int(((width > 0) & torch.isfinite(width)).sum())


@CRITERIA.register("tknc")
@dataclass(frozen=True, slots=True)
class TKNC:
    """Top-k neuron coverage: one region a neuron, hit where its value is among the k largest of its layer.

    Of equal values the lower index wins, so that a picture names exactly k neurons of every layer that has as many
    finite values. A layer of k neurons or fewer is always covered whole.

    Reference: DeepGauge, which defines it and tries k = 1, 2 and 3; the five papers give no k, ours is its largest.
    """

    k: int = 3

    name: ClassVar[str] = "tknc"
    sections: ClassVar[int] = 1
    needs_profile: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if self.k < 1:
            raise BadParametersError(f"criterion 'tknc' takes k of at least 1, got {self.k!r}; DeepGauge uses 1, 2 and 3")

    def regions(self, values: torch.Tensor, layers: tuple[Layer, ...], _profile: Profile | None = None, /) -> torch.Tensor:
        """Returns 0 where a neuron is among the top k of its layer, else -1; (N, neurons) int8."""
        check_values(values, neurons_of(layers))
        ranked = values.nan_to_num(nan=-torch.inf, posinf=-torch.inf, neginf=-torch.inf)
        leads = torch.zeros(values.shape, dtype=torch.bool, device=values.device)
        wide, edges = [], []
        for layer in layers:
            part, lead = ranked[:, layer.start : layer.stop], leads[:, layer.start : layer.stop]
            if layer.neurons <= self.k:
                lead.copy_(part > -torch.inf)
                continue
            top = part.topk(self.k + 1, dim=1)
            lead.scatter_(1, top.indices[:, : self.k], 1)
            wide.append((part, lead))
            edges.append(top.values[:, self.k - 1 :])
        if edges and len(values):
            # asked once for all layers, because a GPU is waited for with each question
            border = torch.stack(edges)
            tied = (border[:, :, 0] == border[:, :, 1]).any(dim=1).tolist()
            for (part, lead), edge, tie in zip(wide, edges, tied, strict=True):
                if tie:
                    lead.copy_(_leading(part, edge[:, :1], self.k))
        return leads.to(torch.int8).sub_(1)

    def reachable(self, neurons: int, _profile: Profile | None = None, /) -> int:
        """Returns the number of neurons."""
        return neurons


def _leading(part: torch.Tensor, kth: torch.Tensor, k: int) -> torch.Tensor:
    # topk breaks ties as it likes; its k-th value does not depend on how
    above = part > kth
    level = (part == kth) & (part > -torch.inf)
    room = k - above.sum(dim=1, keepdim=True)
    return above | (level & (level.cumsum(dim=1) <= room))
