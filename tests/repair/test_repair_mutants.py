from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import torch
from repair_toys import SPEC, Garage, run_of, write_drive

from skidpad.core.errors import BadRunError
from skidpad.core.images import FloatArray, Frames
from skidpad.core.stimuli import Params, Recipe, Step
from skidpad.drives.drive import Drive, FrameBatch
from skidpad.drives.opening import open_drive
from skidpad.kinds.pictures.campaign import DeepTest
from skidpad.repairs import mutants
from skidpad.repairs.mutants import campaign_of, choose_cases, gather
from skidpad.repairs.settings import RepairSettings
from skidpad.runs.folder import Run
from skidpad.runs.manifest import Manifest
from skidpad.runs.records import ShardResult, build_records
from skidpad.stimuli.pictures import stimuli
from skidpad.subjects.preprocess import Preprocessor

FOG = Recipe.of("deeptest-fog", Params(density=0.3, seed=0))
RAIN = Recipe.of("deeptest-rain", Params(intensity=0.3, seed=0))
BOTH = Recipe((*FOG.steps, *RAIN.steps))
MIXED = Recipe((*FOG.steps, Step("blur", Params(kind="median", size=3))))


def made_up(path: Path, phases: dict[str, list[tuple[int, Recipe, float]]]) -> Run:
    run = Run.create(path, {"campaign": "deeptest"}, Manifest.collect(device="cpu", seed=0, hashes={}, command=()))
    for phase, cases in phases.items():
        count = len(cases)
        table = build_records(
            frame_index=[frame for frame, _, _ in cases],
            frame_ids=[f"f{frame}" for frame, _, _ in cases],
            recipes=[recipe for _, recipe, _ in cases],
            label=np.array([label for _, _, label in cases]),
            original=np.zeros(count),
            mutant=np.zeros(count),
            excess=np.zeros(count),
            violated=np.zeros(count, bool),
            active_neurons=np.zeros(count, np.int64),
        )
        run.commit(ShardResult(phase, 0, table))
    return run


def test_only_mutants_of_the_chosen_transforms_with_a_label_are_taken_each_once(tmp_path: Path) -> None:
    run = made_up(
        tmp_path / "run",
        {
            "originals": [(0, Recipe(), 0.1), (1, Recipe(), 0.1)],
            "grid": [(1, FOG, 0.1), (0, FOG, 0.2), (0, RAIN, float("nan")), (0, MIXED, 0.2)],
            "greedy": [(0, BOTH, 0.2), (0, FOG, 0.2)],
        },
    )
    cases = choose_cases(run, RepairSettings())
    found = [(frame, str(cases.recipes[place])) for frame, place in zip(cases.frame_index.tolist(), cases.recipe_of.tolist(), strict=True)]
    assert sorted(found) == sorted([(0, str(FOG)), (0, str(BOTH)), (1, str(FOG))])
    assert cases.frame_index.tolist() == sorted(cases.frame_index.tolist())
    assert (cases.available, cases.unlabelled) == (3, 1)


def test_a_run_without_such_mutants_names_those_it_has(tmp_path: Path) -> None:
    run = made_up(tmp_path / "run", {"grid": [(0, RAIN, 0.1)]})
    with pytest.raises(BadRunError, match=r"no mutant of deeptest-fog; it has deeptest-rain"):
        choose_cases(run, RepairSettings(transforms=("deeptest-fog",)))


def test_a_run_without_labels_is_refused(tmp_path: Path) -> None:
    run = made_up(tmp_path / "run", {"grid": [(0, RAIN, float("nan"))]})
    with pytest.raises(BadRunError, match=r"none of the 1 mutants .* has a label"):
        choose_cases(run, RepairSettings())


def test_the_cap_draws_by_the_seed_and_from_every_part(garage: Garage) -> None:
    capped = [choose_cases(garage.run, RepairSettings(max_mutants=100, seed=seed)) for seed in (0, 0, 1)]
    pairs = [list(zip(cases.frame_index.tolist(), cases.recipe_of.tolist(), strict=True)) for cases in capped]
    assert len(pairs[0]) == 100
    assert pairs[0] == pairs[1] != pairs[2]
    assert capped[0].available == 50 * 20
    assert len(set(capped[0].frame_index.tolist())) > 30
    assert {recipe.name for recipe in capped[0].recipes} == {"deeptest-fog", "deeptest-rain"}


