"""Reading tensors out of torch's archives, and nothing but tensors."""

import pickle
import warnings
from io import BytesIO
from pathlib import Path

import torch

from skidpad.core.errors import BadSubjectError

WAY_OUT = (
    "where the network is at home, write safetensors.torch.save_file(model.state_dict(), 'model.safetensors') for a network "
    "of the zoo, or torch.export.save(torch.export.export(model.eval(), (example,)), 'model.pt2') for any other"
)


def read_weights(source: Path | BytesIO, where: str) -> object:
    """Reads what `torch.save` wrote onto the CPU; anything that would run code is refused, `where` names it in the error."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # an unusual pickle protocol is torch's worry, and then refused or not
            if isinstance(source, BytesIO):
                return torch.load(source, map_location="cpu", weights_only=True)
            with source.open("rb") as stream:  # given a path, torch goes by the suffix
                return torch.load(stream, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:
        raise BadSubjectError(f"{where} is a pickle that holds more than weights, and loading it would run code; {WAY_OUT}") from error
