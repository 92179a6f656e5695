"""Pictures of what people build beside roads: facades, gantries, posts; and the glow of lamps."""

from __future__ import annotations

import numpy as np

from skidpad.core.seeding import child_rng
from skidpad.worlds.render.props import FACADES
from skidpad.worlds.render.sprites.atlas import COVER, SHINE, TINT, UP, Picture, empty_picture
from skidpad.worlds.render.texture import SIZE, noise_levels

FACADE_PX, FACADE_M = 256, 12.0
"""A facade's picture is a square of four floors and four windows across."""
BOARD_M = (3.2, 2.0)
BEAM_M = (3.2, 0.8)


def _fill(
    picture: Picture, box: tuple[float, float, float, float], colour: tuple[float, float, float], shine: float = 0.0, tint: float = 0.0
) -> None:
    """Fills a rectangle, opaque. box: top, bottom, left, right in shares of the picture."""
    height, width = picture.shape[:2]
    rows = slice(round(box[0] * height), round(box[1] * height))
    columns = slice(round(box[2] * width), round(box[3] * width))
    picture[rows, columns, :3] = colour
    picture[rows, columns, COVER] = 255.0
    picture[rows, columns, SHINE] = 255.0 * shine
    picture[rows, columns, TINT] = 255.0 * tint


def facades() -> list[Picture]:
    """Returns walls with windows, some of them lit at night."""
    grain = noise_levels()[: SIZE * SIZE].reshape(SIZE, SIZE)
    styles = [(0.46, 0.56, 1, False), (0.34, 0.62, 1, True), (0.72, 0.52, 2, False), (0.40, 0.66, 1, False)][:FACADES]
    made = []
    for number, (wide, high, panes, brick) in enumerate(styles):
        rng = child_rng(0, "facade", number)
        picture = empty_picture(FACADE_PX, FACADE_PX)
        _fill(picture, (0.0, 1.0, 0.0, 1.0), (214.0, 206.0, 192.0), tint=1.0)
        if brick:
            rows, columns = np.mgrid[:FACADE_PX, :FACADE_PX]
            joint = (rows % 4 == 0) | ((columns + 5 * (rows // 4 % 2)) % 10 == 0)
            picture[..., :3] *= np.where(joint, 0.86, 1.0 + 0.10 * grain)[..., None]
        picture[..., :3] *= (1.0 + 0.06 * grain)[..., None]
        for floor in range(4):
            top = floor / 4.0
            _fill(picture, (top, top + 0.012, 0.0, 1.0), (184.0, 176.0, 164.0), tint=0.8)
            for bay in range(4):
                _window(picture, rng, top + 0.25 * (1.0 - high) * 0.45, 0.25 * high, (bay + 0.5) / 4.0, 0.25 * wide, panes)
        made.append(picture)
    return made


def _window(picture: Picture, rng: np.random.Generator, top: float, high: float, middle: float, wide: float, panes: int) -> None:
    left, right, bottom = middle - 0.5 * wide, middle + 0.5 * wide, top + high
    frame = 0.010
    _fill(picture, (top - frame, bottom + frame, left - frame, right + frame), (232.0, 230.0, 224.0))
    _fill(picture, (bottom + frame, bottom + 0.022, left - 0.016, right + 0.016), (168.0, 162.0, 152.0))
    lit = rng.random() < 0.34
    dark = float(rng.uniform(0.7, 1.15))
    for pane in range(panes):
        a = left + (right - left) * pane / panes + (0.004 if pane else 0.0)
        b = left + (right - left) * (pane + 1) / panes
        if lit:
            _fill(picture, (top, bottom, a, b), (112.0, 98.0, 72.0), shine=float(rng.uniform(0.55, 1.0)))
        else:
            _fill(picture, (top, bottom, a, b), (66.0 * dark, 78.0 * dark, 92.0 * dark))
            # The upper part of a pane mirrors the sky.
            _fill(picture, (top, top + 0.42 * high, a, b), (112.0 * dark, 132.0 * dark, 150.0 * dark))
        if rng.random() < 0.4:
            _fill(picture, (top, bottom, a, a + 0.2 * (b - a)), (206.0, 200.0, 190.0), shine=0.3 * lit)


def board() -> Picture:
    """Returns a motorway sign: arrows and lines of writing on blue."""
    picture = empty_picture(128, 256)
    _fill(picture, (0.0, 1.0, 0.0, 1.0), (240.0, 242.0, 244.0), shine=0.12)
    _fill(picture, (0.03, 0.97, 0.018, 0.982), (24.0, 78.0, 160.0), shine=0.10)
    rng = child_rng(0, "board")
    for line, top in enumerate((0.14, 0.40)):
        left = 0.08
        while left < (0.62 if line else 0.8):
            wide = float(rng.uniform(0.022, 0.04))
            _fill(picture, (top, top + 0.15, left, left + wide), (240.0, 242.0, 244.0), shine=0.12)
            _fill(picture, (top + 0.045, top + 0.075, left + 0.008, left + wide - 0.004), (24.0, 78.0, 160.0), shine=0.1)
            left += wide + 0.016
    for middle in (0.5,):
        _fill(picture, (0.64, 0.80, middle - 0.018, middle + 0.018), (240.0, 242.0, 244.0), shine=0.12)
        for step in range(12):
            half = 0.055 * (1.0 - step / 12.0)
            _fill(picture, (0.80 + 0.01 * step, 0.81 + 0.01 * step, middle - half, middle + half), (240.0, 242.0, 244.0), shine=0.12)
    return picture


def beam() -> Picture:
    """Returns one length of a gantry's lattice."""
    picture = empty_picture(32, 128)
    rows, columns = np.mgrid[:32, :128]
    zigzag = np.abs((columns / 32.0) % 2.0 - 1.0)
    solid = (rows < 5) | (rows > 26) | (np.abs(rows / 31.0 - zigzag) < 0.12)
    picture[solid, :3] = (150.0, 154.0, 158.0)
    picture[solid, COVER] = 255.0
    return picture


def post() -> Picture:
    """Returns a round steel post."""
    picture = empty_picture(64, 32)
    _fill(picture, (0.0, 1.0, 0.1, 0.9), (158.0, 161.0, 164.0))
    picture[..., 4] = 128.0 + 110.0 * np.linspace(-1.0, 1.0, 32)[None, :]
    return picture


def delineator() -> Picture:
    """Returns a white post with a black band and a reflector."""
    picture = empty_picture(64, 32)
    _fill(picture, (0.0, 1.0, 0.15, 0.85), (236.0, 236.0, 232.0))
    _fill(picture, (0.16, 0.36, 0.15, 0.85), (34.0, 34.0, 36.0))
    _fill(picture, (0.20, 0.32, 0.34, 0.66), (255.0, 170.0, 40.0), shine=1.0)
    picture[..., UP] = 128.0
    return picture


def glow() -> Picture:
    """Returns light without a body: it is added and covers nothing."""
    picture = empty_picture(64, 64)
    rows, columns = (np.mgrid[:64, :64] - 31.5) / 32.0
    distance = np.hypot(rows, columns)
    light = np.clip(1.0 - distance, 0.0, 1.0) ** 2 / (1.0 + 14.0 * distance**2)
    picture[..., :3] = 255.0 * light[..., None]
    picture[..., SHINE] = 255.0
    picture[..., TINT] = 255.0
    return picture
