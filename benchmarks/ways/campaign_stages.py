"""Where the time of a campaign over a drive goes: each stage under a clock, in one thread, so that they add up to the whole."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

from skidpad.kinds.pictures import work as deeptest_work
from skidpad.kinds.pictures.campaign import DeepTest
from skidpad.runs.folder import Run
from skidpad.runs.workers.here import Here
from ways.roofline import now


@dataclass
class Stages:
    """Seconds of a campaign.

    read_s: decoding, by several threads where there is a GPU, and the way there. device_s: stimuli and subject, waited for. judge_s:
    verdicts, and hashes of what broke the relation. write_s: commits. wall_s: all of it, with coverage and records.
    """

    read_s: float = 0.0
    device_s: float = 0.0
    judge_s: float = 0.0
    write_s: float = 0.0
    wall_s: float = 0.0

    @property
    def rest_s(self) -> float:
        """What no clock saw: coverage, records, the order of things; 0 where reading ahead hid as much."""
        return max(0.0, self.wall_s - self.read_s - self.device_s - self.judge_s - self.write_s)

    def floors_s(self, images_share: float, device_s: float, threads: int) -> dict[str, float]:
        """Returns what each stage would take by itself for a campaign `images_share` times as large; only hashing spreads over threads.

        device_s: of the larger campaign, its operations back to back.
        """
        here = {"read": self.read_s, "judge": self.judge_s / threads, "write": self.write_s, "python": self.rest_s}
        return {name: seconds * images_share for name, seconds in here.items()} | {"device": device_s}


def staged(campaign: DeepTest, run: Run, device: str) -> Stages:
    """Executes a campaign in one thread and looks at the clock between its stages."""
    found = Stages()
    with clocks(found, type(campaign), device):
        started = now(device)
        campaign.execute(run, workers=Here(1))
        found.wall_s = now(device) - started
    return found


@contextmanager
def clocks(found: Stages, kind: type[DeepTest], device: str) -> Iterator[None]:
    """Puts a clock around each stage."""

    def clocked(stage: str, work: Callable[..., Any], *, waits: bool = False) -> Callable[..., Any]:
        def timed(*given: Any, **named: Any) -> Any:
            started = now(device) if waits else time.perf_counter()
            result = work(*given, **named)
            ended = now(device) if waits else time.perf_counter()
            setattr(found, stage, getattr(found, stage) + ended - started)
            return result

        return timed

    looker = kind.looker

    def clocked_looker(campaign: DeepTest, clip: Any, *given: Any) -> Any:
        return clocked("device_s", looker(campaign, clip, *given), waits=True)

    with ExitStack() as stack:
        stack.enter_context(patch.object(kind, "looker", clocked_looker))
        stack.enter_context(patch.object(DeepTest, "read", clocked("read_s", DeepTest.read)))
        stack.enter_context(patch.object(DeepTest, "on_device", clocked("read_s", DeepTest.on_device)))
        stack.enter_context(patch.object(deeptest_work, "judged", clocked("judge_s", deeptest_work.judged)))
        stack.enter_context(patch.object(Run, "commit", clocked("write_s", Run.commit)))
        yield
