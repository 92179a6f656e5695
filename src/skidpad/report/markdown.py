"""The gate's verdict in Markdown, for the pages of CI systems; names from outside stay inert."""

from __future__ import annotations

import re
import shlex
from typing import TYPE_CHECKING

from skidpad.report.gate_findings import new_words
from skidpad.report.wording import interval, percent, plain

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from skidpad.runs.gate import Verdict

_SPECIAL = re.compile(r"([\\`*_\[\]<>&|#~!])")
_MAX_NEW = 10


def gate_markdown(verdict: Verdict, run: str, baseline: str = "", told: Mapping[str, str] | None = None) -> str:
    """Returns heading, broken limits, the table of rates and the worst new findings. told: what these are, by case."""
    passed = "passed" if verdict.is_passed else "FAILED"
    lines = [f"## skidpad gate: {passed}", "", f"Run `{_code(run)}`" + (f" against `{_code(baseline)}`" if baseline else ""), ""]
    lines += [line for doubt in verdict.doubts for line in (f"In doubt: {_text(doubt.said)}", "")]
    lines += [f"- **{_text(outcome.said)}**" for outcome in verdict.broken]
    kept = len(verdict.outcomes)
    lines += [] if verdict.broken else ["The limit is kept." if kept == 1 else f"All {kept} limits are kept."]
    lines += ["", *_rates(verdict)]
    if verdict.new:
        shown = verdict.new[:_MAX_NEW]
        heading = new_words(len(shown), len(verdict.new))
        lines += ["", f"{heading[:1].upper()}{heading[1:]}:", ""]
        lines += [f"- {_said(told or {}, case)}`skidpad replay {_code(shlex.quote(run))} {_code(case)}`" for case in shown]
    lines += [line for note in verdict.notes for line in ("", _text(note))]
    return "\n".join(lines) + "\n"


def _rates(verdict: Verdict) -> list[str]:
    changes = {change.group: change for change in verdict.changes}
    heads = ["group", "cases", "findings", "rate", "95 % interval"]
    heads += ["false alarms", "rate without", "95 % interval"] if verdict.has_false_alarms else []
    more = ["baseline", "new", "fixed", "persisting", "p"] if changes else []
    lines = [_row(heads + more), _row(["---", *["---:"] * (len(heads) + len(more) - 1)])]
    for rated in verdict.rates:
        found, without = rated.rate, rated.rate_without
        cells = [_text(rated.group), str(found.n), str(rated.findings), percent(found.estimate), interval(found.low, found.high)]
        if verdict.has_false_alarms:
            cells += [str(rated.false_alarms), percent(without.estimate), interval(without.low, without.high)]
        change = changes.get(rated.group)
        if change is not None:
            p_value = f"{change.p_value:.2g}" if change.p_value == change.p_value else ""
            cells += [percent(change.then.estimate), str(change.new), str(change.fixed), str(change.persisting), p_value]
        lines.append(_row(cells + [""] * (len(heads) + len(more) - len(cells))))
    return lines


def _said(told: Mapping[str, str], case: str) -> str:
    return f"{_text(told[case])}: " if case in told else ""


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _text(text: str) -> str:
    return _SPECIAL.sub(r"\\\1", plain(text, 400)).replace("\\_", "_")


def _code(text: str) -> str:
    return plain(text, 300).replace("`", "'")
