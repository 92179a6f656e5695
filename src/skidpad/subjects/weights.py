"""Reading tensors out of torch's archives, and nothing but tensors."""

import pickle
import warnings
import zipfile
from io import BytesIO
from pathlib import Path
from typing import BinaryIO

import torch

from skidpad.core.errors import BadSubjectError
from skidpad.subjects.archives import check_archive

WAY_OUT = (
    "where the network is at home, write safetensors.torch.save_file(model.state_dict(), 'model.safetensors') for a network "
    "of the zoo, or torch.export.save(torch.export.export(model.eval(), (example,)), 'model.pt2') for any other"
)


def read_weights(source: Path | BytesIO, where: str) -> object:
    """Reads what `torch.save` wrote onto the CPU; anything that would run code is refused, `where` names it in the error."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # an unusual pickle protocol is torch's worry, and then refused or not
            # older versions of torch run TorchScript in spite of weights_only, once they have warned
            warnings.filterwarnings("error", ".*TorchScript archive", UserWarning)
            if isinstance(source, BytesIO):
                return _load(source, where)
            with source.open("rb") as stream:  # given a path, torch goes by the suffix
                return _load(stream, where)
    except UserWarning as error:
        raise BadSubjectError(f"{where} is a TorchScript archive, and loading it would run code; {WAY_OUT}") from error
    except pickle.UnpicklingError as error:
        raise BadSubjectError(f"{where} is a pickle that holds more than weights, and loading it would run code; {WAY_OUT}") from error


def _load(stream: BinaryIO, where: str) -> object:
    if zipfile.is_zipfile(stream):
        with zipfile.ZipFile(stream) as archive:
            try:
                check_archive(archive)
            except BadSubjectError as error:
                raise BadSubjectError(f"{where}: {error}") from error
    stream.seek(0)
    return torch.load(stream, map_location="cpu", weights_only=True)
