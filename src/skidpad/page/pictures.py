"""Findings as pictures for the page: which to show, how they are embedded, the words that stand for them, and their arrows.

A steering arrow has one geometry, drawn by OpenCV into pictures and as SVG over the page's pictures. It starts at the bottom centre of the
frame and leans to the side to which the car would steer: positive angles lean left, as in Udacity's recordings. Every arrow leans by the
angle itself, so that pictures of the page, the report and the tests can be compared.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import isfinite, nan, radians

import cv2
import numpy as np

from skidpad.core.errors import BadDriveError, BadRunError
from skidpad.core.images import FloatArray, NumpyFrames, encode
from skidpad.oracles.error import ErrorScale, times_tolerated
from skidpad.page.wording import DEGREES, answer, difference, how_far, moved_words, plain
from skidpad.runs.records import Record

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
    left = draw_arrows(_scaled(original, panel_width_px), unmoved)
    right = draw_arrows(_scaled(mutant, panel_width_px), (before, after, label))
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


def _scaled(frame: NumpyFrames, width_px: int) -> NumpyFrames:
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


MAX_WIDTH_PX = 480
MAX_HEIGHT_PX = 480
JPEG_QUALITY = 85
ALREADY = "the original already breaks it"
"""Said of a finding whose frame is answered beyond the tolerance before anything is changed."""


@dataclass(frozen=True, slots=True, eq=False)
class PicturePair:
    """One finding to look at: the frame, its mutant and what was answered.

    original, mutant: (height, width, 3) uint8 RGB, sizes may differ. Answers are in `unit`; degrees are drawn as arrows, positive steers
    left. NaN is "no finite answer", and for the label "no label". excess: above 1 is a finding; `scale` says what it counts.
    already_broken: whether the original breaks the relation too. moved: by how much the right answer moved with the camera, in `unit`; the
    original's answer and the label are then the moved ones, which the mutant's is held against.
    """

    case_id: str
    frame_id: str
    recipe: str
    original: NumpyFrames
    mutant: NumpyFrames
    original_answer: float
    mutant_answer: float
    excess: float
    label_answer: float = nan
    unit: str = DEGREES
    scale: ErrorScale = ErrorScale.ERRORS
    replay: str = ""
    already_broken: bool = False
    moved: float = 0.0


def drawn(records: Sequence[Record], draw: Callable[[Record], PicturePair]) -> tuple[tuple[PicturePair, ...], tuple[str, ...]]:
    """Draws findings; of those whose frames can no longer be read it says so, for the page to say in their place."""
    pairs, reasons = [], []
    for record in records:
        try:
            pairs.append(draw(record))
        except (BadRunError, BadDriveError) as error:
            reasons.append(str(error))
    words = f"{len(reasons)} of the {len(records)} pictures cannot be drawn: {reasons[0]}" if reasons else ""
    return tuple(pairs), ((plain(words, 600),) if words else ())


@dataclass(frozen=True, slots=True)
class Overlay:
    """One arrow over a picture: the CSS class that colours it, and the polygon's points."""

    kind: str
    points: str


@dataclass(frozen=True, slots=True)
class Panel:
    """One embedded picture with its arrows; `alt` says both in words."""

    heading: str
    answer: str
    kind: str
    source: str
    alt: str
    width_px: int
    height_px: int
    arrows: tuple[Overlay, ...]


@dataclass(frozen=True, slots=True)
class PairCard:
    """One finding as the page shows it, worded. is_bad: whether the badge tells of a failure; at a limit a frame may pass."""

    case_id: str
    frame_id: str
    recipe: str
    badge: str
    difference: str
    label: str
    replay: str
    panels: tuple[Panel, Panel]
    mark: str = ""
    tag: str = ""
    is_bad: bool = True


def cards(pairs: Sequence[PicturePair]) -> tuple[PairCard, ...]:
    """Embeds pairs as cards."""
    return tuple(map(_card, pairs))


def embed(frame: NumpyFrames) -> tuple[str, int, int]:
    """Returns an RGB frame as a JPEG data URI, scaled down to fit the page, with its width and height."""
    height, width = frame.shape[:2]
    scale = min(1.0, MAX_WIDTH_PX / width, MAX_HEIGHT_PX / height)
    if scale < 1.0:
        size = (max(1, round(width * scale)), max(1, round(height * scale)))
        frame = np.asarray(cv2.resize(frame, size, interpolation=cv2.INTER_AREA), np.uint8)
    data = b64encode(encode(frame, ".jpg", JPEG_QUALITY)).decode("ascii")
    return f"data:image/jpeg;base64,{data}", frame.shape[1], frame.shape[0]


