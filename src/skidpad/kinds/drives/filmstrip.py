"""A closed-loop drive as pictures: a film strip with the car's place in its lane, and an animation; SVG without script or network."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from base64 import b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import isfinite
from typing import TYPE_CHECKING, Any, ClassVar

import cv2
import numpy as np

from skidpad.core.errors import BadRunError
from skidpad.core.images import FloatArray, NumpyFrames, encode
from skidpad.core.stimuli import Stimulus
from skidpad.kinds.drives.records import unpack
from skidpad.kinds.drives.replaying import frames_at
from skidpad.kinds.exhibits import Exhibit, Form, Motion, Row, Rule, Sight
from skidpad.oracles.lane_departure import CAP_M, departure_step
from skidpad.page.svg import Axis, add, drawing, standalone, write
from skidpad.page.wording import plain
from skidpad.worlds.world import STEP_S

if TYPE_CHECKING:
    from skidpad.kinds.drives.replaying import ReplayStage

WIDTH = 960.0
_PANELS = 5
_GAP = 10.0
_PANEL_PX = (WIDTH - (_PANELS - 1) * _GAP) / _PANELS
_STILL_PX, _SPRITE_PX = 300, 240
_STILL_QUALITY, _SPRITE_QUALITY = 82, 68
_MOVING_S, _EVERY_STEPS, _HOLD_S = 10.0, 5, 1.2
_SEEN_M = 2.6
"""How far to each side a gauge of the lane shows."""
_CAR_M = 1.8
ROAD, EDGE, LIMIT, FINE, GONE = "#3a414b", "#f2f4f7", "#f0b429", "#1f9d57", "#d1495b"


@dataclass(frozen=True, slots=True, eq=False)
class DriveFilm:
    """A recorded drive to draw: pictures of some steps, (height, width, 3) each, and its distance from the lane at every step."""

    pictures: Mapping[int, NumpyFrames]
    stills: tuple[int, ...]
    moments: tuple[int, ...]
    lateral_m: FloatArray
    lane_width_m: float

    @property
    def departure(self) -> int | None:
        """The step at which the car left its lane."""
        return departure_step(self.lateral_m)


def film_of(stage: ReplayStage, row: Mapping[str, Any]) -> DriveFilm:
    """Drives a record's steering again and takes pictures: some for the strip, and the end of the drive as it moves."""
    lateral = unpack(row["lateral_m"])
    last = len(lateral) - 1
    stills = _stills(lateral)
    first = max(0, last - round(_MOVING_S / STEP_S))
    moments = tuple(range(last % _EVERY_STEPS if first else 0, last + 1, _EVERY_STEPS))
    moments = tuple(step for step in moments if step >= first)
    wanted = sorted({*stills, *moments})
    pictures = dict(zip(wanted, frames_at(stage, row, wanted), strict=True))
    lane_width_m = float(json.loads(row["scenario"])["road"]["lane_width_m"])
    return DriveFilm(pictures, stills, moments, lateral, lane_width_m)


def _stills(lateral_m: FloatArray) -> tuple[int, ...]:
    """Returns the steps to show: even ones up to the moment that tells most (leaving the lane, else the furthest stray), and the end."""
    last = len(lateral_m) - 1
    if last < 0:
        return ()
    gone = departure_step(lateral_m)
    peak = int(np.abs(lateral_m).argmax()) if gone is None else gone
    # The last seconds before the peak say how it came about.
    start = max(0, peak - round(4.0 / STEP_S)) if gone is not None else 0
    steps = {round(step) for step in np.linspace(start, peak, _PANELS - 1).tolist()} | {last}
    return tuple(sorted(steps))


