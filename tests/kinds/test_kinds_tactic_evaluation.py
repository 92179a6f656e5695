"""The fitness of styles against plain references, and that speed changes no step."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from math import inf, pi
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tactic_toys import CARD, toy_campaign, toy_drive, toy_subject, toy_weights

from skidpad.core.errors import BadDriveError, BadParametersError
from skidpad.core.images import NumpyFrames
from skidpad.coverage.criteria import CRITERIA
from skidpad.coverage.profile import profile_of
from skidpad.drives.drive import Problem, ProblemKind
from skidpad.drives.opening import drive_from_arrays
from skidpad.kinds.pictures.styles.applying import apply
from skidpad.kinds.pictures.styles.campaign import Tactic
from skidpad.kinds.pictures.styles.condition import Condition, Try, find
from skidpad.kinds.pictures.styles.evaluation import Evaluator, Glance, Goal, Looked
from skidpad.kinds.pictures.styles.fitness import FitnessWeights, diversity, fitness, norm
from skidpad.kinds.pictures.styles.scenes import chosen_runs
from skidpad.referee.verdict import Reason, Verdicts
from skidpad.runs.workers.here import Here
from skidpad.search.evolution import Styles
from skidpad.search.protocol import SearchTask
from skidpad.stimuli.weather.contents import Contents
from skidpad.stimuli.weather.translation import Weather

STYLE = np.array([0.4, -1.2, 0.9])


@contextmanager
def evaluating(campaign: Tactic, **changes: object) -> Iterator[Evaluator]:
    profile = profile_of(campaign.subject, campaign.drive.batches(8, lead=campaign.subject.lead), campaign.drive.sha256)
    with campaign.evaluator(profile, **changes) as evaluator:  # type: ignore[arg-type]
        yield evaluator


def blank_goal(evaluator: Evaluator, **changes: object) -> Goal:
    neurons = evaluator.subject.layers[-1].stop
    bits = torch.zeros((neurons, evaluator.criterion.sections), dtype=torch.bool)
    total = evaluator.criterion.reachable(neurons, evaluator.profile)
    return Goal.of(bits, total, FitnessWeights(), **changes)  # type: ignore[arg-type]


def plain_fitness(campaign: Tactic, evaluator: Evaluator, style: np.ndarray, covered: set[tuple[int, int]]) -> tuple[float, float, float]:
    """Section 3.2.3, scene by scene: F_c = |R_s| / |R_t|, F_d = the mean divergence, F = F_c + F_d / (F_d + 1)."""
    lead = campaign.subject.lead
    entered: set[tuple[int, int]] = set()
    divergences = []
    for index in range(len(campaign.drive)):
        clip = campaign.drive.read([index], lead=lead).clip
        made = campaign.weather.translate(clip, torch.from_numpy(style).float())
        before, after = campaign.subject.observe(clip), campaign.subject.observe(made)
        divergences.append(abs(float(before.answers[0, 0]) - float(after.answers[0, 0])))
        regions = evaluator.criterion.regions(after.values, campaign.subject.layers, evaluator.profile)[0].tolist()
        entered |= {(neuron, region) for neuron, region in enumerate(regions) if region >= 0}
    total = evaluator.criterion.reachable(campaign.subject.layers[-1].stop, evaluator.profile)
    f_c = len(entered - covered) / (total - len(covered))
    f_d = sum(divergences) / len(divergences)
    return f_c, f_d, f_c + f_d / (f_d + 1.0)


@given(
    newly=st.integers(0, 50),
    uncovered=st.integers(50, 90),
    divergence=st.floats(0.0, 12.0),
    w_c=st.floats(0.1, 3.0),
    w_d=st.floats(0.1, 3.0),
)
def test_the_fitness_is_the_papers(newly: int, uncovered: int, divergence: float, w_c: float, w_d: float) -> None:
    expected = w_c * (newly / uncovered) + w_d * (divergence / (divergence + 1.0))
    assert fitness(newly, uncovered, divergence, FitnessWeights(w_c, w_d)) == pytest.approx(expected)
    assert 0.0 <= norm(divergence) < 1.0


def test_the_ends_of_the_fitness() -> None:
    assert diversity(0, 0) == 0.0  # everything is covered already
    assert norm(inf) == 1.0
    with pytest.raises(BadParametersError, match="not a number"):
        fitness(1, 2, float("nan"), FitnessWeights())
    with pytest.raises(BadParametersError, match="not both 0"):
        FitnessWeights(0.0, 0.0)


@pytest.mark.parametrize("criterion", ["nbc", "kmnc"])
@pytest.mark.parametrize("frames", [1, 3])
def test_a_style_is_as_fit_as_the_plain_formula_says(criterion: str, frames: int) -> None:
    campaign = toy_campaign(toy_drive(10), toy_subject(frames), criterion=criterion)
    with evaluating(campaign) as evaluator:
        looked = evaluator.look([STYLE], blank_goal(evaluator))[0]
        f_c, f_d, value = plain_fitness(campaign, evaluator, STYLE, set())
        assert looked.diversity == pytest.approx(f_c, abs=0.03)  # a level of rounding may cross the border of a region
        assert looked.divergence_rad == pytest.approx(f_d, rel=0.03)
        assert looked.value == pytest.approx(value, abs=0.03)
        assert looked.newly > 0


@pytest.mark.parametrize("frames", [1, 3])
@pytest.mark.parametrize("is_mapped", [False, True])
def test_the_subject_is_shown_what_is_drawn_on_a_weather_as_in_a_replay(
    frames: int, is_mapped: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn = Weather(replace(CARD, drawn="rain(mm_per_h=30)+lens-drops(share=0.3)"), toy_weights())
    campaign = replace(toy_campaign(toy_drive(10), toy_subject(frames)), weather=drawn)
    shown: list[torch.Tensor] = []
    observe = Evaluator._observe
    monkeypatch.setattr(Evaluator, "_observe", lambda self, clip: (shown.append(clip), observe(self, clip))[1])
    monkeypatch.setattr(Contents, "_room", lambda _: 0 if is_mapped else 1 << 30)
    styles = [STYLE, -STYLE]
    with evaluating(campaign, file=tmp_path / "codes") as evaluator:
        assert evaluator.scenes.contents.is_mapped is is_mapped
        norms = evaluator.decoder.norms(torch.from_numpy(np.stack(styles)))
        together = norms if frames == 1 else norms[:1]
        for number, block in enumerate(evaluator.scenes.blocks):
            evaluator.shown(Glance(number, together))
            indices = evaluator.scenes.indices[block.scenes]
            clip = campaign.drive.read(indices, lead=campaign.subject.lead).clip
            for place, seen in enumerate(shown[-1].chunk(len(together))):
                style = torch.from_numpy(styles[place]).float()
                made, plain = (each.translate(clip, style).astype(int) for each in (drawn, Weather(CARD, toy_weights())))
                apart = np.abs(seen.numpy() - made)
                assert (apart > 1).mean() < 1e-3, "a level of rounding is all that a batch changes"
                assert np.abs(made - plain).mean() > 5


def test_regions_that_are_covered_already_bring_nothing() -> None:
    campaign = toy_campaign(toy_drive(10), criterion="kmnc")
    with evaluating(campaign) as evaluator:
        goal = blank_goal(evaluator)
        first = evaluator.look([STYLE], goal)[0]
        bits = (first.tally._entered[:, 1:] > 0) & goal.uncovered
        again = evaluator.look([STYLE], Goal.of(bits, goal.regions, FitnessWeights()))[0]
        assert first.newly == int(bits.sum()) > 0
        assert (again.newly, again.diversity) == (0, 0.0)
        assert again.value == pytest.approx(norm(again.divergence_rad))


def steps(evaluator: Evaluator, name: str = "es", at_once: int = 1, **changes: object) -> list[Try]:
    task = SearchTask(Styles(3), 0, patience=8, budget=12)
    return list(find(name, task, evaluator, blank_goal(evaluator, **changes), at_once).tries)


def kept(tries: list[Try]) -> list[tuple[int, float | None]]:
    return [(place, None if each.fitness is None else round(each.fitness, 9)) for place, each in enumerate(tries) if each.kept]


@pytest.mark.parametrize(("name", "risk"), [("es", 0.001), ("random-search", 0.0)])
def test_racing_and_several_at_once_accept_the_steps_of_the_papers_algorithm(name: str, risk: float) -> None:
    campaign = toy_campaign(toy_drive(24), criterion="kmnc")
    with evaluating(campaign) as evaluator:
        plain = steps(evaluator, name)
        assert sum(each.kept for each in plain) >= 2
        assert all(each.scenes == 24 for each in plain)
        for at_once, racing in ((1, True), (4, False), (4, True)):
            fast = steps(evaluator, name, at_once, racing=racing, risk=risk)
            assert [place for place, _ in kept(fast)] == [place for place, _ in kept(plain)]
            for (_, ours), (_, theirs) in zip(kept(fast), kept(plain), strict=True):
                assert ours == pytest.approx(theirs, abs=1e-3)  # batches of another size round differently
            assert len(fast) == len(plain)


def test_racing_drops_losers_early() -> None:
    """A weather of one half does nothing, of the other blinds the subject: bad tries are seen to be bad on few scenes."""
    campaign = toy_campaign(toy_drive(64), criterion="nbc")
    with evaluating(campaign) as evaluator:
        goal = blank_goal(evaluator, racing=True, risk=0.01)
        best = evaluator.look([STYLE], goal)[0]
        far = replace(
            best,
            value=best.value + 0.5,
            sightings=tuple(replace(each, divergence_sum=each.divergence_sum + each.seen * 2.0) for each in best.sightings),
        )
        loser = evaluator.look([STYLE * 0.5], goal, far)[0]
        assert loser.dropped
        assert loser.seen < 64
        assert loser.value == -inf
        kept_on = evaluator.look([STYLE * 0.5], replace(goal, racing=False), far)[0]
        assert (kept_on.dropped, kept_on.seen) == (False, 64)
        sound = evaluator.look([STYLE * 0.5], replace(goal, risk=0.0), far)[0]
        assert sound.seen >= loser.seen  # what is certain is known later


def test_threads_do_not_show(tmp_path: Path) -> None:
    campaign = toy_campaign(toy_drive(40))
    with evaluating(campaign) as evaluator:
        alone = evaluator.look([STYLE, -STYLE], blank_goal(evaluator))
    with Here(2).start(campaign, lambda: campaign, tmp_path) as crew, evaluating(campaign, crew=crew) as evaluator:
        beside = evaluator.look([STYLE, -STYLE], blank_goal(evaluator))
    for first, second in zip(alone, beside, strict=True):
        assert first.value == pytest.approx(second.value, abs=1e-6)


def test_codes_in_a_file_do_not_show(tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:  # type: ignore[no-untyped-def]
    campaign = toy_campaign(toy_drive(12))
    with evaluating(campaign) as evaluator:
        resident = evaluator.look([STYLE], blank_goal(evaluator))[0]
    monkeypatch.setattr("skidpad.stimuli.weather.contents._CPU_BYTES", 0)
    with evaluating(campaign, file=tmp_path / "codes.bin") as evaluator:
        assert evaluator.scenes.contents.is_mapped
        mapped = evaluator.look([STYLE], blank_goal(evaluator))[0]
    assert mapped.value == pytest.approx(resident.value, abs=1e-5)
    assert not (tmp_path / "codes.bin").exists()


class Refusing:
    """Refuses every scene whose source is darker than half."""

    def accepts(self, sources, translated) -> np.ndarray:  # type: ignore[no-untyped-def]
        assert len(sources) == len(translated)
        return sources.reshape(len(sources), -1).mean(1) >= 127.5


def test_refused_scenes_count_for_nothing() -> None:
    campaign = toy_campaign(toy_drive(20))
    with evaluating(campaign) as evaluator:
        plain = evaluator.look([STYLE], blank_goal(evaluator))[0]
        frames = campaign.drive.read(evaluator.scenes.indices).frames
        scenes = replace(evaluator.scenes, sources=frames)
        watched = Evaluator(scenes, campaign.decoder, campaign.subject, 0, CRITERIA.get("nbc")(), evaluator.profile, Refusing())
        looked = watched.look([STYLE], blank_goal(watched))[0]
        refused = ~Refusing().accepts(frames, frames)
        assert int(looked.tally.rejected) == refused.sum() > 0
        divergence = plain.tally.divergence.numpy().copy()
        divergence[refused] = 0.0
        np.testing.assert_allclose(looked.tally.divergence.numpy(), divergence)
        assert looked.newly <= plain.newly


class EvenOnly:
    """A referee that keeps every other scene."""

    def __init__(self, originals: NumpyFrames, device: str) -> None:
        self.scenes, self.device = len(originals), device

    def kept(self, places: slice, changed: torch.Tensor) -> torch.Tensor:
        assert len(changed) == places.stop - places.start
        return torch.arange(places.start, places.stop) % 2 == 0


def test_scenes_that_the_referee_does_not_keep_count_for_nothing_and_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("skidpad.kinds.kind.asks_referee", lambda _: True)
    monkeypatch.setattr("skidpad.kinds.pictures.styles.evaluation.QuickReferee", EvenOnly)
    asked: list[int] = []

    def refusing(originals: NumpyFrames, changed: NumpyFrames, device: str) -> Verdicts:
        assert (device, len(originals)) == ("cpu", len(changed))
        asked.append(len(changed))
        return Verdicts((Reason.ROAD_LOST,) * len(changed), np.zeros(len(changed)), np.zeros(len(changed)))

    monkeypatch.setattr("skidpad.kinds.pictures.styles.evaluation.judge", refusing)
    campaign = toy_campaign(toy_drive(20))
    with evaluating(campaign) as evaluator:
        scenes = evaluator.scenes
        looked = evaluator.look([STYLE], blank_goal(evaluator))[0]
        applied = apply(evaluator, STYLE, campaign.tracker(evaluator.profile), 1e-9)
        silent = apply(evaluator, STYLE, campaign.tracker(evaluator.profile), 179.0)
        moved = evaluator.divergence_rad(slice(0, 20), torch.from_numpy(applied.answers)).numpy()
    assert looked.divergence_rad == pytest.approx(moved[::2].sum() / 20, rel=1e-5)
    assert applied.refused == len(scenes) // 2
    assert (applied.active[1::2] == 0).all()  # what is not kept covers nothing
    assert sum(asked) == 20  # the whole referee is asked about every answer that moved, and about no other
    assert not applied.kept.any()
    assert silent.kept.all()
    assert silent.reasons == (None,) * 20


def test_scenes_without_an_original_answer_belong_to_no_figure() -> None:
    campaign = toy_campaign(toy_drive(20))
    with evaluating(campaign) as evaluator:
        plain = evaluator.look([STYLE], blank_goal(evaluator))[0]
        original = evaluator.scenes.original.copy()
        original[3] = np.nan
        scenes = replace(evaluator.scenes, original=original)
        watched = Evaluator(scenes, campaign.decoder, campaign.subject, 0, CRITERIA.get("nbc")(), evaluator.profile)
        looked = watched.look([STYLE], blank_goal(watched))[0]
        assert watched.counted == 19
        left = np.delete(plain.tally.divergence.numpy(), 3)
        assert looked.divergence_rad == pytest.approx(left.mean())


def test_an_answer_that_is_no_number_is_the_largest_divergence() -> None:
    campaign = toy_campaign(toy_drive(4))
    with evaluating(campaign) as evaluator:
        answers = torch.tensor([np.nan, np.inf, 100.0, float(evaluator.scenes.original[3])], dtype=torch.float64)
        np.testing.assert_allclose(evaluator.divergence_rad(slice(0, 4), answers), [4 * pi, 4 * pi, 4 * pi, 0.0])


def test_scenes_are_spread_and_in_one_random_order() -> None:
    runs = chosen_runs(100, 20, 0, 8)
    together = np.concatenate(runs)
    assert [len(run) for run in runs] == [8, 8, 4]
    assert sorted(together.tolist()) == np.linspace(0, 99, 20).round().astype(int).tolist()
    assert together.tolist() != sorted(together.tolist())
    np.testing.assert_array_equal(together, np.concatenate(chosen_runs(100, 20, 0, 5)))
    assert len(np.concatenate(chosen_runs(100, 0, 0, 8))) == 100


def test_a_subject_that_looks_back_gets_runs_of_scenes() -> None:
    runs = chosen_runs(1000, 120, 10, 16)
    assert len(runs) == 3
    for run in runs:
        np.testing.assert_array_equal(np.diff(run), 1)
        assert len(run) == 40


def test_broken_frames_are_left_out_and_an_unreadable_drive_is_refused() -> None:
    whole = toy_drive(9)
    frames = [whole.frame(place) for place in range(9)]
    broken = Problem(ProblemKind.CORRUPT, "000004", "toy")
    campaign = toy_campaign(drive_from_arrays([*frames[:4], broken, *frames[5:]]))
    with evaluating(campaign) as evaluator:
        assert len(evaluator.scenes) == 8
        assert 4 not in evaluator.scenes.indices
        assert evaluator.scenes.problems == (broken,)
        assert evaluator.look([STYLE], blank_goal(evaluator))[0].seen == 8
    silent = toy_subject()
    silent._device_scale.fill_(float("nan"))
    with pytest.raises(BadDriveError, match="no scene that can be searched with"), evaluating(toy_campaign(whole, silent)):
        pass


def test_brightness_and_colour_are_those_of_the_frames() -> None:
    campaign = toy_campaign(toy_drive(6))
    with evaluating(campaign) as evaluator:
        looked = evaluator.look([STYLE], blank_goal(evaluator, measured=True))[0]
        made = campaign.weather.translate(campaign.drive.read(range(6)).frames, torch.from_numpy(STYLE).float()).astype(float)
        assert looked.measures[0] == pytest.approx(made.mean() / 255.0, abs=1e-3)
        assert looked.measures[1] == pytest.approx((made.max(-1) - made.min(-1)).mean() / 255.0, abs=1e-3)


def test_a_condition_survives_being_written() -> None:
    condition = Condition(
        "es", 1, 2, (0.5, -1.0), 0.4, 0.3, 0.1, 5, 20, 1, (Try(0.2, 9, True), Try(None, 3, False), Try(0.4, 9, True)), 21, 0.5
    )
    assert Condition.from_json(condition.to_json()) == condition
    assert (condition.dropped, condition.best_after, condition.farthest) == (1, (0.2, 0.2, 0.4), 1.0)


def test_a_style_is_looked_at_like_any_other_whatever_the_decoder_batch() -> None:
    weights = toy_weights()
    campaign = toy_campaign(toy_drive(20))
    small = Weather(CARD, weights)
    small.decoder.batch_size = 3
    results: list[Looked] = []
    for weather in (campaign.weather, small):
        with evaluating(Tactic(campaign.settings, campaign.subject, campaign.drive, weather)) as evaluator:
            results.append(evaluator.look([STYLE], blank_goal(evaluator))[0])
    assert results[0].value == pytest.approx(results[1].value, abs=1e-3)
