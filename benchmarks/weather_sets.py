"""Makes the pictures that the bundled weathers learned from, of comma10k and of the built-in world, and those of a drive's own weathers.

    python benchmarks/weather_sets.py comma10k weather --out sets [--drive udacity-ch2-test]

comma10k: pictures with tags.csv. weather: a folder with comma_night, comma_dusk and comma_rain, the same pictures by tag. Half of the days
are as a camera of less range takes them (burnt skies, black woods), and half of those have shadows drawn on the road, since recorded
drives have both and comma10k has neither. Beside real nights, dusks and rain lie other days of it under the conditions `dusk` and `rain`;
in `soft-dusk` and `soft-rain` those days whose road lies in even light, so that what is learned has no hard shadows.

--drive: also writes `drive/day`, `night`, `snow`, `wet` and `fog`, the pictures from which weathers for that drive are learned: its own
frames but those that realism holds out, and nine of ten pictures of the folders comma_night, snow_day, wet_japan and fog beside
comma_night, with every second one of `wet`, and frames of the drive under the conditions `dusk` and `fog` among nights and fogs;
`snow-looks` are the darker half of the snow, since glare hides the road. `guide` and `judge` have every second real picture each, by class,
for the classifier that a weather learns from and the one that judges it.

The commands that learn from the folders stand in src/skidpad/stimuli/weather/pretrained/README.md, docs/weather.md and
docs/research/weather.md.
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
from skidpad.drives import open_drive
from skidpad.stimuli.registry import conditions_of
from skidpad.stimuli.weather.classifier import held_out

SEED = 5
BONNET = 0.25
"""Of the height, at the bottom, where comma10k shows its own car; the folders by tag are without it."""
DAYS, NIGHTS, RAINS, FOGS, DUSKS, GUIDE_DUSKS = 440, 220, 300, 180, 130, 50
RENDERED = {"clear": 200, "night": 110, "rain": 80, "dusk": 70}
SOFT, SOFT_EACH = 0.4, 240
"""The share of days whose roads are the most evenly lit, and how many of them are made a dusk and a rain each."""
LEAST_ROAD = 0.026
"""Of a picture without the bonnet, for its light to be told."""
DIM = 54.0, 80.0
"""Mean grey levels of a dusk whose look the bundled one has: darker ones are called night, and lighter ones day."""
ROAD = 1
"""In comma10k's masks."""
OWN_DAYS, OWN_NIGHTS, OWN_FOGS = 641, 160, 300
"""Frames of a drive."""
HELD = 10
"""Every which picture is left out of what a drive's weathers are learned from."""


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


def spread_of_road(comma10k: Path, day: Path) -> float:
    """Returns how far apart the lights of a day's road are, in stops; infinity where hardly any road is seen."""
    mask = decode((comma10k / "masks" / f"{day.stem}.png").read_bytes())
    if mask is None:
        return float("inf")
    kept = slice(0, int(len(mask) * (1 - BONNET)))
    on_road = mask[kept, :, 0] == ROAD
    if on_road.mean() < LEAST_ROAD:
        return float("inf")
    stops = np.log2((read(day)[kept][on_road] / 255.0).mean(1) ** 2.2 + 0.01)
    return float(np.percentile(stops, 92) - np.percentile(stops, 8))


def make_soft(comma10k: Path, days: list[Path], out: Path) -> None:
    """Writes days in even light under the conditions that make them a dusk or a rain."""
    spread = {day: spread_of_road(comma10k, day) for day in days}
    soft = sorted(sorted(days, key=lambda day: spread[day])[: int(SOFT * len(days))])
    rng = np.random.default_rng(SEED + 1)
    for number, place in enumerate(rng.permutation(len(soft))[: 2 * SOFT_EACH]):
        day, kelvin = soft[place], rng.uniform(7500, 10500)
        light = f"colour-temperature(kelvin={kelvin:.0f})"
        if number % 2:
            text = f"dusk(illuminance_lx={10 ** rng.uniform(1.1, 2.1):.1f})+{light}"
        else:
            rain = f"overcast(oktas=8)+rain(mm_per_h={10 ** rng.uniform(0.3, 1.2):.1f},seed={number})"
            text = f"{rain}+exposure(ev={rng.uniform(-1.2, -0.4):.2f})+{light}"
        write(out / ("soft-dusk" if number % 2 else "soft-rain") / f"{day.stem}-computed.jpg", under(text, read(day), number))


