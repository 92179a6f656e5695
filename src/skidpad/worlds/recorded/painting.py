"""Paints trees as upright pictures that face the camera, shaded as round bodies, from far to near."""

from typing import TypeAlias

import numpy as np

from skidpad.core.images import FloatArray, NumpyFrames
from skidpad.worlds.recorded.ground import SCRATCH, paint_ground
from skidpad.worlds.render.canvas import HAZE_BLUE, HAZE_GREEN, HAZE_RED, Canvas, Row, haze_at, unit
from skidpad.worlds.render.compiling import compiled, uncounted
from skidpad.worlds.render.texture import SIZE, Texels, sample

Light: TypeAlias = tuple[float, float, float]

_FAR_M = 230.0
"""No tree is painted beyond; over the last metres before it they appear."""
_APPEAR_M = 30.0
_NEAR_M = 2.0
_LEAVES_PER_M = 6.0


@compiled
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


@uncounted
def paint_trees(row: Row, v: int, seen: FloatArray, trees: FloatArray, texels: Texels, light: Light) -> None:
    """Paints the parts of all trees that lie in row `v`. light: the sun's direction to the right, up, towards the camera."""
    for k in range(len(seen)):
        foot, top = seen[k, 2], seen[k, 3]
        if not top - 2.0 < v < foot:
            continue
        tree = int(seen[k, 5])
        height, bottom, radius = trees[tree, 2], trees[tree, 3], trees[tree, 4]
        scale = (foot - top) / height
        z = (foot - v - 0.5) / scale
        alpha = unit((_FAR_M - seen[k, 0]) / _APPEAR_M)
        if z < bottom + 0.35 * (height - bottom):
            _trunk(row, seen[k, 1], 0.028 * height * scale, alpha, seen[k, 4], light[0])
        up = 2.0 * (z - bottom) / (height - bottom) - 1.0
        conifer = trees[tree, 5] > 0.5
        if not -1.15 < up < (1.0 if conifer else 1.3):
            continue
        tint = trees[tree, 6]
        if conifer:
            # A tier is widest at its lower end, and its upper end lies in the shade of the tier above.
            tier = 2.75 * (1.0 - up)
            tier -= np.floor(tier)
            wide = radius * (0.5 * (1.0 - up) * (0.72 + 0.42 * tier) + 0.03)
            lit = 0.86 + 0.2 * tier
            colour = ((54.0 + 12.0 * tint) * lit, (86.0 + 6.0 * tint) * lit, (50.0 - 8.0 * tint) * lit)
            _crown(row, seen[k, 1], wide, 0.0, 0.35, z, scale, alpha, seen[k, 4], 0.3, trees[tree, 7], colour, texels, light)
        else:
            colour = (84.0 + 16.0 * tint, 110.0 + 6.0 * tint, 44.0 - 6.0 * tint)
            _crown(row, seen[k, 1], radius, up * up, up, z, scale, alpha, seen[k, 4], 0.45, trees[tree, 7], colour, texels, light)


@uncounted
def _trunk(row: Row, column: float, half: float, alpha: float, haze: float, sideways: float) -> None:
    for u in range(max(int(column - half - 1.0), 0), min(int(column + half + 2.0), row.shape[1])):
        off = u + 0.5 - column
        cover = alpha * unit(half + 0.5 - abs(off))
        lit = (1.0 - haze) * (0.75 + 0.25 * sideways * off / (half + 0.5))
        row[0, u] += cover * (96.0 * lit + HAZE_RED * haze - row[0, u])
        row[1, u] += cover * (84.0 * lit + HAZE_GREEN * haze - row[1, u])
        row[2, u] += cover * (72.0 * lit + HAZE_BLUE * haze - row[2, u])


