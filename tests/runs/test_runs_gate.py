"""The gate over plain cases: limits, noise, new and fixed findings, and what is said about them."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skidpad.core.errors import BadParametersError, UnknownNameError
from skidpad.runs.gate import ALL, Cases, Limits, judge

NOTHING_COMMON = "none of this run's cases are in the baseline; findings cannot be new or fixed, and all are compared by rate"


def cases(failed, group=None, cluster=None, key=None, tag=None) -> Cases:
    failed = np.asarray(failed, np.bool_)
    count = len(failed)
    keys = np.array([f"{each:06d}".encode() for each in (range(count) if key is None else key)], "S6")
    groups = np.array(["fog"] * count if group is None else group, np.bytes_)
    clusters = keys if cluster is None else np.array([str(each).encode() for each in cluster], np.bytes_)
    return Cases(
        keys,
        keys,
        groups,
        clusters,
        np.where(failed, 2.0 + np.arange(count), 0.5),
        failed,
        np.array([b""] * count if tag is None else tag, "S11"),
    )


def share(hits: int, trials: int, **more) -> Cases:
    return cases(np.arange(trials) < hits, **more)


def broken(verdict) -> list[str]:
    return [outcome.name for outcome in verdict.broken]


def test_a_rate_is_broken_only_where_its_lower_bound_lies_beyond() -> None:
    limit = Limits({ALL: 0.05})
    assert judge(share(7, 100), limit).is_passed  # 7 %, but 3.4 % is as likely
    verdict = judge(share(14, 100), limit)
    assert broken(verdict) == ["rate of all"]
    assert verdict.broken[0].said.startswith("failure rate of all is beyond 0.05: 14 of 100 cases fail (14.00 %, 95 % interval 8.53 % to")
    assert judge(share(0, 5), Limits({ALL: 0.0})).is_passed
    assert not judge(share(1, 5), Limits({ALL: 0.0})).is_passed


def test_a_group_has_its_own_limit_and_an_unknown_one_is_an_error() -> None:
    both = cases([True] * 30 + [False] * 70, ["fog"] * 50 + ["rain"] * 50)
    assert broken(judge(both, Limits({"fog": 0.4, "rain": 0.4}))) == ["rate of fog"]
    with pytest.raises(UnknownNameError, match="did you mean 'rain'"):
        judge(both, Limits({"rian": 0.1}))


def test_what_fails_together_counts_once() -> None:
    """Fourteen of a hundred, but all of one frame: one frame of ten may be chance."""
    one_frame = share(14, 140, cluster=np.arange(140) // 14)
    assert judge(one_frame, Limits({ALL: 0.05})).is_passed
    assert not judge(share(14, 140), Limits({ALL: 0.05})).is_passed


@given(st.lists(st.tuples(st.booleans(), st.booleans()), min_size=1, max_size=50))
def test_new_fixed_and_persisting_are_those_of_a_dictionary(pairs) -> None:
    now, then = cases([now for now, _ in pairs]), cases([then for _, then in pairs])
    change = judge(now, Limits(), then).changes[0]
    assert change.new == pairs.count((True, False))
    assert change.fixed == pairs.count((False, True))
    assert change.persisting == pairs.count((True, True))
    assert change.common == len(pairs)
    assert change.is_paired


def test_cases_are_matched_by_key_and_not_by_place() -> None:
    now, then = cases([True, False, True], key=(5, 2, 9)), cases([True, False], key=(9, 5))
    verdict = judge(now, Limits(max_new=0), then)
    assert verdict.new == ("000005",)
    assert (verdict.changes[0].common, verdict.changes[0].persisting) == (2, 1)
    assert broken(verdict) == ["new findings"]
    assert verdict.broken[0].said == "1 new finding, 0 allowed: 000005"
    assert verdict.notes[0].startswith("2 of 3 of this run's cases are in the baseline")


def test_the_worst_new_finding_comes_first() -> None:
    verdict = judge(cases([True, True, True]), Limits(max_new=2), cases([False, False, True]))
    assert verdict.new == ("000001", "000000")
    assert verdict.is_passed


def test_what_two_processors_round_apart_is_neither_new_nor_fixed_and_is_said() -> None:
    then = replace(cases([False, True, False, True]), excess=np.array([0.995, 1.004, 0.5, 2.0]))
    now = replace(cases([True, False, True, True]), excess=np.array([1.005, 0.998, 1.4, 2.0]))
    strict, near = (judge(now, Limits(max_new=1), then, near) for near in (0.0, 0.02))
    assert strict.new == ("000002", "000000")
    assert (strict.changes[0].new, strict.changes[0].fixed, broken(strict)) == (2, 1, ["new findings"])
    assert near.new == ("000002",)
    assert (near.changes[0].new, near.changes[0].fixed, near.changes[0].persisting, broken(near)) == (1, 0, 2, [])
    assert near.rates[0].findings == strict.rates[0].findings == 3  # what the run itself found stays as it is
    assert [note for note in near.notes if "within 2 %" in note] == [
        "2 cases lie within 2 % of what is tolerated, on one side then and on the other now, and count as unchanged: 000000, 000001"
    ]


def test_a_planted_regression_in_one_group_is_named_and_the_others_are_not() -> None:
    groups = ["fog"] * 100 + ["rain"] * 100 + ["blur"] * 100
    rng = np.random.default_rng(0)
    before = rng.random(300) < 0.2
    after = before.copy()
    after[100:130] = True
    verdict = judge(cases(after, groups), Limits(), cases(before, groups))
    assert broken(verdict) == ["all against the baseline", "rain against the baseline"]
    assert "failure rate of rain has risen" in verdict.broken[1].said
    assert judge(cases(after, groups), Limits(max_rise=0.5), cases(before, groups)).is_passed
    assert judge(cases(before, groups), Limits(), cases(after, groups)).is_passed, "a mended subject passes"


def test_noise_between_other_cases_passes_and_a_jump_does_not() -> None:
    rng = np.random.default_rng(1)
    then = cases(rng.random(400) < 0.2, key=range(400))
    assert judge(cases(rng.random(400) < 0.2, key=range(1000, 1400)), Limits(max_new=0), then).is_passed
    verdict = judge(cases(rng.random(400) < 0.4, key=range(1000, 1400)), Limits(), then)
    assert "all against the baseline" in broken(verdict)
    assert "other cases" in verdict.broken[0].said
    assert verdict.notes == (NOTHING_COMMON,)


def test_groups_of_one_run_alone_are_compared_with_nothing_and_said() -> None:
    now = cases([True] * 50 + [False] * 50, ["snow"] * 50 + ["fog"] * 50)
    then = cases([False] * 100, ["fog"] * 50 + ["rain"] * 50, key=range(50, 150))
    verdict = judge(now, Limits(), then)
    assert verdict.is_passed, "all snow fails, but the baseline has none"
    assert [change.group for change in verdict.changes] == [ALL, "fog"]
    assert verdict.notes[:2] == (
        "only this run has snow, which is compared with nothing",
        "only the baseline has rain, which is compared with nothing",
    )


def test_a_gate_without_a_limit_and_impossible_limits_are_refused() -> None:
    some = share(1, 3)
    with pytest.raises(BadParametersError, match="a gate needs a limit"):
        judge(some, Limits())
    with pytest.raises(BadParametersError, match="counted against a baseline"):
        judge(some, Limits(max_new=1))
    for wrong in ({"max_rate": {ALL: 5.0}}, {"max_new": -1}, {"alpha": 0.0}, {"max_rise": -0.1}):
        with pytest.raises(BadParametersError):
            replace(Limits(), **wrong)


def test_rates_stand_with_all_cases_first() -> None:
    verdict = judge(cases([True, False, False], ["b", "a", "b"]), Limits({ALL: 1.0}))
    assert [(each.group, each.findings, each.rate.n) for each in verdict.rates] == [("all", 1, 3), ("a", 0, 1), ("b", 1, 2)]
    assert not verdict.has_false_alarms


ALARM, REAL, NONE = b"false alarm", b"real fault", b""


def test_false_alarms_are_shown_beside_the_raw_rate_and_left_out_only_when_asked() -> None:
    found = cases([True] * 20 + [False] * 80, tag=[ALARM] * 15 + [REAL] * 2 + [NONE] * 83)
    verdict = judge(found, Limits({ALL: 0.1}))
    assert not verdict.is_passed
    (rate,) = [each for each in verdict.rates if each.group == ALL]
    assert (rate.findings, rate.false_alarms) == (20, 15)
    assert rate.rate.estimate == 0.2
    assert rate.rate_without.estimate == 0.05
    assert verdict.notes == ("15 findings are tagged as false alarms, and counted all the same",)
    cleared = judge(found, Limits({ALL: 0.1}, without_false_alarms=True))
    assert cleared.is_passed
    assert cleared.rates == verdict.rates, "both rates are shown either way"
    assert "5 of 100 cases fail" in cleared.outcomes[0].said


def test_a_false_alarm_of_either_run_is_no_new_finding_unless_this_run_says_otherwise() -> None:
    now = cases([True] * 3 + [False] * 37, tag=[NONE, REAL, ALARM] + [NONE] * 37)
    then = cases([False] * 40, tag=[ALARM, ALARM, NONE] + [NONE] * 37)
    assert judge(now, Limits(), then).changes[0].new == 3
    verdict = judge(now, Limits(max_new=1, without_false_alarms=True), then)
    assert verdict.new == (b"000001".decode(),)
    assert verdict.is_passed
    persisting = judge(now, Limits(without_false_alarms=True), cases([True] * 3 + [False] * 37, tag=[NONE, NONE, ALARM] + [NONE] * 37))
    assert (persisting.changes[0].persisting, persisting.changes[0].new, persisting.changes[0].fixed) == (2, 0, 0)


@given(st.lists(st.tuples(st.booleans(), st.sampled_from([NONE, ALARM, REAL, b"unclear"])), min_size=1, max_size=40))
def test_leaving_out_false_alarms_counts_as_a_loop_does(rows) -> None:
    found = cases([failed for failed, _ in rows], tag=[tag for _, tag in rows])
    rate = judge(found, Limits({ALL: 1.0})).rates[0]
    assert rate.false_alarms == sum(failed and tag == ALARM for failed, tag in rows)
    assert rate.rate_without.estimate == sum(failed and tag != ALARM for failed, tag in rows) / len(rows)
