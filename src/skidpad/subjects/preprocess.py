"""From frames to the network's input, in the order that `InputSpec` says; one definition for original and mutant.

Resizing is a triangle filter as wide as the shrinking asks for (bilinear with antialiasing), in bytes, so that a thin
rain streak neither vanishes nor doubles. The CPU works in fixed point and with OpenCV's colours, the GPU in floats;
after the resizing and again after the colour the two differ by at most one of 255 (hue: around its circle). Undistortion and
equalisation are OpenCV's, on the CPU alone: a GPU's pictures go there and back.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache

import cv2
import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn import functional

from skidpad.core.errors import BadSubjectError
from skidpad.core.images import Frames, NumpyFrames, split_views
from skidpad.subjects.inputs import Colour, Equalise, EqualisedChannels, Equaliser, InputSpec, Join, Layout, Undistort

TOLERANCE_LEVELS = 1
"""By how much of 255 the CPU and the GPU may differ after each of resizing and colour."""

_OPENCV = {
    Colour.BGR: cv2.COLOR_RGB2BGR,
    Colour.GREY: cv2.COLOR_RGB2GRAY,
    Colour.YUV: cv2.COLOR_RGB2YUV,
    Colour.YUV_SWAPPED: cv2.COLOR_RGB2YUV,
    Colour.YUV_OF_BGR: cv2.COLOR_BGR2YUV,
    Colour.HSV: cv2.COLOR_RGB2HSV,
}


@dataclass(frozen=True, slots=True)
class Preprocessor:
    """Turns frames into the input of one network on one device.

    `shrink` gives bytes at the network's size, (N, height, width, channels); `normalise` makes the input of them. A drive
    kept as bytes between the two needs N x height x width x channels bytes and loses nothing.
    """

    spec: InputSpec
    device: torch.device
    _low: torch.Tensor = field(init=False, repr=False, compare=False)
    _step: torch.Tensor = field(init=False, repr=False, compare=False)
    _table: NDArray[np.float32] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        cameras = self.spec.channels // self.spec.colour.channels
        low = torch.tensor(self.spec.range.low, dtype=torch.float64)
        step = (torch.tensor(self.spec.range.high, dtype=torch.float64) - low) / 255.0
        if len(low) > 1:
            low, step = low.repeat(cameras), step.repeat(cameras)
        object.__setattr__(self, "_low", low.to(self.device, torch.float32))
        object.__setattr__(self, "_step", step.to(self.device, torch.float32))
        levels = torch.arange(256, dtype=torch.float32, device=self.device)[:, None].repeat(1, self.spec.channels)
        object.__setattr__(self, "_table", np.ascontiguousarray(self.scaled(levels).T.cpu().numpy()))

    def __call__(self, frames: Frames) -> torch.Tensor:
        """Returns the network's input, float32, in its layout, on its device."""
        return self.normalise(self.shrink(frames))

    def shrink(self, frames: Frames) -> torch.Tensor:
        """Crops, resizes and changes the colour: uint8 RGB (N, height, width, 3) to uint8 (N, height_px, width_px, channels).

        Of several cameras, each by itself; the result holds them joined.
        """
        if frames.ndim != 4 or frames.shape[-1] != 3 or str(frames.dtype).removeprefix("torch.") != "uint8":
            raise ValueError(f"frames must be uint8 RGB of shape (N, height, width, 3); got {frames.dtype} {tuple(frames.shape)}")
        views = self.spec.views
        if views == 1:
            return self._shrunk(frames)
        if frames.shape[2] % views:
            raise BadSubjectError(f"{frames.shape[2]} columns do not hold {views} cameras side by side; open the drive with all of them")
        small = self._shrunk(split_views(frames, views))
        small = small.reshape(len(frames), views, *small.shape[1:])
        if self.spec.cameras is not None and self.spec.cameras.join is Join.WIDTH:
            return small.transpose(1, 2).flatten(2, 3)
        return small.permute(0, 2, 3, 1, 4).flatten(3)

    def _shrunk(self, frames: Frames) -> torch.Tensor:
        """Brings the pictures of single cameras to the network's size."""
        if self.spec.undistort is not None and len(frames):
            frames = _undistorted(frames, self.spec.undistort)
        first = self.spec.resize_first
        if first is not None and tuple(frames.shape[1:3]) != (first.height_px, first.width_px) and len(frames):
            frames = _resize(_as_tensor(frames).to(self.device), (first.height_px, first.width_px))
        rows, columns = self.spec.crop.window(int(frames.shape[1]), int(frames.shape[2]))
        pixels = _as_tensor(frames[:, rows, columns]).to(self.device)
        size = (self.spec.height_px, self.spec.width_px)
        if len(pixels) == 0:
            return pixels.new_empty((0, *size, self.spec.colour.channels))
        same = tuple(pixels.shape[1:3]) == size
        if not same:
            pixels = _resize(pixels, size)
        elif self.spec.colour is Colour.RGB:
            pixels = pixels.clone()  # what comes out is never the caller's own memory
        small = recolour(pixels, self.spec.colour)
        return small if self.spec.equalise is None else _equalised(small, self.spec.colour, self.spec.equalise)

    def normalise(self, small: torch.Tensor) -> torch.Tensor:
        """Maps bytes 0..255 to the range and orders the axes; (..., height_px, width_px, channels) in, the layout out.

        For NCHW the memory stays pixel by pixel ("channels last"), which saves a copy and is what fast convolutions want.
        """
        if self.device.type == "cpu" and small.numel() and small.shape[-1] == len(self._table):
            # Looking up what each of the 256 levels becomes is one pass; converting, multiplying and adding are three, for the same bits.
            tall = small.contiguous().numpy().reshape(-1, *small.shape[-2:])
            table = np.ascontiguousarray(self._table.T)[:, None]
            return self.ordered(torch.from_numpy(np.asarray(cv2.LUT(tall, table), np.float32).reshape(small.shape)))
        return self.ordered(self.scaled(small.to(self.device).to(torch.float32)))  # the device first: bytes are a quarter of the way

    def maps(self, small: torch.Tensor) -> torch.Tensor:
        """Returns what `normalise` does, map by map in memory, which onnxruntime wants; (N, height_px, width_px, channels) in."""
        if self.device.type != "cpu" or self.spec.layout is Layout.NHWC or self.spec.standardise or small.shape[-1] != len(self._table):
            return self.normalise(small).contiguous()
        count, height, width, channels = small.shape
        values = np.empty((count, channels, height, width), np.float32)
        tall = small.contiguous().numpy().reshape(count * height, width, channels)
        for channel, levels in enumerate(self._table):
            plane = cv2.extractChannel(tall, channel)
            for image in range(count):
                cv2.LUT(plane[image * height : (image + 1) * height], levels, dst=values[image, channel])
        return torch.from_numpy(values)

    def scaled(self, values: torch.Tensor) -> torch.Tensor:
        """Maps values of 0..255, (..., channels) float32 on the device, to the range, in place."""
        return values.mul_(self._step).add_(self._low)

    def ordered(self, values: torch.Tensor) -> torch.Tensor:
        """Standardises (..., height, width, channels) where that is described, and brings it into the order of the layout."""
        values = standardised(values, (-3, -2, -1)) if self.spec.standardise else values
        return values if self.spec.layout is Layout.NHWC else values.movedim(-1, -3)


