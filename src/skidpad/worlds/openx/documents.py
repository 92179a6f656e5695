"""Documents of the OpenX standards from strangers: XML within bounds and without entities, parameters, and their expressions.

Why not a library: defusedxml (25 kB) refuses what this refuses in three lines, and knows no bound; scenariogeneration reads what it has
written, and half of the public files not at all.

Public collections of such files are fetched from where their authors publish them, and kept only if nothing of them has changed.
"""

from __future__ import annotations

import ast
import operator
import tarfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from hashlib import sha256
from io import BytesIO
from math import acos, asin, atan, ceil, copysign, cos, e, floor, isfinite, pi, sin, sqrt, tan
from pathlib import Path, PurePosixPath
from xml.etree.ElementTree import Element, ParseError, TreeBuilder, XMLParser

from skidpad.core.errors import SkidpadError
from skidpad.core.files import write_atomically
from skidpad.core.registry import Registry
from skidpad.drives.downloads import fetch_bytes
from skidpad.worlds.scenario.scenario import BadScenarioError

MAX_BYTES = 4 << 20
MAX_DEPTH = 100
MAX_EXPRESSION = 2000
SUFFIXES = frozenset({".xosc", ".xodr"})


def read_document(path: Path) -> Element:
    """Reads an XML document; `<!DOCTYPE` and `<!ENTITY`, more than MAX_BYTES and elements deeper than MAX_DEPTH are refused."""
    if path.suffix not in SUFFIXES:
        raise BadScenarioError(f"it refers to {path.name!r}, which ends in neither .xosc nor .xodr")
    try:
        with path.open("rb") as file:
            content = file.read(MAX_BYTES + 1)
        text = content.decode("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise BadScenarioError(f"cannot read {path.name!r}: {error}") from error
    if len(content) > MAX_BYTES:
        raise BadScenarioError(f"{path.name!r} has more than {MAX_BYTES >> 20} MiB, more than any scenario or road needs")
    if "<!DOCTYPE" in text or "<!ENTITY" in text:
        raise BadScenarioError(f"{path.name!r} declares a document type or entities, which no file of these standards has")
    return _parsed(text, path.name)


class _Bounded(TreeBuilder):
    """Builds a tree that is not too deep."""

    def __init__(self) -> None:
        super().__init__()
        self._depth = 0

    def start(self, tag: str, attrs: dict[str, str], /) -> Element:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise BadScenarioError(f"it nests elements deeper than {MAX_DEPTH}")
        return super().start(tag, attrs)

    def end(self, tag: str, /) -> Element:
        self._depth -= 1
        return super().end(tag)


def _parsed(text: str, name: str) -> Element:
    parser = XMLParser(target=_Bounded())  # noqa: S314 - bounded, and without entities
    try:
        parser.feed(text)
        root: Element = parser.close()
    except ParseError as error:
        raise BadScenarioError(f"{name!r} is not XML: {error}") from error
    return root


def beside(path: Path, told: str) -> Path:
    """Returns the file or folder that a document names, from where the document is; addresses and absolute paths are refused."""
    if not told or "://" in told or Path(told).is_absolute() or ":" in told or "\\" in told:
        raise BadScenarioError(f"it refers to {told!r}; name files by their way from the scenario's own")
    return path.parent / told


_OPERATORS: Mapping[type[ast.AST], Callable[..., float]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.Mod: operator.mod,
    ast.USub: operator.neg,
    ast.UAdd: operator.pos,
    ast.Not: operator.not_,
}
_FUNCTIONS: Mapping[str, Callable[..., float]] = {
    "abs": abs,
    "acos": acos,
    "asin": asin,
    "atan": atan,
    "cos": cos,
    "sin": sin,
    "tan": tan,
    "ceil": ceil,
    "floor": floor,
    "max": max,
    "min": min,
    "pow": pow,
    "round": round,
    "sign": lambda value: copysign(1.0, value) if value else 0.0,
    "sqrt": sqrt,
}
_CONSTANTS = {"pi": pi, "e": e}


@dataclass(frozen=True, slots=True)
class Parameters:
    """The parameters of a scenario by name, as texts; declared ones, or what a variation says instead."""

    values: Mapping[str, str]

    @classmethod
    def declared(cls, root: Element, told: Mapping[str, str]) -> Parameters:
        """Reads the declarations, each of which may use those before it. told: values that replace the declared ones."""
        values: dict[str, str] = {}
        for each in root.iterfind("ParameterDeclarations/ParameterDeclaration"):
            name = each.get("name", "")
            values[name] = told.get(name) or cls(values).text(each, "value")
        return cls(values)

    def text(self, element: Element | None, key: str, default: str | None = None) -> str:
        """Returns an attribute with its parameter or expression worked out."""
        told = None if element is None else element.get(key)
        if told is None:
            if default is None:
                raise BadScenarioError(f"a <{'?' if element is None else element.tag}> lacks {key!r}")
            return default
        if told.startswith("${") and told.endswith("}"):
            return repr(self._worked_out(told[2:-1]))
        return self._value(told[1:]) if told.startswith("$") else told

    def number(self, element: Element | None, key: str, default: float | None = None) -> float:
        """Returns an attribute as a finite number."""
        told = self.text(element, key, None if default is None else repr(default))
        try:
            value = float(told)
        except ValueError:
            value = float("nan")
        if not isfinite(value):
            raise BadScenarioError(f"{key!r} of a <{element.tag if element is not None else '?'}> must be a finite number; got {told!r}")
        return value

    def _value(self, name: str) -> str:
        if name not in self.values:
            raise BadScenarioError(f"the parameter ${name} is used, but not declared before")
        return self.values[name]

    def _worked_out(self, expression: str) -> float:
        if len(expression) > MAX_EXPRESSION:
            raise BadScenarioError(f"an expression of it is longer than {MAX_EXPRESSION} characters")
        try:
            return self._node(ast.parse(expression.replace("$", "_p_").strip(), mode="eval").body)
        except (ValueError, SyntaxError, ArithmeticError, TypeError, RecursionError, MemoryError) as error:
            raise BadScenarioError(f"cannot work out the expression {expression[:100]!r}: {error}") from error

    def _node(self, node: ast.AST) -> float:  # noqa: PLR0911 - one for each kind of node
        match node:
            case ast.Constant(value=int() | float() as value):
                return float(value)
            case ast.Name(id=name) if name.startswith("_p_"):
                told = self._value(name.removeprefix("_p_"))
                return float({"true": "1", "false": "0"}.get(told, told))
            case ast.Name(id=name) if name in _CONSTANTS:
                return _CONSTANTS[name]
            case ast.BinOp(left=left, op=op, right=right) if type(op) in _OPERATORS:
                return float(_OPERATORS[type(op)](self._node(left), self._node(right)))
            case ast.UnaryOp(op=op, operand=operand) if type(op) in _OPERATORS:
                return float(_OPERATORS[type(op)](self._node(operand)))
            case ast.BoolOp(op=op, values=values):
                truths = [bool(self._node(each)) for each in values]
                return float(all(truths) if isinstance(op, ast.And) else any(truths))
            case ast.Call(func=ast.Name(id=name), args=args, keywords=[]) if name in _FUNCTIONS:
                return float(_FUNCTIONS[name](*(self._node(each) for each in args)))
        raise ValueError("it uses what expressions of OpenSCENARIO do not have")


@dataclass(frozen=True, slots=True)
class Catalogs:
    """The catalogs that a scenario names: entries by the names of the catalog and the entry."""

    entries: Mapping[tuple[str, str], Element]

    @classmethod
    def of(cls, root: Element, path: Path, parameters: Parameters) -> Catalogs:
        """Reads every catalog of the folders that the scenario names."""
        entries: dict[tuple[str, str], Element] = {}
        for directory in root.iterfind("CatalogLocations/*/Directory"):
            folder = beside(path, parameters.text(directory, "path"))
            for file in sorted(folder.glob("*.xosc")) if folder.is_dir() else ():
                for catalog in read_document(file).iterfind("Catalog"):
                    entries |= {(catalog.get("name", ""), each.get("name", "")): each for each in catalog}
        return cls(entries)

    def found(self, element: Element, parameters: Parameters) -> Element:
        """Returns what a `CatalogReference` refers to."""
        names = parameters.text(element, "catalogName"), parameters.text(element, "entryName")
        if names not in self.entries:
            raise BadScenarioError(f"the catalog {names[0]!r} has no entry {names[1]!r} among the files beside the scenario")
        return self.entries[names]


def children(element: Element | None) -> Iterator[Element]:
    """Goes through the elements inside one, if there is one."""
    yield from () if element is None else element


_MAX_BYTES = 64 << 20
_KEPT = (".xosc", ".xodr", "LICENSE", "README.md")


@dataclass(frozen=True, slots=True)
class Collection:
    """Scenarios at one commit of a public repository. sha256: of the files that are kept, by name and content (`content_sha256`)."""

    about: str
    address: str
    sha256: str
    scenarios: str
    """The folder that holds scenarios to play."""


COLLECTIONS: Registry[Collection] = Registry("collection of scenarios", "collections", ("skidpad.worlds.openx.documents",))

COLLECTIONS.register("alks")(
    Collection(
        "UN R157's tests of automated lane keeping systems, by BMW and ASAM (MPL-2.0)",
        "https://codeload.github.com/asam-oss/OSC-ALKS-scenarios/tar.gz/de21f223672ea5e426d5d113e0b3645b4b33e72f",
        "a6e694a31a7eab60561b77be6a57187fa06a4b71b1753714321da865a76624f4",
        "logical_scenarios/concrete_scenarios",
    )
)
COLLECTIONS.register("ncap")(
    Collection(
        "Euro NCAP's tests of collision avoidance, by Vector (MPL-2.0)",
        "https://codeload.github.com/vectorgrp/OSC-NCAP-scenarios/tar.gz/ee7aa111386a47ada64b001338e688d9134a83b0",
        "24a96de8e32362106a5886c6951e2eae081585a4075b56eff6d1a7dc5257ec98",
        "OpenSCENARIO/NCAP/AEB_C2C_2023/Variations",
    )
)


def content_sha256(files: Mapping[str, bytes]) -> str:
    """Returns the hash of files by their names and contents, whatever archive they came in."""
    told = "".join(f"{name}\0{sha256(files[name]).hexdigest()}\n" for name in sorted(files))
    return sha256(told.encode()).hexdigest()


def fetch(collection: Collection, out: Path, address: str = "") -> list[Path]:
    """Fetches a collection into a new or empty folder; nothing is written unless everything is as it was. address: another place."""
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise SkidpadError(f"{str(out)!r} is in use; name an empty or a new folder to fetch the scenarios to")
    where = address or collection.address
    files = _unpacked(fetch_bytes(where, _MAX_BYTES), where)
    found = content_sha256(files)
    if found != collection.sha256:
        raise SkidpadError(f"what came from {where} is not what it was: its SHA-256 is {found}, and should be {collection.sha256}")
    paths = [out / name for name in sorted(files)]
    for path, name in zip(paths, sorted(files), strict=True):
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, files[name])
    return paths


def _unpacked(content: bytes, where: str) -> dict[str, bytes]:
    """Returns the files of a packed repository that are kept, without the folder around them."""
    files: dict[str, bytes] = {}
    total = 0
    try:
        with tarfile.open(fileobj=BytesIO(content), mode="r:gz") as archive:
            for member in archive:
                total += member.size
                if total > _MAX_BYTES:
                    raise SkidpadError(f"what came from {where} grows to more than {_MAX_BYTES >> 20} MiB")
                name = PurePosixPath(*PurePosixPath(member.name).parts[1:])
                if not member.isreg() or ".." in name.parts or name.is_absolute() or not name.name.endswith(_KEPT):
                    continue
                file = archive.extractfile(member)
                files[str(name)] = b"" if file is None else file.read()
    except (tarfile.TarError, OSError, EOFError) as error:
        raise SkidpadError(f"what came from {where} is no packed repository: {error}") from error
    return files
