"""The decoders of both methods written anew for inference: the same pictures with fewer multiplications.

UNIT's is MUNIT's under one style that scales by 1 and shifts by 0. Five rewritings, each exact but for rounding:

- Repeating every pixel and then a 5x5 convolution is, for each of the four places in a doubled pixel, a 3x3 convolution of the
  small map whose weights are sums of the 25: 9 multiplications instead of 25. Zeros around the doubled map are zeros around the
  small one, so the border is the same.
- The last 7x7 convolution to three colours is, for blocks of 2x2 pixels, a 4x4 one from four times the channels to twelve
  outputs: that is the order in which the step before it already has its maps, and more outputs at a time suit a GPU.
- The first convolution with its norm does not see the style, so it is done once a scene.
- A number added to a whole channel has no effect before an instance norm, so those biases are left out.
- Bias, norm, ReLU and the order of pixels are one pass over the maps where they are compiled.

Reference: Shi et al. 2016, Real-Time Single Image Super-Resolution (sub-pixel convolution), for the first.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import ceil
from typing import Any

import torch
from torch.nn import functional

from skidpad.stimuli.weather.blocks import compiled
from skidpad.stimuli.weather.detail import Detail, drawn
from skidpad.stimuli.weather.drawn import DrawnConditions
from skidpad.stimuli.weather.files import BadWeatherError, WeatherCard
from skidpad.stimuli.weather.munit import Munit
from skidpad.stimuli.weather.scenes import as_signed
from skidpad.stimuli.weather.unit import Unit

_EPSILON = 1e-5
_FINAL = 7
_PADDING = 3
_OUTPUTS = 16
"""Twelve are needed; a multiple of eight lets a GPU use its matrix units."""

_CPU_BATCH = 8
_GPU_BATCH, _LARGEST_GPU_BATCH = 64, 256
_FULL = 256 * 256 * 64
"""Pixels times filters of the paper's size, of which _GPU_BATCH frames keep a GPU busy."""


def batch_frames(card: WeatherCard, device: torch.device) -> int:
    """Returns how many frames are decoded at a time: of a smaller weather more, or beginning the work takes longer than doing it."""
    if device.type == "cpu":
        return _CPU_BATCH
    fitting = _GPU_BATCH
    while fitting < _LARGEST_GPU_BATCH and 2 * fitting * card.size_px**2 * card.sizes.filters <= _GPU_BATCH * _FULL:
        fitting *= 2
    return fitting


def working_type(device: torch.device) -> torch.dtype:
    """Returns the type in which the networks run: bfloat16 on a GPU, else float32."""
    return torch.bfloat16 if device.type == "cuda" else torch.float32


@dataclass(frozen=True, slots=True)
class Prepared:
    """What decoding starts from: content codes, and the normalised first convolution of them; (N, height, width, channels).

    frames: what was encoded, uint8 (N, height, width, 3) at its own size, where pictures depend on it; else None.
    """

    content: torch.Tensor
    first: torch.Tensor
    frames: torch.Tensor | None = None

    def __len__(self) -> int:
        return len(self.content)

    def __getitem__(self, part: slice) -> Prepared:
        return Prepared(self.content[part], self.first[part], None if self.frames is None else self.frames[part])

    def repeated(self, times: int) -> Prepared:
        """Returns all rows so many times, one whole after the other."""
        rows = (self.content, self.first, self.frames)
        return Prepared(*(each if each is None else each.repeat(times, 1, 1, 1) for each in rows))  # type: ignore[arg-type] # only frames may be none


@dataclass(frozen=True, slots=True)
class _Enlarged:
    weight: torch.Tensor
    bias: torch.Tensor
    scale: torch.Tensor
    shift: torch.Tensor


