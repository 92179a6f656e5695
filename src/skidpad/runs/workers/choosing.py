"""Workers by what a user writes: `4`, `ray`, `ray:auto`, `ray:host:port`, `ray://host:port`."""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING

from skidpad.core.errors import MissingExtraError, SkidpadError
from skidpad.runs.workers.dispatching import unheard

if TYPE_CHECKING:
    from collections.abc import Callable

    from skidpad.runs.workers.protocol import Workers


_RAY = "ray"


def workers_of(text: str, device: str = "cpu", died: Callable[[str], None] = unheard) -> Workers | None:
    """Reads who computes; None, for what suits the campaign, where nobody says.

    `1` is one thread of this process, a larger number so many local processes; `ray` a cluster begun on this machine, `ray://host:port`
    one that is reached from outside, `ray:ADDRESS` one that this machine is part of (`ray:auto` finds it). device: on `cuda`, each
    worker of a cluster takes a GPU. died: is told in a sentence of each worker that dies.
    """
    from skidpad.runs.workers.here import Here  # noqa: PLC0415  whoever asks for nothing loads nothing
    from skidpad.runs.workers.processes import Processes  # noqa: PLC0415  see above
    from skidpad.runs.workers.ray_cluster import RayCluster, place_of  # noqa: PLC0415  see above

    if not text:
        return None
    if text == _RAY or text.startswith(f"{_RAY}:"):
        address = text if text.startswith(f"{_RAY}://") else text[len(_RAY) :].removeprefix(":")
        if text not in {_RAY, f"{_RAY}:auto"} and place_of(address) is None:
            # Ray itself would look for it for half a minute, or begin a cluster of its own.
            raise SkidpadError(f"a Ray cluster is ray, ray:auto, ray:HOST:PORT or ray://HOST:PORT; got {text!r}")
        if find_spec(_RAY) is None:
            raise MissingExtraError.of(_RAY, _RAY, "a Ray cluster")
        return RayCluster(address, gpu=device != "cpu", died=died)
    if not text.isdecimal() or int(text) < 1:
        raise SkidpadError(f"workers are a number of at least 1, or ray, ray:auto, ray:HOST:PORT or ray://HOST:PORT; got {text!r}")
    return Here(1) if int(text) == 1 else Processes(int(text), died)
