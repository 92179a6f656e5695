"""skidpad gate: exit code 1 where a run breaks its limits or is worse than a baseline."""

from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from skidpad.cli.runs import Json, RunPath
from skidpad.core.errors import SkidpadError
from skidpad.page.terminal import print_json, say, say_lines, table

if TYPE_CHECKING:
    from collections.abc import Mapping

    from skidpad.runs.gate import Verdict
    from skidpad.statistics.intervals import Interval

_SHOWN_NEW = 5


def add_to(app: typer.Typer) -> None:
    """Adds the command to the application."""
    app.command()(gate)


def gate(
    run: RunPath,
    baseline: Annotated[Path | None, typer.Option(help="Run of an earlier network; failure rates must not rise above its rates.")] = None,
    max_rate: Annotated[
        list[str] | None, typer.Option(help="Largest failure rate: 0.05 for all cases, or fog=0.1 for a group; may be repeated.")
    ] = None,
    hold: Annotated[
        list[str] | None,
        typer.Option(
            help="For a run of `skidpad limits`: severity that the network must hold to, e.g. fog.visibility_m=150; may be repeated."
        ),
    ] = None,
    max_new: Annotated[int | None, typer.Option(help="Largest number of cases that fail here and did not fail in the baseline.")] = None,
    max_rise: Annotated[float, typer.Option(help="Largest rise of a rate above the baseline's, e.g. 0.01.")] = 0.0,
    alpha: Annotated[
        float, typer.Option(help="Significance level: the accepted probability of failing although nothing got worse.")
    ] = 0.01,
    without_false_alarms: Annotated[
        bool, typer.Option("--without-false-alarms", help="Findings that are tagged as false alarms count as passed.")
    ] = False,
    accept_doubts: Annotated[
        bool,
        typer.Option(
            "--accept-doubts", help="Pass even if the answers on unchanged frames make no sense, e.g. are constant or implausible."
        ),
    ] = False,
    junit: Annotated[Path | None, typer.Option(help="Write JUnit XML here.")] = None,
    markdown: Annotated[Path | None, typer.Option(help="Write a Markdown summary here; - prints it and nothing else.")] = None,
    json: Json = False,
) -> None:
    """Check a run against limits and a baseline; exits with 1 and prints one line for each limit that is broken."""
    from skidpad.kinds.gating import MOST_TOLD, check_gate, finding_words
    from skidpad.runs.folder import Run
    from skidpad.runs.gate import Limits

    is_printed = markdown == Path("-")
    if is_printed and json:
        raise SkidpadError("--json and --markdown - would print into each other; write the Markdown to a file")
    opened = Run.open(run)
    other = None if baseline is None else Run.open(baseline)
    if other is not None and other.path.resolve() == opened.path.resolve():
        raise SkidpadError(f"the run {run} is its own baseline, which it can never be worse than; name the run of an earlier subject")
    limits = Limits(
        _rates(max_rate or []),
        max_new,
        max_rise,
        alpha,
        without_false_alarms=without_false_alarms,
        accept_doubts=accept_doubts,
        hold=tuple(hold or ()),
    )
    verdict = check_gate(opened, limits, other)
    told = finding_words(opened, verdict.new[:MOST_TOLD])
    if junit is not None:
        _write(junit, _junit(verdict, opened, other, told))
    if markdown is not None:
        from skidpad.kinds.gating import gate_markdown

        summary = gate_markdown(verdict, str(opened.path), "" if other is None else str(other.path), told)
        if is_printed:
            say_lines(summary)
        else:
            _write(markdown, summary)
    if json:
        print_json(_payload(verdict, opened, other, told))
    elif not is_printed:
        _show(verdict, opened, told)
    if not verdict.is_passed:
        raise typer.Exit(1)


