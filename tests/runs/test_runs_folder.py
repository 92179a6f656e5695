"""The run folder: creating, opening, locking, damage, a full disk, and reading."""

import errno
import math
import os
import subprocess
import sys
import tomllib
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from runs_toy_campaign import MANIFEST, NEURONS, SHARDS, campaign, make, merged, shard

from skidpad.core.errors import BadRunError, UnknownNameError
from skidpad.drives.drive import Problem, ProblemKind
from skidpad.runs.folder import Run
from skidpad.runs.records import Segment, ShardResult, worst_first


@pytest.fixture
def run(tmp_path):
    run = make(tmp_path / "run")
    for index in (0, 2, 1):
        run.commit(shard("mutants", index))
    run.commit(shard("originals", 0))
    return run


def segment(run, phase, index):
    (path,) = (run.path / "segments").glob(f"{phase}-{index:06d}-*.parquet")
    return path


def cut(path):
    path.write_bytes(path.read_bytes()[:-7])


def alter(path):
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def empty(path):
    path.write_bytes(b"")


# Creating and opening


def test_settings_and_manifest_come_back(tmp_path):
    config = {"drive": {"path": "C:\\frames\\日本", "every": 2}, "epsilon_deg": 5.0, "label": None, "names": ["a", "b"], "strict": True}
    make(tmp_path / "a" / "b", config)
    run = Run.open(tmp_path / "a" / "b")
    assert run.config == {"drive": {"path": "C:\\frames\\日本", "every": 2}, "epsilon_deg": 5.0, "names": ["a", "b"], "strict": True}
    assert tomllib.loads((run.path / "config.toml").read_text()) == run.config
    assert replace(run.manifest, files={}) == MANIFEST
    assert not run.is_finished
    assert run.phases() == ()


@pytest.mark.parametrize("value", [Path("x"), b"x", {1, 2}, [None]])
def test_settings_are_plain(tmp_path, value):
    with pytest.raises(TypeError, match=r"^a\.b must be a plain value"):
        make(tmp_path / "run", {"a": {"b": value}})
    assert not (tmp_path / "run").exists()


def test_settings_that_are_not_unicode_are_refused(tmp_path):
    with pytest.raises(BadRunError, match="not Unicode"):
        make(tmp_path / "run", {"drive": "\udcff"})


def test_a_folder_in_use_is_not_overwritten(run, tmp_path):
    with pytest.raises(BadRunError, match=r"not empty; go on with that run \(skidpad resume .*\) or choose another --out"):
        make(run.path)
    other = tmp_path / "mine"
    other.mkdir()
    (other / "config.toml").write_text("precious = 1")
    with pytest.raises(BadRunError, match="not empty"):
        make(other)
    assert (other / "config.toml").read_text() == "precious = 1"


def test_an_empty_folder_is_taken(tmp_path):
    (tmp_path / "run").mkdir()
    make(tmp_path / "run")
    assert Run.open(tmp_path / "run").completed("mutants") == set()


def test_a_folder_whose_making_was_stopped_is_made_again(tmp_path):
    path = make(tmp_path / "run").path
    (path / "manifest.json").unlink()
    with pytest.raises(BadRunError, match="stopped while it was made; start the command again"):
        Run.open(path)
    make(path, {"second": 1})
    assert Run.open(path).config == {"second": 1}


def test_a_run_under_a_file_is_refused(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(BadRunError, match="cannot make the run folder"):
        make(tmp_path / "file" / "run")


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("manifest.json", None, "not a skidpad run: it has no manifest.json"),
        ("config.toml", None, "not a skidpad run: it has no config.toml"),
        ("manifest.json", "{", "manifest of .* is damaged"),
        ("manifest.json", "[]", "not a skidpad run: its manifest.json was written by something else"),
        ("manifest.json", '{"name": "my web app"}', "written by something else"),
        ("manifest.json", '{"skidpad_run": 99, "versions": {"skidpad": "7.1"}}', r"newer skidpad \(7.1, run format 99; .*upgrade"),
        ("manifest.json", '{"skidpad_run": 2, "versions": []}', "manifest of .* is damaged"),
        ("manifest.json", '{"skidpad_run": 1, "versions": {"skidpad": "0.1.0"}}', r"older skidpad \(0.1.0, run format 1; .*campaign again"),
        ("schema.json", "{", "columns of .* are damaged .* restore schema.json"),
        ("schema.json", '{"columns": []}', "columns of .* are damaged .*need the column case_id"),
        ("schema.json", '{"columns": [{"name": "case_id", "type": "map", "nullable": false}]}', "columns of .* are damaged"),
        ("config.toml", "= 1", "settings of .* are damaged"),
    ],
)
def test_folders_that_are_no_run_are_refused(tmp_path, name, content, message):
    path = make(tmp_path / "run").path
    (path / ".skidpad-lock").unlink()
    (path / name).unlink() if content is None else (path / name).write_text(content)
    with pytest.raises(BadRunError, match=message):
        Run.open(path)


