"""A finding of a DeepTest run, computed again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from math import isfinite
from typing import TYPE_CHECKING

import numpy as np

from skidpad.kinds.pictures.judging import Originals
from skidpad.kinds.presenting import reproduction_json, show_reproduction
from skidpad.oracles.error import scale_of, times_tolerated
from skidpad.page.terminal import print_json, say, table
from skidpad.runs.replay import ReplayResult, replay

if TYPE_CHECKING:
    from pathlib import Path

    from skidpad.core.images import NumpyFrames
    from skidpad.core.stimuli import Recipe
    from skidpad.kinds.pictures.campaign import DeepTest
    from skidpad.kinds.pictures.summary import CoverageGain, Summary, Untested
    from skidpad.oracles.relations import Relation
    from skidpad.runs.folder import Run
    from skidpad.runs.replay import ReplayResult


def replay_case(campaign: DeepTest, run: Run, prefix: str) -> ReplayResult:
    """Renders the case whose id begins with `prefix`, asks the subject again and judges again."""
    record = run.find(prefix)
    relation = campaign.relation(Originals.of(run, len(campaign.drive)))

    def render(_frame_id: str, recipe: Recipe) -> NumpyFrames:
        return campaign.picture(record.frame_index, recipe)

    def predict(_frame_id: str, recipe: Recipe) -> float:
        return campaign.answer(record.frame_index, recipe)

    return replay(record, run.manifest, render, predict, relation)


@dataclass(frozen=True)
class DeepTestPresenter:
    """Shows a run of `skidpad test`."""

    campaign: DeepTest
    run: Run

    def payload(self) -> Mapping[str, object]:
        """Returns rates and coverage."""
        summary = self._summary
        untested = self._untested()
        return {
            "output": self.campaign.judged.name,
            "unit": self.campaign.judged.shown_unit,
            "originals": summary.originals,
            "frames": {"judged": untested.judged, "all": untested.frames, "untested": dict(untested.reasons)},
            "overall": {**asdict(summary.overall), "rate": summary.overall.rate},
            "by_stimulus": [{**asdict(rate), "rate": rate.rate} for rate in summary.by_stimulus],
            "coverage": [_coverage_json(gain) for gain in summary.coverage],
            "black_box": not self.campaign.has_coverage,
            "not_finite": summary.not_finite,
            "unjudged": summary.unjudged,
            "problems": len(summary.problems),
            "warnings": list(self._warnings()),
        }

    def show(self) -> None:
        """Prints findings by stimulus, coverage and the worst finding's replay command."""
        from skidpad.kinds.pictures.page import is_undecided, relation_sentence, verdict_words, warnings_of
        from skidpad.kinds.pictures.summary import EPSILON_RAD2
        from skidpad.page.wording import counted
        from skidpad.runs.worst import worst_finding

        summary, run = self._summary, self.run
        rows = [
            (rate.name, rate.cases, rate.findings, f"{rate.rate:.1%}", f"{rate.low:.1%} to {rate.high:.1%}")
            for rate in (*sorted(summary.by_stimulus, key=lambda rate: -rate.rate), summary.overall)
        ]
        table("findings", ("stimulus", "mutants", "findings", "rate", "95 % interval"), rows)
        originals, relation = self._originals, self._relation
        say(f"relation: {relation_sentence(relation, self.campaign.judged)}")
        for warning in warnings_of(relation, originals, summary):
            say(f"warning: {warning}")
        if is_undecided(relation, originals, summary):
            say(verdict_words(summary, relation, originals, self.campaign.judged, finished=run.is_finished))
        if self.campaign.window_words:
            say(f"memory: each stimulus is applied {self.campaign.window_words}")
        if not self.campaign.has_coverage:
            say("a black box: no coverage")
        for gain in summary.coverage:
            if not gain.stimulus and gain.total:
                covered = f"{gain.originals / gain.total:.1%} by the originals, {gain.together / gain.total:.1%} with the mutants"
                say(f"{gain.criterion} coverage: {covered} ({gain.total} regions)")
                if gain.is_cut and gain.reachable:
                    shares = f"{gain.originals / gain.reachable:.1%} and {gain.together / gain.reachable:.1%}"
                    say(f"  of the {gain.reachable} regions that the profile leaves reachable, unlike the papers: {shares}")
        if run.config.get("relation") == "label-mse" and summary.filtered:
            near = summary.near_original()
            say(
                f"harmless by Eq. 3 (MSE within {EPSILON_RAD2:.4f} rad^2 of the originals'): {len(near)} of {len(summary.filtered)} "
                f"transformations with parameters, with {sum(rate.findings for rate in near)} findings; the paper exempts fog and rain"
            )
        if summary.not_finite:
            have = "has" if summary.not_finite == 1 else "have"
            say(f"{counted(summary.not_finite, 'mutant')} {have} no finite answer on the mutant or its original")
        self._say_untested()
        worst = worst_finding(run)
        if worst:
            say(f"worst finding: skidpad replay {run.place} {worst}")

    def write_report(self, path: Path) -> None:
        """Writes the HTML page."""
        from skidpad.kinds.pictures.page import deeptest_report
        from skidpad.page.html import write_report

        write_report(deeptest_report(self.run, self.campaign), path)

    def replay(self, finding: str, picture: Path | None, json: bool) -> bool:
        """Computes a finding again from its recipe and compares picture, answers and verdict."""
        result = replay_case(self.campaign, self.run, finding)
        drawn = None if picture is None else self._write_pair(result, picture)
        if json:
            print_json(_replay_json(result, self.campaign))
        else:
            _print_replay(result, self.campaign)
            if result.violated and self._fails_unchanged(result):
                say("the original breaks the relation without any change, so that the transform need not be at fault")
            if drawn is not None:
                say(f"picture: {drawn}")
        return result.is_reproduced()

    @cached_property
    def _originals(self) -> Originals:
        from skidpad.kinds.pictures.judging import Originals

        return Originals.of(self.run, len(self.campaign.drive))

    @cached_property
    def _relation(self) -> Relation:
        return self.campaign.relation(self._originals)

    @cached_property
    def _summary(self) -> Summary:
        from skidpad.kinds.pictures.summary import summarise

        return summarise(self.run, self.campaign.blank_tracker(self.campaign.profile(self.run)), self.campaign.judged, self._relation)

    def _fails_unchanged(self, result: ReplayResult) -> bool:
        from skidpad.oracles.relations import fails_unchanged

        return bool(fails_unchanged(self._relation, np.array([result.original]), np.array([result.record.label]))[0])

    def _warnings(self) -> tuple[str, ...]:
        from skidpad.drives import drive_warnings
        from skidpad.kinds.pictures.page import warnings_of

        return (*drive_warnings(self.campaign.drive), *warnings_of(self._relation, self._originals, self._summary))

    def _untested(self) -> Untested:
        from skidpad.kinds.pictures.summary import untested_frames

        return untested_frames(self._summary, self._originals, self.campaign.drive, self._relation, finished=self.run.is_finished)

    def _say_untested(self) -> None:
        from skidpad.kinds.pictures.page import untested_words

        untested = self._untested()
        if untested.reasons:
            say(f"{untested_words(untested)}{' `skidpad inspect` lists what is wrong.' if untested.is_damage else ''}")

    def _write_pair(self, result: ReplayResult, path: Path) -> Path:
        from skidpad.core.images import write_image
        from skidpad.core.stimuli import Recipe
        from skidpad.page.arrows import pair_picture

        record = result.record
        original, mutant = (self.campaign.picture(record.frame_index, recipe) for recipe in (Recipe(), record.recipe))
        judged = self.campaign.judged
        answers = (judged.shown(result.original), judged.shown(result.mutant), judged.shown(record.label))
        words = times_tolerated(result.excess, scale_of(self.campaign.settings.relation))
        caption = f"{record.recipe} {self.campaign.window_words}".strip() + f": {_verdict(result.violated)}, {words}"
        return write_image(path, pair_picture(original, mutant, *answers, caption=caption, unit=judged.shown_unit))


