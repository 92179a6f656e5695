"""What a weather is learned with: method, sizes, loss weights, length; and the presets."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from enum import Enum
from math import isfinite

from skidpad.core.errors import BadParametersError, UnknownNameError


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

    filters: int = 64
    halvings: int = 2
    blocks: int = 4
    style: int = 8
    hidden: int = 256
    scales: int = 3

    def __post_init__(self) -> None:
        for field in fields(self):
            if getattr(self, field.name) < 1:
                raise BadParametersError(f"the size {field.name!r} of a weather must be at least 1; got {getattr(self, field.name)}")

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
    published settings GAN 1, image 10, KL 0.01). `contrast` is ours (see `contrast.py`) and off in both papers.
    """

    gan: float = 1.0
    image: float = 10.0
    cycle: float = 10.0
    content: float = 1.0
    style: float = 1.0
    kl: float = 0.01
    contrast: float = 0.0

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if not (isfinite(value) and value >= 0.0):
                raise BadParametersError(f"the loss weight {field.name!r} must be 0 or more; got {value}")


@dataclass(frozen=True, slots=True, kw_only=True)
class WeatherSettings:
    """One training.

    size_px: the shorter side of pictures while learning and translating. crop_px: the square that is cut from them at random.
    The learning rate is constant for the first half of the steps and then falls linearly to zero. ema: how slowly the kept
    weights follow the trained ones.
    """

    method: Method = Method.MUNIT
    sizes: Sizes = Sizes()
    weights: LossWeights = LossWeights()
    size_px: int = 256
    crop_px: int = 256
    steps: int = 20_000
    batch_size: int = 8
    learning_rate: float = 1e-4
    ema: float = 0.999
    seed: int = 0
    device: str = "cpu"

    def __post_init__(self) -> None:
        for name, least in (("steps", 1), ("batch_size", 1), ("seed", 0)):
            if getattr(self, name) < least:
                raise BadParametersError(f"{name} must be at least {least}; got {getattr(self, name)}")
        # A picture must survive the halvings of the style encoder and of the smallest discriminator with something to see.
        least = max(2 ** (self.sizes.halvings + 3), 2 ** (self.sizes.scales + 3))
        if self.crop_px > self.size_px or self.crop_px < least or self.crop_px % self.sizes.stride or self.size_px % self.sizes.stride:
            raise BadParametersError(
                f"crop_px must be at least {least} and at most size_px, both multiples of {self.sizes.stride}; "
                f"got crop_px = {self.crop_px}, size_px = {self.size_px}"
            )
        if not (isfinite(self.learning_rate) and self.learning_rate > 0.0) or not 0.0 <= self.ema < 1.0:
            raise BadParametersError(f"learning_rate must be above 0 and ema within 0 and 1; got {self.learning_rate}, {self.ema}")


PRESETS = {
    "paper": WeatherSettings(),
    "small": WeatherSettings(
        sizes=Sizes(filters=12, blocks=2, hidden=64, scales=2), size_px=64, crop_px=64, steps=1_500, batch_size=4, learning_rate=4e-4
    ),
}
"""`paper`: MUNIT's and UNIT's sizes. `small`: for CPUs and the demo."""


def preset(name: str, method: Method, **changes: object) -> WeatherSettings:
    """Returns the settings of a preset with changes; None leaves a setting as the preset has it."""
    if name not in PRESETS:
        raise UnknownNameError.among("weather preset", name, PRESETS)
    return replace(PRESETS[name], method=method, **{key: value for key, value in changes.items() if value is not None})  # type: ignore[arg-type] # names and types are the fields'
