"""`import skidpad as sp`: objects and names alike, in memory and in files, and results that show themselves."""

import gc
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

import skidpad as sp
from skidpad.core.stimuli import Params, Real, Space
from skidpad.runs.folder import Run
from skidpad.stimuli.pictures.deeptest import DeepTestFog as FogStimulus


class Dazzled(nn.Module):
    """Steers 0.1 rad and a little by the light, and 0.4 rad and more beyond that where a picture, 0..1, is bright on average."""

    def __init__(self, limit: float = 0.6) -> None:
        super().__init__()
        self.eye = nn.Linear(1, 1)
        self.eye.weight.data.fill_(1.0)
        self.eye.bias.data.fill_(-limit)
        self.limit = limit

    def forward(self, pictures: torch.Tensor) -> torch.Tensor:
        above = self.eye(pictures.mean(dim=(1, 2, 3))[:, None])
        return 0.1 + 0.02 * (above + self.limit) + (0.4 + above) * (above > 0)


@pytest.fixture
def net() -> object:
    return sp.wrap(Dazzled(), width_px=16, height_px=12, name="dazzled")


@pytest.fixture
def recorded() -> object:
    light = np.linspace(60, 130, 4).astype(np.uint8)
    return sp.drive_from_arrays(np.broadcast_to(light[:, None, None, None], (4, 24, 32, 3)).copy(), name="grey")


def test_objects_in_memory_are_tested_without_a_file(net, recorded) -> None:
    result = sp.test(net, recorded, sp.Brightness(shift=60), sp.SteersAlike(within_deg=10))
    # 60, 83, 106 and 130 of 255, made 60 lighter: the last two are above 0.6
    assert result.rate == 0.5
    assert (result.rates["brightness"].n, len(result.findings)) == (4, 2)
    assert [row["frame_id"] for row in result.findings.to_pylist()] == ["000003", "000002"]
    assert result.findings.to_arrow().num_rows == 2
    assert result.worst.row["frame_id"] == "000003"
    assert result.replay()["reproduced"]
    assert result.report().read_text(encoding="utf-8").startswith("<!DOCTYPE html>")
    assert not sp.gate(result, max_rate=0.1).is_passed
    assert sp.gate(result, max_rate={"brightness": 0.6}).is_passed


def test_a_condition_is_given_as_an_object(net, recorded) -> None:
    result = sp.test(net, recorded, sp.Fog(visibility_m=100), sp.SteersAlike(within_deg=10))
    assert result.run.config["transforms"] == ["fog(visibility_m=100)"]
    assert result.rates["fog"].n == 4
    assert len(sp.test(net, recorded, [sp.DeepTestFog(density=0.5), sp.Dusk()], "steers-alike").rates) == 3


def test_a_run_without_a_place_goes_with_its_result(net, recorded) -> None:
    result = sp.test(net, recorded, "fog(density=0.5)")
    folder = result.path
    assert folder.is_dir()
    del result
    gc.collect()
    assert not folder.exists()


