"""Workers by what a user writes: `4`, `ray`, `ray://host:port`, `ray:host:port`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skidpad.core.errors import SkidpadError

if TYPE_CHECKING:
    from skidpad.workers.protocol import Workers

_RAY = "ray"


def workers_of(text: str, device: str = "cpu") -> Workers | None:
    """Reads who computes; None, for what suits the campaign, where nobody says.

    `1` is one thread of this process, a larger number so many local processes; `ray` a cluster begun on this machine, `ray://host:port`
    one that is reached from outside, `ray:ADDRESS` one that this machine is part of (`ray:auto` finds it). device: on `cuda`, each
    worker of a cluster takes a GPU.
    """
    from skidpad.workers.here import Here  # noqa: PLC0415  whoever asks for nothing loads nothing
    from skidpad.workers.processes import Processes  # noqa: PLC0415  see above
    from skidpad.workers.ray_cluster import RayCluster  # noqa: PLC0415  see above

    if not text:
        return None
    if text == _RAY or text.startswith((f"{_RAY}:", f"{_RAY}//")):
        address = text if text.startswith(f"{_RAY}://") else text[len(_RAY) :].removeprefix(":")
        return RayCluster(address, gpu=device != "cpu")
    if not text.isdecimal() or int(text) < 1:
        raise SkidpadError(f"workers are a number of at least 1, or ray, ray://host:port or ray:host:port; got {text!r}")
    return Here(1) if int(text) == 1 else Processes(int(text))
