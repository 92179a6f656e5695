"""The judged cases of a run, for the gate: what names a case in any run, what groups it, and which runs can be compared at all.

And the verdict as Markdown and JUnit XML, which tell new findings by the stimulus and the answers, not by the id alone.
"""

from __future__ import annotations

import shlex
import xml.etree.ElementTree as ET
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from hashlib import blake2b
from math import degrees, isfinite
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from skidpad.core.errors import BadRunError
from skidpad.core.stimuli import Recipe
from skidpad.kinds.kind import KINDS, CaseColumns, campaign_name, kind_of
from skidpad.oracles.error import scale_of_run, times_tolerated
from skidpad.page.model import Table
from skidpad.page.wording import DEGREES, answer, counted, interval, percent, plain
from skidpad.page.writing import code, inert, markdown_table
from skidpad.runs.findings import run_doubts
from skidpad.runs.gate import NEAR, Cases, Limits, Outcome, Texts, Verdict, judge
from skidpad.runs.manifest import ROUNDING
from skidpad.runs.records import ORIGINALS, Record, holds_pictures
from skidpad.runs.tags import Tag, Tags

if TYPE_CHECKING:
    from skidpad.core.images import IntArray
    from skidpad.runs.folder import Run

_SAME_ANYWAY = frozenset({"subject", "drive", "seed", "device", "subject_device", "width", "shard_frames", "keep_activations"})
"""Settings that may differ between runs that are compared; the drive is compared by its hash."""


_STIMULUS, _RECIPE = "stimulus", "recipe"


def columns_of(run: Run) -> CaseColumns:
    """Returns how the records of a run are read; where its kind does not say: as pictures or by case ids."""
    name = campaign_name(run.config, str(run.path))
    columns = KINDS.get(name).columns if name in KINDS.names() else None
    return columns or (CaseColumns(group="stimulus", cluster="frame_id") if holds_pictures(run.schema) else CaseColumns())


def judged_cases(run: Run) -> Cases:
    """Reads the cases of a run that could be judged; of one that was met several times, the worst counts."""
    return _judged_cases(run)[0]


def _judged_cases(run: Run) -> tuple[Cases, int, int, Mapping[str, int]]:
    """Returns the cases, how many records of the run are of a case that counts already, and how many failures nobody could avoid.

    Also the groups of which no case could be judged, with how many records they have.
    """
    columns = columns_of(run)
    tags = Tags.of(run.path).current()
    wanted = ["case_id", "excess", "violated", columns.cluster, *columns.key]
    wanted += [columns.group] if columns.group else []
    wanted += [_RECIPE] if columns.group == _STIMULUS and _RECIPE in run.schema.names else []
    wanted += [columns.only[0]] if columns.only else []
    wanted += columns.excused[0] if columns.excused else ()
    parts, excused = [], 0
    all_of: Counter[bytes] = Counter()
    for phase in _counted(run, columns):
        for table in run.iter_records(phase, list(dict.fromkeys(wanted))):
            if phase != ORIGINALS:
                found, counts = np.unique(_groups(table, columns, phase), return_counts=True)
                all_of.update(dict(zip(found.tolist(), counts.tolist(), strict=True)))
            judged = table.filter(pc.invert(pc.is_nan(table["excess"])))
            if columns.only:
                judged = judged.filter(pc.equal(judged[columns.only[0]], columns.only[1]))
            if columns.excused:
                names, is_excused = columns.excused
                avoidable = judged.filter(pa.array([not is_excused(row) for row in judged.select(names).to_pylist()], pa.bool_()))
                excused += judged.num_rows - avoidable.num_rows
                judged = avoidable
            parts.append(_cases(judged, columns, phase, tags))
    if not any(len(part) for part in parts):
        raise BadRunError(f"the run {run.path} has no case that could be judged, and a gate that looks at nothing must not pass")
    whole = Cases.joined(parts)
    kept = whole.take(_worst_of_each(whole))
    # some kinds count only certain records, and leave out the others on purpose
    told = set(whole.group.tolist())
    unjudged = {group.decode("utf-8", "replace"): count for group, count in sorted(all_of.items()) if group not in told}
    return kept, len(whole) - len(kept), excused, {} if columns.only or columns.excused else unjudged


