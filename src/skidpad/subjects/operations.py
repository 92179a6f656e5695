"""Which tensor operations are layers, and which belong to the layer before them."""

from enum import Enum


class Kind(Enum):
    """What a layer is; the value is the stem of its name."""

    CONV = "conv"
    DENSE = "dense"
    LSTM = "lstm"
    GRU = "gru"
    RNN = "rnn"


LAYERS = {
    **dict.fromkeys(("conv1d", "conv2d", "conv3d", "convolution", "_convolution", "mkldnn_convolution"), Kind.CONV),
    **dict.fromkeys(("conv_transpose1d", "conv_transpose2d", "conv_transpose3d", "cudnn_convolution"), Kind.CONV),
    **dict.fromkeys(("linear", "addmm", "mm", "matmul", "_addmm_activation"), Kind.DENSE),
}
PRODUCTS = frozenset(("mm", "matmul"))
"""Layers where the right operand is a matrix; with more axes it is a product of activations (attention)."""
ACTIVATIONS = frozenset(
    (
        "relu",
        "relu6",
        "elu",
        "leaky_relu",
        "prelu",
        "_prelu_kernel",
        "rrelu",
        "tanh",
        "sigmoid",
        "hardtanh",
        "hardsigmoid",
        "hardswish",
        "gelu",
        "silu",
        "mish",
        "selu",
        "celu",
        "softplus",
        "log_sigmoid",
        "threshold",
        "clamp",
        "clamp_min",
        "atan",
    )
)
NORMS = frozenset(
    (
        "batch_norm",
        "native_batch_norm",
        "cudnn_batch_norm",
        "miopen_batch_norm",
        "_batch_norm_impl_index",
        "_native_batch_norm_legit",
        "_native_batch_norm_legit_no_training",
    )
)
TRANSPARENT = frozenset(
    ("dropout", "feature_dropout", "alpha_dropout", "feature_alpha_dropout", "native_dropout", "detach", "alias", "contiguous", "clone")
)
RECURRENT = {"lstm": Kind.LSTM, "gru": Kind.GRU, "rnn_tanh": Kind.RNN, "rnn_relu": Kind.RNN}
"""A whole recurrence in one operation; its value is the hidden state after each step."""
CELLS = {"lstm_cell": Kind.LSTM, "gru_cell": Kind.GRU, "rnn_tanh_cell": Kind.RNN, "rnn_relu_cell": Kind.RNN}
"""One step of a recurrence; its value is the hidden state."""
