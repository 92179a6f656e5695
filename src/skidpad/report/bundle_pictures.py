"""What the subject that was asked about a bundle did, as a picture; the bundle's own pictures show the subject that was found out."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from skidpad.campaigns.bundled_drives import JudgedDrive
from skidpad.campaigns.bundled_duels import JudgedDuel
from skidpad.campaigns.bundles import JudgedPair
from skidpad.core.files import write_atomically
from skidpad.core.images import write_image
from skidpad.report import duel_film, filmstrip
from skidpad.report.arrows import pair_picture

if TYPE_CHECKING:
    from skidpad.campaigns.bundles import Scene


def suffix_of(scene: Scene) -> str:
    """Returns how the file of a scene's picture ends: pairs are pixels, films are drawings."""
    return ".png" if isinstance(scene, JudgedPair) else ".svg"


def draw_scene(scene: Scene, title: str, path: Path) -> None:
    """Draws what a subject did."""
    if isinstance(scene, JudgedPair):
        write_image(path, pair_picture(scene.original, scene.mutant, *scene.answers, caption=title, unit=scene.unit))
        return
    write_atomically(path, duel_film.standalone(_film(scene, title)).encode())


def _film(scene: Scene, title: str) -> str:
    if isinstance(scene, JudgedDrive):
        return filmstrip.strip("strip", title, filmstrip.film_of(scene.rides, scene.row))
    if isinstance(scene, JudgedDuel):
        film = duel_film.Film(scene.trace(), scene.driven.scenario.lanes, *scene.actions)
        return duel_film.film_strip("strip", title, film)
    raise TypeError(f"no picture is known for {type(scene).__name__}; add it here")