def _rates(texts: list[str]) -> dict[str, float]:
    from skidpad.runs.gate import ALL

    found: dict[str, float] = {}
    for text in texts:
        name, equals, number = text.rpartition("=")
        group = name if equals else ALL
        if group in found:
            raise SkidpadError(f"--max-rate has two limits for {group!r}, {found[group]:g} and {number}; keep one")
        try:
            found[group] = float(number)
        except ValueError as error:
            raise SkidpadError(f"--max-rate is a number, as 0.05, or a group with one, as fog=0.1; got {text!r}") from error
    return found


def _show(verdict: "Verdict", run: Any, told: "Mapping[str, str]") -> None:
    from skidpad.kinds.gating import new_words

    for doubt in verdict.doubts:
        say(f"doubt: {doubt.said}")
    changes = {change.group: change for change in verdict.changes}
    rows = []
    for rated in verdict.rates:
        cells: list[object] = [rated.group, rated.rate.n, rated.findings, *_percents(rated.rate)]
        cells += [rated.false_alarms, *_percents(rated.rate_without)] if verdict.has_false_alarms else []
        change = changes.get(rated.group)
        if change is not None:
            cells += [_percents(change.then)[0], change.new, change.fixed, change.persisting, change.p_value]
        elif changes:
            cells += [None] * 5
        rows.append(cells)
    columns = ["group", "cases", "findings", "rate", "95 % interval"]
    columns += ["false alarms", "rate without", "95 % interval"] if verdict.has_false_alarms else []
    columns += ["baseline", "new", "fixed", "persisting", "p"] if changes else []
    table("gate", columns, rows)
    for note in verdict.notes:
        say(f"note: {note}")
    for outcome in verdict.broken:
        say(f"broken: {outcome.said}")
    for outcome in verdict.outcomes:
        if not outcome.is_sure:
            say(f"unsure: {outcome.said}")
    if verdict.broken:
        shown = verdict.new[:_SHOWN_NEW]
        if len(shown) < len(verdict.new):
            say(f"{new_words(len(shown), len(verdict.new))}; --json lists all:")
        for case in shown:
            say(f"new finding: {told.get(case, case)}; skidpad replay {run.place} {case}")
    else:
        kept = len(verdict.outcomes)
        say("passed: the limit is kept" if kept == 1 else f"passed: {kept} limits are kept")


def _percents(found: "Interval") -> tuple[str, str]:
    from skidpad.page.wording import interval, percent

    return percent(found.estimate), interval(found.low, found.high)


def _payload(verdict: "Verdict", run: Any, baseline: Any, told: "Mapping[str, str]") -> dict[str, Any]:
    from skidpad.oracles.doubts import doubts_payload

    return {
        "run": run.place,
        "baseline": None if baseline is None else baseline.place,
        "passed": verdict.is_passed,
        "doubts": doubts_payload(verdict.doubts),
        "broken": [outcome.said for outcome in verdict.broken],
        "limits": [asdict(outcome) for outcome in verdict.outcomes],
        "rates": [
            {
                "group": rated.group,
                "findings": rated.findings,
                **asdict(rated.rate),
                "false_alarms": rated.false_alarms,
                "without_false_alarms": asdict(rated.rate_without),
            }
            for rated in verdict.rates
        ],
        "changes": [asdict(change) for change in verdict.changes],
        "new": list(verdict.new),
        "worst_new": dict(told),
        "notes": list(verdict.notes),
    }


def _junit(verdict: "Verdict", run: Any, baseline: Any, told: "Mapping[str, str]") -> str:
    from skidpad.kinds.gating import gate_junit

    properties = {f"{name} sha256": value for name, value in run.manifest.hashes.items()}
    if baseline is not None:
        properties["baseline"] = str(baseline.path)
    now = datetime.now(UTC).replace(tzinfo=None).isoformat(timespec="seconds")
    return gate_junit(verdict, str(run.path), properties, now, told=told)


def _write(path: Path, text: str) -> None:
    from skidpad.page.writing import write_text_whole

    write_text_whole(path, text)
