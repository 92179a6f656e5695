"""The page of a search for limits: the table, the curves, and the pictures at each limit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import isfinite, isnan, nan
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from skidpad.core.errors import BadDriveError, BadRunError
from skidpad.core.images import as_numpy
from skidpad.core.stimuli import Recipe
from skidpad.drives.drive import Problem, capture_of
from skidpad.drives.opening import LostDrive
from skidpad.kinds.kind import load_campaign
from skidpad.kinds.limits.campaign import Limits, is_grey, some_frames
from skidpad.kinds.limits.charts import curve_chart, map_chart
from skidpad.kinds.limits.curves import LimitPoint, Standing
from skidpad.kinds.limits.summary import Found, Limit, limit_payload, map_payload, online_words
from skidpad.oracles.error import scale_of
from skidpad.oracles.relations import AnswersAlike, LabelMse, SteersAlike, SteersRight
from skidpad.page.model import Headline, Page, Table, Tone, run_page
from skidpad.page.pictures import PicturePair, cards
from skidpad.page.wording import NOTHING, count, counted, drive_words, interval, percent, plain
from skidpad.runs.records import ORIGINALS

if TYPE_CHECKING:
    from skidpad.core.images import NumpyFrames
    from skidpad.kinds.pictures.judging import JudgedOutput
    from skidpad.runs.folder import Run

_SHOWN = ("case_id", "frame_index", "frame_id", "recipe", "label", "original", "expected", "mutant", "excess")
FALSE_SAFE = "false-safe: holds on frames, but a car leaves its lane"


def limits_page(campaign: Limits, run: Run) -> Page:
    """Words the verdict and the table, draws the curves, and shows a frame at each limit."""
    found = Found.of(campaign, run)
    limits, accepted = found.limits, campaign.settings.accepted_share
    pairs, missing = _pictures(found, limits)
    name = plain(campaign.subject.description.name, 80)
    charts = [curve_chart(limit, accepted) for limit in limits] + [map_chart(pair, accepted) for pair in found.maps]
    return run_page(
        run,
        title=f"Limits of {name}",
        tone=_tone(limits),
        verdict=verdict(found),
        headlines=_headlines(found),
        context={"Subject": name, "Drive": drive_words(campaign.settings.drive)},
        warnings=(*short_words(found), *online_words(found), *missing),
        remarks=_remarks(found),
        notes=definitions(found),
        pictures=cards(pairs),
        pictures_note="At each limit, the frame that moves the answer most: where the network begins to fail, or the last severity at "
        "which it holds, or the mildest tested where it does neither.",
        tables=_map_tables(found),
        lead_tables=(limits_table(found),),
        lead_charts=charts,
        unjudged=(ORIGINALS,),
    )


def limits_figures(campaign: Limits, run: Run) -> Mapping[str, object]:
    """Returns what `--json` prints."""
    found = Found.of(campaign, run)
    settings = campaign.settings
    return {
        "frames": len(found.frames),
        "stretch_frames": settings.stretch_frames,
        "accepted_share": settings.accepted_share,
        "relation": settings.relation,
        "tolerance": settings.tolerance,
        "could_hide": found.could_hide,
        "predictions": found.predictions,
        "grid_predictions": found.grid_predictions,
        "limits": [limit_payload(each, settings.accepted_share) for each in found.limits],
        "pairs": [map_payload(each, settings.accepted_share) for each in found.maps],
        "scenarios": {"driven": len(found.sound), "counted": sum(found.sound)} if found.sound else None,
    }


def limits_table(found: Found) -> Table:
    """Returns the table of limits: the row that matters, where offline testing is false-safe, is marked and comes first."""
    driven = bool(found.sound)
    columns = ["Condition", "Holds to", "Fails from", "Failing at the limit (95 %)", "Kept by the referee"]
    columns += ["Lane left from", "Note"] if driven else ["Note"]
    order = sorted(found.limits, key=lambda each: not each.is_false_safe)
    rows = tuple(_row(limit, driven=driven) for limit in order)
    return Table("limits", "How far it holds", tuple(columns), rows, note=_table_note(found))


def _row(limit: Limit, *, driven: bool) -> tuple[str, ...]:
    row, point = limit.row, limit.at_limit
    online = ""
    if driven:
        left = limit.left_from
        worst = limit.drives[-1] if limit.drives else None
        online = row.words(left.position) if left else f"none, tested to {row.words(worst.position)}" if worst else NOTHING
    return (
        plain(row.name, 60),
        holds_words(limit),
        fails_words(limit),
        _cell(point),
        percent(limit.kept_share),
        *([online] if driven else []),
        note_of(limit),
    )


def holds_words(limit: Limit) -> str:
    """Words how far a row holds."""
    held = limit.curve.holds_to
    return "at no tested severity" if held is None else limit.row.words(held.position)


def fails_words(limit: Limit) -> str:
    """Words from where a row fails."""
    failing = limit.curve.fails_from
    if failing is not None:
        return limit.row.words(failing.position)
    return f"none, tested to {limit.row.words(limit.curve.points[-1].position)}"


def note_of(limit: Limit) -> str:
    """Says what is special about a row."""
    peak = limit.curve.falls_after
    again = "" if peak is None else f"fails less again beyond {limit.row.words(peak.position)}"
    return "; ".join(filter(None, (_limit_note(limit), again, "" if limit.is_sure else "too few frames to be sure")))


def _limit_note(limit: Limit) -> str:
    if limit.is_false_safe:
        return FALSE_SAFE
    if limit.curve.is_refused:
        return "referee keeps too few beyond"
    held, failing = limit.curve.holds_to, limit.curve.fails_from
    between = (failing.position if failing else limit.row.steps + 1) - (held.position if held else 0)
    if between <= 1:
        return ""
    where = "between the two" if held and failing else "beyond" if held else "below" if failing else ""
    return f"undecided {where}".strip()


def tolerance_words(campaign: Limits) -> str:
    """Words the tolerance with what it counts; "" where the relation has none."""
    relation, tolerance = campaign.settings.relation, campaign.settings.tolerance
    if tolerance is None:
        return ""
    units = {
        SteersAlike.name: "degrees",
        SteersRight.name: "degrees",
        LabelMse.name: "times the mean squared error on unchanged frames",
        AnswersAlike.name: campaign.judged.shown_unit,
    }
    return f"{tolerance:g} {units.get(relation, '')}".strip()


_TOLD = 3
"""How many conditions the first sentence names, those first that fail nearest to harmless."""


def verdict(found: Found) -> str:
    """Says in a sentence how far the network holds."""
    limits = found.limits
    if not limits:
        return "Nothing was tested yet."
    failing = [each for each in limits if each.curve.fails_from is not None]
    unsafe = [each for each in limits if each.is_false_safe]
    within = f"{percent(found.campaign.settings.accepted_share)} of frames may fail"
    if not failing:
        told = f"The network fails under none of {counted(len(limits), 'condition')} as far as they were tested ({within})."
    else:
        ordered = sorted(failing, key=lambda each: each.curve.fails_from.position if each.curve.fails_from else 0)
        first = [f"{plain(each.row.name, 60)} from {fails_words(each)} on" for each in ordered[:_TOLD]]
        told = f"The network fails under {len(failing)} of {counted(len(limits), 'condition')} ({within}): "
        told += f"{', '.join(first)}{', ...' if len(ordered) > _TOLD else ''}."
    if unsafe:
        told += f" Under {', '.join(plain(each.row.name, 60) for each in unsafe)} offline testing says that it holds where a car leaves "
        told += "its lane."
    return told


def definitions(found: Found) -> tuple[str, ...]:
    """Says in plain words what the columns mean."""
    settings = found.campaign.settings
    accepted = percent(settings.accepted_share)
    referee = "refused by the referee, or " if settings.referee == "on" else ""
    tolerance = tolerance_words(found.campaign)
    fails = {
        SteersAlike.name: f"lies {tolerance} or more from the answer on the unchanged one",
        SteersRight.name: f"lies {tolerance} or more from both the answer on the unchanged one and the human's steering",
    }.get(settings.relation, f"breaks the relation {settings.relation}{f' (tolerance: {tolerance})' if tolerance else ''}")
    online = (
        "Lane left from: the mildest severity under which a car leaves the lane that it keeps without it, in the built-in world. "
        "False-safe: tested on recorded frames, the network holds at that severity."
    )
    told = (
        (f"A frame fails where the answer on the changed picture {fails}. Where the camera is moved, the unchanged picture's answer is "
        "moved with it first."),
        f"Frames do not count that are {referee}wrong before anything is changed.",
        (f"Holds to: the largest severity at which no frame fails, or the 95 % interval of the failing share ends below {accepted}, there "
        f"and at every milder severity tested. Too few frames to be sure: no frame fails, but more than {accepted} could fail unseen."),
        (f"Fails from: the smallest severity at which the 95 % interval of the failing share begins above {accepted}. Undecided: there are "
        "too few frames to tell whether it holds or fails."),
        ("Failing at the limit: the share of frames that fail at the severity under \"fails from\"; where there is none, at that under "
        "\"holds to\"; where there is neither, at the mildest severity tested."),
        (f"Intervals (95 %) resample runs of {counted(settings.stretch_frames, 'neighbouring frame')}, since neighbours look alike. Where "
        "no frame fails, or every one, the interval reaches as far as so few runs could hide: "
        f"{percent(found.could_hide)} if all frames count."),
        ("Kept by the referee: of the pictures that it looked at at the same severity, the share that still shows the same scene. A "
        "severity at which it keeps fewer than half is not judged."),
        online if found.sound else "",
    )  # fmt: skip
    return tuple(filter(None, told))


def short_words(found: Found) -> tuple[str, ...]:
    """Warns of a drive that is too short for "no frame fails" to mean much."""
    settings = found.campaign.settings
    if found.could_hide <= settings.accepted_share or not len(found.frames):
        return ()
    observations = counted(len(found.frames) // max(settings.stretch_frames, 1), "independent observation")
    return (
        (
            f"The drive is short: neighbouring frames look alike, so that {counted(len(found.frames), 'frame')} count as only "
            f"{observations}. Where no frame fails, up to {percent(found.could_hide)} could still fail on roads like these, more than the "
            f"{percent(settings.accepted_share)} accepted: such a limit holds for these frames alone."
        ),
    )


def side_by_side(runs: Sequence[Run]) -> Table:
    """Compares the limits of several runs, a column each."""
    names, found = [], []
    for run in runs:
        campaign = load_campaign(run.config, str(run.path), run.manifest)
        found.append({each.row.name: each for each in Found.of(campaign, run).limits})  # type: ignore[arg-type]
        names.append(f"{plain(campaign.subject.description.name, 40)} ({plain(run.path.name, 40)})")  # type: ignore[attr-defined]
    rows = dict.fromkeys(name for each in found for name in each)
    return Table(
        "limits",
        "Limits",
        ("Condition", *(f"{name}: {what}" for name in names for what in ("holds to", "fails from"))),
        tuple((plain(name, 60), *(words for each in found for words in _both(each.get(name)))) for name in rows),
    )


def _both(limit: Limit | None) -> tuple[str, str]:
    return (NOTHING, NOTHING) if limit is None else (holds_words(limit), fails_words(limit))


def _tone(limits: Sequence[Limit]) -> Tone:
    if not limits:
        return Tone.UNKNOWN
    return Tone.ALARM if any(each.curve.fails_from is not None or each.is_false_safe for each in limits) else Tone.CALM


def _headlines(found: Found) -> tuple[Headline, ...]:
    limits = found.limits
    failing = sum(each.curve.fails_from is not None for each in limits)
    saved = f"a grid of the same resolution takes {count(found.grid_predictions)}"
    return (
        Headline("conditions", count(len(limits)), f"{count(failing)} of them with a severity at which the network fails"),
        Headline("frames", count(len(found.frames)), f"{percent(found.campaign.settings.accepted_share)} of them may fail"),
        Headline("predictions", count(found.predictions), saved),
    )


def _remarks(found: Found) -> tuple[str, ...]:
    campaign = found.campaign
    if isinstance(campaign.drive, LostDrive):
        return ()
    grey = "The frames have no colour, so that conditions of colour (colour temperature, say) test next to nothing."
    return (grey,) if is_grey(some_frames(campaign)) else ()


def _table_note(found: Found) -> str:
    marked = sum(each.is_false_safe for each in found.limits)
    return f"{counted(marked, 'row')} marked: offline testing says that it holds where a car leaves its lane." if marked else ""


def _map_tables(found: Found) -> tuple[Table, ...]:
    tables = []
    for number, pair in enumerate(found.maps):
        head = f"{pair.first.name} \\ {pair.second.name}"
        columns = (head, *(pair.second.words(two) if two else "none" for two in pair.positions))
        rows = tuple(
            (pair.first.words(one) if one else "none", *(_cell(pair.cells[one, two]) for two in pair.positions)) for one in pair.positions
        )
        title = f"{pair.first.name} with {pair.second.name}"
        tables.append(Table(f"pair-{number}", title, columns, rows, note="Share of frames that fail, with its 95 % interval."))
    return tuple(tables)


def _cell(point: LimitPoint | None) -> str:
    return NOTHING if point is None else f"{percent(point.failing.estimate)} ({interval(point.failing.low, point.failing.high)})"


def _pictures(found: Found, limits: Sequence[Limit]) -> tuple[list[PicturePair], tuple[str, ...]]:
    """Draws the worst frame at the limit of each row, those that fail first; says so where the drive is gone."""
    rows = {(row["severity"], row["position"]): row for row in _worst_at(found.run, limits)}
    pairs = []
    for limit in sorted(limits, key=lambda each: each.curve.fails_from is None):
        point = limit.at_limit
        row = None if point is None else rows.get((limit.row.name, point.position))
        if row is None:
            continue
        try:
            pairs.append(_pair(found, limit, row))
        except (BadRunError, BadDriveError) as error:
            return pairs, (plain(f"Pictures cannot be drawn: {error}.", 600),)
    return pairs, ()


def _worst_at(run: Run, limits: Sequence[Limit]) -> list[dict[str, Any]]:
    """Returns the case with the largest excess at the limit of each row."""
    wanted = {(limit.row.name, limit.at_limit.position) for limit in limits if limit.at_limit is not None}
    found = []
    for phase in run.phases():
        if not phase.startswith("round"):
            continue
        for table in run.iter_records(phase, (*_SHOWN, "severity", "position")):
            judged = table.filter(pc.invert(pc.is_nan(table["excess"])))
            if judged.num_rows and (judged["severity"][0].as_py(), judged["position"][0].as_py()) in wanted:
                worst = int(np.argmax(judged["excess"].to_numpy()))
                found.append(pa.Table.slice(judged, worst, 1).to_pylist()[0])
    return found


def pair_of(campaign: Limits, row: Mapping[str, Any]) -> tuple[NumpyFrames, NumpyFrames]:
    """Renders the unchanged frame of a record, cut as a moved camera's is, and the changed one."""
    index, recipe = int(row["frame_index"]), Recipe.from_json(str(row["recipe"]))
    frame = campaign.drive.frame(index) if 0 <= index < len(campaign.drive) or isinstance(campaign.drive, LostDrive) else None
    if frame is None or isinstance(frame, Problem):
        raise BadRunError(f"the frame can no longer be read: {frame or index}; put the drive back as it was")
    capture = capture_of(campaign.drive, np.array([index]))
    frames = frame[np.newaxis]
    before, after = (apply(frames, campaign.stimuli, capture) for apply in (recipe.reference, recipe.apply))
    return as_numpy(before)[0], as_numpy(after)[0]


