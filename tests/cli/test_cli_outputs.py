"""Outputs beyond steering, black boxes, memory and proposed descriptions on the command line."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import pytest
import torch
from torch import nn

BOX = """
import numpy as np

def drive(pictures):
    light = pictures.reshape(len(pictures), -1).mean(axis=1)
    return np.stack([light - 0.5, light], axis=1)
"""
BOX_TOML = """
format = "box"
box = { function = "toy_box_of_cli:drive" }

[input]
width_px = 8
height_px = 6
colour = "rgb"
range = { low = 0.0, high = 1.0 }

[[outputs]]
name = "steering"
unit = "rad"

[[outputs]]
name = "brake"
unit = "fraction"
"""


@pytest.fixture(scope="module")
def box(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("box")  # one for all: Python knows one module of a name
    (folder / "toy_box_of_cli.py").write_text(BOX)
    (folder / "box.toml").write_text(BOX_TOML)
    return folder / "box.toml"


def stacked(path: Path) -> Path:
    """A network that steers by the mean of three stacked frames."""

    class Mean(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv = nn.Conv2d(9, 2, 3)
            self.out = nn.Linear(2, 1)

        def forward(self, frames: torch.Tensor) -> torch.Tensor:
            return self.out(torch.relu(self.conv(frames)).mean((2, 3)))

    torch.manual_seed(0)
    torch.export.save(torch.export.export(Mean().eval(), (torch.zeros(2, 9, 24, 32),)), path / "stack.pt2")
    return path / "stack.pt2"


def test_a_black_box_is_inspected_tested_reported_and_replayed(skidpad, box: Path, drive_text: str, tmp_path: Path) -> None:
    shown = json.loads(skidpad("inspect", box, "--json").out)
    assert (shown["black_box"], shown["neurons"], shown["parameters"]) == (True, 0, None)
    assert [output["name"] for output in shown["outputs"]] == ["steering", "brake"]
    assert shown["outputs"][1]["grey_frame_answer"] == pytest.approx(128 / 255, abs=1e-6)
    assert "a black box: its layers cannot be seen" in skidpad("inspect", box).out
    options = ("--transforms", "brightness", "--output", "brake", "--within", "0.15", "--out")
    done = skidpad("test", box, drive_text, *options, tmp_path / "run")
    assert done.code == 0, done.err
    assert "The subject is a black box: its neurons cannot be seen, so there is no coverage." in done.out
    assert "a case breaks it unless it answers brake within 0.15 of its answer on the original." in done.out
    assert "Coverage" not in done.out
    worst = done.out.rpartition("skidpad replay ")[2].split()[1]
    again = json.loads(skidpad("replay", tmp_path / "run", worst, "--json", "--picture", tmp_path / "pair.png").out)
    assert (again["reproduced"], again["output"], again["unit"], again["stimulus_on"]) == (True, "brake", "fraction", None)
    assert again["mutant"] - again["original"] > 0.15
    assert (tmp_path / "pair.png").stat().st_size > 1000
    summary = json.loads(skidpad("test", box, drive_text, *options, tmp_path / "again", "--json").out)
    assert (summary["output"], summary["unit"], summary["black_box"], summary["coverage"]) == ("brake", "fraction", True, [])


def test_a_black_box_is_not_searched_greedily(skidpad, box: Path, drive_text: str, tmp_path: Path) -> None:
    done = skidpad("test", box, drive_text, "--search", "greedy", "--out", tmp_path / "run")
    assert done.code == 2
    assert "is a black box whose neurons cannot be seen; use --search grid" in done.err
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--output", "brakes"), "did you mean 'brake'"),
        (("--output", "brake", "--lambda", "3"), "drives hold no labels of 'brake'"),
        (("--output", "brake", "--within-deg", "3"), "is no angle"),
        (("--threshold", "0.5"), "is for outputs that are no angles"),
        (("--output", "brake", "--within", "0.1", "--threshold", "0.5"), "takes no --threshold"),
        (("--stimulus-on", "all"), "no way to show a stimulus"),
    ],
)
def test_what_does_not_go_together_is_one_sentence(skidpad, box: Path, drive_text: str, tmp_path: Path, options, message: str) -> None:
    done = skidpad("test", box, drive_text, "--out", tmp_path / "run", *options)
    assert done.code == 2
    assert message in done.err
    assert not (tmp_path / "run").exists()


def test_a_subject_that_does_not_steer_is_tested_but_not_scored(skidpad, box: Path, drive_text: str, tmp_path: Path) -> None:
    text = BOX_TOML.replace('name = "steering"\nunit = "rad"', 'name = "throttle"\nunit = "fraction"')
    throttle = box.with_name("throttle.toml")
    throttle.write_text(text)
    scored = skidpad("evaluate", throttle, drive_text)
    assert scored.code == 2
    assert "has no output named 'steering' (it has throttle, brake)" in scored.err
    done = skidpad("test", throttle, drive_text, "--transforms", "brightness", "--output", "throttle", "--out", tmp_path / "run")
    assert done.code == 0, done.err


def test_a_proposed_description_is_kept_and_tested_with_its_memory(skidpad, drive_text: str, tmp_path: Path) -> None:
    file = stacked(tmp_path)
    told = skidpad("test", file, drive_text)
    assert told.code == 2
    assert "skidpad inspect" in told.err
    (tmp_path / "stack.toml").touch()  # as `> stack.toml` does before the command begins
    proposed = skidpad("inspect", file)
    assert proposed.code == 0, proposed.err
    assert tomllib.loads(proposed.out)["input"]["history"] == {"frames": 3, "kind": "stack"}
    assert json.loads(skidpad("inspect", file, "--json").out)["guesses"] == ["colour", "history", "range"]
    (tmp_path / "stack.toml").write_text(proposed.out)
    shown = skidpad("inspect", tmp_path / "stack.toml").out
    assert "3 frames, stack" in shown
    assert "not said: crop of [input]: nothing is cut away" in shown
    assert "runs at other sizes" in shown
    options = ("--transforms", "brightness", "--within-deg", "1e-6", "--stimulus-on", "last-frame", "--out", tmp_path / "run")
    done = skidpad("test", tmp_path / "stack.toml", drive_text, *options)
    assert done.code == 0, done.err
    assert "each transform is applied on the last of 3 frames alone" in done.out
    worst = done.out.rpartition("skidpad replay ")[2].split()[1]
    again = skidpad("replay", tmp_path / "run", worst)
    assert again.code == 0
    assert "on the last of 3 frames alone" in again.out
    assert "on the last of 3 frames alone" in (tmp_path / "run/report.html").read_text()


def test_a_campaign_of_an_unknown_kind_is_refused(skidpad, tmp_path: Path) -> None:
    (tmp_path / "a.toml").write_text('campaign = "deeptst"\n')
    done = skidpad("run", tmp_path / "a.toml")
    assert done.code == 2
    assert "no campaign named 'deeptst'; did you mean 'deeptest'" in done.err


def test_the_axle_and_squeezed_frames_are_told_once(skidpad, box: Path, drive_text: str) -> None:
    wheels, wide = box.with_name("wheels.toml"), box.with_name("wide.toml")
    wheels.write_text(BOX_TOML.replace('unit = "rad"', 'unit = "deg"\naxle = "road-wheel"\nratio = 16.0'))
    wide.write_text(BOX_TOML.replace("width_px = 8", "width_px = 48"))
    shown = " ".join(skidpad("inspect", wheels).out.replace("│", " ").split())
    assert "deg of the road wheels, 16 of the steering wheel each" in shown
    assert "deg of the steering wheel" in shown
    assert [row["axle"] for row in json.loads(skidpad("inspect", wheels, "--json").out)["outputs"]] == ["road-wheel", None]
    (warning,) = json.loads(skidpad("inspect", wide, drive_text, "--json").out)["warnings"]
    assert "of their height to fill the input of 48 x 6 px after the crop; cut the upper rows away, as crop = { top = " in warning
    evaluated = skidpad("evaluate", wide, drive_text)
    assert evaluated.err.count("squeezed to") == 1
    refused = skidpad("inspect", drive_text, drive_text)
    assert (refused.code, "is no subject" in refused.err) == (2, True)


def test_the_network_that_comes_along_sees_rendered_frames_as_in_its_training(skidpad) -> None:
    assert json.loads(skidpad("inspect", "demo", "rendered?frames=2", "--json").out)["warnings"] == []
