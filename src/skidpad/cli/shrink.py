"""skidpad shrink: the smallest stimulus that still fails."""

from pathlib import Path
from typing import Annotated

import typer

from skidpad.cli.runs import Finding, RunPath, case_named, open_with_campaign
from skidpad.cli.subjects import Json
from skidpad.cli.trust import may_trust
from skidpad.page.terminal import print_json, progress_bar, say, table


def add_to(app: typer.Typer) -> None:
    """Adds the command to the application."""
    app.command()(may_trust(shrink))


def shrink(
    run: RunPath,
    finding: Finding,
    out: Annotated[Path | None, typer.Option(help="Folder of the result; RUN/shrunk/FINDING by default.")] = None,
    json: Json = False,
) -> None:
    """Find the smallest stimulus that still fails: fewer steps, parameters nearer to where they change nothing, a shorter scenario."""
    from skidpad.kinds.shrinking import shrink_finding, shrunk_table, unchanged_words, write_shrunk
    from skidpad.oracles.error import scale_of_run, times_tolerated
    from skidpad.page.wording import counted

    opened, campaign = open_with_campaign(run)
    with progress_bar("shrinking") as progress:
        shrunk = shrink_finding(campaign, opened, case_named(opened, finding), progress)
    folder = out or opened.path / "shrunk" / shrunk.row["case_id"]
    files = write_shrunk(campaign, opened, shrunk, folder)
    if json:
        print_json({**shrunk_table(shrunk), "files": [str(path) for path in files]})
        return
    rows = [(change.name, change.before, change.after) for change in shrunk.changes]
    if rows:
        table(f"{shrunk.row['case_id']}, smaller", ("", "before", "after"), rows)
    else:
        say(f"{shrunk.row['case_id']} is as small as it gets: nothing can be left out, and no parameter be nearer to its identity")
    if shrunk.fails_unchanged:
        say(unchanged_words(shrunk))
    scale = scale_of_run(opened.config)
    both = (("before", shrunk.row["excess"]), ("after", shrunk.smallest["excess"]))
    words = [f"{times_tolerated(value, scale)} {when}" for when, value in both]
    took = f"{counted(shrunk.judged, 'stimulus', 'stimuli')} judged in {counted(shrunk.batches, 'batch', 'batches')}"
    say(f"{', '.join(words)}; {took}")
    say(f"written: {', '.join(str(path) for path in files)}")