def test_a_missing_folder_is_named(tmp_path):
    with pytest.raises(BadRunError, match=r"no run folder at .*nowhere"):
        Run.open(tmp_path / "nowhere")


# One writer


def test_a_second_writer_is_refused_and_readers_are_not(run):
    with run.lock():
        with run.lock():  # the same object may nest
            pass
        other = Run.open(run.path)
        assert other.records().equals(run.records())
        with pytest.raises(BadRunError, match=rf"in use by another skidpad \(process {os.getpid()}\); wait until it ends$"):
            other.commit(shard("mutants", 3))
        with pytest.raises(BadRunError, match="in use"), other.lock():
            pass
        with pytest.raises(BadRunError, match=rf"in use .*process {os.getpid()}.* wait until it ends or choose another --out"):
            make(run.path)
    other.commit(shard("mutants", 3))
    assert other.completed("mutants") == {0, 1, 2, 3}


def test_another_process_is_refused_too(run):
    code = f"from pathlib import Path; from skidpad.runs.folder import Run\nwith Run.open(Path({str(run.path)!r})).lock(): pass"
    with run.lock():
        locked_out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert locked_out.returncode == 1
    assert "is in use by another skidpad" in locked_out.stderr


def test_an_error_lets_go_of_the_lock(run):
    with pytest.raises(ZeroDivisionError), run.lock():
        raise ZeroDivisionError
    with Run.open(run.path).lock():
        pass


def test_a_reader_sees_new_shards_after_a_refresh(run):
    reader = Run.open(run.path)
    run.commit(shard("mutants", 7))
    assert 7 not in reader.completed("mutants")
    reader.refresh()
    assert 7 in reader.completed("mutants")


# Damage


@pytest.mark.parametrize("harm", [cut, alter, empty])
def test_a_damaged_segment_is_set_aside_and_computed_again(run, harm):
    whole = run.records("mutants")
    victim = segment(run, "mutants", 2)
    good = victim.read_bytes()
    harm(victim)
    opened = Run.open(run.path)
    assert opened.completed("mutants") == {0, 1}
    assert opened.damaged == (victim.name + ".damaged",)
    assert opened.damage() == f"1 file of findings was damaged; `skidpad resume {run.path}` computes it again"
    assert opened.damage("it is lost") == "1 file of findings was damaged; it is lost"
    assert not victim.exists()
    assert opened.records("mutants").num_rows == 40
    opened.commit(shard("mutants", 2))
    assert victim.read_bytes() == good
    assert (opened.damaged, opened.damage()) == ((), ""), "what is computed again is whole, though the old file lies there still"
    assert Run.open(run.path).records("mutants").equals(whole)


def test_a_damaged_segment_is_only_skipped_beside_a_writer(run):
    victim = segment(run, "mutants", 1)
    with run.lock():
        alter(victim)
        reader = Run.open(run.path)
        assert reader.completed("mutants") == {0, 2}
        assert reader.damaged == (victim.name,)
        assert victim.exists()


def test_damage_in_the_middle_of_a_phase_that_builds_on_itself_is_mended(tmp_path):
    run = make(tmp_path / "run")
    shards = {"guided": 6, "mutants": 2}
    campaign(run, shards=shards)
    names = sorted(path.name for path in (run.path / "segments").iterdir())
    cut(segment(run, "guided", 3))
    opened = Run.open(run.path)
    assert not opened.is_finished
    campaign(opened, shards=shards)
    assert opened.is_finished
    assert sorted(path.name for path in (run.path / "segments").glob("*.parquet")) == names


