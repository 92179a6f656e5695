"""Estimating how likely a subject fails: the drives of an estimator are an ordinary run, which goes on where it was stopped."""

from dataclasses import dataclass

import numpy as np
import pytest
from online_toys import DEMO, demo

from skidpad.core.errors import SkidpadError
from skidpad.kinds.drives.campaign import Online, OnlineSettings, drive_estimate
from skidpad.kinds.drives.loop import Course
from skidpad.kinds.drives.page import online_figures, online_page
from skidpad.kinds.estimating import PHASE, FailureEstimate, criticality_of, figures_of, verdict_of
from skidpad.kinds.gating import check_gate
from skidpad.runs.folder import Run
from skidpad.runs.gate import Limits
from skidpad.statistics.rare import Method
from skidpad.stimuli.registry import conditions_of
from skidpad.worlds.scenario.domain import DOMAINS
from skidpad.worlds.scenario.features import lateral_m_s2


@dataclass(frozen=True)
class Cornering:
    """Stands in for drives: a car strays as hard as its bend pushes it, and leaves its lane at 2.4 m/s²."""

    world: str = "built-in"
    subject: object = None
    driven: list | None = None

    def courses_by(self, crew, cases, wheel):
        if self.driven is not None:
            self.driven.extend(cases)
        strayed = [1.5 * lateral_m_s2(case.scenario) / 2.4 for case in cases]
        return [Course(np.array([0.0, each]), np.zeros(2), np.zeros(2)) for each in strayed]


def campaign(**changes) -> Online:
    settings = OnlineSettings(subject=DEMO, **({"estimate": "auto", "scenarios": 300, "within": 0.5} | changes))
    conditions, stimuli = conditions_of(())
    return Online(settings, demo(), (), conditions, stimuli)


def estimating(made: Online, driven=None) -> FailureEstimate:
    return drive_estimate(made.settings, DOMAINS.get("restricted"), Cornering(subject=demo(), driven=driven))


def test_a_stopped_estimate_goes_on_alike(tmp_path):
    made = campaign()
    whole = made.start(tmp_path / "whole")
    shards = estimating(made).execute(whole, None)
    assert shards > 4
    stopped = made.start(tmp_path / "stopped")

    class StopError(Exception):
        pass

    def until_three(done, total, note=""):
        if len(stopped.completed(PHASE)) == 3:
            raise StopError

    with pytest.raises(StopError):
        estimating(made).execute(stopped, None, until_three)
    assert estimating(made).read(stopped) is None
    driven: list = []
    assert estimating(made, driven).execute(Run.open(stopped.path), None) == shards
    again = Run.open(stopped.path)
    columns = ["case_id", "scenario", "condition", "slot", "excess", "violated"]
    assert again.records(columns=columns).equals(whole.records(columns=columns))
    assert 0 < len(driven) < whole.records().num_rows


def test_the_estimate_is_read_from_the_records_and_holds(tmp_path):
    domain = DOMAINS.get("restricted")
    rng = np.random.default_rng(0)
    drawn = [domain.decode(rng.random(len(domain.variables))) for _ in range(1500)]
    truth = np.mean([lateral_m_s2(each) >= 2.4 for each in drawn if not domain.violations(each)])
    made = campaign(scenarios=800)
    run = made.start(tmp_path / "run")
    run.finish({PHASE: estimating(made).execute(run, None)})
    found = estimating(made).read(run)
    assert found.interval.low <= truth <= found.interval.high
    assert found.simulations == run.records().num_rows <= 800
    assert figures_of(found)["probability"] == found.interval.estimate
    said = verdict_of(found, "demo", "in the domain restricted")
    assert "with 95 % confidence" in said
    assert found.method in {Method.MONTE_CARLO, Method.IMPORTANCE}


def test_page_and_figures_tell_the_estimate_and_not_the_share_of_its_drives(tmp_path):
    made = campaign(scenarios=2, seconds=1.0, width=2, estimate="monte-carlo")
    run = made.start(tmp_path / "run")
    made.execute(run)
    page = online_page(made, Run.open(run.path))
    assert page.verdict.startswith("No failure in 2 drives of ")
    assert "of drives fail (95 % confidence), by plain Monte Carlo; the budget is spent." in page.verdict
    with pytest.raises(SkidpadError, match="is an estimate, which chooses its cases"):
        check_gate(Run.open(run.path), Limits({"all": 0.5}))
    assert "plain Monte Carlo" in page.context[0].value
    figures = online_figures(made, run)["estimate"]
    assert figures["drives"] == 2
    assert figures["high"] > 0.5


def test_criticality_is_one_exactly_where_a_drive_failed():
    assert criticality_of({"excess": 0.4, "violated": False}) == 0.4
    assert criticality_of({"excess": 1.0, "violated": False}) < 1.0
    assert criticality_of({"excess": 0.3, "violated": True}) == 1.0
    assert np.isnan(criticality_of({"excess": float("nan"), "violated": False}))


def test_an_estimate_takes_no_scenarios_of_others():
    with pytest.raises(SkidpadError, match="an estimate draws its own scenarios"):
        OnlineSettings(subject=DEMO, estimate="auto", repeats=2)
    with pytest.raises(SkidpadError, match="method of estimating"):
        OnlineSettings(subject=DEMO, estimate="guess")