class FoldedDecoder:
    """Decodes content codes under styles; on a GPU in bfloat16 and compiled.

    The batch is halved when a GPU runs out of memory and stays so, and `on_halved` is told. needs_frames: codes alone make no picture.
    """

    def __init__(
        self,
        card: WeatherCard,
        model: Munit | Unit,
        device: str = "cpu",
        on_halved: Callable[[int], None] | None = None,
        *,
        compiled: bool | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        self.card = card
        self.device = torch.device(device)
        self.dtype = dtype or working_type(self.device)
        self.batch_size = batch_frames(card, self.device)
        self.detail = Detail(card.detail, card.size_px) if card.detail else None
        self.conditions = DrawnConditions(card.drawn) if card.drawn else None
        self.needs_frames = bool(card.detail or card.drawn)
        self.compiled = self.device.type == "cuda" if compiled is None else compiled
        self._on_halved = on_halved
        if isinstance(model, Munit):
            plain: Any = model.target.decoder  # modules are untyped
            self._norms = plain.norms.requires_grad_(requires_grad=False).to(self.device, torch.float32)
            pairs, rest = [(block.first, block.second) for block in plain.blocks], plain.rest
        else:
            inner: Any = model.target.decoder
            own = len(inner) - card.sizes.halvings - 1
            self._norms = None
            pairs = [(block.first.convolution, block.second.convolution) for block in (model.shared_decoder, *inner[:own])]
            rest = inner[own:]
        with torch.no_grad():
            self._residual = [(self._kept(first.weight), self._kept(second.weight)) for first, second in pairs]
            self._enlarging = [self._folded(step) for step in rest[:-1]]
            last = rest[-1].convolution
            spare = _OUTPUTS - 12
            self._last = self._kept(functional.pad(blocked_7x7(last.weight.float()), (0, 0, 0, 0, 0, 0, 0, spare)))
            self._last_bias = last.bias.float().repeat(4).to(self.device)

    @property
    def style_size(self) -> int:
        """How many numbers a style has; none for UNIT."""
        return 0 if self._norms is None else self.card.sizes.style

    def norms(self, styles: torch.Tensor) -> torch.Tensor:
        """Turns styles (K, style) into the scales and shifts of every norm, (K, blocks, 4, 1, 1, channels) float32."""
        if styles.ndim != 2 or styles.shape[1] != self.style_size:
            raise BadWeatherError(
                f"the weather {self.card.name!r} takes styles of {self.style_size or 'no'} numbers; got shape {tuple(styles.shape)}"
            )
        if self._norms is None:
            plain = torch.tensor([1.0, 0.0, 1.0, 0.0], device=self.device).reshape(1, 1, 4, 1, 1, 1)
            return plain.expand(len(styles), len(self._residual), 4, 1, 1, self.card.sizes.channels)
        with torch.inference_mode():
            rows: torch.Tensor = self._norms(styles.to(self.device, torch.float32))
        return rows.reshape(len(styles), len(self._residual), 4, 1, 1, -1)

    def prepare(self, content: torch.Tensor, frames: torch.Tensor | None = None) -> Prepared:
        """Does once what no style changes; content: (N, channels, height, width) as `Weather.encode` gives it.

        frames: what the content is of, uint8 (N, height, width, 3); see `needs_frames`.
        """
        if self.needs_frames and frames is None:
            what = "detail" if self.detail else "the times of its conditions"
            raise BadWeatherError(f"the weather {self.card.name!r} takes {what} from the frames; give them with their codes")
        kept = frames.to(self.device) if self.needs_frames and frames is not None else None
        with torch.inference_mode():
            codes = content.to(self.device, self.dtype).contiguous(memory_format=torch.channels_last)
            missing = self.batch_size - len(codes) if self.compiled else 0
            rows = filled(codes, missing) if missing > 0 else codes
            first = self._step(_normed)(pixels(convolved(rows, self._residual[0][0])))
            return Prepared(pixels(codes), first[: len(codes)], kept)

    def decode(self, prepared: Prepared, norms: torch.Tensor, size: tuple[int, int] | None = None) -> torch.Tensor:
        """Returns frames, uint8 (N, height, width, 3) on the device, at the working size or resized to `size`.

        norms: of one style for all (1, ...), or of one for each scene (N, ...). Conditions of the card are drawn on top.
        """
        parts: list[torch.Tensor] = []
        start = 0
        while start < len(prepared):
            part = slice(start, min(start + self.batch_size, len(prepared)))
            try:
                with torch.inference_mode():
                    parts.append(self._batch(prepared[part], norms[part] if len(norms) > 1 else norms, size))
            except torch.cuda.OutOfMemoryError as error:
                self._halve(part.stop - part.start, error)
                continue
            start = part.stop
        made = torch.cat(parts) if len(parts) > 1 else parts[0]
        return made if self.conditions is None or prepared.frames is None else self.conditions(made, prepared.frames)

    def _batch(self, prepared: Prepared, norms: torch.Tensor, size: tuple[int, int] | None) -> torch.Tensor:
        count = len(prepared)
        if self.compiled:  # compiled code is made for one size of a batch
            missing = self.batch_size - count
            norms = norms.expand(count, *norms.shape[1:]).contiguous()
            if missing:
                frames = None if prepared.frames is None else filled(prepared.frames, missing)
                prepared = Prepared(filled(prepared.content, missing), filled(prepared.first, missing), frames)
                norms = filled(norms, missing)
        blocks = pixels(self._blocks(prepared, norms))
        if self.detail is not None and prepared.frames is not None:
            return self._detailed(self.detail, self._step(_signed)(blocks, self._last_bias), prepared.frames, size)[:count]
        if size is None or size == (2 * blocks.shape[1], 2 * blocks.shape[2]):
            return self._step(_painted)(blocks, self._last_bias)[:count]
        # Where nothing shrinks, a filter against aliasing is none, and torch is faster without it.
        shrinks = size[0] < 2 * blocks.shape[1] or size[1] < 2 * blocks.shape[2]
        larger = functional.interpolate(maps_of(self._step(_signed)(blocks, self._last_bias)), size, mode="bilinear", antialias=shrinks)
        return self._step(_levels)(pixels(larger))[:count]

    def _detailed(self, detail: Detail, signed: torch.Tensor, frames: torch.Tensor, size: tuple[int, int] | None) -> torch.Tensor:
        """Returns pictures with the detail of the frames that they were made of, at `size` or the working size."""
        recorded, made = self._step(as_signed)(frames), maps_of(signed)
        wanted = size or (int(made.shape[2]), int(made.shape[3]))
        if tuple(recorded.shape[2:]) != wanted:
            recorded = functional.interpolate(recorded, wanted, mode="bilinear", antialias=True)
        # torch's filter against aliasing is its own kernel, compiled or not; all the rest is one pass
        small, changed = detail.reduced(recorded, made), detail.reduced(made, made)
        return self._step(_detailed_levels)(small, changed, made, recorded, detail.share)

    def _blocks(self, prepared: Prepared, norms: torch.Tensor) -> torch.Tensor:
        """Returns colours of 2x2 blocks before tanh, (N, 16, height / 2, width / 2)."""
        styled, joined = self._step(_styled), self._step(_joined)
        maps = prepared.content
        changed = self._step(_shaded)(prepared.first, norms[:, 0, 0], norms[:, 0, 1])
        for place, (first, second) in enumerate(self._residual):
            if place:
                changed = styled(pixels(convolved(maps_of(maps), first)), norms[:, place, 0], norms[:, place, 1])
            back = pixels(convolved(maps_of(changed), second))
            maps = joined(maps, back, norms[:, place, 2], norms[:, place, 3])
        for place, step in enumerate(self._enlarging):
            last = place == len(self._enlarging) - 1
            enlarged = pixels(convolved(maps_of(maps), step.weight))
            maps = self._step(_framed if last else _doubled)(enlarged, step.bias, step.scale, step.shift)
        return convolved(maps_of(maps), self._last, padding=0)

    def _step(self, function: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
        return compiled(function) if self.compiled else function

    def _kept(self, weight: torch.Tensor) -> torch.Tensor:
        return weight.to(self.device, self.dtype).contiguous(memory_format=torch.channels_last)

    def _folded(self, step: Any) -> _Enlarged:
        convolution, norm = step.convolution.convolution, step.convolution.norm
        given = (convolution.bias.repeat(4), norm.weight.flatten(), norm.bias.flatten())
        return _Enlarged(self._kept(folded_5x5(convolution.weight.float())), *(row.float().to(self.device) for row in given))

    def _halve(self, size: int, error: torch.cuda.OutOfMemoryError) -> None:
        if self.batch_size == 1 or size == 1:
            raise BadWeatherError(f"one frame does not fit into the memory of {self.device}; use the CPU or a smaller weather") from error
        self.batch_size = ceil(min(size, self.batch_size) / 2)
        torch.cuda.empty_cache()
        if self._on_halved is not None:
            self._on_halved(self.batch_size)


def folded_5x5(weight: torch.Tensor) -> torch.Tensor:
    """Turns a 5x5 kernel for doubled maps, (filters, channels, 5, 5), into a 3x3 one for the small maps, (4 filters, channels, 3, 3).

    Row 2i + a of the doubled map is row i of the small one, so for output row 2i + a the five rows 2i + a - 2 to 2i + a + 2 fall on
    small rows i - 1 (rows 0, 1 of the kernel for a = 0; row 0 for a = 1), i (rows 2, 3; 1, 2) and i + 1 (row 4; 3, 4); columns alike.
    Output channels are ordered by place in the block, then by filter.
    """
    falls = torch.zeros(2, 3, 5, dtype=weight.dtype)
    for a in (0, 1):
        for u in range(5):
            falls[a, (a + u - 2) // 2 + 1, u] = 1.0
    small = torch.einsum("amu,bnv,ocuv->abocmn", falls, falls, weight)
    return small.reshape(-1, weight.shape[1], 3, 3)


def blocked_7x7(weight: torch.Tensor) -> torch.Tensor:
    """Turns a 7x7 kernel, (colours, channels, 7, 7), into a 4x4 one from 2x2 blocks to 2x2 blocks, (4 colours, 4 channels, 4, 4).

    Output row 2i + p looks at padded rows 2i + p + u, which are places a of blocks i + m with 2m + a = p + u.
    """
    colours, channels = weight.shape[:2]
    falls = torch.zeros(2, 2, 4, _FINAL, dtype=weight.dtype)
    for p in (0, 1):
        for u in range(_FINAL):
            falls[p, (p + u) % 2, (p + u) // 2, u] = 1.0
    blocks = torch.einsum("pamu,qbnv,ocuv->pqoabcmn", falls, falls, weight)
    return blocks.reshape(4 * colours, 4 * channels, 4, 4)


def pixels(maps: torch.Tensor) -> torch.Tensor:
    """Shows maps (N, channels, height, width) as (N, height, width, channels)."""
    return maps.permute(0, 2, 3, 1)


def maps_of(pixels: torch.Tensor) -> torch.Tensor:
    """Shows (N, height, width, channels) as maps (N, channels, height, width)."""
    return pixels.permute(0, 3, 1, 2)


def convolved(maps: torch.Tensor, weight: torch.Tensor, *, stride: int = 1, padding: int = 1) -> torch.Tensor:
    """Convolves without a bias, on NVIDIA by the kernel that cuDNN measures to be the fastest; what it guesses can be half as fast.

    It measures once for each shape and thread. Asked for by the call, not by torch's switch, which all threads of a process share.
    """
    if maps.is_cuda and torch.version.hip is None:
        tf32 = torch.backends.cudnn.allow_tf32
        return torch.cudnn_convolution(
            maps, weight, (padding, padding), (stride, stride), (1, 1), 1, benchmark=True, deterministic=False, allow_tf32=tf32
        )
    return functional.conv2d(maps, weight, stride=stride, padding=padding)


def filled(rows: torch.Tensor, missing: int) -> torch.Tensor:
    """Repeats the last row so many times: compiled code is made for one size of a batch."""
    return torch.cat([rows, rows[-1:].expand(missing, *rows.shape[1:])])


def moments(values: torch.Tensor, axes: tuple[int, ...]) -> tuple[torch.Tensor, torch.Tensor]:
    """Mean and inverse deviation by two sums of one pass; float32 has digits to spare for maps that convolutions without bias give."""
    mean = values.mean(axes, keepdim=True)
    variance = values.square().mean(axes, keepdim=True) - mean.square()
    return mean, torch.rsqrt(variance.clamp(min=0.0) + _EPSILON)


def _normed(values: torch.Tensor) -> torch.Tensor:
    wide = values.float()
    mean, inverse = moments(wide, (1, 2))
    return ((wide - mean) * inverse).to(values.dtype)


def _shaded(values: torch.Tensor, scale: torch.Tensor, shift: torch.Tensor) -> torch.Tensor:
    return torch.addcmul(shift, values.float(), scale).relu_().to(values.dtype)


def _styled(values: torch.Tensor, scale: torch.Tensor, shift: torch.Tensor) -> torch.Tensor:
    wide = values.float()
    mean, inverse = moments(wide, (1, 2))
    factor = inverse * scale
    return torch.addcmul(shift - mean * factor, wide, factor).relu_().to(values.dtype)


def _joined(short: torch.Tensor, values: torch.Tensor, scale: torch.Tensor, shift: torch.Tensor) -> torch.Tensor:
    wide = values.float()
    mean, inverse = moments(wide, (1, 2))
    factor = inverse * scale
    return (short.float() + torch.addcmul(shift - mean * factor, wide, factor)).to(values.dtype)


def _whole_moments(values: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Mean and inverse deviation of each picture as a whole, row by row first: one sum over millions of numbers leaves a GPU idle."""
    sums, squares = values.sum((2, 3, 4, 5)), values.square().sum((2, 3, 4, 5))
    numbers = float(values[0].numel())
    mean = sums.sum(1) / numbers
    variance = squares.sum(1) / numbers - mean.square()
    shape = (-1, 1, 1, 1, 1, 1)
    return mean.reshape(shape), torch.rsqrt(variance.clamp(min=0.0) + _EPSILON).reshape(shape)


def _layered(values: torch.Tensor, bias: torch.Tensor, scale: torch.Tensor, shift: torch.Tensor) -> torch.Tensor:
    """Layer norm and ReLU of pixels in 2x2 blocks, (N, height, width, 4 channels) to (N, height, width, 2, 2, channels)."""
    count, height, width = values.shape[:3]
    wide = (values.float() + bias).reshape(count, height, width, 2, 2, -1)
    mean, inverse = _whole_moments(wide)
    factor = inverse * scale
    return torch.addcmul(shift - mean * factor, wide, factor).relu_().to(values.dtype)


def _doubled(values: torch.Tensor, bias: torch.Tensor, scale: torch.Tensor, shift: torch.Tensor) -> torch.Tensor:
    """Returns the normalised maps pixel by pixel, (N, 2 height, 2 width, channels)."""
    count, height, width = values.shape[:3]
    blocks = _layered(values, bias, scale, shift)
    return blocks.permute(0, 1, 3, 2, 4, 5).reshape(count, 2 * height, 2 * width, -1).contiguous()


def _framed(values: torch.Tensor, bias: torch.Tensor, scale: torch.Tensor, shift: torch.Tensor) -> torch.Tensor:
    """Returns the normalised maps with a mirrored border of 3 pixels, in 2x2 blocks: (N, height + 3, width + 3, 4 channels)."""
    count, height, width = values.shape[:3]
    whole = _layered(values, bias, scale, shift).permute(0, 1, 3, 2, 4, 5).reshape(count, 2 * height, 2 * width, -1)
    rows, columns = _mirrored(2 * height, values.device), _mirrored(2 * width, values.device)
    framed = whole[:, rows][:, :, columns]
    blocks = framed.reshape(count, height + _PADDING, 2, width + _PADDING, 2, -1).permute(0, 1, 3, 2, 4, 5)
    return blocks.reshape(count, height + _PADDING, width + _PADDING, -1).contiguous()


def _mirrored(size: int, device: torch.device) -> torch.Tensor:
    places = torch.arange(-_PADDING, size + _PADDING, device=device).abs()
    return (size - 1) - ((size - 1) - places).abs()


def _signed(values: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    """Returns pictures within -1..1, (N, height, width, 3) float32, of colours in 2x2 blocks."""
    count, height, width = values.shape[:3]
    colours = torch.tanh(values[..., :12].float() + bias).reshape(count, height, width, 2, 2, 3)
    # the network's own type in between, as the plain decoder rounds there too
    return colours.to(values.dtype).float().permute(0, 1, 3, 2, 4, 5).reshape(count, 2 * height, 2 * width, 3).contiguous()


def _levels(signed: torch.Tensor) -> torch.Tensor:
    return ((signed + 1.0) * 127.5).round().clamp(0.0, 255.0).to(torch.uint8).contiguous()


def _detailed_levels(small: torch.Tensor, changed: torch.Tensor, made: torch.Tensor, recorded: torch.Tensor, share: float) -> torch.Tensor:
    return _levels(pixels(drawn(small, changed, made, recorded, share)))


def _painted(values: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    return _levels(_signed(values, bias))
