"""The reader `rendered`: a drive of our own that needs no download.

The row is found by every `open_drive`, so this module stays light; what compiles and renders is imported when such a
drive is opened.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from skidpad.core.errors import BadDriveError
from skidpad.drives.drive import Drive
from skidpad.drives.readers import READERS, Option, Options

RATE_HZ = 20.0
"""As Udacity CH2 was recorded."""

_LIMITS = {"frames": (1, 1_000_000), "width": (16, 4096), "height": (16, 4096), "weave": (0.0, 1.5)}


@dataclass(frozen=True, slots=True)
class Settings:
    """What a rendered drive depends on. weave: how much the car strays from its lane; 0 keeps it in the middle."""

    frames: int = 600
    seed: int = 0
    width_px: int = 320
    height_px: int = 160
    weave: float = 1.0

    def __post_init__(self) -> None:
        given = {"frames": self.frames, "width": self.width_px, "height": self.height_px, "weave": self.weave}
        for name, value in given.items():
            low, high = _LIMITS[name]
            if not low <= value <= high:
                raise BadDriveError(f"option {name!r} of a rendered drive must be between {low:g} and {high:g}; got {value:g}")


@READERS.register("rendered")
@dataclass(frozen=True, slots=True)
class Rendered:
    """Opens a drive along seeded roads of the built-in world, in clear day, with the true steering as the label."""

    looks_for: str = "nothing: the drive is made"
    needs_path: bool = False
    takes_files: bool = False
    options: tuple[Option, ...] = (
        Option("frames", "how many frames, 20 to a second", "600"),
        Option("seed", "which roads, trees and weaving", "0"),
        Option("width", "of the picture in pixels", "320"),
        Option("height", "of the picture in pixels", "160"),
        Option("weave", "how far the car strays: 1 is up to 0.8 m, 0 is not at all", "1.0"),
    )

    def recognises(self, path: Path) -> bool:  # noqa: ARG002 - the protocol's; no folder is a rendered drive
        """Returns False: a rendered drive is never a folder."""
        return False

    def open(self, path: Path, options: Options) -> Drive:  # noqa: ARG002 - the protocol's; this reader takes no path
        """Plans the drive; frames are rendered when they are read."""
        settings = Settings(
            options.whole("frames"), options.whole("seed"), options.whole("width"), options.whole("height"), options.real("weave")
        )
        from skidpad.worlds.recorded.journey import rendered_drive  # noqa: PLC0415 - numba and scipy, for this drive only

        return rendered_drive(settings)
