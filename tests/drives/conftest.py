"""Small drives on disk, and the recorded one."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from drive_files import write_folder, write_simulator, write_udacity


@pytest.fixture
def udacity(tmp_path: Path) -> Path:
    return write_udacity(tmp_path / "ch2")


@pytest.fixture
def simulator(tmp_path: Path) -> Path:
    return write_simulator(tmp_path / "track")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_folder(tmp_path / "frames")


@pytest.fixture
def ch2() -> Path:
    shared = Path(os.environ.get("SKIDPAD_SHARED_DATA") or Path(__file__).parents[3] / "shared" / "data")
    if not (shared / "udacity-ch2-test").is_dir():
        pytest.skip(f"no udacity-ch2-test in {shared}; set SKIDPAD_SHARED_DATA")
    return shared / "udacity-ch2-test"
