"""The campaign benchmark compares equal work, its floor is a floor, and a disturbed run gives no figure."""

import argparse
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

import campaign
from campaign import FLOOR, OURS, OURS_NC, THEIRS, Rounds
from ways.case import Found, plain_input
from ways.skidpad_way import Floor


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> campaign.Prepared:
    """Two small frames under the grids of all nine transforms."""
    given = argparse.Namespace(drive="rendered?frames=2&seed=7&width=64&height=48", frames=2, subject="", transforms="")
    return campaign.prepare(given, tmp_path_factory.mktemp("campaign"))


def test_plain_mutants_have_the_pixels_of_skidpad(prepared: campaign.Prepared) -> None:
    case = prepared.case
    for recipe, transform in zip(case.recipes, case.transforms()[1:], strict=True):
        mutants = recipe.apply(case.frames, prepared.campaign.stimuli)
        assert np.array_equal(transform(case.frames[0]), mutants[0]), recipe
        assert np.array_equal(plain_input(mutants[0]), prepared.subject.assembler.shrink(mutants)[0].numpy()), recipe


def test_the_floor_runs_the_batches_of_the_campaign(prepared: campaign.Prepared, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    network = prepared.subject.network
    shown: list[str] = []

    def listened(run: Callable[[torch.Tensor], Any]) -> Callable[[torch.Tensor], Any]:
        def answer(inputs: torch.Tensor) -> Any:
            shown.append(f"{tuple(inputs.shape)} {sha256(inputs.numpy().tobytes()).hexdigest()}")
            return run(inputs)

        return answer

    monkeypatch.setattr(network, "answer", listened(network.answer))
    monkeypatch.setattr(network, "record", listened(network.record))
    floor = Floor(prepared.campaign, prepared.subject, prepared.case.frames)
    # one part with all mutants and one with the originals: a second core has next to nothing to do
    assert floor.usable_cores == (1.0 if torch.get_num_threads() == 1 else pytest.approx(91 / 90))
    images = floor.run()
    of_the_floor = Counter(shown)
    shown.clear()
    nc = replace(prepared.campaign, settings=replace(prepared.campaign.settings, criteria=("nc",)))
    nc.execute(nc.start(tmp_path / "run"))
    assert images == prepared.case.images
    assert of_the_floor == Counter(shown)


def test_a_way_that_counts_otherwise_ends_the_benchmark() -> None:
    ours = Found(nc=230, kmnc=20_000, nbc=470, findings=100)
    campaign.check_same_work({OURS: ours, "(b)": replace(ours, nc=231, kmnc=20_090)})
    with pytest.raises(SystemExit, match=r"\(b\) does other work than skidpad: it counts 794 nbc, skidpad 470"):
        campaign.check_same_work({OURS: ours, "(b)": replace(ours, nbc=794)})
    with pytest.raises(SystemExit, match="findings"):
        campaign.check_same_work({OURS: ours, "(b)": replace(ours, findings=98)})


def measured() -> dict[str, Rounds]:
    """Three calm rounds on two cores: skidpad takes 1 ms of two cores an image, the floor 0.8 of it, the others 5 ms."""
    rounds = {name: Rounds(int, [0.005] * 3, [0.01] * 3) for name in (other for other, _ in THEIRS.values())}
    rounds[OURS] = Rounds(int, [0.001, 0.0012, 0.001], [0.002, 0.0021, 0.002])
    rounds[OURS_NC] = Rounds(int, [0.0009] * 3, [0.0018] * 3)
    rounds[FLOOR] = Rounds(int, [0.0008] * 3, [0.0016, 0.00147, 0.0015])
    return rounds


def test_the_overhead_goes_by_processor_time_round_by_round(capsys: pytest.CaptureFixture[str]) -> None:
    assert campaign.disturbance(measured(), usable_cores=2.0) == ""
    figures = campaign.report(measured(), "")
    assert figures["disturbed"] is False
    assert figures["overhead_share"] == pytest.approx(0.25)
    assert figures["vs_best_assembled"] == pytest.approx(5.0)
    assert "25.0% (20.0% to 30.0%)" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("wall_s", "cpu_s", "why"),
    [
        ([0.0008, 0.0008, 0.0014], [0.0015] * 3, "had 54% of its cores"),
        ([0.0008] * 3, [0.0015, 0.0015, 0.0018], "took 1.50 to 1.80 CPU ms"),
    ],
)
def test_a_disturbed_run_says_why_and_gives_no_figure(
    wall_s: list[float], cpu_s: list[float], why: str, capsys: pytest.CaptureFixture[str]
) -> None:
    rounds = measured() | {FLOOR: Rounds(int, wall_s, cpu_s)}
    disturbed = campaign.disturbance(rounds, usable_cores=2.0)
    assert why in disturbed
    figures = campaign.report(rounds, disturbed)
    assert figures.pop("disturbed") is True
    assert set(figures) >= {"overhead_share", "images_per_s", "vs_deeptest_way", "vs_best_assembled"}
    assert not any(figures.values())
    printed = capsys.readouterr().out
    assert f"disturbed: {disturbed}" in printed
    assert "images/s" not in printed
