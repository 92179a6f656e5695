"""The plots and tables of a run under learned weathers."""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING

from skidpad.drives.inspection import count_problems
from skidpad.report.charts import curves, histogram
from skidpad.report.model import Curve, DeviationHistogram
from skidpad.report.page import Chart, Table
from skidpad.report.plots import Bar, bars
from skidpad.report.wording import NOTHING, count, interval, percent, plain

if TYPE_CHECKING:
    from skidpad.campaigns.deeproad import DeepRoad
    from skidpad.campaigns.deeproad_summary import Conditions, RoadSummary

MAX_WEATHERS = 16
_MAX_ROWS = 500


def charts(campaign: DeepRoad, summary: RoadSummary) -> list[Chart]:
    """Draws shares by weather, shares over the error bounds, and how far the answers move."""
    if not summary.overall.cases:
        return []
    first = campaign.road.thresholds_deg[0]
    order = sorted((each for each in summary.by_weather if each.cases), key=lambda each: -each.counts[0].rate)
    title = f"Answers that move by {first:g}° or more"
    rows = [
        Bar(plain(each.weather, 80), each.counts[0].rate, each.counts[0].low, each.counts[0].high, _note(each))
        for each in order[:MAX_WEATHERS]
    ]
    said = "; ".join(f"{row.label} {percent(row.value)}" for row in rows)
    drawn = [Chart(title, "Share of the answers, by weather; whiskers are 95 % intervals.", bars("weathers", title, said, rows))]
    if len(campaign.road.thresholds_deg) > 1:
        lines = [
            Curve(each.weather, tuple(bound.threshold_deg for bound in each.counts), tuple(100.0 * bound.rate for bound in each.counts))
            for each in order[:6]
        ]
        title = "Inconsistent answers over the error bound"
        said = "; ".join(f"{line.label} from {line.y[0]:.3g} % to {line.y[-1]:.3g} %" for line in lines)
        axes = ("error bound, degrees", "inconsistent, % of answers")
        drawn.append(Chart(title, "DeepRoad's Table 2 as curves.", curves("bounds", title, said, axes, lines, from_zero=True)))
    title = "How far the answers move"
    data = DeviationHistogram(campaign.judged.edges, tuple(summary.deviations.tolist()), first, summary.overall.not_finite, "deg")
    said = f"{count(sum(data.counts))} answers; the dashed line is {first:g}°."
    drawn.append(Chart(title, f"All weathers together. The bins widen with the angle. {said}", histogram("deviations", title, said, data)))
    return drawn


def _note(each: Conditions) -> str:
    bound = each.counts[0]
    return f"{plain(each.weather, 120)}: {count(bound.inconsistent)} of {count(bound.cases)} ({interval(bound.low, bound.high)})"


def tables(campaign: DeepRoad, summary: RoadSummary) -> list[Table]:
    """Lays out the counts by weather and by style, the weathers themselves, and what was left out."""
    bounds = tuple(f"≥ {bound:g}°" for bound in campaign.road.thresholds_deg)
    first = campaign.road.thresholds_deg[0]
    columns = ("Weather", *bounds, "Answers", f"Share ≥ {first:g}°", "95 % interval", "Mean change", "Largest", "Correlation", "RMSE (rad)")
    whole = [*summary.by_weather, *([summary.overall] if len(summary.by_weather) > 1 else [])]
    made = [
        (
            name,
            looks.weather.card.method.value.upper(),
            "rendered" if looks.weather.card.rendered else "real",
            Path(looks.weather.card.target).name,
            count(looks.weather.card.steps),
            f"{looks.weather.card.size_px}",
            f"{looks.weather.card.contrast:g}",
            looks.weather.card.weights_sha256[:12],
        )
        for name, looks in campaign.weathers.items()
    ]
    problems = [
        (kind.kind.value, ", ".join(plain(str(example), 60) for example in kind.examples[:5]) or NOTHING, count(kind.count))
        for kind in count_problems([*campaign.drive.problems, *summary.problems])
    ]
    return [
        Table("weathers", "Inconsistent answers by weather", columns, tuple(_row((each.weather,), each) for each in whole)),
        Table(
            "styles",
            "Inconsistent answers by style",
            ("Weather", "Style", *columns[1:]),
            tuple(_row((each.weather, each.style), each) for each in summary.by_style[:_MAX_ROWS]),
        ),
        Table(
            "learned", "The weathers", ("Weather", "Method", "Pictures", "From", "Steps", "Pixels", "Contrast", "Weights"), tuple(made), 4
        ),
        Table("problems", "Broken frames, left out and counted", ("Problem", "Such as", "Frames"), tuple(problems), 2),
    ]


def _row(names: Sequence[str], each: Conditions) -> tuple[str, ...]:
    first = each.counts[0]
    return (
        *(plain(name, 80) for name in names),
        *(count(bound.inconsistent) for bound in each.counts),
        count(each.cases),
        percent(first.rate),
        interval(first.low, first.high),
        degrees_words(each.mean_deg),
        degrees_words(each.worst_deg),
        f"{each.correlation:.3f}" if isfinite(each.correlation) else NOTHING,
        f"{each.rmse_rad:.4f}" if isfinite(each.rmse_rad) else NOTHING,
    )


def degrees_words(value: float) -> str:
    """Words an angle; a dash for none."""
    return f"{value:.1f}°" if isfinite(value) else NOTHING
