"""Realism of learned weathers and of DeepTest's, side by side, on pictures that nothing was learned from.

Beside it what a weather does to the road and to a drive (`road_kept`).

Reference: TACTIC, section 4.3 (there by a questionnaire; here by `weather.realism`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import count as counting
from pathlib import Path

import numpy as np
import torch

from skidpad.core.errors import BadDriveError, BadParametersError, UnknownNameError
from skidpad.core.images import FloatArray, NumpyFrames, decode, write_image
from skidpad.core.progress import Progress, silent
from skidpad.core.seeding import child_rng, child_seed
from skidpad.drives.opening import open_drive
from skidpad.kinds.pictures.weather.road_kept import SameDrive, recorded_roads, road_judges, same_drive
from skidpad.statistics.intervals import Interval, wilson
from skidpad.stimuli.pictures import COMPOSITE, TRANSFORMS
from skidpad.stimuli.registry import conditions_of
from skidpad.stimuli.weather.classifier import READ_PX, SPLIT, ClassifierCard, WeatherClassifier, held_out
from skidpad.stimuli.weather.files import weather_file
from skidpad.stimuli.weather.pretrained import weather_path
from skidpad.stimuli.weather.realism import RealismRow, as_square, as_stored, common_bandwidth, measure, nearer_to_real
from skidpad.stimuli.weather.scenes import SUFFIXES, load_scenes
from skidpad.stimuli.weather.translation import Weather
from skidpad.stimuli.weather.validity import target_class

STYLES = ("random", "real")
CLIP_FRAMES = 5
_SHOWN = 6
_ALIKE = {"deeptest-fog": ("fog",), "deeptest-rain": ("rain", "wet")}
"""Classes that a transform's scenes belong to, the best first; no real set shows falling rain."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RealismSettings:
    """What is compared. weathers: FILE, NAME, FILE=CLASS or, with stimuli on top, FILE+STIMULUS=CLASS. real: FOLDER or CLASS=FOLDER.

    transforms: DeepTest's, by name. frames: of the drive, evenly from its held-out parts. clips: of CLIP_FRAMES neighbouring frames from
    there, each under one style, for flicker. styles: `random` draws every scene's style from N(0, 1) as MUNIT does, `real` from the styles
    that real pictures have. judges: weights of networks that tell where the road is, by the mean of what they say; the referee's where
    empty. The network that weathers learn from is refused, for they have learned to please it.
    """

    drive: str
    classifier: str
    weathers: tuple[str, ...] = ()
    real: tuple[str, ...] = ()
    transforms: tuple[str, ...] = COMPOSITE
    frames: int = 64
    clips: int = 4
    styles: str = "random"
    judges: tuple[str, ...] = ()
    seed: int = 0
    device: str = "cpu"

    def __post_init__(self) -> None:
        if self.frames < 1 or self.clips < 0:
            raise BadParametersError(
                f"realism is measured on at least one frame, and on no clips or more; got frames = {self.frames}, clips = {self.clips}"
            )
        if self.styles not in STYLES:
            raise UnknownNameError.among("way to draw styles", self.styles, STYLES)


@dataclass(frozen=True, slots=True)
class RealismLine:
    """A contender's row, with the interval of its share in the right class (Wilson, 95 %).

    nearer: how much of the way from the untranslated scenes to real ones it went, by mmd2: 1 is all of it, 0 none, below 0 away.
    drive: None for real scenes, which are of other places.
    """

    row: RealismRow
    share: Interval
    nearer: float | None
    drive: SameDrive | None = None


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
    """Scenes that were made; clips: the recorded ones, each with what was made of it."""

    name: str
    kind: str
    target: str
    scenes: NumpyFrames
    clips: tuple[tuple[NumpyFrames, NumpyFrames], ...]


