"""The operations that are run: ONNX's own that compute tensors from tensors, and no others.

Left out are branches and loops (their bodies are graphs that nothing here looks into, and a loop need not end), random
numbers (the same frame must give the same answer), texts, sequences and pictures.
"""

from skidpad.subjects.operations import Kind

STANDARD_DOMAINS = frozenset(("", "ai.onnx"))

_OPERATIONS = """
    Abs Acos Acosh Add AffineGrid And ArgMax ArgMin Asin Asinh Atan Atanh Attention AveragePool BatchNormalization BitShift
    BitwiseAnd BitwiseNot BitwiseOr BitwiseXor BlackmanWindow Cast CastLike Ceil Celu CenterCropPad Clip Col2Im Compress Concat
    Constant ConstantOfShape Conv ConvInteger ConvTranspose Cos Cosh CumProd CumSum DFT DeformConv DepthToSpace DequantizeLinear
    Det Div Dropout DynamicQuantizeLinear Einsum Elu Equal Erf Exp Expand EyeLike Flatten Floor GRU Gather GatherElements GatherND
    Gelu Gemm GlobalAveragePool GlobalLpPool GlobalMaxPool Greater GreaterOrEqual GridSample GroupNormalization HammingWindow
    HannWindow HardSigmoid HardSwish Hardmax Identity InstanceNormalization IsInf IsNaN LRN LSTM LayerNormalization LeakyRelu Less
    LessOrEqual Log LogSoftmax LpNormalization LpPool MatMul MatMulInteger Max MaxPool MaxRoiPool MaxUnpool Mean
    MeanVarianceNormalization MelWeightMatrix Min Mish Mod Mul Neg NonMaxSuppression NonZero Not OneHot Or PRelu Pad Pow QLinearConv
    QLinearMatMul QuantizeLinear RMSNormalization RNN Range Reciprocal ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax
    ReduceMean ReduceMin ReduceProd ReduceSum ReduceSumSquare Relu Reshape Resize ReverseSequence RoiAlign RotaryEmbedding Round
    STFT Scatter ScatterElements ScatterND Selu Shape Shrink Sigmoid Sign Sin Sinh Size Slice Softmax Softplus Softsign SpaceToDepth
    Split Sqrt Squeeze Sub Sum Swish Tan Tanh TensorScatter ThresholdedRelu Tile TopK Transpose Trilu Unique Unsqueeze Upsample Where
    Xor
"""
OPERATIONS = frozenset(_OPERATIONS.split())

LAYERS = {
    **dict.fromkeys(("Conv", "ConvTranspose"), Kind.CONV),
    **dict.fromkeys(("Gemm", "MatMul"), Kind.DENSE),
    "LSTM": Kind.LSTM,
    "GRU": Kind.GRU,
    "RNN": Kind.RNN,
}
RECURRENT = frozenset((Kind.LSTM, Kind.GRU, Kind.RNN))

_ACTIVATIONS = """
    Atan Celu Clip Elu Gelu HardSigmoid HardSwish LeakyRelu Mish PRelu Relu Selu Sigmoid Softplus Swish Tanh ThresholdedRelu
"""
ACTIVATIONS = frozenset(_ACTIVATIONS.split())
"""The same functions as the probe of torch networks knows, under ONNX's names."""

ELEMENTWISE = frozenset(("Add", "Clip", "Div", "Erf", "HardSigmoid", "Mul", "Pow", "Sigmoid", "Softplus", "Sub", "Tanh"))
"""What the factor of a gated activation, x f(x), is made of: SiLU, Mish, GELU and hard swish in files older than these operations."""

TRANSPARENT = frozenset(("Dropout", "Identity"))
