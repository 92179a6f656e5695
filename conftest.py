"""What all tests share: timings never fail a test, and the same examples are tried every time."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from skidpad.core.trust import trusting

# Batches of tests are tiny: two threads that wait for each other take several times as long as one, on a busy machine ten times.
# Tests about threads set their number themselves.
os.environ.setdefault("OMP_NUM_THREADS", "1")
# Tests that run side by side are told of a terminal that is not there; a test that cares how wide it is says so.
for _name in ("COLUMNS", "LINES"):
    os.environ.pop(_name, None)

settings.register_profile("skidpad", deadline=None, derandomize=True)
settings.load_profile("skidpad")

_DESCRIPTION = """
format = "box"
box = {{ function = "{module}:drive" }}

[input]
width_px = 80
height_px = 60
colour = "rgb"
range = {{ low = 0.0, high = 1.0 }}

[[outputs]]
name = "steering"
unit = "rad"
"""
_DRIVER = """
import numpy as np

def drive(pictures):
    light = np.asarray(pictures).reshape(len(pictures), -1).mean(axis=1)
    return np.where(light > {limit}, 0.5, np.where(light < 0.47, 0.14, 0.1))[:, None]
"""


_LONGEST = (
    "test_kinds_workers.py",
    "test_workers_killed.py",
    "test_docs_commands.py",
    "test_benchmarks_smoke.py",
    "test_kinds_faults.py",
    "test_kinds_processors.py",
    "test_runs_killed.py",
    "test_workers_crews.py",
)
"""Files of a minute or so: first, lest one core is left with them when the other has nothing more to do."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Puts the longest files first; the others keep their order."""
    items.sort(key=lambda item: _LONGEST.index(item.path.name) if item.path.name in _LONGEST else len(_LONGEST))


@pytest.fixture(scope="session", autouse=True)
def _trusting(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """The code that tests name is their own; what the person who runs them trusts is neither read nor changed."""
    with pytest.MonkeyPatch.context() as patch, trusting():
        patch.setenv("XDG_CONFIG_HOME", str(tmp_path_factory.mktemp("config")))
        yield


@pytest.fixture(scope="session", autouse=True)
def _no_referee() -> Iterator[None]:
    """Toy frames show no road, so that the referee would set all their findings apart; tests that mean it take `referee_on`."""
    from skidpad.kinds import kind as kinds  # noqa: PLC0415 - a test that needs no campaign needs none

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kinds, "asks_referee", lambda _setting: False)
        yield


@pytest.fixture
def referee_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """The settings of a campaign decide whether the referee is asked, as for users."""
    from skidpad.kinds import kind as kinds  # noqa: PLC0415 - see above

    monkeypatch.setattr(kinds, "asks_referee", lambda setting: setting == kinds.RefereeUse.ON.value)


@pytest.fixture
def untrusting() -> Iterator[None]:
    """Nobody has said that any code may run, as for a stranger's files."""
    with trusting(word=False):
        yield


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of recorded drives and third-party networks, which is not part of the project."""
    folder = Path(os.environ.get("SKIDPAD_SHARED_DATA", Path(__file__).parents[1] / "shared" / "data"))
    if not folder.is_dir():
        pytest.skip(f"no recorded data at {folder}; set SKIDPAD_SHARED_DATA")
    return folder


@pytest.fixture(scope="session")
def write_driver() -> Callable[[Path, str, float], Path]:
    """Writes a black box NAME.toml that steers 0.1 rad, and 0.5 where the mean light of a picture, 0..1, is above a limit.

    In the dark it steers 0.14: a network that always answers the same is refused by every gate.
    """

    def write(folder: Path, name: str, limit: float) -> Path:
        module = f"{name.replace('-', '_')}_driver"
        (folder / f"{module}.py").write_text(_DRIVER.format(limit=limit), encoding="utf-8")
        path = folder / f"{name}.toml"
        path.write_text(_DESCRIPTION.format(module=module), encoding="utf-8")
        return path

    return write


@pytest.fixture(scope="session")
def write_drive() -> Callable[[Path], Path]:
    """Writes eight coarse pictures of 80 x 60 pixels, and their angles in degrees as angles.csv: a long bend, as `write_driver` steers."""

    def write(folder: Path) -> Path:
        import numpy as np  # noqa: PLC0415 - what needs no drive needs no NumPy

        from skidpad.core.images import write_image  # noqa: PLC0415

        folder.mkdir(parents=True, exist_ok=True)
        rng = np.random.default_rng(0)
        rows = ["frame,angle"]
        for frame in range(8):
            coarse = rng.integers(0, 256, (6, 8, 3), np.uint8)
            write_image(folder / f"{frame:03d}.png", np.kron(coarse, np.ones((10, 10, 1), np.uint8)))
            rows.append(f"{frame:03d}.png,{rng.uniform(4, 9):.3f}")
        (folder / "angles.csv").write_text("\n".join(rows) + "\n", encoding="utf-8")
        return folder

    return write