def strip(key: str, title: str, film: DriveFilm) -> str:
    """Draws moments of a drive side by side, each with the car's place in its lane, and the whole drive's distance beneath."""
    height = _picture_height(film, _PANEL_PX)
    root = drawing(key, title, told(film), height + 170.0, WIDTH)
    root.set("class", "film")
    for place, step in enumerate(film.stills):
        panel = add(root, "g", transform=f"translate({place * (_PANEL_PX + _GAP):.2f} 0)")
        source = _embedded(film.pictures[step], _STILL_PX, _STILL_QUALITY)
        add(panel, "image", href=source, x=0.0, y=0.0, width=_PANEL_PX, height=height)
        _gauge(add(panel, "g", transform=f"translate(0 {height + 4.0:.2f})"), film, step, _PANEL_PX)
        add(panel, "text", f"{step * STEP_S:.1f} s", x=0.0, y=height + 46.0, font_size="15", font_weight="650")
        kind = "chance" if abs(film.lateral_m[step]) >= CAP_M else "muted"
        add(panel, "text", worded_m(film.lateral_m[step]), x=_PANEL_PX, y=height + 46.0, font_size="13", class_=kind, text_anchor="end")
    _trace(add(root, "g", transform=f"translate(0 {height + 60.0:.2f})"), film, film.stills)
    return write(root)


def moving(key: str, title: str, film: DriveFilm) -> str:
    """Draws the last seconds of a drive, in real time, over and over: one sheet of pictures of which one shows at a time."""
    count = len(film.moments)
    width = 640.0
    height = _picture_height(film, width)
    root = drawing(key, title, told(film), height + 118.0, WIDTH)
    root.set("class", "film moving")
    if not count:
        return write(root)
    sheet = np.concatenate([_resized(film.pictures[step], _SPRITE_PX) for step in film.moments])
    window = add(root, "svg", x=(WIDTH - width) / 2.0, y=0.0, width=width, height=height, viewBox=f"0 0 {width:g} {height:.2f}")
    image = add(window, "image", href=_data(sheet, _SPRITE_QUALITY), x=0.0, y=0.0, width=width, height=height * count)
    image.set("preserveAspectRatio", "none")
    whole_s = count * _EVERY_STEPS * STEP_S + _HOLD_S
    times = [place * _EVERY_STEPS * STEP_S / whole_s for place in range(count)]
    _animated(image, "y", times, [f"{-place * height:.2f}" for place in range(count)], whole_s)
    trace = add(root, "g", transform=f"translate(0 {height + 6.0:.2f})")
    x = _trace(trace, film, ())
    dot = add(trace, "line", x1=0.0, x2=0.0, y1=4.0, y2=92.0, stroke=GONE, stroke_width="2")
    for name in ("x1", "x2"):
        _animated(dot, name, times, [f"{x.at(step * STEP_S):.2f}" for step in film.moments], whole_s)
    return write(root)


def told(film: DriveFilm) -> str:
    """Says the drive in words."""
    strayed = float(np.abs(film.lateral_m).max()) if len(film.lateral_m) else 0.0
    gone = film.departure
    end = f"it leaves its lane after {gone * STEP_S:.1f} s" if gone is not None else f"it strays {strayed:.2f} m at most"
    return f"A drive of {len(film.lateral_m) * STEP_S:.1f} s; {end}."


def worded_m(lateral_m: float) -> str:
    """Words a distance from the middle of the lane with its side."""
    words = f"{abs(lateral_m):.2f} m"
    return words if words == "0.00 m" else f"{words} {'left' if lateral_m > 0 else 'right'}"


def _gauge(parent: ET.Element, film: DriveFilm, step: int, width: float) -> None:
    """Draws the lane from behind: its edges, where departure begins, and the car."""
    scale = width / (2.0 * _SEEN_M)
    # A picture of its own, so that a car far beside its lane ends at the edge.
    parent = add(parent, "svg", x=0.0, y=0.0, width=width, height=24.0)
    add(parent, "rect", x=0.0, y=0.0, width=width, height=24.0, rx=3.0, fill=ROAD)
    for edge_m, colour, dash in (
        (0.5 * film.lane_width_m, EDGE, ""),
        (-0.5 * film.lane_width_m, EDGE, ""),
        (CAP_M, LIMIT, "3 3"),
        (-CAP_M, LIMIT, "3 3"),
    ):
        x = width / 2.0 - edge_m * scale
        line = add(parent, "line", x1=x, x2=x, y1=1.0, y2=23.0, stroke=colour, stroke_width="1.6")
        if dash:
            line.set("stroke-dasharray", dash)
    lateral = float(np.clip(film.lateral_m[step], -_SEEN_M, _SEEN_M))
    colour = GONE if abs(film.lateral_m[step]) >= CAP_M else FINE
    # Left is positive, and to the left of the picture.
    x = width / 2.0 - (lateral + 0.5 * _CAR_M) * scale
    add(parent, "rect", x=x, y=5.0, width=_CAR_M * scale, height=14.0, rx=4.0, fill=colour, fill_opacity="0.85")


