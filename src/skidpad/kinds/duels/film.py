"""Episodes of a duel as pictures: a film strip to read, and an animation to watch; SVG that needs neither script nor network.

Colours are the paper's: the ego green, the front vehicle magenta, the ego orange once it has crashed (Figures 2 and 5); further front
vehicles are purple and blue.
"""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Sequence
from dataclasses import dataclass
from math import cos, degrees, isfinite, nan, sin
from typing import TYPE_CHECKING

import numpy as np

from skidpad.highway.layout import EGO, FRONT, HEADING, LANE_WIDTH_M, SPEED, VEHICLE_LENGTH_M, VEHICLE_WIDTH_M, Action, X, Y, action_of
from skidpad.page.svg import add, drawing, write

if TYPE_CHECKING:
    from skidpad.highway.episodes import Trace


WIDTH = 960.0
_GUTTER, _SIDE = 104.0, 176.0
_ROAD_PX = WIDTH - _GUTTER - _SIDE
_SHOULDER_M = 0.7
_GAP_PX = 14.0
_PANELS = 7
_HOLD_S = 1.4

ROAD, EDGE, DASH = "#3a414b", "#cfd5dc", "#aeb6c0"
COLOURS = ("#1f9d57", "#c2399c", "#7a4fc9", "#2f74c0")
CRASHED = "#f08a24"
_DASHES_M = (3.0, 5.0)


@dataclass(frozen=True, slots=True, eq=False)
class Film:
    """An episode to draw: its states, what all decided, (policy steps,) each, and the last moment to escape, NaN where there is none."""

    trace: Trace
    lanes: int
    ego_actions: tuple[int, ...]
    front_actions: tuple[int, ...]
    last_chance_s: float = nan

    @property
    def frames(self) -> int:
        """Simulation steps to show: to the impact, else to the end."""
        impact = self.trace.impact_frame
        return len(self.trace.states) - 1 if impact is None else impact

    @property
    def vehicles(self) -> range:
        """The ego's row of a state, and those of the front vehicles."""
        return range(self.trace.states.shape[1])

    def scale(self, width_px: float) -> float:
        """Pixels a metre: all vehicles fit with some road around them, as long as they are within 110 m."""
        apart_m = max(float(np.ptp(self.trace.states[frame, :, X])) for frame in range(self.frames + 1))
        return width_px / min(max(apart_m + 22.0, 56.0), 132.0)

    def camera_m(self, frame: int) -> float:
        """Where along the road the middle of the picture is."""
        return float(self.trace.states[frame, :, X].mean())

    def action(self, side: int, frame: int) -> str:
        """The decision that holds from this moment on, in a word; "" at the end and for a driver that takes none."""
        decision = frame * self.trace.policy_hz // self.trace.simulation_hz
        actions = self.ego_actions if side == EGO else self.front_actions
        if decision >= len(actions) or actions[decision] < 0:
            return ""
        return Action(actions[decision] if side == EGO else action_of(actions[decision], side)).name.lower()


def vehicle_name(side: int) -> str:
    """Returns what a vehicle is called in films and files."""
    return "ego" if side == EGO else "front" if side == FRONT else f"front {side}"


def film_strip(key: str, title: str, film: Film) -> str:
    """Draws moments of an episode under one another, the impact last."""
    scale = film.scale(_ROAD_PX)
    height = _road_px(film, scale)
    moments = _moments(film)
    root = drawing(key, title, _told(film), len(moments) * (height + _GAP_PX) + 4.0, WIDTH)
    root.set("class", "film")
    _clip(root, key, height)
    for row, frame in enumerate(moments):
        panel = add(root, "g", transform=f"translate(0 {2.0 + row * (height + _GAP_PX):.2f})")
        _caption(panel, film, frame, height)
        view = add(add(panel, "g", transform=f"translate({_GUTTER:g} 0)"), "g", clip_path=f"url(#{key}-clip)")
        offset = -film.camera_m(frame) * scale + _ROAD_PX / 2.0
        _road(view, film, scale, (film.camera_m(frame) - 0.5 * _ROAD_PX / scale, _ROAD_PX / scale), offset)
        is_impact = frame == film.trace.impact_frame
        for side in film.vehicles:
            _trail(view, film, side, frame, scale, offset)
        for side in reversed(film.vehicles):
            _, x, y, turn = _placed(film, side, frame, scale, offset)
            group = add(view, "g", transform=f"translate({x:.2f} {y:.2f}) rotate({turn:.2f})")
            _car(group, side, scale, CRASHED if is_impact and side == EGO else COLOURS[side])
        if is_impact:
            _burst(view, film, frame, scale, offset)
    return write(root)


