"""Loads mutated copies of model files, in a process of its own: `python mutating.py COUNT FOLDER/FILE ...`.

FOLDER holds FILE and seed.toml, which describes a subject; FILE is mutated, be it the description or a file that it names. Every
copy must load or end in one sentence, within bounds on time and memory; a traceback ends this program with code 1, and whatever is
worse with a signal.
"""

import io
import random
import re
import resource
import signal
import struct
import sys
import traceback
import warnings
import zipfile
from pathlib import Path

from skidpad.core.errors import SkidpadError
from skidpad.subjects.introspection import propose
from skidpad.subjects.loading import load_subject

MOST_S = 30
MOST_BYTES = 3 * 2**30
"""Beyond what Python and torch take by themselves."""
_TELLING = (0, 1, 0x7F, 0x80, 0xFF, 0xFFFF, 2**31 - 1, 2**31, 2**32 - 1, 2**40, 2**63 - 1, 2**64 - 1)


def mutated(data: bytes, rng: random.Random) -> bytes:
    """Returns the bytes with something wrong in them; an archive often as a whole one with a wrong part."""
    if zipfile.is_zipfile(io.BytesIO(data)) and rng.random() < 0.6:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            parts = [(name, archive.read(name)) for name in archive.namelist()]
        chosen = rng.randrange(len(parts))
        made = io.BytesIO()
        with zipfile.ZipFile(made, "w", rng.choice((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED))) as archive:
            for place, (name, part) in enumerate(parts):
                archive.writestr(name, _spoiled(part, rng) if place == chosen else part)
        return made.getvalue()
    return _spoiled(data, rng)


def _spoiled(data: bytes, rng: random.Random) -> bytes:
    for _ in range(rng.choice((1, 1, 2, 5))):
        data = rng.choice((_cut, _flip, _flip, _number, _number, _digits, _digits, _move))(data, rng)
    return data


def _place(data: bytes, rng: random.Random) -> int:
    """Headers and directories, at both ends, are hit as often as all the rest."""
    near = min(len(data), 3000)
    return rng.choice((rng.randrange(near), len(data) - 1 - rng.randrange(near), rng.randrange(len(data)))) if data else 0


def _cut(data: bytes, rng: random.Random) -> bytes:
    return data[: _place(data, rng)] if rng.random() < 0.3 else data


def _flip(data: bytes, rng: random.Random) -> bytes:
    changed = bytearray(data)
    for _ in range(rng.randrange(1, 12) if data else 0):
        changed[_place(data, rng)] = rng.randrange(256)
    return bytes(changed)


def _number(data: bytes, rng: random.Random) -> bytes:
    place, size = _place(data, rng), rng.choice((1, 2, 4, 8))
    value = rng.choice(_TELLING) % 2 ** (8 * size)
    return data[:place] + struct.pack("<Q", value)[:size] + data[place + size :]


def _digits(data: bytes, rng: random.Random) -> bytes:
    found = list(re.finditer(rb"-?\d+", data[:200_000]))
    if not found:
        return data
    one = rng.choice(found)
    return data[: one.start()] + rng.choice((b"-1", b"0", b"1e999", b"3", b"7", str(rng.choice(_TELLING)).encode())) + data[one.end() :]


def _move(data: bytes, rng: random.Random) -> bytes:
    start, to, size = _place(data, rng), _place(data, rng), rng.randrange(1, 64)
    return data[:to] + data[start : start + size] + data[to + rng.choice((0, size)) :]


def main() -> None:
    warnings.simplefilter("ignore")
    taken = int(re.search(r"VmSize:\s+(\d+)", Path("/proc/self/status").read_text())[1]) * 1024
    resource.setrlimit(resource.RLIMIT_AS, (taken + MOST_BYTES, taken + MOST_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    for file in map(Path, sys.argv[2:]):
        load_mutated(file.parent, file.name, int(sys.argv[1]))


def load_mutated(folder: Path, name: str, count: int) -> None:
    seed, toml = (folder / name).read_bytes(), folder / "seed.toml"
    loaded = 0
    for number in range(count):
        (folder / name).write_bytes(mutated(seed, random.Random(f"{name} {number}")))
        (folder / "number").write_text(str(number))
        signal.alarm(MOST_S)
        for look in (load_subject, propose) if name != toml.name and number % 4 == 0 else (load_subject,):
            try:
                look(toml if look is load_subject else folder / name)
                loaded += 1
            except SkidpadError:
                pass
            except BaseException:  # noqa: BLE001 - whatever it is, the parent says it
                print(f"mutation {number} of {name}, {look.__name__}:\n{traceback.format_exc()}", flush=True)  # noqa: T201 - for the parent
                sys.exit(1)
        signal.alarm(0)
    print(f"{name}: loaded {loaded}", flush=True)  # noqa: T201 - see above


if __name__ == "__main__":
    main()
