"""Pictures of trees, bushes and people."""

from __future__ import annotations

from math import pi, sin

import cv2
import numpy as np
from numba import njit

from skidpad.core.images import FloatArray
from skidpad.core.seeding import child_rng
from skidpad.worlds.render.props import BROADLEAVES, BUSHES, CONIFERS
from skidpad.worlds.render.sprites.atlas import COVER, RIGHT, TINT, Picture, empty_picture, shrunk
from skidpad.worlds.render.texture import SIZE, Texels, noise_levels, sample

TREE_PX = 256
_FINE = 2
WALK_PHASES = 8
PERSON_PX = (64, 128)
PERSON_M = (1.0, 2.0)
"""Width and height of the card that carries a person."""


def trees() -> list[Picture]:
    """Returns broadleaved trees, conifers and bushes, in this order."""
    makers = [_broadleaf] * BROADLEAVES + [_conifer] * CONIFERS + [_bush] * BUSHES
    return [make(number) for number, make in enumerate(makers)]


@njit(cache=True, error_model="numpy")
def _stamp(picture: Picture, leaves: FloatArray, texels: Texels) -> None:
    """Paints clusters of leaves one over another. leaves: (K, 8): column, row, radius, right, up, red, green, blue."""
    height, width = picture.shape[0], picture.shape[1]
    for k in range(len(leaves)):
        x, y, radius = leaves[k, 0], leaves[k, 1], leaves[k, 2]
        for v in range(max(int(y - 1.5 * radius), 0), min(int(y + 1.5 * radius) + 1, height)):
            for u in range(max(int(x - 1.5 * radius), 0), min(int(x + 1.5 * radius) + 1, width)):
                off_x, off_y = (u - x) / radius, (v - y) / radius
                leaf = sample(texels, 0, SIZE, 0.31 * u + 17.0 * k, 0.31 * v + 31.0 * k)
                if off_x * off_x + off_y * off_y > 1.0 + 1.6 * leaf:
                    continue
                bright = 1.0 + 0.55 * leaf - 0.16 * off_y
                for c in range(3):
                    picture[v, u, c] = leaves[k, 5 + c] * bright
                picture[v, u, 3] = 255.0
                picture[v, u, 4] = 128.0 + 127.0 * min(max(leaves[k, 3] + 0.25 * off_x, -1.0), 1.0)
                picture[v, u, 5] = 128.0 + 127.0 * min(max(leaves[k, 4] - 0.25 * off_y, -1.0), 1.0)
                picture[v, u, 7] = 255.0


def _leaves(rng: np.random.Generator, lobes: FloatArray, per_lobe: int, radius: float, colour: tuple[float, float, float]) -> FloatArray:
    """Scatters clusters over round lobes, from far to near. lobes: (L, 4): column, row, radius, depth towards the viewer."""
    parts = []
    low, high = float((lobes[:, 1] - lobes[:, 2]).min()), float((lobes[:, 1] + lobes[:, 2]).max())
    for x, y, size, near in lobes:
        direction = rng.normal(size=(per_lobe, 3))
        direction /= np.linalg.norm(direction, axis=1)[:, None]
        share = rng.uniform(0.55, 1.0, per_lobe)
        place = direction * (share * size)[:, None]
        row = y - place[:, 1]
        # What lies inside or below is darker: leaves shade one another.
        dim = (
            (0.50 + 0.5 * share)
            * (0.74 + 0.30 * np.clip((high - row) / (high - low), 0.0, 1.0))
            * (0.86 + 0.14 * np.clip(direction[:, 2], -1.0, 1.0))
        )
        tone = 1.0 + 0.13 * rng.normal(size=per_lobe)
        rgb = np.asarray(colour)[None] * (dim * tone)[:, None] * (1.0 + 0.05 * rng.normal(size=(per_lobe, 3)))
        parts.append(
            np.column_stack(
                (
                    x + place[:, 0],
                    row,
                    rng.uniform(0.7, 1.3, per_lobe) * radius,
                    0.9 * direction[:, 0],
                    0.9 * direction[:, 1],
                    rgb,
                    near + place[:, 2],
                )
            )
        )
    table = np.concatenate(parts)
    return np.ascontiguousarray(table[np.argsort(table[:, 8], kind="stable"), :8])


