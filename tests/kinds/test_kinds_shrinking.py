"""Shrinking: the minimum fails, is never larger, and nothing more can be taken from it."""

from dataclasses import dataclass, field, replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from bar_world import BAR, BarSubject, bar_campaign, bar_drive
from hypothesis import given, settings
from hypothesis import strategies as st

from skidpad.core.errors import SkidpadError
from skidpad.core.stimuli import Choice, Params, Real, Recipe, Step, Whole
from skidpad.drives.opening import drive_from_arrays
from skidpad.kinds.kind import KINDS
from skidpad.kinds.pictures.shrinking import RecipeProblem, ladder, recipe_changes, shrink_recipe
from skidpad.kinds.pictures.styles.shrinking import StyleCampaign, shrink_style
from skidpad.kinds.shrinking import Change, Dial, NothingFailsError, minimise, shrink_finding, unchanged_words
from skidpad.runs.folder import Run
from skidpad.stimuli.pictures import stimuli


@dataclass(frozen=True)
class Heap:
    """A stimulus of nothing but levels, some of them pieces."""

    levels: tuple[int, ...]


@dataclass
class HeapProblem:
    """Fails where the rule says so; a piece is a place, and leaving it out is level 0 with a mark that it is gone."""

    rule: object
    width: int = 4
    asked: list[int] = field(default_factory=list)

    def first_tries(self, stimulus):
        return ()

    def pieces(self, stimulus):
        return len(stimulus.levels)

    def dials(self, stimulus):
        places = [place for place, level in enumerate(stimulus.levels) if level]
        return [Dial(str(place), stimulus.levels[place], partial(self._at, stimulus, place)) for place in places]

    def _at(self, stimulus, place, level):
        return Heap(tuple(level if at == place else each for at, each in enumerate(stimulus.levels)))

    def without(self, stimulus, pieces, dials):
        off = {[place for place, level in enumerate(stimulus.levels) if level][dial] for dial in dials}
        return Heap(tuple(0 if at in off else each for at, each in enumerate(stimulus.levels) if at not in pieces))

    def fails(self, stimuli):
        assert 0 < len(stimuli) <= self.width
        self.asked.append(len(stimuli))
        return [self.rule(each.levels) for each in stimuli]


def neighbours(heap: Heap):
    """Everything that is one step smaller."""
    for place, level in enumerate(heap.levels):
        yield Heap(heap.levels[:place] + heap.levels[place + 1 :])
        if level:
            yield Heap((*heap.levels[:place], level - 1, *heap.levels[place + 1 :]))
            yield Heap((*heap.levels[:place], 0, *heap.levels[place + 1 :]))


RULES = {
    "the sum": lambda levels: sum(levels) >= 37,
    "one large": lambda levels: max(levels, default=0) >= 23,
    "two of them": lambda levels: sum(level >= 5 for level in levels) >= 2,
    "a parity, which is not monotone": lambda levels: sum(levels) % 7 == 3,
    "everything": lambda levels: True,
}


@pytest.mark.parametrize("name", RULES)
@given(st.lists(st.integers(0, 60), min_size=1, max_size=6), st.integers(1, 9))
@settings(max_examples=40)
def test_the_minimum_fails_is_never_larger_and_is_1_minimal(name, levels, width) -> None:
    rule, start = RULES[name], Heap(tuple(levels))
    if not rule(start.levels):
        with pytest.raises(NothingFailsError):
            minimise(HeapProblem(rule, width), start)
        return
    problem = HeapProblem(rule, width)
    found = minimise(problem, start)
    assert rule(found.stimulus.levels)
    assert len(found.stimulus.levels) <= len(levels)
    assert sum(found.stimulus.levels) <= sum(levels)
    assert not [each for each in neighbours(found.stimulus) if rule(each.levels)]
    assert minimise(HeapProblem(rule, width), start) == found
    assert (found.judged, found.batches) == (sum(problem.asked), len(problem.asked))


def test_pieces_do_not_hang_on_how_many_are_judged_at_once() -> None:
    def rule(levels):
        return {1, 4} <= set(levels)

    start = Heap((3, 1, 0, 2, 4, 0, 5, 1))
    assert {minimise(HeapProblem(rule, width), start).stimulus.levels for width in (1, 2, 5, 50)} == {(4, 1)}


def test_few_batches_for_many_levels() -> None:
    problem = HeapProblem(lambda levels: sum(levels) >= 371_293, width=16)
    assert minimise(problem, Heap((999_999,))).stimulus == Heap((371_293,))
    assert len(problem.asked) <= 12


@given(st.data())
def test_a_ladder_goes_from_identity_to_the_value_and_stays_within_its_bounds(data) -> None:
    low, high = sorted(data.draw(st.tuples(st.floats(-50, 50), st.floats(-50, 50)).filter(lambda both: abs(both[0] - both[1]) > 1e-3)))
    identity, value = (data.draw(st.floats(low, high)) for _ in range(2))
    way = ladder(Real("x", low, high, identity), value)
    assert way.at(way.levels) == value
    values = [way.at(level) for level in range(min(way.levels, 50) + 1)]
    assert all(low <= each <= high for each in values)
    distances = [abs(each - identity) for each in values]
    assert all(near <= far + 1e-9 for near, far in pairwise(distances))
    assert way.at(0) == (identity if way.levels else value)


