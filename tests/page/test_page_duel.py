"""The page of duels: films that are true to the trace, plots, tables, and nothing that runs or loads."""

import re
import xml.etree.ElementTree as ET
from itertools import pairwise
from math import nan

import numpy as np
import pytest
from report_samples import PageReader

from skidpad.highway.avoidability import last_escapes
from skidpad.highway.episodes import trace
from skidpad.highway.evaluation import evaluate
from skidpad.highway.layout import CRASH, EGO, FRONT, VEHICLE_LENGTH_M, Action, X
from skidpad.highway.opponents import ConstantActions, RandomActions
from skidpad.highway.scenes import RELEASED
from skidpad.kinds.duels.campaign import Duel
from skidpad.kinds.duels.charts import Ends, stacked
from skidpad.kinds.duels.film import Film, animation, film_strip
from skidpad.kinds.duels.names import OWN, repair_family
from skidpad.kinds.duels.page import duel_page
from skidpad.kinds.duels.settings import DuelSettings
from skidpad.kinds.duels.summary import summarise
from skidpad.kinds.duels.tables import duel_tables
from skidpad.page.charts import Curve, curves
from skidpad.page.model import Tone
from skidpad.page.svg import standalone
from skidpad.page.wording import percent
from skidpad.page.writing import render_page

EVIL = "\"'><script>alert(1)</script>&\u202e"


def film(is_crash: bool = True, seed: int = 3, longest: int = 30) -> Film:
    ego = ConstantActions(Action.FASTER if is_crash else Action.SLOWER)
    played = evaluate(RELEASED, ego, RandomActions(), 40, seed)
    row = int(np.flatnonzero(((played.outcomes == CRASH) == is_crash) & (played.steps <= longest))[0])
    steps = int(played.steps[row])
    ego_actions, front_actions = (side[row : row + 1, :steps].astype(np.int64) for side in (played.ego_actions, played.front_actions))
    last = (
        last_escapes(RELEASED, played.starts[row : row + 1], ego_actions, front_actions, played.steps[row : row + 1])[0]
        if is_crash
        else nan
    )
    drawn = trace(RELEASED, played.starts[row], ego_actions[0], front_actions[0])
    return Film(drawn, RELEASED.lanes, tuple(ego_actions[0].tolist()), tuple(front_actions[0].tolist()), float(last))


@pytest.mark.parametrize("is_crash", [True, False])
def test_a_strip_shows_moments_in_order_and_the_end(is_crash) -> None:
    shown = film(is_crash)
    root = ET.fromstring(film_strip("key", EVIL, shown))
    words = [node.text or "" for node in root.iter("text")]
    times = [float(word.removesuffix(" s")) for word in words if re.fullmatch(r"[\d.]+ s", word)]
    assert times == sorted(times)
    assert 2 <= len(times) <= 8
    assert times[0] == 0.0
    assert times[-1] == pytest.approx(shown.frames / shown.trace.simulation_hz, abs=0.05)
    assert words.count("impact") == words.count("last chance") == int(is_crash)
    assert words.count("ego") == words.count("front") == len(times), "both vehicles bear their names in every moment"


def test_a_strip_is_true_to_scale() -> None:
    shown = film()
    root = ET.fromstring(film_strip("key", "title", shown))
    places = re.findall(r"translate\(([\d.-]+) ([\d.-]+)\) rotate", film_strip("key", "title", shown))
    front, ego = (tuple(map(float, place)) for place in places[:2])
    states = shown.trace.states[0]
    scale = shown.scale(960.0 - 104.0 - 176.0)
    assert front[0] - ego[0] == pytest.approx(scale * (states[FRONT, X] - states[EGO, X]), abs=0.1)
    body = next(node for node in root.iter("rect") if node.get("stroke") == "#ffffff")
    assert float(body.get("width")) == pytest.approx(scale * VEHICLE_LENGTH_M, abs=0.01)


@pytest.mark.parametrize("is_crash", [True, False])
def test_an_animation_moves_along_the_trace_in_real_time(is_crash) -> None:
    shown = film(is_crash)
    root = ET.fromstring(animation("key", "title", shown))
    moves = list(root.iter("animateTransform"))
    assert len(moves) == 5, "the road, and each vehicle's place and heading"
    for move in moves:
        times = [float(time) for time in move.get("keyTimes").split(";")]
        assert times[0] == 0.0
        assert times[-1] == 1.0
        assert all(before <= after for before, after in pairwise(times))
        assert len(times) == len(move.get("values").split(";")) == shown.frames + 2
        moving_s = float(move.get("dur").removesuffix("s")) * times[-2]
        assert moving_s == pytest.approx(shown.frames / shown.trace.simulation_hz, abs=0.01)
    switches = list(root.iter("animate"))
    for switch in switches:
        times = [float(time) for time in switch.get("keyTimes").split(";")]
        assert times[0] == 0.0
        assert all(before < after for before, after in pairwise(times))
        assert len(times) == len(switch.get("values").split(";"))
    assert sum(switch.get("attributeName") == "fill" for switch in switches) == int(is_crash), "only a crash changes the ego's colour"


