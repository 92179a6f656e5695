"""skidpad weather train: learn a weather from two sets of pictures."""

from __future__ import annotations

import shlex
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from hashlib import sha256
from math import isfinite
from pathlib import Path
from threading import current_thread, main_thread
from types import FrameType
from typing import TYPE_CHECKING, Annotated

import typer

from skidpad.cli.runs import Device, Json, Seed
from skidpad.core.errors import BadParametersError, UnknownNameError
from skidpad.page.terminal import ERR, facts, print_json, progress_bar, say, tell, warn

if TYPE_CHECKING:
    from skidpad.core.progress import Progress
    from skidpad.kinds.pictures.weather.training_page import TrainingView
    from skidpad.stimuli.weather.files import WeatherCard
    from skidpad.stimuli.weather.gauge import RealismGauge, RoadRow
    from skidpad.stimuli.weather.learning import Lesson
    from skidpad.stimuli.weather.settings import WeatherSettings
    from skidpad.stimuli.weather.training import Guide, Training


def train(
    source: Annotated[str, typer.Option("--from", help="A drive, or a folder of pictures, without the weather.")],
    target: Annotated[str, typer.Option("--to", help="A folder of pictures, or a drive, in the weather.")],
    out: Annotated[Path, typer.Option(help="Where to write OUT.safetensors, OUT.toml and OUT.html.")],
    method: Annotated[str, typer.Option(help="munit: many looks of the weather, one for each style; unit: one look.")] = "munit",
    preset: Annotated[
        str, typer.Option(help="road: keeps the road where it is, for a GPU; paper: as published; small: 64 px, for CPUs.")
    ] = "road",
    steps: Annotated[int | None, typer.Option(help="Steps of the training; the preset's by default.")] = None,
    batch_size: Annotated[int | None, typer.Option(help="Pictures of each weather per step.")] = None,
    size: Annotated[int | None, typer.Option(help="Shorter side of pictures in pixels, while learning and translating.")] = None,
    crop: Annotated[int | None, typer.Option(help="Side of the squares that are cut from pictures; at most the size.")] = None,
    filters: Annotated[
        int | None, typer.Option(help="Filters of the first convolution; half as many make the files a quarter as large.")
    ] = None,
    contrast: Annotated[
        float | None, typer.Option(help="Weight of a loss against scenes that come out as their own negative; not in the papers.")
    ] = None,
    road: Annotated[
        float | None, typer.Option(help="Weight of a loss that keeps the road where it is; not in the papers. 0 turns it off.")
    ] = None,
    alike: Annotated[
        float | None, typer.Option(help="Share of the weather's pictures to leave out because their road lies elsewhere.")
    ] = None,
    styles_of: Annotated[
        str, typer.Option(help="Pictures whose looks `weather test` draws from, as the darkest of --to; by default all of --to.")
    ] = "",
    detail: Annotated[
        float | None, typer.Option(help="Share of the detail that is the original's, 0 to 1; not in the papers. 0 is all the network's.")
    ] = None,
    drawn: Annotated[
        str,
        typer.Option(
            metavar="TEXT",
            help="Conditions to draw on top of the weather's pictures wherever it is used, as rain(mm_per_h=5)+lens-drops(share=0.06).",
        ),
    ] = "",
    classifier: Annotated[
        str,
        typer.Option(
            metavar="FILE[=CLASS]",
            help="A classifier from `skidpad weather classifier` that pictures learn to convince that they show CLASS (by default OUT).",
        ),
    ] = "",
    named: Annotated[float, typer.Option(help="With --classifier: weight of the loss by it; not in the papers.")] = 1.0,
    rendered: Annotated[
        bool | None, typer.Option(help="Say that the target pictures were rendered; by default what their folder says.")
    ] = None,
    limit: Annotated[int, typer.Option(help="Most pictures to read of each set, evenly spaced; they are kept in memory.")] = 4000,
    seed: Seed = 0,
    device: Device = "cpu",
    json: Json = False,
) -> None:
    """Learn a weather by UNIT or MUNIT; after a stop or a kill, the same command resumes.

    OUT.html grows as training goes on: losses, and the same scenes translated. Look at it before testing under the weather. The card says
    in which share of them the road was lost at the end.
    """
    from skidpad.kinds.pictures.weather.training_page import TrainingView
    from skidpad.referee.network import load_teacher
    from skidpad.stimuli.weather.drawn import DrawnConditions
    from skidpad.stimuli.weather.learning import Lesson, check_out, checkpoint_file, learn
    from skidpad.stimuli.weather.scenes import load_scenes
    from skidpad.stimuli.weather.settings import Method
    from skidpad.subjects.network_subject import usable_device

    settings = _settings(preset, method, steps, batch_size, size, crop, seed, device)
    if filters is not None:
        settings = replace(settings, sizes=replace(settings.sizes, filters=filters))
    weights = {name: value for name, value in (("contrast", contrast), ("road", road)) if value is not None}
    settings = replace(
        settings,
        weights=replace(settings.weights, **weights),
        alike=settings.alike if alike is None else alike,
        detail=settings.detail if detail is None else detail,
    )
    if styles_of and settings.method is not Method.MUNIT:
        raise BadParametersError("--styles-of names pictures for MUNIT's styles; a weather by UNIT has one look and no styles")
    drawn = str(DrawnConditions(drawn)) if drawn else ""
    usable_device(device)
    guide = _guide(classifier, out, device)
    if guide is not None:
        settings = replace(settings, weights=replace(settings.weights, named=named))
    check_out(out)
    command = shlex.join(["skidpad", *sys.argv[1:]])
    with progress_bar("reading pictures", "nothing was learned yet") as progress:
        stride = settings.sizes.stride
        scenes = [load_scenes(text, settings.size_px, stride, limit, progress) for text in (source, target, styles_of) if text]
    is_rendered = _is_rendered(target) if rendered is None else rendered
    lesson = Lesson(scenes[0], scenes[1], source, target, is_rendered, scenes[2] if styles_of else None, styles_of)
    for warning in lesson.warnings(settings.size_px):
        warn(warning)
    gauge = _gauge(lesson, settings, guide)
    controls = None if gauge is None else gauge.controls

    def seen(training: Training, *, finished: bool) -> TrainingView:
        return TrainingView(_page(out).stem, lesson, training, command, finished, controls, drawn)

    def watch(training: Training) -> None:
        if gauge is not None:
            training.realism.append(gauge.measure(training.step, training.kept_weights()))
        row = _road_row(training)
        if row.ious:  # else no sampled picture shows a road
            training.roads.append(row)
        if row.is_lost and 2 * row.step >= settings.steps:  # before that no picture is worth much
            warn(f"after {row.step} steps the road is no longer where it was in {row}; look at {_page(out)}")
        _write_page(out, seen(training, finished=False))

    with progress_bar(f"learning {out.name}", f"go on with the same command: {command}") as progress, stopping() as stop:
        card, training = learn(
            lesson,
            settings,
            out,
            progress=progress if ERR.is_terminal else _in_lines(settings.steps),
            resumed=lambda step: tell(f"going on from {checkpoint_file(out)}, step {step} of {settings.steps}"),
            watch=watch,
            stop=stop,
            teacher=load_teacher() if settings.weights.road or settings.alike else None,
            guide=guide,
            drawn=drawn,
        )
    view = seen(training, finished=True)
    _write_page(out, view)
    if card.loses_road:
        warn(f"the road is lost in {training.roads[-1]}: do not test under this weather; train for longer or with a larger --road")
    if json:
        print_json(_payload(out, card, view))
    else:
        _show(out, card, view)


