"""Programs that answer as boxes do, well or badly, and descriptions of them."""

import sys
from pathlib import Path
from textwrap import dedent, indent

import numpy as np

from skidpad.core.units import AngleUnit
from skidpad.subjects.boxes.subject import BoxSubject
from skidpad.subjects.description import Box, Description, Format, Output, write_description
from skidpad.subjects.inputs import InputSpec, Layout, Range

WIDTH_PX, HEIGHT_PX = 200, 66
"""One picture is more than a pipe holds."""

LOOP = """
import json, os, struct, sys, time

def say(text):
    sys.stdout.write(text)
    sys.stdout.flush()

def reply(rows, ticket=None):
    say("skidpad-answer: " + json.dumps({"id": header["id"] if ticket is None else ticket, "answers": rows}) + "\\n")

# BEFORE
asked = 0
while True:
    line = sys.stdin.buffer.readline()
    if not line:
        break
    header = json.loads(line)
    count = header["shape"][0]
    size = 66 * 200 * 3
    means = []
    for _ in range(count):
        pixels = struct.unpack("<%df" % size, sys.stdin.buffer.read(4 * size))
        means.append(sum(pixels) / size)
    asked += 1
# BODY
"""
GOOD = "reply([[mean] for mean in means])"


def program(folder: Path, body: str = GOOD, before: str = "") -> Path:
    """Writes a program that does `before` at its start and `body` for each question, with `count`, `means` and `asked` at hand."""
    path = folder / "serve.py"
    path.write_text(LOOP.replace("# BEFORE", dedent(before)).replace("# BODY", indent(dedent(body), "    ")))
    return path


def described(box: Box, outputs: tuple[str, ...] = ("steering",)) -> Description:
    spec = InputSpec(WIDTH_PX, HEIGHT_PX, range=Range((-1.0,), (3.0,)), layout=Layout.NHWC)
    named = tuple(Output(name, AngleUnit.RAD if name == "steering" else None) for name in outputs)
    return Description("boxed", "", Format.BOX, spec, named, box=box)


def of_program(folder: Path, *, outputs: tuple[str, ...] = ("steering",), timeout_s: float = 60.0, restarts: int = 3) -> BoxSubject:
    box = Box(command=(sys.executable, "-S", "serve.py"), timeout_s=timeout_s, restarts=restarts)
    return BoxSubject(described(box, outputs), folder)


def write_toml(folder: Path, box: Box) -> Path:
    toml = folder / "boxed.toml"
    write_description(toml, described(box))
    return toml


def grey(*levels: int) -> np.ndarray:
    """One picture of one colour for each level, at the input's size, so that nothing is resized."""
    return np.stack([np.full((HEIGHT_PX, WIDTH_PX, 3), level, np.uint8) for level in levels])


def means(frames: np.ndarray) -> np.ndarray:
    """What a good program answers, (N, 1), computed here."""
    return (frames.reshape(len(frames), -1).mean(1) * 4.0 / 255.0 - 1.0)[:, np.newaxis]