def _trunk(picture: Picture, rng: np.random.Generator, top: float, half_px: float, lean: float) -> None:
    """Paints a trunk from the ground to `top` (a share of the height)."""
    height, width = picture.shape[:2]
    rows = np.arange(int(height * (1.0 - top)), height)
    share = (rows - rows[0]) / max(len(rows) - 1, 1)
    middle = 0.5 * width + lean * (1.0 - share)
    half = half_px * (0.5 + 0.5 * share + 0.5 * np.clip(share - 0.9, 0.0, 1.0) * 6.0)
    columns = np.arange(width)
    off = (columns[None] - middle[:, None]) / half[:, None]
    inside = np.abs(off) < 1.0
    bark = 1.0 + 0.16 * rng.normal(size=(1, width)) + 0.10 * rng.normal(size=(len(rows), width))
    part = picture[rows[0] :]
    part[..., :3] = np.where(inside[..., None], np.array([98.0, 84.0, 68.0]) * bark[..., None], part[..., :3])
    part[..., COVER] = np.where(inside, 255.0, part[..., COVER])
    part[..., RIGHT] = np.where(inside, 128.0 + 110.0 * off, part[..., RIGHT])


def _canvas() -> Picture:
    return empty_picture(TREE_PX * _FINE, TREE_PX * _FINE)


def _broadleaf(number: int) -> Picture:
    rng = child_rng(0, "broadleaf", number)
    picture, size = _canvas(), float(TREE_PX * _FINE)
    _trunk(picture, rng, 0.62, 0.026 * size, float(rng.uniform(-0.04, 0.04)) * size)
    count = int(rng.integers(7, 11))
    angle = 2.0 * pi * (np.arange(count) + rng.uniform(0.0, 0.7, count)) / count
    spread = rng.uniform(0.12, 0.23, count)
    tall = float(rng.uniform(0.9, 1.25))
    lobes = np.column_stack(
        (
            (0.5 + spread * np.cos(angle)) * size,
            (0.40 - tall * spread * np.sin(angle)) * size,
            rng.uniform(0.13, 0.19, count) * size,
            rng.uniform(-0.15, 0.2, count) * size,
        )
    )
    lobes = np.concatenate((lobes, [[0.5 * size, 0.38 * size, 0.23 * size, 0.0]]))
    colour = [(104.0, 130.0, 54.0), (92.0, 124.0, 58.0), (116.0, 132.0, 56.0), (98.0, 118.0, 62.0)][number % 4]
    _stamp(picture, _leaves(rng, lobes, 300, 0.0125 * size, colour), noise_levels())
    return shrunk(picture, _FINE)


def _conifer(number: int) -> Picture:
    rng = child_rng(0, "conifer", number)
    picture, size = _canvas(), float(TREE_PX * _FINE)
    _trunk(picture, rng, 0.5, 0.017 * size, 0.0)
    rows = []
    tiers = 17 + number % 3
    for tier in range(tiers):
        share = (tier + 0.6) / tiers
        wide = (0.03 + 0.42 * share ** (0.9 + 0.12 * (number % 3))) * size * float(rng.uniform(0.88, 1.08))
        top = (0.015 + 0.87 * share) * size
        branches = 30 + tier * 9
        turn = rng.uniform(0.0, 2.0 * pi, branches)
        out = rng.uniform(0.15, 1.0, branches) ** 0.7
        x = 0.5 * size + np.cos(turn) * out * wide
        near = np.sin(turn)
        y = top + out * out * 0.055 * size * (0.5 + share) + near * 0.012 * size
        tone = (0.40 + 0.66 * out) * (0.86 + 0.16 * near) * (1.0 + 0.10 * rng.normal(size=branches))
        rgb = np.array([66.0, 96.0, 60.0])[None] * tone[:, None]
        rows.append(
            np.column_stack(
                (
                    x,
                    y,
                    rng.uniform(0.8, 1.25, branches) * (0.008 + 0.008 * share) * size,
                    0.8 * np.cos(turn) * out,
                    0.15 + 0.4 * out,
                    rgb,
                    near - 2.0 * share,
                )
            )
        )
    # Lower tiers first: each tier hides the roots of the one below it.
    table = np.concatenate(rows[::-1])
    _stamp(picture, np.ascontiguousarray(table[:, :8]), noise_levels())
    return shrunk(picture, _FINE)


