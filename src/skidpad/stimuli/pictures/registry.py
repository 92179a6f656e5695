"""Where stimuli are registered; a new one is a file, a `register` line and a row in `agreement`."""

from collections.abc import Callable, Iterable, Mapping
from enum import Enum

from skidpad.core.errors import BadParametersError, UnknownNameError
from skidpad.core.registry import Registry
from skidpad.core.stimuli import Condition, Space, Stimulus

TRANSFORMS: Registry[Callable[[], Stimulus]] = Registry(
    "transform",
    "transforms",
    (
        "skidpad.stimuli.pictures.affine",
        "skidpad.stimuli.pictures.linear",
        "skidpad.stimuli.pictures.blur",
        "skidpad.stimuli.pictures.fog",
        "skidpad.stimuli.pictures.rain",
        *(
            f"skidpad.stimuli.conditions.{name}"
            for name in ("atmosphere", "precipitation", "light", "shadows", "tone", "sensor", "lens", "glass", "mounting", "timing")
        ),
    ),
    {"weather": "skidpad.stimuli.weather.stimulus:named_weather"},
)


SIMPLE = ("translation", "scale", "shear", "rotation", "contrast", "brightness", "blur")
"""The seven of RQ2 and RQ3, in the order of DeepTest's Table 4."""

COMPOSITE = ("deeptest-fog", "deeptest-rain")
"""The layered effects, which DeepTest's Eq. 3 does not filter (section 5, Tables 7 and 8)."""


class Made(dict[str, Stimulus]):
    """Stimuli by name; DeepTest's fog and rain can be looked up in any, since recipes of a run that called them otherwise ask for them."""

    def __missing__(self, name: str) -> Stimulus:
        if name not in COMPOSITE:
            raise KeyError(name)
        return _made(name)


class Preset(Enum):
    """Which stimuli are tried where none is named: conditions in physical units, or those of DeepTest's Table 4 to the letter."""

    CONDITIONS = "conditions"
    DEEPTEST = "deeptest"


def preset_stimuli(preset: Preset) -> Mapping[str, Stimulus]:
    """Makes the stimuli of a preset."""
    if preset is Preset.DEEPTEST:
        return stimuli((*SIMPLE, *COMPOSITE))
    made = stimuli()
    return {name: stimulus for name, stimulus in made.items() if isinstance(stimulus, Condition)}


def stimuli(names: Iterable[str] | None = None) -> Mapping[str, Stimulus]:
    """Makes the named stimuli, or all registered ones, with their default settings, as `Recipe.apply` takes them."""
    return Made({name: _made(name) for name in _names(names)})


def _made(name: str) -> Stimulus:
    try:
        row = TRANSFORMS.get(name)
    except UnknownNameError as error:
        from skidpad.stimuli.weather.pretrained import pretrained_names  # noqa: PLC0415  only to help

        if name in pretrained_names():
            raise UnknownNameError(f"no transform named {name!r}; did you mean 'weather:{name}'?") from error
        raise
    made = row() if callable(row) else row
    if not isinstance(getattr(made, "space", None), Space) or not callable(getattr(made, "apply", None)):
        raise BadParametersError(f"{name!r} is no stimulus: one has a `space` (a Space) and `apply(frames, params)`; got {made!r}")
    return made


def _names(names: Iterable[str] | None) -> tuple[str, ...]:
    """Puts the paper's order first: the registry's own hangs on which module was imported before which."""
    if names is not None:
        return tuple(names)
    paper = (*SIMPLE, *COMPOSITE)
    return (*paper, *(name for name in TRANSFORMS.names() if name not in paper))
