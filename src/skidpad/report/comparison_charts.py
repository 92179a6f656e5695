"""The plots of a comparison: Figure 8 with both thresholds, Figure 7 as a curve, and one disagreement as in Figure 9."""

from __future__ import annotations

from collections.abc import Sequence
from math import degrees, isfinite

import numpy as np

from skidpad.campaigns.comparing_matching import CONSISTENT, Matching
from skidpad.campaigns.comparing_summary import Comparison, ScenarioResult
from skidpad.core.angles import AngleUnit
from skidpad.report.charts import curves
from skidpad.report.model import Curve
from skidpad.report.page import Chart
from skidpad.report.svg import WIDTH, Axis, add, drawing, round_up, tip, write
from skidpad.report.wording import plain
from skidpad.worlds.world import STEP_S

_LEFT, _RIGHT, _TOP, _BOTTOM, _HEIGHT = 52.0, WIDTH - 10.0, 14.0, 246.0, 288.0


def unit_words(unit: AngleUnit) -> str:
    """Words the unit of prediction errors."""
    return {AngleUnit.RAD: "rad of the steering wheel", AngleUnit.DEG: "degrees", AngleUnit.SCALED_25: "degrees / 25"}[unit]


def agreement_chart(comparison: Comparison) -> Chart:
    """Draws Figure 8: every scenario by its error offline and its distance online, the thresholds dashed, counts in the corners."""
    judged = [each for each in comparison.results if isfinite(each.mae) and isfinite(each.mdcl)]
    table = comparison.agreement
    title = "Offline against online (Figure 8)"
    apart = f"{table.false_safe} offline alone, {table.false_alarm} online alone"
    said = f"{table.both_safe} acceptable both ways, {apart}, {table.both_unsafe} neither."
    reach = round_up(max([each.mae for each in judged], default=0.0) * 1.05 + 1e-9)
    x = Axis(0.0, max(reach, 1.3 * comparison.mae_limit), _LEFT, _RIGHT)
    y = Axis(0.0, 1.15, _BOTTOM, _TOP)  # above 1, room for the counts
    root = drawing("agreement", title, said, _HEIGHT)
    for value in y.ticks(5):
        add(root, "line", class_="grid", x1=_LEFT, x2=_RIGHT, y1=y.at(value), y2=y.at(value))
        add(root, "text", y.word(value), class_="tick", x=_LEFT - 6.0, y=y.at(value) + 4.0, text_anchor="end")
    for value in x.ticks(6):
        add(root, "text", x.word(value), class_="tick", x=x.at(value), y=_BOTTOM + 16.0, text_anchor="middle")
    add(root, "line", class_="axis", x1=_LEFT, x2=_RIGHT, y1=_BOTTOM, y2=_BOTTOM)
    at_x, at_y = x.at(comparison.mae_limit), y.at(comparison.mdcl_limit)
    add(root, "line", class_="limit", x1=at_x, x2=at_x, y1=_TOP, y2=_BOTTOM)
    add(root, "line", class_="limit", x1=_LEFT, x2=_RIGHT, y1=at_y, y2=at_y)
    for each in judged:
        agrees = (each.mae < comparison.mae_limit) == (each.mdcl < comparison.mdcl_limit)
        mark = add(root, "circle", class_="point" if agrees else "point apart", cx=x.at(each.mae), cy=y.at(each.mdcl), r=4.0)
        if not agrees:
            mark.set("style", "fill:var(--fail)")
        tip(mark, f"{each.name}: MAE {each.mae:.4f}, MDCL {each.mdcl:.3f}")
    corners = (
        (table.false_safe, at_x - 6.0, _TOP + 10.0, "end"),
        (table.both_unsafe, at_x + 6.0, _TOP + 10.0, "start"),
        (table.both_safe, at_x - 6.0, _BOTTOM - 8.0, "end"),
        (table.false_alarm, at_x + 6.0, _BOTTOM - 8.0, "start"),
    )
    for number, left, top, anchor in corners:
        add(root, "text", str(number), class_="label", x=left, y=top, text_anchor=anchor, font_weight="650")
    name = f"MAE offline, {unit_words(comparison.unit)}"
    add(root, "text", name, class_="name", x=(_LEFT + _RIGHT) / 2.0, y=_BOTTOM + 36.0, text_anchor="middle")
    middle = (_TOP + _BOTTOM) / 2.0
    add(root, "text", "MDCL online", class_="name", x=12.0, y=middle, text_anchor="middle", transform=f"rotate(-90 12 {middle:g})")
    caption = "One mark a scenario; those on which the two ways of testing differ have the other colour. Numbers count each corner."
    return Chart(title, caption, write(root))


def difference_chart(matching: Matching) -> Chart | None:
    """Draws Figure 7 as a curve: the share of comparable pairs whose errors differ by at most so much."""
    apart = sorted(pair.difference for pair in matching.comparable)
    if not apart:
        return None
    shares = tuple((place + 1) / len(apart) for place in range(len(apart)))
    title = "Simulated against recorded drives (Figure 7)"
    limit = Curve("consistent up to here", (CONSISTENT, CONSISTENT), (0.0, 1.0))
    said = f"{len(apart)} pairs; mean difference {matching.mean_difference:.3f}; {matching.consistent.estimate:.1%} are consistent."
    drawn = curves(
        "differences", title, said, ("|MAE simulated − MAE recorded|", "share of pairs"), [Curve("pairs", tuple(apart), shares), limit]
    )
    return Chart(title, "How far the prediction errors on a simulated drive and on its recorded counterpart are apart.", drawn)


def telling_charts(result: ScenarioResult, unit: AngleUnit) -> Sequence[Chart]:
    """Draws Figure 9: the error at every frame offline, and the distance from the lane online."""
    seconds = tuple(step * STEP_S for step in range(len(result.errors)))
    errors_deg = tuple(degrees(float(error) * unit.rad) for error in result.errors)
    name = plain(result.name, 60)
    largest = float(np.nanmax(errors_deg)) if errors_deg else 0.0
    first_title = f"{name}, offline: prediction error (Figure 9a)"
    first = curves(
        "told-offline",
        first_title,
        f"at most {largest:.2f} degrees",
        ("time, s", "error, degrees"),
        [Curve("offline", seconds, errors_deg)],
    )
    second_title = f"{name}, online: distance from the lane (Figure 9b)"
    lateral = tuple(float(abs(value)) for value in result.lateral_m)
    second = curves(
        "told-online",
        second_title,
        f"up to {max(lateral, default=0.0):.2f} m",
        ("time, s", "distance, m"),
        [Curve("online", tuple(step * STEP_S for step in range(len(lateral))), lateral)],
    )
    return (
        Chart(
            first_title,
            f"The truth drives, the subject is only asked: its error is {largest:.2f} degrees of the steering wheel at most.",
            first,
        ),
        Chart(second_title, "The subject drives the same scenario.", second),
    )
