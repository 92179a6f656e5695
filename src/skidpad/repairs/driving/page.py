"""The page of a repair from drives: how far each network strays where nobody trained or chose, and how the rounds did."""

from __future__ import annotations

from math import isfinite
from typing import TYPE_CHECKING

from skidpad.kinds.drives.filmstrip import film_of, moving, strip, told
from skidpad.kinds.drives.loop import Wheel
from skidpad.oracles.lane_departure import CAP_M
from skidpad.page.model import Chart, Fact, FilmCard, Headline, Page, Table, Tone
from skidpad.page.svg import WIDTH, Axis, add, drawing, tip, write
from skidpad.page.wording import counted, interval, percent, plain
from skidpad.repairs.driving.plan import DRAWN
from skidpad.runs.workers.here import pinned
from skidpad.statistics.intervals import wilson

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from skidpad.kinds.drives.records import Case
    from skidpad.kinds.drives.work import ClosedLoopRunner
    from skidpad.repairs.driving.outcome import DrivingOutcome, JudgedCase, JudgedHalf
    from skidpad.repairs.driving.rounds import Taught
    from skidpad.statistics.intervals import Interval

_LEFT, _RIGHT, _TOP, _BOTTOM, _HEIGHT = 60.0, WIDTH - 20.0, 24.0, 420.0, 464.0
_SHOWN = 12
_HALVES = {DRAWN: "drawn from the domain"}


def driving_page(outcome: DrivingOutcome) -> Page:
    """Returns the page of a finished repair."""
    headlines = []
    for half in outcome.halves:
        where = _where(half.half)
        headlines.append(Headline(f"failing drives, {where}", f"{half.failures[2]} of {half.drives}", f"before {half.failures[0]}"))
        headlines.append(Headline(f"mean MDCL, {where}", f"{half.mean_mdcl[2]:.3f}", f"before {half.mean_mdcl[0]:.3f}"))
    if isfinite(outcome.clean_rise):
        told = f"before {outcome.clean_rmse_rad[0]:.4f}, {100.0 * outcome.clean_rise:+.0f} %"
        headlines.append(Headline("clean error (rad)", f"{outcome.clean_rmse_rad[2]:.4f}", told))
    settings = outcome.settings
    return Page(
        title=plain(f"Repair of {outcome.subject}", 200),
        tone=_tone(outcome),
        verdict=plain(outcome.verdict, 1000),
        headlines=tuple(headlines),
        context=(
            Fact("run", plain(f"{outcome.run}: {outcome.failures} of {outcome.drives} drives fail", 200)),
            Fact("domain", plain(outcome.domain, 200)),
            Fact(
                "scenarios",
                f"{counted(settings.rounds, 'round')} of {settings.scenarios}, {settings.validation_scenarios} to choose, "
                f"{settings.judged_scenarios} to judge",
            ),
            Fact("clean drive", plain(outcome.clean_drive, 200)),
        ),
        remarks=outcome.notes,
        notes=(
            "Half of the scenarios of each set are drawn from the domain, the others lie near the worst drives of the run.",
            "A drive fails where the car leaves its lane or touches something.",
            f"MDCL is the largest distance from the middle of the lane over {CAP_M:g} m; in tight bends the careful driver's is above 0.1.",
            "The control is trained from the same weights for as many steps on the clean drive alone.",
            "Intervals are 95 %: Wilson's for failures, Student's t over drives for the change of MDCL.",
        ),
        films=outcome.films,
        pictures_title="Before and after, where nobody trained or chose",
        pictures_note="The drive that the repair changed most for the better, and most for the worse where one fails only now.",
        lead_charts=(strayed_chart(outcome),) if outcome.cases else (),
        lead_tables=(judged_table(outcome),) if outcome.halves else (),
        tables=(round_table(outcome), *((case_table(outcome),) if outcome.cases else ())),
    )


