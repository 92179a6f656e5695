"""Small ONNX files made with the reference package, for tests of what is read, refused and run."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from skidpad.core.units import AngleUnit
from skidpad.subjects.description import Description, Format, Output
from skidpad.subjects.formats.onnx.network import open_onnx
from skidpad.subjects.inputs import Colour, InputSpec, Layout, Range
from skidpad.subjects.network_subject import Network
from skidpad.subjects.probe import NeuronUnit

SHAPE = (3, 8, 10)


def description(*names: str, layout: Layout = Layout.NCHW) -> Description:
    outputs = tuple(Output(name, AngleUnit.RAD if name == "steering" else None) for name in names or ("steering",))
    return Description("toy", "toy.onnx", Format.ONNX, InputSpec(10, 8, Colour.RGB, Range((-1.0,), (1.0,)), layout=layout), outputs)


def weights(seed: int = 0) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    shapes = {"kernel": (4, 3, 3, 3), "bias": (4,), "dense": (2, 4 * 6 * 8), "dense_bias": (2,)}
    return {name: rng.normal(0, 0.2, shape).astype(np.float32) for name, shape in shapes.items()}


NODES = (
    helper.make_node("Conv", ["input", "kernel", "bias"], ["maps"], kernel_shape=[3, 3]),
    helper.make_node("Relu", ["maps"], ["active"]),
    helper.make_node("Flatten", ["active"], ["flat"], axis=1),
    helper.make_node("Gemm", ["flat", "dense", "dense_bias"], ["both"], transB=1),
)


def model(
    nodes: Sequence[onnx.NodeProto] = NODES,
    outputs: Sequence[str] = ("both",),
    *,
    batch: int | str = "n",
    shape: tuple[int, ...] = SHAPE,
    tensors: dict[str, np.ndarray] | None = None,
    opset: int = 17,
    ir_version: int = 8,
) -> onnx.ModelProto:
    """A convolution, ReLU and a dense layer of two answers, or the nodes that are given."""
    given = helper.make_tensor_value_info("input", TensorProto.FLOAT, [batch, *shape])
    made = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs]
    values = weights() | (tensors or {})
    graph = helper.make_graph(
        list(nodes), "toy", [given], made, [numpy_helper.from_array(values[name], name) for name in values if _used(nodes, name)]
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=ir_version)


def _used(nodes: Sequence[onnx.NodeProto], name: str) -> bool:
    return any(name in node.input for node in nodes)


def write(made: onnx.ModelProto, folder: Path) -> Path:
    file = folder / "toy.onnx"
    file.write_bytes(made.SerializeToString())
    return file


def opened(made: onnx.ModelProto, folder: Path, *names: str, unit: NeuronUnit = NeuronUnit.FILTER) -> Network:
    return open_onnx(write(made, folder), description(*names or ("steering", "brake")), "cpu", unit)
