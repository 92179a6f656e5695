"""PilotNet (DAVE-2) and the three networks that DeepXplore made of it."""

from torch import nn

from skidpad.subjects.description import Colour, Crop, InputSpec, Range
from skidpad.subjects.zoo.architecture import ARCHITECTURES, Architecture, TwiceAtan, network, pooled, strided


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


# Blue, green and red means of ImageNet, which DeepXplore subtracts (Keras' "caffe" preprocessing, without scaling).
_MEANS = (103.939, 116.779, 123.68)
_DEEPXPLORE = InputSpec(100, 100, Colour.BGR, Range(tuple(-mean for mean in _MEANS), tuple(255.0 - mean for mean in _MEANS)))

ARCHITECTURES.register("pilotnet")(
    Architecture("pilotnet", pilotnet, InputSpec(200, 66, Colour.YUV, Range((-1.0,), (1.0,)), Crop(top=0.4)))
)
ARCHITECTURES.register("dave-orig")(Architecture("dave-orig", dave_orig, _DEEPXPLORE))
ARCHITECTURES.register("dave-norminit")(Architecture("dave-norminit", dave_norminit, _DEEPXPLORE))
ARCHITECTURES.register("dave-dropout")(Architecture("dave-dropout", dave_dropout, _DEEPXPLORE))
