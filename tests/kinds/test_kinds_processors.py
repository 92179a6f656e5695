"""One campaign on several kinds of processor, each pretended by a child process whose libraries are told to use other instructions.

Run as a program, this file makes the campaign in the folder that it is given.
"""

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from online_toys import ROADS, online

from skidpad.kinds.drives.campaign import Online
from skidpad.kinds.drives.replaying import replay_drive
from skidpad.runs.folder import Run
from skidpad.runs.replay import ReplayOutcome
from skidpad.worlds.scenario.files import NamedScenario

CARS, WIDTHS = 9, (1, 3, 8, 9)

PROCESSORS = {
    "this one": {},
    "AVX2": {"MKL_CBWR": "AVX2", "ATEN_CPU_CAPABILITY": "avx2", "ONEDNN_MAX_CPU_ISA": "AVX2"},
    "an old one": {"MKL_CBWR": "COMPATIBLE", "ATEN_CPU_CAPABILITY": "default", "ONEDNN_MAX_CPU_ISA": "SSE41"},
}
"""What the libraries under torch are told before it is loaded; each chooses its instructions by itself otherwise."""


def campaign_of(width: int) -> Online:
    """Cars that do not end together."""
    scenarios = [replace(ROADS[k % 3].scenario, duration_s=0.15 + 0.05 * (k % 3), seed=k) for k in range(CARS)]
    return online(scenarios=[NamedScenario(str(k), scenario) for k, scenario in enumerate(scenarios)], width=width)


def main(folder: Path) -> None:
    runs = {}
    for width in WIDTHS:
        campaign = campaign_of(width)
        runs[width] = campaign.start(folder / str(width))
        campaign.execute(runs[width])
    told = {width: sorted(map(repr, run.records().to_pylist())) for width, run in runs.items()}
    cases = runs[WIDTHS[-1]].records(columns=["case_id"])["case_id"].to_pylist()
    replays = [replay_drive(campaign_of(0).runner, runs[WIDTHS[-1]], case).differences for case in cases[-2:]]
    alike = [width for width in WIDTHS if told[width] == told[WIDTHS[0]]]
    (folder / "found.json").write_text(json.dumps({"alike": alike, "cases": len(set(cases)), "replays": replays}))


@pytest.mark.parametrize("settings", PROCESSORS.values(), ids=PROCESSORS)
def test_alone_or_together_the_bytes_are_the_same_and_another_processor_reproduces_them(settings, tmp_path: Path) -> None:
    plain = {name: value for name, value in os.environ.items() if not any(name in each for each in PROCESSORS.values())}
    env = {**plain, "PYTHONPATH": os.pathsep.join(sys.path), **settings}
    done = subprocess.run([sys.executable, __file__, str(tmp_path)], env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads((tmp_path / "found.json").read_text()) == {"alike": list(WIDTHS), "cases": CARS, "replays": [[]] * 2}
    run = Run.open(tmp_path / str(WIDTHS[-1]))
    case = run.records(columns=["case_id"])["case_id"][0].as_py()
    found = replay_drive(campaign_of(0).runner, run, case).reproduction
    assert found.is_reproduced, found.said
    assert ("on another processor" in found.said) == (found.outcome is ReplayOutcome.WITHIN_BOUND)
    assert [change.part for change in found.changes] == (["processor"] if settings else [])
    if settings == PROCESSORS["an old one"]:  # whose sums are of other blocks than any newer one's
        assert found.outcome is ReplayOutcome.WITHIN_BOUND


if __name__ == "__main__":
    main(Path(sys.argv[1]))
