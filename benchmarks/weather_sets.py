"""Makes the pictures that the bundled night learned from, of comma10k and of the built-in world; and those of a dusk and a rain like it.

    python benchmarks/weather_sets.py comma10k weather --out sets

comma10k: pictures with tags.csv. weather: a folder with comma_night, comma_dusk and comma_rain, the same pictures by tag. Half of the days
are as a camera of less range takes them (burnt skies, black woods), and half of those have shadows drawn on the road, since recorded
drives have both and comma10k has neither. Beside real nights, dusks and rain lie other days of it under the conditions `dusk` and `rain`.
The commands that learn from the folders stand in src/skidpad/stimuli/weather/pretrained/README.md (night) and docs/research/weather.md.
"""

from __future__ import annotations

import argparse
import csv
import shutil
import subprocess
import sys
from hashlib import sha256
from pathlib import Path

import numpy as np

from skidpad.core.images import NumpyFrames, decode, write_image
from skidpad.stimuli.registry import conditions_of

SEED = 5
BONNET = 0.25
"""Of the height, at the bottom, where comma10k shows its own car; the folders by tag are without it."""
DAYS, NIGHTS, RAINS, FOGS, DUSKS, GUIDE_DUSKS = 440, 220, 300, 180, 130, 50
RENDERED = {"clear": 200, "night": 110, "rain": 80, "dusk": 70}


def days_of(comma10k: Path) -> list[Path]:
    """Returns the plain day pictures, in the order of the table."""
    with (comma10k / "tags.csv").open() as table:
        rows = [row for row in csv.DictReader(table) if (row["light"], row["rain_or_wet"], row["odd_scene"]) == ("day", "0", "0")]
    files = [comma10k / "imgs" / f"{row['name']}.jpg" for row in rows]
    return [file for file in files if file.exists()]


def harsh(picture: NumpyFrames, rng: np.random.Generator) -> NumpyFrames:
    """Returns a picture as a camera of less range takes it."""
    light = np.clip((picture / 255.0) ** 2.2 * 2 ** rng.uniform(0.3, 1.5), 0, 1) ** (1 / 2.2)
    power = rng.uniform(1.15, 1.7)
    return np.asarray(np.clip(light**power * rng.uniform(1.0, 1.15) * rng.uniform(0.94, 1.06, 3), 0, 1) * 255, np.uint8)


def under(text: str, picture: NumpyFrames, number: int) -> NumpyFrames:
    """Returns a picture under a condition."""
    ((condition,), stimuli) = conditions_of((text,))
    return np.asarray(condition.recipe(stimuli, 3, number).apply(picture[None], stimuli)[0], np.uint8)


def write(file: Path, picture: NumpyFrames) -> None:
    """Writes a picture without the bonnet."""
    write_image(file, np.ascontiguousarray(picture[: int(len(picture) * (1 - BONNET))]))


def read(file: Path) -> NumpyFrames:
    """Reads a picture, which must be whole."""
    picture = decode(file.read_bytes())
    if picture is None:
        raise SystemExit(f"{file} is broken; restore it")
    return picture


def some_harsh(file: Path, number: int, rng: np.random.Generator) -> NumpyFrames:
    """Returns every second picture as a camera of less range takes it."""
    picture = read(file)
    return harsh(picture, rng) if number % 2 else picture


def divided(days: list[Path]) -> tuple[np.random.Generator, list[Path], list[Path]]:
    """Returns a generator, the days to learn from, and those of the computed pictures; the same ones each time."""
    rng = np.random.default_rng(SEED)
    order = rng.permutation(len(days))
    plain, others = ([days[place] for place in sorted(part)] for part in (order[:DAYS], order[DAYS:]))
    return rng, plain, others


