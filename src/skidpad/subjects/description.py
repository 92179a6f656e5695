"""A subject is described once: where its weights are, what it wants to see, what its answers mean."""

from dataclasses import dataclass
from difflib import get_close_matches
from enum import Enum
from math import isfinite
from typing import Annotated

from skidpad.core.errors import BadSubjectError, UnknownNameError
from skidpad.core.settings import Mark, Text
from skidpad.core.units import STEERING_RATIO, AngleUnit, Axle, Unit

STEERING = "steering"
MAX_SIDE_PX = 8192
"""More than any camera's; a misspelt size must not take all memory."""
MAX_INPUT_NUMBERS = 2**27
"""Half a gibibyte of float32 for one answer: a picture of 8192 x 4096 pixels, or 48 of 1280 x 720."""
MAX_HISTORY_FRAMES = 1000
MAX_TIMEOUT_S = 86_400.0
MAX_RESTARTS = 1000
MAX_BINS = 1000
MAX_CAMERAS = 16
MAX_RATIO = 100.0
"""Road cars steer with 10 to 25."""


class Format(Enum):
    """How the network is given; no file is read by executing what it holds. A box is run, not read: see `Box`."""

    SAFETENSORS = "safetensors"
    STATE_DICT = "state-dict"
    TORCHSCRIPT = "torchscript"
    EXPORT = "export"
    ONNX = "onnx"
    KERAS = "keras"
    TFLITE = "tflite"
    BOX = "box"

    @property
    def weights_only(self) -> bool:
        """Tells whether the file holds tensors alone, so that the description must name an architecture."""
        return self in {Format.SAFETENSORS, Format.STATE_DICT}


class Colour(Enum):
    """The colour space of the network's input; channels are bytes, as OpenCV writes them (hue is 0..179).

    yuv-swapped has the two colour channels of yuv the other way round; yuv-of-bgr is computed as if red were blue and blue red, as by code
    that takes what cv2.imread gives for RGB.
    """

    RGB = "rgb"
    BGR = "bgr"
    GREY = "grey"
    YUV = "yuv"
    YUV_SWAPPED = "yuv-swapped"
    YUV_OF_BGR = "yuv-of-bgr"
    HSV = "hsv"

    @property
    def channels(self) -> int:
        """How many channels a picture has in this colour space."""
        return 1 if self is Colour.GREY else 3


class Decode(Enum):
    """How an output is read from the network's numbers: one number as it is, or the strongest of several bins."""

    NUMBER = "number"
    BINS = "bins"


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

    low: Annotated[tuple[float, ...], Mark.ONE_OR_MORE, Mark.REQUIRED] = (0.0,)
    high: Annotated[tuple[float, ...], Mark.ONE_OR_MORE, Mark.REQUIRED] = (1.0,)

    def __post_init__(self) -> None:
        if len(self.low) != len(self.high) or not self.low or not all(map(isfinite, self.low + self.high)):
            raise BadSubjectError(f"a range is finite numbers, as many low as high, as low = -1.0, high = 1.0; got {self}")
        if any(low == high for low, high in zip(self.low, self.high, strict=True)):
            raise BadSubjectError(f"a range must not be empty: low and high differ in every channel; got {self}")


@dataclass(frozen=True, slots=True)
class History:
    """How many frames the network sees at once, and how they are brought together."""

    frames: Annotated[int, Mark.REQUIRED] = 1
    kind: Annotated[HistoryKind, Mark.REQUIRED] = HistoryKind.SINGLE

    def __post_init__(self) -> None:
        if self.frames > MAX_HISTORY_FRAMES:
            raise BadSubjectError(f"a history has at most {MAX_HISTORY_FRAMES} frames; got frames = {self.frames}")
        if self.frames < 1 or (self.kind is HistoryKind.SINGLE and self.frames != 1):
            raise BadSubjectError(f"a history of kind {self.kind.value!r} cannot have {self.frames} frames; write frames = 1")


class Equaliser(Enum):
    """How the levels of a picture are spread over 0..255: over the whole picture at once, or tile by tile with limited contrast."""

    HISTOGRAM = "histogram"
    CLAHE = "clahe"


class EqualisedChannels(Enum):
    """What is equalised: the brightness (Y, V or grey; of RGB by way of YUV), or every channel by itself."""

    BRIGHTNESS = "brightness"
    EACH = "each"


