"""Convolutions of one to three axes, plain, depthwise, separable and transposed; pooling and enlarging.

Reference: TensorFlow's definition of "same" padding, which Keras follows: ceil(input / stride) outputs, and the odd one of
the added rows comes after.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

import torch
from torch.nn import functional

from skidpad.core.errors import BadSubjectError
from skidpad.subjects.formats.keras.building import Call, layer
from skidpad.subjects.formats.keras.layers.activations import activation
from skidpad.subjects.formats.keras.plan import Applied, Value

_CONVOLVE: dict[int, Callable[..., torch.Tensor]] = {1: functional.conv1d, 2: functional.conv2d, 3: functional.conv3d}
_SPREAD: dict[int, Callable[..., torch.Tensor]] = {1: functional.conv_transpose1d, 2: functional.conv_transpose2d}


@dataclass(frozen=True, slots=True)
class Maps:
    """An input with channels and spatial axes, in the order that torch wants."""

    value: Value
    channels: int
    spatial: tuple[int, ...]
    channels_first: bool

    def shape(self, channels: int, spatial: Sequence[int]) -> tuple[int, ...]:
        """Returns the shape, in Keras's order, of maps like these."""
        return (channels, *spatial) if self.channels_first else (*spatial, channels)


def maps_of(call: Call, dims: int) -> Maps:
    """Returns the one input of a layer as maps."""
    first = call.settings.channels_first
    value = call.ranked(dims + 1, moved=not first)
    shape = value.shape
    return Maps(value, shape[0], shape[1:], first) if first else Maps(value, shape[-1], shape[:-1], first)