def test_a_failed_run_leaves_no_folder_behind(net, recorded, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with pytest.raises(sp.SkidpadError, match="no transform named 'fogg'"):
        sp.test(net, recorded, "fogg")
    assert list(tmp_path.iterdir()) == []


def test_names_and_objects_give_the_same_run(tmp_path: Path, write_driver, write_drive) -> None:
    toml, folder = write_driver(tmp_path, "api-net", 0.62), write_drive(tmp_path / "drive")
    with sp.trusting():
        by_name = sp.test(toml, folder, ["brightness(shift=40)", "deeptest-fog"], "steers-alike", out=tmp_path / "names", criteria=[])
    given = [sp.Brightness(shift=40), FogStimulus()]
    by_object = sp.test(sp.load(toml, trust=True), sp.open_drive(folder), given, sp.SteersAlike(10), out=tmp_path / "objects", criteria=[])
    first, second = (Run.open(result.path) for result in (by_name, by_object))
    assert first.config == second.config
    assert first.config["subject"] == str(toml)
    # the name of a segment carries the hash of its content
    assert [each.path.name for each in first.segments()] == [each.path.name for each in second.segments()]
    assert by_name.rates["deeptest-fog"].n == 80
    assert by_name.rates["brightness"].n == 8


def test_a_loaded_network_is_asked_itself_and_not_read_again(tmp_path: Path, write_driver, write_drive) -> None:
    toml, folder = write_driver(tmp_path, "held-net", 0.62), write_drive(tmp_path / "drive")
    loaded = sp.load(toml, trust=True)
    toml.unlink()
    assert sp.test(loaded, folder, "brightness(shift=60)", criteria=[]).findings


def test_another_process_can_look_at_a_run_of_objects_but_not_replay_it(net, recorded, tmp_path: Path) -> None:
    sp.test(net, recorded, sp.Brightness(shift=60), sp.SteersAlike(within_deg=10), out=tmp_path / "run")
    opened = sp.open_run(tmp_path / "run")
    assert opened.rate == 0.5
    assert opened.run.config["subject"] == f"python:dazzled@{net.sha256[:12]}"
    with pytest.raises(sp.SkidpadError, match=r"'dazzled@.*was an object in the Python process that made the run"):
        opened.replay()
    with pytest.raises(sp.SkidpadError, match="cannot be handed to other processes"):
        sp.test(net, recorded, "fog", workers="2")


def test_other_weights_are_another_network(net) -> None:
    assert sp.wrap(Dazzled(), width_px=16, height_px=12, name="dazzled").sha256 == net.sha256
    assert sp.wrap(Dazzled(0.7), width_px=16, height_px=12, name="dazzled").sha256 != net.sha256


def test_a_result_shows_itself(net, recorded) -> None:
    result = sp.test(net, recorded, [sp.Brightness(shift=60), sp.Blur(kind="median", size=3)], sp.SteersAlike(within_deg=10))
    lines = repr(result).splitlines()
    assert [line.split()[:3] for line in lines if line.startswith(("all", "brightness", "blur"))] == [
        ["all", "8", "2"],
        ["brightness", "4", "2"],
        ["blur", "4", "0"],
    ]
    assert "brightness(shift=60) on 000003" in lines[-1]
    page = result._repr_html_()
    assert page.count("<tr>") == 4
    assert 'src="data:image/jpeg;base64,' in page
    assert result.worst.picture().shape[2] == 3
    assert repr(result.findings) == "<2 findings, worst first>"
    assert [finding.case_id for finding in result.findings[:]] == result.findings.to_arrow()["case_id"].to_pylist()


def test_a_result_without_findings_has_no_worst(net, recorded) -> None:
    result = sp.test(net, recorded, sp.Blur(kind="median", size=3), sp.SteersAlike(within_deg=10))
    assert (result.rate, result.worst, len(result.findings)) == (0.0, None, 0)
    with pytest.raises(sp.SkidpadError, match="no findings"):
        sp.replay(result)


def test_what_a_stranger_wrote_is_escaped_in_a_notebook(recorded) -> None:
    net = sp.wrap(Dazzled(), width_px=16, height_px=12)
    frames = [recorded.frame(place) for place in range(4)]
    drive = sp.drive_from_arrays(frames, frame_ids=[f"<b>{place}</b>" for place in range(4)])
    page = sp.test(net, drive, sp.Brightness(shift=60), sp.SteersAlike(within_deg=10))._repr_html_()
    assert "<b>" not in page
    assert "&lt;b&gt;3" in page


def test_data_frames_need_pandas(net, recorded, monkeypatch: pytest.MonkeyPatch) -> None:
    findings = sp.test(net, recorded, sp.Brightness(shift=60), sp.SteersAlike(within_deg=10)).findings
    pandas = pytest.importorskip("pandas")
    assert isinstance(findings.to_pandas(), pandas.DataFrame)

    class Table:
        def to_pandas(self) -> None:
            raise ModuleNotFoundError("No module named 'pandas'")

    monkeypatch.setattr(findings, "_table", Table())
    with pytest.raises(sp.SkidpadError, match="pip install pandas"):
        findings.to_pandas()


def test_relations_bring_their_number(net, recorded) -> None:
    strict = sp.test(net, recorded, sp.Brightness(shift=60), sp.SteersAlike(within_deg=0.1))
    assert strict.run.config["tolerance"] == 0.1
    assert strict.rate == 1.0
    with pytest.raises(sp.SkidpadError, match="no relation named 'steer-alike'"):
        sp.test(net, recorded, "fog", "steer-alike")


def test_a_transform_of_ones_own_is_registered_first(net, recorded) -> None:
    class Dust:
        space = Space((Real("amount", 0.0, 1.0, 0.0),), (Params(amount=1.0),))

        def apply(self, frames, params):
            return frames

    with pytest.raises(sp.SkidpadError, match="Dust is no registered transform"):
        sp.test(net, recorded, Dust())


def test_a_bare_module_is_to_be_wrapped(recorded) -> None:
    with pytest.raises(sp.SkidpadError, match="use wrap"):
        sp.test(Dazzled(), recorded)
    with pytest.raises(sp.SkidpadError, match="wrap takes a torch"):
        sp.wrap(lambda frames: frames, width_px=16, height_px=12)


def test_unknown_settings_are_named(net, recorded) -> None:
    with pytest.raises(sp.SkidpadError, match="no setting of the campaign named 'serches'; did you mean 'searches'"):
        sp.test(net, recorded, "fog", serches=["grid"])


def test_evaluating_scores_against_labels(net, recorded) -> None:
    frames = [recorded.frame(place) for place in range(4)]
    labels = [0.1 + 0.02 * frame.mean() / 255 for frame in frames]
    assert sp.evaluate(net, sp.drive_from_arrays(frames, labels)).rmse_rad < 1e-6
    with pytest.raises(sp.SkidpadError, match="nothing to score"):
        sp.evaluate(net, recorded)


def test_an_object_drives_in_a_closed_loop(net) -> None:
    result = sp.drive(net, sp.Fog(visibility_m=200), scenarios=1, seconds=1.0)
    assert result.run.config["stimuli"] == ["fog(visibility_m=200)"]
    assert [group for group in result.rates if group != "all"] == ["fog(visibility_m=200)"]
    assert result.report().stat().st_size > 1000


def test_an_object_is_tested_under_weather(net, recorded) -> None:
    result = sp.weather_test(net, recorded[:2], "rain")
    assert result.rates["all"].n == 2


def test_public_names_are_listed_and_lazy() -> None:
    assert set(sp.__all__) <= set(dir(sp))
    assert all(getattr(sp, name) is not None for name in sp.__all__)
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        sp.nonsense  # noqa: B018
    code = "import sys, skidpad as sp; sp.SkidpadError, sp.trusting, sp.__version__; print(sorted({'torch', 'numpy'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip() == "[]"


def test_the_package_is_a_program() -> None:
    said = subprocess.run([sys.executable, "-m", "skidpad", "--version"], capture_output=True, text=True, check=True).stdout
    assert said == f"skidpad {sp.__version__}\n"