def _trace(parent: ET.Element, film: DriveFilm, marked: Sequence[int]) -> Axis:
    """Draws the distance from the lane over time, left up, and where departure begins."""
    x = Axis(0.0, max(len(film.lateral_m) - 1, 1) * STEP_S, 50.0, WIDTH - 8.0)
    y = Axis(-_SEEN_M, _SEEN_M, 92.0, 4.0)
    for value, dash in ((0.0, ""), (CAP_M, "4 3"), (-CAP_M, "4 3")):
        line = add(parent, "line", x1=x.start, x2=x.stop, y1=y.at(value), y2=y.at(value), stroke="#8b95a3", stroke_width="1")
        if dash:
            line.set("stroke-dasharray", dash)
        add(
            parent,
            "text",
            f"{value:+.1f} m" if value else "0",
            x=28.0,
            y=y.at(value) + 4.0,
            font_size="10",
            class_="muted",
            text_anchor="end",
        )
    points = " ".join(f"{x.at(step * STEP_S):.1f},{y.at(float(value)):.1f}" for step, value in enumerate(film.lateral_m))
    add(parent, "polyline", points=points, fill="none", stroke="#1e6feb", stroke_width="2", stroke_linejoin="round")
    for step in marked:
        value = float(film.lateral_m[step])
        add(parent, "circle", cx=x.at(step * STEP_S), cy=y.at(value), r=4.0, fill=GONE if abs(value) >= CAP_M else FINE)
    add(parent, "text", f"{x.high:.1f} s", x=x.stop, y=104.0, font_size="10", class_="muted", text_anchor="end")
    add(parent, "text", "distance from the middle of the lane, left is up", x=x.start, y=104.0, font_size="10", class_="muted")
    return x


def _animated(node: ET.Element, attribute: str, times: Sequence[float], values: Sequence[str], whole_s: float) -> None:
    add(
        node,
        "animate",
        attributeName=attribute,
        calcMode="discrete",
        keyTimes=";".join(f"{time:.4f}" for time in times),
        values=";".join(values),
        dur=f"{whole_s:.2f}s",
        repeatCount="indefinite",
    )


def _picture_height(film: DriveFilm, width: float) -> float:
    first = next(iter(film.pictures.values()), None)
    return width / 2.0 if first is None else width * first.shape[0] / first.shape[1]


def _resized(frame: NumpyFrames, width_px: int) -> NumpyFrames:
    height, width = frame.shape[:2]
    if width <= width_px:
        return frame
    size = (width_px, max(1, round(height * width_px / width)))
    return np.asarray(cv2.resize(frame, size, interpolation=cv2.INTER_AREA), np.uint8)


def _embedded(frame: NumpyFrames, width_px: int, quality: int) -> str:
    return _data(_resized(frame, width_px), quality)


def _data(frame: NumpyFrames, quality: int) -> str:
    return f"data:image/jpeg;base64,{b64encode(encode(frame, '.jpg', quality)).decode('ascii')}"


_FLOAT_BYTES = 8
_MAX_STEPS = 20_000
"""A quarter of an hour at 20 steps a second; what is longer is no drive of ours."""
_NEEDED = ("scenario", "recipe", "lateral_m", "answers_rad", "truth_rad", "mode")


@dataclass(frozen=True, slots=True)
class ShownStage:
    """What it takes to show a recorded drive again: the world, and what sits in front of the camera."""

    world: str
    stimuli: Mapping[str, Stimulus]