def measure_realism(settings: RealismSettings, progress: Progress = silent, *, grid: Path | None = None) -> Realism:
    """Synthesises scenes from held-out frames and measures each contender against held-out real scenes.

    grid: where to write a picture of some of the scenes, a row for each contender.
    """
    classifier = WeatherClassifier.load(Path(settings.classifier), settings.device)
    judges = road_judges(settings.judges, settings.device)
    sources, clips = _sources(settings), _clips(settings)
    real = {part.label: part for part in (_real(text, classifier) for text in settings.real)}
    contenders = list(_contenders(settings, classifier, sources, clips, progress))
    if grid is not None:
        shown = np.linspace(0, len(sources) - 1, min(_SHOWN, len(sources))).round().astype(np.int64)
        rows_of = [sources, *(each.scenes for each in contenders)]
        write_image(grid, np.concatenate([np.concatenate(list(scenes[shown]), axis=1) for scenes in rows_of]))
    plain = as_stored(sources)
    plain_features = classifier.features(plain)
    rows: list[tuple[RealismRow, SameDrive | None]] = []
    recorded = recorded_roads(judges, sources)
    same = same_drive(judges, recorded, sources, [(clip, clip) for clip in clips], settings.device)
    drives = {id(each): same_drive(judges, recorded, each.scenes, each.clips, settings.device) for each in contenders}
    for target in dict.fromkeys([*real, *(each.target for each in contenders)]):
        truth = real.get(target)
        bandwidth = None if truth is None else common_bandwidth(truth.features, plain_features)
        features = None if truth is None else truth.features
        seed = child_seed(settings.seed, "two-sample", target) % 2**32
        if truth is not None:
            # Real against real: one half stands for the synthesised scenes, and nothing should tell it from the other.
            half = truth.features[::2] if len(truth.features) >= 16 else None
            others = measure(
                f"real {target}", "real", target, truth.pictures[1::2], classifier, real_features=half, bandwidth=bandwidth, seed=seed
            )
            rows.append((others, None))
        parts = [_Contender("as it was", "untranslated", target, sources, ()), *(each for each in contenders if each.target == target)]
        for each in parts:
            row = measure(
                each.name,
                each.kind,
                target,
                plain if each.scenes is sources else as_stored(each.scenes),
                classifier,
                sources=plain,
                real_features=features,
                bandwidth=bandwidth,
                seed=seed,
            )
            rows.append((row, drives.get(id(each), same)))
    return Realism(
        tuple(_line(row, drive, rows) for row, drive in rows), classifier.card, SPLIT, _notes(settings, real, contenders, len(clips))
    )


def _line(row: RealismRow, drive: SameDrive | None, rows: list[tuple[RealismRow, SameDrive | None]]) -> RealismLine:
    plain = next((each for each, _ in rows if each.kind == "untranslated" and each.target == row.target), None)
    tests = (row.against_real, None if plain is None else plain.against_real)
    nearer = None if tests[0] is None or tests[1] is None else nearer_to_real(tests[0], tests[1])
    return RealismLine(row, wilson(row.right, row.total), nearer, drive)


def _sources(settings: RealismSettings) -> NumpyFrames:
    """Returns frames evenly from the held-out parts of a drive, or of a folder of pictures of one size."""
    return _frames(settings.drive, lambda count: _spaced(settings.drive, count, settings.frames))


def _clips(settings: RealismSettings) -> tuple[NumpyFrames, ...]:
    """Returns clips of neighbouring frames, evenly from the held-out parts."""

    def places(count: int) -> list[int]:
        marks = held_out(count)
        starts = [place for place in range(count - CLIP_FRAMES + 1) if marks[place : place + CLIP_FRAMES].all()]
        chosen = [starts[place] for place in np.linspace(0, len(starts) - 1, min(settings.clips, len(starts))).round().astype(int)]
        return [start + step for start in chosen for step in range(CLIP_FRAMES)]

    frames = _frames(settings.drive, places)
    return tuple(frames[start : start + CLIP_FRAMES] for start in range(0, len(frames) - CLIP_FRAMES + 1, CLIP_FRAMES))


def _frames(text: str, places: Callable[[int], list[int]]) -> NumpyFrames:
    """Reads the frames of a drive, or of a folder of pictures of one size, at the places that are chosen among so many."""
    folder = Path(text)
    files = sorted(path for path in folder.iterdir() if path.suffix.lower() in SUFFIXES) if folder.is_dir() else []
    if not files:
        drive = open_drive(text)
        chosen = places(len(drive))
        parts = [batch.frames for batch in drive.select(chosen).batches(64)] if chosen else []
        return np.concatenate(parts) if parts else np.zeros((0, *drive.frame_shape), np.uint8)
    read = [decode(files[place].read_bytes()) for place in places(len(files))]
    whole = [picture for picture in read if picture is not None]
    if read and (not whole or len({picture.shape for picture in whole}) > 1):
        raise BadDriveError(f"the pictures of {text!r} must be of one size, as a drive's frames are; give a drive or another folder")
    return np.stack(whole) if whole else np.zeros((0, 1, 1, 3), np.uint8)


def _spaced(origin: str, count: int, wanted: int) -> list[int]:
    places = np.flatnonzero(held_out(count))
    if not len(places):
        least = next(number for number in counting(1) if held_out(number).any())
        raise BadDriveError(
            f"{origin!r} has {count} frames, and realism is measured on held-out ones: at least {least} are needed for one to be held out; "
            "give a longer drive"
        )
    chosen = np.unique(np.linspace(0, len(places) - 1, min(wanted, len(places))).round().astype(np.int64))
    return [int(place) for place in places[chosen]]