def standardised(values: torch.Tensor, axes: tuple[int, ...]) -> torch.Tensor:
    """Takes the mean of each picture away and divides by its deviation; by 1 / sqrt(numbers) at least, so that even ones are zero.

    Reference: tf.image.per_image_standardization.
    """
    deviation, mean = torch.std_mean(values, axes, correction=0, keepdim=True)
    numbers = values.numel() / max(mean.numel(), 1)
    return (values - mean) / deviation.clamp(min=max(numbers, 1.0) ** -0.5)


def _by_picture(pictures: Frames, change: Callable[[NumpyFrames], NumpyFrames]) -> torch.Tensor:
    """Applies OpenCV to each picture, on the CPU, and brings the results back to where the pictures were."""
    tensor = _as_tensor(pictures)
    changed = np.stack([change(picture) for picture in tensor.cpu().contiguous().numpy()])
    return torch.from_numpy(changed).to(tensor.device)


def _undistorted(frames: Frames, camera: Undistort) -> torch.Tensor:
    maps = _undistortion(camera, int(frames.shape[1]), int(frames.shape[2]))
    return _by_picture(frames, lambda frame: np.asarray(cv2.remap(frame, *maps, cv2.INTER_LINEAR), np.uint8))


@cache
def _undistortion(camera: Undistort, height_px: int, width_px: int) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Returns where in the frame each pixel of the straightened one comes from, as cv2.undistort finds it."""
    along, down = width_px / camera.size.width_px, height_px / camera.size.height_px
    matrix = np.array([[camera.fx_px * along, 0.0, camera.cx_px * along], [0.0, camera.fy_px * down, camera.cy_px * down], [0.0, 0.0, 1.0]])
    maps = cv2.initUndistortRectifyMap(matrix, np.array(camera.coefficients), None, matrix, (width_px, height_px), cv2.CV_32FC1)
    return np.asarray(maps[0], np.float32), np.asarray(maps[1], np.float32)


def _equalised(small: torch.Tensor, colour: Colour, how: Equalise) -> torch.Tensor:
    clahe = cv2.createCLAHE(how.clip_limit, (how.tiles, how.tiles))
    plane = clahe.apply if how.kind is Equaliser.CLAHE else cv2.equalizeHist
    mixed = colour in {Colour.RGB, Colour.BGR} and how.channels is EqualisedChannels.BRIGHTNESS
    there, back = (cv2.COLOR_RGB2YUV, cv2.COLOR_YUV2RGB) if colour is Colour.RGB else (cv2.COLOR_BGR2YUV, cv2.COLOR_YUV2BGR)
    brightness = (2,) if colour is Colour.HSV else (0,)
    places = tuple(range(colour.channels)) if how.channels is EqualisedChannels.EACH else brightness

    def change(picture: NumpyFrames) -> NumpyFrames:
        changed: NumpyFrames = np.array(cv2.cvtColor(picture, there) if mixed else picture, np.uint8)
        for place in places:
            changed[..., place] = plane(np.ascontiguousarray(changed[..., place]))
        return np.asarray(cv2.cvtColor(changed, back), np.uint8) if mixed else changed

    return _by_picture(small, change)


def _as_tensor(frames: Frames) -> torch.Tensor:
    if isinstance(frames, torch.Tensor):
        return frames
    if not frames.flags.writeable or any(stride < 0 for stride in frames.strides):
        frames = frames.copy()  # torch shares memory with neither read-only nor mirrored arrays
    return torch.from_numpy(frames)


def _resize(pixels: torch.Tensor, size: tuple[int, int]) -> torch.Tensor:
    planes = pixels.permute(0, 3, 1, 2)
    if pixels.device.type == "cpu":
        planes = functional.interpolate(planes, size, mode="bilinear", antialias=True)
    else:
        planes = functional.interpolate(planes.to(torch.float32), size, mode="bilinear", antialias=True)
        planes = planes.round_().clamp_(0.0, 255.0).to(torch.uint8)
    return planes.permute(0, 2, 3, 1)


def recolour(pixels: torch.Tensor, colour: Colour) -> torch.Tensor:
    """Changes uint8 RGB (N, height, width, 3) to the channels of a colour space."""
    if colour is Colour.RGB:
        return pixels.contiguous()
    if pixels.device.type != "cpu":
        return _recolour_in_floats(pixels, colour)
    count, height, width, _ = pixels.shape
    # OpenCV takes the batch as one tall picture: one call instead of N.
    tall: NumpyFrames = pixels.contiguous().numpy().reshape(count * height, width, 3)
    changed = np.asarray(cv2.cvtColor(tall, _OPENCV[colour]))
    changed = np.ascontiguousarray(changed[..., [0, 2, 1]]) if colour is Colour.YUV_SWAPPED else changed
    return torch.from_numpy(changed.reshape(count, height, width, colour.channels))


def _recolour_in_floats(pixels: torch.Tensor, colour: Colour) -> torch.Tensor:
    """The same colours on any device, by the formulas that OpenCV documents for its byte conversions."""
    if colour is Colour.BGR:
        return pixels.flip(-1)
    red, green, blue = pixels.to(torch.float32).unbind(-1)
    if colour is Colour.YUV_OF_BGR:
        red, blue = blue, red
    if colour is Colour.HSV:
        planes = _hsv(red, green, blue)
    else:
        luma = 0.299 * red + 0.587 * green + 0.114 * blue
        planes = [luma] if colour is Colour.GREY else [luma, 0.492 * (blue - luma) + 128.0, 0.877 * (red - luma) + 128.0]
    planes = [planes[0], planes[2], planes[1]] if colour is Colour.YUV_SWAPPED else planes
    return torch.stack(planes, -1).round_().clamp_(0.0, 255.0).to(torch.uint8)


def _hsv(red: torch.Tensor, green: torch.Tensor, blue: torch.Tensor) -> list[torch.Tensor]:
    value = torch.maximum(torch.maximum(red, green), blue)
    spread = value - torch.minimum(torch.minimum(red, green), blue)
    safe = spread.clamp(min=1.0)  # bytes: a spread below 1 is 0, and the hue of grey is 0
    sixth = torch.where(
        value == red, (green - blue) / safe, torch.where(value == green, 2.0 + (blue - red) / safe, 4.0 + (red - green) / safe)
    )
    hue = (30.0 * sixth).round().remainder(180.0)
    saturation = 255.0 * spread / value.clamp(min=1.0)
    return [hue, saturation, value]