def film_cards(runners: Mapping[str, ClosedLoopRunner], drives: Sequence[tuple[Case, JudgedCase]]) -> tuple[FilmCard, ...]:
    """Films the drive that the repair changed most for the better, and most for the worse where one fails only now, with each network.

    runners: of the first network and of the repaired one, by the name that a card bears.
    """
    changes = [judged.max_lateral_m[2] - judged.max_lateral_m[0] for _, judged in drives]
    shown = [drives[changes.index(min(changes))]] if drives and min(changes) < 0.0 else []
    broken = [change for change, (_, judged) in zip(changes, drives, strict=True) if judged.failed[2] and not judged.failed[0]]
    if broken:
        shown.append(drives[changes.index(max(broken))])
    return tuple(
        _film(runner, case, f"{case.name}, {name}: {judged.features}, {case.condition}", name)
        for case, judged in shown
        for name, runner in runners.items()
    )


def _film(runner: ClosedLoopRunner, case: Case, title: str, name: str) -> FilmCard:
    with pinned():
        row = runner.records([case], Wheel.SUBJECT).to_pylist()[0]
    film, key = film_of(runner, row), f"{case.name}-{name}"
    words = plain(title, 240)
    badge = f"{name}, {'fails' if row['violated'] else 'passes'}"
    drawings = (moving(f"moving-{key}", words, film), strip(f"strip-{key}", words, film))
    return FilmCard(words, badge, *drawings, told(film), row["case_id"], is_bad=row["violated"])


def _tone(outcome: DrivingOutcome) -> Tone:
    if not outcome.recommended:
        return Tone.ALARM
    return Tone.UNKNOWN if outcome.doubts else Tone.CALM


def _where(half: str) -> str:
    return _HALVES.get(half, "near the worst")


def judged_table(outcome: DrivingOutcome) -> Table:
    """Returns the table of the drives that judge, each half by itself."""
    failures = ("Failures before", "Control", "Repaired", "Mended", "Newly failing", "p")
    columns = ("Scenarios", "Drives", *failures, "MDCL before", "MDCL control", "MDCL repaired", "Change")
    note = (
        "The same scenarios with every network; drives that could not be judged with one of them are left out. p: how likely chance alone "
        "mends so many more than it breaks. Change: of the MDCL, drive by drive. Only the half drawn from the domain tells how often the "
        "network fails there."
    )
    return Table("judged", "Where nobody trained or chose", columns, tuple(map(_half, outcome.halves)), note=note)


def _half(half: JudgedHalf) -> tuple[str, ...]:
    return (
        _where(half.half),
        str(half.drives),
        *(_of(failures, half.drives) for failures in half.failures),
        str(half.mended),
        str(half.newly_failing),
        f"{half.chance:.2g}",
        *(f"{each:.3f}" for each in half.mean_mdcl),
        _ranged(half.mdcl_change),
    )


def _of(failures: int, drives: int) -> str:
    found = wilson(failures, drives)
    return f"{failures} ({interval(found.low, found.high)})"


def _ranged(found: Interval) -> str:
    words = f"{found.estimate:+.3f}"
    return words if not isfinite(found.low) else f"{words} ({found.low:+.3f} to {found.high:+.3f})"


def round_table(outcome: DrivingOutcome) -> Table:
    """Returns the table of the networks on the scenarios that choose."""
    columns = ("Network", "Frames", "Drives", "Failures", "Mean MDCL", "Clean RMSE (rad)", "Blend")
    rows = tuple(_taught(each, is_best=each.name == outcome.recommended) for each in (outcome.before, outcome.control, *outcome.rounds))
    note = (
        "Frames: trained on; the control sees its own as often as it takes to train as long as the last round. Blend: how far the weights "
        "lie on the way from the first network's to the trained ones."
    )
    if outcome.refusals:
        note += f" Not recommended: {'. '.join(outcome.refusals)}."
    return Table("rounds", "On the scenarios that choose", columns, rows, note=note)


