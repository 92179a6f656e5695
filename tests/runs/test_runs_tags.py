"""Tags: nothing that was kept is lost, whoever is killed; and the rates that they leave."""

import os
import signal
import subprocess
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skidpad.core.errors import BadRunError, UnknownNameError
from skidpad.core.files import is_held
from skidpad.core.stimuli import Params, Recipe
from skidpad.runs.folder import Run
from skidpad.runs.manifest import Manifest
from skidpad.runs.records import ShardResult, build_records
from skidpad.runs.tags import Entries, Journal, Tag, TaggedRates, Tags, tagged_rates

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)


@settings(max_examples=25)
@given(rows=st.lists(st.dictionaries(TEXTS.filter(lambda name: name != "check"), TEXTS, max_size=4), max_size=6))
def test_what_is_appended_is_read_back_in_order(rows: list[dict[str, str]], tmp_path_factory: pytest.TempPathFactory) -> None:
    journal = Journal(tmp_path_factory.mktemp("journal") / "deep" / "entries.jsonl")
    for row in rows:
        journal.append(row)
    assert journal.read() == Entries(tuple(rows), 0)


@settings(max_examples=30)
@given(cut=st.integers(0, 200), extra=st.binary(max_size=30))
def test_a_torn_or_foreign_end_costs_at_most_the_last_entry(cut: int, extra: bytes, tmp_path_factory: pytest.TempPathFactory) -> None:
    journal = Journal(tmp_path_factory.mktemp("journal") / "entries.jsonl")
    for number in range(4):
        journal.append({"number": str(number)})
    whole = journal.path.read_bytes()
    last = whole.rstrip(b"\n").rpartition(b"\n")[2]
    kept = max(len(whole) - cut, len(whole) - len(last) - 1)
    journal.path.write_bytes(whole[:kept] + extra)
    journal.append({"number": "after"})
    numbers = [row["number"] for row in journal.read().rows]
    assert numbers[:3] == ["0", "1", "2"]
    assert numbers[-1] == "after"


def test_a_changed_line_is_left_out_and_counted(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "entries.jsonl")
    for word in ("one", "two"):
        journal.append({"word": word})
    journal.path.write_text(journal.path.read_text().replace("one", "ONE"))
    assert journal.read() == Entries(({"word": "two"},), 1)


def test_many_writers_at_once_lose_nothing(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "entries.jsonl")
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda number: journal.append({"number": str(number)}), range(64)))
    assert Counter(row["number"] for row in journal.read().rows) == Counter(str(number) for number in range(64))


def test_a_writer_killed_at_any_moment_leaves_whole_entries(tmp_path: Path) -> None:
    path = tmp_path / "entries.jsonl"
    code = (
        "import sys, itertools\n"
        "from pathlib import Path\n"
        "from skidpad.runs.tags import Journal\n"
        "for n in itertools.count():\n"
        "    Journal(Path(sys.argv[1])).append({'number': str(n), 'padding': 'x' * 500})\n"
        "    print(n, flush=True)\n"
    )
    writer = subprocess.Popen([sys.executable, "-c", code, str(path)], stdout=subprocess.PIPE, text=True)
    if writer.stdout is None:
        raise AssertionError("the writer has an output")
    said = [int(writer.stdout.readline()) for _ in range(20)]
    os.kill(writer.pid, signal.SIGKILL)
    rest = writer.stdout.read().split()
    writer.wait()
    writer.stdout.close()
    acknowledged = max([*said, *map(int, rest)])
    numbers = [int(row["number"]) for row in Journal(path).read().rows]
    assert numbers[: acknowledged + 1] == list(range(acknowledged + 1))


def test_neither_reading_nor_writing_follows_a_link(tmp_path: Path) -> None:
    outside = tmp_path / "outside.jsonl"
    outside.write_text("precious\n")
    run = tmp_path / "run"
    (run / "state").mkdir(parents=True)
    (run / "state" / "tags.jsonl").symlink_to(outside)
    with pytest.raises(BadRunError, match="is a link or no plain file"):
        Tags.of(run).put("ab12", Tag.UNCLEAR)
    with pytest.raises(BadRunError, match="plain file"):
        Tags.of(run).current()
    assert outside.read_text() == "precious\n"


