"""Which candidate is recommended, what refused the others, and what the judgement confirms."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from repair_toys import trained

from skidpad.cli.repair import _print
from skidpad.core.images import FloatArray
from skidpad.page.model import Tone
from skidpad.repairs.choice import Limit, chosen, refusals
from skidpad.repairs.epochs import Epochs
from skidpad.repairs.families import Families
from skidpad.repairs.outcome import JudgedRow, Outcome, judged_rows
from skidpad.repairs.page import _judged, refusal_table, repair_page
from skidpad.repairs.plan import CLEAN, SEEN, UNSEEN_SET, Candidate, Rate, SearchSettings, Trained, TrainedEpoch
from skidpad.statistics.intervals import Interval
from skidpad.subjects.training.fitting import EpochRow


def test_the_fewest_failures_within_the_cost_are_recommended() -> None:
    before, control = trained("before", 0.100, 0.5), trained("control", 0.095, 0.48)
    candidates = [trained("findings", 0.100, 0.4), trained("random", 0.101, 0.2), trained("mix", 0.110, 0.1)]
    best = chosen(before, [control], candidates, 0.02)
    assert best is not None
    assert best.candidate.way == "random"
    dear = chosen(before, [control], candidates, 0.2)
    assert dear is not None
    assert dear.candidate.way == "mix"


def test_a_network_that_answers_less_to_everything_is_not_recommended() -> None:
    before, control = (replace(trained(way, 0.1, 0.5), response=0.8) for way in ("before", "control"))
    flat, kept = (replace(trained(way, 0.1, rate), response=response) for way, rate, response in (("mix", 0.0, 0.6), ("random", 0.2, 0.75)))
    best = chosen(before, [control], [flat, kept], 0.02)
    assert best is not None
    assert best.candidate.way == "random"
    assert chosen(before, [control], [flat], 0.02) is None


def test_nothing_is_recommended_where_further_training_alone_does_as_well() -> None:
    before, control = trained("before", 0.1, 0.5), trained("control", 0.1, 0.2)
    assert chosen(before, [control], [trained("random", 0.1, 0.3)], 0.02) is None
    assert chosen(before, [control], [replace(before, candidate=Candidate("random", 1.0, 0))], 0.02) is None


def test_no_rate_falls_by_more_than_all_of_it() -> None:
    seeds = [({SEEN: Rate(100, 10, 0.1, 0.1)}, {SEEN: Rate(100, failures, 0.1, 0.1)}) for failures in (0, 8)]
    row = judged_rows({SEEN: Rate(100, 10, 0.1, 0.1)}, *zip(*seeds, strict=True))[0]
    assert row.change_beyond_control.estimate == pytest.approx(-0.6)
    assert row.change_beyond_control.low == -1.0
    assert row.repaired.low == 0.0


def test_seeds_with_equal_figures_are_given_no_interval() -> None:
    seeds = [({SEEN: Rate(100, 8, 0.1, 0.1)}, {SEEN: Rate(100, 2, 0.1, 0.1 + 0.1 * seed)}) for seed in range(2)]
    row = judged_rows({SEEN: Rate(100, 10, 0.1, 0.1)}, *zip(*seeds, strict=True))[0]
    assert (row.repaired.estimate, row.control.estimate) == (0.02, 0.08)
    assert np.isnan([row.repaired.low, row.repaired.high, row.control.low, row.change_beyond_control.high]).all()
    shown = _judged(row)
    assert shown[3:6] == ("8.0\N{NO-BREAK SPACE}%", "2.0\N{NO-BREAK SPACE}%", "-75 %")


def at(rate: float) -> Interval:
    return Interval(rate, float("nan"), float("nan"), 0.95, 3)


def judged(pictures: str, before: float, control: float, repaired: float) -> JudgedRow:
    return JudgedRow(pictures, 100, before, at(control), at(repaired), at(repaired / control - 1.0), 0.1, at(0.1), at(0.1))


def outcome_of(*candidates: Trained, recommended: str = "", rows: tuple[JudgedRow, ...] = ()) -> Outcome:
    before = replace(trained("before", 0.1, 0.5), response=0.8)
    return Outcome("toy", "", "drive", "", SearchSettings(), (), (), (60, 20, 40), before, candidates, recommended, rows, ())


BEFORE, THE_CONTROL = "no less often than the network did before", "no less often than the control"
BOTH = f"{BEFORE} and than the control"


@pytest.mark.parametrize(
    ("unseen", "seen", "doubts"),
    [
        ((0.115, 0.148, 0.09), (0.3, 0.3, 0.2), []),
        ((0.115, 0.148, 0.140), (0.3, 0.3, 0.2), [f"no training saw it fails {BEFORE}"]),
        ((0.2, 0.1, 0.15), (0.3, 0.3, 0.2), [f"no training saw it fails {THE_CONTROL}"]),
        ((0.2, 0.3, 0.1), (0.2, 0.2, 0.2), [f"families that it was trained on it fails {BOTH}"]),
        ((0.1, 0.1, 0.1), (0.1, 0.1, 0.2), [f"no training saw it fails {BOTH}", f"it was trained on it fails {BOTH}"]),
        ((0.2, 0.3, 0.1), (0.0, 0.1, 0.0), []),
        ((0.0, 0.1, 0.0), (0.0, 0.1, 0.0), ["which never failed"]),
    ],
)
def test_a_repair_that_fails_no_less_often_where_it_is_judged_is_not_confirmed(
    unseen: tuple[float, float, float], seen: tuple[float, float, float], doubts: list[str]
) -> None:
    best = trained("mix", 0.1, 0.2)
    found = outcome_of(best, recommended=best.candidate.name, rows=(judged(UNSEEN_SET, *unseen), judged(SEEN, *seen)))
    assert len(found.doubts) == len(doubts)
    assert all(words in said for words, said in zip(doubts, found.doubts, strict=True))
    assert found.verdict.startswith("Not confirmed: mix-1-seed0 is the best" if doubts else "Recommended: mix-1-seed0.")
    assert all(said in found.verdict for said in found.doubts)
    assert repair_page(found).tone is (Tone.UNKNOWN if doubts else Tone.CALM)
    assert json.loads(found.to_json())["doubts"] == list(found.doubts)


def test_a_repair_that_costs_too_much_where_it_is_judged_is_not_confirmed() -> None:
    best = trained("mix", 0.1, 0.2)
    dear = replace(judged(CLEAN, 0.1, 0.1, 0.1), rmse_repaired_rad=at(0.15))
    found = outcome_of(best, recommended=best.candidate.name, rows=(dear, judged(UNSEEN_SET, 0.3, 0.3, 0.1)))
    assert found.verdict.startswith("Not confirmed")
    assert found.doubts == ("it costs more clean accuracy than it may",)


def test_what_refused_each_candidate_is_said() -> None:
    itself = replace(trained("findings", 0.1, 0.5, best_epoch=0), response=0.8)
    epoch = TrainedEpoch(11, 0.109, 0.3, 0.3, 0.5)
    candidates = (
        trained("control", 0.1, 0.4),
        replace(itself, reached=epoch),
        replace(
            itself,
            candidate=replace(itself.candidate, way="random"),
            reached=replace(epoch, clean_rmse_rad=0.1, response=0.8, stressed_rms_rad=0.6),
        ),
        replace(itself, candidate=replace(itself.candidate, way="looks")),
        replace(trained("consistency", 0.12, 0.1), response=0.8),
        replace(trained("mix", 0.1, 0.45), response=0.8),
        replace(trained("answers", 0.1, 0.2), response=0.8),
    )
    found = {each.candidate: each for each in refusals(outcome_of().before, candidates, 0.02, "answers-1-seed0")}
    assert found["findings-1-seed0"].limits == (Limit.CLEAN, Limit.RESPONSE)
    percent_2 = "2.0\N{NO-BREAK SPACE}%"
    assert found["findings-1-seed0"].because == f"clean error +9.0 %, and {percent_2} is allowed; response 0.50, and 0.72 is needed"
    assert found["random-1-seed0"].because == "mutants move its answers no less than the network's"
    assert found["looks-1-seed0"].because == "no epoch was better than the network itself"
    assert found["consistency-1-seed0"].limits == (Limit.CLEAN,)
    assert found["mix-1-seed0"].because == "mutants fail no less often than with the control"
    assert {"control-1-seed0", "answers-1-seed0"}.isdisjoint(found)
    none = outcome_of(*candidates[:-1])
    assert "Of 5 candidates: clean error too high, 2; response too low, 1; no better on mutants, 3." in none.verdict
    shown = refusal_table(none)
    assert shown.rows[0][0] == "findings x1"
    assert shown.rows[0][2:] == ("11", "0.1090", "30.0\N{NO-BREAK SPACE}%", "0.3000", "0.50")
    assert shown in repair_page(none).tables
    assert json.loads(none.to_json())["refusals"][0]["limits"] == ["clean error too high", "response too low"]
    assert Trained.read(json.dumps(json.loads(none.to_json())["candidates"][1])) == candidates[1]


def test_what_epochs_reached_outlives_a_killed_process(tmp_path: Path) -> None:
    def measured(answers_rad: FloatArray) -> TrainedEpoch:
        return TrainedEpoch(0, *answers_rad.tolist())

    scores = {1: 0.1, 9: 0.8, 10: 0.7}
    for epoch, score in scores.items():
        Epochs(tmp_path / "epochs.json", measured)(np.full(4, float(epoch)), score)
    curve = [EpochRow(epoch, 1e-3, 0.1, 0.1, "", score) for epoch, score in scores.items()]
    again = Epochs(tmp_path / "epochs.json", measured)
    assert again.best(curve, 12) == TrainedEpoch(10, 10.0, 10.0, 10.0, 10.0), "the first epoch is best, and does not count"
    assert Epochs(tmp_path / "none.json", measured).best(curve, 12) is None
    assert again.best(curve[:1], 12) is None


def test_the_page_lists_few_families_by_name_and_many_by_group() -> None:
    few = replace(outcome_of(), unseen=("haze", "fog"), seen=("gamma",))
    shown = {fact.name: fact.value for fact in repair_page(few).context}
    assert shown["trained on"] == "gamma"
    assert shown["never trained on"] == "haze, fog, weather:night, weather:rain"
    divided = Families.of((), ("atmosphere", "gamma", "lens"))
    many = replace(few, unseen=divided.unseen)
    shown = {fact.name: fact.value for fact in repair_page(many).context}
    assert re.fullmatch(r"atmosphere \(all \d\), tone \(1 of \d\), lens \(all \d\), weather:night, weather:rain", shown["never trained on"])


def test_where_nothing_fails_there_is_nothing_to_mend() -> None:
    sometimes = outcome_of()
    assert "fails less often" in sometimes.verdict
    assert "nothing to mend" not in sometimes.verdict
    never = replace(sometimes, before=replace(sometimes.before, failure_rate=0.0))
    assert "nothing to mend. Repair from a run with harder conditions or a narrower tolerance" in never.verdict
    assert "fails less often" not in never.verdict


@pytest.mark.parametrize("unseen", [(0.2, 0.3, 0.1), (0.2, 0.1, 0.15)])
def test_the_command_says_where_the_network_is_and_whether_to_ship_it(
    unseen: tuple[float, float, float], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    best = trained("mix", 0.1, 0.2)
    found = outcome_of(best, recommended=best.candidate.name, rows=(judged(UNSEEN_SET, *unseen),))
    _print(found, (), tmp_path, json=False)
    said = "".join(capsys.readouterr().out.split())
    assert f"network:{tmp_path}/recommended.toml" in said
    assert ("notconfirmed:donotshipit" in said) is bool(found.doubts)
    _print(replace(found, recommended=""), (), tmp_path, json=False)
    assert "recommended.toml" not in capsys.readouterr().out
