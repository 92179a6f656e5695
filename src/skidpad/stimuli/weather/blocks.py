"""What both methods are built of: convolutions, norms, residual blocks, and the discriminators.

Reference: Huang et al. 2018, MUNIT, appendix B; Liu et al. 2017, UNIT, table of layers.
Deviates: convolutions inside pad with zeros, only the first and the last one by reflection: padding by reflection costs a
tenth of a training step and is seen at the border alone.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import torch
from torch import nn
from torch.nn import functional

_EPSILON = 1e-5


def normalised(maps: torch.Tensor, axes: tuple[int, ...], scale: torch.Tensor | None, shift: torch.Tensor | None) -> torch.Tensor:
    """Subtracts the mean and divides by the deviation over `axes`, in float32; then scales and shifts where given.

    axes: (2, 3), each channel of each picture by itself, or (1, 2, 3), each picture as a whole.

    On a GPU it is written out and compiled: torch's group norm gives a picture to one block of a GPU, its instance norm copies the layout,
    and left in parts the norms take nearly half of a training step. On a CPU torch's group norm is one pass, 10 to 30 times as fast.
    """
    return compiled(written_out)(maps, axes, scale, shift) if maps.is_cuda else grouped(maps, axes, scale, shift)


def grouped(maps: torch.Tensor, axes: tuple[int, ...], scale: torch.Tensor | None, shift: torch.Tensor | None) -> torch.Tensor:
    """Normalises by torch's group norm, for a CPU; see `normalised`."""
    count, channels = maps.shape[:2]
    if axes == (1, 2, 3):
        weight, bias = (each if each is None else each.flatten() for each in (scale, shift))
        return functional.group_norm(maps, 1, weight, bias, _EPSILON)
    # channels of all pictures as those of one: each is then scaled and shifted by numbers of its own
    weight, bias = (each if each is None else each.expand(count, channels, 1, 1).flatten().to(maps.dtype) for each in (scale, shift))
    whole = maps.contiguous().reshape(1, count * channels, *maps.shape[2:])
    return functional.group_norm(whole, count * channels, weight, bias, _EPSILON).reshape(maps.shape)


