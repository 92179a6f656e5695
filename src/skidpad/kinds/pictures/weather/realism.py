"""Realism of learned weathers and of DeepTest's, side by side, on pictures that nothing was learned from.

Reference: TACTIC, section 4.3 (there by a questionnaire; here by `weather.realism`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import cv2
import numpy as np
import torch

from skidpad.core.errors import BadDriveError, BadParametersError, UnknownNameError
from skidpad.core.images import FloatArray, NumpyFrames, decode, encode, write_image
from skidpad.core.progress import Progress, silent
from skidpad.core.seeding import child_rng, child_seed
from skidpad.drives.opening import open_drive
from skidpad.statistics.intervals import Interval, wilson
from skidpad.stimuli.pictures import COMPOSITE, TRANSFORMS
from skidpad.stimuli.weather.classifier import READ_PX, SPLIT, ClassifierCard, WeatherClassifier, held_out
from skidpad.stimuli.weather.pretrained import weather_path
from skidpad.stimuli.weather.realism import RealismRow, common_bandwidth, measure
from skidpad.stimuli.weather.scenes import SUFFIXES, load_scenes, working_size
from skidpad.stimuli.weather.translation import Weather
from skidpad.stimuli.weather.validity import target_class

STYLES = ("random", "real")
_QUALITY = 90
_SHOWN = 6
_ALIKE = {"deeptest-fog": ("fog",), "deeptest-rain": ("rain", "wet")}
"""Classes that a transform's scenes belong to, the best first; no real set shows falling rain."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RealismSettings:
    """What is compared. weathers: FILE, NAME or FILE=CLASS. real: FOLDER or CLASS=FOLDER. transforms: DeepTest's, by name.

    frames: of the drive, evenly from its held-out parts. styles: `random` draws every scene's style from N(0, 1) as MUNIT does,
    `real` from the styles that real pictures have.
    """

    drive: str
    classifier: str
    weathers: tuple[str, ...] = ()
    real: tuple[str, ...] = ()
    transforms: tuple[str, ...] = COMPOSITE
    frames: int = 64
    styles: str = "random"
    seed: int = 0
    device: str = "cpu"

    def __post_init__(self) -> None:
        if self.frames < 1:
            raise BadParametersError(f"realism is measured on at least one frame; got frames = {self.frames}")
        if self.styles not in STYLES:
            raise UnknownNameError.among("way to draw styles", self.styles, STYLES)


@dataclass(frozen=True, slots=True)
class RealismLine:
    """A contender's row, with the interval of its share in the right class (Wilson, 95 %).

    nearer: how much of the way from the untranslated scenes to real ones it went, by mmd2: 1 is all of it, 0 none, below 0 away.
    """

    row: RealismRow
    share: Interval
    nearer: float | None


@dataclass(frozen=True, slots=True)
class Realism:
    """All contenders, and the classifier that judged them."""

    lines: tuple[RealismLine, ...]
    classifier: ClassifierCard
    split: str
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Real:
    """Real held-out scenes of one class."""

    label: str
    pictures: NumpyFrames
    features: FloatArray


@dataclass(frozen=True, slots=True)
class _Contender:
    name: str
    kind: str
    target: str
    scenes: NumpyFrames


def measure_realism(settings: RealismSettings, progress: Progress = silent, *, grid: Path | None = None) -> Realism:
    """Synthesises scenes from held-out frames and measures each contender against held-out real scenes.

    grid: where to write a picture of some of the scenes, a row for each contender.
    """
    classifier = WeatherClassifier.load(Path(settings.classifier), settings.device)
    sources = _sources(settings)
    real = {part.label: part for part in (_real(text, classifier) for text in settings.real)}
    contenders = list(_contenders(settings, classifier, sources, progress))
    if grid is not None:
        shown = np.linspace(0, len(sources) - 1, min(_SHOWN, len(sources))).round().astype(np.int64)
        rows_of = [sources, *(each.scenes for each in contenders)]
        write_image(grid, np.concatenate([np.concatenate(list(scenes[shown]), axis=1) for scenes in rows_of]))
    plain = _stored(sources)
    plain_features = classifier.features(plain)
    rows: list[RealismRow] = []
    for target in dict.fromkeys([*real, *(each.target for each in contenders)]):
        truth = real.get(target)
        bandwidth = None if truth is None else common_bandwidth(truth.features, plain_features)
        features = None if truth is None else truth.features
        seed = child_seed(settings.seed, "two-sample", target) % 2**32
        if truth is not None:
            # Real against real: one half stands for the synthesised scenes, and nothing should tell it from the other.
            half = truth.features[::2] if len(truth.features) >= 16 else None
            rows.append(
                measure(
                    f"real {target}", "real", target, truth.pictures[1::2], classifier, real_features=half, bandwidth=bandwidth, seed=seed
                )
            )
        parts = [_Contender("as it was", "untranslated", target, sources), *(each for each in contenders if each.target == target)]
        rows.extend(
            measure(
                each.name,
                each.kind,
                target,
                plain if each.scenes is sources else _stored(each.scenes),
                classifier,
                sources=plain,
                real_features=features,
                bandwidth=bandwidth,
                seed=seed,
            )
            for each in parts
        )
    return Realism(tuple(_line(row, rows) for row in rows), classifier.card, SPLIT, _notes(settings, real, contenders))


