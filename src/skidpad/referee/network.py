"""The road that the referee sees, by a small network that tells five classes a pixel.

The network works on 192 x 128 pixels whatever the picture's size and shape, and begins with a stride, so that a picture costs a CPU
about ten milliseconds. `road.safetensors` was taught by `skidpad referee --train` on comma10k (MIT); `road.training.json` says how, and
how well it does. Roads that it saw are remembered. A search asks for road and edges on the device, by `QuickReferee`; `on_device.py` asks
all that `verdict.py` does there.
"""

from __future__ import annotations

import itertools
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from functools import cache
from pathlib import Path
from threading import Lock

import cv2
import numpy as np
import torch
from numpy.typing import NDArray
from safetensors.torch import load_file, save_file
from torch import nn
from torch.nn import functional

from skidpad.core.errors import SkidpadError
from skidpad.core.images import BoolArray, FloatArray, Frames, NumpyFrames, as_numpy, averaged, edges, pixel_hash
from skidpad.referee.edges import EDGES_PX, SCALES, edges_alike, grey_levels
from skidpad.referee.verdict import LEAST_ROAD, SURE_LIKENESS, SURE_OVERLAP

WIDTH_PX, HEIGHT_PX = 192, 128
"""The size at which the network looks at a picture."""
_BATCH = 16
_REMEMBERED = 16384
"""Originals whose road is remembered, 6 KB each: a frame is looked at once, however many mutants it has."""
STEADY_OVERLAP = 0.9
"""Of the drivable area of an original with that of the same picture at 0.7 EV more. Where so little light changes what the network
sees, as between hard shadows of trees, its word alone loses no road: the edges must have changed as well."""
BRIGHTER = np.clip(np.rint(255.0 * ((np.arange(256) / 255.0) ** 2.2 * 2.0**0.7) ** (1 / 2.2)), 0, 255).astype(np.uint8)
"""What 0.7 EV more makes of a level."""


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


_LOADING = Lock()


def road_net(device: str) -> RoadNet:
    """Returns the bundled network on a device, loaded once."""
    with _LOADING:  # threads that judge together ask for it at the same time
        return _loaded(device)


@cache
def _loaded(device: str) -> RoadNet:
    return load_road_net().to(device)


@dataclass(frozen=True, slots=True)
class _Road:
    """The drivable area and the own car of an original, packed to bits, and whether a little light leaves the first as it is."""

    bits: bytes
    own_bits: bytes
    is_steady: bool


class _Memory:
    """The roads of the originals that were looked at last; safe in threads."""

    def __init__(self) -> None:
        self._kept: OrderedDict[str, _Road] = OrderedDict()
        self._lock = Lock()

    def get(self, key: str) -> _Road | None:
        with self._lock:
            return self._kept.get(key)

    def put(self, key: str, road: _Road) -> None:
        with self._lock:
            self._kept[key] = road
            while len(self._kept) > _REMEMBERED:
                self._kept.popitem(last=False)


_memory = _Memory()


def drivable(frames: Frames, device: str = "cpu") -> BoolArray:
    """Returns where the network sees road or marking, (N, HEIGHT_PX, WIDTH_PX), of frames (N, height, width, 3)."""
    return np.asarray(_classes(frames, device) <= Class.MARKING, np.bool_)


def _classes(frames: Frames, device: str) -> NumpyFrames:
    network, pictures = road_net(device), as_numpy(frames)
    parts = [segmented(network, pictures[first : first + _BATCH]) for first in range(0, len(pictures), _BATCH)]
    return np.concatenate(parts) if parts else np.zeros((0, HEIGHT_PX, WIDTH_PX), np.uint8)


def remembered_roads(frames: NumpyFrames) -> tuple[BoolArray, BoolArray, BoolArray]:
    """Returns the drivable areas of originals and their own cars, each looked at once, and which of them are steady, (N,)."""
    keys = [pixel_hash(frame) for frame in frames]
    found = {key: road for key in keys if (road := _memory.get(key)) is not None}
    new = {key: place for place, key in enumerate(keys) if key not in found}
    if new:
        unknown = frames[list(new.values())]
        seen, lit = _classes(unknown, "cpu"), drivable(BRIGHTER[unknown])
        steady = overlap_of(seen <= Class.MARKING, lit) >= STEADY_OVERLAP
        for key, classes, is_steady in zip(new, seen, steady.tolist(), strict=True):
            bits, own_bits = (np.packbits(area).tobytes() for area in (classes <= Class.MARKING, classes == Class.OWN_CAR))
            found[key] = _Road(bits, own_bits, is_steady)
            _memory.put(key, found[key])
    roads, own_cars = (_unpacked(b"".join(getattr(found[key], name) for key in keys)) for name in ("bits", "own_bits"))
    return roads, own_cars, np.array([found[key].is_steady for key in keys], np.bool_)