def _real(text: str, classifier: WeatherClassifier) -> _Real:
    label, equals, folder = text.rpartition("=")
    label = label if equals else Path(folder).name
    classifier.card.place(label)
    scenes = load_scenes(folder, READ_PX, 1)
    chosen = [scenes.pictures[place].numpy() for place in np.flatnonzero(held_out(len(scenes))).tolist()]
    # Pictures of one set may differ in shape; the classifier takes squares.
    pictures = np.stack([as_square(np.asarray(picture, np.uint8)) for picture in chosen])
    return _Real(label, pictures, classifier.features(pictures))


@dataclass(frozen=True, slots=True)
class _Asked:
    """A weather as it was asked for: its file or name, its class where that was said, and the stimuli that act on its pictures."""

    file: str
    label: str
    then: str


def _asked(text: str) -> _Asked:
    """Takes FILE, FILE=CLASS or FILE+STIMULUS=CLASS apart; a file may have a + in its name."""
    parts = re.split(r"=(?![^()]*\))", text, maxsplit=1)
    name, label = parts[0].removeprefix("weather:"), parts[1] if len(parts) > 1 else ""
    if "+" not in name or weather_file(Path(name), ".toml").is_file():
        return _Asked(name, label, "")
    file, _, then = name.partition("+")
    if not then.strip():
        raise BadParametersError(f"name a stimulus after the +, as {file}+fog(visibility_m=200), or leave out the +; got {text!r}")
    return _Asked(file, label, then)


def _contenders(
    settings: RealismSettings, classifier: WeatherClassifier, sources: NumpyFrames, clips: Sequence[NumpyFrames], progress: Progress
) -> Iterator[_Contender]:
    scenes = [sources[place : place + 1] for place in range(len(sources))]
    for text in settings.weathers:
        asked = _asked(text)
        weather = Weather.load(weather_path(asked.file), settings.device)
        card = weather.card
        target = target_class(classifier.card, card, asked.label)
        kind = f"{card.method.value}{', rendered' if card.rendered else ''}{card.drawn_words}"
        rngs = [child_rng(settings.seed, part, card.name) for part in ("realism styles", "styles of clips")]
        made, moving = (_translated(weather, some, rng, settings, progress) for some, rng in zip((scenes, clips), rngs, strict=True))
        name = card.name
        if asked.then:
            ((condition,), stimuli) = conditions_of((asked.then,))
            name = f"{card.name}+{condition.text}"
            made, moving = (
                [condition.recipe(stimuli, settings.seed, number).apply(clip, stimuli) for number, clip in enumerate(some)]
                for some in (made, moving)
            )
        yield _Contender(name, kind, target, np.concatenate(made), tuple(zip(clips, moving, strict=True)))
    for name in settings.transforms:
        wanted = _ALIKE.get(name, (name,))
        known = [label for label in wanted if label in classifier.classes]
        if known:
            rngs = [child_rng(settings.seed, part, name) for part in ("realism", "clips")]
            made, moving = (_transformed(name, some, rng) for some, rng in zip((scenes, clips), rngs, strict=True))
            yield _Contender(name, "transform", known[0], np.concatenate(made), tuple(zip(clips, moving, strict=True)))


def _translated(
    weather: Weather, clips: Sequence[NumpyFrames], rng: np.random.Generator, settings: RealismSettings, progress: Progress
) -> list[NumpyFrames]:
    """Translates every clip under a style of its own."""
    made: list[NumpyFrames] = []
    for clip in clips:
        style: torch.Tensor | None = None
        if weather.style_size:
            drawn = rng.standard_normal(weather.style_size)
            if settings.styles == "real" and weather.card.styles is not None:
                drawn = np.array(weather.card.styles.mean) + np.array(weather.card.styles.deviation) * drawn
            style = torch.from_numpy(drawn.astype(np.float32))
        made.append(weather.translate(clip, style))
        progress(len(made), len(clips), weather.card.name)
    return made


def _transformed(name: str, clips: Sequence[NumpyFrames], rng: np.random.Generator) -> list[NumpyFrames]:
    """Applies a transform of DeepTest, with parameters drawn for every clip from its grid."""
    transform = TRANSFORMS.get(name)()
    return [transform.apply(clip, transform.space.pick(rng)) for clip in clips]


def _notes(settings: RealismSettings, real: dict[str, _Real], contenders: list[_Contender], clips: int) -> tuple[str, ...]:
    notes = [f"frames and real pictures are held out from the classifier: {SPLIT}; a weather may have learned from them"]
    if any(each.name == "deeptest-rain" and each.target == "wet" for each in contenders):
        notes.append("no real set shows falling rain: DeepTest's rain counts as right where it is called wet")
    missing = sorted({each.target for each in contenders} - set(real))
    if missing:
        notes.append(f"no real pictures were given of {', '.join(missing)}: no two-sample test")
    if settings.clips and not clips:
        notes.append(f"no held-out part has {CLIP_FRAMES} neighbouring frames: flicker was not measured")
    if settings.styles == "real":
        notes.append("styles were drawn as real pictures of the weather have them")
    return tuple(notes)
