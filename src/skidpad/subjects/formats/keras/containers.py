"""What a Keras file holds: a config as JSON, weights as HDF5, in one file or two."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from mmap import ACCESS_READ, mmap
from pathlib import Path

from skidpad.core.errors import BadSubjectError
from skidpad.subjects.formats.archives import check_archive
from skidpad.subjects.formats.keras.building import Origin
from skidpad.subjects.formats.keras.hdf5 import Hdf5File, Node
from skidpad.subjects.formats.keras.settings import Settings, layer_settings
from skidpad.subjects.formats.keras.stored import LayerWeights, NamedFile, TreeWeights

_MAX_CONFIG_BYTES = 16 * 2**20
_MAX_WEIGHT_BYTES = 2**31
_ZIP = b"PK\x03\x04"
_HDF5 = b"\x89HDF"


@dataclass(frozen=True, slots=True)
class Contents:
    """A network as its file gives it."""

    model: Settings
    weights: LayerWeights
    origin: Origin


def read_contents(file: Path, weights: Path | None) -> Contents:
    """Reads the config, and finds the weights; what kind of file it is, its first bytes tell."""
    with file.open("rb") as stream:
        head = stream.read(8)
    if head.startswith(_ZIP):
        return _from_archive(file)
    if head.startswith(_HDF5):
        return _from_hdf5(_mapped(file))
    if file.suffix.lower() in {".h5", ".hdf5", ".keras"}:
        raise BadSubjectError(f"it is no Keras file: it begins with {head!r}; save the network with model.save")
    if file.stat().st_size > _MAX_CONFIG_BYTES:
        raise BadSubjectError(f"its config is larger than {_MAX_CONFIG_BYTES} bytes")
    config = _json(file.read_bytes())
    if not isinstance(config, Mapping) or "class_name" not in config:
        raise BadSubjectError("it is JSON, but not the config of a Keras network, which model.to_json gives")
    if weights is None:
        raise BadSubjectError(
            "it is the config of a Keras network, which has the layers without their weights; put the file that model.save_weights "
            'wrote beside it, and name that in the description, as weights = "model_weights.h5"'
        )
    root = _mapped(weights).root
    root = root.child("model_weights") or root  # a whole network, of model.save, in place of its weights
    version, backend = _text(config, "keras_version"), _text(config, "backend")
    attributes = root.attributes()
    version, backend = version or str(attributes.get("keras_version") or ""), backend or str(attributes.get("backend") or "")
    return _contents(config, _stored(root), version, backend)


def _from_archive(file: Path) -> Contents:
    with zipfile.ZipFile(file) as archive:
        check_archive(archive)
        config = _json(_member(archive, "config.json", _MAX_CONFIG_BYTES))
        metadata = _json(_member(archive, "metadata.json", _MAX_CONFIG_BYTES)) if "metadata.json" in archive.namelist() else {}
        weights = _member(archive, "model.weights.h5", _MAX_WEIGHT_BYTES)
    return _contents(config, TreeWeights(Hdf5File(weights).root), _text(metadata, "keras_version") or "3", "")


def _member(archive: zipfile.ZipFile, name: str, limit: int) -> bytes:
    try:
        info = archive.getinfo(name)
    except KeyError:
        raise BadSubjectError(f"its archive lacks {name!r}; save the network again with model.save") from None
    if info.file_size > limit:
        raise BadSubjectError(f"the part {name!r} of its archive grows to {info.file_size} bytes; at most {limit} are read")
    return archive.read(info)


def _from_hdf5(file: Hdf5File) -> Contents:
    attributes = file.root.attributes()
    stated = attributes.get("model_config")
    if not isinstance(stated, str):
        raise BadSubjectError(
            "it holds weights without a config; give the config as file and these as weights, or save the network with model.save"
        )
    config = _json(stated.encode())
    weights = file.root.child("model_weights")
    if weights is None:
        raise BadSubjectError("it lacks the group 'model_weights'; save the network again with model.save")
    inner = weights.attributes()
    version, backend = (str(attributes.get(key) or inner.get(key) or "") for key in ("keras_version", "backend"))
    return _contents(config, _stored(weights), version, backend)


def _stored(root: Node) -> LayerWeights:
    names = root.children()
    tree = "layers" in names or "_layer_checkpoint_dependencies" in names
    return TreeWeights(root) if tree and "layer_names" not in root.attributes() else NamedFile(root)


def _contents(config: object, weights: LayerWeights, version: str, backend: str) -> Contents:
    new = isinstance(config, Mapping) and "module" in config  # JSON of Keras 3 does not tell its version
    main = int(version[0]) if version[:1].isdecimal() else 3 if new else 1
    return Contents(layer_settings(config, "network"), weights, Origin(main, backend == "theano"))


def _mapped(file: Path) -> Hdf5File:
    if not file.is_file():
        raise BadSubjectError(f"there is no file {file}, where the description says the weights are")
    if file.stat().st_size < 96:
        raise BadSubjectError(f"{file.name} is no HDF5 file: it has {file.stat().st_size} bytes")
    with file.open("rb") as stream:
        return Hdf5File(mmap(stream.fileno(), 0, access=ACCESS_READ))


def _json(raw: bytes) -> object:
    try:
        found: object = json.loads(raw)
        if isinstance(found, str):  # json.dump(model.to_json()), as many driving networks of Keras 1 were saved
            found = json.loads(found)
    except ValueError as error:
        raise BadSubjectError(f"its config is no JSON ({error})") from error
    return found


def _text(config: object, key: str) -> str:
    found = config.get(key) if isinstance(config, Mapping) else None
    return found if isinstance(found, str) else ""
