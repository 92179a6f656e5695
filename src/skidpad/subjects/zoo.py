"""The zoo: driving networks of the papers, written from their descriptions, each with its usual input.

Every network takes any input size; the sizes in the tables hold for the usual one. Answers are radians here, whatever the
original was trained on, since `training` trains in radians.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import nn

from skidpad.core.angles import AngleUnit
from skidpad.core.errors import BadSubjectError
from skidpad.core.registry import Registry
from skidpad.subjects.description import STEERING, Colour, Crop, Description, Format, InputSpec, Layout, Output, Range


@dataclass(frozen=True, slots=True)
class Architecture:
    """A network of the zoo: how it is built for an input, and the input that its source gives it."""

    name: str
    builder: Callable[[int, int, int], nn.Module]
    input: InputSpec

    def build(self, spec: InputSpec | None = None) -> nn.Module:
        """Builds the network with fresh weights for an input; drawn from torch's global generator."""
        spec = spec or self.input
        if spec.layout is not Layout.NCHW:
            raise BadSubjectError(f"networks of the zoo take the layout 'nchw'; got {spec.layout.value!r}")
        try:
            return self.builder(spec.colour.channels, spec.height_px, spec.width_px)
        except RuntimeError as error:
            raise BadSubjectError(f"an input of {spec.height_px} x {spec.width_px} px is too small for {self.name!r}") from error

    def describe(self, name: str, file: str, spec: InputSpec | None = None) -> Description:
        """Describes a network of this architecture whose weights are the safetensors `file`."""
        outputs = (Output(STEERING, AngleUnit.RAD),)
        return Description(name, file, Format.SAFETENSORS, spec or self.input, outputs, self.name)


ARCHITECTURES: Registry[Architecture] = Registry("architecture", "architectures", (__name__,))


class _TwiceAtan(nn.Module):
    """DeepXplore's last step, 2 atan(x): any number becomes an angle within +-pi."""

    def forward(self, value: torch.Tensor) -> torch.Tensor:
        """Returns 2 atan(value)."""
        return torch.atan(value) * 2.0


def _network(
    convolutions: list[nn.Module], dense: tuple[int, ...], shape: tuple[int, int, int], dropout: tuple[float, ...] = ()
) -> nn.Sequential:
    """Joins convolutions and dense layers; `dropout[i]` follows dense layer i, and ReLU follows all but the last."""
    with torch.inference_mode():
        features = nn.Sequential(*convolutions, nn.Flatten()).eval()(torch.zeros(1, *shape)).shape[1]
    layers: list[nn.Module] = [*convolutions, nn.Flatten()]
    for position, width in enumerate(dense):
        layers.append(nn.Linear(features, width))
        if position < len(dense) - 1:
            layers.append(nn.ReLU())
        if position < len(dropout) and dropout[position] > 0.0:
            layers.append(nn.Dropout(dropout[position]))
        features = width
    return nn.Sequential(*layers).train()


def _strided(channels: int) -> list[nn.Module]:
    """The five convolutions of DAVE-2: 5x5 with stride 2 three times, then 3x3 twice, no padding."""
    layers: list[nn.Module] = []
    for filters, kernel, stride in ((24, 5, 2), (36, 5, 2), (48, 5, 2), (64, 3, 1), (64, 3, 1)):
        layers += [nn.Conv2d(channels, filters, kernel, stride), nn.ReLU()]
        channels = filters
    return layers


def _pooled(channels: int, filters: tuple[int, ...], padding: int, dropout: tuple[float, ...] = ()) -> list[nn.Module]:
    """3x3 convolutions, each with ReLU, 2x2 max-pooling and dropout where given."""
    layers: list[nn.Module] = []
    for position, count in enumerate(filters):
        layers += [nn.Conv2d(channels, count, 3, padding=padding), nn.ReLU(), nn.MaxPool2d(2)]
        if dropout:
            layers.append(nn.Dropout(dropout[position]))
        channels = count
    return layers


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
    return _network(_strided(channels), (100, 50, 10, 1), (channels, height_px, width_px))


def dave_orig(channels: int, height_px: int, width_px: int) -> nn.Module:
    """Dave-orig, the first driving network of DeepXplore: DAVE-2's convolutions, a dense layer of 1164, 2 atan at the end.

    | layer | kernel | stride | output (100 x 100 input) |
    | --- | --- | --- | --- |
    | conv1..3 | 5x5 | 2 | 24 x 48 x 48, 36 x 22 x 22, 48 x 9 x 9 |
    | conv4..5 | 3x3 | 1 | 64 x 7 x 7, 64 x 5 x 5 |
    | dense1..5 | | | 1164, 100, 50, 10, 1 (then 2 atan) |

    Reference: Pei et al. 2017, DeepXplore, table 1; its published driving models for sizes and the ImageNet means of the input.
    """
    return _network(_strided(channels), (1164, 100, 50, 10, 1), (channels, height_px, width_px)).append(_TwiceAtan())


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
    convolutions = _pooled(channels, (16, 32, 64), padding=0)
    return _network(convolutions, (500, 100, 20, 1), (channels, height_px, width_px), (0.5, 0.25)).append(_TwiceAtan())


def epoch(channels: int, height_px: int, width_px: int) -> nn.Module:
    """Epoch, the sixth of Udacity's challenge 2 (community model cg23): 1,249 neurons.

    | layer | kernel | output (128 x 128 input) |
    | --- | --- | --- |
    | conv1, pool, dropout 0.25 | 3x3 padded, 2x2 | 32 x 64 x 64 |
    | conv2, pool, dropout 0.25 | 3x3 padded, 2x2 | 64 x 32 x 32 |
    | conv3, pool, dropout 0.5 | 3x3 padded, 2x2 | 128 x 16 x 16 |
    | dense1, dropout 0.5 | | 1024 |
    | dense2 | | 1 |

    Reference: Udacity self-driving-car, steering-models/community-models/cg23; DeepTest, section 4 and table 3.
    Deviates: DeepTest counts 2,500 neurons: it also counts the four dropout layers (224 + 1,024) and the 3 channels of the
    input, which are no neurons of their own: 2,500 - 1,248 - 3 = 1,249.
    """
    convolutions = _pooled(channels, (32, 64, 128), padding=1, dropout=(0.25, 0.25, 0.5))
    return _network(convolutions, (1024, 1), (channels, height_px, width_px), (0.5,))


# Blue, green and red means of ImageNet, which DeepXplore subtracts (Keras' "caffe" preprocessing, without scaling).
_MEANS = (103.939, 116.779, 123.68)
_DEEPXPLORE = InputSpec(100, 100, Colour.BGR, Range(tuple(-mean for mean in _MEANS), tuple(255.0 - mean for mean in _MEANS)))

ARCHITECTURES.register("pilotnet")(
    Architecture("pilotnet", pilotnet, InputSpec(200, 66, Colour.YUV, Range((-1.0,), (1.0,)), Crop(top=0.4)))
)
ARCHITECTURES.register("dave-orig")(Architecture("dave-orig", dave_orig, _DEEPXPLORE))
ARCHITECTURES.register("dave-dropout")(Architecture("dave-dropout", dave_dropout, _DEEPXPLORE))
# cg23 drops the first 200 of 480 rows.
ARCHITECTURES.register("epoch")(Architecture("epoch", epoch, InputSpec(128, 128, Colour.RGB, Range((0.0,), (1.0,)), Crop(top=200 / 480))))
