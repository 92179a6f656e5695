"""Paints trees as upright pictures that face the camera, shaded as round bodies, from far to near."""

import numpy as np
from numba import njit

from skidpad.core.images import FloatArray
from skidpad.worlds.canvas import HAZE_BLUE, HAZE_GREEN, HAZE_RED, Canvas, Row, haze_at, unit
from skidpad.worlds.texture import SIZE, Texels, sample

_FAR_M = 230.0
"""No tree is painted beyond; over the last metres before it they appear."""
_APPEAR_M = 30.0
_NEAR_M = 2.0
_LEAVES_PER_M = 4.0


@njit(nogil=True, cache=True, error_model="numpy")
def visible_trees(canvas: Canvas, x: float, y: float, cosine: float, sine: float, pixels: int) -> FloatArray:
    """Returns the trees in view from far to near, (K, 6): depth, column, row of the foot and of the top, haze, number."""
    trees, lens = canvas.trees, canvas.lens
    seen = np.empty((len(trees), 6))
    count = 0
    rows = len(canvas.down)
    for k in range(len(trees)):
        dx = trees[k, 0] - x
        dy = trees[k, 1] - y
        ahead = dx * cosine + dy * sine
        if ahead < _NEAR_M or ahead > _FAR_M:
            continue
        column = 0.5 * pixels - lens[0] * (dy * cosine - dx * sine) / ahead
        margin = 1.5 * trees[k, 4] * lens[0] / ahead
        if column < -margin or column > pixels + margin:
            continue
        above = trees[k, 2] - lens[1]
        foot = (lens[1] * lens[2] - ahead * lens[3]) / (ahead * lens[2] + lens[1] * lens[3])
        top = (-above * lens[2] - ahead * lens[3]) / (ahead * lens[2] - above * lens[3])
        place = count
        while place > 0 and seen[place - 1, 0] < ahead:
            for c in range(6):
                seen[place, c] = seen[place - 1, c]
            place -= 1
        seen[place, 0] = ahead
        seen[place, 1] = column
        seen[place, 2] = 0.5 * rows + lens[0] * foot
        seen[place, 3] = 0.5 * rows + lens[0] * top
        seen[place, 4] = haze_at(ahead)
        seen[place, 5] = k
        count += 1
    return seen[:count]


@njit(nogil=True, cache=True, error_model="numpy")
def paint_trees(row: Row, v: int, seen: FloatArray, trees: FloatArray, texels: Texels, light: FloatArray) -> None:
    """Paints the parts of all trees that lie in row `v`.

    light: (3,), the sun's direction to the right, up, and towards the camera.
    """
    for k in range(len(seen)):
        foot, top = seen[k, 2], seen[k, 3]
        if not top - 2.0 < v < foot:
            continue
        tree = int(seen[k, 5])
        height, bottom = trees[tree, 2], trees[tree, 3]
        scale = (foot - top) / height
        z = (foot - v - 0.5) / scale
        alpha = unit((_FAR_M - seen[k, 0]) / _APPEAR_M)
        if z < bottom + 0.35 * (height - bottom):
            _trunk(row, seen[k, 1], 0.028 * height * scale, alpha, seen[k, 4], light[0])
        up = 2.0 * (z - bottom) / (height - bottom) - 1.0
        if trees[tree, 5] > 0.5:
            if -1.15 < up < 1.0:
                _conifer(row, seen[k, 1], up, z, scale, alpha, seen[k, 4], trees, tree, texels, light)
        elif -1.3 < up < 1.3:
            _broadleaf(row, seen[k, 1], up, z, scale, alpha, seen[k, 4], trees, tree, texels, light)


@njit(nogil=True, cache=True, error_model="numpy")
def _blend(row: Row, u: int, alpha: float, haze: float, red: float, green: float, blue: float) -> None:
    row[u, 0] += alpha * (red + (HAZE_RED - red) * haze - row[u, 0])
    row[u, 1] += alpha * (green + (HAZE_GREEN - green) * haze - row[u, 1])
    row[u, 2] += alpha * (blue + (HAZE_BLUE - blue) * haze - row[u, 2])


