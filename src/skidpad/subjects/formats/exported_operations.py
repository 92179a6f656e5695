"""The operations of exported programs that are run: those of `aten` that compute tensors from tensors, and no others.

Left out is what writes files, prints, draws random numbers, looks at raw memory (`as_strided`, `set_`, `resize_`, `_unsafe_*`),
writes where an argument says (`out=`), or belongs to training. Some of the rest trust their arguments: torch checks the sizes in
the front door of an operation and not in its back door, and would read or write beyond a tensor. Those are looked at here first.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch

_MOST_NUMBERS = 2**28
"""The largest tensor that a program may make out of nothing: 1 GiB of float32."""

_ELEMENTWISE = """
    abs acos acosh add addcdiv addcmul asin asinh atan atan2 atanh bitwise_and bitwise_not bitwise_or bitwise_xor ceil celu clamp
    clamp_max clamp_min cos cosh div elu eq erf exp expm1 fill floor fmod ge gelu gt hardsigmoid hardswish hardtanh le leaky_relu lerp
    log log10 log1p log2 logical_and logical_not logical_or logical_xor lt masked_fill mish mul ne neg pow reciprocal relu relu6
    remainder round rrelu rsqrt selu sigmoid sign silu sin sinh softplus sqrt square sub tan tanh threshold trunc where zero
"""
_OTHERS = """
    _adaptive_avg_pool2d _adaptive_avg_pool3d _assert_scalar _assert_tensor_metadata _log_softmax _native_batch_norm_legit_no_training
    _prelu_kernel _softmax _to_copy adaptive_avg_pool1d adaptive_avg_pool2d adaptive_avg_pool3d adaptive_max_pool1d adaptive_max_pool2d
    addbmm addmm addmv alias all alpha_dropout amax amin any arange argmax argmin avg_pool1d avg_pool2d avg_pool3d baddbmm batch_norm bmm
    broadcast_to cat channel_shuffle chunk clone concat constant_pad_nd contiguous conv1d conv2d conv3d conv_transpose1d
    conv_transpose2d conv_transpose3d convolution cumsum detach detach_ diagonal dot dropout einsum embedding expand expand_as
    feature_alpha_dropout feature_dropout flatten flip full full_like gather glu group_norm gru gru_cell index index_select
    instance_norm isfinite isinf isnan layer_norm lift_fresh lift_fresh_copy linalg_vector_norm linear log_sigmoid log_softmax logsumexp
    lstm lstm_cell matmul max max_pool1d max_pool2d max_pool2d_with_indices max_pool3d max_pool3d_with_indices maximum mean min minimum
    mm movedim mv narrow native_dropout native_layer_norm new_full new_ones new_zeros norm numpy_T ones ones_like pad permute
    pixel_shuffle pixel_unshuffle prelu prod reflection_pad1d reflection_pad2d reflection_pad3d repeat replication_pad1d
    replication_pad2d replication_pad3d reshape rms_norm rnn_relu rnn_relu_cell rnn_tanh rnn_tanh_cell roll rsub scalar_tensor
    scaled_dot_product_attention select select_scatter slice slice_scatter softmax softsign split split_with_sizes squeeze stack std sum
    swapaxes sym_numel sym_size t tile to topk transpose tril triu type_as unbind unflatten unfold unsqueeze upsample_bicubic2d
    upsample_bilinear2d upsample_linear1d upsample_nearest1d upsample_nearest2d upsample_nearest3d upsample_trilinear3d var view
    view_as zeros zeros_like
"""
OPERATIONS = frozenset(_OTHERS.split()) | {name + tail for name in _ELEMENTWISE.split() for tail in ("", "_")}

_ARITHMETIC = frozenset(("add", "sub", "mul", "floordiv", "truediv", "mod", "neg", "eq", "ne", "lt", "le", "gt", "ge"))


def resolve(target: str) -> tuple[Callable[..., Any], frozenset[str]] | None:
    """Returns the operation that a graph names, and its keyword-only arguments; None where it is not run."""
    library, _, name = target.rpartition("torch.ops.aten.")
    if not library and name != target:
        packet, _, overload = name.partition(".")
        if packet not in OPERATIONS or not overload.isidentifier():
            return None
        found = getattr(getattr(torch.ops.aten, packet), overload, None)
        if not isinstance(found, torch._ops.OpOverload) or any(argument.is_out for argument in found._schema.arguments):  # noqa: SLF001 - the only place where torch keeps it
            return None
        names = [argument.name for argument in found._schema.arguments]  # noqa: SLF001 - see above
        keywords = frozenset(argument.name for argument in found._schema.arguments if argument.kwarg_only)  # noqa: SLF001 - see above
        checks = _CHECKS.get(packet, _check_size if "size" in names else None)
        return (found if checks is None else _checked(found, names, checks)), keywords
    module, _, name = target.partition(".")
    return (_arithmetic(name), frozenset()) if module == "_operator" and name in _ARITHMETIC else None


def _arithmetic(name: str) -> Callable[..., Any]:
    function = getattr(operator, name)

    def compute(*numbers: Any) -> Any:
        """Computes with sizes, which are numbers of 64 bits; Python's own would grow without end."""
        if not all(isinstance(number, int | float) for number in numbers):
            raise TypeError(f"{name} is for numbers")
        result = function(*numbers)
        if isinstance(result, int) and abs(result) >= 2**63:
            raise OverflowError(f"{name} gives a size beyond 64 bits")
        return result

    return compute


