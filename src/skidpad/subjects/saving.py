"""Writing a network of the zoo as weights and description, side by side."""

from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path

from safetensors.torch import save
from torch import nn

from skidpad.core.errors import BadSubjectError
from skidpad.subjects.description import Description, Format
from skidpad.subjects.description_toml import write_description
from skidpad.subjects.writing import write_atomically

_SUFFIXES = (".safetensors", ".toml", ".training.json")


@dataclass(frozen=True, slots=True)
class SavedSubject:
    """Where a subject was written, and the hash of its weights file."""

    toml: Path
    weights: Path
    weights_sha256: str


def beside(out: Path, suffix: str) -> Path:
    """Returns OUT with a suffix put on; OUT may carry one of the three suffixes already."""
    for known in _SUFFIXES:
        if out.name.endswith(known) and out.name != known:
            out = out.with_name(out.name.removesuffix(known))
            break
    return out.with_name(out.name + suffix)


def save_subject(module: nn.Module, description: Description, out: Path) -> SavedSubject:
    """Writes OUT.safetensors and OUT.toml; the weights first, so that a description never stands alone."""
    if description.architecture is None:
        raise BadSubjectError(f"{description.name!r} is not of the zoo; only weights of a named architecture can be written")
    weights = beside(out, ".safetensors")
    data: bytes = save({name: tensor.detach().cpu().contiguous() for name, tensor in module.state_dict().items()})
    write_atomically(weights, data)
    toml = beside(out, ".toml")
    write_description(toml, replace(description, file=weights.name, format=Format.SAFETENSORS))
    return SavedSubject(toml, weights, sha256(data).hexdigest())
