"""skidpad scenarios: draw them from a domain model, check files, look at them, and hand them to other simulators."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from skidpad.cli.runs import Json, Seed
from skidpad.core.errors import SkidpadError
from skidpad.page.terminal import print_json, say, table, warn

if TYPE_CHECKING:
    from skidpad.worlds.scenario.files import ScenarioSet

Files = Annotated[list[Path], typer.Argument(metavar="FILE...", help="Scenario files (.toml, .json, .xosc) or folders of them.")]


def add_to(app: typer.Typer) -> None:
    """Adds the group of commands to the application."""
    group = typer.Typer(no_args_is_help=True, help="Scenarios for closed-loop drives: draw, check, fetch, read, export.")
    for command in (draw, check, fetch, read, export):
        group.command()(command)
    app.add_typer(group, name="scenarios")


def draw(
    out: Annotated[Path, typer.Option(help="One file for all of them (.toml or .json), or a folder for one file each.")],
    domain: Annotated[str, typer.Option(help="The domain model: restricted or extended.")] = "extended",
    count: Annotated[int, typer.Option(help="How many scenarios to draw.")] = 10,
    first: Annotated[int, typer.Option(help="Number of the first scenario; scenario k depends only on the seed and k.")] = 0,
    seconds: Annotated[float, typer.Option(help="Length of each scenario in seconds; 0 uses the domain's.")] = 0.0,
    seed: Seed = 0,
    json: Json = False,
) -> None:
    """Draw scenarios that obey every constraint of a domain, and write them as files to read, change and drive."""
    from skidpad.kinds.drives.campaign import check_seconds, domain_lasting
    from skidpad.worlds.scenario.domain import sample
    from skidpad.worlds.scenario.files import SUFFIXES, NamedScenario, write_scenario, write_scenarios

    if seconds:
        check_seconds(seconds)
    drawn = sample(domain_lasting(domain, seconds), seed, count, first)
    named = [NamedScenario(f"{domain}-{number:03d}", each) for number, each in enumerate(drawn.scenarios, first)]
    if out.suffix in SUFFIXES:
        out.parent.mkdir(parents=True, exist_ok=True)
        write_scenarios(out, named)
    elif out.is_file():
        raise SkidpadError(f"{str(out)!r} is a file, and no .toml or .json; name a folder")
    else:
        out.mkdir(parents=True, exist_ok=True)
        for each in named:
            write_scenario(out / f"{each.name}.toml", each.scenario)
    if json:
        broken = dict(drawn.rejections.broken)
        print_json({"out": str(out), "scenarios": [each.name for each in named], "thrown_away": drawn.rejections.tries, "broken": broken})
        return
    from skidpad.page.wording import counted

    say(f"{counted(len(named), 'scenario')} of the domain {domain!r}: {out}")
    if drawn.rejections.tries:
        say(f"{drawn.rejections.tries} were thrown away: {drawn.rejections}")
    say(f"drive them: skidpad drive demo --scenario {out}")


def check(files: Files, json: Json = False) -> None:
    """Check scenario files: keys, ranges, constraints, a road that crosses itself; exit code 1 where one cannot be used."""
    from skidpad.kinds.drives.campaign import features_of
    from skidpad.worlds.scenario.scenario import table_of

    found = [_read(path) for path in files]
    usable = [each for one in found for each in one.scenarios]
    skipped = [each for one in found for each in one.skipped]
    warnings = [each for one in found for each in one.warnings]
    if json:
        wrong = [{"scenario": each.name, "reason": each.reason} for each in skipped]
        print_json({"usable": [each.name for each in usable], "unusable": wrong, "warnings": warnings})
    else:
        if usable:
            table("usable", ("scenario", "what it is"), [(each.name, features_of(table_of(each.scenario))) for each in usable])
        for warning in warnings:
            warn(warning)
        for each in skipped:
            say(f"unusable: {each.reason}")
    if skipped:
        raise typer.Exit(1)


def fetch(
    collection: Annotated[str, typer.Argument(help="alks (UN R157, by ASAM) or ncap (Euro NCAP, by Vector).")],
    out: Annotated[Path, typer.Option(help="A new or empty folder.")],
    address: Annotated[str, typer.Option(help="Another address to fetch from; the files must be the same.")] = "",
    json: Json = False,
) -> None:
    """Fetch a public collection of OpenSCENARIO files from its authors (MPL-2.0), and check its SHA-256."""
    from skidpad.worlds.openx.documents import COLLECTIONS
    from skidpad.worlds.openx.documents import fetch as fetched

    chosen = COLLECTIONS.get(collection)
    files = fetched(chosen, out, address)
    scenarios = out / chosen.scenarios
    if json:
        print_json({"out": str(out), "files": [str(file) for file in files], "scenarios": str(scenarios), "sha256": chosen.sha256})
        return
    say(f"{chosen.about}: {len(files)} files, SHA-256 {chosen.sha256[:16]}... as it should be")
    say(f"read them: skidpad scenarios read {scenarios}")


def read(
    files: Files,
    out: Annotated[Path | None, typer.Option(help="Folder to write those that can be played to, as .toml files.")] = None,
    json: Json = False,
) -> None:
    """Read OpenSCENARIO files (.xosc): which can be played, why not, and what a careful driver (UN R157) does; exit code 2 if none can."""
    from skidpad.page.wording import counted
    from skidpad.worlds.careful import drive_carefully
    from skidpad.worlds.scenario.files import write_scenario

    found = [_read(path) for path in files]
    skipped = [each for one in found for each in one.skipped]
    warnings = [each for one in found for each in one.warnings]
    played = [(each.name, each.scenario, drive_carefully(each.scenario)) for one in found for each in one.scenarios]
    if out is not None:
        out.mkdir(parents=True, exist_ok=True)
        for name, scenario, _ in played:
            write_scenario(out / f"{name}.toml", scenario)
    if json:
        wrong = [{"scenario": each.name, "reason": each.reason} for each in skipped]
        told = [{"scenario": name, "careful_driver_avoids": outcome.avoided, "careful_driver": str(outcome)} for name, _, outcome in played]
        print_json({"playable": told, "not_playable": wrong, "drawn_otherwise": warnings})
        if not played:
            raise typer.Exit(2)
        return
    if played:
        rows = [(name, f"{scenario.duration_s:.1f} s", str(outcome)) for name, scenario, outcome in played]
        table(f"{counted(len(played), 'scenario')} can be played", ("scenario", "lasts", "a careful and competent driver"), rows)
    for each in skipped:
        say(f"cannot be played: {each.reason}")
    for warning in warnings:
        warn(warning)
    avoided = sum(outcome.avoided for _, _, outcome in played)
    say(f"{len(played)} can be played, {len(skipped)} cannot; the driver avoids a collision in {avoided} of {len(played)}")
    if not played:
        raise typer.Exit(2)
    if out is not None:
        say(f"drive them: skidpad drive demo --scenario {out}")


def export(
    files: Files,
    out: Annotated[Path, typer.Option(help="Folder for the exported files.")],
    json: Json = False,
) -> None:
    """Export scenarios as OpenDRIVE roads (.xodr) and OpenSCENARIO storyboards (.xosc) for other simulators."""
    from skidpad.page.wording import counted
    from skidpad.worlds.openx.openscenario import export_scenario

    rows, skipped = [], []
    for path in files:
        found = _read(path)
        skipped += [{"scenario": each.name, "reason": each.reason} for each in found.skipped]
        for each in found.scenarios:
            written = export_scenario(each.scenario, out, each.name)
            rows.append((each.name, str(written.opendrive), str(written.openscenario)))
    if not rows:
        raise SkidpadError(f"none of the {len(skipped)} scenarios can be used; the first: {skipped[0]['reason']}")
    if json:
        exported = [{"scenario": name, "opendrive": road, "openscenario": story} for name, road, story in rows]
        print_json({"exported": exported, "skipped": skipped})
        return
    table(f"{counted(len(rows), 'scenario')} exported", ("scenario", "OpenDRIVE", "OpenSCENARIO"), rows)
    for left_out in skipped:
        say(f"skipped {left_out['scenario']}: {left_out['reason']}")


def _read(path: Path) -> ScenarioSet:
    from skidpad.worlds.scenario.files import read_scenarios

    return read_scenarios(path)