def test_damage_after_opening_is_one_clear_error(run):
    opened = Run.open(run.path)
    segment(run, "mutants", 0).write_bytes(b"PAR1")
    with pytest.raises(BadRunError, match="damaged after it was checked"):
        opened.records()


def test_torn_temporary_files_are_removed_by_the_writer_alone(run):
    torn = [run.path / folder / ".x.tmp" for folder in (".", "segments", "state")]
    for path in torn:
        path.write_bytes(b"half")
    opened = Run.open(run.path)
    assert all(path.exists() for path in torn)
    with opened.lock():
        assert not any(path.exists() for path in torn)
    assert opened.records().equals(run.records())


def test_foreign_files_among_the_segments_are_left_alone(run):
    for name in ("notes.txt", "mutants-1-zz.parquet", ".DS_Store"):
        (run.path / "segments" / name).write_text("mine")
    opened = Run.open(run.path)
    with opened.lock():
        assert opened.records().equals(run.records())
    assert opened.damaged == ()
    assert (run.path / "segments" / "notes.txt").read_text() == "mine"


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT])
def test_a_full_disk_keeps_what_is_kept(run, monkeypatch, code):
    def full(descriptor):
        raise OSError(code, os.strerror(code))

    before = sorted((run.path / "segments").iterdir())
    with monkeypatch.context() as patch:
        patch.setattr("skidpad.core.files.os.fsync", full)
        with pytest.raises(BadRunError, match=r"the disk is full; 4 shards are kept; free some space .* skidpad resume "):
            run.commit(shard("mutants", 3))
    assert sorted((run.path / "segments").iterdir()) == before
    run.commit(shard("mutants", 3))
    assert Run.open(run.path).completed("mutants") == {0, 1, 2, 3}


def test_another_write_error_is_told_with_its_reason(run, monkeypatch):
    def fail(descriptor):
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr("skidpad.core.files.os.fsync", fail)
    with pytest.raises(BadRunError, match="failed: Input/output error"):
        run.write_state("summary.json", b"{}")
    assert run.read_state("summary.json") is None


# Committing and reading


def test_the_order_of_commits_does_not_matter(run):
    assert run.records("mutants")["frame_index"].to_pylist() == list(range(60))
    assert run.phases() == ("mutants", "originals")
    assert run.records()["frame_id"][0].as_py().startswith("mutants/")


def test_a_shard_can_be_committed_again_only_as_itself(run):
    before = sorted((run.path / "segments").iterdir())
    run.commit(shard("mutants", 1))
    assert sorted((run.path / "segments").iterdir()) == before
    with pytest.raises(BadRunError, match=r"shard 1 of phase 'mutants' is kept .* not deterministic"):
        run.commit(ShardResult("mutants", 1, shard("mutants", 5).records))


def test_columns_and_streaming_agree_with_the_whole(run):
    whole = run.records()
    assert run.records(columns=["excess", "case_id"]).equals(whole.select(["excess", "case_id"]))
    assert pa.concat_tables(run.iter_records()).combine_chunks().equals(whole)
    assert [table.num_rows for table in run.iter_records("mutants")] == [20, 20, 20]
    assert run.records("never").num_rows == 0
    assert run.records("never").schema.equals(whole.schema)
    with pytest.raises(UnknownNameError, match="did you mean 'recipe'"):
        run.records(columns=["recipes"])


@pytest.mark.parametrize("limit", [None, 0, 1, 7, 10_000])
def test_findings_are_worst_first_and_limited(run, limit):
    whole = run.records()
    by_hand = worst_first(whole.filter(whole["violated"]), limit)
    assert run.findings(limit).equals(by_hand)
    assert run.findings(limit, columns=["frame_id"]).equals(by_hand.select(["frame_id"]))
    assert run.findings(phase="originals").num_rows == sum(run.records("originals")["violated"].to_pylist())


def test_limited_findings_are_right_when_they_are_cut_on_the_way(tmp_path):
    run = make(tmp_path / "run")
    for index in range(5):
        run.commit(shard("mutants", index, rows=1200))
    assert run.findings(3).equals(run.findings().slice(0, 3))