def test_the_pool_holds_the_pixels_that_the_network_saw(garage: Garage) -> None:
    campaign = campaign_of(garage.run, garage.subject, "cpu")
    pool = gather(campaign, garage.run, RepairSettings(max_mutants=60))
    preprocess, transforms = Preprocessor(SPEC, torch.device("cpu")), stimuli()
    drive = open_drive(garage.test_text)
    frames = {frame_id: drive.read([place]).frames for place, frame_id in enumerate(drive.frame_ids)}
    for place, recipe in enumerate(pool.recipe_of.tolist()):
        frame_id = pool.frame_ids[pool.frame_of[place]]
        picture = pool.cases.recipes[recipe].apply(frames[frame_id], transforms)
        assert torch.equal(pool.mutants.pictures[place], preprocess.shrink(picture)[0])
        assert pool.mutants.labels_rad[place] == drive.steering_rad[drive.frame_ids.index(frame_id)]
    for place, frame_id in enumerate(pool.frame_ids):
        assert torch.equal(pool.originals.pictures[place], preprocess.shrink(frames[frame_id])[0])
    assert pool.mutants.pictures.dtype == torch.uint8
    assert pool.mutants.pictures.shape[1:] == (8, 16, 1)
    assert len(pool.stimuli) == 60


def test_frames_are_read_a_block_at_a_time_and_each_once(garage: Garage, monkeypatch: pytest.MonkeyPatch) -> None:
    campaign = campaign_of(garage.run, garage.subject, "cpu")
    whole = gather(campaign, garage.run, RepairSettings())
    read: list[list[int]] = []
    rendered: list[int] = []

    class Watched(DeepTest):
        def mutate(self, frames: Frames, recipe: Recipe, times_s: FloatArray | None = None) -> Frames:
            rendered.append(len(frames))
            return super().mutate(frames, recipe, times_s)

    def watched(drive: Drive, indices: Sequence[int]) -> FrameBatch:
        read.append(list(indices))
        return plain(drive, indices)

    plain = Drive.read
    monkeypatch.setattr(Drive, "read", watched)
    monkeypatch.setattr(mutants, "_BLOCK_FRAMES", 8)
    blockwise = gather(Watched(campaign.settings, campaign.subject, campaign.drive, campaign.stimuli), garage.run, RepairSettings())
    assert sorted(frame for block in read for frame in block) == list(range(50))
    assert max(len(block) for block in read) == max(rendered) == 8  # what is held at full size does not grow with the mutants
    assert torch.equal(blockwise.mutants.pictures, whole.mutants.pictures)


def test_a_drive_that_changed_since_the_run_is_refused(garage: Garage, tmp_path: Path) -> None:
    text = write_drive(tmp_path / "drive", 4)
    run = run_of(garage.toml, text, tmp_path / "run", ("deeptest-fog",))
    csv = tmp_path / "drive" / "labels.csv"
    csv.write_text(csv.read_text().replace("f0001.png,", "f0001.png,1"))
    with pytest.raises(BadRunError, match="has changed since the run"):
        campaign_of(run, garage.subject, "cpu")


def test_a_run_of_another_campaign_is_refused(garage: Garage, tmp_path: Path) -> None:
    run = Run.create(tmp_path / "run", {"campaign": "duel"}, Manifest.collect(device="cpu", seed=0, hashes={}, command=()))
    with pytest.raises(BadRunError, match="holds a campaign 'duel'"):
        campaign_of(run, garage.subject, "cpu")


def test_a_run_that_judges_another_output_is_refused(garage: Garage, tmp_path: Path) -> None:
    config = {**garage.run.config, "output": "brake"}
    run = Run.create(tmp_path / "run", config, garage.run.manifest)
    with pytest.raises(BadRunError, match="judges the output 'brake'; a repair trains on labels"):
        campaign_of(run, garage.subject, "cpu")
