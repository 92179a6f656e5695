"""What a weather is learned with: method, sizes, loss weights, length; and the presets."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum
from typing import Annotated

from skidpad.core.errors import BadParametersError, UnknownNameError
from skidpad.core.settings import Count, Natural, Positive, Within, check

LossWeight = Annotated[float, Within(least=0)]


class Method(Enum):
    """How scenes are translated: to one look (UNIT) or to any style of a space (MUNIT)."""

    UNIT = "unit"
    MUNIT = "munit"


@dataclass(frozen=True, slots=True)
class Sizes:
    """How large the networks are.

    filters: of the first convolution; each of `halvings` steps doubles them. blocks: residual blocks of encoder and decoder.
    style: numbers in a style. hidden: width of the network that turns a style into norms. scales: discriminators, each on
    pictures of half the size of the one before.
    """

    filters: Count = 64
    halvings: Count = 2
    blocks: Count = 4
    style: Count = 8
    hidden: Count = 256
    scales: Count = 3

    def __post_init__(self) -> None:
        check(self, BadParametersError)

    @property
    def stride(self) -> int:
        """Heights and widths of pictures must be multiples of this."""
        return 1 << self.halvings

    @property
    def channels(self) -> int:
        """Channels of a content code."""
        return self.filters << self.halvings


@dataclass(frozen=True, slots=True)
class LossWeights:
    """The weights of the losses; a loss of weight 0 is not computed.

    Reference: MUNIT, section 5 (10, 1, 1) and its optional cycle loss (10); UNIT, section 4 (GAN 10, VAE 0.1 and 100, in its
    published settings GAN 1, image 10, KL 0.01). `contrast`, `road` and `named` are ours (see `losses.py`) and off in both papers.
    """

    gan: LossWeight = 1.0
    image: LossWeight = 10.0
    cycle: LossWeight = 10.0
    content: LossWeight = 1.0
    style: LossWeight = 1.0
    kl: LossWeight = 0.01
    contrast: LossWeight = 0.0
    road: LossWeight = 0.0
    named: LossWeight = 0.0

    def __post_init__(self) -> None:
        check(self, BadParametersError)


@dataclass(frozen=True, slots=True, kw_only=True)
class WeatherSettings:
    """One training.

    size_px: the shorter side of pictures while learning and translating. crop_px: the square that is cut from them at random.
    The learning rate is constant for the first half of the steps and then falls linearly to zero. ema: how slowly the kept
    weights follow the trained ones. alike: the share of the weather's pictures that is left out because their road lies elsewhere than the
    drive's. real_styles: the share of made pictures in a real picture's style, see `Munit`. detail: how much of the detail of translated
    pictures is the original's, 0 to 1, see `detail.py`; the losses see what the network made alone.
    """

    method: Method = Method.MUNIT
    sizes: Sizes = Sizes()
    weights: LossWeights = LossWeights()
    size_px: int = 256
    crop_px: int = 256
    steps: Count = 20_000
    batch_size: Count = 8
    learning_rate: Positive = 1e-4
    ema: Annotated[float, Within(least=0, below=1)] = 0.999
    alike: Annotated[float, Within(least=0, most=1)] = 0.0
    real_styles: Annotated[float, Within(least=0, most=1)] = 0.0
    detail: Annotated[float, Within(least=0, most=1)] = 0.0
    seed: Natural = 0
    device: str = "cpu"

    def __post_init__(self) -> None:
        check(self, BadParametersError)
        # A picture must survive the halvings of the style encoder and of the smallest discriminator with something to see.
        least = max(2 ** (self.sizes.halvings + 3), 2 ** (self.sizes.scales + 3))
        if self.crop_px > self.size_px or self.crop_px < least or self.crop_px % self.sizes.stride or self.size_px % self.sizes.stride:
            raise BadParametersError(
                f"crop_px must be at least {least} and at most size_px, both multiples of {self.sizes.stride}; "
                f"got crop_px = {self.crop_px}, size_px = {self.size_px}"
            )


PRESETS = {
    "road": WeatherSettings(weights=LossWeights(contrast=1.0, road=10.0), crop_px=192, alike=0.3, real_styles=0.5, detail=1.0),
    "paper": WeatherSettings(),
    "small": WeatherSettings(
        sizes=Sizes(filters=12, blocks=2, hidden=64, scales=2),
        weights=LossWeights(road=2.0),
        size_px=64,
        crop_px=64,
        steps=1_500,
        batch_size=4,
        learning_rate=4e-4,
        alike=0.3,
        real_styles=0.5,
        detail=1.0,
    ),
}
"""`road`: MUNIT's and UNIT's sizes, losses that keep the road where it is, and the frame's own detail. `paper`: without them.
`small`: for CPUs."""


def preset(name: str, method: Method, **changes: object) -> WeatherSettings:
    """Returns the settings of a preset with changes; None leaves a setting as the preset has it."""
    if name not in PRESETS:
        raise UnknownNameError.among("weather preset", name, PRESETS)
    return replace(PRESETS[name], method=method, **{key: value for key, value in changes.items() if value is not None})  # type: ignore[arg-type] # names and types are the fields'