def animation(key: str, title: str, film: Film) -> str:
    """Draws an episode as an animation in real time, in a loop; the camera moves along."""
    scale = film.scale(WIDTH)
    height = _road_px(film, scale)
    hz = film.trace.simulation_hz
    moving_s = film.frames / hz
    whole_s = moving_s + _HOLD_S
    root = drawing(key, title, _told(film), height + 34.0, WIDTH)
    root.set("class", "film moving")
    _clip(root, key, height, WIDTH)
    view = add(add(root, "g", transform="translate(0 30)"), "g", clip_path=f"url(#{key}-clip)")
    times = [frame / hz / whole_s for frame in range(film.frames + 1)] + [1.0]
    cameras = [film.camera_m(frame) for frame in range(film.frames + 1)]
    first, last = cameras[0], cameras[-1]
    ground = add(view, "g")
    _road(ground, film, scale, (first - 0.6 * WIDTH / scale, last - first + 1.2 * WIDTH / scale), -first * scale + WIDTH / 2.0)
    _moved(ground, "translate", times, [f"{(first - camera) * scale:.1f} 0" for camera in [*cameras, last]], whole_s)
    for side in reversed(film.vehicles):
        places = [_placed(film, side, frame, scale, -cameras[frame] * scale + WIDTH / 2.0) for frame in range(film.frames + 1)]
        outer = add(view, "g", transform=f"translate({places[0][1]:.1f} {places[0][2]:.1f})")
        _moved(outer, "translate", times, [f"{x:.1f} {y:.1f}" for _, x, y, _ in [*places, places[-1]]], whole_s)
        inner = add(outer, "g")
        _moved(inner, "rotate", times, [f"{turn:.1f}" for _, _, _, turn in [*places, places[-1]]], whole_s)
        body = _car(inner, side, scale, COLOURS[side])
        if side == EGO and film.trace.impact_frame is not None:
            _switched(body, "fill", [(0.0, COLOURS[side]), (moving_s / whole_s, CRASHED)], whole_s)
    _ticker(root, film, whole_s)
    return write(root)


