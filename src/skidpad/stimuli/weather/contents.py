"""The content codes of scenes, encoded once: what every style is decoded from.

They stay on the device where there is room, with what no style changes already done; else in a memory-mapped file, from which parts
are brought to the device as they are needed.
"""

from __future__ import annotations

import os
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import DTypeLike

from skidpad.core.errors import SkidpadError
from skidpad.stimuli.weather.decoding import FoldedDecoder, Prepared
from skidpad.stimuli.weather.scenes import working_size

if TYPE_CHECKING:
    from skidpad.core.images import Frames
    from skidpad.stimuli.weather.translation import Weather


_SHARE_OF_GPU = 0.5
_CPU_BYTES = 2 << 30
_STORED = {torch.bfloat16: (np.uint16, torch.uint16), torch.float32: (np.float32, torch.float32)}
"""NumPy has no bfloat16; its bits are kept as whole numbers."""


class Contents:
    """Rows of content codes, filled once with `add` in order and then read by slices."""

    def __init__(
        self,
        weather: Weather,
        decoder: FoldedDecoder,
        rows: int,
        frame_size: tuple[int, int],
        file: Path | None = None,
        memory_bytes: int | None = None,
    ) -> None:
        """Makes room for `rows` frames of `frame_size` (height, width).

        file: where codes go that do not fit into memory_bytes (by default half of what a GPU has free; 2 GiB without one).
        """
        height, width = working_size(*frame_size, weather.card.size_px, weather.card.sizes.stride)
        stride = weather.card.sizes.stride
        self._weather = weather
        self._decoder = decoder
        self._shape = (rows, height // stride, width // stride, weather.card.sizes.channels)
        self._filled = 0
        self._resident: Prepared | None = None
        self._mapped: np.ndarray | None = None
        self._file = file
        self._arrived: tuple[np.ndarray, ...] = ()
        self._frames_shape = (rows, *frame_size, 3)
        self._mapped_frames: np.ndarray | None = None
        needed = (2 * self.code_bytes + (int(np.prod(self._frames_shape[1:])) if decoder.needs_frames else 0)) * rows
        room = self._room() if memory_bytes is None else memory_bytes
        if needed <= room:
            kept = torch.empty(self._shape, dtype=decoder.dtype, device=decoder.device)
            frames = torch.empty(self._frames_shape, dtype=torch.uint8, device=decoder.device) if decoder.needs_frames else None
            self._resident = Prepared(kept, torch.empty_like(kept), frames)
        elif file is None:
            raise SkidpadError(
                f"the content codes of {rows} scenes need {needed >> 20} MiB and there is room for {room >> 20}; "
                "use fewer scenes, or a folder where they can be kept"
            )
        else:
            self._mapped = _opened(file, self._shape, _STORED[decoder.dtype][0])
            if decoder.needs_frames:
                self._mapped_frames = _opened(_frames_file(file), self._frames_shape, np.uint8)

    @property
    def code_bytes(self) -> int:
        """The size of one content code."""
        return int(np.prod(self._shape[1:])) * self._decoder.dtype.itemsize

    @property
    def is_mapped(self) -> bool:
        """Whether the codes lie in a file."""
        return self._mapped is not None

    def __len__(self) -> int:
        return self._filled

    def add(self, frames: Frames) -> None:
        """Encodes the next frames, (N, height, width, 3) uint8."""
        count, size = len(frames), self._decoder.batch_size
        if self._filled + count > self._shape[0]:
            raise ValueError(f"there is room for {self._shape[0]} frames; got {self._filled + count}")
        codes = self._weather.encode(frames)
        for start in range(0, count, size):
            stop = min(start + size, count)
            some = frames[start:stop]
            pictures = some if isinstance(some, torch.Tensor) else torch.from_numpy(some.copy())
            self._keep(slice(self._filled + start, self._filled + stop), codes[start:stop], pictures)
        self._filled += count

    def _keep(self, rows: slice, codes: torch.Tensor, frames: torch.Tensor) -> None:
        if self._mapped is not None:
            pixels = codes.permute(0, 2, 3, 1).to(self._decoder.dtype).contiguous().cpu()
            self._mapped[rows] = pixels.view(_STORED[self._decoder.dtype][1]).numpy()
            if self._mapped_frames is not None:
                self._mapped_frames[rows] = frames.cpu().numpy()
        elif self._resident is not None:
            prepared = self._decoder.prepare(codes, frames)
            self._resident.content[rows] = prepared.content
            self._resident.first[rows] = prepared.first
            if self._resident.frames is not None and prepared.frames is not None:
                self._resident.frames[rows] = prepared.frames

    def part(self, rows: slice) -> Prepared:
        """Returns the codes of some rows on the device, ready to be decoded."""
        if self._resident is not None:
            return self._resident[rows]
        stored = np.ascontiguousarray(self._mapped[rows]) if self._mapped is not None else np.empty(0)
        pixels = torch.from_numpy(stored).view(self._decoder.dtype).to(self._decoder.device)
        frames = None if self._mapped_frames is None else torch.from_numpy(np.array(self._mapped_frames[rows]))
        return self._decoder.prepare(pixels.permute(0, 3, 1, 2), frames)

    def __getstate__(self) -> dict[str, Any]:
        """Leaves the networks behind: whoever gets the codes has them, see `attach`. Arrays travel as NumPy's, which can be shared."""
        kept = self._resident
        arrays = (self._mapped,) if kept is None else tuple(self._plain(codes) for codes in (kept.content, kept.first))
        frames = self._mapped_frames if kept is None else None if kept.frames is None else kept.frames.cpu().numpy()
        return {"shape": self._shape, "filled": self._filled, "arrays": arrays, "frames": frames}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self._shape, self._filled, self._arrived = state["shape"], state["filled"], state["arrays"]
        self._resident, self._mapped, self._file = None, None, None
        self._mapped_frames = state["frames"]

    @property
    def needs_networks(self) -> bool:
        """Whether the codes came from another process and were not attached yet."""
        return bool(self._arrived)

    def attach(self, weather: Weather, decoder: FoldedDecoder) -> None:
        """Makes codes that came from another process usable with this one's networks."""
        self._weather, self._decoder = weather, decoder
        if len(self._arrived) == 1:
            self._mapped = self._arrived[0]
        else:
            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", "The given NumPy array is not writable", UserWarning)  # and nobody writes
                content, first = (torch.from_numpy(codes).view(decoder.dtype).to(decoder.device) for codes in self._arrived)
                frames = None if self._mapped_frames is None else torch.from_numpy(self._mapped_frames).to(decoder.device)
            self._resident, self._mapped_frames = Prepared(content, first, frames), None
        self._arrived = ()

    def _plain(self, codes: torch.Tensor) -> np.ndarray:
        return codes.cpu().view(_STORED[self._decoder.dtype][1]).numpy()

    def close(self) -> None:
        """Frees the memory, and removes the file."""
        self._resident = None
        if self._mapped is not None:
            self._mapped = self._mapped_frames = None
            if self._file is not None:
                self._file.unlink(missing_ok=True)
                _frames_file(self._file).unlink(missing_ok=True)

    def _room(self) -> int:
        if self._decoder.device.type == "cuda":
            return int(torch.cuda.mem_get_info(self._decoder.device)[0] * _SHARE_OF_GPU)
        return _CPU_BYTES


def _frames_file(file: Path) -> Path:
    """Returns where the frames of codes in a file lie, for weathers that need them."""
    return file.with_name(file.name + ".frames")


def _opened(file: Path, shape: tuple[int, ...], dtype: DTypeLike) -> np.memmap[tuple[int, ...], np.dtype[np.generic]]:
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        mapped = np.memmap(file, dtype, "w+", shape=shape)
        if hasattr(os, "posix_fallocate"):  # a disk that fills up under a mapped file kills the process without a word
            with file.open("rb+") as opened:
                os.posix_fallocate(opened.fileno(), 0, mapped.nbytes)
    except OSError as error:
        file.unlink(missing_ok=True)
        raise SkidpadError(f"cannot keep content codes in {file}: {error.strerror}; free some space or use fewer scenes") from error
    return mapped
