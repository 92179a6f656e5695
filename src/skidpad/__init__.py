"""skidpad crash-tests driving networks before they drive.

The public API stands here: `import skidpad as sp`. Each name is imported when it is first used, so that importing costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    __version__: str
    from skidpad.api import (
        compare,
        drive,
        duel,
        evaluate,
        gate,
        limits,
        load,
        open_drive,
        open_run,
        repair,
        replay,
        test,
        weather_test,
        wrap,
    )
    from skidpad.api.results import Finding, Findings, Result
    from skidpad.api.transforms import Blur, Brightness, Contrast, DeepTestFog, DeepTestRain, Rotation, Scale, Shear, Translation
    from skidpad.core.errors import SkidpadError
    from skidpad.core.trust import trusting
    from skidpad.drives.opening import drive_from_arrays
    from skidpad.oracles.relations import AnswersAlike, DecidesAlike, SteersAlike, SteersRight
    from skidpad.stimuli.conditions.atmosphere import Dust, Fog, Haze, Smoke, Spray
    from skidpad.stimuli.conditions.glass import Condensation, Frost, LensDrops, WindscreenReflection, Wiper
    from skidpad.stimuli.conditions.lens import (
        ChromaticAberration,
        Defocus,
        DoubleImage,
        LensFlare,
        MotionBlur,
        RadialDistortion,
        Vignetting,
    )
    from skidpad.stimuli.conditions.light import Dusk, Headlights, LowSun, StreetLamps
    from skidpad.stimuli.conditions.mounting import CameraHeight, CameraLateral, CameraPitch, CameraRoll, CameraYaw
    from skidpad.stimuli.conditions.precipitation import Rain, Snow, WetRoad
    from skidpad.stimuli.conditions.sensor import Banding, BrokenPixels, DeadRows, Jpeg, ResolutionLoss, Saturation, SensorNoise, Sharpening
    from skidpad.stimuli.conditions.shadows import CastShadows, Overcast
    from skidpad.stimuli.conditions.soiling import Crack, Insects, LensDirt, Scratches
    from skidpad.stimuli.conditions.timing import DroppedFrames, FrozenFrames, LateFrames
    from skidpad.stimuli.conditions.tone import BitDepth, BlackLevel, ColourTemperature, ContrastLoss, DynamicRange, Exposure, Gamma, Tint

__all__ = [
    "AnswersAlike",
    "Banding",
    "BitDepth",
    "BlackLevel",
    "Blur",
    "Brightness",
    "BrokenPixels",
    "CameraHeight",
    "CameraLateral",
    "CameraPitch",
    "CameraRoll",
    "CameraYaw",
    "CastShadows",
    "ChromaticAberration",
    "ColourTemperature",
    "Condensation",
    "Contrast",
    "ContrastLoss",
    "Crack",
    "DeadRows",
    "DecidesAlike",
    "DeepTestFog",
    "DeepTestRain",
    "Defocus",
    "DoubleImage",
    "DroppedFrames",
    "Dusk",
    "Dust",
    "DynamicRange",
    "Exposure",
    "Finding",
    "Findings",
    "Fog",
    "Frost",
    "FrozenFrames",
    "Gamma",
    "Haze",
    "Headlights",
    "Insects",
    "Jpeg",
    "LateFrames",
    "LensDirt",
    "LensDrops",
    "LensFlare",
    "LowSun",
    "MotionBlur",
    "Overcast",
    "RadialDistortion",
    "Rain",
    "ResolutionLoss",
    "Result",
    "Rotation",
    "Saturation",
    "Scale",
    "Scratches",
    "SensorNoise",
    "Sharpening",
    "Shear",
    "SkidpadError",
    "Smoke",
    "Snow",
    "Spray",
    "SteersAlike",
    "SteersRight",
    "StreetLamps",
    "Tint",
    "Translation",
    "Vignetting",
    "WetRoad",
    "WindscreenReflection",
    "Wiper",
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
    "repair",
    "replay",
    "test",
    "trusting",
    "weather_test",
    "wrap",
]

_ELSEWHERE = {
    "skidpad.api.results": ("Finding", "Findings", "Result"),
    "skidpad.api.transforms": (
        "Blur",
        "Brightness",
        "Contrast",
        "DeepTestFog",
        "DeepTestRain",
        "Rotation",
        "Scale",
        "Shear",
        "Translation",
    ),
    "skidpad.core.errors": ("SkidpadError",),
    "skidpad.core.trust": ("trusting",),
    "skidpad.drives.opening": ("drive_from_arrays",),
    "skidpad.oracles.relations": ("AnswersAlike", "DecidesAlike", "SteersAlike", "SteersRight"),
    "skidpad.stimuli.conditions.atmosphere": ("Dust", "Fog", "Haze", "Smoke", "Spray"),
    "skidpad.stimuli.conditions.glass": ("Condensation", "Frost", "LensDrops", "WindscreenReflection", "Wiper"),
    "skidpad.stimuli.conditions.lens": (
        "ChromaticAberration",
        "Defocus",
        "DoubleImage",
        "LensFlare",
        "MotionBlur",
        "RadialDistortion",
        "Vignetting",
    ),
    "skidpad.stimuli.conditions.light": ("Dusk", "Headlights", "LowSun", "StreetLamps"),
    "skidpad.stimuli.conditions.mounting": ("CameraHeight", "CameraLateral", "CameraPitch", "CameraRoll", "CameraYaw"),
    "skidpad.stimuli.conditions.precipitation": ("Rain", "Snow", "WetRoad"),
    "skidpad.stimuli.conditions.sensor": (
        "Banding",
        "BrokenPixels",
        "DeadRows",
        "Jpeg",
        "ResolutionLoss",
        "Saturation",
        "SensorNoise",
        "Sharpening",
    ),
    "skidpad.stimuli.conditions.shadows": ("CastShadows", "Overcast"),
    "skidpad.stimuli.conditions.soiling": ("Crack", "Insects", "LensDirt", "Scratches"),
    "skidpad.stimuli.conditions.timing": ("DroppedFrames", "FrozenFrames", "LateFrames"),
    "skidpad.stimuli.conditions.tone": (
        "BitDepth",
        "BlackLevel",
        "ColourTemperature",
        "ContrastLoss",
        "DynamicRange",
        "Exposure",
        "Gamma",
        "Tint",
    ),
}
"""The names that are not in `skidpad.api`, by their module."""


def __getattr__(name: str) -> Any:
    if name == "__version__":
        found = _version()
    elif name in __all__:
        module = next((each for each, names in _ELSEWHERE.items() if name in names), "skidpad.api")
        found = getattr(import_module(module), name)
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
