"""ONNX files: read and checked here, run by onnxruntime."""

from skidpad.subjects.formats.onnx.network import open_onnx
from skidpad.subjects.formats.onnx.reading import weight_files

__all__ = ["open_onnx", "weight_files"]
