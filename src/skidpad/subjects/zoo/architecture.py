"""What a network of the zoo is, PilotNet (DAVE-2) with the three networks that DeepXplore made of it, and one after DroNet."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

import torch
from torch import nn
from torch.nn import functional

from skidpad.core.errors import BadSubjectError
from skidpad.core.registry import Registry
from skidpad.core.units import AngleUnit, PlainUnit
from skidpad.subjects.description import STEERING, Description, Format, Output
from skidpad.subjects.inputs import Colour, Crop, HistoryKind, InputSpec, Layout, Range, check_history, input_channels

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


ARCHITECTURES: Registry[Architecture] = Registry("architecture", "architectures", (__name__, "skidpad.subjects.zoo.challenge"))

B = TypeVar("B", bound=Callable[..., nn.Module])


def architecture(name: str, spec: InputSpec, *outputs: Output) -> Callable[[B], B]:
    """Registers what builds a network of the zoo under a name, with its usual input; it answers steering unless outputs are given."""

    def add(builder: B) -> B:
        ARCHITECTURES.register(name)(Architecture(name, builder, spec, outputs or _STEERING_ALONE))
        return builder

    return add


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


@architecture("pilotnet", InputSpec(200, 66, Colour.YUV, Range((-1.0,), (1.0,)), Crop(top=0.4)))
def pilotnet(channels: int, height_px: int, width_px: int) -> nn.Module:
    """PilotNet, also called DAVE-2: 252,219 weights, 397 neurons.

    | layer | kernel | stride | output (66 x 200 input) |
    | --- | --- | --- | --- |
    | conv1 | 5x5 | 2 | 24 x 31 x 98 |
    | conv2 | 5x5 | 2 | 36 x 14 x 47 |
    | conv3 | 5x5 | 2 | 48 x 5 x 22 |
    | conv4 | 3x3 | 1 | 64 x 3 x 20 |
    | conv5 | 3x3 | 1 | 64 x 1 x 18 |
    | dense1..4 | | | 100, 50, 10, 1 |

    Reference: Bojarski et al. 2016, End to End Learning for Self-Driving Cars, section 4 and figure 4.
    Deviates: the normalisation layer is the description's range [-1, 1]; the paper names no activation (here ReLU) and no
    crop (here the upper 40 %, about the horizon); its answer is the inverse turning radius, here an angle.
    """
    return network(strided(channels), (100, 50, 10, 1), (channels, height_px, width_px))


# Blue, green and red means of ImageNet, which DeepXplore subtracts (Keras' "caffe" preprocessing, without scaling).
_MEANS = (103.939, 116.779, 123.68)
_DEEPXPLORE = InputSpec(100, 100, Colour.BGR, Range(tuple(-mean for mean in _MEANS), tuple(255.0 - mean for mean in _MEANS)))


@architecture("dave-orig", _DEEPXPLORE)
def dave_orig(channels: int, height_px: int, width_px: int) -> nn.Module:
    """Dave-orig, the first driving network of DeepXplore: DAVE-2's convolutions, a dense layer of 1164, 2 atan at the end.

    | layer | kernel | stride | output (100 x 100 input) |
    | --- | --- | --- | --- |
    | conv1..3 | 5x5 | 2 | 24 x 48 x 48, 36 x 22 x 22, 48 x 9 x 9 |
    | conv4..5 | 3x3 | 1 | 64 x 7 x 7, 64 x 5 x 5 |
    | dense1..5 | | | 1164, 100, 50, 10, 1 (then 2 atan) |

    Reference: Pei et al. 2017, DeepXplore, table 1; its published driving models for sizes and the ImageNet means of the input.
    """
    return network(strided(channels), (1164, 100, 50, 10, 1), (channels, height_px, width_px)).append(TwiceAtan())


@architecture("dave-norminit", _DEEPXPLORE)
def dave_norminit(channels: int, height_px: int, width_px: int) -> nn.Module:
    """Dave-norminit, the second driving network of DeepXplore: Dave-orig whose dense layers start from normal numbers.

    Its layers are those of `dave_orig`; the weights of its first four dense layers are drawn from a normal distribution with a
    deviation of 0.1, cut off at two deviations.

    Reference: Pei et al. 2017, DeepXplore, table 1; its published driving models for the deviation.
    """
    net = dave_orig(channels, height_px, width_px)
    dense = [layer for layer in net.modules() if isinstance(layer, nn.Linear)]
    for layer in dense[:-1]:
        nn.init.trunc_normal_(layer.weight, std=0.1, a=-0.2, b=0.2)
        nn.init.zeros_(layer.bias)
    return net


@architecture("dave-dropout", _DEEPXPLORE)
def dave_dropout(channels: int, height_px: int, width_px: int) -> nn.Module:
    """Dave-dropout, the third driving network of DeepXplore: fewer convolutions with pooling, dropout between dense layers.

    | layer | kernel | output (100 x 100 input) |
    | --- | --- | --- |
    | conv1, pool | 3x3, 2x2 | 16 x 49 x 49 |
    | conv2, pool | 3x3, 2x2 | 32 x 23 x 23 |
    | conv3, pool | 3x3, 2x2 | 64 x 10 x 10 |
    | dense1..4 | | 500 (dropout 0.5), 100 (dropout 0.25), 20, 1 (then 2 atan) |

    Reference: Pei et al. 2017, DeepXplore, table 1; its published driving models for the sizes.
    """
    convolutions = pooled(channels, (16, 32, 64), padding=0)
    return network(convolutions, (500, 100, 20, 1), (channels, height_px, width_px), (0.5, 0.25)).append(TwiceAtan())


class _Residual(nn.Module):
    """Two 3x3 convolutions, each behind batch norm and ReLU, beside a 1x1 one; the first and the 1x1 halve the size."""

    def __init__(self, channels: int, filters: int) -> None:
        super().__init__()
        self.long = nn.Sequential(
            nn.BatchNorm2d(channels),
            nn.ReLU(),
            SameConv2d(channels, filters, 3, 2),
            nn.BatchNorm2d(filters),
            nn.ReLU(),
            SameConv2d(filters, filters, 3),
        )
        self.short = SameConv2d(channels, filters, 1, 2)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        """Returns (N, filters, height / 2, width / 2)."""
        return torch.as_tensor(self.short(inputs) + self.long(inputs))


@architecture(
    "dronet",
    # 320 x 240 px, of which the middle 200 columns and the lower 200 rows are kept.
    InputSpec(200, 200, Colour.GREY, Range((0.0,), (1.0,)), Crop(top=40 / 240, left=60 / 320, right=60 / 320)),
    *(Output(STEERING, AngleUnit.RAD), Output("collision", PlainUnit.PROBABILITY)),
)
class DroNet(nn.Module):
    """A network like DroNet: three residual blocks, answers steering and the probability of a collision; 706 neurons.

    | layer | kernel | stride | output (200 x 200 input) |
    | --- | --- | --- | --- |
    | conv1, pool | 5x5, 3x3 | 2, 2 | 32 x 49 x 49 |
    | block 1 | 3x3, 3x3 beside 1x1 | 2, 1 beside 2 | 32 x 25 x 25 |
    | block 2 | 3x3, 3x3 beside 1x1 | 2, 1 beside 2 | 64 x 13 x 13 |
    | block 3 | 3x3, 3x3 beside 1x1 | 2, 1 beside 2 | 128 x 7 x 7 |
    | steering, collision (dropout 0.5) | | | 1, 1 (sigmoid) |

    Reference: Loquercio et al. 2018, DroNet: Learning to Fly by Driving, section III-A and figure 2; the layers of its published
    model for padding and the order of batch norm.
    Deviates: trained by the squared error of the steering alone, since recorded drives have no label for collisions: the second
    answer keeps its first weights and means nothing until somebody trains it.
    """

    def __init__(self, channels: int, height_px: int, width_px: int) -> None:
        super().__init__()
        trunk = [SameConv2d(channels, 32, 5, 2), nn.MaxPool2d(3, 2), _Residual(32, 32), _Residual(32, 64), _Residual(64, 128)]
        features = flat_features(trunk, (channels, height_px, width_px))
        self.trunk = nn.Sequential(*trunk, nn.Flatten(), nn.ReLU(), nn.Dropout(0.5)).train()
        self.steering = nn.Linear(features, 1)
        self.collision = nn.Linear(features, 1)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        """Answers (N, 2), steering and the probability of a collision, for (N, channels, height, width)."""
        seen = self.trunk(inputs)
        return torch.cat([self.steering(seen), torch.sigmoid(self.collision(seen))], 1)