def _moments(film: Film) -> list[int]:
    """Returns the simulation steps to show: decisions, evenly thinned if there are many, and always the last chance and the end."""
    each = film.trace.simulation_hz // film.trace.policy_hz
    # a decision right before the end would look like the end
    decisions = [frame for frame in range(0, film.frames, each) if frame == 0 or film.frames - frame > film.trace.simulation_hz // 5]
    wanted = {round(film.last_chance_s * film.trace.simulation_hz)} if isfinite(film.last_chance_s) else set()
    room = _PANELS - 1 - len(wanted - set(decisions[-(_PANELS - 2) :]))
    if len(decisions) <= room:
        kept = decisions
    elif film.trace.impact_frame is None:
        kept = [decisions[round(place * (len(decisions) - 1) / (room - 1))] for place in range(room)]
    else:  # the end tells most
        kept = [decisions[0], *decisions[-(room - 1) :]]
    return sorted({*kept, *wanted, film.frames})


def _caption(panel: ET.Element, film: Film, frame: int, height: float) -> None:
    time_s = frame / film.trace.simulation_hz
    states = film.trace.states[frame]
    middle = height / 2.0
    add(panel, "text", f"{time_s:.1f} s", x=0.0, y=middle - 4.0, font_size="17", font_weight="650")
    gap_m = abs(float(states[film.trace.struck(frame), X] - states[EGO, X])) - VEHICLE_LENGTH_M
    if frame == film.trace.impact_frame:
        note, kind = "impact", "chance"
    elif isfinite(film.last_chance_s) and frame == round(film.last_chance_s * film.trace.simulation_hz):
        note, kind = "last chance", "chance"
    else:
        note, kind = f"gap {max(gap_m, 0.0):.1f} m", "muted"
    add(panel, "text", note, x=0.0, y=middle + 15.0, font_size="13", class_=kind)
    is_pair = len(film.vehicles) == 2
    line_px, size = (22.0, "13") if is_pair else (15.5, "11")
    for side in film.vehicles:
        y = middle + 2.0 + line_px * (side - (len(film.vehicles) - 1) / 2.0)
        left = WIDTH - _SIDE + 14.0
        add(panel, "rect", x=left, y=y - 9.0, width=11.0, height=11.0, rx=3.0, fill=COLOURS[side])
        words = f"{vehicle_name(side)} {float(states[side, SPEED]):.1f} m/s"
        add(panel, "text", words, x=left + 18.0, y=y + 1.0, font_size=size)
        action = film.action(side, frame) if frame != film.trace.impact_frame else ""
        add(panel, "text", action, x=WIDTH - 2.0, y=y + 1.0, font_size=size, class_="muted", text_anchor="end")


def _ticker(root: ET.Element, film: Film, whole_s: float) -> None:
    """Writes time, speeds and decisions above the road, a line for each policy step, of which one shows at a time."""
    hz = film.trace.simulation_hz
    each = hz // film.trace.policy_hz
    starts = [*range(0, film.frames, each), film.frames]
    for index, frame in enumerate(starts):
        begin = frame / hz / whole_s
        end = starts[index + 1] / hz / whole_s if index + 1 < len(starts) else 1.0
        line = add(root, "g", opacity="1" if index == 0 else "0")
        steps = [(0.0, "0"), (begin, "1"), (end, "0")] if begin > 0.0 else [(0.0, "1"), (end, "0")]
        _switched(line, "opacity", [step for step in steps if step[0] < 1.0], whole_s)
        last = frame == film.frames
        note = ("impact" if film.trace.impact_frame is not None else "the end") if last else ""
        add(line, "text", f"{frame / hz:.1f} s  {note}".rstrip(), x=0.0, y=18.0, font_size="18", font_weight="650")
        for side in film.vehicles:
            x = 300.0 + 340.0 * side if len(film.vehicles) == 2 else 170.0 + 790.0 / len(film.vehicles) * side
            add(line, "rect", x=x, y=7.0, width=12.0, height=12.0, rx=3.0, fill=COLOURS[side])
            speed_mps, action = float(film.trace.states[frame, side, SPEED]), "" if last else film.action(side, frame)
            words = f"{vehicle_name(side)} {speed_mps:.1f} m/s {action}".rstrip()
            add(line, "text", words, x=x + 20.0, y=18.0, font_size="16" if len(film.vehicles) == 2 else "14")


def _road(view: ET.Element, film: Film, scale: float, stretch_m: tuple[float, float], offset: float) -> None:
    """Draws the road over a stretch, given by its beginning and its length in metres; dashes stay where they are on the ground."""
    begin, length = stretch_m
    left, width = begin * scale + offset, length * scale
    add(view, "rect", x=left, y=0.0, width=width, height=_road_px(film, scale), fill=ROAD)
    for lane in range(film.lanes + 1):
        y = (_SHOULDER_M + lane * LANE_WIDTH_M) * scale
        inner = 0 < lane < film.lanes
        line = add(view, "line", x1=left, x2=left + width, y1=y, y2=y, stroke=DASH if inner else EDGE, stroke_width=2.0)
        if inner:
            line.set("stroke-dasharray", " ".join(f"{part * scale:.2f}" for part in _DASHES_M))
            line.set("stroke-dashoffset", f"{(begin % sum(_DASHES_M)) * scale:.2f}")


def _car(group: ET.Element, side: int, scale: float, colour: str) -> ET.Element:
    """Draws a vehicle about the origin, heading right, and returns its body."""
    length, width = VEHICLE_LENGTH_M * scale, VEHICLE_WIDTH_M * scale
    body = add(group, "rect", x=-length / 2, y=-width / 2, width=length, height=width, rx=0.45 * scale, fill=colour)
    body.set("stroke", "#ffffff")
    body.set("stroke-width", "1.2")
    add(
        group,
        "rect",
        x=length * 0.27,
        y=-width * 0.36,
        width=length * 0.1,
        height=width * 0.72,
        rx=0.2 * scale,
        fill="#0b0f14",
        fill_opacity="0.55",
    )
    size = min(12.5, 0.23 * length)
    add(
        group,
        "text",
        vehicle_name(side).removeprefix("front "),
        class_="car-name",
        x=-length * 0.1,
        y=0.36 * size,
        text_anchor="middle",
        font_size=f"{size:.1f}",
        font_weight="600",
    )
    return body


def _trail(view: ET.Element, film: Film, side: int, frame: int, scale: float, offset: float) -> None:
    """Draws the path of the last second."""
    first = max(0, frame - film.trace.simulation_hz)
    if frame > first:
        points = " ".join(f"{x:.1f},{y:.1f}" for _, x, y, _ in (_placed(film, side, at, scale, offset) for at in range(first, frame + 1)))
        add(
            view,
            "polyline",
            points=points,
            fill="none",
            stroke=COLOURS[side],
            stroke_width=3.0,
            stroke_opacity="0.55",
            stroke_linecap="round",
        )


def _burst(view: ET.Element, film: Film, frame: int, scale: float, offset: float) -> None:
    """Marks where the ego meets another."""
    both = EGO, film.trace.struck(frame)
    (_, ego_x, ego_y, _), (_, front_x, front_y, _) = (_placed(film, side, frame, scale, offset) for side in both)
    x, y = (ego_x + front_x) / 2.0, (ego_y + front_y) / 2.0
    outer, inner = 1.1 * scale, 0.45 * scale
    spikes = [(outer if index % 2 == 0 else inner, index * 3.14159265 / 8.0) for index in range(16)]
    points = " ".join(f"{x + radius * cos(angle):.1f},{y + radius * sin(angle):.1f}" for radius, angle in spikes)
    add(view, "polygon", points=points, fill="#ffd54a", stroke="#b3261e", stroke_width=1.5)


def _placed(film: Film, side: int, frame: int, scale: float, offset: float) -> tuple[int, float, float, float]:
    state = film.trace.states[frame, side]
    y = (float(state[Y]) + LANE_WIDTH_M / 2 + _SHOULDER_M) * scale
    return side, float(state[X]) * scale + offset, y, degrees(float(state[HEADING]))


def _road_px(film: Film, scale: float) -> float:
    return (film.lanes * LANE_WIDTH_M + 2 * _SHOULDER_M) * scale


def _clip(root: ET.Element, key: str, height: float, width: float = _ROAD_PX) -> None:
    add(add(add(root, "defs"), "clipPath", id=f"{key}-clip"), "rect", width=width, height=height, rx=6.0)


def _moved(node: ET.Element, kind: str, times: Sequence[float], values: Sequence[str], whole_s: float) -> None:
    attributes = {"attributeName": "transform", "type": kind, "dur": f"{whole_s:.3f}s", "repeatCount": "indefinite", "calcMode": "linear"}
    ET.SubElement(
        node, "animateTransform", {**attributes, "keyTimes": ";".join(f"{time:.4f}" for time in times), "values": ";".join(values)}
    )


def _switched(node: ET.Element, name: str, steps: Sequence[tuple[float, str]], whole_s: float) -> None:
    attributes = {"attributeName": name, "calcMode": "discrete", "dur": f"{whole_s:.3f}s", "repeatCount": "indefinite"}
    times, values = ";".join(f"{time:.4f}" for time, _ in steps), ";".join(value for _, value in steps)
    ET.SubElement(node, "animate", {**attributes, "keyTimes": times, "values": values})


def _told(film: Film) -> str:
    """Describes the episode in words, for readers who cannot see the picture."""
    impact = film.trace.impact_frame
    end = f"They collide after {film.trace.impact_s:.1f} seconds." if impact is not None else "They do not collide."
    moves = [
        ", ".join(f"{vehicle_name(side)} {film.action(side, frame) or 'by itself'}" for side in film.vehicles)
        for frame in _moments(film)[:-1]
    ]
    fronts = "the front vehicle" if len(film.vehicles) == 2 else f"{len(film.vehicles) - 1} front vehicles"
    return f"Seen from above, the ego behind {fronts} on {film.lanes} lanes: {'; '.join(moves)}. {end}"
