"""skidpad export: a finding as a folder of its own, with a test that fails until the subject is mended."""

from pathlib import Path
from typing import Annotated

import typer

from skidpad.cli.runs import Finding, RunPath, case_named, open_with_campaign
from skidpad.cli.subjects import Json
from skidpad.cli.trust import may_trust
from skidpad.page.terminal import print_json, progress_bar, say, table


def add_to(app: typer.Typer) -> None:
    """Adds the command to the application."""
    app.command()(may_trust(export))


def export(
    run: RunPath,
    finding: Finding,
    out: Annotated[Path, typer.Option(help="A new or empty folder.")],
    smallest: Annotated[bool, typer.Option("--smallest", help="Shrink the finding first and export its smallest case.")] = False,
    json: Json = False,
) -> None:
    """Write a finding as a bundle: frames, recipe, answers, hashes, versions, a film strip, and a ready pytest file."""
    from skidpad.kinds.bundles import export_finding
    from skidpad.kinds.shrinking import shrink_finding, unchanged_words

    opened, campaign = open_with_campaign(run)
    case = case_named(opened, finding)
    with progress_bar("exporting") as progress:
        shrunk = shrink_finding(campaign, opened, case, progress) if smallest else None
        bundle = export_finding(campaign, opened, case, out, shrunk)
    if json:
        print_json(
            {
                "case_id": bundle.case_id,
                "folder": str(bundle.folder),
                "title": bundle.evidence.title,
                "said": bundle.evidence.said,
                "test": None if bundle.test is None else str(bundle.test),
                "files": [str(path.relative_to(bundle.folder)) for path in bundle.files],
            }
        )
        return
    table(f"{bundle.case_id}: {bundle.evidence.title}", ("file", "what it is"), list(bundle.evidence.files.items()))
    say(f"{bundle.evidence.said[:1].upper()}{bundle.evidence.said[1:]}.")
    if shrunk is not None and shrunk.fails_unchanged:
        say(unchanged_words(shrunk))
    if bundle.test is not None:
        say(f"is the subject mended? pytest {bundle.test} --skidpad-subject mended.toml")
    say(f"bundle: {bundle.folder}")
