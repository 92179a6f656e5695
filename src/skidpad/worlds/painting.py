"""The kernel that paints a frame, row by row: sky and hills or the ground, then trees from far to near.

Only sums, products, quotients and square roots, none of them reordered, so that a frame's bytes depend on little more
than IEEE arithmetic.
"""

import numpy as np

from skidpad.core.images import NumpyFrames
from skidpad.worlds.canvas import Canvas, Row
from skidpad.worlds.compiling import compiled
from skidpad.worlds.ground import SCRATCH, paint_ground
from skidpad.worlds.trees import paint_trees, visible_trees

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
