"""The whole of `skidpad replicate deeptest` on a small network and small drives."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
import torch
from replicate_toys import TOY, write_drive, write_subject
from typer.testing import CliRunner, Result

from skidpad.cli.main import app
from skidpad.core.errors import BadDriveError, BadParametersError, BadRunError
from skidpad.drives.opening import open_drive
from skidpad.papers.deeptest import retraining
from skidpad.papers.deeptest.retraining import evenly_spaced
from skidpad.subjects.description import Format, write_description
from skidpad.subjects.zoo import ARCHITECTURES


@dataclass(frozen=True)
class Place:
    folder: Path
    subject: str
    drive: str
    train: str

    def invoke(self, *options: str, out: str = "out", images: int = 4) -> Result:
        small = ["--images", str(images), "--seeds", "3", "--epochs", "1", "--max-mutants", "40"]
        command = ["replicate", "deeptest", self.subject, self.drive, "--out", str(self.folder / out)]
        return CliRunner().invoke(app, [*command, "--train-drive", self.train, *small, *options])


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    with pytest.MonkeyPatch.context() as patch:
        ARCHITECTURES.names()
        patch.setitem(ARCHITECTURES._rows, "toy", TOY)
        folder = tmp_path_factory.mktemp("replication")
        yield Place(folder, str(write_subject(folder / "toy")), write_drive(folder / "test", 11), write_drive(folder / "train", 12))


@pytest.fixture(scope="module")
def payload(place: Place) -> dict:  # type: ignore[type-arg]  # JSON
    answer = place.invoke("--json")
    assert answer.exit_code == 0, answer.output
    return json.loads(answer.stdout)


def test_all_five_questions_are_answered(payload: dict) -> None:  # type: ignore[type-arg]  # JSON
    assert {row["question"] for row in payload["rows"]} == {"set-up", "RQ1", "RQ2", "RQ3", "RQ4", "RQ5"}
    assert all(set(row) == {"question", "quantity", "paper", "ours", "gap", "note", "others"} for row in payload["rows"])
    assert payload["association"]["frames"] == 11
    assert payload["diversity"]["pictures"] == 4  # every third of eleven
    assert payload["combination"]["seeds"] == 3  # every fourth
    assert payload["combination"]["cumulative"]["pictures"] == 3 * 70
    assert payload["erroneous"]["simple"][0]["cases"] == 4 * 70
    assert [report["settings"]["split"] for report in payload["retraining"]["reports"]] == ["random", "time"]
    covered = {way: payload["combination"][way]["covered"] for way in ("baseline", "cumulative", "guided", "random")}
    assert covered["baseline"] <= min(covered.values())


def test_guided_and_random_made_as_many_tries(payload: dict) -> None:  # type: ignore[type-arg]  # JSON
    combination = payload["combination"]
    assert combination["random"]["pictures"] == combination["guided"]["pictures"] + 11 * combination["seeds"]


def test_the_files_say_the_same(place: Place, payload: dict) -> None:  # type: ignore[type-arg]  # JSON
    written = (place.folder / "out" / "deeptest.json").read_text()
    assert json.loads(written) == payload
    assert "NaN" not in written
    page = (place.folder / "out" / "deeptest.md").read_text()
    assert page.count("\n| RQ") == sum(row["question"] != "set-up" for row in payload["rows"])
    for heading in ("Scoreboard", "Table 6", "Table 7", "Table 8", "Table 9", "Traps"):
        assert heading in page


def test_a_second_call_computes_nothing_again(place: Place, payload: dict, monkeypatch: pytest.MonkeyPatch) -> None:  # type: ignore[type-arg]  # JSON
    def never(*_: object) -> None:
        raise RuntimeError("computed again")

    segments = {path: path.stat().st_mtime_ns for path in (place.folder / "out").rglob("*.parquet")}
    monkeypatch.setattr("skidpad.kinds.pictures.campaign.DeepTest.look", never)
    monkeypatch.setattr(retraining, "repair_on", never)
    again = place.invoke("--json")
    assert again.exit_code == 0, again.output
    assert json.loads(again.stdout) == payload
    assert segments == {path: path.stat().st_mtime_ns for path in (place.folder / "out").rglob("*.parquet")}


def test_what_was_lost_is_computed_again_to_the_same_answer(place: Place, payload: dict) -> None:  # type: ignore[type-arg]  # JSON
    out = place.folder / "out"
    next((out / "grid" / "segments").glob("grid-*.parquet")).unlink()
    (out / "repaired-time.json").unlink()  # as if killed between the weights and the report
    again = place.invoke("--json")
    assert again.exit_code == 0, again.output
    assert json.loads(again.stdout) == payload


def test_other_settings_in_the_same_folder_are_refused(place: Place, payload: dict) -> None:  # type: ignore[type-arg]  # JSON
    answer = place.invoke(images=11)
    assert isinstance(answer.exception, BadRunError)
    assert "other settings" in str(answer.exception)
    other = place.invoke("--epochs", "2")
    assert isinstance(other.exception, BadRunError)
    assert "repaired-random.json" in str(other.exception)


def test_the_control_stands_beside_the_repair(place: Place, payload: dict) -> None:  # type: ignore[type-arg]  # JSON
    notes = [row["note"] for row in payload["rows"] if row["question"] == "RQ5"]
    assert len(notes) == 6
    assert all("the control, without mutants" in note and "no control" not in note for note in notes)
    fog = next(row for row in payload["retraining"]["reports"][0]["improvements"] if row["pictures"] == "deeptest-fog")
    assert f"MSE {fog['mse_control_rad2']:.3g} rad^2" in notes[1]
    page = (place.folder / "out" / "deeptest.md").read_text()
    (line,) = [line for line in page.splitlines() if line.startswith("| deeptest-fog | ours, random split |")]
    beyond = 100 * (fog["mse_after_rad2"] / fog["mse_control_rad2"] - 1)
    assert f" {beyond:.3g} |" in line
    assert f" {fog['rmse_control_rad']:.3g} |" in line
    assert "change beyond control (%)" in page


def test_without_a_control_the_scoreboard_says_so(place: Place, payload: dict) -> None:  # type: ignore[type-arg]  # JSON
    refused = place.invoke("--no-control")
    assert isinstance(refused.exception, BadRunError)  # the folder holds repairs with one
    out = place.folder / "bare-repair"
    shutil.copytree(place.folder / "out", out)
    for path in out.glob("repaired-*"):
        path.unlink()
    answer = place.invoke("--no-control", "--json", out="bare-repair")
    assert answer.exit_code == 0, answer.output
    found = json.loads(answer.stdout)
    assert all(row["note"].endswith("; no control") for row in found["rows"] if row["question"] == "RQ5")
    assert found["retraining"]["reports"][0]["improvements"][0]["mse_control_rad2"] is None
    assert "No control: " in (out / "deeptest.md").read_text()


def test_a_damaged_repair_report_is_one_clear_error(place: Place, payload: dict) -> None:
    path = place.folder / "out" / "repaired-time.json"
    whole = path.read_text()
    path.write_text(whole[:100])
    answer = place.invoke()
    path.write_text(whole)
    assert isinstance(answer.exception, BadRunError)
    assert "remove it" in str(answer.exception)


def test_the_terminal_shows_the_scoreboard(place: Place, payload: dict) -> None:  # type: ignore[type-arg]  # JSON
    answer = place.invoke()
    assert answer.exit_code == 0, answer.output
    assert "Scoreboard" in answer.stdout
    assert "(Epoch)" in answer.stdout
    assert "deeptest.md" in answer.stdout


@pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")  # torch.export is advised, but the old files are out there
def test_a_network_that_cannot_be_trained_still_gets_four_answers(place: Place) -> None:
    module = TOY.build().eval()
    torch.jit.trace(module, torch.zeros(2, 3, 8, 16)).save(str(place.folder / "script.ts"))
    described = TOY.describe("script", "script.ts")
    write_description(place.folder / "script.toml", replace(described, format=Format.TORCHSCRIPT, architecture=None))
    script = Place(place.folder, str(place.folder / "script.toml"), place.drive, place.train)
    answer = script.invoke("--json", out="script", images=2)
    assert answer.exit_code == 0, answer.output
    payload = json.loads(answer.stdout)
    assert payload["retraining"] is None
    (last,) = [row for row in payload["rows"] if row["question"] == "RQ5"]
    assert "torchscript" in last["note"]


def test_a_drive_without_labels_is_one_clear_error(place: Place) -> None:
    bare = Place(place.folder, place.subject, write_drive(place.folder / "bare", 3, labels=False), place.train)
    answer = bare.invoke(out="bare-out")
    assert isinstance(answer.exception, BadDriveError)
    assert "labels" in str(answer.exception)


def test_no_images_is_one_clear_error(place: Place) -> None:
    answer = place.invoke(out="none", images=0)
    assert isinstance(answer.exception, BadParametersError)


@pytest.mark.parametrize(("at_most", "found"), [(11, 11), (100, 11), (10, 6), (4, 4), (1, 1)])
def test_frames_are_evenly_spaced_and_at_most_so_many(place: Place, at_most: int, found: int) -> None:
    drive = open_drive(place.drive)
    spaced = evenly_spaced(drive, at_most)
    assert len(spaced) == found
    assert open_drive(spaced.origin).frame_ids == spaced.frame_ids