def test_find_takes_any_prefix_that_is_unique(run):
    ids = run.records()["case_id"].to_pylist()
    row = run.records().to_pylist()[17]
    length = next(n for n in range(1, 13) if sum(other.startswith(ids[17][:n]) for other in ids) == 1)
    for digits in range(length, 13):
        record = run.find(ids[17][:digits])
        assert (record.case_id, record.frame_id, record.excess) == (ids[17], row["frame_id"], row["excess"])
        assert record.recipe.to_json() == row["recipe"]


def test_find_refuses_what_is_not_one_case(run):
    ids = run.records()["case_id"].to_pylist()
    common = next(digit for digit in "0123456789abcdef" if sum(other.startswith(digit) for other in ids) > 1)
    with pytest.raises(UnknownNameError, match=rf"cases in .* begin with '{common}' .*give more digits"):
        run.find(common)
    unknown = next(text for text in (f"{number:03x}" for number in range(4096)) if not any(other.startswith(text) for other in ids))
    with pytest.raises(UnknownNameError, match=rf"no case in .* begins with '{unknown}'"):
        run.find(unknown)
    for wrong in ("", "xyz", "ABC", "a" * 13, "a%"):
        with pytest.raises(UnknownNameError, match="a case id is up to 12 digits"):
            run.find(wrong)


def test_a_case_met_twice_is_still_one_case(run):
    run.commit(ShardResult("guided", 0, pa.concat_tables([run.records("originals")] * 2)))
    first = run.records("originals").to_pylist()[0]
    assert run.find(first["case_id"]).frame_id == first["frame_id"]


def test_coverage_is_merged_by_the_callers_function(run):
    by_hand = np.zeros(NEURONS, bool)
    for index in range(3):
        before = merged(run, "mutants", index)
        np.testing.assert_array_equal(before, by_hand)
        by_hand |= np.unpackbits(np.frombuffer(shard("mutants", index).coverage["NC"], np.uint8)).astype(bool)
    np.testing.assert_array_equal(merged(run, "mutants"), by_hand)
    assert by_hand.sum() > merged(run, "mutants", 1).sum()
    assert run.coverage("never", bytes, lambda a, b: a) == {}


def test_problems_are_listed_once_and_in_order(run):
    twice = Problem(ProblemKind.CORRUPT, "broken 0", "cut off")
    assert run.problems() == (twice,)  # both phases met it
    other = Problem(ProblemKind.NAN_LABEL, "z", "")
    run.commit(ShardResult("originals", 1, shard("originals", 1).records, {}, (other, twice)))
    assert run.problems() == (twice, other)


def test_state_is_replaced_whole(run):
    assert run.read_state("summary.json") is None
    run.write_state("summary.json", b"1")
    run.write_state("summary.json", b"22")
    assert Run.open(run.path).read_state("summary.json") == b"22"
    for wrong in ("../config.toml", "a/b", "", ".hidden", "Ä"):
        with pytest.raises(ValueError, match="a state's name"):
            run.write_state(wrong, b"")


def test_finished_means_every_shard_is_there(run):
    with pytest.raises(BadRunError, match=r"not finished: it lacks shards of mutants; go on with: skidpad resume"):
        run.finish({"mutants": 4, "originals": 1})
    assert not run.is_finished
    run.finish({"mutants": 3, "originals": 1})
    assert Run.open(run.path).is_finished
    cut(segment(run, "mutants", 0))
    assert not Run.open(run.path).is_finished


def test_two_runs_of_one_campaign_have_equal_bytes(tmp_path):
    shards = dict.fromkeys(SHARDS, 3)
    runs = [make(tmp_path / name) for name in ("a", "b")]
    for run in runs:
        campaign(run, shards=shards)
    first, second = ({p.relative_to(run.path): p.read_bytes() for p in run.path.rglob("*") if p.is_file()} for run in runs)
    assert first == second
    assert not math.isnan(runs[0].findings(1)["excess"][0].as_py())


def test_a_look_at_the_folder_never_shows_other_threads_a_part_of_it(run, monkeypatch):
    whole = len(run.segments())
    seen: list[int] = []
    from_path = Segment.from_path

    def watched(path):
        seen.append(len(run.segments()))
        return from_path(path)

    monkeypatch.setattr(Segment, "from_path", watched)
    run.refresh()
    assert whole > 1
    assert seen == [whole] * whole
    assert len(run.segments()) == whole
