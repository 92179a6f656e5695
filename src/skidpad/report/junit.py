"""The gate's verdict as JUnit XML, which every CI system reads: one test case a limit."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from typing import TYPE_CHECKING

from skidpad.report.gate_findings import MOST_TOLD, new_words
from skidpad.report.wording import plain

if TYPE_CHECKING:
    from collections.abc import Mapping

    from skidpad.runs.gate import Verdict

_SUITE = "skidpad gate"


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
        ET.SubElement(known, "property", {"name": _text(name), "value": _text(value)})
    for outcome in verdict.outcomes:
        case = ET.SubElement(suite, "testcase", {"name": _text(outcome.name), "classname": "skidpad.gate", "time": "0.000"})
        if not outcome.is_kept:
            failure = ET.SubElement(case, "failure", {"message": _text(outcome.said), "type": "limit"})
            failure.text = _text(outcome.said)
    doubts = [f"doubt: {doubt.said}" for doubt in verdict.doubts]
    said = [_text(line) for line in (*doubts, *(outcome.said for outcome in verdict.outcomes), *verdict.notes)]
    shown = verdict.new[:MOST_TOLD]
    said += [f"{new_words(len(shown), len(verdict.new))}:"] if len(shown) < len(verdict.new) else []
    words = told or {}
    said += [f"new finding: {_text(' '.join(filter(None, (case, words.get(case)))))}" for case in shown]
    ET.SubElement(suite, "system-out").text = "\n".join(said)
    ET.SubElement(suite, "system-err").text = ""
    ET.indent(root)
    return '<?xml version="1.0" encoding="utf-8"?>\n' + ET.tostring(root, encoding="unicode") + "\n"


def _text(text: str) -> str:
    """Returns text that XML can hold: a name from a file system may carry control characters, which it cannot."""
    return plain(text, 1000)
