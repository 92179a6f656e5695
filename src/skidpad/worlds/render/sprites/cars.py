"""Pictures of a car from all sides: a body of flat faces with windows, lights and wheels, seen from a driver's height."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import cos, pi, sin

import cv2
import numpy as np

from skidpad.core.images import FloatArray
from skidpad.worlds.render.sprites.atlas import CHANNELS, COVER, RIGHT, SHINE, TINT, UP, Picture, shrunk

CAR_ANGLES = 33
"""Pictures from behind (0) to from ahead (the last), turning the car to the left; the other side is their mirror image."""
CARD_M = (5.2, 1.95)
"""Width and height of the card that carries a car."""
CARD_FOOT_M = -0.30
"""Its lower end: what is nearer than the card's plane is seen below its foot."""
PICTURE_PX = (256, 96)

_EYE_M = 1.3
_AWAY_M = 11.0
_FINE = 2

Point = tuple[float, float, float]

_PAINT = (236.0, 236.0, 236.0)
_GLASS = (44.0, 54.0, 64.0)
_SHINY_GLASS = (96.0, 114.0, 130.0)
_TRIM = (38.0, 38.0, 40.0)
_TYRE = (26.0, 26.0, 28.0)
_RIM = (150.0, 152.0, 156.0)
_TAIL = (206.0, 20.0, 24.0)
_HEAD = (250.0, 248.0, 236.0)
_PLATE = (228.0, 228.0, 220.0)


@dataclass(frozen=True, slots=True)
class Face:
    """A flat part: corners (forward, left, up), seen from where they turn counter-clockwise."""

    corners: tuple[Point, ...]
    colour: tuple[float, float, float]
    tint: float = 0.0
    shine: float = 0.0


def _both(corners: Sequence[Point], colour: tuple[float, float, float], tint: float = 0.0, shine: float = 0.0) -> list[Face]:
    """A part of the left side, given so that it faces left, and its mirror image."""
    right = tuple((x, -y, z) for x, y, z in reversed(corners))
    return [Face(tuple(corners), colour, tint, shine), Face(right, colour, tint, shine)]


def _across(
    back: tuple[float, float, float], front: tuple[float, float, float], colour: tuple[float, float, float], tint: float = 0.0
) -> Face:
    """A part from side to side; back and front: forward, half width, up. It faces up, or backward where `back` is the lower end."""
    (xb, yb, zb), (xf, yf, zf) = back, front
    return Face(((xb, yb, zb), (xb, -yb, zb), (xf, -yf, zf), (xf, yf, zf)), colour, tint)


def _panel(
    x: float, low: float, high: float, inner: float, outer: float, colour: tuple[float, float, float], shine: float, *, rear: bool
) -> list[Face]:
    """A rectangle in the rear or front face, at both sides where `inner` is above zero."""
    sides = [(inner, outer), (-outer, -inner)] if inner > 0.0 else [(-outer, outer)]
    faces = []
    for a, b in sides:
        corners = ((x, b, low), (x, a, low), (x, a, high), (x, b, high))
        faces.append(Face(corners if rear else tuple(reversed(corners)), colour, 0.0, shine))
    return faces


def _wheel(x: float, radius: float, colour: tuple[float, float, float], out: float) -> list[Face]:
    turn = [2.0 * pi * k / 16 for k in range(16)]
    # Seen from the left, forward points left: turning from forward to up is clockwise there.
    ring = [(x + radius * cos(a), out, 0.33 + radius * sin(a)) for a in reversed(turn)]
    return _both(ring, colour)