def _unpacked(data: bytes) -> BoolArray:
    return np.unpackbits(np.frombuffer(data, np.uint8)).astype(np.bool_).reshape(-1, HEIGHT_PX, WIDTH_PX)


def roads_drawn(original: NumpyFrames, changed: NumpyFrames, device: str = "cpu") -> NumpyFrames:
    """Returns both pictures, (height, width, 3), side by side at the first one's size, the roads that the network sees in green."""
    height, width = original.shape[:2]
    sides = []
    for frame in (original, changed):
        shown = np.array(cv2.resize(frame, (width, height), interpolation=cv2.INTER_AREA), np.uint8)
        road = cv2.resize(drivable(frame[None], device)[0].astype(np.uint8), (width, height), interpolation=cv2.INTER_NEAREST) > 0
        shown[road] = shown[road] // 2 + np.array([0, 100, 0], np.uint8)
        sides.append(shown)
    return np.concatenate(sides, axis=1)


_TOGETHER = 64


class QuickReferee:
    """Two of the referee's looks at many changes of the same originals, without leaving their device: the road, and the edges.

    A search looks at thousands of pictures for each one that it keeps. These looks are stricter than the whole referee: what fog hides
    from the network they refuse, where the whole referee may still know the road by its own pixels. Plain counting (borders, blank and
    clipped pictures) is left to the whole referee, which judges what passes here.
    """

    def __init__(self, originals: NumpyFrames, device: str) -> None:
        """Looks at the originals, (N, height, width, 3), once."""
        self._network = load_road_net().to(device)
        self._device = device
        self._shrinking: dict[tuple[int, int], tuple[torch.Tensor, torch.Tensor]] = {}
        parts = [originals[first : first + _TOGETHER] for first in range(0, len(originals), _TOGETHER)]
        self._roads = torch.cat([self._road(torch.from_numpy(part).to(device)) for part in parts])
        self._greys = torch.cat([torch.from_numpy(grey_levels(part)).half().to(device) for part in parts])
        self._has_road = self._roads.float().mean(dim=(1, 2)) >= LEAST_ROAD

    def kept(self, places: slice, changed: torch.Tensor) -> torch.Tensor:
        """Tells which changed pictures, uint8 (N, height, width, 3), of the originals at these places are kept, (N,) bool."""
        with torch.inference_mode():
            before, after = self._roads[places], self._road(changed)
            both, either = (before & after).sum(dim=(1, 2)), (before | after).sum(dim=(1, 2))
            overlap = both / either.clamp(min=1)
            greys = self._greys[places].float(), self._grey(changed)
            likeness = torch.stack([edges_alike(*(edges(averaged(grey, scale))[0] for grey in greys)) for scale in SCALES])
            return self._has_road[places] & (overlap >= SURE_OVERLAP) & (likeness.mean(dim=0).amin(dim=0) >= SURE_LIKENESS)

    def _road(self, frames: torch.Tensor) -> torch.Tensor:
        return classes_of(self._network, frames) <= Class.MARKING

    def _grey(self, frames: torch.Tensor) -> torch.Tensor:
        """Returns what `grey_levels` does but for rounding, (N, EDGES_PX, EDGES_PX) float32."""
        size = int(frames.shape[1]), int(frames.shape[2])
        if size not in self._shrinking:
            rows, columns = _resizing(*size)
            self._shrinking[size] = torch.from_numpy(rows).to(self._device), torch.from_numpy(columns).to(self._device)
        rows_of, columns_of = self._shrinking[size]
        return rows_of @ frames.float().mean(dim=-1) @ columns_of.T


def _resizing(height_px: int, width_px: int) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Returns what OpenCV's resizing to a square of EDGES_PX does to rows and to columns, as matrices (EDGES_PX, height or width)."""

    def resized(picture: NDArray[np.float32]) -> NDArray[np.float32]:
        return np.asarray(cv2.resize(picture, (EDGES_PX, EDGES_PX), interpolation=cv2.INTER_AREA), np.float32)

    rows, columns = np.zeros((EDGES_PX, height_px), np.float32), np.zeros((EDGES_PX, width_px), np.float32)
    for place in range(height_px):
        rows[:, place] = resized(np.repeat(np.eye(1, height_px, place, np.float32).T, width_px, axis=1))[:, 0]
    for place in range(width_px):
        columns[:, place] = resized(np.repeat(np.eye(1, width_px, place, np.float32), height_px, axis=0))[0]
    return rows, columns
