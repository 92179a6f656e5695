"""The pages of every kind of run: what they say, what they show, what they keep."""

import json
import re
from collections.abc import Iterator
from math import isnan, nan
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from ui_runs import ODD_SCHEMA, Server, make_drive, make_odd_run, make_picture_run, manifest, picture_records, serve

from skidpad.core.images import encode
from skidpad.core.stimuli import Params, Recipe
from skidpad.drives.opening import open_drive
from skidpad.kinds.drives.records import SCHEMA as DRIVES
from skidpad.kinds.drives.served.campaign import SERVED_SCHEMA
from skidpad.kinds.duels.records import SCHEMA as DUELS
from skidpad.kinds.exhibits import PictureSide, Sight, columns_of, exhibit_of
from skidpad.kinds.gating import judged_cases
from skidpad.kinds.kind import KINDS
from skidpad.kinds.limits.probes import SCHEMA as LIMITS
from skidpad.oracles.error import times_tolerated
from skidpad.page.wording import interval, percent
from skidpad.runs.folder import Run
from skidpad.runs.records import SCHEMA, ShardResult, build_records
from skidpad.runs.tags import Tag, Tags
from skidpad.statistics.intervals import wilson
from skidpad.stimuli.pictures import stimuli
from skidpad.ui.run_view import JPEG_QUALITY

TRANSFORMS = ("blur", "brightness", "contrast", "deeptest-fog", "deeptest-rain", "rotation", "scale", "shear", "translation")


@pytest.fixture(scope="module")
def drive(tmp_path_factory: pytest.TempPathFactory) -> str:
    return make_drive(tmp_path_factory.mktemp("drive"))


@pytest.fixture
def server(tmp_path: Path, drive: str) -> Iterator[Server]:
    make_picture_run(tmp_path / "first", drive, seed=1)
    make_picture_run(tmp_path / "second", drive, seed=2)
    with serve(tmp_path) as server:
        yield server


def worst(server: Server, name: str) -> str:
    return server.failing(server.key(name))[0]


def test_every_kind_of_campaign_has_an_exhibit() -> None:
    assert all(KINDS.get(name).exhibit is not None for name in KINDS.names())


@pytest.mark.parametrize("kind", KINDS.names())
def test_what_an_exhibit_reads_is_what_its_campaign_writes(kind: str) -> None:
    schema = {"online": DRIVES, "compare": DRIVES, "served": SERVED_SCHEMA, "duel": DUELS, "limits": LIMITS}.get(kind, SCHEMA)
    exhibit = exhibit_of({"campaign": kind})
    assert exhibit.needs
    assert exhibit.fits(columns_of(schema, exhibit.config))
    assert not exhibit.fits(columns_of(ODD_SCHEMA, exhibit.config))


def test_the_list_tells_what_each_run_found(server: Server) -> None:
    text = server.get("/").text
    for name in ("first", "second"):
        rates = server.library.view(server.key(name)).rates()
        assert f"<b>{rates.findings}</b>" in text
    assert text.count('class="state finished"') == 2
    assert server.get(f"/runs/{server.key('first')}/line").text.startswith('<tr class="run"')


