"""What a network of the zoo is, and the list of them."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import nn
from torch.nn import functional

from skidpad.core.errors import BadSubjectError
from skidpad.core.registry import Registry
from skidpad.core.units import AngleUnit
from skidpad.subjects.description import STEERING, Description, Format, HistoryKind, InputSpec, Layout, Output
from skidpad.subjects.windows import check_history, input_channels

_STEERING_ALONE = (Output(STEERING, AngleUnit.RAD),)


@dataclass(frozen=True, slots=True)
class Architecture:
    """A network of the zoo: how it is built for an input, the input that its source gives it, and what it answers.

    builder: takes channels, height_px and width_px of one input; one with a recurrent history also how many frames a window
    has. `input.history` fixes how many channels an input has, and its kind cannot be changed.
    """

    name: str
    builder: Callable[..., nn.Module]
    input: InputSpec
    outputs: tuple[Output, ...] = _STEERING_ALONE

    def build(self, spec: InputSpec | None = None) -> nn.Module:
        """Builds the network with fresh weights for an input; drawn from torch's global generator."""
        spec = spec or self.input
        if spec.layout is not Layout.NCHW:
            raise BadSubjectError(f"networks of the zoo take the layout 'nchw'; got {spec.layout.value!r}")
        kind = self.input.history.kind
        if spec.history.kind is not kind:
            raise BadSubjectError(f"{self.name!r} takes a history of kind {kind.value!r}; got {spec.history.kind.value!r}")
        check_history(spec)
        shape = (input_channels(spec), spec.height_px, spec.columns_px)
        try:
            return self.builder(*shape, spec.history.frames) if kind is HistoryKind.RECURRENT else self.builder(*shape)
        except RuntimeError as error:
            raise BadSubjectError(f"an input of {spec.height_px} x {spec.width_px} px is too small for {self.name!r}") from error

    def describe(self, name: str, file: str, spec: InputSpec | None = None) -> Description:
        """Describes a network of this architecture whose weights are the safetensors `file`."""
        return Description(name, file, Format.SAFETENSORS, spec or self.input, self.outputs, self.name)


_MODULES = tuple(f"skidpad.subjects.zoo.{module}" for module in ("dave", "challenge", "dronet"))

ARCHITECTURES: Registry[Architecture] = Registry("architecture", "architectures", _MODULES)


class TwiceAtan(nn.Module):
    """The last step of DeepXplore's networks and of Autumn, 2 atan(x): any number becomes an angle within +-pi."""

    def forward(self, value: torch.Tensor) -> torch.Tensor:
        """Returns 2 atan(value)."""
        return torch.atan(value) * 2.0


class SameConv2d(nn.Conv2d):
    """A convolution with Keras' padding "same": as many outputs as inputs over the stride, rounded up.

    What has to be added is added half before and half after, the odd one after.
    """

    def forward(self, input: torch.Tensor) -> torch.Tensor:  # noqa: A002 # the name is torch's
        """Pads and convolves, (N, channels, height, width)."""
        missing = [
            max((-(-size // stride) - 1) * stride + kernel - size, 0)
            for size, stride, kernel in zip(input.shape[-2:], self.stride, self.kernel_size, strict=True)
        ]
        (above, beside) = missing
        padding = (beside // 2, beside - beside // 2, above // 2, above - above // 2)
        return super().forward(functional.pad(input, padding) if any(missing) else input)


def network(
    convolutions: list[nn.Module], dense: tuple[int, ...], shape: tuple[int, int, int], dropout: tuple[float, ...] = ()
) -> nn.Sequential:
    """Joins convolutions and dense layers; `dropout[i]` follows dense layer i, and ReLU follows all but the last."""
    features = flat_features(convolutions, shape)
    layers: list[nn.Module] = [*convolutions, nn.Flatten()]
    for position, width in enumerate(dense):
        layers.append(nn.Linear(features, width))
        if position < len(dense) - 1:
            layers.append(nn.ReLU())
        if position < len(dropout) and dropout[position] > 0.0:
            layers.append(nn.Dropout(dropout[position]))
        features = width
    return nn.Sequential(*layers).train()


def flat_features(convolutions: list[nn.Module], shape: tuple[int, int, int]) -> int:
    """Returns how many numbers leave the convolutions for one input (channels, height_px, width_px)."""
    with torch.inference_mode():
        return int(nn.Sequential(*convolutions, nn.Flatten()).eval()(torch.zeros(1, *shape)).shape[1])


def strided(channels: int) -> list[nn.Module]:
    """The five convolutions of DAVE-2: 5x5 with stride 2 three times, then 3x3 twice, no padding."""
    layers: list[nn.Module] = []
    for filters, kernel, stride in ((24, 5, 2), (36, 5, 2), (48, 5, 2), (64, 3, 1), (64, 3, 1)):
        layers += [nn.Conv2d(channels, filters, kernel, stride), nn.ReLU()]
        channels = filters
    return layers


def pooled(channels: int, filters: tuple[int, ...], padding: int, dropout: tuple[float, ...] = ()) -> list[nn.Module]:
    """3x3 convolutions, each with ReLU, 2x2 max-pooling and dropout where given."""
    layers: list[nn.Module] = []
    for position, count in enumerate(filters):
        layers += [nn.Conv2d(channels, count, 3, padding=padding), nn.ReLU(), nn.MaxPool2d(2)]
        if dropout:
            layers.append(nn.Dropout(dropout[position]))
        channels = count
    return layers