def make_drive(text: str, weather: Path, out: Path) -> None:
    """Writes what weathers for one drive are learned from."""
    drive = open_drive(text)
    usable = np.flatnonzero(~held_out(len(drive)))
    rng = np.random.default_rng(SEED + 2)

    def frames(count: int, shift: float) -> list[tuple[int, NumpyFrames]]:
        places = usable[((np.arange(count) + shift) / count * len(usable)).astype(int)].tolist()
        shown = np.concatenate([batch.frames for batch in drive.select(places).batches(64)])
        return list(zip(places, shown, strict=True))

    for place, frame in frames(OWN_DAYS, 0.0):
        write_image(out / "day" / f"{place:06d}.jpg", frame)
    for place, frame in frames(OWN_NIGHTS, 0.3):
        dusk = f"dusk(illuminance_lx={10 ** rng.uniform(-1.1, -0.3):.3f})"
        write_image(out / "night" / f"{place:06d}-computed.jpg", under(dusk, frame, place))
    for place, frame in frames(OWN_FOGS, 0.6):
        fog = f"fog(visibility_m={10 ** rng.uniform(1.6, 2.2):.0f},seed={place})"
        write_image(out / "fog" / f"{place:06d}-computed.jpg", under(fog, frame, place))
    for name, folder in (("night", "comma_night"), ("snow", "snow_day"), ("wet", "wet_japan"), ("fog", "fog")):
        files = sorted((weather / folder).glob("*.jpg"))
        add([file for number, file in enumerate(files) if number % HELD], out / name)
    add(sorted((weather / "wet").glob("*.jpg"))[::2], out / "wet")
    snow = sorted((out / "snow").glob("*.jpg"))
    light = [float(read(file).mean()) for file in snow]
    add([file for file, mean in zip(snow, light, strict=True) if mean < np.median(light)], out / "snow-looks")
    classes = {
        "clear": [sorted((weather / folder).glob("*.jpg")) for folder in ("clear", "day_street")]
        # harsh days after the others, so that each half has both
        + [
            sorted((out.parent / "day").glob("*.jpg"), key=lambda file: ("harsh" in file.stem, file.name)),
            sorted((out / "day").glob("*.jpg")),
        ],
        "night": [sorted((weather / folder).glob("*.jpg")) for folder in ("night", "comma_night")],
        "snow": [sorted((weather / "snow_day").glob("*.jpg"))],
        "wet": [sorted((weather / folder).glob("*.jpg")) for folder in ("wet", "wet_japan")],
        "fog": [sorted((weather / "fog").glob("*.jpg"))],
    }
    for name, folders in classes.items():
        for number, half in enumerate(("guide", "judge")):
            for files in folders:
                add(files[number::2], out.parent / half / name)


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
    parser.add_argument("--drive", default="", help="for which weathers are learned, too")
    given = parser.parse_args()
    days, out = days_of(given.comma10k), given.out
    make_days_nights_and_rains(days, out)
    make_fogs(days, out)
    make_dusks(days, out)
    make_soft(given.comma10k, days, out)
    if given.drive:
        make_drive(given.drive, given.weather, out / "drive")
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
    for name, times in (("dusk", 3), ("rain", 4)):
        looks = [*sorted((out / f"soft-{name}").glob("*.jpg")), *real[name]]
        add([file for file in looks if name == "rain" or DIM[0] <= read(file).mean() < DIM[1]], out / f"soft-{name}-looks")
        add(real[name], out / f"soft-{name}", times)
        add(sorted((out / "rendered" / name).glob("*.jpg")), out / f"soft-{name}")
    for name, files in real.items():
        for file in files:  # cameras of the guide, and of a judge that the guide shares none with
            camera = file.name.split("_")[1]
            half = "guide" if int(sha256(camera.encode()).hexdigest(), 16) % 2 == 0 else "judge"
            add([file], out / f"{name}-{half}")
    print({folder.name: len(list(folder.glob("*.jpg"))) for folder in sorted(out.iterdir())})


if __name__ == "__main__":
    main()
