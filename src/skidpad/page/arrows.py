"""Steering arrows: one geometry, drawn by OpenCV into pictures and as SVG over the page's pictures.

An arrow starts at the bottom centre of the frame and leans to the side to which the car would steer: positive
angles lean left, as in Udacity's recordings. Every arrow leans by the
angle itself, so that pictures of the page, the report and the tests can be compared.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import isfinite, nan, radians

import cv2
import numpy as np

from skidpad.core.images import FloatArray, NumpyFrames
from skidpad.page.wording import DEGREES, answer, difference, plain

Colour = tuple[int, int, int]
ORIGINAL_RGB: Colour = (30, 111, 235)
MUTANT_RGB: Colour = (218, 41, 28)
LABEL_RGB: Colour = (190, 196, 204)
LABEL_WIDTH = 0.4
MAX_LEAN_DEG = 80.0
_SUBPIXEL_BITS = 4
_INK: Colour = (16, 20, 26)
_PAPER: Colour = (245, 247, 250)


@dataclass(frozen=True, slots=True)
class Arrow:
    """One arrow by its true angle in degrees, positive left; where that is not finite, a cross or nothing."""

    angle_deg: float
    colour: Colour
    width: float = 1.0
    crossed: bool = False


def lean_deg(angle_deg: float) -> float:
    """Returns the angle as drawn: held within the greatest lean."""
    return min(max(angle_deg, -MAX_LEAN_DEG), MAX_LEAN_DEG)


def outline(angle_deg: float, width_px: float, height_px: float, thickness: float = 1.0) -> FloatArray:
    """Returns the arrow's outline as (7, 2) points x, y in pixels; row 3 is the tip."""
    length = min(0.62 * height_px, 0.44 * width_px)
    shaft, head, neck = 0.025 * length * thickness, 0.095 * length * thickness**0.5, 0.78 * length
    # Along the arrow and across it, before it is turned and put on the frame.
    along = np.array([0.0, neck, neck, length, neck, neck, 0.0])
    across = np.array([-shaft * 1.5, -shaft, -head, 0.0, head, shaft, shaft * 1.5])
    lean = radians(lean_deg(angle_deg))
    x = width_px / 2.0 - along * np.sin(lean) + across * np.cos(lean)
    y = height_px * 0.97 - along * np.cos(lean) - across * np.sin(lean)
    return np.stack([x, y], axis=1)


def cross(width_px: float, height_px: float) -> FloatArray:
    """Returns the outline of the cross that stands where an answer is not finite, (12, 2) points x, y in pixels."""
    arm, half = 0.13 * min(height_px, width_px), 0.032 * min(height_px, width_px)
    corner = np.array([[half, half], [arm, half], [arm, -half]])
    quarter = np.array([[0.0, 1.0], [-1.0, 0.0]])
    plus = np.concatenate([corner @ np.linalg.matrix_power(quarter, turn) for turn in (0, 3, 2, 1)])
    tilt = np.array([[1.0, 1.0], [-1.0, 1.0]]) / np.sqrt(2.0)
    return np.asarray(plus @ tilt + np.array([0.5 * width_px, 0.66 * height_px]), np.float64)


def draw_arrows(frame: NumpyFrames, arrows: Sequence[Arrow]) -> NumpyFrames:
    """Returns a copy of an RGB frame with the arrows on it, later ones on top, each with a light rim."""
    canvas = np.ascontiguousarray(frame).copy()
    height, width = canvas.shape[:2]
    rim = max(2, round(min(height, width) / 90))
    for arrow in arrows:
        if isfinite(arrow.angle_deg):
            points = outline(arrow.angle_deg, width, height, arrow.width)
        elif arrow.crossed:
            points = cross(width, height)
        else:
            continue
        fixed = [np.round(points * 2**_SUBPIXEL_BITS).astype(np.int32)]
        cv2.polylines(canvas, fixed, isClosed=True, color=(255, 255, 255), thickness=rim, lineType=cv2.LINE_AA, shift=_SUBPIXEL_BITS)
        cv2.fillPoly(canvas, fixed, arrow.colour, cv2.LINE_AA, _SUBPIXEL_BITS)
    return canvas


