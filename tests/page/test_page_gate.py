"""The gate's verdict as JUnit XML that CI systems read, and as Markdown in which foreign names stay inert."""

import re
import xml.etree.ElementTree as ET
from dataclasses import replace

import pytest

from skidpad.kinds.gating import gate_junit, gate_markdown
from skidpad.runs.gate import GateChange, GroupRate, Outcome, Verdict
from skidpad.statistics.intervals import wilson

NASTY = 'fog|<script>alert("x")</script>\x00\x1b[31m & ]]> `b`'


def rated(group: str, findings: int, cases: int, alarms: int = 0) -> GroupRate:
    return GroupRate(group, findings, wilson(findings, cases), alarms, wilson(findings - alarms, cases))


def verdict(*, kept: bool = False, group: str = "fog", notes: tuple[str, ...] = (), alarms: int = 0) -> Verdict:
    change = GateChange(group, wilson(14, 100), wilson(3, 100), 100, new=12, fixed=1, persisting=2, p_value=0.0004, is_paired=True)
    return Verdict(
        rates=(rated("all", 14, 200, alarms), rated(group, 14, 100, alarms)),
        changes=(change,),
        new=("0123456789ab", "ba9876543210"),
        outcomes=(
            Outcome("rate of all", True, "failure rate of all is within 0.5"),
            Outcome(f"rate of {group}", kept, f"{group} is worse"),
        ),
        notes=notes,
    )


def check_common_schema(text: str) -> ET.Element:
    """Checks what the schemas of Jenkins, Ant and GitLab have in common: names, order, types and sums."""
    root = ET.fromstring(text)
    assert root.tag == "testsuites"
    suites = list(root)
    assert {suite.tag for suite in suites} == {"testsuite"}
    whole = re.compile(r"\d+")
    for suite in suites:
        assert set(suite.attrib) == {"name", "tests", "failures", "errors", "skipped", "time", "timestamp", "hostname"}
        assert all(whole.fullmatch(suite.attrib[name]) for name in ("tests", "failures", "errors", "skipped"))
        assert re.fullmatch(r"\d+\.\d+", suite.attrib["time"])
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d", suite.attrib["timestamp"])
        tags = [child.tag for child in suite]
        assert tags == ["properties", *["testcase"] * (len(tags) - 3), "system-out", "system-err"]
        for known in suite.findall("properties/property"):
            assert set(known.attrib) == {"name", "value"}
        cases = suite.findall("testcase")
        assert len(cases) == int(suite.attrib["tests"])
        assert len(suite.findall("testcase/failure")) == int(suite.attrib["failures"])
        for case in cases:
            assert set(case.attrib) == {"name", "classname", "time"}
            assert case.attrib["name"]
            assert [child.tag for child in case] in ([], ["failure"])
            for failure in case:
                assert set(failure.attrib) == {"message", "type"}
    for name in ("tests", "failures", "errors"):
        assert int(root.attrib[name]) == sum(int(suite.attrib[name]) for suite in suites)
    return root


@pytest.mark.parametrize("kept", [True, False])
@pytest.mark.parametrize("group", ["fog", NASTY])
def test_junit_keeps_to_the_common_schema(kept: bool, group: str) -> None:
    text = gate_junit(verdict(kept=kept, group=group), f"runs/{group}", {"subject sha256": "abc"}, "2026-01-02T03:04:05")
    root = check_common_schema(text)
    assert root.attrib["failures"] == str(int(not kept))
    assert text == gate_junit(verdict(kept=kept, group=group), f"runs/{group}", {"subject sha256": "abc"}, "2026-01-02T03:04:05")


def test_junit_names_what_broke_and_the_new_findings() -> None:
    root = ET.fromstring(gate_junit(verdict(), "runs/a", {"baseline": "runs/b"}, "2026-01-02T03:04:05"))
    failure = root.find("testsuite/testcase[@name='rate of fog']/failure")
    assert failure is not None
    assert failure.attrib["message"] == failure.text == "fog is worse"
    assert "new finding: 0123456789ab" in root.findtext("testsuite/system-out", "")
    assert {each.attrib["name"]: each.attrib["value"] for each in root.iter("property")} == {"run": "runs/a", "baseline": "runs/b"}


def test_markdown_says_what_broke_first_and_has_one_row_a_group() -> None:
    text = gate_markdown(verdict(notes=("a note",)), "runs/my run", "runs/base")
    lines = text.splitlines()
    assert lines[0] == "## skidpad gate: FAILED"
    assert lines[2] == "Run `runs/my run` against `runs/base`"
    assert lines[4] == "- **fog is worse**"
    rows = [line for line in lines if line.startswith("|")]
    assert len(rows) == 4
    assert len({line.count("|") for line in rows}) == 1
    assert "- `skidpad replay 'runs/my run' 0123456789ab`" in lines
    assert lines[-1] == "a note"


def test_markdown_of_a_passed_gate_without_a_baseline() -> None:
    passed = Verdict((rated("all", 1, 100),), (), (), (Outcome("rate of all", True, "fine"),), ())
    text = gate_markdown(passed, "runs/a")
    assert text.startswith("## skidpad gate: passed\n\nRun `runs/a`\n\nThe limit is kept.\n")
    assert "baseline" not in text
    assert "false alarms" not in text


def test_markdown_shows_both_rates_where_people_found_false_alarms() -> None:
    rows = [line for line in gate_markdown(verdict(alarms=4), "runs/a").splitlines() if line.startswith("|")]
    assert len({line.count("|") for line in rows}) == 1
    assert "| false alarms | rate without | 95 % interval |" in rows[0]
    cells = [cell.strip().replace("\N{NO-BREAK SPACE}", " ") for cell in rows[3].split("|")]
    assert (cells[4], cells[6], cells[7]) == ("14.0 %", "4", "10.0 %")


def test_names_from_outside_stay_inert_in_markdown() -> None:
    text = gate_markdown(verdict(group=NASTY, notes=(NASTY,)), NASTY)
    assert "<script>" not in text.replace("`", "\x00").split("\x00")[0]
    table = [line for line in text.splitlines() if line.startswith("|")]
    assert all(len(re.findall(r"(?<!\\)\|", line)) == 11 for line in table)
    assert "\\<script\\>" in text
    assert "\x1b" not in text


def test_lists_that_are_cut_say_of_how_many_and_findings_say_what_they_are() -> None:
    many = replace(verdict(), new=tuple(f"{number:012x}" for number in range(525)))
    told = {"000000000000": "fog(density=3) on frame 7: 1.0° left became 9.0° right"}
    page = gate_markdown(many, "runs/new", "runs/base", told)
    assert "The worst 10 of 525 new findings:" in page.replace("\N{NARROW NO-BREAK SPACE}", "")
    assert "- fog(density=3) on frame 7: 1.0° left became 9.0° right: `skidpad replay runs/new 000000000000`" in page
    out = check_common_schema(gate_junit(many, "runs/new", {}, "2026-01-01T00:00:00", told=told)).findtext(".//system-out") or ""
    assert "the worst 50 of 525 new findings:" in out
    assert "new finding: 000000000000 fog(density=3) on frame 7" in out
    assert out.count("new finding: ") == 50
    assert "2 new findings:" in gate_markdown(verdict(), "runs/new")
