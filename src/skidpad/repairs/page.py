"""The page of a repair: the trade-off, the recommended network, and how it fares where no training looked."""

from __future__ import annotations

from math import isfinite
from typing import TYPE_CHECKING

from skidpad.page.model import Chart, Fact, Headline, Page, Table, Tone
from skidpad.page.svg import WIDTH, Axis, AxisUnit, add, drawing, round_up, tip, write
from skidpad.page.wording import interval, percent, plain
from skidpad.repairs.examples import cards
from skidpad.repairs.families import in_groups
from skidpad.repairs.lessons import KEPT_RESPONSE
from skidpad.repairs.plan import BEFORE, CLEAN, CONTROL, UNSEEN_SET
from skidpad.statistics.intervals import wilson

if TYPE_CHECKING:
    from skidpad.repairs.outcome import JudgedRow, Outcome
    from skidpad.repairs.plan import Trained
    from skidpad.statistics.intervals import Interval

_LEFT, _RIGHT, _TOP, _BOTTOM, _HEIGHT = 60.0, WIDTH - 20.0, 24.0, 300.0, 344.0


def repair_page(outcome: Outcome) -> Page:
    """Returns the page of a finished repair."""
    unseen = outcome.row(UNSEEN_SET)
    headlines = []
    if unseen is not None:
        headlines.append(Headline("failures, unseen families", percent(unseen.repaired.estimate), f"before {percent(unseen.before)}"))
    clean = outcome.row(CLEAN)
    if clean is not None:
        told = f"before {clean.rmse_before_rad:.4f}, {100.0 * outcome.clean_rise:+.0f} %" if isfinite(outcome.clean_rise) else ""
        headlines.append(Headline("clean error (rad)", f"{clean.rmse_repaired_rad.estimate:.4f}", told))
    if outcome.driven:
        drives, first, after = (
            sum(getattr(each, name) for each in outcome.driven) for name in ("drives", "failures_before", "failures_after")
        )
        headlines.append(Headline("failing drives, closed loop", f"{after} of {drives}", f"before {first}"))
    return Page(
        title=plain(f"Repair of {outcome.subject}", 200),
        tone=_tone(outcome),
        verdict=plain(outcome.verdict, 1000),
        headlines=tuple(headlines),
        context=(
            Fact("drive", plain(outcome.drive, 200)),
            Fact("frames", f"{outcome.frames[0]} trained on, {outcome.frames[1]} to choose, {outcome.frames[2]} to judge, by time"),
            Fact("trained on", plain(in_groups(outcome.seen), 600)),
            Fact("never trained on", plain(in_groups((*outcome.unseen, *(f"weather:{each}" for each in outcome.settings.weathers))), 600)),
            Fact("what a mutant must hold to", plain(outcome.relation, 200)),
        ),
        remarks=(*outcome.notes, *((outcome.reached.said,) if outcome.reached is not None else ())),
        notes=(
            "A failure is a mutant that the referee keeps and that breaks the relation.",
            "Frames that the first network gets wrong as they are count for no network.",
            "The control is trained from the same weights for as many steps without mutants. With best epoch 0 it is the first network.",
            *((_MIRROR_CHOICE,) if outcome.settings.mirror_choice else ()),
            *(() if outcome.rows else ("Nothing was judged, since nothing is recommended.",)),
            "Intervals are Student's t over seeds, 95 %; one seed, or seeds with equal figures, give none.",
        ),
        pictures=cards(outcome.examples),
        pictures_title="Before and after, on frames that no training saw",
        pictures_note=_PICTURES,
        pictures_legend=_LEGEND,
        lead_charts=(tradeoff_chart(outcome),),
        lead_tables=(judged_table(outcome),) if outcome.rows else (),
        tables=(*chosen_tables(outcome), *((driven_table(outcome),) if outcome.driven else ())),
    )


def _tone(outcome: Outcome) -> Tone:
    if not outcome.recommended:
        return Tone.ALARM
    return Tone.UNKNOWN if outcome.doubts else Tone.CALM


_PICTURES = (
    "What the repair mended, what still fails, and what fails only now, of each sort the clearest; conditions that no training saw come "
    "first. The table above counts them all."
)

_MIRROR_CHOICE = "Where candidates are chosen, clean error and response are those on the stretch and on its mirror image together."

_LEGEND = (("original", "as on the unchanged frame"), ("mutant", "before the repair"), ("repaired", "repaired"), ("label", "human"))