@dataclass(frozen=True, slots=True)
class Equalise:
    """Equalisation of the levels by OpenCV, at the network's size and in its colours; the last two are CLAHE's."""

    kind: Annotated[Equaliser, Mark.REQUIRED] = Equaliser.HISTOGRAM
    channels: EqualisedChannels = EqualisedChannels.BRIGHTNESS
    clip_limit: float = 2.0
    tiles: int = 8

    def __post_init__(self) -> None:
        if not 0.0 < self.clip_limit <= 1000.0 or not 1 <= self.tiles <= 64:
            raise BadSubjectError(
                f"CLAHE takes a clip_limit above 0, as 2.0, and 1 to 64 tiles a side; got clip_limit = {self.clip_limit:g}, "
                f"tiles = {self.tiles}"
            )


@dataclass(frozen=True, slots=True)
class Size:
    """A size in pixels."""

    width_px: int
    height_px: int

    def __post_init__(self) -> None:
        if not (1 <= self.width_px <= MAX_SIDE_PX and 1 <= self.height_px <= MAX_SIDE_PX):
            raise BadSubjectError(f"sides are 1 to {MAX_SIDE_PX} pixels; got width_px = {self.width_px}, height_px = {self.height_px}")


@dataclass(frozen=True, slots=True)
class Undistort:
    """The camera that frames were taken with, as OpenCV's calibration gives it; frames are straightened before all else.

    size: of the pictures that it was calibrated with; frames of another size are taken for the same view. coefficients: k1, k2, p1, p2
    and those after them.
    """

    size: Size
    fx_px: float
    fy_px: float
    cx_px: float
    cy_px: float
    coefficients: tuple[float, ...]

    def __post_init__(self) -> None:
        numbers = (self.fx_px, self.fy_px, self.cx_px, self.cy_px, *self.coefficients)
        if not all(map(isfinite, numbers)) or self.fx_px <= 0.0 or self.fy_px <= 0.0:
            raise BadSubjectError(f"a camera has finite numbers and focal lengths above 0; got {self}")
        if len(self.coefficients) not in {4, 5, 8, 12, 14}:
            raise BadSubjectError(f"a lens has 4, 5, 8, 12 or 14 coefficients, as OpenCV counts them; got {len(self.coefficients)}")


class Join(Enum):
    """How the pictures of several cameras become one input: channel after channel, or side by side."""

    CHANNELS = "channels"
    WIDTH = "width"


@dataclass(frozen=True, slots=True)
class Cameras:
    """The cameras that a network sees at once, by the names and in the order that its drives have; frames hold them side by side."""

    names: Annotated[tuple[Text, ...], Mark.REQUIRED] = ()
    join: Join = Join.CHANNELS

    def __post_init__(self) -> None:
        if not 2 <= len(self.names) <= MAX_CAMERAS or len(set(self.names)) != len(self.names):
            raise BadSubjectError(
                f'cameras are 2 to {MAX_CAMERAS} different names, as names = ["left", "center", "right"]; got {list(self.names)}; '
                "a network that sees one camera needs no such line"
            )


@dataclass(frozen=True, slots=True)
class InputSpec:
    """What the network sees: the one path from frames to input, for original and mutant alike.

    The order is: undistort, resize_first, crop, resize to width_px and height_px, colour, equalise, range, standardise, layout.
    resize_first: the size to which frames are brought before the crop, where the training cut after a first resizing. standardise: each
    picture minus its mean, divided by its deviation, as tf.image.per_image_standardization does.

    frame_aspect: width over height of the frames that it was trained on, before the crop; it changes no answer, and says whether
    another drive's frames reach the network in the same proportions.

    cameras: where there are several. Each picture takes the whole path by itself up to the colours, `width_px` and `frame_aspect` are of
    one picture; then they are joined.
    """

    width_px: int
    height_px: int
    colour: Annotated[Colour, Mark.REQUIRED] = Colour.RGB
    range: Annotated[Range, Mark.REQUIRED] = Range()
    crop: Crop = Crop()
    layout: Layout = Layout.NCHW
    history: History = History()
    frame_aspect: float | None = None
    undistort: Undistort | None = None
    resize_first: Size | None = None
    equalise: Equalise | None = None
    standardise: bool = False
    cameras: Cameras | None = None

    def __post_init__(self) -> None:
        if not (1 <= self.width_px <= MAX_SIDE_PX and 1 <= self.height_px <= MAX_SIDE_PX):
            raise BadSubjectError(
                f"the input's sides are 1 to {MAX_SIDE_PX} pixels; got width_px = {self.width_px}, height_px = {self.height_px}"
            )
        numbers = self.columns_px * self.height_px * self.channels * self.history.frames
        if numbers > MAX_INPUT_NUMBERS:
            raise BadSubjectError(
                f"one input is at most {MAX_INPUT_NUMBERS} numbers; got {self.columns_px} x {self.height_px} pixels x "
                f"{self.channels} channels x {self.history.frames} frames = {numbers}"
            )
        if self.cameras is not None and self.history.kind is HistoryKind.OPTICAL_FLOW:
            raise BadSubjectError("optical flow is that of one camera; remove cameras, or choose another kind of history")
        if self.frame_aspect is not None and not 0.1 <= self.frame_aspect <= 10.0:
            raise BadSubjectError(f"frame_aspect is a frame's width over its height, as 1.333 for 640 x 480; got {self.frame_aspect:g}")
        if len(self.range.low) not in {1, self.colour.channels}:
            raise BadSubjectError(
                f"the input range needs one number or one for each of the {self.colour.channels} channels; got {len(self.range.low)}"
            )

    @property
    def views(self) -> int:
        """How many cameras' pictures a frame holds, side by side."""
        return 1 if self.cameras is None else len(self.cameras.names)

    @property
    def channels(self) -> int:
        """How many channels one picture has after the cameras were joined."""
        return self.colour.channels * (self.views if self.cameras is not None and self.cameras.join is Join.CHANNELS else 1)

    @property
    def columns_px(self) -> int:
        """How wide one picture is after the cameras were joined."""
        return self.width_px * (self.views if self.cameras is not None and self.cameras.join is Join.WIDTH else 1)

    @property
    def shape(self) -> tuple[int, int, int]:
        """The shape of one input without the batch, in the order of the layout."""
        chw = (self.channels, self.height_px, self.columns_px)
        return chw if self.layout is Layout.NCHW else (self.height_px, self.columns_px, self.channels)