@uncounted
def _crown(
    row: Row,
    column: float,
    radius: float,
    base: float,
    up: float,
    z: float,
    scale: float,
    alpha: float,
    haze: float,
    ragged: float,
    start: float,
    colour: tuple[float, float, float],
    texels: Texels,
    light: Light,
) -> None:
    """Paints one row of a crown.

    A pixel belongs to it where `base` plus the square of its distance from the middle, in radii, is below one, but for
    leaves that make the rim `ragged`. up: the upward part of the surface's direction; z: metres above the ground.
    """
    radius_px = radius * scale
    per_px = 1.0 / radius_px
    sharp = 0.4 * radius_px
    detail = 0.8 * unit(scale / 14.0)
    # Leaves can reach so far, but only where the crown is as wide.
    limit = np.sqrt(max((1.0 + ragged) ** 2 + 0.5 / sharp - base, 0.0)) * radius_px
    first, last = max(int(column - limit), 0), min(int(column + limit + 1.0), row.shape[1])
    step = _LEAVES_PER_M / scale
    leaf_y = start + _LEAVES_PER_M * z
    ambient = 0.42 + 0.58 * up * light[1]
    to_right, towards = 0.58 * light[0], 0.58 * light[2]
    red, green, blue = colour[0] * (1.0 - haze), colour[1] * (1.0 - haze), colour[2] * (1.0 - haze)
    haze_red, haze_green, haze_blue = HAZE_RED * haze, HAZE_GREEN * haze, HAZE_BLUE * haze
    for u in range(first, last):
        off = u + 0.5 - column
        right = off * per_px
        square = right * right + base
        leaf = sample(texels, SIZE * SIZE, SIZE >> 1, start + step * off, leaf_y)
        rim = 1.0 + ragged * leaf
        cover = alpha * unit((rim * rim - square) * sharp + 0.5)
        if cover <= 0.0:
            continue
        sunlit = unit(ambient + right * to_right + np.sqrt(max(1.0 - square, 0.0)) * towards)
        lit = (0.44 + 0.72 * sunlit) * (1.0 + detail * leaf)
        row[0, u] += cover * (red * lit + haze_red - row[0, u])
        row[1, u] += cover * (green * lit + haze_green - row[1, u])
        row[2, u] += cover * (blue * lit + haze_blue - row[2, u])


_BLACK, _HALF, _WHITE = np.float32(0.0), np.float32(0.5), np.float32(255.0)
_NEXT = np.uintp(1)
"""Unsigned, or every index is first checked for counting from the end."""


@compiled
def paint_rows(
    frame: NumpyFrames, start: int, stop: int, canvas: Canvas, x: float, y: float, heading: float, cosine: float, sine: float
) -> None:
    """Paints rows `start` to `stop` (excluded) of a frame. x, y: the camera's place; heading and its cosine and sine."""
    row = np.empty((3, frame.shape[1]), np.float32)
    scratch = np.empty(SCRATCH, np.float32)
    seen = visible_trees(canvas, x, y, cosine, sine, frame.shape[1])
    right = canvas.sun[0] * sine - canvas.sun[1] * cosine
    towards = -(canvas.sun[0] * cosine + canvas.sun[1] * sine)
    light = (right, canvas.sun[2], towards)
    for v in range(start, stop):
        if canvas.down[v] > 0.0:
            paint_ground(row, v, canvas, x, y, cosine, sine, scratch)
        else:
            _paint_sky(row, v, canvas, heading)
        paint_trees(row, v, seen, canvas.trees, canvas.texels, light)
        for u in range(frame.shape[1]):
            frame[v, u, 0] = np.uint8(min(max(row[0, u] + _HALF, _BLACK), _WHITE))
            frame[v, u, 1] = np.uint8(min(max(row[1, u] + _HALF, _BLACK), _WHITE))
            frame[v, u, 2] = np.uint8(min(max(row[2, u] + _HALF, _BLACK), _WHITE))


@compiled
def _paint_sky(row: Row, v: int, canvas: Canvas, heading: float) -> None:
    """Looks the row up in the panorama, bilinear."""
    sky = canvas.sky.ravel()
    rows, columns = canvas.sky.shape[0], canvas.sky.shape[1]
    below = np.uintp(3 * columns)
    turn = heading * (columns / (2.0 * np.pi)) - 0.5
    # A whole turn more, so that what lies to the right of azimuth zero stays positive.
    turn += columns * (1.0 - np.floor(turn / columns))
    for u in range(row.shape[1]):
        x = turn + canvas.sky_column[v, u]
        y = min(max(canvas.sky_row[v, u] - 0.5, 0.0), rows - 1.001)
        i = int(x)
        j = int(y)
        fx = np.float32(x - i)
        fy = np.float32(y - j)
        i = i - columns if i >= columns else i
        i = i - columns if i >= columns else i
        right = i + 1 if i + 1 < columns else 0
        a = np.uintp(3 * (j * columns + i))
        b = np.uintp(3 * (j * columns + right))
        for c in range(3):
            top = sky[a] + (sky[b] - sky[a]) * fx
            bottom = sky[a + below] + (sky[b + below] - sky[a + below]) * fx
            row[c, u] = top + (bottom - top) * fy
            a += _NEXT
            b += _NEXT
