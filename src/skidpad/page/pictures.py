"""Findings as pictures for the page: which to show, how they are embedded, and the words that stand for them."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import isfinite, nan

import cv2
import numpy as np

from skidpad.core.errors import BadDriveError, BadRunError
from skidpad.core.images import NumpyFrames, encode
from skidpad.oracles.error import ErrorScale, times_tolerated
from skidpad.page.arrows import LABEL_WIDTH, cross, outline
from skidpad.page.wording import DEGREES, answer, how_far, moved_words, plain
from skidpad.runs.records import Record

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