@dataclass(frozen=True, slots=True)
class Bins:
    """Numbers that each stand for a value, evenly spaced from `low` for the first to `high` for the last.

    Reference: donkeycar, utils.py, linear_unbin; its steering has 15 bins from -1 to 1.
    """

    count: int = 15
    low: float = -1.0
    high: float = 1.0

    def __post_init__(self) -> None:
        if not 2 <= self.count <= MAX_BINS:
            raise BadSubjectError(f"an output has 2 to {MAX_BINS} bins; got count = {self.count}")
        if not (isfinite(self.low) and isfinite(self.high) and self.low < self.high):
            raise BadSubjectError(f"bins go from a low to a higher value, as low = -1.0, high = 1.0; got {self.low:g} and {self.high:g}")

    @property
    def step(self) -> float:
        """How far apart the values of two neighbours are."""
        return (self.high - self.low) / (self.count - 1)


@dataclass(frozen=True, slots=True)
class Output:
    """One value of the network's answer; `answer * scale` is in `unit` (None where nobody says what it is).

    A negative scale flips the sign, for networks trained with left and right the other way round. An angle is of `axle`; where that
    is the road wheels, `ratio` says how many degrees of the steering wheel turn them by one. With `decode` as bins the network gives a
    number for each of `bins`, and the answer is the value of the largest.
    """

    name: Text
    unit: Unit | None = None
    scale: float = 1.0
    axle: Axle = Axle.STEERING_WHEEL
    ratio: float = STEERING_RATIO
    decode: Decode = Decode.NUMBER
    bins: Bins = Bins()

    def __post_init__(self) -> None:
        if not isfinite(self.scale) or self.scale == 0.0:
            raise BadSubjectError(f"the scale of output {self.name!r} must be finite and not zero; got {self.scale}")
        if self.name == STEERING and not self.is_angle:
            units = ", ".join(unit.value for unit in AngleUnit)
            raise BadSubjectError(f'the output {STEERING!r} needs a unit of angles ({units}); write unit = "rad"')
        if not 0.0 < self.ratio <= MAX_RATIO:
            raise BadSubjectError(
                f"the ratio of output {self.name!r} is degrees of the steering wheel for one of the road wheels, above 0 and at most "
                f"{MAX_RATIO:g}, as {STEERING_RATIO}; got {self.ratio:g}"
            )
        if self.axle is Axle.ROAD_WHEEL and not self.is_angle:
            raise BadSubjectError(f"output {self.name!r} is no angle, so it is of no axle; give it a unit of angles, or remove axle")
        if self.decode is Decode.NUMBER and self.bins != Bins():
            raise BadSubjectError(f'output {self.name!r} has bins, so it must be decoded; write decode = "bins", or remove bins')
        if self.axle is Axle.STEERING_WHEEL and self.ratio != STEERING_RATIO:
            raise BadSubjectError(
                f"output {self.name!r} has a ratio, which is for angles of the road wheels; "
                f'write axle = "{Axle.ROAD_WHEEL.value}", or remove ratio'
            )

    @property
    def is_angle(self) -> bool:
        """Whether the answer is an angle, which is radians inside and degrees at the surface."""
        return isinstance(self.unit, AngleUnit)

    @property
    def numbers(self) -> int:
        """How many of the network's numbers it is read from."""
        return self.bins.count if self.decode is Decode.BINS else 1

    @property
    def per_answer(self) -> float:
        """What one of the network's own numbers is in radians of the steering wheel, for an angle, else in the unit of the output."""
        return self.scale * (self.unit.rad * self.axle.ratio(self.ratio) if isinstance(self.unit, AngleUnit) else 1.0)


