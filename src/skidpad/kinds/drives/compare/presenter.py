"""Runs of `skidpad compare` on the command line."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from skidpad.kinds.drives.presenter import replay_and_show
from skidpad.page.terminal import say, table

if TYPE_CHECKING:
    from pathlib import Path

    from skidpad.kinds.drives.compare.campaign import Comparing
    from skidpad.kinds.drives.compare.summary import Comparison
    from skidpad.oracles.agreement import Agreement
    from skidpad.runs.folder import Run
    from skidpad.statistics.intervals import Interval


@dataclass(frozen=True)
class ComparingPresenter:
    """Shows a run of `skidpad compare`."""

    campaign: Comparing
    run: Run

    @cached_property
    def _found(self) -> Comparison:
        from skidpad.kinds.drives.compare.summary import summarise

        return summarise(self.campaign, self.run)

    def payload(self) -> Mapping[str, object]:
        """Returns RQ0 and RQ1."""
        found = self._found
        return {
            "unit": found.unit.value,
            "mae_limit": found.mae_limit,
            "mdcl_limit": found.mdcl_limit,
            "agreement": _agreement(found.agreement),
            "disagreement": _rate(found.disagreement),
            "false_safe": _rate(found.false_safe),
            "false_alarm": _rate(found.false_alarm),
            "more_optimistic": found.optimist,
            "optimism_p": found.optimism_p,
            "two_sided_p": found.two_sided_p,
            "rank_correlation": found.rank_correlation,
            "sensitivity": [
                {"mae_limit": each.mae_limit, "mdcl_limit": each.mdcl_limit, **_agreement(each.agreement)} for each in found.sensitivity
            ],
            "scenarios": [
                {"scenario": each.name, "mae": each.mae, "mdcl": each.mdcl, "offline": each.offline_id, "online": each.online_id}
                for each in found.results
            ],
            "recorded": self._recorded(),
        }

    def _recorded(self) -> Mapping[str, object] | None:
        matching = self._found.matching
        if matching is None:
            return None
        return {
            "mae": self._found.recorded_mae,
            "pairs": len(matching.pairs),
            "comparable": len(matching.comparable),
            "mean_difference": matching.mean_difference,
            "consistent": _rate(matching.consistent),
            "inconsistent_and_worse_simulated": matching.worse_simulated,
        }

    def show(self) -> None:
        """Prints both questions."""
        from skidpad.kinds.drives.compare.page import verdict
        from skidpad.page.wording import counted

        found = self._found
        three = found.agreement
        rows = [
            (f"MDCL < {found.mdcl_limit:g}", three.both_safe, three.false_alarm, three.safe_online),
            (f"MDCL >= {found.mdcl_limit:g}", three.false_safe, three.both_unsafe, three.unsafe_online),
        ]
        table("RQ1: scenarios by result", ("", f"MAE < {found.mae_limit:g}", f"MAE >= {found.mae_limit:g}", "total"), rows)
        rates = [
            (what, f"{each.estimate:.1%}" if each.n else None, f"{each.low:.1%} to {each.high:.1%}", each.n)
            for what, each in (("differ", found.disagreement), ("false-safe", found.false_safe), ("false alarm", found.false_alarm))
        ]
        table("rates", ("", "share", "95 % interval", "of scenarios"), rates)
        say(verdict(found))
        telling = found.telling
        if telling is not None:
            say(f"told apart: {telling.name}; skidpad replay {self.run.place} {telling.online_id} --picture drive.svg")
        matching = found.matching
        if matching is not None:
            share = matching.consistent
            say(
                f"RQ0: {len(matching.comparable)} of {len(matching.pairs)} simulated drives are comparable with a part of the recorded "
                f"one; their errors differ by {matching.mean_difference:.3f} on average, and {share.estimate:.1%} are consistent "
                f"({share.low:.1%} to {share.high:.1%}); MAE on the recorded drive {found.recorded_mae:.3f}"
            )
        lost = [each for each in found.results if each.problem]
        if lost:
            say(f"{counted(len(lost), 'scenario')} met a problem; the first, {lost[0].name}: {lost[0].problem}")

    def write_report(self, path: Path) -> None:
        """Writes the HTML page."""
        from skidpad.kinds.drives.compare.page import comparison_page
        from skidpad.page.html import render_page, write_text_whole

        write_text_whole(path, render_page(comparison_page(self.campaign, self.run)))

    def replay(self, finding: str, picture: Path | None, json: bool) -> bool:
        """Makes a drive again and compares everything."""
        return replay_and_show(self.campaign.rides, self.run, finding, picture, json)


def _agreement(found: Agreement) -> Mapping[str, int]:
    return {name: getattr(found, name) for name in ("both_safe", "false_safe", "false_alarm", "both_unsafe")}


def _rate(rate: Interval) -> Mapping[str, float]:
    return {"share": rate.estimate, "low": rate.low, "high": rate.high, "n": rate.n}