def moved_by(judged: JudgedOutput, row: Mapping[str, Any]) -> float:
    """Returns by how much the right answer moved with the camera, as it is shown; 0 where it did not."""
    return judged.shown(row["expected"]) - judged.shown(row["original"]) if isfinite(row["expected"]) else 0.0


def _pair(found: Found, limit: Limit, row: Mapping[str, Any]) -> PicturePair:
    campaign = found.campaign
    judged = campaign.judged
    before, after = pair_of(campaign, row)
    point = limit.at_limit
    unit = judged.shown_unit
    words = NOTHING if point is None else limit.row.words(point.position)
    return PicturePair(
        case_id=row["case_id"],
        frame_id=row["frame_id"],
        recipe=f"{limit.row.name} {words} ({_where(limit)})",
        original=before,
        mutant=after,
        original_answer=judged.shown(row["expected"]),
        mutant_answer=judged.shown(row["mutant"]),
        excess=row["excess"],
        label_answer=nan if isnan(row["label"]) else judged.shown(row["label"]),
        unit=unit,
        moved=moved_by(judged, row),
        scale=scale_of(campaign.settings.relation),
        replay=f"skidpad replay {found.run.place} {row['case_id']}",
    )


def _where(limit: Limit) -> str:
    """Says what the severity is that stands for the limit of a row."""
    point = limit.at_limit
    if point is limit.curve.fails_from:
        return "fails from"
    if point is limit.curve.holds_to:
        return "holds to"
    refused = point is not None and point.standing(limit.curve.accepted) is Standing.REFUSED
    return f"mildest tested: {'refused by the referee' if refused else 'may already fail'}"
