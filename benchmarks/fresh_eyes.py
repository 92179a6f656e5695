"""Writes numbered pictures in random order for a viewer who is told nothing, and counts what the viewer calls them.

    python benchmarks/fresh_eyes.py sheets FOLDER --from udacity-ch2-test rain=weather:rain recorded=original real-rain=@comma_rain:12
    python benchmarks/fresh_eyes.py count FOLDER answers.jsonl

`sheets` writes FOLDER/sheet-01.png and so on, nine pictures each, and FOLDER-key.json beside the folder, which the viewer must not see.
NAME=STIMULUS shows frames from the parts of the drive that realism holds out, other ones for each name; NAME=@PICTURES:COUNT shows pictures
of a folder. All are cropped to one shape and stored as JPEG once, so that neither tells them apart. An answer is a line of JSON: {"n": 1,
"light_weather": "rain", "photo": "yes", "almost" or "no"}; whatever else it holds is not counted.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from pathlib import Path

import cv2
import numpy as np

from skidpad.core.images import NumpyFrames, decode, encode, write_image
from skidpad.drives import open_drive
from skidpad.stimuli.registry import conditions_of
from skidpad.stimuli.weather.classifier import held_out

SIZE = 400, 250
A_SHEET, A_ROW = 9, 3


def of_drive(text: str, drive_text: str, count: int, rng: np.random.Generator) -> list[NumpyFrames]:
    """Returns held-out frames under stimuli; a weather's style is drawn from its grid."""
    drive = open_drive(drive_text)
    places = np.flatnonzero(held_out(len(drive)))
    chosen = places[(np.arange(count) / count * len(places) + rng.uniform(0, len(places) / count)).astype(int)].tolist()
    frames = [frame for batch in drive.select(chosen).batches(64) for frame in batch.frames]
    ((condition,), stimuli) = conditions_of((text,))
    seed = int(rng.integers(1 << 30))
    return [
        np.asarray(condition.recipe(stimuli, seed, place).apply(frame[None], stimuli)[0], np.uint8) for place, frame in enumerate(frames)
    ]


def of_folder(text: str, rng: np.random.Generator) -> list[NumpyFrames]:
    """Returns some pictures of a folder, drawn at random."""
    folder, _, count = text.rpartition(":")
    files = sorted(Path(folder).glob("*.jpg"))
    found = [decode(files[place].read_bytes()) for place in rng.permutation(len(files))[: int(count)]]
    return [picture for picture in found if picture is not None]


def shaped(picture: NumpyFrames) -> NumpyFrames:
    """Crops the middle to the shape of all, and stores it as JPEG."""
    height, width = picture.shape[:2]
    high, wide = min(height, round(width * SIZE[1] / SIZE[0])), min(width, round(height * SIZE[0] / SIZE[1]))
    top, left = (height - high) // 2, (width - wide) // 2
    whole = decode(encode(cv2.resize(picture[top : top + high, left : left + wide], SIZE, interpolation=cv2.INTER_AREA), ".jpg"))
    return np.zeros((SIZE[1], SIZE[0], 3), np.uint8) if whole is None else whole


def numbered(picture: NumpyFrames, number: int) -> NumpyFrames:
    """Writes the number above a picture."""
    framed = cv2.copyMakeBorder(picture, 24, 4, 4, 4, cv2.BORDER_CONSTANT, value=(255, 255, 255))
    return np.asarray(cv2.putText(framed, str(number), (6, 18), cv2.FONT_HERSHEY_SIMPLEX, 0.6, (0, 0, 0), 2), np.uint8)


def sheets(given: argparse.Namespace) -> None:
    rng = np.random.default_rng(given.seed)
    cells: list[tuple[str, NumpyFrames]] = []
    for text in given.shown:
        name, _, what = text.partition("=")
        found = of_folder(what[1:], rng) if what.startswith("@") else of_drive(what, given.drive, given.scenes, rng)
        cells += [(name, picture) for picture in found]
    order = rng.permutation(len(cells)).tolist()
    for start in range(0, len(order), A_SHEET):
        made = [numbered(shaped(cells[place][1]), start + number + 1) for number, place in enumerate(order[start : start + A_SHEET])]
        made += [np.full_like(made[0], 255)] * (-len(made) % A_ROW)
        rows = [np.concatenate(made[first : first + A_ROW], 1) for first in range(0, len(made), A_ROW)]
        write_image(given.folder / f"sheet-{start // A_SHEET + 1:02}.png", np.concatenate(rows))
    key_file(given.folder).write_text(json.dumps({number + 1: cells[place][0] for number, place in enumerate(order)}))
    print(f"{len(order)} pictures on {-(-len(order) // A_SHEET)} sheets")


def key_file(folder: Path) -> Path:
    return folder.with_name(f"{folder.name}-key.json")


def count(given: argparse.Namespace) -> None:
    key = json.loads(key_file(given.folder).read_text())
    said: dict[str, list[dict[str, str]]] = {}
    for line in given.answers.read_text().splitlines():
        if line.strip():
            answer = json.loads(line)
            said.setdefault(key[str(answer["n"])], []).append(answer)
    for name, answers in sorted(said.items()):
        counts = [Counter(answer[part] for answer in answers).most_common() for part in ("light_weather", "photo")]
        named, photo = (", ".join(f"{word} {times}" for word, times in each) for each in counts)
        print(f"{name:14}{len(answers):4}  {named}; a photograph: {photo}")
    print(json.dumps({name: len(answers) for name, answers in said.items()}))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parts = parser.add_subparsers(required=True)
    writing = parts.add_parser("sheets")
    writing.add_argument("folder", type=Path)
    writing.add_argument("shown", nargs="+", help="NAME=STIMULUS or NAME=@PICTURES:COUNT")
    writing.add_argument("--from", dest="drive", required=True)
    writing.add_argument("--scenes", type=int, default=16)
    writing.add_argument("--seed", type=int, default=0)
    writing.set_defaults(work=sheets)
    counting = parts.add_parser("count")
    counting.add_argument("folder", type=Path)
    counting.add_argument("answers", type=Path)
    counting.set_defaults(work=count)
    given = parser.parse_args()
    given.work(given)


if __name__ == "__main__":
    main()
