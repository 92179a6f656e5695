"""What the commands say of workers, damage, full disks and runs on servers."""

import errno
import re
import sys
from pathlib import Path

import fsspec
import pytest

from skidpad.cli.runs import _workers
from skidpad.page.terminal import warn
from skidpad.runs.workers.processes import Processes

FEW = ("--transforms", "blur", "--within-deg", "0.0001")


def test_damaged_findings_are_told_of_until_they_are_computed_again(skidpad, subject: Path, drive_text: str, tmp_path: Path) -> None:
    out = tmp_path / "run"
    assert skidpad("test", subject, drive_text, "--out", out, *FEW).code == 0
    victim = next((out / "segments").glob("grid-*.parquet"))
    victim.write_bytes(victim.read_bytes()[:100])
    mended_by = f"1 file of findings was damaged; `skidpad resume {out}` computes it again"
    for _ in range(2):
        told = skidpad("report", out)
        assert (told.code, mended_by in told.err) == (0, True)
        assert mended_by in (out / "report.html").read_text(encoding="utf-8")
    refused = skidpad("gate", out, "--max-rate", "1")
    assert (refused.code, f"is not finished, so its rates are not final; {mended_by}" in refused.err) == (2, True)
    resumed = skidpad("resume", out)
    assert (resumed.code, "1 file of findings was damaged; it is computed again" in resumed.err) == (0, True)
    assert "was damaged" not in skidpad("resume", out).err + skidpad("report", out).err + (out / "report.html").read_text(encoding="utf-8")


def test_a_page_without_room_costs_no_finding(
    skidpad, subject: Path, drive_text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    out = tmp_path / "a run"
    with monkeypatch.context() as patch:
        patch.setattr("skidpad.page.writing.write_atomically", full)
        done = skidpad("test", subject, drive_text, "--out", out, *FEW)
    assert done.code == 2
    assert "No space left on device); free some space; all findings are kept, and the page is written by: skidpad report '" in done.err
    assert "worst finding: skidpad replay" in done.out, "the table is told all the same"
    assert skidpad("report", out).code == 0


@pytest.mark.parametrize(
    ("workers", "message"),
    [
        ("", "--workers is empty; name who computes, as --workers 2, or leave it out"),
        ("ray:", "a Ray cluster is ray, ray:auto, ray:HOST:PORT or ray://HOST:PORT; got 'ray:'"),
        ("ray://foo", "ray://HOST:PORT; got 'ray://foo'"),
        ("ray:foo", "ray:HOST:PORT or ray://HOST:PORT; got 'ray:foo'"),
        ("ray", "a Ray cluster needs the package 'ray'"),
    ],
)
def test_wrong_workers_are_refused_before_a_run_is_begun(
    skidpad, subject: Path, drive_text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, workers: str, message: str
) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    done = skidpad("test", subject, drive_text, "--out", tmp_path / "run", *FEW, "--workers", workers)
    assert (done.code, message in done.err) == (2, True), done.err
    assert not (tmp_path / "run").exists()


def test_deaths_of_workers_are_warned_of() -> None:
    assert _workers("2", {}) == Processes(2, warn)


def test_help_names_every_kind_of_workers_and_the_bundled_network(skidpad) -> None:
    words = re.sub(r"[\s│]+", "", skidpad("test", "--help").out)
    assert "N|ray|ray:auto|ray:HOST:PORT|ray://HOST:PORT" in words
    assert "e.g.model.toml,or`demo`" in words


def test_a_run_on_a_server_is_called_by_its_url(
    skidpad, subject: Path, drive_text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SKIDPAD_CACHE", str(tmp_path / "cache"))
    done = skidpad("test", subject, drive_text, "--out", "memory://told/run", *FEW)
    page = fsspec.filesystem("memory").cat_file("/told/run/report.html").decode()
    fsspec.filesystem("memory").rm("/told", recursive=True)
    assert "skidpad replay memory://told/run " in done.out
    assert "skidpad replay memory://told/run " in page
    assert "skidpad report memory://told/run" in page
    assert str(tmp_path / "cache") not in page
