"""The search for a repair: what it chooses, what it says, and that it goes on after it was killed."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from errno import ENOSPC
from pathlib import Path

import numpy as np
import pytest
import torch
from repair_toys import WIDE, Garage, run_of, trained, trained_subject, write_drive

from skidpad.core import files
from skidpad.core.errors import BadDriveError, BadParametersError, BadSubjectError, UnknownNameError
from skidpad.drives.opening import drive_from_arrays, open_drive
from skidpad.oracles.relations import SteersAlike
from skidpad.page.model import Tone
from skidpad.repairs.examples import Change
from skidpad.repairs.families import Families, families
from skidpad.repairs.lessons import Validation
from skidpad.repairs.outcome import Outcome, check_folder, search, written
from skidpad.repairs.page import repair_page, tradeoff_chart
from skidpad.repairs.pairs import Clip, Pairs, render
from skidpad.repairs.plan import CLEAN, SEEN, UNSEEN_SET, SearchSettings, Task
from skidpad.repairs.search import Repairs
from skidpad.repairs.source import task_of
from skidpad.stimuli.pictures import stimuli
from skidpad.subjects.loading import load_subject
from skidpad.subjects.network_subject import NetworkSubject
from skidpad.subjects.training.data import Labelled
from skidpad.subjects.training.fitting import copied

QUICK = SearchSettings(
    families=("gamma", "black-level"),
    unseen=("atmosphere", "contrast-loss"),
    judged=("gamma", "contrast-loss", "haze"),
    weathers=(),
    ways=("random", "consistency"),
    strengths=(3.0,),
    pictures=400,
    judged_frames=4,
    epochs=10,
    patience=10,
    most_cost=1.0,
    learning_rate=2e-3,
    batch_size=16,
    mirror=False,
    seeds=2,
    referee=False,
)


def test_the_response_is_the_slope_of_the_answers_on_the_labels() -> None:
    rng = np.random.default_rng(0)
    labels = rng.normal(0.1, 0.3, 40)
    clean = Labelled(torch.zeros((40, 2, 2, 3), dtype=torch.uint8), labels)
    validation = Validation(clean, Pairs(clean, clean, np.zeros(40, int), np.arange(40), np.ones(40, bool), ()))
    answers = np.concatenate([0.5 * labels + rng.normal(0.0, 0.1, 40), rng.normal(0.0, 9.0, 7)])
    assert validation.response(answers) == pytest.approx(np.polyfit(labels, answers[:40], 1)[0])
    assert validation.response(np.full(47, 0.3)) == pytest.approx(0.0)
    alike = replace(validation, clean=Labelled(clean.pictures, np.full(40, 0.2)))
    assert np.isnan(alike.response(answers))


def test_families_are_divided_by_group_and_none_is_on_both_sides() -> None:
    divided = Families.of((), ("atmosphere", "defocus"))
    assert {"fog", "haze", "defocus"} <= set(divided.unseen)
    assert "motion-blur" in divided.seen
    assert not set(divided.seen) & set(divided.unseen)
    assert not {"late-frames", "frozen-frames"} & {*divided.seen, *divided.unseen}
    with pytest.raises(UnknownNameError, match="atmosphere"):
        Families.of((), ("atmosfere",))
    with pytest.raises(BadParametersError, match="holds back every condition"):
        Families.of(("fog",), ("atmosphere",))


def test_what_is_drawn_is_of_seen_families_and_can_be_applied() -> None:
    divided = Families.of((), ("atmosphere",))
    rng = np.random.default_rng(0)
    frames = np.full((1, 24, 32, 3), 90, np.uint8)
    made = stimuli()
    drawn = [divided.draw(rng) for _ in range(60)]
    assert {step.stimulus for recipe in drawn for step in recipe.steps} <= set(divided.seen)
    assert {len(recipe.steps) for recipe in drawn} == {1, 2}
    for recipe in drawn:
        assert recipe.apply(frames, made).shape == frames.shape


def test_a_learned_weather_judges_under_all_its_looks_on_many_short_runs(task: Task, tmp_path: Path) -> None:
    """As many pictures as under four conditions, whatever the number of looks."""
    repairs = Repairs(task, tmp_path, replace(QUICK, weathers=("night",)))
    recipes = repairs.judged_recipes["weather:night"]
    assert [recipe.steps[0].params.whole("style") for recipe in recipes] == [style for style in range(10) for _ in range(4)]
    pairs = repairs.judged_set("weather:night", recipes)
    counts = np.bincount(pairs.recipe_of, minlength=40)
    assert set(counts.tolist()) == {2}  # 4 frames for each severity, 16 times as many for a weather, on 40 runs
    for look in range(0, 40, 4):
        frames = pairs.frame_of[(pairs.recipe_of >= look) & (pairs.recipe_of < look + 4)].tolist()
        assert len(set(frames)) == len(frames) == 8


def test_a_learned_weather_can_be_trained_on_and_then_does_not_judge(task: Task, tmp_path: Path) -> None:
    """Half of the draws begin with it, in many styles; with no weather, draws are as they were."""
    divided, plain = Families.of((), (), ("dusk",)), Families.of((), ())
    rng = np.random.default_rng(0)
    drawn = [divided.draw(rng) for _ in range(200)]
    first = [recipe.steps[0] for recipe in drawn if recipe.steps[0].stimulus == "weather:dusk"]
    assert 70 < len(first) < 130
    assert len({step.params.whole("style") for step in first}) > 60
    assert {len(recipe.steps) for recipe in drawn if recipe.steps[0] in first} == {1, 2}
    assert all(step.stimulus != "weather:dusk" for recipe in drawn for step in recipe.steps[1:])
    assert "dusk" in plain.seen
    held_back = Families.of((), ("light",), ("dusk",))
    assert "dusk" not in (*held_back.seen, *held_back.unseen), "a computed dusk is not unseen beside a learned one"
    assert "low-sun" in held_back.unseen
    assert plain.draw(np.random.default_rng(3)).steps[1:] == divided.draw(np.random.default_rng(3)).steps[1:]
    repairs = Repairs(task, tmp_path, replace(QUICK, train_weathers=("dusk",), pictures=64))
    names = [recipe.steps[0].stimulus for recipe in (*repairs.random.recipes, *repairs.validation.pairs.recipes)]
    assert "weather:dusk" in names
    assert not [name for name in repairs.judged_recipes if "dusk" in name]
    with pytest.raises(BadParametersError, match="cannot judge a repair; got dusk as both"):
        replace(QUICK, weathers=("night", "dusk"), train_weathers=("dusk",))


def test_every_family_has_a_ladder_of_severities() -> None:
    divided = Families.of((), ())
    made = stimuli()
    frames = np.full((1, 24, 32, 3), 90, np.uint8)
    for name in families():
        ladder = divided.ladder(name)
        assert len(ladder) >= 4
        assert ladder[-1].apply(frames, made).shape == frames.shape


def test_a_moved_camera_moves_the_label_and_cuts_the_original(garage: Garage, tmp_path: Path) -> None:
    divided = Families.of((), ())
    yaw = divided.ladder("camera-yaw")[3]
    drive = open_drive(garage.train_text)
    spec = garage.subject.description.input
    pairs = render(drive, [Clip(np.arange(5), yaw)], spec, stimuli(), tmp_path, "moved", lambda *_: None)
    assert np.allclose(pairs.mutants.labels_rad, yaw.moved_rad(drive.steering_rad[:5], stimuli()))
    assert np.abs(pairs.mutants.labels_rad - drive.steering_rad[:5]).min() > 0.05
    assert np.allclose(pairs.originals.labels_rad, drive.steering_rad[:5])
    assert np.allclose(pairs.expected_rad(drive.steering_rad[:5], stimuli()), pairs.mutants.labels_rad)


@pytest.fixture(scope="module")
def task(garage: Garage, tmp_path_factory: pytest.TempPathFactory) -> Task:
    folder = tmp_path_factory.mktemp("long")
    drive = write_drive(folder / "drive", 240)
    subject = trained_subject(garage.train_drive, folder / "wide", architecture=WIDE)
    run = run_of(folder / "wide.toml", drive, folder / "run", ("gamma(gamma=2)", "black-level(share=0.4)"))
    return replace(task_of(run, subject, referee=False), relation=SteersAlike(within_deg=6.0))


@pytest.fixture(scope="module")
def outcome(task: Task, tmp_path_factory: pytest.TempPathFactory) -> tuple[Outcome, Path]:
    out = tmp_path_factory.mktemp("repair") / "out"
    found = search(task, out, QUICK)
    written(found, out)
    return found, out


def test_a_planted_fault_is_mended_also_under_families_that_no_training_saw(outcome: tuple[Outcome, Path]) -> None:
    found, _ = outcome
    assert found.recommended
    for name in (SEEN, UNSEEN_SET):
        row = found.row(name)
        assert row is not None
        assert row.cases > 20
        assert row.before > 0.2  # the toy was trained on clear frames alone
        assert row.repaired.estimate < 0.7 * row.before
        assert row.change_beyond_control.estimate < -0.3
    clean = found.row(CLEAN)
    assert clean is not None
    assert clean.repaired.estimate < 0.1  # a third of what the labels vary by
    assert not set(found.seen) & set(found.unseen)
    assert "fog" in found.unseen
    assert found.verdict.startswith("Recommended: ")
    assert found.is_affordable
    assert repair_page(found).tone is Tone.CALM
    same = tuple(replace(row, before=row.repaired.estimate) for row in found.rows)
    assert repair_page(replace(found, rows=same)).tone is Tone.UNKNOWN
    cheap = replace(found, settings=replace(found.settings, most_cost=0.02))
    dear = tuple(replace(row, rmse_before_rad=row.rmse_repaired_rad.estimate / 1.5) for row in cheap.rows)
    assert "50.0\N{NO-BREAK SPACE}% more, though at most 2.0\N{NO-BREAK SPACE}% was to be paid" in replace(cheap, rows=dear).verdict
    assert repair_page(replace(cheap, rows=dear)).tone is Tone.UNKNOWN
    assert replace(found, rows=same).verdict.startswith(f"Not confirmed: {found.recommended} is the best on the stretch that chooses, but")
    assert "it costs more clean accuracy than it may." in replace(cheap, rows=dear).verdict
    assert found.relation == "steers within 6 deg of its answer on the original"
    assert found.validated > 0


def test_the_page_shows_what_was_mended_and_what_was_not(outcome: tuple[Outcome, Path], task: Task) -> None:
    found, out = outcome
    changes = [one.change for one in found.examples]
    assert 1 <= changes.count(Change.MENDED) <= 4
    assert max(changes.count(Change.STILL), changes.count(Change.BROKEN)) <= 2
    within = task.relation.within_deg
    for one in found.examples:
        assert (abs(one.before_deg - one.right_deg) >= within) is (one.change is not Change.BROKEN)
        assert one.original.shape == one.mutant.shape
        assert (one.original != one.mutant).any()
    assert found.examples[0].pictures.startswith("unseen: ")
    page = (out / "report.html").read_text()
    assert "Before and after, on frames that no training saw" in page
    assert page.count("data:image/jpeg") == 2 * len(found.examples)
    assert 'class="arrow repaired"' in page
    assert page.index("tradeoff") < page.index('class="cards"')
    assert "examples" not in json.loads((out / "repair.json").read_text())


def test_everything_is_kept_and_the_recommended_one_can_be_tested(task: Task, outcome: tuple[Outcome, Path]) -> None:
    found, out = outcome
    stored = json.loads((out / "repair.json").read_text())
    assert stored["recommended"] == found.recommended
    assert len(list((out / "candidates").glob("*.safetensors"))) >= 1 + 2 + 1
    assert "tradeoff" in (out / "report.html").read_text()
    again = load_subject(out / "recommended.toml")
    assert again.sha256 != task.subject.sha256
    assert (out / "recommended.safetensors").read_bytes() == (out / "candidates" / f"{found.recommended}.safetensors").read_bytes()
    assert not list((out / "work").glob("*.checkpoint.pt"))


def test_networks_at_one_place_share_a_text_in_the_chart() -> None:
    before, control, mix, looks = (
        trained("before", 0.1, 0.5),
        trained("control", 0.1, 0.5),
        trained("mix", 0.1, 0.5),
        trained("looks", 0.09, 0.2),
    )
    found = Outcome("toy", "", "drive", "", QUICK, (), (), (1, 1, 1), before, (control, mix, looks), looks.candidate.name, (), ())
    drawn = tradeoff_chart(found).svg
    assert ">before, control x1, mix x1<" in drawn
    assert ">looks x1<" in drawn


def kill_at(words: str) -> Callable[..., None]:
    def progress(_done: int, _total: int, note: str = "") -> None:
        if note.startswith(words):
            raise KeyboardInterrupt

    return progress


@pytest.mark.parametrize(
    "killed",
    [
        "rendering random",
        "consistency-3-seed0, epoch 1",
        *(pytest.param(each, marks=pytest.mark.slow) for each in ("random-3-seed0, epoch 3", "control-3-seed1")),
    ],
)
def test_killed_anywhere_it_goes_on_to_the_same_network(task: Task, outcome: tuple[Outcome, Path], tmp_path: Path, killed: str) -> None:
    found, whole = outcome
    out = tmp_path / "out"
    with pytest.raises(KeyboardInterrupt):
        search(task, out, QUICK, kill_at(killed))
    again = search(task, out, QUICK)
    assert again == found
    assert (out / "recommended.safetensors").read_bytes() == (whole / "recommended.safetensors").read_bytes()


def test_a_folder_of_another_repair_is_refused(task: Task, outcome: tuple[Outcome, Path], tmp_path: Path) -> None:
    with pytest.raises(BadSubjectError, match=r"holds a finished repair: its report is .*report.html"):
        search(task, outcome[1], QUICK)
    with pytest.raises(BadSubjectError, match=r"finished repair of something else \(seed was 0 and is 5\)"):
        search(task, outcome[1], replace(QUICK, seed=5))
    with pytest.raises(KeyboardInterrupt):
        search(task, tmp_path / "out", QUICK, kill_at("rendering"))
    others = {
        "seed was 0 and is 5": (task, replace(QUICK, seed=5)),
        "the run or the referee differs": (replace(task, findings=task.findings[1:]), QUICK),  # another run over the same drive
        "the relation differs": (replace(task, relation=SteersAlike(within_deg=7.0)), QUICK),
        "the loss or the training step differs": (replace(task, loss=torch.nn.functional.l1_loss), QUICK),
    }
    for words, (other, settings) in others.items():
        with pytest.raises(BadSubjectError, match=rf"begun otherwise \({words}\); choose another --out"):
            check_folder(other, tmp_path / "out", settings)


def test_a_drive_that_is_too_short_says_how_long_it_must_be(task: Task, tmp_path: Path) -> None:
    drive = task.drive
    with pytest.raises(
        BadDriveError, match="to validate on, and a repair needs 4 there; use a longer drive, of about 40 frames instead of 20"
    ):
        Repairs(replace(task, drive=drive.select(range(20))), tmp_path, QUICK)


@pytest.mark.parametrize(
    "given", [{"families": ("gama",)}, {"judged": ("late-frames",)}, {"ways": ("rondom",)}, {"train_weathers": ("dsk",)}]
)
def test_a_name_that_is_none_is_a_sentence(task: Task, tmp_path: Path, given: dict[str, tuple[str, ...]]) -> None:
    with pytest.raises(UnknownNameError):
        search(task, tmp_path / "out", replace(QUICK, **given))  # type: ignore[arg-type] # texts for fields of texts
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(("place", "words"), [("file", "is a file"), ("file/out", "cannot write")])
def test_a_place_that_is_no_folder_is_a_sentence(task: Task, tmp_path: Path, place: str, words: str) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(BadSubjectError, match=words):
        search(task, tmp_path / place, QUICK)


def test_a_full_disk_is_a_sentence(task: Task, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    room, write = iter(range(3)), files.write_atomically

    def written(path: Path, data: bytes) -> None:
        if next(room, None) is None:
            raise OSError(ENOSPC, "No space left on device")
        write(path, data)

    monkeypatch.setattr(files, "write_atomically", written)
    with pytest.raises(BadSubjectError, match="No space left on device; free some space and run the same command again"):
        search(task, tmp_path / "out", QUICK)


def test_a_run_without_findings_is_said_and_repaired_without_them(task: Task, tmp_path: Path) -> None:
    bare = replace(task, findings=())
    settings = replace(QUICK, ways=("findings", "random"), epochs=1, seeds=1)
    found = search(bare, tmp_path / "out", settings)
    assert any("no finding of the run" in note for note in found.notes)
    assert {each.candidate.way for each in found.candidates} == {"control", "random"}
    with pytest.raises(BadParametersError, match="nothing is left to train on"):
        search(bare, tmp_path / "alone", replace(settings, ways=("findings",)))


def test_a_network_that_learns_nothing_is_said_to(task: Task, tmp_path: Path) -> None:
    settings = replace(QUICK, learning_rate=1e-12, ways=("random",), epochs=1, seeds=1)
    found = search(task, tmp_path / "out", settings)
    assert found.recommended == ""
    assert "No repair helped" in found.verdict
    assert "More training" not in found.verdict
    assert found.rows == ()
    control = replace(trained("control", found.before.clean_rmse_rad, 0.5 * found.before.failure_rate), response=found.before.response)
    helped = replace(found, candidates=(control,)).verdict
    assert f"More training without mutants may help: candidates/{control.candidate.name}.toml fails on" in helped
    for worse in (replace(control, clean_rmse_rad=9.0), replace(control, response=0.5 * control.response)):
        assert "More training" not in replace(found, candidates=(worse,)).verdict
    assert not (tmp_path / "out" / "recommended.toml").exists()


@pytest.mark.parametrize(("factor", "word"), [(180 / np.pi, "unit=deg"), (np.pi / 180, "unit=rad"), (-1.0, "sign=-1")])
def test_labels_in_a_wrong_unit_are_a_sentence(task: Task, tmp_path: Path, factor: float, word: str) -> None:
    whole = task.drive
    frames = whole.read(range(len(whole))).frames
    drive = drive_from_arrays(frames, whole.steering_rad * factor)
    with pytest.raises(BadDriveError, match=word):
        search(replace(task, drive=drive), tmp_path / "out", QUICK)


def test_labels_that_the_answers_hardly_follow_are_noted(task: Task, tmp_path: Path) -> None:
    whole = task.drive
    frames, shuffled = whole.read(range(len(whole))).frames, np.random.default_rng(0).permutation(whole.steering_rad)
    assert "hardly follow the labels" in Repairs(replace(task, drive=drive_from_arrays(frames, shuffled)), tmp_path, QUICK).notes[0]
    assert Repairs(task, tmp_path, QUICK).notes == []


def test_a_network_that_answers_the_same_to_everything_is_noted(task: Task, tmp_path: Path) -> None:
    module = copied(task.subject.module)
    with torch.no_grad():
        for weights in module.parameters():
            weights.zero_()
    dead = NetworkSubject.of_module(module, task.subject.description)
    notes = Repairs(replace(task, subject=dead), tmp_path, QUICK).notes
    assert "answers 0 rad to nearly every unchanged frame" in notes[0]


def test_labels_that_are_all_the_same_are_a_sentence(task: Task, tmp_path: Path) -> None:
    whole = task.drive
    drive = drive_from_arrays(whole.read(range(len(whole))).frames, np.full(len(whole), 0.1))
    with pytest.raises(BadDriveError, match="nothing to learn"):
        search(replace(task, drive=drive), tmp_path / "out", QUICK)
