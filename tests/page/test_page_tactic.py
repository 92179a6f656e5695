"""The page of a search for critical conditions."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "kinds"))
from tactic_toys import run_of, toy_campaign, toy_drive

from skidpad.drives.drive import Problem, ProblemKind
from skidpad.drives.opening import drive_from_arrays
from skidpad.kinds.pictures.styles.campaign import Tactic
from skidpad.kinds.pictures.styles.page import PAIRS, RANDOM, SCENES, filter_words, notes, tactic_page, tactic_warnings, tone, verdict
from skidpad.kinds.pictures.styles.summary import summarise
from skidpad.page.model import Tone
from skidpad.page.wording import percent
from skidpad.page.writing import render_page
from skidpad.runs.folder import Run


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> tuple[Tactic, Run]:
    campaign = toy_campaign(toy_drive(12), searches=("es", "random-styles"), repeats=2, bounds_deg=(0.5, 1.0, 2.0, 90.0))
    return campaign, run_of(campaign, tmp_path_factory.mktemp("tactic") / "run")


def test_conditions_stand_beside_random_styles_on_the_same_scenes(finished: tuple[Tactic, Run]) -> None:
    page = tactic_page(*finished)
    (gallery,) = page.galleries
    assert [row.label for row in gallery.rows] == ["as recorded", "condition 1", "condition 2", "random style 1", "random style 2"]
    assert {len(row.pictures) for row in gallery.rows} == {SCENES}
    assert len({picture.source for row in gallery.rows for picture in row.pictures}) == SCENES * (3 + RANDOM)
    assert tone(summarise(*finished)) is Tone.ALARM
    assert page.tone is Tone.UNKNOWN, "the toy was never trained, and the page doubts it"
    assert 0 < len(page.pictures) <= PAIRS


def test_figures_curves_and_tests_are_on_the_page(finished: tuple[Tactic, Run]) -> None:
    page = tactic_page(*finished)
    assert [chart.title for chart in page.charts] == ["Fitness", "Answers that move by 0.5° or more"]
    assert [table.title for table in page.tables] == ["Conditions found", "Means over repeats", "(1+1)-ES against random styles (R_c)"]
    assert page.tables[2].rows[-1][3:5] == ("FAILED", "FAILED")  # nothing moves by 90 degrees
    assert "No filter of scenes was used" in " ".join(page.remarks)
    html = render_page(page)
    assert "Critical conditions" in html
    assert "skidpad replay" in html


def test_an_unfinished_run_says_so(tmp_path: Path) -> None:
    campaign = toy_campaign(toy_drive(6))
    run = campaign.start(tmp_path / "run")
    page = tactic_page(campaign, run)
    assert page.tone is Tone.UNKNOWN
    assert page.verdict == "Not finished yet. No condition was found yet."
    assert "skidpad resume" in page.commands[0]


def test_figures_at_the_top_are_over_all_repeats_and_one_repeat_is_shown_by_name(finished: tuple[Tactic, Run]) -> None:
    campaign, run = finished
    summary = summarise(campaign, run)
    page = tactic_page(campaign, run)
    worst = summary.worst_of("es")
    both = summary.of("es")
    assert worst.errors[0] == max(repeat.errors[0] for repeat in both)
    errors, judged = sum(repeat.errors[0] for repeat in both), sum(repeat.judged for repeat in both)
    assert page.headlines[0].value == percent(errors / judged)
    assert page.headlines[0].detail == f"{errors} of {judged}, 2 repeats"
    assert page.verdict.startswith("In doubt: ")
    assert "Under the worst of 4 conditions toy moves" in page.verdict
    table = page.tables[0]
    assert [row[1] for row in table.rows] == [f"{each.condition.fitness:.3f}" for each in worst.conditions]
    said = f"repeat {worst.number + 1} of 2, the one with the most errors"
    assert table.note == f"By (1+1)-ES ({said})."
    assert said in page.charts[0].caption
    assert said in page.galleries[0].caption


def test_the_worst_pictures_are_those_of_all_repeats_and_say_which(finished: tuple[Tactic, Run]) -> None:
    campaign, run = finished
    page = tactic_page(campaign, run)
    found = [(repeat, row) for repeat in (1, 2) for row in run.findings(phase=f"es-r{repeat - 1:02d}").to_pylist()]
    repeat, worst = max(found, key=lambda each: float(each[1]["excess"]))
    assert page.pictures[0].case_id == worst["case_id"]
    assert page.pictures[0].recipe.endswith(f" of repeat {repeat}")
    assert all(" of repeat " in card.recipe for card in page.pictures)


def test_where_the_filter_refuses_everything_nothing_was_judged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Nothing:
        def accepts(self, sources, translated) -> np.ndarray:  # type: ignore[no-untyped-def]
            del translated
            return np.zeros(len(sources), np.bool_)

    monkeypatch.setattr("skidpad.kinds.pictures.styles.campaign.filter_of", lambda *_: Nothing())
    campaign = toy_campaign(toy_drive(6), validity="structure", bounds_deg=(0.5,))
    page = tactic_page(campaign, run_of(campaign, tmp_path / "run"))
    assert page.tone is Tone.UNKNOWN
    assert page.verdict == "Nothing was judged: every scene was refused."
    assert page.headlines == ()
    assert "nothing was judged" in " ".join(page.warnings)
    assert [row.note for row in page.galleries[0].rows[1:3]] == ["every scene refused"] * 2
    assert "nan" not in render_page(page).replace("nanosecond", "")


def test_a_search_that_finds_nothing_says_what_it_looked_at_and_what_another_found(finished: tuple[Tactic, Run]) -> None:
    summary = summarise(*finished)
    calm = tuple(
        replace(repeat, conditions=tuple(replace(each, errors=(0,) * 4, judged=each.scenes - 2) for each in repeat.conditions))
        for repeat in summary.of("es")
    )
    alone = replace(summary, repeats=calm)
    assert tone(alone) is Tone.CALM
    assert verdict(alone, "toy") == (
        "Under the worst of 4 conditions toy never moves by 0.5° or more on the 40 of 48 answers that could be judged."
    )
    beside = replace(summary, repeats=(*calm, *summary.of("random-styles")))
    assert tone(beside) is Tone.ALARM
    assert " But random styles (R_c) found " in verdict(beside, "toy")


@pytest.mark.parametrize(
    ("changes", "said", "unsaid"),
    [
        ({"iterations": 12}, "A search ends after 12 tries; ", "without anything better"),
        ({"iterations": 0}, "A search ends after 4 tries without anything better; ", "in all"),
        ({"patience": 3, "iterations": 30}, "ends after 3 tries without anything better, or 30 in all; ", "--"),
        ({"style_limit": 0.0}, "drawn from N(0, 1) and not limited; ", "kept within"),
        ({"style_limit": 4.0}, "drawn from N(0, 1) and kept within 4; ", "not limited"),
        ({"racing": True}, "No filter of scenes was used", "dropped"),
        ({"validity": "structure"}, "The filter refused ", "No filter"),
    ],
)
def test_notes_say_what_was_set_and_what_happened(finished: tuple[Tactic, Run], changes: dict[str, object], said: str, unsaid: str) -> None:
    campaign, run = finished
    patient = {"patience": 4 if changes.get("iterations") == 0 else 100, "profile_drive": "toy"}
    set_so = replace(campaign, settings=replace(campaign.settings, **{**patient, **changes}))
    words = " ".join((*notes(set_so, summarise(campaign, run)), filter_words(set_so, summarise(campaign, run))))
    assert said in words
    assert unsaid not in words


def test_scenes_that_the_referee_refused_are_said_search_by_search(finished: tuple[Tactic, Run], monkeypatch: pytest.MonkeyPatch) -> None:
    campaign, run = finished
    summary = summarise(campaign, run)
    assert "No filter of scenes was used" in filter_words(campaign, summary)
    monkeypatch.setattr("skidpad.kinds.kind.asks_referee", lambda _: True)
    repeats = [
        replace(
            repeat,
            conditions=tuple(
                replace(each, condition=replace(each.condition, refused=each.scenes if repeat.search == "es" else 0))
                for each in repeat.conditions
            ),
        )
        for repeat in summary.repeats
    ]
    words = filter_words(campaign, replace(summary, repeats=tuple(repeats))).replace("\xa0", " ")
    assert words.startswith("Of the scenes the referee refused 100 % under es, 0 % under random-styles")
    assert "No filter" not in words


def test_dropped_tries_are_counted(finished: tuple[Tactic, Run]) -> None:
    campaign, run = finished
    summary = summarise(campaign, run)
    first = summary.repeats[0]
    condition = first.conditions[0].condition
    dropped = replace(condition, tries=(*condition.tries, replace(condition.tries[0], fitness=None, kept=False)))
    changed = replace(first, conditions=(replace(first.conditions[0], condition=dropped), *first.conditions[1:]))
    every = sum(len(each.condition.tries) for repeat in summary.repeats for each in repeat.conditions) + 1
    words = " ".join(notes(campaign, replace(summary, repeats=(changed, *summary.repeats[1:]))))
    assert f"1 of {every} tries were dropped" in words


def test_broken_frames_are_said_at_the_top(tmp_path: Path) -> None:
    whole = toy_drive(8)
    frames = [Problem(ProblemKind.CORRUPT, f"{place:06d}", "torn") if place in (2, 5) else whole.frame(place) for place in range(8)]
    campaign = toy_campaign(drive_from_arrays(frames), conditions=1, searches=("random-styles",))
    run = run_of(campaign, tmp_path / "run")
    summary = summarise(campaign, run)
    assert summary.problems == 2
    said = "2 broken frames left out, so that the search had 6 scenes; `skidpad inspect` lists what is wrong."
    assert said in tactic_warnings(campaign, summary)
    assert said in tactic_page(campaign, run).warnings
    assert not any("left out" in words for words in tactic_warnings(campaign, replace(summary, problems=0)))


def test_shares_that_differ_are_written_apart() -> None:
    from skidpad.kinds.pictures.styles.page import _apart

    assert _apart(0.0071, 0.0074) == ("0.71 %", "0.74 %")
    assert _apart(0.00712, 0.00714) == ("0.712 %", "0.714 %")
    assert _apart(0.5, 0.25) == (percent(0.5), percent(0.25))
    assert _apart(0.3, 0.3) == (percent(0.3), percent(0.3))
