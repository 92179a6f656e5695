"""DeepTest's transforms as classes; the conditions in physical units are classes of `skidpad.stimuli.conditions`."""

from skidpad.core.stimuli import Value


class Transform:
    """A transform with its parameters, as `Brightness(shift=40)`; without any, its whole grid. `+` joins two to one stimulus."""

    _name = ""

    def __init__(self, **params: Value) -> None:
        values = ",".join(f"{name}={value}" for name, value in params.items())
        self._text = (self._name or type(self).__name__.lower()) + (f"({values})" if values else "")

    def __add__(self, other: object) -> str:
        return f"{self}+{other}"

    def __radd__(self, other: object) -> str:
        return f"{other}+{self}"

    def __str__(self) -> str:
        return self._text

    def __repr__(self) -> str:
        return f"<transform {self}>"


class Blur(Transform):
    """`kind`: averaging, gaussian, median or bilateral; `size` of its window in pixels."""


class Brightness(Transform):
    """Adds `shift` to every channel."""


class Contrast(Transform):
    """Multiplies every channel by `gain`."""


class DeepTestFog(Transform):
    """DeepTest's fog: `density`, 0 to 1; `seed` of its banks. `Fog` is the one in metres of visibility."""

    _name = "deeptest-fog"


class DeepTestRain(Transform):
    """DeepTest's rain: `intensity`, 0 to 1; `slant_deg`; `seed` of its streaks. `Rain` is the one in mm an hour."""

    _name = "deeptest-rain"


class Rotation(Transform):
    """Turns by `angle_deg`."""


class Scale(Transform):
    """Scales by `sx` and `sy`."""


class Shear(Transform):
    """Shears by `sx` and `sy`."""


class Translation(Transform):
    """Moves by `dx_px` and `dy_px`."""