def _payload(out: Path, card: WeatherCard, view: TrainingView) -> dict[str, object]:
    names = ("name", "rendered", "drawn", "steps", "batch_size", "size_px", "crop_px", "source_sha256", "target_sha256", "weights_sha256")
    training = view.training
    shown: dict[str, object] = {"method": card.method.value, **{name: getattr(card, name) for name in names}}
    shown |= {"weather": str(out), "report": str(_page(out)), "losses": training.curve[-1].losses, "card_file_sha256": _card_hash(out)}
    if training.roads:
        shown["road_iou"] = training.roads[-1].mean_iou
        shown["road_lost"] = card.road_lost
    if view.controls is not None:
        shown["realism"] = {**asdict(view.controls), "steps": [asdict(point) for point in training.realism]}
    return shown


def _show(out: Path, card: WeatherCard, view: TrainingView) -> None:
    lesson, training, controls = view.lesson, view.training, view.controls
    rows: list[tuple[str, object]] = [
        ("method", card.method.value.upper()),
        ("pictures", f"{len(lesson.source)} without the weather, {len(lesson.target)} {'rendered ones ' if card.rendered else ''}in it"),
        ("broken pictures", f"{lesson.source.broken} and {lesson.target.broken}" if lesson.source.broken or lesson.target.broken else None),
        ("steps", f"{card.steps} of {card.batch_size} pictures"),
        ("size", f"{card.size_px} px, squares of {card.crop_px} px"),
        ("losses", ", ".join(f"{name} {value:.3g}" for name, value in training.curve[-1].losses.items())),
    ]
    if training.roads:
        last = training.roads[-1]
        rows.append(("road", f"drivable area kept to {last.mean_iou:.2f} (IoU, by the referee); lost in {last}"))
    if controls is not None and training.realism:
        told = training.realism[-1].told
        rows.append(
            (
                "told from its pictures",
                f"{100 * told:.0f} % of {2 * controls.pictures} pictures; its pictures from each other {100 * controls.real.told:.0f} %",
            )
        )
    facts(f"weather {card.name}", rows)
    if card.batch_size != training.settings.batch_size:
        asked = training.settings.batch_size
        say(f"note: the GPU ran out of memory with {asked} pictures a step, so the batch was halved to {card.batch_size}")
    if card.loses_road:
        say(f"weather: {out}; {_page(out)} shows what became of the road")
        return
    say(f"weather: {out}; look at {_page(out)} before testing under it")
    stem = _page(out).stem
    say(f"others fetch it from where you publish {stem}.toml and {stem}.safetensors side by side with:")
    say(f"  skidpad weather fetch URL/{stem}.toml --sha256 {_card_hash(out)}")