def driven_table(outcome: Outcome) -> Table:
    """Returns the table of the drives in a closed loop."""
    rows = tuple(
        (each.stimulus, str(each.drives), *(_of(count, each.drives) for count in counts))
        for each in outcome.driven
        for counts in [(each.failures_before, each.failures_control, each.failures_after)]
    )
    note = "The same scenarios with every network; drives that could not be judged with one of them are left out. Wilson intervals, 95 %."
    return Table("driven", "In a closed loop", ("Stimulus", "Drives", "Failures before", "Control", "Repaired"), rows, note=note)


def _of(failures: int | None, drives: int) -> str:
    if failures is None:
        return "-"
    found = wilson(failures, drives)
    return f"{failures} ({interval(found.low, found.high)})"


def judged_table(outcome: Outcome) -> Table:
    """Returns the table of what no training saw."""
    columns = ("Pictures", "Number", "Before", "Control", "Repaired", "Beyond control", "RMSE before", "RMSE control", "RMSE repaired")
    note = (
        "Failing mutants; for clean pictures the RMSE against labels, in radians as the last three columns. Beyond control: how far the "
        "repaired network's figure lies above (+) or below (-) that of the control, as a share of the control's; below is better."
    )
    return Table("judged", "On frames that no training saw", columns, tuple(map(_judged, outcome.rows)), note=note)


def _judged(row: JudgedRow) -> tuple[str, ...]:
    said = (lambda value: f"{value:.4f}") if row.pictures == CLEAN else percent
    return (
        row.pictures,
        str(row.cases),
        said(row.before),
        *(_ranged(each, said) for each in (row.control, row.repaired)),
        _ranged(row.change_beyond_control, lambda value: f"{100.0 * value:+.0f} %"),
        f"{row.rmse_before_rad:.4f}",
        f"{row.rmse_control_rad.estimate:.4f}",
        f"{row.rmse_repaired_rad.estimate:.4f}",
    )


def _ranged(found: Interval, said: object) -> str:
    if not isfinite(found.estimate):
        return "-"
    if not callable(said):
        raise TypeError("an interval is worded by a function")
    words = str(said(found.estimate))
    return words if not isfinite(found.low) else f"{words} ({said(found.low)} to {said(found.high)})"


def candidate_table(outcome: Outcome) -> Table:
    """Returns the table of the candidates on the validation stretch."""
    rows = tuple(
        (
            _label(each) + (" (recommended)" if each.candidate.name == outcome.recommended else ""),
            f"{each.clean_rmse_rad:.4f}",
            percent(each.failure_rate),
            f"{each.stressed_rms_rad:.4f}",
            f"{each.response:.2f}" if isfinite(each.response) else "-",
            *((str(each.best_epoch), percent(each.blend)) if each.candidate.way != BEFORE else ("-", "-")),
        )
        for each in (outcome.before, *outcome.candidates)
    )
    columns = ("Candidate", "Clean RMSE (rad)", "Failures", "Moved by mutants (rad)", "Response", "Best epoch", "Blend")
    note = (
        "Response: how far the answers follow the labels; 1 steers as far as the human, 0 always answers the same. A network that loses "
        f"more than {percent(1.0 - KEPT_RESPONSE)} of it is not recommended. "
        "Blend: how far the weights lie on the way from the first network's to those of the best epoch. Best epoch 0 is the network "
        "itself: none of the epochs that count, the last third, was better, and the row repeats its figures."
        f" Failures are counted on {outcome.validated} mutants; --families, --ways and --pictures change which ones."
    )
    return Table("candidates", "On the validation stretch, which chose", columns, rows, note=note)


def chosen_tables(outcome: Outcome) -> tuple[Table, ...]:
    """Returns what the choice was made by; where nothing is recommended, what refused each candidate comes beside."""
    return (candidate_table(outcome), *(() if outcome.recommended else (refusal_table(outcome),)))


def refusal_table(outcome: Outcome) -> Table:
    """Returns the table of what each candidate's best trained epoch reached, and what refused the candidate."""
    by_name = {each.candidate.name: each for each in outcome.candidates}
    rows = tuple(
        (_label(by_name[each.candidate]), plain(each.because, 200), *_reached(by_name[each.candidate])) for each in outcome.refusals
    )
    columns = ("Candidate", "Refused because", "Epoch", "Clean RMSE (rad)", "Failures", "Moved by mutants (rad)", "Response")
    note = (
        "The figures are those of the best trained epoch of the last third, before its weights went back towards the network's; those of "
        "the network itself are in the table above."
    )
    return Table("refused", "Why no candidate is recommended", columns, rows, numbers_from=2, note=note)