def _taught(each: Taught, *, is_best: bool) -> tuple[str, ...]:
    name = each.name + (" (recommended)" if is_best else "")
    trained = (str(each.frames), percent(each.blend)) if each.frames else ("-", "-")
    return (name, trained[0], str(each.drives), str(each.failures), f"{each.mean_mdcl:.3f}", f"{each.clean_rmse_rad:.4f}", trained[1])


def case_table(outcome: DrivingOutcome) -> Table:
    """Returns the table of the scenarios in which the first or the repaired network strays farthest."""
    worst = sorted(outcome.cases, key=lambda case: -max(case.max_lateral_m[0], case.max_lateral_m[2]))[:_SHOWN]
    rows = tuple(
        (plain(f"{case.name}: {case.features}, {case.condition}", 200), *(f"{each:.2f}" for each in case.max_lateral_m)) for case in worst
    )
    return Table("cases", "Largest distance from the lane (m)", ("Scenario", "Before", "Control", "Repaired"), rows)


def strayed_chart(outcome: DrivingOutcome) -> Chart:
    """Draws, for each scenario that judges, how far the first network strays against how far the repaired one does."""
    most = max([CAP_M, *(max(case.max_lateral_m) for case in outcome.cases)])
    x, y = Axis(0.0, most, _LEFT, _RIGHT), Axis(0.0, most, _BOTTOM, _TOP)
    nearer = sum(case.max_lateral_m[2] < case.max_lateral_m[0] for case in outcome.cases)
    title = "Largest distance from the lane, before and repaired"
    said = f"In {nearer} of {len(outcome.cases)} scenarios the repaired network stays nearer to the middle of its lane."
    root = drawing("strayed", title, said, _HEIGHT)
    for value in y.ticks(5):
        add(root, "line", class_="grid", x1=_LEFT, x2=_RIGHT, y1=y.at(value), y2=y.at(value))
        add(root, "text", y.word(value), class_="tick", x=_LEFT - 6.0, y=y.at(value) + 4.0, text_anchor="end")
        add(root, "text", x.word(value), class_="tick", x=x.at(value), y=_BOTTOM + 16.0, text_anchor="middle")
    add(root, "line", class_="axis", x1=_LEFT, x2=_RIGHT, y1=_BOTTOM, y2=_BOTTOM)
    add(root, "line", class_="axis", x1=x.at(0.0), x2=x.at(most), y1=y.at(0.0), y2=y.at(most))
    add(root, "line", class_="limit", x1=x.at(CAP_M), x2=x.at(CAP_M), y1=_TOP, y2=_BOTTOM)
    add(root, "line", class_="limit", x1=_LEFT, x2=_RIGHT, y1=y.at(CAP_M), y2=y.at(CAP_M))
    for case in outcome.cases:
        _mark(root, x, y, case)
    add(root, "text", "repaired (m)", class_="name", x=4.0, y=_TOP - 12.0)
    add(root, "text", "before (m)", class_="name", x=(_LEFT + _RIGHT) / 2.0, y=_BOTTOM + 36.0, text_anchor="middle")
    caption = (
        f"{said} Each mark is a scenario, below the line where the repair helps; rings are drawn from the domain, dots lie near the worst "
    )
    return Chart(title, f"{caption}drives of the run. Dashed: {CAP_M:g} m, where the car has left its lane.", write(root))


def _mark(root: object, x: Axis, y: Axis, case: JudgedCase) -> None:
    before, _, repaired = case.max_lateral_m
    mark = add(root, "circle", class_="point", r=4.0, cx=x.at(before), cy=y.at(repaired))  # type: ignore[arg-type] # an element
    if case.name.startswith(DRAWN):
        mark.set("style", "fill:none;stroke:currentColor")
    tip(mark, f"{case.name}, {case.features}: {before:.2f} m before, {repaired:.2f} m repaired")
