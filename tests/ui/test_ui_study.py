"""The questionnaire: the same pairs for everyone, nothing that gives a scene away, and a tally that adds up."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ui_runs import Server, serve

from skidpad.core.errors import SkidpadError, UnknownNameError
from skidpad.core.images import decode, write_image
from skidpad.ui.study import (
    MAX_WIDTH_PX,
    Background,
    Preference,
    RealismChoice,
    Recognition,
    SceneChoice,
    Study,
    pictures_in,
    preference_of,
    scene_named,
    tally,
)


def paint(path: Path, seed: int, width: int = 40) -> None:
    write_image(path, np.random.default_rng(seed).integers(0, 256, (24, width, 3), np.uint8))


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    root = tmp_path_factory.mktemp("study")
    for number in range(4):
        paint(root / "real" / "fog" / f"{number}.png", number)
        paint(root / "real" / "night" / f"{number}.jpg", 10 + number, width=900)
    for approach, first in (("tactic", 20), ("deeptest", 40)):
        for number in range(5):
            paint(root / "made" / approach / "fog" / f"{number}.png", first + number)
        paint(root / "made" / approach / "snow_night" / "0.png", first + 9)
    return root / "real", root / "made"


@pytest.fixture
def study(folders: tuple[Path, Path], tmp_path: Path) -> Study:
    return Study.of(*folders, tmp_path / "answers.jsonl", per_approach=4)


@pytest.fixture
def server(study: Study, tmp_path: Path) -> Iterator[Server]:
    with serve(tmp_path, study) as server:
        yield server


def test_everyone_gets_the_same_pairs_and_each_approach_as_many(study: Study, folders: tuple[Path, Path], tmp_path: Path) -> None:
    again = Study.of(*folders, tmp_path / "other.jsonl", per_approach=4)
    assert again.pairs == study.pairs
    assert Counter(pair.synthesised.approach for pair in study.pairs) == {"tactic": 4, "deeptest": 4}
    assert Study.of(*folders, tmp_path / "x.jsonl", per_approach=4, seed=1).pairs != study.pairs


def test_a_scene_is_paired_with_a_real_one_of_its_type_where_there_is_one(study: Study) -> None:
    for pair in study.pairs:
        assert pair.real.path.parts[-3] == "real"
        if pair.synthesised.scene is SceneChoice.FOG:
            assert pair.real.scene is SceneChoice.FOG
    assert {pair.real_first for pair in study.pairs} == {True, False}


@pytest.mark.parametrize(
    ("name", "scene"),
    [
        ("fog", SceneChoice.FOG),
        ("Snow_Night", SceneChoice.SNOW_NIGHT),
        ("snow-day", SceneChoice.SNOW_DAY),
        ("wet", SceneChoice.RAIN),
        ("tactic", None),
        ("", None),
    ],
)
def test_folders_name_types(name: str, scene: SceneChoice | None) -> None:
    assert scene_named(name) is scene


def test_folders_without_pictures_are_told_so(tmp_path: Path) -> None:
    with pytest.raises(SkidpadError, match="no folder"):
        pictures_in(tmp_path / "nowhere")
    (tmp_path / "empty").mkdir()
    (tmp_path / "empty" / "notes.txt").write_text("no picture")
    (tmp_path / "empty" / "link.png").symlink_to("/etc/hostname")
    with pytest.raises(SkidpadError, match="holds no pictures"):
        pictures_in(tmp_path / "empty")


def test_nothing_that_is_sent_gives_a_scene_away(server: Server, study: Study) -> None:
    participant = study.begin(Background.OTHER)
    for number in range(study.count):
        text = server.get(f"/study/{participant}?at={number + 1}").text.lower()
        for word in ("tactic", "deeptest", "synthesised", "real.", "/made/", ".png", "snow_night"):
            assert word not in text.replace("unrealistic", "")
    widths = set()
    for picture in study.pictures.values():
        answer = server.get(f"/study/pictures/{picture.key}.jpg")
        assert answer.headers["content-type"] == "image/jpeg"
        shown = decode(answer.content)
        assert shown is not None
        widths.add(shown.shape[1])
    assert widths == {MAX_WIDTH_PX}
    assert server.get("/study/pictures/..%2f..%2fetc%2fpasswd.jpg").status_code == 404


def test_answers_are_kept_one_by_one_and_may_be_corrected(study: Study) -> None:
    participant = study.begin(Background.STUDENT)
    study.answer(participant, 0, RealismChoice.BOTH.value)
    study.answer(participant, 0, RealismChoice.FIRST.value)
    study.answer(participant, len(study.pairs), SceneChoice.FOG.value)
    again = Study(study.pairs, study.journal)
    assert again.answered(participant) == {0: RealismChoice.FIRST.value, len(study.pairs): SceneChoice.FOG.value}
    assert len(again.journal.read().rows) == 4


def test_wrong_answers_and_strangers_are_refused(study: Study) -> None:
    participant = study.begin(Background.OTHER)
    for wrong in (
        lambda: study.answer(participant, 0, SceneChoice.FOG.value),
        lambda: study.answer(participant, study.count, SceneChoice.FOG.value),
        lambda: study.answer("0" * 16, 0, RealismChoice.BOTH.value),
        lambda: study.answered("../../x"),
    ):
        with pytest.raises(UnknownNameError):
            wrong()
    assert not study.answers()


@settings(max_examples=20)
@given(data=st.data())
def test_the_tally_is_that_of_plain_counting(
    folders: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    study = Study.of(*folders, tmp_path_factory.mktemp("answers") / "a.jsonl", per_approach=2)
    expected_five: Counter[tuple[str, str]] = Counter()
    expected_six: Counter[tuple[str, str]] = Counter()
    for background in data.draw(st.lists(st.sampled_from(Background), max_size=2)):
        participant = study.begin(background)
        for number in data.draw(st.sets(st.integers(0, study.count - 1), max_size=6)):
            question = study.question(number)
            choice = data.draw(st.sampled_from(question.choices))
            study.answer(participant, number, choice)
            made = question.pair.synthesised
            if question.part == 1:
                names = {RealismChoice.BOTH.value: "both realistic", RealismChoice.NEITHER.value: "both unrealistic"}
                shown = question.pair.pictures[0 if choice == RealismChoice.FIRST.value else 1]
                expected_five[
                    made.approach, names.get(choice, "the real scene" if "real" in shown.path.parts else "the synthesised scene")
                ] += 1
            elif choice == "image unrealistic":
                expected_six[made.approach, "unrealistic"] += 1
            else:
                expected_six[made.approach, "the right type" if made.scene is SceneChoice(choice) else "another type"] += 1
    found = tally(study)
    five = {(row.approach, kind.value): row.preferences[kind] for row in found.approaches for kind in Preference}
    six = {(row.approach, kind.value): row.recognitions[kind] for row in found.approaches for kind in Recognition}
    assert Counter({key: hits for key, hits in five.items() if hits}) == expected_five
    assert Counter({key: hits for key, hits in six.items() if hits}) == expected_six
    assert found.answers == expected_five.total() + expected_six.total()


def test_preferences_look_through_the_order_of_a_pair(study: Study) -> None:
    for pair in study.pairs:
        at_first = Preference.REAL if pair.pictures[0] is pair.real else Preference.SYNTHESISED
        assert preference_of(pair, RealismChoice.FIRST) is at_first
        assert {preference_of(pair, RealismChoice.FIRST), preference_of(pair, RealismChoice.SECOND)} == {
            Preference.REAL,
            Preference.SYNTHESISED,
        }


def test_answers_about_other_pictures_do_not_count(study: Study, folders: tuple[Path, Path]) -> None:
    other = Study.of(*folders, study.journal.path, per_approach=4, seed=9)
    other.answer(other.begin(Background.OTHER), 0, RealismChoice.BOTH.value)
    assert tally(study).answers == 0
    assert tally(other).answers == 1


def test_the_whole_questionnaire_is_walked_through(server: Server, study: Study) -> None:
    begun = server.post("/study/participants", content="background=industry")
    assert begun.status_code == 303
    place = begun.headers["location"]
    for number in range(study.count):
        page = server.get(place).text
        assert f"question {number + 1} of {study.count}" in page
        assert ("Which driving scene is more realistic?" in page) == (number < len(study.pairs))
        choice = "both are realistic" if number < len(study.pairs) else "fog"
        assert server.post(place, content=f"number={number}&choice={choice}").status_code == 303
    assert "Thank you" in server.get(place).text
    told = server.get("/study/tally").text
    assert f"{study.count} answers of 1 person: 1 industry" in told
    assert "in the paper: 44 % cannot be told from real scenes" in told
    assert server.post("/study/participants", content="background=alien").status_code == 404
    assert server.post(place, content="number=x&choice=fog").status_code == 404
    assert server.get(f"{place}?at=999").status_code == 404


def test_a_tally_without_answers_says_so(server: Server) -> None:
    assert "0 answers of 0 people" in server.get("/study/tally").text


def test_without_a_study_the_page_says_how_to_make_one(tmp_path: Path) -> None:
    with serve(tmp_path) as server:
        assert "--study REAL SYNTHESISED" in server.get("/study").text
        assert server.get("/study/tally").status_code == 404