def _card(pair: PicturePair) -> PairCard:
    gap = how_far(pair.original_answer, pair.mutant_answer, pair.label_answer, pair.unit, pair.scale)
    label = f"label {answer(pair.label_answer, pair.unit)}" if isfinite(pair.label_answer) else "no label"
    badge = times_tolerated(pair.excess, pair.scale)
    recipe = plain(pair.recipe, 240)
    on_original = answer(pair.original_answer - pair.moved, pair.unit)
    moved = moved_words(pair.original_answer, pair.moved, pair.unit)
    before = f"Original frame {plain(pair.frame_id, 80)}; the subject {_said(pair.original_answer - pair.moved, pair.unit)}; {label}."
    after = f"The same frame after {recipe}; the subject {_said(pair.mutant_answer, pair.unit)}, on the original {on_original}."
    grey, blue, red = ("label", pair.label_answer), ("original", pair.original_answer), ("mutant", pair.mutant_answer)
    unmoved = tuple((kind, angle - pair.moved) for kind, angle in (grey, blue))
    return PairCard(
        plain(pair.case_id, 80),
        plain(pair.frame_id, 120),
        recipe,
        badge,
        gap if gap != badge else "",
        label,
        plain(pair.replay, 1000),
        (
            _panel("Original", pair.original, before, unmoved, pair.unit),
            _panel("Mutant", pair.mutant, f"{after} {moved}".strip(), (grey, blue, red), pair.unit),
        ),
        mark=" · ".join(filter(None, (moved, ALREADY if pair.already_broken else ""))),
        is_bad=not pair.excess <= 1.0,  # what is not judged is not called good
    )


def _said(value: float, unit: str) -> str:
    return f"{'answers' if isfinite(value) else 'gives'} {answer(value, unit)}"


def _panel(heading: str, frame: NumpyFrames, alt: str, arrows: Sequence[tuple[str, float]], unit: str) -> Panel:
    source, width, height = embed(frame)
    kind, said = arrows[-1]
    # a number that is no angle has no side to lean to; a missing answer is crossed out whatever it would have been
    drawn = [(kind, angle) for kind, angle in arrows if unit == DEGREES or (kind == "mutant" and not isfinite(angle))]
    # the label is thin and lies on top, since angles that are nearly the same would hide it
    drawn.sort(key=lambda arrow: arrow[0] == "label")
    overlays = tuple(overlay(kind, angle, width, height) for kind, angle in drawn if isfinite(angle) or kind == "mutant")
    return Panel(heading, answer(said, unit), kind, source, alt, width, height, overlays)


def overlay(kind: str, angle_deg: float, width: int, height: int) -> Overlay:
    """Returns the arrow of an angle over a picture of this size; a cross where there is no finite one."""
    thickness = LABEL_WIDTH if kind == "label" else 1.0
    points = outline(angle_deg, width, height, thickness) if isfinite(angle_deg) else cross(width, height)
    return Overlay(kind, " ".join(f"{x:.1f},{y:.1f}" for x, y in points))


_WIDTH_PX = 240
_QUALITY = 82


@dataclass(frozen=True, slots=True)
class GalleryPicture:
    """One embedded picture; `alt` says what it shows."""

    source: str
    alt: str
    width_px: int
    height_px: int


@dataclass(frozen=True, slots=True)
class GalleryRow:
    """The scenes under one condition; `note` stands under its name."""

    label: str
    note: str
    pictures: tuple[GalleryPicture, ...]


@dataclass(frozen=True, slots=True)
class Gallery:
    """Rows of pictures with the words around them."""

    title: str
    caption: str
    rows: tuple[GalleryRow, ...]


def gallery_row(label: str, note: str, frames: Sequence[NumpyFrames]) -> GalleryRow:
    """Embeds frames, (height, width, 3) each, of any sizes."""
    name = plain(label, 80)
    pictures = tuple(_embedded(frame, f"{name}, scene {number}") for number, frame in enumerate(frames, 1))
    return GalleryRow(name, plain(note, 160), pictures)


def _embedded(frame: NumpyFrames, alt: str) -> GalleryPicture:
    height, width = frame.shape[:2]
    size = (min(width, _WIDTH_PX), max(1, round(height * min(width, _WIDTH_PX) / width)))
    small = frame if size == (width, height) else np.asarray(cv2.resize(frame, size, interpolation=cv2.INTER_AREA), np.uint8)
    data = b64encode(encode(np.ascontiguousarray(small), ".jpg", _QUALITY)).decode("ascii")
    return GalleryPicture(f"data:image/jpeg;base64,{data}", alt, size[0], size[1])
