"""Draws the grids of docs/weather.md: scenes as recorded, and the same under some looks of a weather.

    python benchmarks/weather_pictures.py night --from udacity-ch2-test --out docs/pictures/weather/night.jpg
    python benchmarks/weather_pictures.py weather:night "weather:night+rain(mm_per_h=25)" --from udacity-ch2-test --out night-falling.jpg

One weather: the first row is recorded; below are the mean style of its pictures, two styles drawn as its pictures have them, and one from
N(0, 1). Several stimuli, as `skidpad test --transforms` takes them: a row each, under the mean style. Scenes lie evenly in the parts of the
drive that realism holds out; --rendered N replaces the last N by scenes of the built-in world.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import cv2
import numpy as np

from skidpad.core.images import NumpyFrames, write_image
from skidpad.core.seeding import child_rng
from skidpad.core.stimuli import Params
from skidpad.drives import open_drive
from skidpad.stimuli.registry import conditions_of
from skidpad.stimuli.weather.classifier import held_out
from skidpad.stimuli.weather.pretrained import weather_path
from skidpad.stimuli.weather.stimulus import LearnedWeather, WeatherLooks, style_params
from skidpad.stimuli.weather.translation import Weather

WIDE, HIGH = 220, 165


def scenes(drive_text: str, count: int) -> list[NumpyFrames]:
    """Returns frames evenly from the held-out parts of a drive."""
    drive = open_drive(drive_text)
    places = np.flatnonzero(held_out(len(drive)))
    chosen = places[((np.arange(count) + 0.5) / count * len(places)).astype(int)].tolist()
    return [frame for batch in drive.select(chosen).batches(count) for frame in batch.frames]


def looks_of(name: str, shown: list[NumpyFrames]) -> list[list[NumpyFrames]]:
    """Returns the scenes under the mean style, two as the weather's pictures have them, and one from N(0, 1)."""
    path = weather_path(name)
    learned, plain = LearnedWeather(path), WeatherLooks(Weather.load(path), ())
    rows = [[learned.apply(frame[None], Params(style=number))[0] for frame in shown] for number in range(3)]
    drawn = style_params(child_rng(3, "grid").standard_normal(learned.card.sizes.style))
    return [*rows, [plain.apply(frame[None], drawn)[0] for frame in shown]]


def under(text: str, shown: list[NumpyFrames]) -> list[NumpyFrames]:
    """Returns the scenes under stimuli; a weather whose style was left open has the mean one."""
    ((condition,), stimuli) = conditions_of((text,))
    recipe = next(iter(condition.grid(stimuli)))
    return [np.asarray(recipe.apply(frame[None], stimuli)[0], np.uint8) for frame in shown]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("weather", nargs="+", help="one weather, or several stimuli")
    parser.add_argument("--from", dest="drive", required=True)
    parser.add_argument("--scenes", type=int, default=5)
    parser.add_argument("--rendered", type=int, default=0, help="of the scenes, so many of the built-in world")
    parser.add_argument("--out", type=Path, required=True)
    given = parser.parse_args()
    shown = scenes(given.drive, given.scenes - given.rendered)
    shown += scenes("rendered?frames=400&seed=5&width=320&height=240", given.rendered) if given.rendered else []
    rows = looks_of(given.weather[0], shown) if len(given.weather) == 1 else [under(text, shown) for text in given.weather]
    picture = np.concatenate(
        [np.concatenate([cv2.resize(each, (WIDE, HIGH), interpolation=cv2.INTER_AREA) for each in row], 1) for row in (shown, *rows)]
    )
    write_image(given.out, picture)


if __name__ == "__main__":
    main()