def _car() -> list[list[Face]]:
    """Returns the faces in the layers in which they are painted."""
    cabin = [
        _across((-1.85, 0.76, 0.98), (-1.2, 0.60, 1.42), _GLASS),
        _across((-1.2, 0.60, 1.42), (0.35, 0.60, 1.44), _PAINT, 1.0),
        _across((0.35, 0.60, 1.44), (1.1, 0.78, 0.97), _GLASS),
        *_both(((-1.85, 0.80, 0.96), (-1.2, 0.62, 1.43), (0.35, 0.62, 1.45), (1.1, 0.82, 0.95)), _PAINT, 1.0),
    ]
    windows = [
        _across((-1.60, 0.715, 1.15), (-1.24, 0.61, 1.39), _SHINY_GLASS),
        _across((0.42, 0.62, 1.40), (0.78, 0.70, 1.17), _SHINY_GLASS),
        *_both(((-1.55, 0.785, 1.0), (-1.12, 0.665, 1.36), (-0.42, 0.66, 1.38), (-0.42, 0.79, 1.0)), _GLASS),
        *_both(((-0.34, 0.79, 1.0), (-0.34, 0.66, 1.38), (0.30, 0.66, 1.38), (0.86, 0.80, 1.0)), _GLASS),
    ]
    body = [
        _across((-2.22, 0.84, 0.95), (-1.85, 0.82, 0.98), _PAINT, 1.0),
        _across((1.1, 0.84, 0.97), (2.05, 0.80, 0.82), _PAINT, 1.0),
        *_both(
            ((-2.22, 0.88, 0.32), (-2.22, 0.86, 0.95), (-1.85, 0.85, 0.98), (1.1, 0.85, 0.97), (2.05, 0.82, 0.82), (2.22, 0.82, 0.34)),
            _PAINT,
            1.0,
        ),
        Face(((-2.22, 0.88, 0.30), (-2.22, -0.88, 0.30), (-2.22, -0.84, 0.95), (-2.22, 0.84, 0.95)), _PAINT, 1.0),
        Face(((2.22, -0.84, 0.30), (2.22, 0.84, 0.30), (2.05, 0.80, 0.82), (2.05, -0.80, 0.82)), _PAINT, 1.0),
    ]
    details = [
        *_panel(-2.23, 0.24, 0.42, 0.0, 0.87, _TRIM, 0.0, rear=True),
        *_panel(-2.24, 0.66, 0.86, 0.52, 0.84, _TAIL, 1.0, rear=True),
        *_panel(-2.24, 0.52, 0.63, 0.0, 0.26, _PLATE, 0.12, rear=True),
        *_panel(2.23, 0.24, 0.44, 0.0, 0.82, _TRIM, 0.0, rear=False),
        *_panel(2.19, 0.56, 0.76, 0.42, 0.81, _TRIM, 0.0, rear=False),
        *_panel(2.20, 0.58, 0.74, 0.46, 0.79, _HEAD, 1.0, rear=False),
        *_panel(2.19, 0.48, 0.74, 0.0, 0.40, _TRIM, 0.0, rear=False),
        *_panel(2.24, 0.38, 0.48, 0.0, 0.26, _PLATE, 0.05, rear=False),
        *_both(((-2.2, 0.885, 0.22), (-2.2, 0.885, 0.34), (2.2, 0.835, 0.34), (2.2, 0.835, 0.22)), _TRIM),
    ]
    wheels = [
        *_wheel(-1.36, 0.37, _TRIM, 0.885),
        *_wheel(1.36, 0.37, _TRIM, 0.865),
        *_wheel(-1.36, 0.32, _TYRE, 0.89),
        *_wheel(1.36, 0.32, _TYRE, 0.87),
        *_wheel(-1.36, 0.20, _RIM, 0.895),
        *_wheel(1.36, 0.20, _RIM, 0.875),
    ]
    # Tyres seen under the bumper from behind and ahead.
    tyres = [
        *_panel(-1.6, 0.0, 0.34, 0.60, 0.84, _TYRE, 0.0, rear=True),
        *_panel(1.6, 0.0, 0.34, 0.60, 0.82, _TYRE, 0.0, rear=False),
    ]
    return [tyres, cabin, windows, body, details, wheels]


def cars() -> list[Picture]:
    """Returns the car at each of the angles."""
    layers = _car()
    return [_seen(layers, pi * k / (CAR_ANGLES - 1)) for k in range(CAR_ANGLES)]


def _seen(layers: list[list[Face]], turn: float) -> Picture:
    width, height = PICTURE_PX[0] * _FINE, PICTURE_PX[1] * _FINE
    faces: list[tuple[Face, FloatArray]] = []
    for layer in layers:
        seen = []
        for face in layer:
            corners = np.asarray(face.corners)
            # The viewer looks along +x from (-away, 0, eye); the car turns to the left.
            x = corners[:, 0] * cos(turn) - corners[:, 1] * sin(turn)
            y = corners[:, 0] * sin(turn) + corners[:, 1] * cos(turn)
            place = np.column_stack((x + _AWAY_M, y, corners[:, 2] - _EYE_M))
            normal = np.cross(place[1] - place[0], place[2] - place[0])
            normal /= np.linalg.norm(normal)
            if normal @ place.mean(axis=0) < -1e-6:
                seen.append((float(place[:, 0].mean()), face, place, normal))
        # What is flush with another face comes after it in its layer; only whole sides need sorting.
        if layer is layers[1] or layer is layers[3]:
            seen.sort(key=lambda item: -item[0])
        faces += [(face, np.column_stack((place, np.tile(normal, (len(place), 1))))) for _, face, place, normal in seen]
    numbers = np.zeros((height, width), np.uint8)
    table = np.zeros((len(faces) + 1, CHANNELS), np.float32)
    table[0, [RIGHT, UP]] = 128.0
    for number, (face, place) in enumerate(faces, 1):
        scale = _AWAY_M / place[:, 0]
        column = (0.5 - place[:, 1] * scale / CARD_M[0]) * width
        row = (1.0 - (place[:, 2] * scale + _EYE_M - CARD_FOOT_M) / CARD_M[1]) * height
        corners = np.round(np.column_stack((column, row)) * 16.0).astype(np.int32)
        cv2.fillPoly(numbers, [corners], number, lineType=cv2.LINE_8, shift=4)
        normal = place[0, 3:]
        # Under the beltline a car is a little darker than its faces' directions tell: it stands on a dark road.
        table[number, :3] = face.colour
        table[number, COVER] = 255.0
        table[number, RIGHT], table[number, UP] = 128.0 - 110.0 * normal[1], 128.0 + 110.0 * normal[2]
        table[number, SHINE], table[number, TINT] = 255.0 * face.shine, 255.0 * face.tint
    picture = table[numbers]
    rows = np.linspace(1.0, 0.0, height, dtype=np.float32)[:, None, None]
    picture[..., :3] *= np.where(picture[..., TINT : TINT + 1] > 0.0, np.float32(0.80) + np.float32(0.30) * rows, np.float32(1.0))
    return shrunk(picture, _FINE)
