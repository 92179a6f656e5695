"""Files are written whole or not at all, also by several processes at once."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from skidpad.core.files import write_atomically


def test_two_processes_that_write_the_same_file_do_not_disturb_one_another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, own, forced = tmp_path / "pool.npz", os.getpid(), os.fsync
    begun: list[int] = []

    def another_writes_meanwhile(descriptor: int) -> None:
        if not begun:
            begun.append(descriptor)
            monkeypatch.setattr(os, "getpid", lambda: own + 1)
            write_atomically(path, b"theirs")
            monkeypatch.setattr(os, "getpid", lambda: own)
        forced(descriptor)

    monkeypatch.setattr(os, "fsync", another_writes_meanwhile)
    write_atomically(path, b"ours")
    assert begun
    assert path.read_bytes() == b"ours"
    assert [each.name for each in tmp_path.iterdir()] == ["pool.npz"]