def _line(row: RealismRow, rows: list[RealismRow]) -> RealismLine:
    plain = next((each for each in rows if each.kind == "untranslated" and each.target == row.target), None)
    nearer = None
    if plain is not None and plain.against_real is not None and row.against_real is not None and plain.against_real.mmd2 > 0.0:
        nearer = 1.0 - max(row.against_real.mmd2, 0.0) / plain.against_real.mmd2
    return RealismLine(row, wilson(row.right, row.total), nearer)


def _sources(settings: RealismSettings) -> NumpyFrames:
    """Returns frames evenly from the held-out parts of a drive, or of a folder of pictures of one size."""
    folder = Path(settings.drive)
    files = sorted(path for path in folder.iterdir() if path.suffix.lower() in SUFFIXES) if folder.is_dir() else []
    if not files:
        drive = open_drive(settings.drive)
        chosen = drive.select(_spaced(len(drive), settings.frames))
        return np.concatenate([batch.frames for batch in chosen.batches(64)])
    read = [decode(files[place].read_bytes()) for place in _spaced(len(files), settings.frames)]
    whole = [picture for picture in read if picture is not None]
    if not whole or len({picture.shape for picture in whole}) > 1:
        raise BadDriveError(
            f"the pictures of {settings.drive!r} must be of one size, as a drive's frames are; give a drive or another folder"
        )
    return np.stack(whole)


def _spaced(count: int, wanted: int) -> list[int]:
    places = np.flatnonzero(held_out(count))
    chosen = np.unique(np.linspace(0, len(places) - 1, min(wanted, len(places))).round().astype(np.int64))
    return [int(place) for place in places[chosen]]


def _real(text: str, classifier: WeatherClassifier) -> _Real:
    label, equals, folder = text.rpartition("=")
    label = label if equals else Path(folder).name
    classifier.card.place(label)
    scenes = load_scenes(folder, READ_PX, 1)
    chosen = [scenes.pictures[place].numpy() for place in np.flatnonzero(held_out(len(scenes))).tolist()]
    # Pictures of one set may differ in shape; the classifier takes squares.
    pictures = np.stack([_square(np.asarray(picture, np.uint8)) for picture in chosen])
    return _Real(label, pictures, classifier.features(pictures))


def _contenders(settings: RealismSettings, classifier: WeatherClassifier, sources: NumpyFrames, progress: Progress) -> Iterator[_Contender]:
    for text in settings.weathers:
        file, _, label = text.partition("=")
        weather = Weather.load(weather_path(file), settings.device)
        card = weather.card
        target = target_class(classifier.card, card, label)
        kind = f"{card.method.value}, rendered" if card.rendered else card.method.value
        yield _Contender(card.name, kind, target, _translated(weather, sources, settings, progress))
    for name in settings.transforms:
        wanted = _ALIKE.get(name, (name,))
        known = [label for label in wanted if label in classifier.classes]
        if known:
            yield _Contender(name, "transform", known[0], _transformed(name, sources, settings.seed))


def _translated(weather: Weather, sources: NumpyFrames, settings: RealismSettings, progress: Progress) -> NumpyFrames:
    """Translates every source under a style of its own."""
    rng = child_rng(settings.seed, "realism styles", weather.card.name)
    scenes = np.empty_like(sources)
    for place in range(len(sources)):
        style: torch.Tensor | None = None
        if weather.style_size:
            drawn = rng.standard_normal(weather.style_size)
            if settings.styles == "real" and weather.card.styles is not None:
                drawn = np.array(weather.card.styles.mean) + np.array(weather.card.styles.deviation) * drawn
            style = torch.from_numpy(drawn.astype(np.float32))
        scenes[place] = weather.translate(sources[place : place + 1], style)[0]
        progress(place + 1, len(sources), weather.card.name)
    return scenes


def _transformed(name: str, sources: NumpyFrames, seed: int) -> NumpyFrames:
    """Applies a transform of DeepTest, with parameters drawn for every scene from its grid."""
    transform = TRANSFORMS.get(name)()
    rng = child_rng(seed, "realism", name)
    return np.concatenate([transform.apply(sources[place : place + 1], transform.space.pick(rng)) for place in range(len(sources))])


def _stored(scenes: NumpyFrames) -> NumpyFrames:
    """Gives scenes the same way to the classifier as real ones have: a JPEG file, read at the same size."""
    made = []
    for scene in scenes:
        read = decode(encode(scene, ".jpg", _QUALITY))
        made.append(_square(scene if read is None else read))
    return np.stack(made)


def _square(picture: NumpyFrames) -> NumpyFrames:
    height, width = working_size(picture.shape[0], picture.shape[1], READ_PX, 1)
    small = cv2.resize(picture, (width, height), interpolation=cv2.INTER_AREA)
    return np.asarray(cv2.resize(small, (READ_PX, READ_PX), interpolation=cv2.INTER_AREA), np.uint8)


def _notes(settings: RealismSettings, real: dict[str, _Real], contenders: list[_Contender]) -> tuple[str, ...]:
    notes = [f"frames and real pictures are held out from the classifier: {SPLIT}; a weather may have learned from them"]
    if any(each.name == "deeptest-rain" and each.target == "wet" for each in contenders):
        notes.append("no real set shows falling rain: DeepTest's rain counts as right where it is called wet")
    missing = sorted({each.target for each in contenders} - set(real))
    if missing:
        notes.append(f"no real pictures were given of {', '.join(missing)}: no two-sample test")
    if settings.styles == "real":
        notes.append("styles were drawn as real pictures of the weather have them")
    return tuple(notes)
