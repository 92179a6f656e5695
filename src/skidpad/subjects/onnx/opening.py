"""Opening an ONNX file: read and checked before onnxruntime sees it.

What onnxruntime gets is not the file but a model written from what was understood of it: plain operations of ONNX's own
set, weights whose bytes are there and finite, no branches, no code of third parties. Other files are read only for weights
that lie in the model's own folder.
"""

from pathlib import Path

import numpy as np
import torch

from skidpad.core.errors import BadSubjectError
from skidpad.subjects.description import Description
from skidpad.subjects.network import usable_device
from skidpad.subjects.onnx.network import OnnxNetwork, Sessions
from skidpad.subjects.onnx.observing import observed_layers
from skidpad.subjects.onnx.reading import Model, read_model
from skidpad.subjects.onnx.sessions import CannotRunError, Session, check_device
from skidpad.subjects.onnx.writing import written_model
from skidpad.subjects.probe import NeuronUnit
from skidpad.subjects.shapes import check_shape, described_shape

_ELEMENT_TYPES: dict[int, type[np.generic]] = {1: np.float32, 2: np.uint8, 10: np.float16, 11: np.float64}

_LARGEST_BATCH = 256


def open_onnx(file: Path, description: Description, device: str, unit: NeuronUnit) -> OnnxNetwork:
    """Opens an ONNX file on `cpu` or `cuda`."""
    model = read_model(file)
    _check_input(file, model, description)
    place = usable_device(device)
    check_device(place)
    element_type = _ELEMENT_TYPES.get(model.input.element_type)
    if element_type is None:
        raise BadSubjectError(f"{file} takes numbers of ONNX's type {model.input.element_type}; export it with an input of 32-bit floats")
    try:
        any_batch = _takes_any_batch(model, description, place, element_type)
        layers = observed_layers(model)
        plain = written_model(model, any_batch=any_batch)
        asked = written_model(model, any_batch=any_batch, layers=layers, means=unit is NeuronUnit.FILTER)
        sessions = Sessions(
            Session(plain.data, place, model.input.name), Session(asked.data, place, model.input.name), model.outputs, asked.observed
        )
    except CannotRunError as error:
        raise BadSubjectError(f"{file} is no network that onnxruntime can run ({error}); export it again") from error
    piece = None if any_batch else _batch(model)
    return OnnxNetwork(sessions, layers, place, parameters=model.parameters, element_type=element_type, piece=piece)


def _check_input(file: Path, model: Model, description: Description) -> None:
    batch = _batch(model)
    if batch is not None and batch > _LARGEST_BATCH:
        raise BadSubjectError(f"{file} takes {batch} images at once; export it for one, or for any number up to {_LARGEST_BATCH}")
    check_shape(file, None if model.input.shape is None else model.input.shape[1:], description.input)


def _batch(model: Model) -> int | None:
    return model.input.shape[0] if model.input.shape else None


def _takes_any_batch(model: Model, description: Description, device: torch.device, element_type: type[np.generic]) -> bool:
    """Tells whether a model saved for a fixed number of images answers alike for twice as many at once."""
    batch = _batch(model)
    if batch is None:
        return True
    spec = description.input
    noise = torch.rand((2 * batch, *described_shape(spec)), generator=torch.Generator().manual_seed(0))
    low, high = min(*spec.range.low, *spec.range.high), max(*spec.range.low, *spec.range.high)
    inputs = (noise * (high - low) + low).to(device)
    fixed = Session(written_model(model, any_batch=False).data, device, model.input.name)
    apart = [fixed.run(part, model.outputs, element_type) for part in (inputs[:batch], inputs[batch:])]
    try:
        free = Session(written_model(model, any_batch=True).data, device, model.input.name)
        together = free.run(inputs, model.outputs, element_type)
    except CannotRunError:
        return False
    return all(
        np.ndim(one) > 0
        and one.shape == (2 * batch, *first.shape[1:])
        and np.allclose(one, np.concatenate((first, second)), rtol=1e-4, atol=1e-5, equal_nan=True)
        for one, first, second in zip(together, *apart, strict=True)
    )