def _checked(call: Callable[..., Any], names: Sequence[str], check: Callable[[Mapping[str, Any]], bool]) -> Callable[..., Any]:
    def run(*positional: Any, **keywords: Any) -> Any:
        if not check(dict(zip(names, positional, strict=False)) | keywords):
            raise RuntimeError(f"the arguments of {call} do not fit together")
        return call(*positional, **keywords)

    return run


def _check_size(given: Mapping[str, Any]) -> bool:
    size = given.get("size")
    return not isinstance(size, list) or math.prod(abs(int(side)) for side in size) <= _MOST_NUMBERS


def _check_norm(given: Mapping[str, Any]) -> bool:
    channels = given["input"].shape[1]
    parts = (given.get(name) for name in ("weight", "bias", "running_mean", "running_var"))
    return all(part is None or tuple(part.shape) == (channels,) for part in parts)


def _check_scales(given: Mapping[str, Any]) -> bool:
    """Scales must be what brings the input's sides to the output's: they are used to find the pixels of the input."""
    values = given.get("input", given.get("self"))
    sides = list(values.shape[2:])
    scales = given.get("scale_factors") or [given.get(name) for name in ("scales", "scales_d", "scales_h", "scales_w") if name in given]
    wanted = given.get("output_size") or [None] * len(sides)
    scales = list(scales) or [None] * len(sides)
    if len(scales) != len(sides) or len(wanted) != len(sides):
        return False
    return all(
        scale is None or (1e-3 <= scale <= 1e3 and (out is None or abs(side * scale - out) <= 1.0))
        for side, scale, out in zip(sides, scales, wanted, strict=True)
    )


def _check_attention(given: Mapping[str, Any]) -> bool:
    query, key, value, mask = (given.get(name) for name in ("query", "key", "value", "attn_mask"))
    if query is None or key is None or value is None or given.get("enable_gqa"):
        return False
    fit = query.ndim >= 3 and query.shape[:-2] == key.shape[:-2] == value.shape[:-2]
    fit = fit and key.shape[-2] == value.shape[-2] and query.shape[-1] == key.shape[-1]
    scores = (*query.shape[:-1], key.shape[-2])
    return fit and (mask is None or np.broadcast_shapes(tuple(mask.shape), scores) == scores)


def _check_pad(given: Mapping[str, Any]) -> bool:
    """Only zeros can be cut off as well as added: other ways would look for pixels before the first."""
    is_constant = "pad" in given and given.get("mode", "constant") == "constant"
    return is_constant or all(part >= 0 for part in given.get("padding", given.get("pad")))


def _check_recurrence(gates: int) -> Callable[[Mapping[str, Any]], bool]:
    def check(given: Mapping[str, Any]) -> bool:
        if not isinstance(given.get("has_biases"), bool) or not isinstance(given["input"], torch.Tensor):
            return False  # a packed sequence
        values, weights, depth = given["input"], given["params"], given["num_layers"]
        states = given["hx"] if isinstance(given["hx"], list) else [given["hx"]]
        ways, each = 2 if given["bidirectional"] else 1, 4 if given["has_biases"] else 2
        hidden, batch = states[0].shape[-1], values.shape[0 if given["batch_first"] else 1]
        if values.ndim != 3 or any(tuple(state.shape) != (depth * ways, batch, hidden) for state in states):
            return False
        wanted: list[tuple[int, ...]] = []
        for number in range(depth * ways):
            taken = values.shape[-1] if number < ways else ways * hidden
            wanted += [(gates * hidden, taken), (gates * hidden, hidden), (gates * hidden,), (gates * hidden,)][:each]
        return [tuple(weight.shape) for weight in weights] == wanted

    return check


_CHECKS: Mapping[str, Callable[[Mapping[str, Any]], bool]] = {
    "_native_batch_norm_legit_no_training": _check_norm,
    "scaled_dot_product_attention": _check_attention,
    "lstm": _check_recurrence(4),
    "gru": _check_recurrence(3),
    **dict.fromkeys(("rnn_tanh", "rnn_relu"), _check_recurrence(1)),
    **{name: _check_scales for name in OPERATIONS if name.startswith("upsample_")},
    **{name: _check_pad for name in OPERATIONS if name.startswith(("reflection_pad", "replication_pad"))},
    "pad": _check_pad,
}
