"""Search over scenarios: the map of features, fitness, and a run that goes on where it was stopped."""

import json

import pytest
from online_toys import DEMO, demo

from skidpad.core.errors import SkidpadError
from skidpad.kinds.drives.campaign import Online, OnlineSettings
from skidpad.kinds.drives.page import online_page
from skidpad.kinds.drives.records import scenario_json
from skidpad.kinds.drives.search import Reach, cell_of, cells, fitness_of, reach_of
from skidpad.kinds.drives.summary import CaseVerdict, OnlineSummary, summarise
from skidpad.runs.folder import Run
from skidpad.statistics.intervals import wilson
from skidpad.stimuli.registry import conditions_of
from skidpad.worlds.scenario.domain import DOMAINS, sample
from skidpad.worlds.scenario.scenario import Conditions, RoadKind, RoadPlan, Scenario, Weather, table_of


def searching(*searches: str, budget: int = 3) -> Online:
    settings = OnlineSettings(subject=DEMO, domain="extended", scenarios=budget, searches=searches, seconds=1.0, width=2)
    conditions, stimuli = conditions_of(())
    return Online(settings, demo(), (), conditions, stimuli)


def test_every_scenario_of_the_domain_has_its_cell() -> None:
    bends, weathers = cells()
    for scenario in sample(DOMAINS.get("extended"), 0, 60).scenarios:
        bend, weather = cell_of(json.loads(scenario_json(scenario)))
        assert bend in bends
        assert weather in weathers
    sharp = Scenario(RoadPlan(RoadKind.CURVED, 45.0), Conditions(Weather.SNOW, night=True))
    assert cell_of(table_of(sharp)) == ("below 60 m", "snow at night")


def row(**changes) -> dict:
    plain = {
        "scenario": scenario_json(Scenario(duration_s=10.0)),
        "mdcl": 0.4,
        "violated": False,
        "departed_at_s": float("nan"),
        "problem": "",
    }
    return plain | changes


def test_who_leaves_is_fitter_than_who_strays_and_the_sooner_the_fitter() -> None:
    strayed = fitness_of(row())
    late = fitness_of(row(mdcl=1.0, violated=True, departed_at_s=9.0))
    soon = fitness_of(row(mdcl=1.0, violated=True, departed_at_s=2.0))
    assert strayed.value == 0.4
    assert strayed.value < 1.0 < late.value < soon.value
    lost = fitness_of(row(problem="answered nan"))
    assert lost.value != lost.value


def test_a_search_spends_its_budget_and_goes_on_where_it_was_stopped(tmp_path) -> None:
    whole = searching("map-elites", "random")
    run = whole.start(tmp_path / "whole")
    whole.execute(run)
    assert run.is_finished
    rows = run.records().to_pylist()
    assert [each["condition"] for each in rows].count("random") == 3
    assert len(rows) == 6
    reach = reach_of(summarise(run), "random")
    assert (reach.drives, reach.name) == (3, "random")
    assert reach.cells_failing <= reach.cells_tried <= 3
    page = online_page(whole, run)
    assert page.tables[0].title == "Searches at the same budget"
    assert [row[0] for row in page.tables[0].rows] == ["map-elites", "random"]
    assert any("map-elites" in chart.title for chart in page.charts)
    assert {each.condition for each in summarise(run).conditions} == {"map-elites", "random"}

    class StopError(Exception):
        pass

    halved = searching("map-elites", "random")
    other = halved.start(tmp_path / "halved")

    def stop(done: int, total: int, note: str = "") -> None:
        if done == 1:
            raise StopError

    with pytest.raises(StopError):
        halved.execute(other, stop)
    assert other.completed("map-elites") == {0}
    again = Run.open(tmp_path / "halved")
    searching("map-elites", "random").execute(again)
    assert [repr(each) for each in again.records().to_pylist()] == [repr(each) for each in rows]


def test_what_a_search_has_reached_counts_cells_once() -> None:
    def case(number: int, radius_m: float, failed: int, judged: int = 1) -> CaseVerdict:
        text = scenario_json(Scenario(RoadPlan(RoadKind.CURVED, radius_m)))
        numbers = (0.5, 0.7, 0.1, float("nan"), float("nan"))
        return CaseVerdict(str(number), str(number), text, "es", "[]", wilson(failed, judged), failed, judged, 1 - judged, *numbers, "")

    cases = (case(1, 50.0, 0), case(2, 200.0, 0, judged=0), case(3, 50.0, 1), case(4, 50.0, 1), case(5, 400.0, 0))
    summary = OnlineSummary(cases, (), 5)
    assert reach_of(summary, "es") == Reach("es", drives=5, failures=2, cells_tried=2, cells_failing=1, first=3)
    assert reach_of(summary, "random") == Reach("random", 0, 0, 0, 0, 0)


def test_a_search_takes_no_files_stimuli_or_repeats() -> None:
    for wrong in ({"stimuli": ("fog",)}, {"repeats": 2}, {"files": ("a.toml",)}, {"searches": ("es", "es")}):
        with pytest.raises(SkidpadError):
            OnlineSettings(**({"subject": DEMO, "searches": ("es",)} | wrong))