@njit(nogil=True, cache=True, error_model="numpy")
def _trunk(row: Row, column: float, half: float, alpha: float, haze: float, sideways: float) -> None:
    for u in range(max(int(column - half - 1.0), 0), min(int(column + half + 2.0), len(row))):
        off = u + 0.5 - column
        lit = 0.75 + 0.25 * sideways * off / (half + 0.5)
        _blend(row, u, alpha * unit(half + 0.5 - abs(off)), haze, 96.0 * lit, 84.0 * lit, 72.0 * lit)


@njit(nogil=True, cache=True, error_model="numpy")
def _broadleaf(
    row: Row, column: float, up: float, z: float, scale: float, alpha: float, haze: float,
    trees: FloatArray, tree: int, texels: Texels, light: FloatArray,
) -> None:  # fmt: skip
    radius = trees[tree, 4]
    start, tint = trees[tree, 7], trees[tree, 6]
    detail = 0.8 * unit(scale / 14.0)
    limit = 1.4 * radius * scale + 1.0
    per_px = 1.0 / (radius * scale)
    for u in range(max(int(column - limit), 0), min(int(column + limit + 1.0), len(row))):
        right = (u + 0.5 - column) * per_px
        square = right * right + up * up
        if square > 2.1:
            continue
        leaf = sample(texels, SIZE * SIZE, SIZE >> 1, start + _LEAVES_PER_M * right * radius, start + _LEAVES_PER_M * z)
        cover = alpha * unit((1.0 + 0.45 * leaf - np.sqrt(square)) * radius * scale * 0.8 + 0.5)
        if cover <= 0.0:
            continue
        towards = np.sqrt(max(1.0 - square, 0.0))
        sunlit = unit(0.42 + 0.58 * (right * light[0] + up * light[1] + towards * light[2]))
        lit = (0.44 + 0.72 * sunlit) * (1.0 + detail * leaf)
        _blend(row, u, cover, haze, (84.0 + 16.0 * tint) * lit, (110.0 + 6.0 * tint) * lit, (44.0 - 6.0 * tint) * lit)


@njit(nogil=True, cache=True, error_model="numpy")
def _conifer(
    row: Row, column: float, up: float, z: float, scale: float, alpha: float, haze: float,
    trees: FloatArray, tree: int, texels: Texels, light: FloatArray,
) -> None:  # fmt: skip
    start, tint = trees[tree, 7], trees[tree, 6]
    detail = 0.8 * unit(scale / 14.0)
    tier = 2.75 * (1.0 - up)
    radius = trees[tree, 4] * (0.5 * (1.0 - up) * (0.72 + 0.42 * (tier - np.floor(tier))) + 0.03)
    limit = 1.4 * radius * scale + 1.0
    per_px = 1.0 / (radius * scale)
    # Lower boughs of a tier lie in the shade of the tier above.
    tier_shade = 0.86 + 0.2 * (tier - np.floor(tier))
    for u in range(max(int(column - limit), 0), min(int(column + limit + 1.0), len(row))):
        right = (u + 0.5 - column) * per_px
        leaf = sample(texels, SIZE * SIZE, SIZE >> 1, start + _LEAVES_PER_M * right * radius, start + _LEAVES_PER_M * z)
        cover = alpha * unit((1.0 + 0.3 * leaf - abs(right)) * radius * scale * 0.8 + 0.5)
        if cover <= 0.0:
            continue
        towards = np.sqrt(max(1.0 - right * right, 0.0))
        sunlit = unit(0.42 + 0.58 * (right * light[0] + 0.35 * light[1] + towards * light[2]))
        lit = (0.44 + 0.72 * sunlit) * tier_shade * (1.0 + detail * leaf)
        _blend(row, u, cover, haze, (54.0 + 12.0 * tint) * lit, (86.0 + 6.0 * tint) * lit, (50.0 - 8.0 * tint) * lit)