@dataclass(frozen=True, slots=True)
class Window:
    """How a kernel or a pool goes over an input."""

    size: tuple[int, ...]
    strides: tuple[int, ...]
    dilation: tuple[int, ...]
    padding: str

    def borders(self, spatial: Sequence[int]) -> tuple[tuple[int, int], ...]:
        """Returns what is added before and after each axis."""
        return tuple(self._border(*axis) for axis in zip(spatial, self.size, self.strides, self.dilation, strict=True))

    def _border(self, length: int, size: int, stride: int, dilation: int) -> tuple[int, int]:
        reach = (size - 1) * dilation
        if self.padding == "valid":
            return 0, 0
        if self.padding == "causal":
            return reach, 0
        missing = max((-(-length // stride) - 1) * stride + reach + 1 - length, 0)
        return missing // 2, missing - missing // 2

    def outputs(self, spatial: Sequence[int]) -> tuple[int, ...]:
        """Returns how often the window fits."""
        borders = self.borders(spatial)
        lengths = zip(spatial, borders, self.size, self.strides, self.dilation, strict=True)
        return tuple((n + sum(border) - (size - 1) * dilation - 1) // stride + 1 for n, border, size, stride, dilation in lengths)


def window_of(call: Call, dims: int, size: tuple[int, ...], strides: tuple[int, ...], dilation: tuple[int, ...]) -> Window:
    """Reads the padding of a window; Theano's "same" is another where it is not symmetric, and is refused."""
    options = ("valid", "same", "causal") if dims == 1 else ("valid", "same")
    padding = call.settings.choice(options, "padding", "border_mode", default="valid")
    if call.origin.theano and padding == "same" and (max(strides) > 1 or any(extent % 2 == 0 for extent in size)):
        raise BadSubjectError(f"layer {call.name!r} pads as Theano does, which cannot be told from the file; save it with TensorFlow")
    return Window(size, strides, dilation, padding)


def flat_borders(borders: Sequence[tuple[int, int]]) -> tuple[int, ...]:
    """Returns borders as torch's `pad` takes them: the last axis first."""
    return tuple(part for border in reversed(borders) for part in border)


def _padding(window: Window, spatial: Sequence[int]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Returns what `pad` adds beforehand where the two sides of an axis differ, and what the operation itself adds where they do not."""
    borders = window.borders(spatial)
    if all(before == after for before, after in borders):
        return (), tuple(before for before, _ in borders)
    return flat_borders(borders), (0,) * len(borders)


def _convolution(weight: torch.Tensor, bias: torch.Tensor | None, window: Window, spatial: Sequence[int], groups: int) -> Applied:
    """Pads where the two sides differ, and convolves."""
    pad, padding = _padding(window, spatial)
    convolve = _CONVOLVE[len(padding)]

    def run(value: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None) -> torch.Tensor:
        value = functional.pad(value, pad) if pad else value
        return convolve(value, weight, bias, window.strides, padding, window.dilation, groups)

    return Applied(run, weight, bias)


def _transposed(weight: torch.Tensor, bias: torch.Tensor | None, strides: tuple[int, ...], cuts: Sequence[tuple[int, int]]) -> Applied:
    """A transposed convolution, cut to the length that Keras gives it."""

    def run(value: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None) -> torch.Tensor:
        axes = zip(cuts, value.shape[2:], strides, weight.shape[2:], strict=True)
        extra = tuple(max(before + length - ((size - 1) * stride + kernel), 0) for (before, length), size, stride, kernel in axes)
        value = _SPREAD[len(strides)](value, weight, bias, strides, 0, extra)
        for axis, (before, length) in enumerate(cuts, 2):
            value = value.narrow(axis, before, length)
        return value

    return Applied(run, weight, bias)


def activated(call: Call, made: Value) -> Value:
    """Adds the activation that a layer names."""
    module = activation(call, made, "activation")
    return made if module is None else call.plan.add(f"{call.path}/activation", module, (made,), made)


def _kernel_size(call: Call, dims: int) -> tuple[int, ...]:
    settings, old = call.settings, {1: ("filter_length",), 2: ("nb_row", "nb_col"), 3: ("kernel_dim1", "kernel_dim2", "kernel_dim3")}[dims]
    if settings.find("kernel_size") is None and settings.find(*old) is not None:
        return tuple(settings.positive(key) for key in old)
    return settings.sizes(dims, "kernel_size")


def _window(call: Call, dims: int, *, strides: tuple[int, ...] | None = None) -> Window:
    settings = call.settings
    found = settings.sizes(dims, "strides", "subsample", "subsample_length", default=1)
    dilation = settings.sizes(dims, "dilation_rate", "atrous_rate", default=1)
    return window_of(call, dims, _kernel_size(call, dims), strides or found, dilation)


def with_bias(call: Call, *shapes: tuple[int, ...]) -> tuple[list[torch.Tensor], torch.Tensor | None]:
    """Reads a layer's weights, of which the last is a bias that it may lack."""
    if not call.settings.flag("use_bias", "bias", default=True):
        return call.tensors(*shapes[:-1]), None
    found = call.tensors(*shapes)
    return found[:-1], found[-1]


def _build_convolution(call: Call, dims: int) -> Value:
    maps, window, settings = maps_of(call, dims), _window(call, dims), call.settings
    filters, groups = settings.positive("filters", "nb_filter"), settings.positive("groups", default=1)
    if maps.channels % groups or filters % groups:
        raise settings.bad("groups", f"a divisor of {maps.channels} and {filters}", groups)
    inputs = maps.channels // groups
    stored = call.stored_shapes()[:1]
    if settings.find("dim_ordering") == "th" or (dims == 1 and stored == [(filters, inputs, *window.size, 1)]):
        shape, order = (filters, inputs, *window.size, *((1,) if dims == 1 else ())), None  # Keras 1: torch's own order
    elif dims == 1 and stored == [(*window.size, 1, inputs, filters)]:
        shape, order = (*window.size, 1, inputs, filters), (3, 2, 0, 1)
    else:
        shape, order = (*window.size, inputs, filters), (dims + 1, dims, *range(dims))
    (kernel,), bias = with_bias(call, shape, (filters,))
    kernel = (kernel if order is None else kernel.permute(order)).reshape(filters, inputs, *window.size)
    if call.origin.theano:
        kernel = kernel.flip(tuple(range(2, dims + 2)))
    module = _convolution(kernel, bias, window, maps.spatial, groups)
    return activated(call, call.add(module, maps.value, shape=maps.shape(filters, window.outputs(maps.spatial))))


def _depthwise_kernel(kernel: torch.Tensor) -> torch.Tensor:
    """From (size, channels, multiplier) to torch's (channels x multiplier, 1, size); outputs of one channel lie together."""
    dims = kernel.ndim - 2
    return kernel.permute(dims, dims + 1, *range(dims)).reshape(-1, 1, *kernel.shape[:dims])


def _build_depthwise(call: Call, dims: int) -> Value:
    maps, window = maps_of(call, dims), _window(call, dims)
    multiplier = call.settings.positive("depth_multiplier", default=1)
    filters = maps.channels * multiplier
    (kernel,), bias = with_bias(call, (*window.size, maps.channels, multiplier), (filters,))
    module = _convolution(_depthwise_kernel(kernel), bias, window, maps.spatial, maps.channels)
    return activated(call, call.add(module, maps.value, shape=maps.shape(filters, window.outputs(maps.spatial))))


def _build_separable(call: Call, dims: int) -> Value:
    maps, window = maps_of(call, dims), _window(call, dims)
    filters, multiplier = call.settings.positive("filters", "nb_filter"), call.settings.positive("depth_multiplier", default=1)
    between = maps.channels * multiplier
    (depth, point), bias = with_bias(call, (*window.size, maps.channels, multiplier), (*(1,) * dims, between, filters), (filters,))
    outputs = window.outputs(maps.spatial)
    first = _convolution(_depthwise_kernel(depth), None, window, maps.spatial, maps.channels)
    single = Window((1,) * dims, (1,) * dims, (1,) * dims, "valid")
    second = _convolution(point.permute(dims + 1, dims, *range(dims)), bias, single, outputs, 1)
    made = call.plan.add(f"{call.path}/depthwise", first, (maps.value,), replace(maps.value, shape=maps.shape(between, outputs)))
    return activated(call, call.add(second, made, shape=maps.shape(filters, outputs)))


def _build_transposed(call: Call, dims: int) -> Value:
    maps, window, settings = maps_of(call, dims), _window(call, dims), call.settings
    if max(window.dilation) > 1 or settings.find("output_padding") is not None:
        raise BadSubjectError(f"layer {call.name!r} is a transposed convolution with dilation or output_padding, which is not rebuilt")
    filters = settings.positive("filters", "nb_filter")
    (kernel,), bias = with_bias(call, (*window.size, filters, maps.channels), (filters,))
    over = [max(size - stride, 0) for size, stride in zip(window.size, window.strides, strict=True)]
    same = window.padding == "same"
    lengths = tuple(
        length * stride + (0 if same else more) for length, stride, more in zip(maps.spatial, window.strides, over, strict=True)
    )
    cuts = [(more // 2 if same else 0, length) for more, length in zip(over, lengths, strict=True)]
    module = _transposed(kernel.permute(dims + 1, dims, *range(dims)), bias, window.strides, cuts)
    return activated(call, call.add(module, maps.value, shape=maps.shape(filters, lengths)))


for _dims in (1, 2, 3):
    layer(f"Conv{_dims}D", f"Convolution{_dims}D")(partial(_build_convolution, dims=_dims))
layer("AtrousConvolution2D", "AtrousConv2D")(partial(_build_convolution, dims=2))
for _dims in (1, 2):
    layer(f"DepthwiseConv{_dims}D")(partial(_build_depthwise, dims=_dims))
    layer(f"SeparableConv{_dims}D", f"SeparableConvolution{_dims}D")(partial(_build_separable, dims=_dims))
    layer(f"Conv{_dims}DTranspose", f"Convolution{_dims}DTranspose")(partial(_build_transposed, dims=_dims))


_MAX: dict[int, Callable[..., torch.Tensor]] = {1: functional.max_pool1d, 2: functional.max_pool2d, 3: functional.max_pool3d}
_MEAN: dict[int, Callable[..., torch.Tensor]] = {1: functional.avg_pool1d, 2: functional.avg_pool2d, 3: functional.avg_pool3d}


def _pool(window: Window, spatial: Sequence[int], *, largest: bool) -> Applied:
    """The maximum or the mean of every window; what padding adds is never the maximum and does not count for the mean."""
    pad, padding = _padding(window, spatial)
    options = {} if largest else {"count_include_pad": False}
    pool = partial((_MAX if largest else _MEAN)[len(padding)], kernel_size=window.size, stride=window.strides, padding=padding, **options)
    share = pool(functional.pad(torch.ones(1, 1, *spatial), pad)) if pad and not largest else torch.ones(())

    def run(value: torch.Tensor, share: torch.Tensor) -> torch.Tensor:
        if not pad:
            return pool(value)
        pooled = pool(functional.pad(value, pad, value=float("-inf") if largest else 0.0))
        return pooled if largest else pooled / share

    return Applied(run, share, trained=False)


def _build_pool(call: Call, dims: int, *, largest: bool) -> Value:
    maps, settings = maps_of(call, dims), call.settings
    size = settings.sizes(dims, "pool_size", "pool_length", default=2)
    strides = settings.sizes(dims, "strides", "stride") if settings.find("strides", "stride") is not None else size
    window = window_of(call, dims, size, strides, (1,) * dims)
    shape = maps.shape(maps.channels, window.outputs(maps.spatial))
    return call.add(_pool(window, maps.spatial, largest=largest), maps.value, shape=shape)


def _build_whole_map(call: Call, dims: int, *, largest: bool) -> Value:
    maps, keep = maps_of(call, dims), call.settings.flag("keepdims", default=False)
    reduce, axes = torch.amax if largest else torch.mean, tuple(range(2, dims + 2))
    shape = maps.shape(maps.channels, (1,) * dims) if keep else (maps.channels,)
    made = call.add(Applied(lambda value: reduce(value, axes, keep)), maps.value, shape=shape)
    return made if keep else Value(made.slot, made.shape, times=made.times)


def _build_enlarged(call: Call, dims: int) -> Value:
    maps, settings = maps_of(call, dims), call.settings
    factors = settings.sizes(dims, "size", "length", default=2)
    mode = settings.choice(("nearest", "bilinear"), "interpolation", default="nearest")
    spatial = tuple(length * factor for length, factor in zip(maps.spatial, factors, strict=True))
    return call.add(
        Applied(lambda value: functional.interpolate(value, spatial, mode=mode)), maps.value, shape=maps.shape(maps.channels, spatial)
    )


for _dims in (1, 2, 3):
    for _name, _largest in (("Max", True), ("Average", False)):
        layer(f"{_name}Pooling{_dims}D")(partial(_build_pool, dims=_dims, largest=_largest))
        layer(f"Global{_name}Pooling{_dims}D")(partial(_build_whole_map, dims=_dims, largest=_largest))
    layer(f"UpSampling{_dims}D")(partial(_build_enlarged, dims=_dims))
