"""A subject is described once: where its weights are, what it wants to see, what its answers mean."""

from dataclasses import dataclass
from enum import Enum
from math import isfinite

from skidpad.core.angles import AngleUnit
from skidpad.core.errors import BadSubjectError

STEERING = "steering"


class Format(Enum):
    """How the network's file is written; none of them is read by executing what it holds."""

    SAFETENSORS = "safetensors"
    STATE_DICT = "state-dict"
    TORCHSCRIPT = "torchscript"
    EXPORT = "export"

    @property
    def weights_only(self) -> bool:
        """Tells whether the file holds tensors alone, so that the description must name an architecture."""
        return self in {Format.SAFETENSORS, Format.STATE_DICT}


class Colour(Enum):
    """The colour space of the network's input; channels are bytes, as OpenCV writes them (hue is 0..179)."""

    RGB = "rgb"
    BGR = "bgr"
    GREY = "grey"
    YUV = "yuv"
    HSV = "hsv"

    @property
    def channels(self) -> int:
        """How many channels a picture has in this colour space."""
        return 1 if self is Colour.GREY else 3


class Layout(Enum):
    """The order of the axes of the network's input."""

    NCHW = "nchw"
    NHWC = "nhwc"


class HistoryKind(Enum):
    """What of the past the network sees; all kinds can be described, `loading` says which can be run."""

    SINGLE = "single"
    STACK = "stack"
    DIFFERENCES = "differences"
    OPTICAL_FLOW = "optical-flow"
    RECURRENT = "recurrent"


@dataclass(frozen=True, slots=True)
class Crop:
    """What is cut away before resizing, as fractions of the frame's height or width, since drives differ in size."""

    top: float = 0.0
    bottom: float = 0.0
    left: float = 0.0
    right: float = 0.0

    def __post_init__(self) -> None:
        parts = (self.top, self.bottom, self.left, self.right)
        if not all(0.0 <= part < 1.0 for part in parts) or self.top + self.bottom >= 1.0 or self.left + self.right >= 1.0:
            raise BadSubjectError(f"a crop is fractions of the frame that leave something over, as top = 0.4; got {self}")

    def window(self, height_px: int, width_px: int) -> tuple[slice, slice]:
        """Returns the rows and columns that stay; at least one of each."""
        top, left = round(self.top * height_px), round(self.left * width_px)
        bottom, right = height_px - round(self.bottom * height_px), width_px - round(self.right * width_px)
        top, left = min(top, height_px - 1), min(left, width_px - 1)
        return slice(top, max(bottom, top + 1)), slice(left, max(right, left + 1))


@dataclass(frozen=True, slots=True)
class Range:
    """Bytes 0..255 map linearly to low..high; one number for all channels or one for each."""

    low: tuple[float, ...] = (0.0,)
    high: tuple[float, ...] = (1.0,)

    def __post_init__(self) -> None:
        if len(self.low) != len(self.high) or not self.low or not all(map(isfinite, self.low + self.high)):
            raise BadSubjectError(f"a range is finite numbers, as many low as high, as low = -1.0, high = 1.0; got {self}")
        if any(low == high for low, high in zip(self.low, self.high, strict=True)):
            raise BadSubjectError(f"a range must not be empty: low and high differ in every channel; got {self}")


@dataclass(frozen=True, slots=True)
class History:
    """How many frames the network sees at once, and how they are brought together."""

    frames: int = 1
    kind: HistoryKind = HistoryKind.SINGLE

    def __post_init__(self) -> None:
        if self.frames < 1 or (self.kind is HistoryKind.SINGLE and self.frames != 1):
            raise BadSubjectError(f"a history of kind {self.kind.value!r} cannot have {self.frames} frames; write frames = 1")


@dataclass(frozen=True, slots=True)
class InputSpec:
    """What the network sees: the one path from frames to input, for original and mutant alike."""

    width_px: int
    height_px: int
    colour: Colour = Colour.RGB
    range: Range = Range()
    crop: Crop = Crop()
    layout: Layout = Layout.NCHW
    history: History = History()

    def __post_init__(self) -> None:
        if self.width_px < 1 or self.height_px < 1:
            raise BadSubjectError(f"the input needs a positive size; got width_px = {self.width_px}, height_px = {self.height_px}")
        if len(self.range.low) not in {1, self.colour.channels}:
            raise BadSubjectError(
                f"the input range needs one number or one for each of the {self.colour.channels} channels; got {len(self.range.low)}"
            )

    @property
    def shape(self) -> tuple[int, int, int]:
        """The shape of one input without the batch, in the order of the layout."""
        channels = self.colour.channels
        chw = (channels, self.height_px, self.width_px)
        return chw if self.layout is Layout.NCHW else (self.height_px, self.width_px, channels)


@dataclass(frozen=True, slots=True)
class Output:
    """One number of the network's answer; `answer * scale` is in `unit` (None where it is no angle).

    A negative scale flips the sign, for networks trained with left and right the other way round.
    """

    name: str
    unit: AngleUnit | None = None
    scale: float = 1.0

    def __post_init__(self) -> None:
        if not isfinite(self.scale) or self.scale == 0.0:
            raise BadSubjectError(f"the scale of output {self.name!r} must be finite and not zero; got {self.scale}")
        if self.name == STEERING and self.unit is None:
            units = ", ".join(unit.value for unit in AngleUnit)
            raise BadSubjectError(f'the output {STEERING!r} needs a unit ({units}); write unit = "rad"')

    @property
    def rad_per_answer(self) -> float:
        """What one of the network's own numbers is in radians."""
        return self.scale * (self.unit.rad if self.unit is not None else 1.0)


@dataclass(frozen=True, slots=True)
class Description:
    """The whole of what skidpad is told about a subject; `file` is relative to the TOML that holds the description."""

    name: str
    file: str
    format: Format
    input: InputSpec
    outputs: tuple[Output, ...] = (Output(STEERING, AngleUnit.RAD),)
    architecture: str | None = None

    def __post_init__(self) -> None:
        names = [output.name for output in self.outputs]
        if STEERING not in names:
            raise BadSubjectError(f"a subject needs an output named {STEERING!r}; got {', '.join(names) or 'none'}")
        if len(set(names)) != len(names):
            raise BadSubjectError(f"output names must differ; got {', '.join(names)}")
        if self.format.weights_only and self.architecture is None:
            raise BadSubjectError(
                f'a file of format {self.format.value!r} holds weights alone; name the network, as architecture = "pilotnet"'
            )

    @property
    def steering_column(self) -> int:
        """The position of the steering among the network's outputs."""
        return next(column for column, output in enumerate(self.outputs) if output.name == STEERING)

    @property
    def steering(self) -> Output:
        """The steering output."""
        return self.outputs[self.steering_column]