def check_gate(run: Run, limits: Limits, baseline: Run | None = None) -> Verdict:
    """Judges a finished run against limits, and against a baseline that can be compared with it."""
    for each in (run, baseline):
        if each is not None and each.integrity.altered:
            raise BadRunError(f"the run {each.path} cannot pass a gate: {each.integrity.doubt}")
        if each is not None and not each.is_finished:
            way_out = each.damage() or f"go on with: skidpad resume {each.place}"
            raise BadRunError(f"the run {each.path} is not finished, so its rates are not final; {way_out}")
        if each is not None and each.config.get("estimate"):
            raise BadRunError(
                f"the run {each.path} is an estimate, which chooses its cases, so that shares of them say nothing of the domain; read the "
                f"upper bound with `skidpad report {each.place} --json` (estimate.high), or gate a run that was made without --estimate"
            )
        if each is not None and limits.without_false_alarms and (damage := Tags.of(each.path).damage()):
            raise BadRunError(f"{damage}; a gate that leaves out false alarms must know them all")
    if baseline is not None:
        reasons = differences(run, baseline)
        if reasons:
            raise BadRunError(f"{run.path} and {baseline.path} cannot be compared: {'; '.join(reasons)}; run both the same way")
    cases, repeated, excused, unjudged = _judged_cases(run)
    changes = () if baseline is None else baseline.manifest.changes_to(run.manifest)
    rounding = [change for change in changes if change.part in ROUNDING]
    verdict = judge(cases, limits, None if baseline is None else judged_cases(baseline), NEAR if rounding else 0.0)
    named = [(each, f"the {what} {each.path}") for each, what in ((run, "run"), (baseline, "baseline")) if each is not None]
    notes = [f"{name}: {told}" for each, name in named for told in (each.integrity.doubt, Tags.of(each.path).damage()) if told]
    notes += [
        f"the baseline was made by another {change.part}: {change.then or 'none'} then, {change.now or 'none'} now" for change in rounding
    ]
    if repeated:
        times = "1 case was drawn again and counts" if repeated == 1 else f"{repeated} cases were drawn again and count"
        notes.append(f"{times} once here; `skidpad test` counts every time, so that it says more")
    if excused:
        notes.append(
            f"{excused} failure{'' if excused == 1 else 's'} that nobody could avoid {'counts' if excused == 1 else 'count'} in no rate"
        )
    notes += [f"{group}: none of its {counted(many, 'record')} could be judged, so it is in no rate" for group, many in unjudged.items()]
    if len(_counted(run, columns_of(run))) < len(run.phases()):
        first, *others = _searches(run)
        notes.append(f"what {first} found counts; {', '.join(others)} is what it is compared with")
    outcomes = kind_of(run).part("hold", "held against a severity")(run, limits.hold) if limits.hold else ()
    return _doubted(replace(verdict, notes=(*verdict.notes, *notes), outcomes=(*verdict.outcomes, *outcomes)), run, limits)


def _doubted(verdict: Verdict, run: Run, limits: Limits) -> Verdict:
    """Returns the verdict with what is odd about the run's answers: a rate of nonsense must not pass unless somebody accepts it."""
    doubts = run_doubts(run)
    kinds = ", ".join(doubt.kind.value for doubt in doubts if doubt.refuses)
    if not kinds or limits.accept_doubts:
        return replace(verdict, doubts=doubts)
    said = f"the answers on unchanged frames make no sense ({kinds}); mend the network or its description, or pass --accept-doubts"
    return replace(verdict, doubts=doubts, outcomes=(Outcome("answers on unchanged frames", is_kept=False, said=said), *verdict.outcomes))


def differences(run: Run, baseline: Run, here: str = "here", there: str = "there") -> tuple[str, ...]:
    """Returns why two runs cannot be compared, in words; nothing where they can. here, there: what the two are called."""
    kinds = [campaign_name(each.config, str(each.path)) for each in (run, baseline)]
    if kinds[0] != kinds[1]:
        return (f"one is a {kinds[0]} run, the other a {kinds[1]} run",)
    columns = columns_of(run)
    changed = [f"{each.path}: {each.integrity.doubt}" for each in (run, baseline) if each.integrity.altered]
    now, then = run.manifest.hashes, baseline.manifest.hashes
    fixed = [name for name in sorted(set(now) | set(then)) if name != "subject" and name not in columns.free_hashes]
    reasons = changed + [f"the {name} is another" for name in fixed if now.get(name) != then.get(name)]
    if run.config.get("relation") == "label-mse" and now.get("subject") != then.get("subject"):
        reasons.append(
            "label-mse tolerates a multiple of each network's own error, so the worse one is measured more mildly (give --within-deg)"
        )
    free = _SAME_ANYWAY | columns.free
    for name in sorted(set(run.config) | set(baseline.config)):
        # runs of former versions asked no referee, and knew DeepTest's transforms alone
        usual = {"referee": "off", "preset": "deeptest"}.get(name)
        mine, theirs = run.config.get(name, usual), baseline.config.get(name, usual)
        if name not in free and mine != theirs:
            reasons.append(f"{name} is {_worded(mine)} {here} and {_worded(theirs)} {there}")
    return tuple(reasons)