def test_ladders_of_whole_numbers_choices_and_styles() -> None:
    whole = ladder(Whole("shift", -100, 100, 0), -7)
    assert [whole.at(level) for level in range(whole.levels + 1)] == [0, -1, -2, -3, -4, -5, -6, -7]
    choice = ladder(Choice("kind", ("a", "b", "c"), "b"), "c")
    assert [choice.at(level) for level in range(choice.levels + 1)] == ["b", "a", "c"]
    style = ladder(Real("style_3", -4.0, 4.0, None), 1.5)
    assert (style.at(0), style.at(style.levels)) == (0.0, 1.5)
    assert ladder(Choice("kind", ("a", "b")), "b") is None
    assert ladder(Real("gain", 0.2, 3.0, 1.0), 1.0).levels == 0


def test_values_are_round_numbers() -> None:
    way = ladder(Real("density", 0.0, 1.0, 0.0), 0.123456)
    assert [way.at(level) for level in (0, 1, 30, way.levels)] == [0.0, 0.001, 0.03, 0.123456]


def known(recipe: Recipe) -> bool:
    """Fails where something blurs by the median and something else brightens by more than 12."""
    blurs = any(step.stimulus == "blur" and step.params["kind"] == "median" and step.params["size"] >= 4 for step in recipe.steps)
    return blurs and any(step.stimulus == "brightness" and step.params["shift"] > 12 for step in recipe.steps)


def test_a_recipe_loses_its_steps_and_its_parameters_excess() -> None:
    steps = (
        Step("deeptest-fog", Params(density=0.7, seed=77)),
        Step("brightness", Params(shift=88)),
        Step("rotation", Params(angle_deg=12.345)),
        Step("blur", Params(kind="median", size=9)),
    )
    problem = RecipeProblem(stimuli(), lambda recipes: [known(recipe) for recipe in recipes])
    found = minimise(problem, Recipe(steps)).stimulus
    assert found == Recipe((Step("brightness", Params(shift=13)), Step("blur", Params(kind="median", size=4))))
    assert recipe_changes(Recipe(steps), found) == (
        Change("deeptest-fog", "density=0.7 seed=77", "left out"),
        Change("brightness shift", "88", "13"),
        Change("rotation", "angle_deg=12.345", "left out"),
        Change("blur size", "9", "4"),
    )


@pytest.fixture(scope="module")
def dazzled(tmp_path_factory: pytest.TempPathFactory):
    campaign = bar_campaign(BarSubject(left_threshold=100), searches=("grid", "random"), seeds=6, max_failed_tries=3)
    run = campaign.start(tmp_path_factory.mktemp("run") / "run")
    campaign.execute(run)
    return campaign, run


def test_every_finding_of_a_planted_threshold_shrinks_to_it(dazzled) -> None:
    campaign, run = dazzled
    rows = run.findings().to_pylist()
    assert {row["stimulus"] for row in rows} >= {"brightness", "contrast"}
    for row in rows[::7] + [row for row in rows if "+" in row["stimulus"]][:4]:
        shrunk = shrink_finding(campaign, run, row["case_id"])
        (step,) = Recipe.from_json(shrunk.smallest["recipe"]).steps
        assert shrunk.smallest["violated"]
        assert shrunk.smallest["excess"] > 1.0
        if step.stimulus == "brightness":
            assert step.params["shift"] == 101 - BAR
        elif step.stimulus == "contrast":
            assert round(BAR * step.params.real("gain")) > 100 >= round(BAR * (step.params.real("gain") - 0.01))


def test_the_smallest_case_is_what_a_replay_of_it_would_give(dazzled) -> None:
    campaign, run = dazzled
    row = run.findings(limit=1).to_pylist()[0]
    smallest = shrink_finding(campaign, run, row["case_id"]).smallest
    recipe = Recipe.from_json(smallest["recipe"])
    assert smallest["mutant"] == campaign.answer(row["frame_index"], recipe)
    assert set(smallest) == set(run.schema.names)
    assert smallest["case_id"] != row["case_id"]


def test_memory_is_shrunk_one_window_at_a_time(tmp_path: Path) -> None:
    campaign = bar_campaign(BarSubject(left_threshold=100, lead=2), transforms=("brightness",))
    run = campaign.start(tmp_path / "run")
    campaign.execute(run)
    rows = run.findings().to_pylist()
    shrunk = shrink_finding(campaign, run, rows[0]["case_id"])
    shift = Recipe.from_json(shrunk.smallest["recipe"]).steps[0].params.whole("shift")
    index = rows[0]["frame_index"]
    assert abs(campaign.answer(index, Recipe.of("brightness", Params(shift=shift))) - rows[0]["original"]) > 0.03
    assert abs(campaign.answer(index, Recipe.of("brightness", Params(shift=shift - 1))) - rows[0]["original"]) < 0.03


