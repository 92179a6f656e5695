"""What a coverage criterion is, and the registry of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from skidpad.core.errors import SkidpadError
from skidpad.core.registry import Registry

if TYPE_CHECKING:
    import torch

    from skidpad.core.layers import Layer
    from skidpad.coverage.profile import Profile


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
        ...

    @property
    def sections(self) -> int:
        """How many regions a neuron has, at most."""
        ...

    @property
    def needs_profile(self) -> bool:
        """Whether the regions depend on the bounds that a training drive gave."""
        ...

    def regions(self, values: torch.Tensor, layers: tuple[Layer, ...], profile: Profile | None, /) -> torch.Tensor:
        """Returns the region that each picture hits in each neuron, (N, neurons) whole; -1 where it hits none.

        int64, or int8 where a neuron has fewer than 128 regions. Pure; values: (N, neurons) floating, on any device,
        with the profile on the same one.
        """
        ...

    def reachable(self, neurons: int, profile: Profile | None, /) -> int:
        """Returns how many regions of all neurons can be hit at all; at most `sections` times the neurons, which papers divide by."""
        ...


CRITERIA: Registry[Callable[..., Criterion]] = Registry(
    "criterion",
    "criteria",
    (
        "skidpad.coverage.activation",
        "skidpad.coverage.multisection",
        "skidpad.coverage.boundary",
        "skidpad.coverage.topk",
    ),
)


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
