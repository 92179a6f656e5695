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
        DeepTestFog,
        DeepTestRain,
        Finding,
        Findings,
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
        repair,
        replay,
        test,
        weather_test,
        wrap,
    )
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
    "AnswersAlike": "skidpad.oracles.relations",
    "Banding": "skidpad.stimuli.conditions.sensor",
    "BitDepth": "skidpad.stimuli.conditions.tone",
    "BlackLevel": "skidpad.stimuli.conditions.tone",
    "BrokenPixels": "skidpad.stimuli.conditions.sensor",
    "CameraHeight": "skidpad.stimuli.conditions.mounting",
    "CameraLateral": "skidpad.stimuli.conditions.mounting",
    "CameraPitch": "skidpad.stimuli.conditions.mounting",
    "CameraRoll": "skidpad.stimuli.conditions.mounting",
    "CameraYaw": "skidpad.stimuli.conditions.mounting",
    "CastShadows": "skidpad.stimuli.conditions.shadows",
    "ChromaticAberration": "skidpad.stimuli.conditions.lens",
    "ColourTemperature": "skidpad.stimuli.conditions.tone",
    "Condensation": "skidpad.stimuli.conditions.glass",
    "ContrastLoss": "skidpad.stimuli.conditions.tone",
    "Crack": "skidpad.stimuli.conditions.soiling",
    "DeadRows": "skidpad.stimuli.conditions.sensor",
    "DecidesAlike": "skidpad.oracles.relations",
    "Defocus": "skidpad.stimuli.conditions.lens",
    "DoubleImage": "skidpad.stimuli.conditions.lens",
    "DroppedFrames": "skidpad.stimuli.conditions.timing",
    "Dusk": "skidpad.stimuli.conditions.light",
    "Dust": "skidpad.stimuli.conditions.atmosphere",
    "DynamicRange": "skidpad.stimuli.conditions.tone",
    "Exposure": "skidpad.stimuli.conditions.tone",
    "Fog": "skidpad.stimuli.conditions.atmosphere",
    "Frost": "skidpad.stimuli.conditions.glass",
    "FrozenFrames": "skidpad.stimuli.conditions.timing",
    "Gamma": "skidpad.stimuli.conditions.tone",
    "Haze": "skidpad.stimuli.conditions.atmosphere",
    "Headlights": "skidpad.stimuli.conditions.light",
    "Insects": "skidpad.stimuli.conditions.soiling",
    "Jpeg": "skidpad.stimuli.conditions.sensor",
    "LateFrames": "skidpad.stimuli.conditions.timing",
    "LensDirt": "skidpad.stimuli.conditions.soiling",
    "LensDrops": "skidpad.stimuli.conditions.glass",
    "LensFlare": "skidpad.stimuli.conditions.lens",
    "LowSun": "skidpad.stimuli.conditions.light",
    "MotionBlur": "skidpad.stimuli.conditions.lens",
    "Overcast": "skidpad.stimuli.conditions.shadows",
    "RadialDistortion": "skidpad.stimuli.conditions.lens",
    "Rain": "skidpad.stimuli.conditions.precipitation",
    "ResolutionLoss": "skidpad.stimuli.conditions.sensor",
    "Saturation": "skidpad.stimuli.conditions.sensor",
    "Scratches": "skidpad.stimuli.conditions.soiling",
    "SensorNoise": "skidpad.stimuli.conditions.sensor",
    "Sharpening": "skidpad.stimuli.conditions.sensor",
    "SkidpadError": "skidpad.core.errors",
    "Smoke": "skidpad.stimuli.conditions.atmosphere",
    "Snow": "skidpad.stimuli.conditions.precipitation",
    "Spray": "skidpad.stimuli.conditions.atmosphere",
    "SteersAlike": "skidpad.oracles.relations",
    "SteersRight": "skidpad.oracles.relations",
    "StreetLamps": "skidpad.stimuli.conditions.light",
    "Tint": "skidpad.stimuli.conditions.tone",
    "Vignetting": "skidpad.stimuli.conditions.lens",
    "WetRoad": "skidpad.stimuli.conditions.precipitation",
    "WindscreenReflection": "skidpad.stimuli.conditions.glass",
    "Wiper": "skidpad.stimuli.conditions.glass",
    "drive_from_arrays": "skidpad.drives.opening",
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