def test_a_long_quiet_episode_is_thinned_evenly() -> None:
    shown = film(is_crash=False)
    assert len(shown.ego_actions) == 30
    words = [node.text or "" for node in ET.fromstring(film_strip("key", "title", shown)).iter("text")]
    times = [float(word.removesuffix(" s")) for word in words if re.fullmatch(r"[\d.]+ s", word)]
    assert max(after - before for before, after in pairwise(times)) < 8.0


def test_drawings_stand_alone_as_files() -> None:
    for drawn in (film_strip("a", EVIL, film()), animation("b", EVIL, film())):
        root = ET.fromstring(standalone(drawn))
        assert root.tag == "{http://www.w3.org/2000/svg}svg"
        assert not list(root.iter("{http://www.w3.org/2000/svg}script"))
        assert "http" not in standalone(drawn).replace("http://www.w3.org/2000/svg", "")


def test_bands_are_drawn_around_their_lines() -> None:
    root = ET.fromstring(curves("key", EVIL, "said", ("x", "y"), [Curve("ego", (0.0, 1.0), (20.0, 30.0), (1.0, 0.0))], reach=(10.0, 40.0)))
    polygon = next(root.iter("polygon")).get("points").split()
    line = next(root.iter("polyline")).get("points").split()
    assert len(polygon) == 4
    upper, lower, middle = (float(point.split(",")[1]) for point in (polygon[0], polygon[-1], line[0]))
    assert upper < middle < lower
    assert middle - upper == pytest.approx(lower - middle, abs=0.02)


def test_stacked_bars_fill_their_row() -> None:
    root = ET.fromstring(stacked("key", "title", "said", [Ends(EVIL, (1, 2, 3, 4)), Ends("none", (0, 0, 0, 0))]))
    marks = [node for node in root.iter("rect") if node.find("title") is not None]
    assert [mark.get("class") for mark in marks] == ["crash", "overtaken", "timeout", "error"]
    widths = [float(mark.get("width")) for mark in marks]
    assert widths == pytest.approx([share * sum(widths) for share in (0.1, 0.2, 0.3, 0.4)], rel=0.01)


@pytest.fixture(scope="module")
def work(tmp_path_factory):
    settings = DuelSettings(
        rewards=("sound",),
        train_episodes=10,
        validation_episodes=4,
        test_episodes=40,
        cross_episodes=8,
        search_episodes=2,
        w_col=(-1.0, -0.1),
        seed=3,  # an ego that crashes now and then, as most do after ten episodes
    )
    campaign = Duel.load(settings)
    run = campaign.start(tmp_path_factory.mktemp("duel") / "run")
    campaign.execute(run)
    return campaign.work(run)


def test_the_page_has_everything_in_its_place(work) -> None:
    page = duel_page(work)
    html = render_page(page)
    assert 3 >= len(page.films) >= 1
    assert len(page.headlines) == 3
    titles = [chart.title for chart in page.charts]
    assert any("Figure 4 A" in title for title in titles)
    assert any("Figure 4 B" in title for title in titles)
    assert [letter for letter in "ABC" if any(f"Figure 6 {letter}" in title for title in titles)] == ["A", "B", "C"]
    assert any("Risk aversion" in title for title in titles)
    assert {table.key for table in page.tables} == {"rates", "trainings", "versus", "crashes"}
    reader = PageReader(html)
    ids = [attributes["id"] for _, attributes in reader.elements if "id" in attributes]
    assert len(ids) == len(set(ids))
    assert not reader.all("script")
    assert "No pictures" not in html
    assert all(f"skidpad replay {work.run.path} {film.case_id}" in film.replay for film in page.films)
    assert render_page(duel_page(work)) == html, "the same run gives the same page"


def test_trainings_are_named_in_words_and_stand_beside_their_own_tests(work) -> None:
    summary = summarise(work)
    tables = {table.key: table for table in duel_tables(summary, work.settings)}
    rows = {row[0]: row for row in tables["trainings"].rows}
    assert list(rows) == ["repaired, w_col -1", "repaired, w_col -0.1", "ego", "sound"]
    tested = {"ego": ("ego", "idm"), "sound": ("ego", "sound")}
    for place, weight in enumerate(work.settings.w_col):
        tested[f"repaired, w_col {weight:g}"] = repair_family(work.settings, "sound", place), OWN
    for words, (family, column) in tested.items():
        assert rows[words][3] == percent(summary.column(family, column).across_trainings.mean)
    assert "always slower against IDM" in [row[0] for row in tables["rates"].rows]


