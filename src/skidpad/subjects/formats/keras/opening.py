"""From a Keras file to a torch module, without TensorFlow, without Keras, and without any code from the file.

What a file names is looked up in skidpad's own table of layers and nowhere else: nothing is imported, nothing unmarshalled.
"""

from __future__ import annotations

import struct
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from torch import nn

from skidpad.core.errors import BadSubjectError
from skidpad.subjects.description import Description
from skidpad.subjects.formats.keras.building import MODELS
from skidpad.subjects.formats.keras.containers import read_contents
from skidpad.subjects.formats.keras.rebuilding import Rebuilder, stated_shape
from skidpad.subjects.shapes import check_shape, described_shape

BROKEN = (
    OSError,
    RuntimeError,
    ValueError,
    KeyError,
    IndexError,
    TypeError,
    AttributeError,
    EOFError,
    OverflowError,
    MemoryError,
    struct.error,
    zlib.error,
    zipfile.BadZipFile,
)
"""What reading a damaged file may raise; RecursionError and NotImplementedError are RuntimeErrors."""


def open_keras(file: Path, description: Description) -> nn.Module:
    """Rebuilds the network of a `.keras`, an `.h5`, or a JSON config with a file of weights.

    Inputs are (N, *shape) in the file's own order of axes, which must be what [input] describes; answers come in the order of
    the file's outputs, each (N, ...) in Keras's order.
    """
    with readable(file, description.weights):
        return _rebuilt(file, description)


@contextmanager
def readable(file: Path, weights: str | None) -> Iterator[None]:
    """Says of which file, or pair of files, what goes wrong while they are read."""
    where = f"{file} with the weights {weights}" if weights else str(file)
    try:
        yield
    except BadSubjectError as error:
        raise BadSubjectError(f"{where}: {error}") from error
    except BROKEN as error:
        reason = (str(error).splitlines() or [""])[0][:120]
        raise BadSubjectError(f"{where} is no whole Keras file ({reason or type(error).__name__}); copy or save it again") from error


def _rebuilt(file: Path, description: Description) -> nn.Module:
    weights = _folder(file, description) / description.weights if description.weights else None
    contents = read_contents(file, weights)
    if contents.model.class_name not in MODELS:
        raise BadSubjectError(
            f"its network is of class {contents.model.class_name!r}, whose code is not in the file; save a Sequential or functional model"
        )
    check_shape(Path("the network"), stated_shape(contents.model), description.input)
    rebuilder = Rebuilder(contents.origin, dict(description.lambdas))
    return rebuilder.network(contents.model, contents.weights, described_shape(description.input))


def _folder(file: Path, description: Description) -> Path:
    """The folder of the description, which its paths are relative to."""
    within = Path(description.file)
    parts = len(within.parts)
    if within.is_absolute() or file.parts[-parts:] != within.parts:
        return file.parent
    return file.parents[parts - 1]