def test_the_last_word_about_a_case_counts(tmp_path: Path) -> None:
    tags = Tags.of(tmp_path)
    assert tags.current() == {}
    for case, tag in (("a1", Tag.REAL_FAULT), ("b2", Tag.UNCLEAR), ("a1", Tag.FALSE_ALARM), ("c3", Tag.REAL_FAULT), ("c3", None)):
        tags.put(case, tag)
    assert tags.current() == {"a1": Tag.FALSE_ALARM, "b2": Tag.UNCLEAR}


@pytest.mark.parametrize("case", ["", "../../x", "xyz", "a" * 13])
def test_what_is_no_case_id_is_not_tagged(tmp_path: Path, case: str) -> None:
    with pytest.raises(UnknownNameError, match="case id"):
        Tags.of(tmp_path).put(case, Tag.UNCLEAR)
    assert not (tmp_path / "state").exists()


def test_an_unknown_tag_is_told_the_known_ones() -> None:
    with pytest.raises(UnknownNameError, match="did you mean 'false alarm'"):
        Tag.of("false alarms")


@given(counts=st.tuples(*[st.integers(0, 40)] * 4), passed=st.integers(0, 40))
def test_the_confirmed_rate_lies_between_nothing_and_the_rate(counts: tuple[int, int, int, int], passed: int) -> None:
    real, false, unclear, untagged = counts
    rates = TaggedRates(sum(counts) + passed, sum(counts), real, false, unclear)
    assert rates.untagged == untagged
    if rates.cases:
        assert 0 <= rates.confirmed.estimate <= rates.without_false_alarms.estimate <= rates.rate.estimate
        assert rates.confirmed.low <= rates.confirmed.estimate <= rates.confirmed.high
    decided = real + false
    assert rates.precision.n == decided
    assert not decided or rates.precision.estimate == real / decided


def make_run(path: Path) -> Run:
    run = Run.create(path, {"campaign": "toy"}, Manifest.collect(device="cpu", seed=0, hashes={}, command=()))
    recipe = Recipe.of("deeptest-fog", Params(density=0.5))
    for phase, shard in (("originals", 0), ("grid", 0), ("grid", 1)):
        excess = np.array([0.5, 2.0, 3.0, np.nan])
        records = build_records(
            frame_index=range(4),
            frame_ids=[f"{phase}-{shard}-{number}" for number in range(4)],
            recipes=[recipe] * 4,
            label=np.zeros(4),
            original=np.zeros(4),
            mutant=np.ones(4),
            excess=excess,
            violated=excess > 1,
            active_neurons=np.zeros(4, np.int64),
        )
        run.commit(ShardResult(phase, shard, records))
    return run


def test_tags_are_counted_over_findings_and_survive_opening_the_run_again(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run")
    assert tagged_rates(run, ("originals",)) == TaggedRates(6, 4)
    findings = [row["case_id"] for row in run.findings(phase="grid").to_pylist()]
    passed = next(row["case_id"] for row in run.records("grid").to_pylist() if not row["violated"])
    for case, tag in zip([*findings[:3], passed], [Tag.REAL_FAULT, Tag.FALSE_ALARM, Tag.UNCLEAR, Tag.REAL_FAULT], strict=True):
        Tags.of(run.path).put(case, tag)
    again = Run.open(run.path)
    with again.lock():  # clears away what killed writers left, and must not take the tags for that
        pass
    assert tagged_rates(again, ("originals",)) == TaggedRates(6, 4, 1, 1, 1)


def test_tagging_goes_on_while_a_campaign_holds_the_run(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run")
    assert not is_held(run.path)
    with run.lock():
        assert is_held(run.path)
        Tags.of(run.path).put("ab", Tag.REAL_FAULT)
    assert not is_held(run.path)
    assert Tags.of(run.path).current() == {"ab": Tag.REAL_FAULT}


def test_who_only_looks_leaves_damaged_segments_where_they_are(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run")
    broken = run.segments()[0].path
    broken.write_bytes(b"PAR1 broken")
    looking = Run.open(run.path, set_aside=False)
    assert broken.exists()
    assert looking.damaged == (broken.name,)
    assert len(looking.segments()) == 2
