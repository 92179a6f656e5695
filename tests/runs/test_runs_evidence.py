"""A run that was changed, damaged or made by a stranger: it is said, nothing hangs, and nothing outside the folder is touched."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from hashlib import sha256
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from runs_toy_campaign import campaign, make, shard

from skidpad.core.errors import BadRunError, WorkersError
from skidpad.core.files import is_held
from skidpad.core.settings import read_toml
from skidpad.kinds.shards import run_shards
from skidpad.runs.folder import Run
from skidpad.runs.records import Segment, ShardResult
from skidpad.runs.remote import MARK, Mirror
from skidpad.runs.tags import Tag, Tags

SHARDS = {"mutants": 3, "guided": 2}


@pytest.fixture
def run(tmp_path: Path) -> Run:
    run = make(tmp_path / "run", {"toy": True, "tolerance": 10.0})
    campaign(run, shards=SHARDS)
    return run


def change(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


def put_segment(run: Run, data: bytes, name: str = "mutants-000003") -> None:
    """Adds a segment whose name carries the hash of its content, as one who means to mislead would."""
    (run.path / "segments" / f"{name}-{sha256(data).hexdigest()[:16]}.parquet").write_bytes(data)


def written(table: pa.Table, **metadata: str) -> bytes:
    sink = pa.BufferOutputStream()
    with pq.ParquetWriter(sink, table.schema, store_schema=False) as writer:
        writer.write_table(table)
        writer.add_key_value_metadata({f"skidpad.{name}": value for name, value in metadata.items()})
    return bytes(sink.getvalue())


# What was changed


@pytest.mark.parametrize(
    ("file", "old", "new"),
    [
        ("config.toml", "tolerance = 10.0", "tolerance = 90.0"),
        ("schema.json", '"picture"', '"pixture"'),
        ("manifest.json", '"seed": 7', '"seed": 8'),
        ("manifest.json", '"subject": "ab"', '"subject": "ac"'),
    ],
)
def test_a_file_that_was_changed_is_named_and_the_run_is_not_gone_on_with(run: Run, file: str, old: str, new: str) -> None:
    assert Run.open(run.path).integrity.state == "unchanged"
    change(run.path / file, old, new)
    opened = Run.open(run.path)
    assert opened.integrity.altered == (file,)
    assert opened.integrity.state == f"changed: {file}"
    with pytest.raises(BadRunError, match=rf"cannot go on .*{file} was changed after the run was made.* another folder"):
        campaign(opened, shards=SHARDS)
    with pytest.raises(BadRunError, match="was changed after the run was made"):
        opened.write_state("summary.json", b"{}")


def test_white_space_in_the_settings_is_a_change_too(run: Run) -> None:
    (run.path / "config.toml").write_bytes((run.path / "config.toml").read_bytes() + b"\n")
    assert Run.open(run.path).integrity.altered == ("config.toml",)


def test_a_run_from_before_there_were_hashes_is_read_and_says_that_it_cannot_be_checked(run: Run) -> None:
    path = run.path / "manifest.json"
    content = json.loads(path.read_text())
    path.write_text(json.dumps({name: value for name, value in content.items() if name not in {"files", "check"}}))
    opened = Run.open(run.path)
    assert (opened.integrity.altered, opened.integrity.state) == ((), "cannot be checked")
    assert "cannot be checked" in opened.integrity.doubt
    assert opened.is_finished
    campaign(opened, shards=SHARDS)  # and may be gone on with
    assert set(json.loads(opened.manifest.to_json())) == set(content) - {"files", "check"}


def test_half_of_the_hashes_is_a_change(run: Run) -> None:
    path = run.path / "manifest.json"
    content = json.loads(path.read_text())
    del content["files"]
    path.write_text(json.dumps(content))
    assert set(Run.open(run.path).integrity.altered) == {"manifest.json", "config.toml", "schema.json"}


# The mark of a finished run


@pytest.mark.parametrize(
    "mark", ["", "garbage", "7", "[]", "null", '{"mutants": "3"}', '{"mutants": -1}', '{"mutants": 1.5}', "[" * 100_000]
)
def test_a_mark_that_cannot_be_read_is_damage_and_mended_by_going_on(run: Run, mark: str) -> None:
    (run.path / "state" / "finished.json").write_text(mark)
    opened = Run.open(run.path)
    assert not opened.is_finished
    assert opened.damage() == (f"the mark of a finished run, state/finished.json, is damaged; `skidpad resume {run.path}` writes it again")
    campaign(opened, shards=SHARDS)
    assert (opened.is_finished, opened.damage()) == (True, "")


@pytest.mark.parametrize(
    "mark", [{}, {"mutants": 3}, {"mutants": 3, "guided": 1}, {"mutants": 10**12, "guided": 2}, {"mutants": 3, "guided": 2, "x": 10**9}]
)
def test_a_mark_must_name_the_shards_that_are_there(run: Run, mark: dict[str, int]) -> None:
    (run.path / "state" / "finished.json").write_text(json.dumps(mark))
    code = (
        "import resource\nfrom pathlib import Path\nfrom skidpad.runs.folder import Run\n"
        f"run = Run.open(Path({str(run.path)!r}))\n"
        "resource.setrlimit(resource.RLIMIT_AS, (1 << 33, 1 << 33))\nprint(run.is_finished)"
    )
    asked = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=60)
    assert asked.stdout == "False\n", asked.stderr
    assert Run.open(run.path).damage() == ""


# What was lost


def test_a_lost_manifest_is_told_from_a_run_that_was_never_made(run: Run) -> None:
    (run.path / "manifest.json").unlink()
    for attempt in (lambda: Run.open(run.path), lambda: make(run.path)):
        with pytest.raises(BadRunError, match=r"has lost its manifest\.json, but holds 5 shards of findings; restore manifest\.json"):
            attempt()
    shutil.rmtree(run.path / "segments")
    with pytest.raises(BadRunError, match="stopped while it was made; start the command again"):
        Run.open(run.path)


def test_a_folder_that_was_removed_underneath_keeps_nothing(run: Run) -> None:
    with run.lock():
        shutil.rmtree(run.path)
        with pytest.raises(
            BadRunError, match=r"was removed while the run was under way, and its findings with it; start the command again"
        ):
            run.commit(shard("mutants", 3))


def test_shards_that_were_removed_underneath_are_not_counted(run: Run) -> None:
    with run.lock():
        shutil.rmtree(run.path / "segments")
        with pytest.raises(BadRunError, match="0 shards are kept"):
            run.commit(shard("mutants", 3))


def test_a_phase_that_is_stopped_counts_what_is_there_and_not_what_was(run: Run) -> None:
    def lose(indices: Sequence[int]) -> Iterator[ShardResult]:
        shutil.rmtree(run.path / "segments")
        raise WorkersError("all workers are gone")
        yield

    with pytest.raises(WorkersError, match="all workers are gone; 0 of 9 shards of phase 'mutants' are kept"):
        run_shards(run, "mutants", 9, lose)


def test_damaged_tags_are_counted_and_said(run: Run) -> None:
    tags = Tags.of(run.path)
    tags.put("ab", Tag.FALSE_ALARM)
    tags.put("cd", Tag.REAL_FAULT)
    assert (tags.damaged, tags.damage()) == (0, "")
    change(tags.journal.path, '"ab"', '"ac"')
    assert tags.current() == {"cd": Tag.REAL_FAULT}
    assert tags.damaged == 1
    assert tags.damage().startswith(f"1 line is damaged in the tags {tags.journal.path}, and what it said is lost; remove it")


# What a stranger may send


DEEP = ["[" * 200_000, '{"a":' * 200_000, '{"skidpad_run": 2, "seed": 1e999, "versions": {}}']


@pytest.mark.parametrize("file", ["manifest.json", "schema.json"])
@pytest.mark.parametrize("text", DEEP)
def test_json_without_end_is_one_sentence(run: Run, file: str, text: str) -> None:
    (run.path / file).write_text(text)
    with pytest.raises(BadRunError, match=rf"damaged .*restore {file} from a copy"):
        Run.open(run.path)


@pytest.mark.parametrize(
    "text",
    [
        "a = " + "[" * 50_000,
        "a = " + "{a=" * 50_000,
        ".".join(["a"] * 200_000) + " = 1",
        "a = " + "[" * 40 + "]" * 40,
        "[" + "a." * 100_000 + "a]",
    ],
)
def test_settings_nested_without_end_are_one_sentence(run: Run, text: str) -> None:
    (run.path / "config.toml").write_text(text)
    with pytest.raises(BadRunError, match=r"settings of .* are damaged .*restore config\.toml from a copy"):
        Run.open(run.path)


def test_settings_as_deep_as_any_are_read() -> None:
    text = 'a = "' + "x.y." * 10 + '"\nb.c.d = [[1.5, 2.5], [' + ", ".join(["0.1"] * 100) + "]]\n"
    assert read_toml(text)["b"]["c"]["d"][0] == [1.5, 2.5]


@pytest.mark.parametrize(
    "name", ["manifest.json", "config.toml", "schema.json", "state/finished.json", "state/tags.jsonl", "segments/{segment}"]
)
@pytest.mark.parametrize("kind", ["pipe", "link", "folder"])
def test_pipes_links_and_folders_in_place_of_files_are_refused_at_once(run: Run, name: str, kind: str, tmp_path: Path) -> None:
    path = run.path / name.format(segment=run.segments()[0].path.name)
    outside = tmp_path / "outside"
    outside.write_bytes(path.read_bytes() if path.exists() else b"")
    path.unlink(missing_ok=True)
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "link":
        path.symlink_to(outside)
    else:
        path.mkdir()
    with pytest.raises(BadRunError, match=rf"{path.name} is a link or no plain file, and is not opened"):
        (Run.open(run.path).is_finished, Tags.of(run.path).current())


@pytest.mark.parametrize("name", ["segments", "state"])
def test_a_folder_that_leads_elsewhere_is_refused(run: Run, name: str, tmp_path: Path) -> None:
    (run.path / name).rename(tmp_path / "elsewhere")
    (tmp_path / "elsewhere" / ".mine.tmp").write_text("precious")
    (run.path / name).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(BadRunError, match="is not a folder, or a link to one"):
        Run.open(run.path)
    assert (tmp_path / "elsewhere" / ".mine.tmp").exists()


def test_a_file_without_end_is_not_read(run: Run) -> None:
    with (run.path / "config.toml").open("wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(BadRunError, match=rf"config\.toml has {1 << 40} bytes, and at most"):
        Run.open(run.path)


def test_a_lock_that_is_a_link_harms_no_other_file(run: Run, tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.write_text("mine")
    lock = run.path / ".skidpad-lock"
    lock.unlink(missing_ok=True)
    lock.symlink_to(precious)
    with pytest.raises(BadRunError, match="is a link or no plain file"), Run.open(run.path).lock():
        pass
    assert precious.read_text() == "mine"
    lock.unlink()
    os.mkfifo(lock)
    assert not is_held(run.path)


def test_a_temporary_name_that_is_a_link_harms_no_other_file(run: Run, tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.write_text("mine")
    with run.lock():
        (run.path / "state" / ".summary.json.tmp").symlink_to(precious)
        run.write_state("summary.json", b"{}")
    assert (precious.read_text(), run.read_state("summary.json")) == ("mine", b"{}")


def test_a_url_in_a_strangers_folder_is_not_followed(run: Run, tmp_path: Path) -> None:
    (run.path / MARK).write_text(f"file://{tmp_path}/elsewhere\n")
    assert Mirror.of(run.path) is None
    assert Run.open(run.path).place == str(run.path)


def test_a_segment_that_unfolds_without_end_is_not_read(run: Run) -> None:
    rows = 3_000_000
    same = {
        column.name: pa.array([0] * 1, pa.int8()).cast(column.type) if not pa.types.is_string(column.type) else pa.array(["x"])
        for column in run.schema
        if column.name != "activated"
    }
    table = pa.table(
        [pa.repeat(same[column.name][0], rows) if column.name in same else pa.nulls(rows, column.type) for column in run.schema],
        schema=run.schema,
    )
    put_segment(run, data := written(table, shard="mutants 3", coverage="{}", problems="[]"))
    assert len(data) < rows
    with pytest.raises(BadRunError, match=rf"was not written for this run: its {len(data)} bytes say that they hold {rows} records"):
        Run.open(run.path).records()


def test_a_segment_of_other_columns_is_not_read(run: Run) -> None:
    put_segment(run, written(pa.table({"case_id": ["ab"], "excess": [2.0]}), shard="mutants 3", coverage="{}", problems="[]"))
    with pytest.raises(
        BadRunError, match=r"was not written for this run: its columns are case_id, excess, and those of the run case_id, frame"
    ):
        Run.open(run.path).records(columns=["case_id", "violated"])


def test_a_segment_under_another_ones_name_is_not_read(run: Run) -> None:
    put_segment(run, run.segments()[-1].path.read_bytes())
    with pytest.raises(BadRunError, match=r"was not written for this run: it holds shard 'mutants 2'"):
        Run.open(run.path).records()


@pytest.mark.parametrize(
    ("coverage", "problems"),
    [
        ('{"NC": [1000000000000000, "KLUv/SAAAQAA"]}', "[[1]]"),
        ('{"NC": [1e999, ""]}', '[["NO_SUCH_KIND", "", ""]]'),
        ("[" * 100_000, "[" * 100_000),
        ('{"NC": ["x", 7]}', "{}7"),
        ("null", "7"),
    ],
)
def test_coverage_and_problems_that_are_not_ours_are_one_sentence(run: Run, coverage: str, problems: str) -> None:
    put_segment(run, written(shard("mutants", 3).records, shard="mutants 3", coverage=coverage, problems=problems))
    opened = Run.open(run.path)
    with pytest.raises(BadRunError, match="its coverage cannot be read"):
        opened.coverage("mutants", bytes, lambda a, b: a)
    with pytest.raises(BadRunError, match="its list of broken frames cannot be read"):
        opened.problems()


def test_what_is_checked_of_a_segment_is_true_of_every_one_that_is_written(tmp_path: Path) -> None:
    schema = pa.schema([*make(tmp_path / "a").schema, pa.field("more", pa.list_(pa.float64()))])
    run = Run.create(tmp_path / "b", {}, make(tmp_path / "c").manifest, schema)
    table = shard("mutants", 0).records
    run.commit(
        ShardResult("mutants", 0, table.append_column(schema.field("more"), pa.array([[1.0]] * table.num_rows, pa.list_(pa.float64()))))
    )
    assert Run.open(run.path).records().num_rows == table.num_rows
    assert Segment.from_path(run.segments()[0].path).coverage() == {}
