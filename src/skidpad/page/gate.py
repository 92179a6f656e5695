"""What a gate's new findings are, in words: the transform and the answers, not the id alone."""

from __future__ import annotations

import shlex
import xml.etree.ElementTree as ET
from collections.abc import Mapping, Sequence
from functools import partial
from math import degrees, isfinite
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from skidpad.oracles.error import scale_of_run, times_tolerated
from skidpad.page.markdown import code, inert, markdown_table
from skidpad.page.model import Table
from skidpad.page.wording import DEGREES, answer, counted, interval, percent, plain
from skidpad.runs.records import Record, holds_pictures

if TYPE_CHECKING:
    from skidpad.runs.folder import Run
    from skidpad.runs.gate import Verdict


MOST_TOLD = 50
"""As many new findings as any of the gate's outputs lists."""
_NAMING = ("condition", "scenario_name", "column", "training", "test", "episode")
"""Columns that say what a case of a drive or a duel is."""


def finding_words(run: Run, cases: Sequence[str]) -> Mapping[str, str]:
    """Words cases of a run by their ids; of one that was met several times, the worst."""
    wanted = pa.array(list(cases), pa.string())
    rows: dict[str, Mapping[str, Any]] = {}
    for table in run.iter_records() if len(wanted) else ():
        for row in table.filter(pc.is_in(table["case_id"], value_set=wanted)).to_pylist():
            known = rows.get(row["case_id"])
            if known is None or row["excess"] > known["excess"]:
                rows[row["case_id"]] = row
    return {case: plain(_words(run, rows[case])) for case in cases if case in rows}


def new_words(shown: int, total: int) -> str:
    """Heads a list of new findings that may be cut."""
    return f"{counted(total, 'new finding')}" if shown >= total else f"the worst {shown} of {counted(total, 'new finding')}"


def _words(run: Run, row: Mapping[str, Any]) -> str:
    if not holds_pictures(run.schema):
        return ", ".join(f"{name.replace('_name', '')} {row[name]}" for name in _NAMING if row.get(name) not in {None, ""})
    record = Record.from_row(row)
    unit = str(run.config.get("unit", "rad"))
    is_angle = unit == "rad"
    was, now, label = (
        answer(degrees(value) if is_angle else value, DEGREES if is_angle else unit)
        for value in (record.original, record.mutant, record.label)
    )
    human = f", the human: {label}" if isfinite(record.label) else ""
    times = times_tolerated(record.excess, scale_of_run(run.config))
    return f"{record.recipe} on frame {record.frame_id}: {was} became {now}{human} ({times})"


_MAX_NEW = 10


def gate_markdown(verdict: Verdict, run: str, baseline: str = "", told: Mapping[str, str] | None = None) -> str:
    """Returns heading, broken limits, the table of rates and the worst new findings. told: what these are, by case."""
    passed = "passed" if verdict.is_passed else "FAILED"
    lines = [f"## skidpad gate: {passed}", "", f"Run {code(run)}" + (f" against {code(baseline)}" if baseline else ""), ""]
    lines += [line for doubt in verdict.doubts for line in (f"In doubt: {inert(doubt.said)}", "")]
    lines += [f"- **{inert(outcome.said)}**" for outcome in verdict.broken]
    kept = len(verdict.outcomes)
    lines += [] if verdict.broken else ["The limit is kept." if kept == 1 else f"All {kept} limits are kept."]
    lines += ["", *markdown_table(_rates(verdict))]
    if verdict.new:
        shown = verdict.new[:_MAX_NEW]
        heading = new_words(len(shown), len(verdict.new))
        lines += ["", f"{heading[:1].upper()}{heading[1:]}:", ""]
        lines += [f"- {_said(told or {}, case)}{code(f'skidpad replay {shlex.quote(run)} {case}')}" for case in shown]
    lines += [line for note in verdict.notes for line in ("", inert(note))]
    return "\n".join(lines) + "\n"


def _rates(verdict: Verdict) -> Table:
    changes = {change.group: change for change in verdict.changes}
    heads = ["group", "cases", "findings", "rate", "95 % interval"]
    heads += ["false alarms", "rate without", "95 % interval"] if verdict.has_false_alarms else []
    heads += ["baseline", "new", "fixed", "persisting", "p"] if changes else []
    rows = []
    for rated in verdict.rates:
        found, without = rated.rate, rated.rate_without
        cells = [rated.group, str(found.n), str(rated.findings), percent(found.estimate), interval(found.low, found.high)]
        if verdict.has_false_alarms:
            cells += [str(rated.false_alarms), percent(without.estimate), interval(without.low, without.high)]
        change = changes.get(rated.group)
        if change is not None:
            p_value = f"{change.p_value:.2g}" if change.p_value == change.p_value else ""
            cells += [percent(change.then.estimate), str(change.new), str(change.fixed), str(change.persisting), p_value]
        rows.append((*cells, *[""] * (len(heads) - len(cells))))
    return Table("rates", "", tuple(heads), tuple(rows))


def _said(told: Mapping[str, str], case: str) -> str:
    return f"{inert(told[case])}: " if case in told else ""


_SUITE = "skidpad gate"
_xml = partial(plain, limit=1000)
"""Makes text that XML can hold: a name from a file system may carry control characters, which it cannot."""


def gate_junit(
    verdict: Verdict, run: str, properties: Mapping[str, str], timestamp: str, time_s: float = 0.0, told: Mapping[str, str] | None = None
) -> str:
    """Returns the text of the file. run: its path or name. timestamp: ISO 8601 without an offset, as the schema wants it.

    told: what the new findings are, by case.
    """
    counts = {"tests": str(len(verdict.outcomes)), "failures": str(len(verdict.broken)), "errors": "0", "skipped": "0"}
    seconds = f"{time_s:.3f}"
    root = ET.Element("testsuites", {"name": _SUITE, **counts, "time": seconds})
    suite = ET.SubElement(root, "testsuite", {"name": _SUITE, **counts, "time": seconds, "timestamp": timestamp, "hostname": "localhost"})
    known = ET.SubElement(suite, "properties")
    for name, value in {"run": run, **properties}.items():
        ET.SubElement(known, "property", {"name": _xml(name), "value": _xml(value)})
    for outcome in verdict.outcomes:
        case = ET.SubElement(suite, "testcase", {"name": _xml(outcome.name), "classname": "skidpad.gate", "time": "0.000"})
        if not outcome.is_kept:
            failure = ET.SubElement(case, "failure", {"message": _xml(outcome.said), "type": "limit"})
            failure.text = _xml(outcome.said)
    doubts = [f"doubt: {doubt.said}" for doubt in verdict.doubts]
    said = [_xml(line) for line in (*doubts, *(outcome.said for outcome in verdict.outcomes), *verdict.notes)]
    shown = verdict.new[:MOST_TOLD]
    said += [f"{new_words(len(shown), len(verdict.new))}:"] if len(shown) < len(verdict.new) else []
    words = told or {}
    said += [f"new finding: {_xml(' '.join(filter(None, (case, words.get(case)))))}" for case in shown]
    ET.SubElement(suite, "system-out").text = "\n".join(said)
    ET.SubElement(suite, "system-err").text = ""
    ET.indent(root)
    return '<?xml version="1.0" encoding="utf-8"?>\n' + ET.tostring(root, encoding="unicode") + "\n"