class DriveExhibit(Exhibit):
    """Runs of `skidpad drive`."""

    needs: ClassVar[Mapping[str, Form]] = {
        **dict.fromkeys(("scenario", "scenario_name", "condition", "recipe", "mode", "problem"), Form.TEXT),
        **dict.fromkeys(("max_lateral_m", "departed_at_s", "collided_at_s"), Form.REAL),
        **dict.fromkeys(("lateral_m", "answers_rad", "truth_rad"), Form.HIDDEN),
    }
    command: ClassVar[str] = "drive"
    cases: ClassVar[str] = "drives"
    groups: ClassVar[tuple[str, ...]] = ("condition",)

    @property
    def rule(self) -> Rule:
        """The lane, and nothing in the way."""
        return Rule("keeps its lane", f"within {CAP_M:g} m, touching nothing")

    @cached_property
    def stage(self) -> ShownStage:
        """The world and the transforms that the config names."""
        from skidpad.stimuli.registry import conditions_of  # noqa: PLC0415  stimuli are loaded for the first film only

        texts = self.config.get("stimuli", ())
        return ShownStage(str(self.config.get("world", "built-in")), conditions_of([str(text) for text in texts])[1])

    def title(self, row: Row) -> str:
        """The scenario and what sat in front of the camera."""
        return f"{plain(str(row.get('scenario_name', '')), 60)}, {plain(str(row.get('condition', '')), 80)}"

    def sight(self, row: Row) -> Sight:
        """A film, where the drive was made at all."""
        lasted = all(row.get(name) is not None for name in _NEEDED) and len(row["lateral_m"]) >= _FLOAT_BYTES
        return Sight.FILM if lasted else Sight.NOTHING

    def verdict(self, row: Row) -> str:
        """Whether the car left its lane, or touched something."""
        if not row["violated"]:
            return plain(str(row.get("problem", "")), 160) or f"strays {float(row['max_lateral_m']):.2f} m at most"
        left, touched = float(row["departed_at_s"]), float(row["collided_at_s"])
        return f"left its lane after {left:.1f} s" if isfinite(left) else f"touched something after {touched:.1f} s"

    def told(self, row: Row) -> str:
        """How the drive ended."""
        left, touched = float(row["departed_at_s"]), float(row["collided_at_s"])
        end = f"it leaves its lane after {left:.1f} s" if isfinite(left) else "it stays in its lane"
        hit = f", and touches something after {touched:.1f} s" if isfinite(touched) else ""
        return f"A drive through {self.title(row)}: {end}{hit}."

    def film(self, row: Row, motion: Motion) -> str:
        """Steers the world as recorded and draws what the subject saw."""
        draw = moving if motion is Motion.MOVING else strip
        return standalone(draw("film", self.title(row), self._film(row)))

    def _film(self, row: Row) -> DriveFilm:

        if len(row["lateral_m"]) > _FLOAT_BYTES * _MAX_STEPS:
            raise BadRunError(f"the drive has more than {_MAX_STEPS} steps, too many for a film")
        with self._reading(row):
            return film_of(self.stage, row)


class ServedExhibit(DriveExhibit):
    """Runs of `skidpad serve`."""

    needs: ClassVar[Mapping[str, Form]] = {**DriveExhibit.needs, "pedal": Form.HIDDEN, "speed_m_s": Form.HIDDEN}
    command: ClassVar[str] = "serve"

    @cached_property
    def stage(self) -> ShownStage:
        """The simulator's world, and what sat in front of its camera."""
        return ShownStage(str(self.config.get("simulator", "udacity")), super().stage.stimuli)


class OfflineVsOnlineExhibit(DriveExhibit):
    """Runs of `skidpad compare`: only the drives that the subject steered are judged."""

    command: ClassVar[str] = "compare"
    unjudged: ClassVar[frozenset[str]] = frozenset({"matched", "offline"})
    groups: ClassVar[tuple[str, ...]] = ("mode",)

    def title(self, row: Row) -> str:
        """The scenario, and who steered."""
        steered: Any = row.get("mode", "")
        return f"{plain(str(row.get('scenario_name', '')), 60)}, {plain(str(steered), 20)}"
