"""A package that skidpad knows nothing of adds one of each, found by its entry points."""

import subprocess
import sys
from pathlib import Path

PARTS = '''
from dataclasses import dataclass
from typing import ClassVar

import cv2
import numpy as np
import torch

from skidpad.core.stimuli import Params, Real, Recipe, Space
from skidpad.drives.drive import Drive, Problem
from skidpad.drives.readers import READERS
from skidpad.oracles.relations import excess_of
from skidpad.search.pairs import Pairs
from skidpad.worlds.builtin import BuiltInWorld


@dataclass(frozen=True)
class Dusk:
    """Takes light away."""

    space: ClassVar[Space] = Space((Real("depth", 0.0, 0.9, 0.0),), (Params(depth=0.3), Params(depth=0.6)))

    def apply(self, frames, params):
        kept = 1.0 - params.real("depth")
        return (frames * kept).astype("uint8") if isinstance(frames, np.ndarray) else (frames * kept).to(torch.uint8)


@dataclass(frozen=True)
class Near:
    """Answers must be near."""

    tolerance: float = 1.0
    name: ClassVar[str] = "near"

    def excess(self, answers):
        return excess_of(np.abs(answers.mutant - answers.original), self.tolerance, answers.mutant)


@dataclass(frozen=True)
class Positive:
    """One region a neuron: above zero."""

    name: ClassVar[str] = "positive"
    sections: ClassVar[int] = 1
    needs_profile: ClassVar[bool] = False

    def regions(self, values, layers, profile):
        return torch.where(torch.isfinite(values) & (values > 0), 0, -1)

    def reachable(self, neurons, profile):
        return neurons


class Sweep:
    """Every row of every stimulus once; tell() returns nothing."""

    over = (Pairs,)

    def __init__(self, task):
        self._left = [Recipe.of(name, row) for name, each in task.space.stimuli.items() for row in each.space.grid]
        self._asked = 0

    @property
    def done(self):
        return not self._left

    def ask(self, width):
        self._asked = min(width, len(self._left))
        return self._left[: self._asked]

    def tell(self, feedback):
        del self._left[: self._asked]


class Hill:
    """Keeps the best candidate and tries its neighbours: over whatever the task's space is."""

    def __init__(self, task):
        self.task, self.tries, self.best = task, 0, None

    @property
    def done(self):
        return self.tries >= (self.task.budget or 6)

    def ask(self, width):
        self._asked = []
        for number in range(self.tries, min(self.tries + width, self.task.budget or 6)):
            rng = np.random.default_rng([self.task.seed % 1000, number])
            space = self.task.space
            self._asked.append(space.draw(rng) if self.best is None else space.vary(self.best[1], rng, 0.3))
        return self._asked

    def tell(self, feedback):
        for fitness, candidate in zip(feedback, self._asked, strict=True):
            self.tries += 1
            if self.best is None or fitness.value > self.best[0]:
                self.best = fitness.value, candidate


class Ppm(READERS.get("folder")):
    """As a folder of pictures, by another name."""

    def recognises(self, path):
        return (path / "ppm.txt").is_file()


def small_world(width, threads):
    """The built-in world."""
    return BuiltInWorld(width)
'''

POINTS = """
[skidpad.transforms]
gloom = outside_parts:Dusk
absent = no_such_module_of_ours

[skidpad.relations]
near = outside_parts:Near

[skidpad.criteria]
positive = outside_parts:Positive

[skidpad.searches]
sweep = outside_parts:Sweep
hill = outside_parts:Hill

[skidpad.readers]
ppm = outside_parts:Ppm

[skidpad.worlds]
small = outside_parts:small_world
"""

USE = """
import sys
from pathlib import Path

import cv2
import numpy as np

from skidpad.cli.main import main
from skidpad.coverage.criteria import CRITERIA
from skidpad.drives.readers import READERS
from skidpad.oracles.relations import RELATIONS
from skidpad.search.protocol import SEARCHES
from skidpad.stimuli.pictures import TRANSFORMS
from skidpad.testing import check_criterion, check_reader, check_relation, check_search, check_stimulus
from skidpad.worlds.world import WORLDS

folder = Path("pictures")
folder.mkdir()
for number in range(3):
    cv2.imwrite(str(folder / f"{number}.png"), np.random.default_rng(number).integers(0, 256, (66, 200, 3), np.uint8))
(folder / "ppm.txt").touch()
check_stimulus(TRANSFORMS.get("gloom")())
check_relation(RELATIONS.get("near")())
check_criterion(CRITERIA.get("positive")())
check_search(SEARCHES.get("sweep"))
check_search(SEARCHES.get("hill"))
check_reader(READERS.get("ppm")(), folder)
assert WORLDS.get("small")(1, 1).width == 1


def call(*words):
    sys.argv = ["skidpad", *words]
    try:
        main()
    except SystemExit as ended:
        print("ended with", ended.code)


call("list", "transforms")
chosen = ("--relation", "near", "--within", "0.000001", "--search", "sweep", "--criteria", "positive", "--seeds", "2")
call("test", "demo", "ppm:pictures", "--stimulus", "gloom,outside_parts:Dusk(depth=0.9)", *chosen, "--out", "run")
print(Path("run/config.toml").read_text())
hill = ("--search", "outside_parts:Hill")
call("test", "demo", "ppm:pictures", "--transforms", "blur", *hill, "--seeds", "1", "--referee", "off", "--out", "hill-pairs")
call("drive", "demo", *hill, "--scenarios", "2", "--seconds", "1", "--out", "hill-scenarios")
styles = ("--weather", "rain", "--frames", "2", "--conditions", "1", "--iterations", "2", "--referee", "off")
call("weather", "search", "demo", "ppm:pictures", *hill, *styles, "--out", "hill-styles")
print(*(len(list(Path(run, "segments").glob("outside_parts+Hill*.parquet"))) for run in ("hill-pairs", "hill-scenarios", "hill-styles")))
"""


def test_a_package_adds_one_of_each_and_a_broken_one_takes_none_with_it(tmp_path: Path) -> None:
    package = tmp_path / "site"
    info = package / "outside_parts-1.0.dist-info"
    info.mkdir(parents=True)
    (package / "outside_parts.py").write_text(PARTS)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: outside-parts\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(POINTS)
    use = f"import sys; sys.path.insert(0, {str(package)!r})\n{USE}"
    done = subprocess.run([sys.executable, "-c", use], cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    assert "'absent' cannot be used: no_such_module_of_ours of the package outside-parts raised ModuleNotFoundError" in done.stderr
    assert "Takes light away. depth in [0, 0.9]" in done.stdout
    # two seed frames under two rows of gloom and one that was typed, each of which moves the answer by more than nothing
    assert "On 6 of 6 changed pictures the network breaks the relation near" in done.stdout
    assert done.stdout.rstrip().endswith("1 1 1")
    assert "tolerance = 1e-06" in done.stdout or "tolerance = 0.000001" in done.stdout