@dataclass(frozen=True, slots=True)
class Box:
    """A network that is only asked, never opened: exactly one of a Python callable, a program or an HTTP address.

    function: `module:name`. command: a program and its words. A box that has not answered a batch within `timeout_s` is dead;
    it is started again at most `restarts` times in a row.
    """

    function: Text | None = None
    command: Annotated[tuple[Text, ...], Mark.NOT_EMPTY] = ()
    url: Text | None = None
    timeout_s: float = 30.0
    restarts: int = 3

    def __post_init__(self) -> None:
        if sum((self.function is not None, bool(self.command), self.url is not None)) != 1:
            raise BadSubjectError('a box is one of function = "module:name", command = ["program", ...] and url = "http://..."')
        if not 0.0 < self.timeout_s <= MAX_TIMEOUT_S:
            raise BadSubjectError(f"timeout_s of a box is above 0 and at most {MAX_TIMEOUT_S:g}, a day; got {self.timeout_s:g}")
        if not 0 <= self.restarts <= MAX_RESTARTS:
            raise BadSubjectError(f"restarts of a box are 0 to {MAX_RESTARTS}; got {self.restarts}")


@dataclass(frozen=True, slots=True)
class Description:
    """The whole of what skidpad is told about a subject; files are relative to the TOML that holds the description.

    weights: the second file of a Keras pair. lambdas: what stands for each Lambda layer of a Keras file, as (layer, expression in x).
    """

    name: Text
    file: str
    format: Format
    input: InputSpec
    outputs: Annotated[tuple[Output, ...], Mark.REQUIRED] = (Output(STEERING, AngleUnit.RAD),)
    architecture: Text | None = None
    weights: Text | None = None
    lambdas: tuple[tuple[str, Text], ...] = ()
    box: Box | None = None

    def __post_init__(self) -> None:
        if (self.box is not None) != (self.format is Format.BOX):
            raise BadSubjectError('a black box has format = "box" and a table [box]; other formats have neither')
        if self.box is not None and self.file:
            raise BadSubjectError(f"a black box has no file; remove file = {self.file!r}")
        if self.box is not None and any(output.decode is Decode.BINS for output in self.outputs):
            raise BadSubjectError('a black box decodes its own bins and answers one number for each output; remove decode = "bins"')
        names = [output.name for output in self.outputs]
        if not names:
            raise BadSubjectError(f'a subject needs an output; write [[outputs]] with name = "{STEERING}" and unit = "rad"')
        near = [] if self.steers else get_close_matches(STEERING, names, n=1, cutoff=0.8)
        if near:
            raise BadSubjectError(f"no output is named {STEERING!r}, but one {near[0]!r}; did you mean {STEERING!r}?")
        if len(set(names)) != len(names):
            raise BadSubjectError(f"output names must differ; got {', '.join(names)}")
        if self.format.weights_only and self.architecture is None:
            raise BadSubjectError(
                f'a file of format {self.format.value!r} holds weights alone; name the network, as architecture = "pilotnet"'
            )

    def column(self, output: str) -> int:
        """Returns the position of a named output among the network's."""
        names = [known.name for known in self.outputs]
        if output not in names:
            raise UnknownNameError.among(f"output of {self.name!r}", output, names)
        return names.index(output)

    @property
    def steers(self) -> bool:
        """Whether one of the outputs is the steering."""
        return any(output.name == STEERING for output in self.outputs)

    @property
    def steering_column(self) -> int:
        """The position of the steering among the network's outputs."""
        if not self.steers:
            names = ", ".join(output.name for output in self.outputs)
            raise BadSubjectError(
                f"{self.name!r} has no output named {STEERING!r} (it has {names}), and labels are steering; "
                f"`skidpad test --output {self.outputs[0].name}` works without labels"
            )
        return self.column(STEERING)

    @property
    def steering(self) -> Output:
        """The steering output."""
        return self.outputs[self.steering_column]