def _coverage_json(gain: CoverageGain) -> dict[str, object]:
    """Returns the regions, and the shares: as the papers divide, and of the reachable regions, which deviates from them."""
    return {
        **asdict(gain),
        "share": gain.together / gain.total if gain.total else None,
        "share_of_reachable": gain.together / gain.reachable if gain.reachable else None,
    }


def _replay_json(result: ReplayResult, campaign: DeepTest) -> dict[str, object]:
    record, judged = result.record, campaign.judged
    suffix = f"_{judged.shown_unit}" if judged.output.is_angle else ""
    return {
        "case_id": record.case_id,
        "frame_id": record.frame_id,
        "recipe": str(record.recipe),
        "frames": campaign.subject.lead + 1,
        "stimulus_on": campaign.settings.stimulus_on if campaign.subject.lead else None,
        "output": judged.name,
        "unit": judged.shown_unit,
        "picture": result.picture.value,
        "violated": result.violated,
        f"original{suffix}": judged.shown(result.original),
        f"mutant{suffix}": judged.shown(result.mutant),
        f"label{suffix}": judged.shown(record.label),
        "excess": result.excess,
        "answer_change": result.answer_change,
        **reproduction_json(result.reproduction()),
    }


def _print_replay(result: ReplayResult, campaign: DeepTest) -> None:
    record, judged = result.record, campaign.judged
    unit = f" ({judged.shown_unit})" if judged.shown_unit else ""
    scale = scale_of(campaign.settings.relation)
    rows: list[tuple[str, object, object]] = [
        (f"original{unit}", judged.shown(record.original), judged.shown(result.original)),
        (f"mutant{unit}", judged.shown(record.mutant), judged.shown(result.mutant)),
        *([(f"human{unit}", judged.shown(record.label), judged.shown(record.label))] if isfinite(record.label) else []),
        ("error", times_tolerated(record.excess, scale), times_tolerated(result.excess, scale)),
        ("verdict", _verdict(record.violated), _verdict(result.violated)),
        ("picture", record.picture or "not stored", result.picture_again),
    ]
    output = "" if judged.is_steering else f", {judged.name}"
    table(f"{record.case_id}: {record.recipe} on frame {record.frame_id}{output}", ("", "in the run", "now"), rows)
    if campaign.window_words:
        say(f"memory: the stimulus is applied {campaign.window_words}")
    show_reproduction(result.reproduction())


def _verdict(violated: bool) -> str:
    return "finding" if violated else "passed"