@cache
def compiled(function: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
    """Compiles a step of the networks, for every shape of maps that it meets."""
    import torch._dynamo.config as compiling  # noqa: PLC0415 - torch's compiler takes 1.5 s to import, for GPUs only

    compiling.recompile_limit = max(compiling.recompile_limit, 64)
    return torch.compile(function, dynamic=False)


def written_out(maps: torch.Tensor, axes: tuple[int, ...], scale: torch.Tensor | None, shift: torch.Tensor | None) -> torch.Tensor:
    """Normalises in parts that a compiler joins, for a GPU; see `normalised`."""
    values = maps.float()
    variance, mean = torch.var_mean(values, axes, correction=0, keepdim=True)
    factor = torch.rsqrt(variance + _EPSILON)
    factor = factor if scale is None else factor * scale.float()
    offset = -mean * factor
    offset = offset if shift is None else offset + shift.float()
    return torch.addcmul(offset, values, factor).to(maps.dtype)


class InstanceNorm(nn.Module):
    """Each channel of each picture by itself, without weights."""

    def forward(self, maps: torch.Tensor) -> torch.Tensor:
        """Returns the normalised maps, (N, channels, height, width)."""
        return normalised(maps, (2, 3), None, None)


class LayerNorm(nn.Module):
    """Each picture as a whole, with a weight and a bias a channel."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(channels, 1, 1))
        self.bias = nn.Parameter(torch.zeros(channels, 1, 1))

    def forward(self, maps: torch.Tensor) -> torch.Tensor:
        """Returns the normalised maps, (N, channels, height, width)."""
        return normalised(maps, (1, 2, 3), self.weight, self.bias)


class Convolution(nn.Module):
    """A convolution that keeps the size (or halves it), then a norm and ReLU where asked for."""

    def __init__(
        self, channels: int, filters: int, kernel: int, *, stride: int = 1, norm: str = "none", relu: bool = True, reflect: bool = False
    ) -> None:
        super().__init__()
        self.reflected = kernel // 2 if reflect else 0
        self.convolution = nn.Conv2d(channels, filters, kernel, stride, 0 if reflect else (kernel - 1) // 2)
        self.norm = LayerNorm(filters) if norm == "layer" else InstanceNorm() if norm == "instance" else nn.Identity()
        self.relu = relu

    def forward(self, maps: torch.Tensor) -> torch.Tensor:
        """Returns (N, filters, height / stride, width / stride)."""
        if self.reflected:
            maps = functional.pad(maps, (self.reflected,) * 4, mode="reflect")
        maps = self.norm(self.convolution(maps))
        return functional.relu(maps) if self.relu else maps


class Residual(nn.Module):
    """Two 3x3 convolutions with instance norm around a shortcut."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.first = Convolution(channels, channels, 3, norm="instance")
        self.second = Convolution(channels, channels, 3, norm="instance", relu=False)

    def forward(self, maps: torch.Tensor) -> torch.Tensor:
        """Returns maps of the same shape."""
        result: torch.Tensor = maps + self.second(self.first(maps))
        return result


class StyledResidual(nn.Module):
    """A residual block whose norms are scaled and shifted by the style (AdaIN)."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(channels, channels, 3, padding=1)
        self.second = nn.Conv2d(channels, channels, 3, padding=1)

    def forward(self, maps: torch.Tensor, norms: torch.Tensor) -> torch.Tensor:
        """Returns maps of the same shape; norms: (N, 4, channels, 1, 1), scale and shift of either norm."""
        changed = functional.relu(normalised(self.first(maps), (2, 3), norms[:, 0], norms[:, 1]))
        return maps + normalised(self.second(changed), (2, 3), norms[:, 2], norms[:, 3])


class Enlarging(nn.Module):
    """Doubles height and width by repeating, then a 5x5 convolution that halves the channels, with layer norm."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.convolution = Convolution(channels, channels // 2, 5, norm="layer")

    def forward(self, maps: torch.Tensor) -> torch.Tensor:
        """Returns (N, channels / 2, 2 height, 2 width)."""
        result: torch.Tensor = self.convolution(functional.interpolate(maps, scale_factor=2.0, mode="nearest"))
        return result


class Discriminator(nn.Module):
    """Tells real from made pictures patch by patch, at several scales, trained by least squares.

    Reference: MUNIT, appendix B; Mao et al. 2017, LSGAN.
    """

    def __init__(self, filters: int, scales: int) -> None:
        super().__init__()
        self.towers = nn.ModuleList(self._tower(filters) for _ in range(scales))

    @staticmethod
    def _tower(filters: int) -> nn.Sequential:
        layers: list[nn.Module] = []
        channels = 3
        for step in range(4):
            layers += [nn.Conv2d(channels, filters * 2**step, 4, 2, 1), nn.LeakyReLU(0.2)]
            channels = filters * 2**step
        return nn.Sequential(*layers, nn.Conv2d(channels, 1, 1))

    def forward(self, pictures: torch.Tensor) -> list[torch.Tensor]:
        """Returns one map of verdicts for each scale: near 1 is real, near 0 is made."""
        verdicts: list[torch.Tensor] = []
        for tower in self.towers:
            verdicts.append(tower(pictures))
            pictures = functional.avg_pool2d(pictures, 3, 2, 1, count_include_pad=False)
        return verdicts

    def loss(self, real: torch.Tensor, made: torch.Tensor) -> torch.Tensor:
        """The loss of telling real pictures from made ones, summed over scales."""
        # One pass over both: half as many launches.
        halves = [verdict.float().chunk(2) for verdict in self(torch.cat([real, made]))]
        return torch.stack([(first - 1.0).square().mean() + second.square().mean() for first, second in halves]).sum()

    def fooling_loss(self, made: torch.Tensor) -> torch.Tensor:
        """The generator's loss: made pictures should be taken for real ones."""
        return torch.stack([(verdict.float() - 1.0).square().mean() for verdict in self(made)]).sum()


def start(module: nn.Module, *, gain_from_relu: bool) -> None:
    """Draws fresh weights: He's for the generators, N(0, 0.02) for the discriminators; biases are 0.

    Reference: MUNIT, appendix B.
    """
    for layer in module.modules():
        if isinstance(layer, nn.Conv2d | nn.Linear):
            if gain_from_relu:
                nn.init.kaiming_normal_(layer.weight, nonlinearity="relu")
            else:
                nn.init.normal_(layer.weight, 0.0, 0.02)
            if layer.bias is not None:
                nn.init.zeros_(layer.bias)
