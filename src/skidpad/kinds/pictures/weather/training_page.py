"""From a training of a weather to its page: losses, and the same scenes as training went on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from skidpad.page.charts import Curve, curve_chart
from skidpad.page.model import Chart, Fact, Headline, Page, Table, Tone
from skidpad.page.pictures import Gallery, GalleryRow, gallery_row
from skidpad.page.wording import count, plain
from skidpad.stimuli.weather.gauge import LEAST_IOU

if TYPE_CHECKING:
    from collections.abc import Sequence

    from skidpad.stimuli.weather.gauge import Controls, RoadRow
    from skidpad.stimuli.weather.learning import Lesson
    from skidpad.stimuli.weather.training import Training


_GIVEN = 5
_OWN = "the weather's pictures"
_ADVERSARIES = ("gan", "critic")
_SMOOTH = 5
_MEANING = {
    "image": "a picture through its own encoder and decoder, against itself",
    "cycle": "a picture there and back again, against itself",
    "content": "the content of a translated picture, against that of its original",
    "style": "the style of a translated picture, against the one it was made with",
    "kl": "the latent codes, against N(0, 1)",
    "road": "what each pixel shows, road, marking or else, before and after",
    "contrast": "what was lighter than its surroundings and no longer is",
    "named": "translated pictures that the classifier of --classifier does not call by the weather's name",
    "gan": "translated pictures that the discriminators told from those of the sets",
    "critic": "the discriminators' own loss, summed over scales and both sets of pictures; where they can only guess, each adds 0.5",
}


@dataclass(frozen=True, slots=True)
class TrainingView:
    """A training as its page shows it; command: what goes on with it. controls: None if realism was not measured.

    drawn: conditions that are drawn on top of the weather's pictures where it is used; the training and its samples are without them.
    """

    name: str
    lesson: Lesson
    training: Training
    command: str
    finished: bool
    controls: Controls | None = None
    drawn: str = ""


def training_page(view: TrainingView) -> Page:
    """Lays out how far the training is, its losses and its samples."""
    training, lesson = view.training, view.lesson
    settings = training.settings
    method = settings.method.value.upper()
    target = "rendered pictures" if lesson.rendered else "pictures"
    state = "Learned" if view.finished else f"Step {count(training.step)} of {count(settings.steps)}"
    lost = next((row for row in training.roads[-1:] if row.is_lost), None)
    warned = f" The road is lost in {lost}: do not test under it." if lost is not None and view.finished else ""
    return Page(
        title=plain(f"{view.name}: a weather learned by {method}", 200),
        tone=Tone.ALARM if warned else Tone.CALM if view.finished else Tone.UNKNOWN,
        verdict=plain(
            f"{state}: {view.name}, from {count(len(lesson.target))} {target} of it and {count(len(lesson.source))} without it.{warned}",
            600,
        ),
        headlines=(
            Headline("steps", count(training.step), f"of {count(settings.steps)}, {training.batch_size} pictures of each weather a step"),
            *(
                Headline(f"{name} loss", f"{training.curve[-1].losses[name]:.3g}", _MEANING[name])
                for name in ("image", "cycle")
                if training.curve and name in training.curve[-1].losses
            ),
            *(
                Headline("road kept", f"{row.mean_iou:.2f}", f"IoU of the drivable area by the referee; below {LEAST_IOU:g} in {row}")
                for row in training.roads[-1:]
            ),
            *_realism_headlines(view),
            Headline("shorter side", f"{settings.size_px} px", f"squares of {settings.crop_px} px are learned from"),
        ),
        context=(
            Fact("From", plain(f"{lesson.source_text} ({_broken(lesson.source.broken)})", 300)),
            Fact("To", plain(f"{lesson.target_text} ({_broken(lesson.target.broken)})", 300)),
        ),
        notes=_notes(view),
        charts=(*_road_chart(training.roads), *_realism_charts(view), *_charts(training)),
        tables=(_table(training),) if training.curve else (),
        configuration=(
            Fact("method", settings.method.value),
            *(Fact(name, str(getattr(settings, name))) for name in ("size_px", "crop_px", "steps", "learning_rate", "ema", "detail")),
            *((Fact("drawn on top", plain(view.drawn, 500)),) if view.drawn else ()),
            Fact("batch_size", f"{training.batch_size} (asked for: {settings.batch_size})"),
            Fact("sizes", plain(str(settings.sizes), 400)),
            Fact("weights of the losses", plain(str(settings.weights), 400)),
            Fact("seed", str(settings.seed)),
            Fact("device", settings.device),
        ),
        manifest=(Fact("source pictures", lesson.source.sha256), Fact("target pictures", lesson.target.sha256)),
        commands=(plain(view.command, 1000),),
        galleries=tuple(_galleries(view)),
        warnings=tuple(plain(warning, 1000) for warning in lesson.warnings(settings.size_px)),
    )


def _galleries(view: TrainingView) -> list[Gallery]:
    training = view.training
    scenes = gallery_row("source", "", training.sampler.scenes)
    places = np.linspace(0, len(view.lesson.target) - 1, min(_GIVEN, len(view.lesson.target))).round().astype(int).tolist()
    given = [view.lesson.target.pictures[place].numpy() for place in places]
    made = "rendered, " if view.lesson.rendered else ""
    wanted = gallery_row(_OWN, f"what {view.name} was learned from: {made}of other scenes", given)
    grown = [gallery_row(f"step {sample.step}", "", sample.pictures(0)) for sample in training.samples]
    galleries = [Gallery("As training went on", "The same scenes, translated with the weights that are kept.", (scenes, *grown, wanted))]
    last = training.samples[-1] if training.samples else None
    if last is not None and len(last.rows) > 1:
        rows: list[GalleryRow] = [gallery_row(f"style {row + 1}", "", last.pictures(row)) for row in range(len(last.rows))]
        words = f"The same scenes after {count(last.step)} steps, under styles drawn from N(0, 1)."
        galleries.append(Gallery("Styles of one weather", words, (scenes, *rows)))
    return galleries


def _notes(view: TrainingView) -> tuple[str, ...]:
    training = view.training
    notes = [
        (
            "Losses of two networks that learn against each other do not fall to zero, and a low loss is no proof of a good picture: look "
            "at the scenes. Where the road is gone or lanes have moved, a wrong answer of a subject is no finding."
        )
    ]
    if training.batch_size != training.settings.batch_size:
        notes.append(f"The GPU ran out of memory with {training.settings.batch_size} pictures a step, so {training.batch_size} were taken.")
    if view.lesson.rendered:
        notes.append("The weather was learned from rendered pictures: it looks like the built-in world, not like a camera.")
    if view.drawn:
        notes.append(
            plain(
                f"Wherever the weather is used, {view.drawn} is drawn on top of its pictures. The scenes and the figures on this page are "
                "without it.",
                700,
            )
        )
    return tuple(notes)


def _charts(training: Training) -> list[Chart]:
    names = list(training.curve[-1].losses) if training.curve else []
    groups = {
        "What must be kept": [name for name in names if name not in _ADVERSARIES],
        "Generators against discriminators": [name for name in names if name in _ADVERSARIES],
    }
    charts = []
    for number, (title, chosen) in enumerate(groups.items()):
        if not chosen:
            continue
        lines = [_line(training, name) for name in chosen]
        meaning = ". ".join(f"{name.capitalize()}: {_MEANING[name]}" for name in chosen)
        caption = f"{meaning}. Means over {_SMOOTH} readings."
        charts.append(curve_chart(f"losses-{number}", title, caption, ("step", "loss, unweighted"), lines))
    return charts


def _road_chart(roads: Sequence[RoadRow]) -> list[Chart]:
    if not roads:
        return []
    steps = tuple(float(row.step) for row in roads)
    lines = [
        Curve("mean", steps, tuple(row.mean_iou for row in roads)),
        Curve("worst picture", steps, tuple(min(row.ious) for row in roads)),
        Curve("lost below this", steps, (LEAST_IOU,) * len(roads)),
    ]
    words = (
        "The drivable area of the sampled scenes, before and after, by the referee, which took no part in the training. "
        f"Below {LEAST_IOU:g} the road counts as lost."
    )
    return [curve_chart("road", "Is the road where it was?", words, ("step", "IoU of the drivable area"), lines)]


def _realism_headlines(view: TrainingView) -> list[Headline]:
    points, controls = view.training.realism, view.controls
    if controls is None or not points:
        return []
    now, given, before = points[-1], controls.real, controls.untranslated
    words = (
        f"of {2 * controls.pictures} pictures, which a test sorts into translated ones and the weather's; 50 % would be guessing. "
        f"The weather's pictures from each other: {100 * given.told:.0f} %, untranslated ones: {100 * before.told:.0f} %"
    )
    found = [Headline("told from its pictures", f"{100 * now.told:.0f} %", words)]
    if now.in_class is not None and given.in_class is not None and before.in_class is not None:
        shares = f"{_OWN} {100 * given.in_class:.0f} %, untranslated ones {100 * before.in_class:.0f} %"
        words = f"put into the class {controls.label} by the classifier that it learns from; {shares}"
        found.append(Headline("in the class", f"{100 * now.in_class:.0f} %", plain(words, 300)))
    return found


def _realism_charts(view: TrainingView) -> list[Chart]:
    points, controls = view.training.realism, view.controls
    if controls is None or not points:
        return []
    steps = tuple(float(point.step) for point in points)

    def chart(key: str, title: str, caption: str, axis: str, name: str) -> list[Chart]:
        parts = {"translated": points, "untranslated": [controls.untranslated] * len(points), _OWN: [controls.real] * len(points)}
        rows = {label: [getattr(point, name) for point in some] for label, some in parts.items()}
        if any(value is None for row in rows.values() for value in row):
            return []
        return [curve_chart(key, title, caption, ("step", axis), [Curve(label, steps, tuple(row)) for label, row in rows.items()])]

    sides = f"{count(controls.pictures)} pictures on each side, seen by the bundled classifier, which took no part in the training"
    told = (
        f"How many pictures a test sorts into translated ones and the weather's, {sides}. 0.5: it cannot tell them. The line `{_OWN}` "
        "compares these with each other, and no weather can be expected to fall below it."
    )
    nearer = (
        f"How much of the way from the untranslated pictures to the weather's was gone (MMD), {sides}. The scenes are of other places, "
        "so even a perfect translation would not reach 1. With few pictures both charts jump: one of 16 is 6 %."
    )
    named = f"Pictures in the class {controls.label}, by the classifier of --classifier, which the weather learns to convince."
    return [
        *chart("told-apart", "Can they be told from the weather's pictures?", told, "share sorted right", "told"),
        *chart("nearer", "Nearer to the weather's pictures", nearer, "share of the distance", "nearer"),
        *chart("in-the-class", "In the class", plain(named, 300), "share of the pictures", "in_class"),
    ]


def _line(training: Training, name: str) -> Curve:
    steps = tuple(float(row.step) for row in training.curve)
    values = np.array([row.losses.get(name, np.nan) for row in training.curve])
    padded = np.concatenate([np.full(_SMOOTH - 1, np.nan), values])
    smooth = np.nanmean(np.lib.stride_tricks.sliding_window_view(padded, _SMOOTH), axis=1)
    every = max(1, len(steps) // 400)
    return Curve(name, (*steps[:-1:every], steps[-1]), (*smooth[:-1:every].tolist(), float(smooth[-1])))


def _table(training: Training) -> Table:
    names = tuple(training.curve[-1].losses)
    every = max(1, len(training.curve) // 20)
    rows = [training.curve[place] for place in range(0, len(training.curve), every)]
    rows = rows if rows[-1] is training.curve[-1] else [*rows, training.curve[-1]]
    cells = tuple((count(row.step), *(f"{row.losses[name]:.4g}" for name in names)) for row in rows)
    return Table("losses", "Losses", ("Step", *names), cells)


def _broken(number: int) -> str:
    return f"{count(number)} broken pictures left out" if number else "no broken pictures"
