"""A small network that tells where the road is: five classes a pixel, from pictures of any size.

It works on 192 x 128 pixels whatever the picture's size and shape, and begins with a stride, so that a picture costs a CPU about ten
milliseconds. `road.safetensors` was taught by `skidpad referee --train` on comma10k (MIT); `road.training.json` says how, and how well
it does.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from enum import IntEnum
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import load_file, save_file
from torch import nn
from torch.nn import functional

from skidpad.core.errors import SkidpadError
from skidpad.core.images import BoolArray, FloatArray, NumpyFrames

WIDTH_PX, HEIGHT_PX = 192, 128
"""The size at which the network looks at a picture."""


class Class(IntEnum):
    """What a pixel shows, in the order of the network's answers."""

    ROAD = 0
    MARKING = 1
    OTHER = 2
    MOVABLE = 3
    OWN_CAR = 4


class RoadNet(nn.Module):
    """A U-Net that begins at half the resolution. filters: of its first level; each level has up to twice as many as the one above."""

    def __init__(self, filters: int = 24) -> None:
        super().__init__()
        self.filters = filters
        widths = [filters, 2 * filters, 3 * filters, 4 * filters, 6 * filters]
        self.stem = _block(3, widths[0], stride=2)
        self.down = nn.ModuleList(nn.Sequential(_block(a, b, stride=2), _block(b, b)) for a, b in itertools.pairwise(widths))
        self.up = nn.ModuleList(_block(a + b, a) for a, b in itertools.pairwise(widths))
        self.head = nn.Conv2d(widths[0], 4 * len(Class), 3, padding=1)

    def forward(self, pictures: torch.Tensor) -> torch.Tensor:
        """Returns the logits, (N, classes, height, width), of pictures (N, 3, height, width) within 0..1; sides divide by 32."""
        levels = [self.stem(pictures * 2.0 - 1.0)]
        for down in self.down:
            levels.append(down(levels[-1]))
        found = levels.pop()
        for up in reversed(self.up):
            above = levels.pop()
            found = up(torch.cat((above, functional.interpolate(found, scale_factor=2.0, mode="nearest")), 1))
        return functional.pixel_shuffle(self.head(found), 2)


def _block(inputs: int, outputs: int, stride: int = 1) -> nn.Sequential:
    convolution = nn.Conv2d(inputs, outputs, 3, stride=stride, padding=1, bias=False)
    return nn.Sequential(convolution, nn.BatchNorm2d(outputs), nn.ReLU(inplace=True))


def save_road_net(network: RoadNet, path: Path) -> None:
    """Writes the weights in half precision."""
    state = {name: value.half().contiguous() if value.is_floating_point() else value for name, value in network.cpu().state_dict().items()}
    save_file(state, path)


def load_road_net(path: Path | None = None) -> RoadNet:
    """Reads a network; the bundled one where no path is given."""
    file = path or Path(__file__).with_name("road.safetensors")
    try:
        state = {name: value.float() if value.is_floating_point() else value for name, value in load_file(file).items()}
        network = RoadNet(len(state["stem.1.weight"]))
        network.load_state_dict(state)
    except (OSError, ValueError, KeyError, RuntimeError) as error:
        raise SkidpadError(
            f"{file} is no network of the referee ({error}); `skidpad referee PICTURES --masks FOLDER --train FILE` writes one"
        ) from error
    network.to(memory_format=torch.channels_last)  # type: ignore[call-overload] # torch's stubs know it of tensors alone
    return network.eval()


def load_teacher() -> RoadNet:
    """Reads a sister of the referee's network, taught on a part of its pictures: what is learned from the sister is judged by the other."""
    return load_road_net(Path(__file__).with_name("teacher.safetensors"))


def overlap_of(one: BoolArray, other: BoolArray) -> FloatArray:
    """Returns the intersection over union of areas, (N, height, width) each; NaN where neither picture has any."""
    both, either = np.sum(one & other, axis=(1, 2)), np.sum(one | other, axis=(1, 2))
    return np.where(either > 0, both / np.maximum(either, 1), np.nan)


def drivable_iou(network: RoadNet, originals: NumpyFrames, changed: NumpyFrames) -> FloatArray:
    """Returns how much of the drivable area (road and markings) is where it was, (N,) within 0..1; see `overlap_of`."""
    before, after = (segmented(network, frames) <= Class.MARKING for frames in (originals, changed))
    return overlap_of(before, after)


def drivable_areas(networks: Sequence[RoadNet], frames: NumpyFrames) -> BoolArray:
    """Returns where several networks, by the mean of their probabilities, see road or markings, (N, HEIGHT_PX, WIDTH_PX)."""
    device = next(networks[0].parameters()).device
    small = _small(torch.from_numpy(np.ascontiguousarray(frames)).to(device))
    with torch.inference_mode():
        likely = torch.stack([network(small).softmax(1)[:, : Class.OTHER].sum(1) for network in networks]).mean(0)
    return np.asarray((likely > 0.5).cpu().numpy(), np.bool_)


def segmented(network: RoadNet, frames: NumpyFrames) -> NumpyFrames:
    """Returns the class of each pixel at the network's size, (N, HEIGHT_PX, WIDTH_PX) bytes, of frames (N, height, width, 3)."""
    device = next(network.parameters()).device
    found = classes_of(network, torch.from_numpy(np.ascontiguousarray(frames)).to(device))
    return np.asarray(found.cpu().numpy(), np.uint8)


def classes_of(network: RoadNet, frames: torch.Tensor) -> torch.Tensor:
    """Returns what `segmented` does for frames on the network's device, and leaves it there."""
    with torch.inference_mode():
        found: torch.Tensor = network(_small(frames)).argmax(1).to(torch.uint8)
        return found


def _small(frames: torch.Tensor) -> torch.Tensor:
    pictures = frames.permute(0, 3, 1, 2).float() / 255.0
    small = functional.interpolate(pictures, size=(HEIGHT_PX, WIDTH_PX), mode="bilinear", antialias=True)
    return small.contiguous(memory_format=torch.channels_last)