def make_days_nights_and_rains(days: list[Path], out: Path) -> None:
    """Writes `day`, and the computed pictures of `night` and `rain`."""
    rng, plain, others = divided(days)
    for number, day in enumerate(plain):
        picture = read(day)
        if number % 4 == 1:
            picture = under(f"cast-shadows(share={rng.uniform(0.2, 0.6):.2f},seed={number})", picture, number)
        name = f"{day.stem}-harsh" if number % 2 else day.stem
        write(out / "day" / f"{name}.jpg", harsh(picture, rng) if number % 2 else picture)
    for number, day in enumerate(others[: NIGHTS + RAINS]):
        picture, name = some_harsh(day, number, rng), f"{day.stem}-computed.jpg"
        if number < NIGHTS:
            write(out / "night" / name, under(f"dusk(illuminance_lx={10 ** rng.uniform(-1.1, -0.3):.3f})", picture, number))
        else:
            rain = f"rain(mm_per_h={10 ** rng.uniform(0.9, 1.6):.1f},seed={number})"
            write(out / "rain" / name, under(f"{rain}+exposure(ev={rng.uniform(-1.0, -0.2):.2f})", picture, number))


def make_fogs(days: list[Path], out: Path) -> None:
    """Writes foggy pictures for a classifier that must tell rain from fog."""
    rng, _, others = divided(days)
    for number, day in enumerate(others[NIGHTS + RAINS :][:FOGS]):
        picture = some_harsh(day, number, rng)
        write(
            out / "fog" / f"{day.stem}.jpg",
            under(f"fog(visibility_m={10 ** rng.uniform(1.6, 2.4):.0f},seed={number})", picture, number),
        )


def make_dusks(days: list[Path], out: Path) -> None:
    """Writes the computed pictures of `dusk`, and some for a classifier."""
    rng, _, others = divided(days)
    for number, day in enumerate(others[NIGHTS + RAINS + FOGS :][: DUSKS + GUIDE_DUSKS]):
        picture = some_harsh(day, number, rng)
        folder, name = ("dusk", f"{day.stem}-computed.jpg") if number < DUSKS else ("dusk-computed", f"{day.stem}.jpg")
        write(out / folder / name, under(f"dusk(illuminance_lx={10 ** rng.uniform(0.5, 1.8):.1f})", picture, number))


def add(files: list[Path], folder: Path, times: int = 1) -> None:
    """Copies pictures, several times under several names."""
    folder.mkdir(parents=True, exist_ok=True)
    for file in files:
        for time in range(times):
            shutil.copy(file, folder / f"{file.stem}{f'-{time}' if time else ''}.jpg")


def is_neutral(file: Path, most: float) -> bool:
    """Says whether a night is no brighter than that, and neither orange nor blue."""
    red, green, blue = (read(file).reshape(-1, 3) + 2.0).mean(0)
    return bool((red + green + blue) / 3.0 < most and abs(np.log(red / blue)) < 0.25)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("comma10k", type=Path)
    parser.add_argument("weather", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    given = parser.parse_args()
    days, out = days_of(given.comma10k), given.out
    make_days_nights_and_rains(days, out)
    make_fogs(days, out)
    make_dusks(days, out)
    real = {name: sorted((given.weather / f"comma_{name}").glob("*.jpg")) for name in ("night", "dusk", "rain")}
    for name, times in (("night", 1), ("dusk", 3), ("rain", 4)):
        add(real[name], out / name, times)
    for name, count in RENDERED.items():
        command = (
            f"weather render --weather {name} --count {count} --size 320x160 --fov-deg 70 --quality 88 --out {out / 'rendered' / name}"
        )
        subprocess.run([sys.executable, "-m", "skidpad", *command.split()], check=True)
        add(sorted((out / "rendered" / name).glob("*.jpg")), out / ("day" if name == "clear" else name))
    most = 1.15 * float(np.median([(read(file) + 2.0).mean() for file in real["night"]]))
    add([file for file in real["night"] if is_neutral(file, most)], out / "night-looks")
    rains = sorted((out / "rain").glob("*-computed.jpg"))
    light = [float(read(file).mean()) for file in rains]
    add([file for file, mean in zip(rains, light, strict=True) if mean < np.median(light)], out / "rain-looks")
    add(sorted((out / "dusk").glob("*-computed.jpg")), out / "dusk-looks")
    add(rains, out / "rain-computed")
    for name, files in real.items():
        for file in files:  # cameras of the guide, and of a judge that the guide shares none with
            camera = file.name.split("_")[1]
            half = "guide" if int(sha256(camera.encode()).hexdigest(), 16) % 2 == 0 else "judge"
            add([file], out / f"{name}-{half}")
    print({folder.name: len(list(folder.glob("*.jpg"))) for folder in sorted(out.iterdir())})


if __name__ == "__main__":
    main()
