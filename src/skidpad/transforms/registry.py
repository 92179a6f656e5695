"""Where transforms are registered; a new one is a file, a `register` line and a row in `agreement`."""

from skidpad.core.registry import Registry
from skidpad.core.stimuli import Stimulus

TRANSFORMS: Registry[type[Stimulus]] = Registry(
    "transform",
    "transforms",
    (
        "skidpad.transforms.affine",
        "skidpad.transforms.linear",
        "skidpad.transforms.blur",
        "skidpad.transforms.fog",
        "skidpad.transforms.rain",
    ),
)