def _counted(run: Run, columns: CaseColumns) -> tuple[str, ...]:
    """Returns the phases whose cases count."""
    if not columns.led:
        return run.phases()
    # es-r00 is the first repeat of es
    return tuple(phase for phase in run.phases() if phase.rpartition("-r")[0] == _searches(run)[0])


def _searches(run: Run) -> list[str]:
    found = run.config["searches"]
    return [str(name) for name in found] if isinstance(found, list | tuple) else [str(found)]


def _worded(value: object) -> str:
    return "not set" if value is None else repr(value)


def _cases(table: pa.Table, columns: CaseColumns, phase: str, tags: Mapping[str, Tag]) -> Cases:
    return Cases(
        key=_keys(table, columns.key),
        case_id=_texts(table["case_id"]),
        group=_groups(table, columns, phase),
        cluster=_texts(table[columns.cluster]),
        excess=table["excess"].to_numpy(),
        failed=np.asarray(table["violated"].to_numpy(zero_copy_only=False), np.bool_),
        tag=_tags(table["case_id"], tags),
    )


def _groups(table: pa.Table, columns: CaseColumns, phase: str) -> Texts:
    groups = _texts(_current(table) if columns.group == _STIMULUS else table[columns.group]) if columns.group else _all(table, phase)
    # pairs that a search drew are too many kinds for groups of their own
    return np.where(np.char.find(groups, b"+") >= 0, phase.encode(), groups)


def _all(table: pa.Table, phase: str) -> Texts:
    return np.full(table.num_rows, phase.encode())


def _current(table: pa.Table) -> pa.ChunkedArray:
    """Returns today's names of the stimuli: what former versions stored as fog and rain are now other stimuli than fog and rain."""
    if _RECIPE not in table.column_names:
        return table[_STIMULUS]
    recipes = table[_RECIPE].to_pylist()
    names = {text: Recipe.from_json(text).name for text in set(recipes)}
    return pa.chunked_array([[names[text] for text in recipes]], pa.string())


def _tags(case_ids: pa.ChunkedArray, tags: Mapping[str, Tag]) -> Texts:
    said = np.zeros(len(case_ids), f"S{max(len(tag.value) for tag in Tag)}")
    if tags:
        known = pc.is_in(case_ids, value_set=pa.array(list(tags), pa.string())).to_numpy()
        for place in np.flatnonzero(known).tolist():
            said[place] = tags[case_ids[place].as_py()].value.encode()
    return said


def _keys(table: pa.Table, names: tuple[str, ...]) -> Texts:
    if len(names) == 1:
        return _texts(table[names[0]])
    rows = zip(*(table[name].to_pylist() for name in names), strict=True)
    texts = ["\x1f".join(map(str, row)).encode("utf-8", "surrogatepass") for row in rows]
    return np.array([blake2b(text, digest_size=8).hexdigest().encode() for text in texts], "S16")


def _texts(column: pa.ChunkedArray) -> Texts:
    return np.array([str(value).encode("utf-8", "surrogatepass") for value in column.to_pylist()], np.bytes_)


def _worst_of_each(cases: Cases) -> IntArray:
    """Returns one row for each key: one that failed before one that did not, real before a false alarm, then the worst, then the first."""
    order = np.lexsort((np.arange(len(cases)), -cases.excess, cases.false_alarms, ~cases.failed, cases.key))
    keys = cases.key[order]
    first = np.concatenate(([True], keys[1:] != keys[:-1]))
    return np.sort(order[first])


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


def gate_junit(verdict: Verdict, run: str, properties: Mapping[str, str], timestamp: str, told: Mapping[str, str] | None = None) -> str:
    """Returns the text of the file. run: its path or name. timestamp: ISO 8601 without an offset, as the schema wants it.

    told: what the new findings are, by case.
    """
    counts = {"tests": str(len(verdict.outcomes)), "failures": str(len(verdict.broken)), "errors": "0", "skipped": "0"}
    suite_of = {"name": _SUITE, **counts, "time": "0.000"}
    root = ET.Element("testsuites", suite_of)
    suite = ET.SubElement(root, "testsuite", {**suite_of, "timestamp": timestamp, "hostname": "localhost"})
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
