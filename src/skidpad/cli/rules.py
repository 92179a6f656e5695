"""skidpad rules: when does it fail, in words that hold on cases kept apart."""

import typer

from skidpad.cli.runs import RunPath, open_with_campaign
from skidpad.cli.subjects import Json
from skidpad.cli.trust import may_trust
from skidpad.core.errors import SkidpadError
from skidpad.page.terminal import print_json, say


def add_to(app: typer.Typer) -> None:
    """Adds the command to the application."""
    app.command()(may_trust(rules))


def rules(run: RunPath, json: Json = False) -> None:
    """Say when a run's cases fail: rules learned on half of its scenarios, frames or episodes, and counted on the other half."""
    from skidpad.kinds.kind import kind_of
    from skidpad.kinds.ruling import how_learned, rules_figures
    from skidpad.page.wording import counted
    from skidpad.statistics.rules import learn_rules

    opened, campaign = open_with_campaign(run, seen=True)
    cases = kind_of(opened).part("traits", "explained by rules")(campaign, opened)
    if not len(cases.failed):
        raise SkidpadError(f"{opened.path} holds no case with a verdict, so there is nothing to learn; go on with `skidpad resume`")
    ruled = learn_rules(cases)
    if json:
        print_json({"run": opened.place, "cases": len(cases.failed), "failed": int(cases.failed.sum()), **rules_figures(ruled)})
        return
    failed = f"{int(cases.failed.sum())} of {counted(len(cases.failed), 'case')} failed"
    if ruled.is_starved:
        say(f"Too few cases to learn from: {failed}, and a rule is learned on some dozens of them; make a larger run.")
        return
    for rule in ruled.rules:
        say(str(rule))
    if not ruled.rules:
        say(f"No recorded property separates failing from passing cases: {failed}.")
    say(how_learned(ruled))