def test_a_run_that_is_not_counted_in_time_is_asked_for_later(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("skidpad.ui.library.FIRST_SCREEN_S", -1.0)
    text = server.get("/").text
    assert text.count("data-count=") == 2
    assert f'data-count="/runs/{server.key("first")}/line"' in text


def test_rows_are_a_part_of_the_page_and_answer_filters(server: Server) -> None:
    key = server.key("first")
    whole, part = (server.get(f"/runs/{key}{rest}?is.stimulus=rotation&sort=frame_index").text for rest in ("", "/rows"))
    cases = re.findall(r"cases/([0-9a-f]{12})", part)
    assert cases
    assert all(case in whole for case in cases)
    assert "brightness" not in part
    assert "rotation(angle_deg=" in part
    assert server.get(f"/runs/{key}/rows?sort=nothing").status_code == 404
    assert server.get(f"/runs/{key}/rows?page=x").status_code == 400
    assert "No findings match" in server.get(f"/runs/{key}/rows?q=nowhere").text


def test_angles_are_degrees_at_the_surface(server: Server) -> None:
    key = server.key("first")
    row = server.library.view(key).row(worst(server, "first"))
    page = server.get(f"/runs/{key}/cases/{row['case_id']}").text
    assert "original (°)" in page
    assert f"{np.degrees(row['original']):.4g}".replace("-", "−") in page


@pytest.mark.parametrize("stimulus", ["brightness", "rotation", "blur+contrast"])
def test_pictures_are_those_of_the_run(server: Server, drive: str, stimulus: str) -> None:
    view = server.library.view(server.key("first"))
    row = next(row for row in view.run.records("grid").to_pylist() if row["stimulus"] == stimulus)
    recipe = Recipe.from_json(row["recipe"])
    frame = open_drive(drive).frame(row["frame_index"])
    expected = recipe.apply(frame[np.newaxis], stimuli(None))[0]
    assert np.array_equal(view.exhibit.picture(row, PictureSide.ORIGINAL), frame)
    assert np.array_equal(view.exhibit.picture(row, PictureSide.MUTANT), expected)
    answer = server.get(f"/runs/{server.key('first')}/cases/{row['case_id']}/mutant.jpg")
    assert answer.headers["content-type"] == "image/jpeg"
    assert answer.content == encode(expected, ".jpg", JPEG_QUALITY)


def test_a_picture_is_rendered_once(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    key, case = server.key("first"), worst(server, "first")
    address = f"/runs/{key}/cases/{case}/mutant.jpg"
    first = server.get(address).content
    monkeypatch.setattr(type(server.library.view(key).exhibit), "picture", None)
    assert server.get(address).content == first


def test_a_finding_whose_drive_is_gone_says_so(tmp_path: Path) -> None:
    make_picture_run(tmp_path / "run", str(tmp_path / "nowhere"), rows=4)
    with serve(tmp_path) as server:
        address = f"/runs/{server.key('run')}/cases/{worst(server, 'run')}"
        page = server.get(address)
        assert page.status_code == 200
        assert "no folder" in page.text
        assert server.get(f"{address}/mutant.jpg").status_code == 400


def test_one_steps_through_the_answer_one_filtered(server: Server) -> None:
    key = server.key("first")
    asked = "is.stimulus=brightness"
    answer = server.library.view(key).reader()
    first = server.get(f"/runs/{key}/at/0?{asked}")
    assert first.status_code == 303
    page = server.get(first.headers["location"]).text
    assert f'href="/runs/{key}/at/1?{asked}"' in page
    assert 'rel="prev"' not in page
    total = int(re.search(r"1 of (\d+)", page)[1])
    assert total == sum(line["violated"] for line in records(server, "first") if line["stimulus"] == "brightness")
    last = server.get(server.get(f"/runs/{key}/at/{total - 1}?{asked}").headers["location"]).text
    assert 'rel="next"' not in last
    assert server.get(f"/runs/{key}/at/{total}?{asked}").status_code == 404
    assert answer.rates().findings > total
    case = first.headers["location"].partition("/cases/")[2].partition("?")[0]
    assert f'data-back="/runs/{key}?{asked}#case-{case}"' in page
    assert f'<tr id="case-{case}">' in server.get(f"/runs/{key}?{asked}").text
    path = server.library.view(key).found.path
    assert f"skidpad shrink {path} {case}</code>" in page
    assert f"skidpad export {path} {case} --out finding-{case}</code>" in page
    alone = server.get(f"/runs/{key}/cases/{case}").text
    assert f"#worst-{case}" in alone
    passed = next(row["case_id"] for row in records(server, "first") if not row["violated"])
    assert "skidpad shrink" not in server.get(f"/runs/{key}/cases/{passed}").text


def records(server: Server, name: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = server.library.view(server.key(name)).run.records("grid").to_pylist()
    return rows


def test_tags_are_kept_shown_and_counted(server: Server) -> None:
    key = server.key("first")
    cases = server.failing(key)
    for case, tag in zip(cases, ("real fault", "real fault", "false alarm", "unclear"), strict=False):
        assert server.post(f"/runs/{key}/cases/{case}/tag", content=f"tag={tag}", headers={"x-skidpad": "script"}).status_code == 204
    assert list(Tags.of(server.root / "first").current().values()) == [Tag.REAL_FAULT, Tag.REAL_FAULT, Tag.FALSE_ALARM, Tag.UNCLEAR]
    assert 'value="real fault" aria-pressed="true"' in server.get(f"/runs/{key}/cases/{cases[0]}").text
    status = server.get(f"/runs/{key}/status").text
    assert "2 real faults, 1 false alarm, 1 unclear; 66.7" in status
    rates = server.library.view(key).rates()
    assert (rates.real_faults, rates.false_alarms, rates.unclear) == (2, 1, 1)
    assert f"{100 * rates.confirmed.estimate:.1f}" in status
    assert server.get(f"/runs/{key}/rows?tag=false+alarm").text.count("/cases/") == 1
    without = f"{100 * rates.without_false_alarms.estimate:.1f}\N{NO-BREAK SPACE}%"
    assert without in status
    assert f"4 tagged, 2 real; {without} without 1 false alarm" in server.get("/").text
    server.post(f"/runs/{key}/cases/{cases[0]}/tag", content="tag=")
    assert "1 real fault," in server.get(f"/runs/{key}/status").text


@pytest.mark.parametrize(("case", "tag"), [("ffffffffffff", "unclear"), ("..", "unclear"), (None, "lovely")])
def test_what_is_not_there_is_not_tagged(server: Server, case: str | None, tag: str) -> None:
    key = server.key("first")
    answer = server.post(f"/runs/{key}/cases/{case or worst(server, 'first')}/tag", content=f"tag={tag}")
    assert answer.status_code in {404, 405}
    assert not Tags.of(server.root / "first").current()


def test_a_running_campaign_is_watched(tmp_path: Path, drive: str) -> None:
    run = make_picture_run(tmp_path / "run", drive, shards=1, finish=False)
    with serve(tmp_path) as server:
        key = server.key("run")
        assert 'class="state stopped"' in server.get("/").text
        with run.lock():
            page = server.get(f"/runs/{key}").text
            assert f'data-live="/runs/{key}/status"' in page
            assert "2 of 6 shards" in page  # six frames by two a shard, as originals and as a grid
            found = server.library.view(key).rates().findings
            run.commit(ShardResult("grid", 1, picture_records(40, 77, 40)))
            status = server.get(f"/runs/{key}/status").text
            assert "3 of 6 shards" in status
            assert 'value="3"' in status
            assert server.library.view(key).rates().findings > found
        assert 'class="state stopped"' in server.get(f"/runs/{key}/status").text


def test_runs_are_compared_case_by_case(server: Server) -> None:
    one, two = (judged(server, name) for name in ("first", "second"))
    both = one.keys() & two.keys()
    page = server.get(f"/compare?run={server.key('first')}&run={server.key('second')}").text
    shown = re.findall(r'<span class="name">(\w+)</span><strong>(\d+)</strong>', page)
    expected = {
        "new": sum(two[case] and not one[case] for case in both),
        "fixed": sum(one[case] and not two[case] for case in both),
        "persisting": sum(one[case] and two[case] for case in both),
    }
    assert {name: int(number) for name, number in shown} == expected
    assert f"Of {len(both)} cases that both runs have" in page
    new = max((row for row in server.library.view(server.key("second")).run.records().to_pylist() if is_new(row, one)), key=worseness)
    assert f'cases/{new["case_id"]}">{Recipe.from_json(new["recipe"])} on {new["frame_id"]}</a>' in page
    assert f"{times_tolerated(new['excess'])} <code>{new['case_id']}</code>" in page
    assert page.count("° apart, ") > 10
    cases = judged_cases(server.library.view(server.key("first")).run)
    for group in ("brightness", "rotation", "all"):
        found = cases.of(group).clusters.interval()
        assert f"<small>{interval(found.low, found.high)}</small>" in page, "as the gate takes them"
    assert "Choose two runs" in server.get(f"/compare?run={server.key('first')}").text
    assert server.get("/compare?run=nothing").status_code == 404


def test_rates_side_by_side_have_the_intervals_of_the_gate(tmp_path: Path) -> None:
    """Twenty mutants of each of six frames, of which those of one frame fail: six frames tell far less than 120 cases."""
    for name in ("one", "two"):
        run = Run.create(tmp_path / name, {"campaign": "deeptest", "unit": "rad"}, manifest(subject="s", drive="d"))
        places = np.arange(120)
        excess = np.where(places % 6 == 0, 2.0, 0.5)
        rows = build_records(
            frame_index=places % 6,
            frame_ids=[str(place % 6) for place in places],
            recipes=[Recipe.of("brightness", Params(shift=10.0 + place)) for place in places.tolist()],
            label=np.zeros(120),
            original=np.zeros(120),
            mutant=excess,
            excess=excess,
            violated=excess > 1.0,
            active_neurons=np.zeros(120, np.int64),
            picture=[f"{place:016x}" for place in places.tolist()],
        )
        run.commit(ShardResult("grid", 0, rows))
    with serve(tmp_path) as server:
        page = server.get(f"/compare?run={server.key('one')}&run={server.key('two')}").text
        found = judged_cases(server.library.view(server.key("one")).run).clusters.interval()
        plain = wilson(20, 120)
        assert found.high - found.low > 2 * (plain.high - plain.low)
        assert page.count(f"<small>{interval(found.low, found.high)}</small>") == 4
        assert interval(plain.low, plain.high) not in page


def duel_rows() -> list[dict[str, Any]]:
    """Two egos: of four episodes each, one and three end in a crash."""
    rows = []
    for family, crashes in (("ego", 1), ("slow", 3)):
        for episode in range(4):
            row: dict[str, Any] = {field.name: made(field.type) for field in DUELS}
            crash = episode < crashes
            rows.append(
                {**row, "case_id": f"{family}{episode}", "family": family, "column": "idm", "violated": crash, "excess": 2.0 * crash}
            )
    return rows


def made(kind: pa.DataType) -> Any:
    if pa.types.is_string(kind):
        return ""
    if pa.types.is_binary(kind):
        return b""
    if pa.types.is_boolean(kind):
        return False
    return [] if pa.types.is_list(kind) or pa.types.is_fixed_size_list(kind) else 0


def test_egos_of_a_duel_have_a_rate_each_and_none_together(tmp_path: Path) -> None:
    run = Run.create(tmp_path / "run", {"campaign": "duel"}, manifest(ego="e"), DUELS)
    run.commit(ShardResult("tests", 0, pa.Table.from_pylist(duel_rows(), DUELS)))
    with serve(tmp_path) as server:
        listed, page = server.get("/").text, server.get(f"/runs/{server.key('run')}").text
        pooled = wilson(4, 8)
        for text in (listed, page):
            assert interval(pooled.low, pooled.high) not in text
        assert "one for each ego, on its page" in listed
        assert "<b>4</b><small>of 8 episodes</small>" in listed
        shown = re.findall(r'<span class="name">failure rate of (\w+)</span><strong>([^<]+)</strong>', page)
        assert dict(shown) == {"ego": percent(0.25), "slow": percent(0.75)}
        assert '<span class="name">failure rate</span>' not in page


def is_new(row: dict[str, Any], before: dict[str, bool]) -> bool:
    return row["violated"] and before.get(row["case_id"]) is False


def worseness(row: dict[str, Any]) -> float:
    return row["excess"]


def judged(server: Server, name: str) -> dict[str, bool]:
    rows = server.library.view(server.key(name)).run.records().to_pylist()
    return {row["case_id"]: row["violated"] for row in rows if not isnan(row["excess"])}


def test_the_older_run_is_the_one_compared_with_however_they_are_chosen(server: Server, tmp_path: Path) -> None:
    file = tmp_path / "first" / "manifest.json"
    file.write_text(json.dumps({**json.loads(file.read_text("utf-8")), "created": "2020-01-01T00:00:00+00:00"}), encoding="utf-8")
    first, second = server.key("first"), server.key("second")
    for chosen in (f"run={first}&run={second}", f"run={second}&run={first}"):
        page = server.get(f"/compare?{chosen}").text
        assert "second against first" in page
        swap = re.search(r'id="swap" href="([^"]+)"', page)[1].replace("&amp;", "&")
        turned = server.get(swap).text
        assert "first against second" in turned
        assert re.search(r'id="swap" href="([^"]+)"', turned)[1].endswith(f"base={first}")


@pytest.mark.parametrize("changed", [{"tolerance": 14.0}, {"relation": "label-mse"}, {"output": "throttle"}])
def test_findings_of_runs_judged_differently_are_not_matched_and_that_is_said_first(tmp_path: Path, changed: dict[str, Any]) -> None:
    for name, more in (("one", {}), ("two", changed)):
        config = {"campaign": "deeptest", "relation": "steers-alike", "tolerance": 10.0, "unit": "rad", **more}
        run = Run.create(tmp_path / name, config, manifest(subject="s", drive="d"))
        run.commit(ShardResult("grid", 0, picture_records(20)))
    with serve(tmp_path) as server:
        page = server.get(f"/compare?run={server.key('one')}&run={server.key('two')}").text
        assert "cannot be matched" in page
        assert page.index("cannot be matched") < page.index("<table")
        assert f"{next(iter(changed))} is" in page
        assert "persisting" not in page
        assert "steers-alike, within 10°" in page
        assert "steers-alike, within 10°" in server.get("/").text


def test_drives_of_two_networks_are_matched_by_their_scenario(tmp_path: Path) -> None:
    """Their case ids differ, for the subject is part of them."""
    for number, (name, fails) in enumerate((("good", False), ("bad", True))):
        run = Run.create(tmp_path / name, {"campaign": "online", "world": "built-in"}, manifest(subject=name), DRIVES)
        row = drive_row(case_id=f"ab1{number}", steps=20, mdcl=0.3, mae_rad=0.1, rmse_rad=0.1, repeat=0, slot=0, violated=fails)
        run.commit(ShardResult("drives", 0, pa.Table.from_pylist([row], DRIVES)))
    with serve(tmp_path) as server:
        page = server.get(f"/compare?run={server.key('good')}&run={server.key('bad')}&base={server.key('good')}").text
        assert re.findall(r'<span class="name">new</span><strong>(\d+)</strong>', page) == ["1"]
        assert "Of 1 case that both runs have" in page
        assert "keeps its lane" in page


def test_under_label_mse_squares_are_said_and_originals_that_break_it_are_marked(tmp_path: Path, drive: str) -> None:
    """Eight originals: seven are 1 degree off, one is 9; five times the mean square is about 7.4 degrees."""
    config = {"campaign": "deeptest", "relation": "label-mse", "tolerance": 5.0, "unit": "rad", "drive": drive}
    run = Run.create(tmp_path / "run", config, manifest(subject="s", drive="d"))
    answers = np.radians([1.0] * 7 + [9.0])
    run.commit(ShardResult("originals", 0, labelled(answers, np.full(8, nan), Recipe())))
    excess = np.array([4.0] * 7 + [9.0])
    run.commit(ShardResult("grid", 0, labelled(answers, excess, Recipe.of("brightness", Params(shift=10.0)))))
    with serve(tmp_path) as server:
        key = server.key("run")
        rule = server.library.view(key).rule()
        assert rule.bound_rad2 == pytest.approx(5.0 * np.mean(answers**2))
        assert "label-mse, 5 × MSE of the originals (within 7.4°)" in server.get("/").text
        page = server.get(f"/runs/{key}").text
        assert "1 whose original already breaks it" in page
        assert "In doubt: On unchanged frames the network steers worse than one that always answers the mean label" in page
        assert "3.0× tolerance (9.0× in squares)" in page
        cases = server.failing(key)
        marks = ["the original already breaks it" in server.get(f"/runs/{key}/cases/{case}").text for case in cases]
        assert marks == [True] + [False] * 7


def labelled(answers: np.ndarray, excess: np.ndarray, recipe: Recipe) -> pa.Table:
    count = len(answers)
    return build_records(
        frame_index=np.arange(count) % 6,
        frame_ids=[f"{place}.png" for place in range(count)],
        recipes=[recipe] * count,
        label=np.zeros(count),
        original=answers,
        mutant=answers + 0.3,
        excess=excess,
        violated=excess > 1.0,
        active_neurons=np.zeros(count, np.int64),
        picture=[""] * count,
    )


def test_the_worst_of_every_transform_is_shown_and_a_filter_tells_findings_of_cases(tmp_path: Path, drive: str) -> None:
    recipes = [Recipe.of(name, Params(**{"shift" if name == "brightness" else "x": 1.0})) for name in TRANSFORMS]
    run = Run.create(tmp_path / "run", {"campaign": "deeptest", "unit": "rad", "drive": drive}, manifest())
    run.commit(ShardResult("grid", 0, picture_records(200, 5, recipe=lambda place: recipes[place % len(recipes)])))
    with serve(tmp_path) as server:
        page = server.get(f"/runs/{server.key('run')}").text
        rows = records(server, "run")
        for name in TRANSFORMS:
            assert f"<b>{name}(" in page
            found = sum(row["violated"] for row in rows if row["stimulus"] == name)
            assert f">{name} ({found} of {sum(row['stimulus'] == name for row in rows)})</option>" in page


def test_where_nothing_failed_the_nearest_to_it_is_shown(tmp_path: Path, drive: str) -> None:
    run = Run.create(tmp_path / "run", {"campaign": "deeptest", "unit": "rad", "drive": drive}, manifest())
    calm = picture_records(12, 1)
    passed = pa.array(np.minimum(np.nan_to_num(calm["excess"].to_numpy(), nan=0.1), 0.9))
    calm = calm.set_column(calm.schema.get_field_index("excess"), calm.schema.field("excess"), passed)
    calm = calm.set_column(calm.schema.get_field_index("violated"), calm.schema.field("violated"), pa.array([False] * 12))
    run.commit(ShardResult("grid", 0, calm))
    with serve(tmp_path) as server:
        page = server.get(f"/runs/{server.key('run')}").text
        assert "Nothing failed; this came nearest to it" in page
        assert page.count('class="shot"') == 4


def test_findings_of_different_drives_are_not_matched(server: Server, tmp_path: Path) -> None:
    other = Run.create(tmp_path / "third", {"campaign": "deeptest", "drive": "elsewhere"}, manifest(drive="another"))
    other.commit(ShardResult("grid", 0, picture_records(10)))
    page = server.get(f"/compare?run={server.key('first')}&run={server.key('third')}").text
    assert "cannot be matched" in page
    assert "persisting" not in page


def test_an_unknown_kind_is_shown_as_a_table(tmp_path: Path) -> None:
    make_odd_run(tmp_path / "odd")
    with serve(tmp_path) as server:
        key = server.key("odd")
        page = server.get(f"/runs/{key}?show=all").text
        assert page.count('<th scope="row"><a href="/runs/') == 5
        assert "speed (°)" in page
        case = server.get(f"/runs/{key}/cases/0003").text
        assert "∞" in case
        assert server.get(f"/runs/{key}/cases/0003/mutant.jpg").status_code == 404
        assert server.get(f"/runs/{key}/cases/0003/strip.svg").status_code == 404


@pytest.mark.parametrize("kind", KINDS.names())
def test_an_empty_run_of_every_kind_is_shown(tmp_path: Path, kind: str) -> None:
    Run.create(tmp_path / "run", {"campaign": kind}, manifest())
    with serve(tmp_path) as server:
        assert server.get("/").status_code == 200
        page = server.get(f"/runs/{server.key('run')}")
        assert page.status_code == 200
        assert "No findings" in page.text


def drive_row(**changes: Any) -> dict[str, Any]:
    series = np.zeros(20).astype("<f8").tobytes()
    row = {
        "case_id": "ab12",
        "mode": "online",
        "scenario_name": "bend",
        "scenario": json.dumps({}),
        "condition": "original",
        "recipe": "[]",
        "max_lateral_m": 0.4,
        "departed_at_s": nan,
        "collided_at_s": nan,
        "lateral_m": series,
        "answers_rad": series,
        "truth_rad": series,
        "problem": "",
        "excess": 0.3,
        "violated": False,
    }
    return {**row, **changes}


def test_drives_say_how_they_ended() -> None:
    exhibit = exhibit_of({"campaign": "online"})
    assert exhibit.sight(drive_row()) is Sight.FILM
    assert exhibit.sight(drive_row(lateral_m=b"")) is Sight.NOTHING
    assert exhibit.verdict(drive_row()) == "strays 0.40 m at most"
    assert exhibit.verdict(drive_row(violated=True, departed_at_s=2.0)) == "left its lane after 2.0 s"
    assert exhibit.verdict(drive_row(violated=True, collided_at_s=3.5)) == "touched something after 3.5 s"
    assert "leaves its lane after 2.0 s" in exhibit.told(drive_row(violated=True, departed_at_s=2.0))
    compared = exhibit_of({"campaign": "compare"})
    assert compared.unjudged == {"matched", "offline"}
    assert compared.title(drive_row()) == "bend, online"


def test_a_run_without_records_of_a_finding_has_none_to_step_to(tmp_path: Path) -> None:
    run = Run.create(tmp_path / "run", {"campaign": "deeptest"}, manifest())
    run.commit(ShardResult("grid", 0, picture_records(0)))
    assert isinstance(run.records(), pa.Table)
    with serve(tmp_path) as server:
        assert server.get(f"/runs/{server.key('run')}/at/0").status_code == 404