def test_a_mended_subject_and_a_passed_case_have_nothing_to_shrink(dazzled) -> None:
    campaign, run = dazzled
    row = run.findings(limit=1).to_pylist()[0]
    with pytest.raises(NothingFailsError, match="does not fail any more"):
        shrink_finding(replace(campaign, subject=BarSubject()), run, row["case_id"])
    passed = next(each for each in run.records("grid").to_pylist() if not each["violated"])
    with pytest.raises(SkidpadError, match="is no finding"):
        shrink_finding(campaign, run, passed["case_id"])


def test_a_kind_of_another_name_shrinks_with_the_part_that_it_names(dazzled, monkeypatch: pytest.MonkeyPatch) -> None:
    campaign, run = dazzled
    renamed = Run(run.path, {**run.config, "campaign": "somebody-elses"}, run.manifest, run.schema)
    renamed.refresh()
    case = run.findings(limit=1).to_pylist()[0]["case_id"]
    known = KINDS.get("deeptest")
    monkeypatch.setitem(KINDS._rows, "somebody-elses", known)
    assert shrink_finding(campaign, renamed, case).smallest == shrink_finding(campaign, run, case).smallest
    monkeypatch.setitem(KINDS._rows, "somebody-elses", replace(known, shrink=None))
    with pytest.raises(SkidpadError, match="cannot be shrunk"):
        shrink_finding(campaign, renamed, case)


@dataclass(frozen=True)
class ToyWeather:
    """Brightens by ten grey levels for each unit of its second style number; the others change nothing."""

    style_size = 3
    card = SimpleNamespace(name="dusk")

    def translate(self, frames, style):
        return np.clip(frames.astype(np.int64) + round(10.0 * float(style[1])), 0, 255).astype(np.uint8)


def test_a_style_goes_to_the_middle_where_it_does_not_matter(dazzled) -> None:
    campaign, run = dazzled
    view = StyleCampaign(
        SimpleNamespace(
            subject=BarSubject(left_threshold=60),
            drive=campaign.drive,
            weather=ToyWeather(),
            settings=SimpleNamespace(output="steering", bounds_deg=(2.0, 10.0)),
        )
    )
    row = run.findings(limit=1).to_pylist()[0]
    styled = Recipe.of("dusk", Params(style_0=-1.25, style_1=2.5, style_2=0.75))
    shrunk = shrink_recipe(view, run, {**row, "recipe": styled.to_json()})
    (step,) = Recipe.from_json(shrunk.smallest["recipe"]).steps
    assert (step.params["style_0"], step.params["style_2"]) == (0.0, 0.0)
    assert step.params.real("style_1") == pytest.approx(1.66, abs=0.011), "the bar of 44 must pass 60"


def test_a_style_is_shrunk_through_pictures_that_the_filter_takes(dazzled, monkeypatch) -> None:
    """The answer moves from 1.66 on, and the filter takes pictures that are brighter by 20 or more: the minimum is 2."""
    campaign, run = dazzled
    monkeypatch.setattr(ToyWeather, "card", SimpleNamespace(name="dusk", size_px=16, sizes=SimpleNamespace(stride=4)))
    asked = []

    class Brighter:
        def accepts(self, sources, translated):
            asked.append(sources.shape[1])
            return translated.reshape(len(translated), -1).max(1) >= BAR + 20

    search = SimpleNamespace(
        subject=BarSubject(left_threshold=60),
        drive=campaign.drive,
        weather=ToyWeather(),
        settings=SimpleNamespace(output="steering", bounds_deg=(2.0, 10.0), validity="structure", device="cpu"),
    )
    monkeypatch.setattr("skidpad.kinds.pictures.styles.shrinking.filter_of", lambda *given: Brighter() if given[0] == "structure" else None)
    row = run.findings(limit=1).to_pylist()[0]
    styled = Recipe.of("dusk", Params(style_0=-1.25, style_1=2.5, style_2=0.75))
    given = {**row, "recipe": styled.to_json()}
    (step,) = Recipe.from_json(shrink_style(search, run, given).smallest["recipe"]).steps
    assert step.params.real("style_1") == pytest.approx(2.0, abs=0.06)
    assert set(asked) == {16}, "the filter sees scenes at the weather's size, as in the search"
    search.settings.validity = ""
    (free,) = Recipe.from_json(shrink_style(search, run, given).smallest["recipe"]).steps
    assert free.params.real("style_1") == pytest.approx(1.66, abs=0.011)


def test_a_frame_that_fails_as_it_is_is_said_to(tmp_path: Path) -> None:
    plain = bar_drive(6)
    labels = plain.steering_rad.copy()
    labels[3] += 0.5
    drive = drive_from_arrays(plain.read(range(6)).frames, labels)
    campaign = bar_campaign(BarSubject(left_threshold=130), drive=drive, relation="label-mse", tolerance=2.0, transforms=("brightness",))
    run = campaign.start(tmp_path / "run")
    campaign.execute(run)
    row = next(row for row in run.findings().to_pylist() if row["frame_index"] == 3)
    shrunk = shrink_recipe(campaign, run, row)
    assert shrunk.fails_unchanged
    assert unchanged_words(shrunk).startswith(f"frame {row['frame_id']} fails without any change")
