"""What all tests share: timings never fail a test, and the same examples are tried every time."""

import os
from pathlib import Path

import pytest
from hypothesis import settings

settings.register_profile("skidpad", deadline=None, derandomize=True)
settings.load_profile("skidpad")


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of recorded drives and third-party networks, which is not part of the project."""
    folder = Path(os.environ.get("SKIDPAD_SHARED_DATA", Path(__file__).parents[1] / "shared" / "data"))
    if not folder.is_dir():
        pytest.skip(f"no recorded data at {folder}; set SKIDPAD_SHARED_DATA")
    return folder