def _bush(number: int) -> Picture:
    rng = child_rng(0, "bush", number)
    picture, size = _canvas(), float(TREE_PX * _FINE)
    count = 8
    lobes = np.column_stack(
        (
            np.linspace(0.2, 0.8, count) * size,
            (0.74 - 0.22 * rng.random(count)) * size,
            rng.uniform(0.16, 0.22, count) * size,
            rng.uniform(-0.1, 0.1, count) * size,
        )
    )
    _stamp(picture, _leaves(rng, lobes, 260, 0.015 * size, (98.0, 120.0, 56.0)), noise_levels())
    return shrunk(picture, _FINE)


def people() -> list[Picture]:
    """Returns somebody walking away from the viewer, at the phases of a step."""
    return [_person(2.0 * pi * phase / WALK_PHASES) for phase in range(WALK_PHASES)]


def _person(phase: float) -> Picture:
    fine = 2
    width, height = PERSON_PX[0] * fine, PERSON_PX[1] * fine
    picture = empty_picture(height, width)
    swing = sin(phase)

    def limb(a: tuple[float, float], b: tuple[float, float], thick_m: float, colour: tuple[float, float, float], tint: float = 0.0) -> None:
        """Paints a rounded limb from a to b, metres right of the middle and above the ground."""
        mask = np.zeros((height, width), np.uint8)
        pixels = [(round((0.5 + x / PERSON_M[0]) * width), round((1.0 - z / PERSON_M[1]) * height)) for x, z in (a, b)]
        cv2.line(mask, pixels[0], pixels[1], 1, max(round(thick_m / PERSON_M[0] * width), 1))
        place = mask > 0
        columns = (np.arange(width) / width - 0.5) * PERSON_M[0]
        middle = 0.5 * (a[0] + b[0])
        round_ = np.clip((columns - middle) / (0.6 * thick_m), -1.0, 1.0)
        picture[place, :3] = colour
        picture[place, COVER] = 255.0
        picture[..., RIGHT] = np.where(place, 128.0 + 90.0 * round_[None], picture[..., RIGHT])
        picture[place, TINT] = 255.0 * tint

    skin, trousers, shoe, coat, hair = (
        (206.0, 166.0, 140.0),
        (58.0, 62.0, 78.0),
        (40.0, 36.0, 34.0),
        (226.0, 226.0, 226.0),
        (70.0, 52.0, 40.0),
    )
    for side in (-1.0, 1.0):
        lift = max(side * swing, 0.0) * 0.14
        forward = side * swing * 0.03
        limb((0.085 * side, 0.90), (0.095 * side, 0.48 + 0.5 * lift), 0.155, trousers)
        limb((0.095 * side, 0.48 + 0.5 * lift), (0.09 * side, 0.09 + lift), 0.115, trousers)
        limb((0.09 * side, 0.05 + lift), (0.10 * side, 0.05 + lift + 0.4 * forward), 0.10, shoe)
        limb((0.24 * side, 1.38), (0.285 * side, 1.08), 0.10, coat, 1.0)
        limb((0.285 * side, 1.08), (0.27 * side, 0.86 - 0.5 * side * swing * 0.08), 0.085, coat, 0.9)
        limb((0.27 * side, 0.82 - 0.5 * side * swing * 0.08), (0.27 * side, 0.80 - 0.5 * side * swing * 0.08), 0.085, skin)
    for z in np.linspace(0.92, 1.40, 8):
        half = 0.155 + 0.055 * (z - 0.92) / 0.48
        limb((-half + 0.06, z), (half - 0.06, z), 0.12, coat, 1.0)
    limb((0.0, 1.46), (0.0, 1.52), 0.10, skin)
    limb((0.0, 1.60), (0.0, 1.66), 0.185, hair)
    return shrunk(picture, fine)
