"""What a network sees: the path from a camera's frames to its input, as a description tells it, and the shape of that input."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum
from math import isfinite
from pathlib import Path
from typing import Annotated

from skidpad.core.errors import BadSubjectError
from skidpad.core.settings import Mark, Text

MAX_SIDE_PX = 8192
"""More than any camera's; a misspelt size must not take all memory."""
MAX_INPUT_NUMBERS = 2**27
"""Half a gibibyte of float32 for one answer: a picture of 8192 x 4096 pixels, or 48 of 1280 x 720."""
MAX_HISTORY_FRAMES = 1000
MAX_CAMERAS = 16


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


_PAIRED = (HistoryKind.DIFFERENCES, HistoryKind.OPTICAL_FLOW)
"""Kinds that compare a frame with the one before it."""


def check_history(spec: InputSpec) -> None:
    """Refuses a history that nothing can be made of."""
    history = spec.history
    if history.kind in _PAIRED and history.frames < 2:
        raise BadSubjectError(f"a history of kind {history.kind.value!r} compares frames; got frames = {history.frames}, write 2 or more")


def input_channels(spec: InputSpec) -> int:
    """Returns how many channels one input has, after the frames of a window were brought together."""
    frames = {HistoryKind.STACK: spec.history.frames, HistoryKind.DIFFERENCES: spec.history.frames - 1}.get(spec.history.kind, 1)
    return frames * spec.channels


_MOST_CHANNELS = 16
"""More than that is an edge of a picture, even of a small one."""

_ALIKE = 1.05
"""By how much a picture may be stretched without a word: rounding to pixels stretches a little, no camera by so much."""


def described_shape(spec: InputSpec) -> tuple[int, ...]:
    """Returns the shape of one input without the batch; a recurrent window has its frames first."""
    channels = input_channels(spec)
    picture = (channels, spec.height_px, spec.columns_px) if spec.layout is Layout.NCHW else (spec.height_px, spec.columns_px, channels)
    return (spec.history.frames, *picture) if spec.history.kind is HistoryKind.RECURRENT else picture


def check_shape(file: Path, shape: Sequence[int | None] | None, spec: InputSpec) -> None:
    """Refuses a description whose input is not the one that the file states; None stands for any size."""
    wanted = described_shape(spec)
    if shape is None or (len(shape) == len(wanted) and all(size in {None, other} for size, other in zip(shape, wanted, strict=True))):
        return
    declared = " x ".join("any" if size is None else str(size) for size in shape)
    described = " x ".join(map(str, wanted))
    raise BadSubjectError(
        f"{file} takes an input of {declared}, [input] describes one of {described} ({spec.layout.value}); "
        "correct width_px, height_px, colour, layout, history or cameras"
    )


def check_cameras(spec: InputSpec, seen: Sequence[str], where: str) -> None:
    """Refuses to show a network other cameras than it wants, or in another order. seen: names, none for a single camera; where: whose."""
    wanted = () if spec.cameras is None else spec.cameras.names
    if tuple(seen) == wanted:
        return
    has = f"the cameras {', '.join(seen)}" if seen else "one camera"
    if not wanted:
        raise BadSubjectError(f"the network sees one camera, {where} has {has}; open it with one, or describe cameras in [input]")
    raise BadSubjectError(
        f"the network sees the cameras {', '.join(wanted)}, {where} has {has}; a drive is opened with these, in this "
        f"order, as ?camera={','.join(wanted)}"
    )


def resized(spec: InputSpec) -> InputSpec:
    """Returns the input half as high and wide again, to see whether a network would notice a wrong size; halved near the limits."""
    try:
        return replace(spec, width_px=spec.width_px + (spec.width_px + 1) // 2, height_px=spec.height_px + (spec.height_px + 1) // 2)
    except BadSubjectError:
        return replace(spec, width_px=(spec.width_px + 1) // 2, height_px=(spec.height_px + 1) // 2)


def aspect_warning(spec: InputSpec, frame_height_px: int, frame_width_px: int) -> str | None:
    """Warns of frames that reach the network in other proportions than those it was trained on; None where they do not.

    Where the description does not say `frame_aspect`, training is taken not to have stretched its pictures.
    """
    crop, frame_width_px = spec.crop, frame_width_px // spec.views
    kept_width, kept_height = 1.0 - crop.left - crop.right, 1.0 - crop.top - crop.bottom
    trained = spec.frame_aspect or spec.width_px / spec.height_px * kept_height / kept_width
    given = frame_width_px / frame_height_px
    share = min(trained, given) / max(trained, given)
    if share * _ALIKE >= 1.0:
        return None
    if given > trained:
        side, part, margin = "width", "the sides", 0.5 * (1.0 - share)
        cut = replace(crop, left=margin + share * crop.left, right=margin + share * crop.right)
    else:
        side, part = "height", "the upper rows"
        cut = replace(crop, top=1.0 - share + share * crop.top, bottom=share * crop.bottom)
    sides = ", ".join(f"{name} = {round(value, 4)}" for name in ("top", "bottom", "left", "right") if (value := getattr(cut, name)))
    way_out = f"cut {part} away, as crop = {{ {sides} }}"
    frames = f"frames of {frame_width_px} x {frame_height_px} px are squeezed to {100 * share:.0f} % of their {side}"
    if spec.frame_aspect is None:
        return (
            f"{frames} to fill the input of {spec.width_px} x {spec.height_px} px after the crop; {way_out}, or, if the training squeezed "
            f"frames of this shape too, confirm it with frame_aspect = {given:.4g} in [input]"
        )
    return f"{frames}, compared with the network's training on frames with frame_aspect = {trained:.4g}; {way_out}"


def picture_layout(shape: Sequence[int | None]) -> Layout | None:
    """Tells where the channels of a picture (three axes) are: on the axis that is small; None where that cannot be told."""
    if len(shape) != 3:
        return None
    first, last = (size is not None and size <= _MOST_CHANNELS for size in (shape[0], shape[-1]))
    if first == last:
        return None
    return Layout.NCHW if first else Layout.NHWC
