"""ONNX files: read and checked here, run by onnxruntime."""