def driven(ego, out, **changes):
    values = {"ego": ego, "rewards": (), "repairs": 0, "test_episodes": 30, "cross_episodes": 8, "search_episodes": 2, "search_depth": 4}
    campaign = Duel.load(DuelSettings(**(values | changes)))
    run = campaign.start(out)
    campaign.execute(run)
    return campaign.work(run)


def nonsense(seen):
    """Never answers with a number."""
    return np.full(len(seen), nan)


def partly(seen):
    """Speeds up, and answers nonsense where the front vehicle is far; x is scaled by 1200 m."""
    return np.where((seen[:, 4] - seen[:, 0]) * 1200.0 > 40.0, nan, 3.0)


def test_an_ego_that_only_fails_was_not_measured(tmp_path) -> None:
    work = driven("test_page_duel:nonsense", tmp_path / "run")
    page = duel_page(work)
    html = render_page(page)
    assert page.tone is Tone.UNKNOWN
    assert page.verdict.startswith("Nothing was measured: 62 of 62 episodes of the ego ended by a policy's error; the first: ")
    assert "nan" in page.verdict, "the message says what the policy answered"
    assert not page.headlines
    assert not [chart for chart in page.charts if "Figure 6" in chart.title]
    assert "No findings" not in html
    assert "nan m/s" not in html
    rows = [row for table in page.tables if table.key == "rates" for row in table.rows if row[0].startswith("ego")]
    assert len(rows) == 3
    assert all(row[1] == "not measured" and "nan" not in row for row in rows)


def test_a_rate_says_what_it_leaves_out(tmp_path) -> None:
    work = driven("test_page_duel:partly", tmp_path / "run")
    page, column = duel_page(work), summarise(work).column("ego", "random")
    assert 0 < column.errors < column.episodes
    words = f"{column.errors} of {column.episodes} episodes ended by a policy's error and are left out"
    assert page.tone is Tone.ALARM
    assert f"random: {words}" in page.verdict
    assert any(words in headline.detail for headline in page.headlines)
    table = next(table for table in page.tables if table.key == "rates")
    cell = next(row[1] for row in table.rows if row[0] == "ego against random")
    assert cell.endswith(f"({column.errors} of {column.episodes} left out)")
    assert table.note


@pytest.mark.parametrize(("scenario", "crashes"), [("released", False), ("paper", True)])
def test_the_always_slower_ego_is_described_as_it_was_measured(scenario, crashes, tmp_path) -> None:
    work = driven("test_page_duel:partly", tmp_path / "run", scenario=scenario, cross_episodes=60)
    chance, note = summarise(work).column("slow", "random"), next(note for note in duel_page(work).notes if "SLOWER" in note)
    assert (chance.crashes > 0) is crashes
    assert f"in {percent(chance.across_trainings.mean)} with random" in note
    assert "m/s" in note
    assert "never" not in note


def test_a_repair_is_held_against_the_same_ego_and_the_same_front(work) -> None:
    summary, verdict = summarise(work), duel_page(work).verdict
    own, before = summary.column(repair_family(work.settings, "sound", 0), OWN), summary.before("sound")
    calm, after = summary.before("idm"), summary.column(repair_family(work.settings, "sound", 0), "idm")
    assert f"at {own.ego_mps:.1f} instead of {before.ego_mps:.1f} m/s" in verdict
    assert f"with IDM in {percent(after.across_trainings.mean)} instead of {percent(calm.across_trainings.mean)}" in verdict
    assert "retrained against it" in verdict, "the adversary is named once, whatever the weights"


def test_one_test_a_policy_is_too_few_to_compare(work) -> None:
    versus = next(table for table in duel_tables(summarise(work), work.settings) if table.key == "versus")
    assert [row[1:] for row in versus.rows] == [("–", "–", "too few tests"), ("–", "–", "too few trainings")]


def test_a_run_that_only_trained_has_a_page(tmp_path) -> None:
    campaign = Duel.load(DuelSettings(rewards=(), repairs=0, train_episodes=4, validation_episodes=2, is_tested=False))
    run = campaign.start(tmp_path / "run")
    unfinished = duel_page(campaign.work(run))
    assert unfinished.verdict.startswith("Not finished yet.")
    campaign.execute(run)
    page = duel_page(campaign.work(run))
    assert "Nothing was tested" in page.verdict
    assert render_page(page)
