"""One torch network written as a file of every format that holds a whole network; a new format is one more writer here."""

import warnings
from collections.abc import Callable, Mapping
from pathlib import Path

import torch
from torch import nn

from skidpad.subjects.description import Format

Writer = Callable[[nn.Module, tuple[int, ...], Path], Path]


def write_torchscript(net: nn.Module, shape: tuple[int, ...], folder: Path) -> Path:
    """Writes `net`, which takes inputs of `shape` without the batch, and returns the file."""
    file = folder / "net.ts"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.jit.save(torch.jit.trace(net, torch.zeros(2, *shape)), file)
    return file


def write_export(net: nn.Module, shape: tuple[int, ...], folder: Path) -> Path:
    file = folder / "net.pt2"
    shapes = ({0: torch.export.Dim("batch", min=1, max=512)},)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.export.save(torch.export.export(net, (torch.zeros(2, *shape),), dynamic_shapes=shapes), file)
    return file


def write_onnx(net: nn.Module, shape: tuple[int, ...], folder: Path, *, batch: int | None = None, opset: int = 17) -> Path:
    """Writes an ONNX file for any number of images, or for `batch` alone.

    The exporter rounds `-size // 2` towards zero, so networks that pad by such sums (DroNet of the zoo) come out wrong.
    """
    file = folder / "net.onnx"
    free = {"input": {0: "batch"}} if batch is None else None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the exporter that needs no further package is deprecated
        torch.onnx.export(
            net, (torch.zeros(batch or 2, *shape),), str(file), dynamo=False, opset_version=opset, input_names=["input"], dynamic_axes=free
        )
    return file


WRITERS: Mapping[Format, Writer] = {
    Format.TORCHSCRIPT: write_torchscript,
    Format.EXPORT: write_export,
    Format.ONNX: write_onnx,
}