def _in_lines(steps: int) -> Progress:
    """Returns a progress for what is no terminal, as a log file: a line every twentieth of the way."""
    next_line = 0

    def report(done: int, total: int, note: str = "") -> None:
        nonlocal next_line
        if done >= next_line or done == total:
            tell(f"step {done} of {total}: {note}")
            next_line = done + max(1, steps // 20)

    return report


@contextmanager
def stopping() -> Iterator[Callable[[], bool]]:
    """Lets the first Ctrl-C ask for a stop at the end of a step, where the training can be written down; the second one stops at once."""
    asked = False

    def ask(number: int, frame: FrameType | None) -> None:
        nonlocal asked
        if asked:
            signal.default_int_handler(number, frame)
        asked = True

    if current_thread() is not main_thread():
        yield lambda: False
        return
    before = signal.signal(signal.SIGINT, ask)
    try:
        yield lambda: asked
    finally:
        signal.signal(signal.SIGINT, before)


def _settings(
    preset: str, method: str, steps: int | None, batch_size: int | None, size: int | None, crop: int | None, seed: int, device: str
) -> WeatherSettings:
    from skidpad.stimuli.weather.settings import PRESETS, Method
    from skidpad.stimuli.weather.settings import preset as preset_of

    methods = [each.value for each in Method]
    if method not in methods:
        raise UnknownNameError.among("method", method, methods)
    if size is not None and size < 1:
        raise BadParametersError(f"--size is a number of pixels; got {size}")
    if crop is None and size is not None and preset in PRESETS:
        crop = min(size, PRESETS[preset].crop_px)
    changes = {"steps": steps, "batch_size": batch_size, "size_px": size, "crop_px": crop, "seed": seed, "device": device}
    return preset_of(preset, Method(method), **changes)


def _guide(text: str, out: Path, device: str) -> Guide | None:
    if not text:
        return None
    from skidpad.stimuli.weather.classifier import WeatherClassifier
    from skidpad.stimuli.weather.files import weather_file
    from skidpad.stimuli.weather.training import Guide

    file, _, label = text.partition("=")
    loaded = WeatherClassifier.load(Path(file), device)
    return Guide(loaded, label or loaded.card.class_named(weather_file(out, "").name))


def _is_rendered(target: str) -> bool:
    from skidpad.worlds.render.weather_sets import MARK

    return (Path(target) / MARK).is_file() or target.partition("?")[0] == "rendered"


def _card_hash(out: Path) -> str:
    from skidpad.stimuli.weather.files import weather_file

    return sha256(weather_file(out, ".toml").read_bytes()).hexdigest()


def _page(out: Path) -> Path:
    from skidpad.stimuli.weather.files import weather_file

    return weather_file(out, ".html")


def _road_row(training: Training) -> RoadRow:
    """Lets the referee, which took no part in the training, compare the sampled scenes with what they were."""
    from skidpad.referee.network import drivable_iou, load_road_net
    from skidpad.stimuli.weather.gauge import RoadRow

    judge = load_road_net()
    pairs = [
        (scene, made)
        for row in range(len(training.samples[-1].rows))
        for scene, made in zip(training.sampler.scenes, training.samples[-1].pictures(row), strict=True)
    ]
    ious = [float(drivable_iou(judge, one[None], other[None])[0]) for one, other in pairs]
    return RoadRow(training.step, tuple(iou for iou in ious if isfinite(iou)))


def _gauge(lesson: Lesson, settings: WeatherSettings, guide: Guide | None) -> RealismGauge | None:
    """Returns what measures how real the weather looks; None where there are too few pictures for it."""
    from skidpad.stimuli.weather.gauge import RealismGauge, pictures_to_measure
    from skidpad.stimuli.weather.realism import LEAST

    enough = pictures_to_measure(lesson.source, lesson.target, settings) >= LEAST
    return RealismGauge(lesson.source, lesson.target, settings, guide) if enough else None


def _write_page(out: Path, view: TrainingView) -> None:
    from skidpad.kinds.pictures.weather.training_page import training_page
    from skidpad.page.writing import render_page, write_text_whole

    write_text_whole(_page(out), render_page(training_page(view)))
