"""skidpad crash-tests driving networks before they drive.

The public API stands here: `import skidpad as sp`. Each name is imported when it is first used, so that importing costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    __version__: str
    from skidpad.api import (
        Blur,
        Brightness,
        Contrast,
        Finding,
        Findings,
        Fog,
        Rain,
        Result,
        Rotation,
        Scale,
        Shear,
        Translation,
        compare,
        drive,
        duel,
        evaluate,
        gate,
        limits,
        load,
        open_drive,
        open_run,
        replay,
        test,
        weather_test,
        wrap,
    )
    from skidpad.core.errors import SkidpadError
    from skidpad.core.trust import trusting
    from skidpad.drives.memory import drive_from_arrays
    from skidpad.oracles.relations import AnswersAlike, DecidesAlike, SteersAlike

__all__ = [
    "AnswersAlike",
    "Blur",
    "Brightness",
    "Contrast",
    "DecidesAlike",
    "Finding",
    "Findings",
    "Fog",
    "Rain",
    "Result",
    "Rotation",
    "Scale",
    "Shear",
    "SkidpadError",
    "SteersAlike",
    "Translation",
    "compare",
    "drive",
    "drive_from_arrays",
    "duel",
    "evaluate",
    "gate",
    "limits",
    "load",
    "open_drive",
    "open_run",
    "replay",
    "test",
    "trusting",
    "weather_test",
    "wrap",
]

_ELSEWHERE = {
    "AnswersAlike": "skidpad.oracles.relations",
    "DecidesAlike": "skidpad.oracles.relations",
    "SkidpadError": "skidpad.core.errors",
    "SteersAlike": "skidpad.oracles.relations",
    "drive_from_arrays": "skidpad.drives.memory",
    "trusting": "skidpad.core.trust",
}
"""The modules of the names that are not in `skidpad.api`."""


def __getattr__(name: str) -> Any:
    if name == "__version__":
        found = _version()
    elif name in __all__:
        found = getattr(import_module(_ELSEWHERE.get(name, "skidpad.api")), name)
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = found
    return found


def _version() -> str:
    from importlib.metadata import PackageNotFoundError, version  # noqa: PLC0415 - a third of the time of the import

    try:
        return version("skidpad")
    except PackageNotFoundError:  # a source tree on the path, not installed
        return "0.1.0"


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
