"""Small drives on disk, and the recorded one."""

from __future__ import annotations

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
def ch2(shared_data: Path) -> Path:
    return shared_data / "udacity-ch2-test"