def _reached(each: Trained) -> tuple[str, ...]:
    found = each.reached
    if found is None:
        return ("-",) * 5
    response = f"{found.response:.2f}" if isfinite(found.response) else "-"
    return (str(found.epoch), f"{found.clean_rmse_rad:.4f}", percent(found.failure_rate), f"{found.stressed_rms_rad:.4f}", response)


def tradeoff_chart(outcome: Outcome) -> Chart:
    """Draws the clean error of every candidate against its failures on the validation stretch."""
    marks = [each for each in (outcome.before, *outcome.candidates) if isfinite(each.clean_rmse_rad) and isfinite(each.failure_rate)]
    clean = [each.clean_rmse_rad for each in marks]
    low, high = min(clean, default=0.0), max(clean, default=1.0)
    room = max(0.1 * (high - low), 0.02 * high, 1e-6)
    x = Axis(max(0.0, low - room), high + room, _LEFT, _RIGHT)
    y = Axis(0.0, round_up(max([0.01, *(each.failure_rate for each in marks)]), 1.0), _BOTTOM, _TOP, AxisUnit.PERCENT)
    said = "; ".join(f"{_label(each)}: {each.clean_rmse_rad:.4f} rad clean, {percent(each.failure_rate)} fail" for each in marks)
    title = "Clean error against failures"
    root = drawing("tradeoff", title, said, _HEIGHT)
    for value in y.ticks(4):
        add(root, "line", class_="grid", x1=_LEFT, x2=_RIGHT, y1=y.at(value), y2=y.at(value))
        add(root, "text", y.word(value), class_="tick", x=_LEFT - 6.0, y=y.at(value) + 4.0, text_anchor="end")
    for value in x.ticks(5):
        add(root, "text", f"{value:.4g}", class_="tick", x=x.at(value), y=_BOTTOM + 16.0, text_anchor="middle")
    add(root, "line", class_="axis", x1=_LEFT, x2=_RIGHT, y1=_BOTTOM, y2=_BOTTOM)
    limit = (1.0 + outcome.settings.most_cost) * outcome.before.clean_rmse_rad
    if x.low <= limit <= x.high:
        add(root, "line", class_="limit", x1=x.at(limit), x2=x.at(limit), y1=_TOP, y2=_BOTTOM)
    names: dict[tuple[int, int], list[str]] = {}
    for each in marks:
        _mark(root, x, y, each, is_best=each.candidate.name == outcome.recommended)
        # networks that learned nothing lie where the first one does: one text for all of them
        names.setdefault((round(x.at(each.clean_rmse_rad)), round(y.at(each.failure_rate))), []).append(_label(each))
    for (across, down), labels in names.items():
        leans_left = across > 0.7 * _RIGHT
        aside = {"x": across + (-9.0 if leans_left else 9.0), "text_anchor": "end" if leans_left else "start"}
        add(root, "text", ", ".join(labels), class_="tick", y=down - 7.0, **aside)
    add(root, "text", "failures", class_="name", x=4.0, y=_TOP - 12.0)
    add(root, "text", "clean RMSE (rad)", class_="name", x=(_LEFT + _RIGHT) / 2.0, y=_BOTTOM + 36.0, text_anchor="middle")
    caption = "Each mark is a network, on the validation stretch; down and to the left is better. "
    caption += f"Dashed: a clean error {percent(outcome.settings.most_cost)} above the first network's. Ringed: recommended."
    return Chart(title, caption, write(root))


def _mark(root: object, x: Axis, y: Axis, each: Trained, *, is_best: bool) -> None:
    at = {"cx": x.at(each.clean_rmse_rad), "cy": y.at(each.failure_rate)}
    if is_best:
        ring = add(root, "circle", class_="point", r=9.0, **at)  # type: ignore[arg-type] # an element
        ring.set("style", "fill:none;stroke:currentColor;stroke-width:2")
    mark = add(root, "circle", class_="point", r=4.5, **at)  # type: ignore[arg-type] # an element
    if each.candidate.way == BEFORE:
        mark.set("style", "fill:var(--fail)")
    elif each.candidate.way == CONTROL:
        mark.set("style", "fill:none;stroke:currentColor")
    tip(mark, f"{_label(each)}: {each.clean_rmse_rad:.4f} rad clean, {percent(each.failure_rate)} fail")


def _label(each: Trained) -> str:
    if each.candidate.way == BEFORE:
        return BEFORE
    rate = each.candidate.learning_rate
    return f"{each.candidate.way} x{each.candidate.strength:g}" + ("" if rate is None else f" at rate {rate:g}")
