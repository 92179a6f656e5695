"""Where transforms are registered; a new one is a file, a `register` line and a row in `agreement`."""

from collections.abc import Iterable, Mapping

from skidpad.core.registry import Registry
from skidpad.core.stimuli import Stimulus

TRANSFORMS: Registry[type[Stimulus]] = Registry(
    "transform",
    "transforms",
    (
        "skidpad.stimuli.pictures.affine",
        "skidpad.stimuli.pictures.linear",
        "skidpad.stimuli.pictures.blur",
        "skidpad.stimuli.pictures.fog",
        "skidpad.stimuli.pictures.rain",
    ),
)


SIMPLE = ("translation", "scale", "shear", "rotation", "contrast", "brightness", "blur")
"""The seven of RQ2 and RQ3, in the order of DeepTest's Table 4."""

COMPOSITE = ("fog", "rain")
"""The layered effects, which DeepTest's Eq. 3 does not filter (section 5, Tables 7 and 8)."""


def stimuli(names: Iterable[str] | None = None) -> Mapping[str, Stimulus]:
    """Makes the named transforms, or all, with their default settings, as `Recipe.apply` takes them."""
    return {name: TRANSFORMS.get(name)() for name in _names(names)}


def _names(names: Iterable[str] | None) -> tuple[str, ...]:
    """Puts the paper's order first: the registry's own hangs on which module was imported before which."""
    if names is not None:
        return tuple(names)
    paper = (*SIMPLE, *COMPOSITE)
    return (*paper, *(name for name in TRANSFORMS.names() if name not in paper))
