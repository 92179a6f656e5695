"""Replicates Table I for every reward beside the paper's figures, and adds what the paper does not show."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from skidpad.core.errors import BadParametersError
from skidpad.core.progress import Progress, silent
from skidpad.highway.training import Selection
from skidpad.kinds.duels.campaign import Duel
from skidpad.kinds.duels.charts import slow_words
from skidpad.kinds.duels.page import duel_page
from skidpad.kinds.duels.settings import ROUND_TRAININGS, DuelSettings
from skidpad.kinds.duels.summary import DuelSummary, summarise
from skidpad.page.writing import render_page, write_text_whole
from skidpad.papers.duel import tables
from skidpad.papers.scoreboard import Replication, Row, Sheet, run_at

if TYPE_CHECKING:
    from skidpad.kinds.duels.phases import DuelWork


RUN = "run"


@dataclass(frozen=True, slots=True, kw_only=True)
class DuelReplicationSettings:
    """One replication: `trainings` of the ego, of adversaries for each reward, and of repairs; the defaults are the paper's.

    cross_episodes, search_episodes: of every repaired ego against each opponent that the paper does not show. rounds: of the repair
    against everybody, which is put beside the paper's; 0 for none.
    """

    trainings: int = 10
    train_episodes: int = 2000
    tests: int = 10
    test_episodes: int = 2000
    cross_episodes: int = 1000
    search_episodes: int = 20
    keep_episodes: int = 40
    rewards: tuple[str, ...] = ("released", "sound", "paper")
    repair_against: tuple[str, ...] = ("released", "sound")
    rounds: int = 0
    seed: int = 0

    def __post_init__(self) -> None:
        if self.trainings < 1:
            raise BadParametersError(f"a replication needs at least one training; got {self.trainings}")

    def campaign(self) -> DuelSettings:
        """Returns the settings of the campaign behind it."""
        return DuelSettings(
            scenario="released",
            rewards=self.rewards,
            repair_against=tuple(name for name in self.repair_against if name in self.rewards),
            egos=self.trainings,
            adversaries=self.trainings,
            repairs=self.trainings,
            ego_selection=Selection.WINDOW.value,
            train_episodes=self.train_episodes,
            test_runs=self.tests,
            test_episodes=self.test_episodes,
            cross_episodes=self.cross_episodes,
            search_episodes=self.search_episodes,
            keep_episodes=self.keep_episodes,
            rounds=self.rounds,
            round_episodes=ROUND_TRAININGS * self.train_episodes,
            seed=self.seed,
        )


@dataclass(frozen=True, slots=True, eq=False)
class DuelReplication(Replication):
    """The answers to both questions, and the run that they come from."""

    paper_name: ClassVar = tables.PAPER
    title: ClassVar = "Adversarial testing with reinforcement learning, replicated"
    beside: ClassVar = tables.PAPER
    traps: ClassVar = tables.TRAPS

    settings: DuelReplicationSettings
    campaign: DuelSettings
    summary: DuelSummary

    def rows(self) -> tuple[Row, ...]:
        """Returns the scoreboard."""
        return (
            *tables.ego_rows(self.summary),
            *tables.chance_rows(self.summary),
            *(row for reward in self.campaign.rewards for row in tables.exposure_rows(self.summary, reward)),
            *(row for reward in self.campaign.repaired for row in tables.repair_rows(self.summary, self.campaign, reward)),
        )

    def behind(self) -> tuple[Sheet, ...]:
        """Returns Table I, the paper's and ours for every reward, both repairs, the crossings, and the crashes."""
        ours = (tables.table_1(self.summary, self.campaign, reward) for reward in self.campaign.rewards)
        repairs = (tables.repairs(self.summary, self.campaign),) if self.campaign.rounds else ()
        return (tables.paper_table_1(), *ours, *repairs, tables.crossings(self.summary), tables.crashes(self.summary))

    def facts(self) -> tuple[str, ...]:
        """Describes what was done."""
        s = self.settings
        baseline = slow_words(self.summary)
        return (
            f"trainings of each kind: {s.trainings} x {s.train_episodes} episodes; tests of each: {s.tests} x {s.test_episodes}",
            f"rewards: {', '.join(s.rewards)}; egos retrained against the best adversary of: {', '.join(self.campaign.repaired)}",
            f"ego: {self.summary.best_ego}, the one with the lowest failure rate against IDM; the first of several equals",
            f"episodes tested: {self.summary.episodes:,}; ended by a policy's error: {self.summary.errors}",
            *((baseline,) if baseline else ()),
            f"seed {s.seed}",
        )


def replicate(settings: DuelReplicationSettings, folder: Path, progress: Progress = silent) -> DuelReplication:
    """Runs or resumes the campaign in FOLDER/run and writes FOLDER/duel.json, duel.md and report.html."""
    work = _measured(settings.campaign(), folder / RUN, progress)
    answer = DuelReplication(settings, work.settings, summarise(work))
    answer.write(folder, "duel")
    write_text_whole(folder / "report.html", render_page(duel_page(work)))
    return answer


def _measured(settings: DuelSettings, path: Path, progress: Progress) -> DuelWork:
    campaign = Duel.load(settings)
    run = run_at(path, settings, campaign.start)
    campaign.execute(run, progress)
    return campaign.work(run)