def pair_picture(
    original: NumpyFrames,
    mutant: NumpyFrames,
    original_answer: float,
    mutant_answer: float,
    label_answer: float = nan,
    caption: str = "",
    panel_width_px: int = 480,
    unit: str = DEGREES,
    moved: float = 0.0,
) -> NumpyFrames:
    """Composes original | mutant with arrows, the answers and a verdict line as one RGB picture.

    The original bears the blue arrow (and the label's thin grey one), the mutant the blue and the red one. Answers that are no
    angles have no arrow; one that is not finite is a cross. moved: by how much the right answer moved with the camera; the original's
    answer and the label are the moved ones, and the original bears them as they were.
    """
    turns = unit == DEGREES
    label = Arrow(label_answer if turns else nan, LABEL_RGB, LABEL_WIDTH)
    before = Arrow(original_answer if turns else nan, ORIGINAL_RGB)
    after = Arrow(mutant_answer if turns else nan, MUTANT_RGB, crossed=not isfinite(mutant_answer))
    unmoved = [replace(arrow, angle_deg=arrow.angle_deg - moved) for arrow in (before, label)]
    left = draw_arrows(_panel(original, panel_width_px), unmoved)
    right = draw_arrows(_panel(mutant, panel_width_px), (before, after, label))
    tall = max(len(left), len(right))
    gap = np.full((tall, 6, 3), _INK, np.uint8)
    pictures = np.concatenate([_grown(left, tall), gap, _grown(right, tall)], axis=1)
    half = panel_width_px + 3
    text = f"label {answer(label_answer - moved, unit)}" if isfinite(label_answer) else ""
    right_now = f"right with the moved camera {answer(original_answer, unit)}" if moved else ""
    legend = np.concatenate(
        [
            _line(half, [("original", ORIGINAL_RGB), (answer(original_answer - moved, unit), _PAPER), (text, LABEL_RGB)]),
            _line(half, [("mutant", MUTANT_RGB), (answer(mutant_answer, unit), _PAPER), (right_now, ORIGINAL_RGB)]),
        ],
        axis=1,
    )
    words = caption or difference(original_answer, mutant_answer, unit)
    return np.concatenate([pictures, legend, _line(2 * half, [(words, _PAPER)])], axis=0)


def _panel(frame: NumpyFrames, width_px: int) -> NumpyFrames:
    height, width = frame.shape[:2]
    size = (width_px, max(1, round(height * width_px / width)))
    return np.asarray(cv2.resize(frame, size, interpolation=cv2.INTER_AREA if width > width_px else cv2.INTER_CUBIC), np.uint8)


def _grown(panel: NumpyFrames, height_px: int) -> NumpyFrames:
    return np.pad(panel, ((0, height_px - len(panel)), (0, 0), (0, 0)))


def _line(width_px: int, words: Sequence[tuple[str, Colour]], height_px: int = 30) -> NumpyFrames:
    """Writes words one after the other on a dark strip; drawn at twice the size, because OpenCV's letters are coarse."""
    strip = np.full((2 * height_px, 2 * width_px, 3), _INK, np.uint8)
    x = 20
    for text, colour in words:
        letters = (
            plain(text, 160)
            .replace("° ", " deg ")
            .replace("\N{NO-BREAK SPACE}", " ")
            .replace("×", "x")
            .replace("−", "-")
            .encode("ascii", "replace")
            .decode()
        )
        room = 2 * width_px - x - 10
        size = cv2.getTextSize(letters, cv2.FONT_HERSHEY_SIMPLEX, 1.0, 2)[0][0]
        scale = min(1.0, room / size) if size > 0 else 1.0
        if scale > 0.3:
            cv2.putText(strip, letters, (x, round(1.4 * height_px)), cv2.FONT_HERSHEY_SIMPLEX, scale, colour, 2, cv2.LINE_AA)
        x += round(size * scale) + 28
    return np.asarray(cv2.resize(strip, (width_px, height_px), interpolation=cv2.INTER_AREA), np.uint8)
