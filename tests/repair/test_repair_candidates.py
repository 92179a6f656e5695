"""Several learning rates as candidates, the choice by a stretch and its mirror image, and pictures that several processes render."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from repair_toys import SPEC, WIDE, Garage, trained_subject, write_drive
from torch import nn
from typer.testing import CliRunner

import skidpad as sp
from skidpad.cli.main import app
from skidpad.core.errors import BadParametersError, BadSubjectError
from skidpad.drives.opening import drive_from_arrays, open_drive
from skidpad.oracles.relations import SteersAlike
from skidpad.repairs.choice import chosen
from skidpad.repairs.outcome import Outcome, check_folder, search
from skidpad.repairs.page import candidate_table, repair_page
from skidpad.repairs.plan import CONTROL, Candidate, SearchSettings, Task, Trained
from skidpad.repairs.search import Repairs
from skidpad.subjects.description import Format
from skidpad.subjects.inputs import History, HistoryKind
from skidpad.subjects.network_subject import NetworkSubject
from skidpad.subjects.training.fitting import answers_rad

SETTINGS = SearchSettings(
    families=("gamma",),
    unseen=(),
    weathers=(),
    ways=("random",),
    strengths=(1.0, 2.0),
    pictures=64,
    judged_frames=1,
    epochs=3,
    seeds=1,
    referee=False,
    most_cost=1.0,
    learning_rates=(3e-3, 1e-3),
)


@pytest.fixture
def task(garage: Garage) -> Task:
    return Task(garage.subject, garage.train_drive, SteersAlike(within_deg=6.0))


def test_each_way_and_strength_is_tried_with_each_learning_rate() -> None:
    found = SETTINGS.candidates(("random", "mix"))
    assert len({each.name for each in found}) == len(found) == 8
    assert {each.way for each in found} == {"random", "mix"}
    assert [SETTINGS.training(each).learning_rate for each in found] == 4 * [3e-3, 1e-3]
    assert found[0].control == Candidate(CONTROL, 1.0, 0, 3e-3)


def test_one_learning_rate_leaves_candidates_as_they_were_called() -> None:
    alone = replace(SETTINGS, learning_rates=(), learning_rate=5e-4).candidates(("random",))
    assert [each.name for each in alone] == ["random-1-seed0", "random-2-seed0"]
    assert SETTINGS.training(alone[0]).learning_rate == SETTINGS.learning_rate
    stored: dict[str, Any] = {"way": "random", "strength": 1.0, "seed": 0}  # as records were written before candidates had a rate
    assert Candidate(**stored) == alone[0]


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"learning_rates": (1e-3, 0.0)}, "above 0"),
        ({"learning_rates": (1e-3, 3e-4, 0.001)}, "name each way, strength and learning rate once"),
        ({"strengths": (3.0, 3.0)}, "name each way, strength and learning rate once"),
        ({"mirror_choice": True, "mirror": False}, "mirror is off; turn mirror on, or mirror_choice off"),
        ({"looks_each": 0.0}, "^looks_each must be above 0; got 0.0$"),
        ({"looks_each": -1}, "^looks_each must be above 0; got -1.0$"),
        ({"looks_each": float("nan")}, "^looks_each must be a finite number; got nan$"),
        ({"looks_each": float("inf")}, "^looks_each must be a finite number; got inf$"),
        ({"repaints": 1.5}, "^repaints must be at least 0 and at most 1; got 1.5$"),
        ({"repaints": -0.1}, "^repaints must be at least 0 and at most 1; got -0.1$"),
        ({"repaints": float("nan")}, "^repaints must be a finite number; got nan$"),
    ],
)
def test_settings_that_cannot_be_meant_are_a_sentence(given: dict[str, Any], words: str) -> None:
    with pytest.raises(BadParametersError, match=words):
        replace(SETTINGS, **given)


def at_rate(way: str, rate: float | None, clean: float, failures: float) -> Trained:
    return Trained(Candidate(way, 1.0, 0, rate), clean, failures, failures, 3, 5, "")


def test_a_repair_beats_the_control_of_every_learning_rate_in_any_order() -> None:
    before, slow = at_rate("before", None, 0.1, 0.5), at_rate("random", 1e-4, 0.1, 0.3)
    controls = [at_rate(CONTROL, 1e-3, 0.1, 0.2), at_rate(CONTROL, 1e-4, 0.1, 0.5)]
    for ordered in (controls, controls[::-1]):
        assert chosen(before, ordered, [slow], 0.02) is None
        assert chosen(before, ordered, [replace(slow, failure_rate=0.1)], 0.02) is not None


def test_the_clean_error_is_held_against_the_control_of_the_same_learning_rate() -> None:
    before = at_rate("before", None, 0.1, 0.5)
    controls = [at_rate(CONTROL, 1e-2, 0.2, 0.5), at_rate(CONTROL, 1e-4, 0.1, 0.5)]
    fast, slow = (at_rate("random", rate, 0.15, 0.3) for rate in (1e-2, 1e-4))
    assert chosen(before, controls, [slow], 0.02) is None
    assert chosen(before, controls, [fast, slow], 0.02) == fast


@pytest.fixture(scope="module")
def longer(garage: Garage, tmp_path_factory: pytest.TempPathFactory) -> tuple[Task, SearchSettings]:
    """A network that a search can repair, at one of two learning rates."""
    folder = tmp_path_factory.mktemp("longer")
    drive = open_drive(write_drive(folder / "drive", 160))
    subject = trained_subject(garage.train_drive, folder / "wide", architecture=WIDE)
    settings = replace(
        SETTINGS,
        families=("gamma", "black-level"),
        strengths=(3.0,),
        pictures=240,
        epochs=6,
        batch_size=16,
        learning_rates=(4e-3, 1e-5),
        mirror_choice=True,
        most_cost=2.0,
    )
    return Task(subject, drive, SteersAlike(within_deg=6.0)), settings


@pytest.fixture(scope="module")
def searched(longer: tuple[Task, SearchSettings], tmp_path_factory: pytest.TempPathFactory) -> tuple[Outcome, Path]:
    out = tmp_path_factory.mktemp("searched") / "out"
    return search(longer[0], out, longer[1]), out


def test_a_search_trains_with_each_rate_beside_a_control_of_the_same(searched: tuple[Outcome, Path]) -> None:
    outcome, out = searched
    assert [each.candidate.name for each in outcome.candidates] == [
        "control-3-rate0.004-seed0",
        "control-3-rate1e-05-seed0",
        "random-3-rate0.004-seed0",
        "random-3-rate1e-05-seed0",
    ]
    assert all((out / each.weights).is_file() for each in outcome.candidates)
    _, _, fast, slow = outcome.candidates
    assert outcome.recommended == fast.candidate.name
    assert fast.failure_rate < slow.failure_rate
    assert json.loads(outcome.to_json())["settings"]["learning_rates"] == [4e-3, 1e-5]
    assert [row[0] for row in candidate_table(outcome).rows][3] == "random x3 at rate 0.004 (recommended)"
    assert any("mirror image" in note for note in repair_page(outcome).notes)


@pytest.mark.parametrize("killed", ["random-3-rate1e-05-seed0, epoch 5", "control-3-rate0.004-seed0, epoch 2"])
def test_killed_at_any_rate_it_goes_on_to_the_same_network(
    longer: tuple[Task, SearchSettings], searched: tuple[Outcome, Path], tmp_path: Path, killed: str
) -> None:
    def kill(_done: int, _total: int, note: str = "") -> None:
        if note.startswith(killed):
            raise KeyboardInterrupt

    (task, settings), (outcome, whole) = longer, searched
    with pytest.raises(KeyboardInterrupt):
        search(task, tmp_path / "out", settings, kill)
    assert search(task, tmp_path / "out", settings) == outcome
    for each in outcome.candidates:
        assert (tmp_path / "out" / each.weights).read_bytes() == (whole / each.weights).read_bytes()


def test_a_repair_that_was_begun_before_there_was_a_setting_goes_on_with_its_default(task: Task, tmp_path: Path) -> None:
    alone = replace(SETTINGS, learning_rates=())
    check_folder(task, tmp_path, alone)
    begun = json.loads((tmp_path / "begun.json").read_text())
    for name in ("learning_rates", "mirror_choice"):
        del begun["settings"][name]
    (tmp_path / "work").mkdir()
    (tmp_path / "begun.json").write_text(json.dumps(begun))
    others = {
        "learning_rates was none and is 0.003,0.001": SETTINGS,
        "mirror_choice was off and is on": replace(alone, mirror_choice=True),
        "epochs was 3 and is 4": replace(alone, epochs=4),
    }
    for words, other in others.items():
        with pytest.raises(BadSubjectError, match=rf"begun otherwise \({words}\)"):
            check_folder(task, tmp_path, other)
    check_folder(task, tmp_path, alone)
    assert json.loads((tmp_path / "begun.json").read_text())["settings"]["mirror_choice"] is False
    (tmp_path / "begun.json").write_text("{")
    with pytest.raises(BadSubjectError, match=r"begun.json cannot be read"):
        check_folder(task, tmp_path, alone)


@pytest.mark.parametrize("other", [{"repaints": 0.5}, {"looks_each": 1.0}])
def test_a_repair_with_other_looks_is_not_continued(task: Task, tmp_path: Path, other: dict[str, Any]) -> None:
    """Neither with the defaults, whatever they are by now, nor where a folder older than these settings names none."""
    begun_with = replace(SETTINGS, **other)
    check_folder(task, tmp_path, begun_with)
    (tmp_path / "work").mkdir()
    begun = json.loads((tmp_path / "begun.json").read_text())
    assert begun["settings"].items() >= {"repaints": begun_with.repaints, "looks_each": begun_with.looks_each}.items()
    ((name, value),) = other.items()
    with pytest.raises(BadSubjectError, match=rf"\({name} was {value:g} and is"):
        check_folder(task, tmp_path, SETTINGS)
    check_folder(task, tmp_path, begun_with)
    for name in ("repaints", "looks_each"):
        del begun["settings"][name]
    (tmp_path / "begun.json").write_text(json.dumps(begun | {"rules": 5}))  # the last rules without these settings
    for settings in (SETTINGS, begun_with):
        with pytest.raises(BadSubjectError, match="version of skidpad"):
            check_folder(task, tmp_path, settings)


class Looking(nn.Module):
    """Two stages: what is seen where in a picture, and a sum over a window to which each frame brings something else."""

    def __init__(self) -> None:
        super().__init__()
        rng = np.random.default_rng(2)
        self.places = nn.Parameter(torch.from_numpy(rng.normal(0.0, 0.02, (8 * 16, 1))).float())

    def features(self, inputs: torch.Tensor) -> torch.Tensor:
        return inputs.flatten(1) @ self.places

    def alone(self, codes: torch.Tensor) -> torch.Tensor:
        return codes

    def forward_windows(self, codes: torch.Tensor, windows: torch.Tensor) -> torch.Tensor:
        return (codes[windows] * torch.tensor([0.2, 0.3, 1.0])[:, None]).sum(1)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        rows = torch.arange(inputs.shape[0] * inputs.shape[1]).reshape(inputs.shape[:2])
        return self.forward_windows(self.features(inputs.flatten(0, 1)), rows)


def recurrent(garage: Garage) -> NetworkSubject:
    spec = replace(SPEC, history=History(3, HistoryKind.RECURRENT))
    return NetworkSubject.of_module(Looking(), replace(garage.subject.description, format=Format.EXPORT, architecture=None, input=spec))


@pytest.mark.parametrize("has_memory", [False, True])
def test_mirror_choice_measures_as_on_a_drive_that_is_mirrored_itself(garage: Garage, tmp_path: Path, has_memory: bool) -> None:
    drive = open_drive(write_drive(tmp_path / "drive", 90))
    frames = drive.read(range(len(drive))).frames
    turned = drive_from_arrays(np.ascontiguousarray(frames[:, :, ::-1]), -drive.steering_rad)
    subject = recurrent(garage) if has_memory else garage.subject
    task = Task(subject, drive, SteersAlike(within_deg=6.0))
    plain, both = (Repairs(task, tmp_path / "out", replace(SETTINGS, mirror_choice=each)) for each in (False, True))
    parts = [plain.validation.clean, Repairs(replace(task, drive=turned), tmp_path / "turned", SETTINGS).validation.clean]
    answers = [answers_rad(subject.module, subject.description, each) for each in parts]
    assert not np.allclose(answers[0], -answers[1], atol=1e-3), "a network that answers a mirror image mirrored shows no difference"
    said, labels = np.concatenate(answers), np.concatenate([each.labels_rad for each in parts])
    assert both.before.clean_rmse_rad == pytest.approx(np.sqrt(np.mean((said - labels) ** 2)), abs=1e-6)
    assert both.before.response == pytest.approx(np.polyfit(labels, said, 1)[0], abs=1e-6)
    assert both.before.clean_rmse_rad != pytest.approx(plain.before.clean_rmse_rad, rel=1e-3)
    assert both.before.failure_rate == plain.before.failure_rate, "mutants stay as they are"
    assert both.before.stressed_rms_rad == plain.before.stressed_rms_rad


def test_the_command_and_python_take_several_rates_and_mirror_choice(garage: Garage, tmp_path: Path) -> None:
    small = "--families gamma --unseen none --weathers none --ways random --strengths 1 --pictures 32 --judged-frames 1 --epochs 1"
    words = [*small.split(), "--seeds", "1", "--referee", "off", "--json", "--learning-rates", "3e-3,1e-3", "--mirror-choice"]
    answer = CliRunner().invoke(app, ["repair", str(garage.toml), str(garage.run.path), "--out", str(tmp_path / "command"), *words])
    assert answer.exit_code == 0, answer.output
    told = json.loads(answer.stdout)
    assert (told["settings"]["learning_rates"], told["settings"]["mirror_choice"]) == ([3e-3, 1e-3], True)
    alike = replace(SETTINGS, strengths=(1.0,), pictures=32, epochs=1, most_cost=0.02, learning_rates=(3e-3, 1e-3), mirror_choice=True)
    given = {name: getattr(alike, name) for name in SETTINGS.__dataclass_fields__ if name != "device"}
    sp.repair(garage.subject, garage.run.path, out=tmp_path / "python", **given)
    assert json.loads((tmp_path / "python" / "repair.json").read_text())["candidates"] == told["candidates"]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--learning-rates", "1e-3,fast"], "--learning-rates takes numbers, as 1e-3,3e-4; got '1e-3,fast'"),
        (["--strengths", "much"], "--strengths takes numbers, as 1,3; got 'much'"),
        (["--learning-rates", "1e-3", "--learning-rate", "3e-4"], "takes the place of --learning-rate; give one of the two"),
        (["--mirror-choice", "--no-mirror"], "mirror is off"),
        (["--preset", "deeptest", "--mirror-choice"], "--mirror-choice belongs to --preset search"),
    ],
)
def test_options_that_do_not_go_together_are_a_sentence(garage: Garage, tmp_path: Path, options: list[str], words: str) -> None:
    answer = CliRunner().invoke(app, ["repair", str(garage.toml), str(garage.run.path), "--out", str(tmp_path / "out"), *options])
    assert isinstance(answer.exception, sp.SkidpadError)
    assert words in str(answer.exception)
    assert not (tmp_path / "out").exists()


def test_processes_that_share_a_pool_render_what_one_does(task: Task, tmp_path: Path) -> None:
    settings = replace(SETTINGS, pictures=8 * 60)
    alone = Repairs(replace(task, pool=tmp_path / "alone"), tmp_path, settings).random
    together = replace(task, pool=tmp_path / "together")
    shares = [len(Repairs(together, tmp_path, settings, share=(place, 2)).random) for place in range(2)]
    assert all(shares)
    assert sum(shares) == len(alone)
    files = {folder: {path.name: path.read_bytes() for path in (tmp_path / folder).iterdir()} for folder in ("alone", "together")}
    assert len(files["alone"]) == 3
    assert files["together"] == files["alone"]
    whole = Repairs(together, tmp_path, settings).random
    assert torch.equal(whole.mutants.pictures, alone.mutants.pictures)
