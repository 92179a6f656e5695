"""Upright cards: how everything that stands or moves is put into a picture.

A card is a rectangle that stands on the ground and carries a sprite: a tree or a car turns it towards the camera, a wall does not.
A ray meets a card by two products and a quotient, the same for all of them.
"""

from __future__ import annotations

from math import atan2, exp, floor, pi, sqrt

import numpy as np
from numpy.typing import NDArray

from skidpad.core.images import FloatArray
from skidpad.worlds.render.compiling import uncounted
from skidpad.worlds.render.sprites.atlas import LEVELS
from skidpad.worlds.render.sprites.built import FACADE_M
from skidpad.worlds.render.sprites.cars import CAR_ANGLES, CARD_FOOT_M, CARD_M
from skidpad.worlds.render.sprites.living import PERSON_M, WALK_PHASES
from skidpad.worlds.render.surface import f, whole
from skidpad.worlds.render.weather import Look
from skidpad.worlds.scenario.scenario import CAR_WIDTH_M

FACING, X, Y, DX, DY, LENGTH, LOW, HIGH, SPRITE, RED, GREEN, BLUE, ACROSS, EMIT, FAR = range(15)
"""Columns of a card in the world: 1 if it faces the camera; its middle, or the start and direction of a wall; its length, lower and
upper end in metres; the sprite's number; the tint; how many pictures lie side by side; how much it shines; how far it is seen."""
STANDING = 15

(
    C,
    AX,
    AY,
    VX,
    VY,
    LONG,
    FOOT,
    TOP,
    SU,
    SV,
    LAST_ROW,
    START,
    MASK,
    TINT_R,
    TINT_G,
    TINT_B,
    LIGHT_RIGHT,
    LIGHT_UP,
    LIGHT_TOWARDS,
    ALPHA,
    CLEAR,
) = range(21)
BASE_R, BASE_G, BASE_B, SUN_R, SUN_G, SUN_B, FOG_R, FOG_G, FOG_B, SHINE = range(21, 31)
"""Columns of a card as a camera sees it: its line on the ground from (AX, AY) along (VX, VY), metres ahead and to the left, and the
cross product C of the two; texels to a metre; where the level starts; tint; the sun's direction; fade; what the air leaves of it; the
light that it always gets, that it gets from the sun and that the air adds; how much it shines."""
SEEN = 31

NEAR_M = 0.6
GONE = 4.2
"""No card is painted of which the air has left less than exp of minus this."""
FADE_M = 30.0
GLOW_M = 1.5
GLOW_FROM_M = 4.0
"""No glow is seen from nearer: it would fill the picture."""


@uncounted
def place_on(nodes: FloatArray, s: float, lateral: float) -> tuple[float, float, float, float]:
    """Returns x, y and the direction (cosine, sine) of a place beside the road; within a tenth of a millimetre."""
    node = min(max(whole(floor(s)) + 1, 0), len(nodes) - 1)
    step = s - nodes[node, 5]
    half = 0.5 * nodes[node, 4] * step
    cos_half = 1.0 - 0.5 * half * half
    sin_half = half * (1.0 - half * half * (1.0 / 6.0))
    cos, sin = nodes[node, 2], nodes[node, 3]
    x = nodes[node, 0] + step * (cos * cos_half - sin * sin_half)
    y = nodes[node, 1] + step * (sin * cos_half + cos * sin_half)
    double_cos = 1.0 - 2.0 * sin_half * sin_half
    double_sin = 2.0 * sin_half * cos_half
    along_x = cos * double_cos - sin * double_sin
    along_y = sin * double_cos + cos * double_sin
    return x - lateral * along_y, y + lateral * along_x, along_x, along_y


@uncounted
def moving_cards(
    movers: FloatArray,
    nodes: FloatArray,
    time_s: float,
    eye_x: float,
    eye_y: float,
    glow: float,
    firsts: FloatArray,
    out: FloatArray,
    shadows: FloatArray,
) -> int:
    """Fills the cards of moving objects and the places of their shadows; returns how many cards.

    firsts: the numbers of the first sprite of cars, people and of the glow. out: (3 K, STANDING). shadows: (K, 6): x, y, direction,
    half length, half width.
    """
    count = 0
    for k in range(len(movers)):
        x, y, cos, sin = place_on(nodes, movers[k, 0] + movers[k, 2] * time_s, movers[k, 1])
        if movers[k, 2] < 0.0:
            cos, sin = -cos, -sin
        away_x, away_y = x - eye_x, y - eye_y
        distance = sqrt(away_x * away_x + away_y * away_y) + 1e-6
        person = movers[k, 3] > 0.5
        shadows[k, 0], shadows[k, 1], shadows[k, 2], shadows[k, 3] = x, y, cos, sin
        shadows[k, 4], shadows[k, 5] = (0.28, 0.28) if person else (2.25, 0.92)
        card = out[count]
        for column in range(STANDING):
            card[column] = 0.0
        card[FACING], card[X], card[Y] = 1.0, x, y
        card[RED], card[GREEN], card[BLUE] = movers[k, 4], movers[k, 5], movers[k, 6]
        card[ACROSS], card[FAR] = 1.0, 400.0
        count += 1
        if person:
            phase = floor(time_s * 1.9 * WALK_PHASES * 0.5 + 3.0 * k)
            card[SPRITE] = firsts[1] + phase % WALK_PHASES
            card[LENGTH], card[HIGH] = PERSON_M[0], PERSON_M[1]
            continue
        # The angle between the line of sight and the car's own direction: 0 from behind, positive where the car is turned to the left.
        ahead = (away_x * cos + away_y * sin) / distance
        turned = (away_x * sin - away_y * cos) / distance
        angle = atan2(turned, ahead)
        step = floor(abs(angle) * ((CAR_ANGLES - 1) / pi) + 0.5)
        card[SPRITE] = firsts[0] + step
        card[LENGTH], card[LOW], card[HIGH] = CARD_M[0], CARD_FOOT_M, CARD_FOOT_M + CARD_M[1]
        card[ACROSS] = 1.0 if angle >= 0.0 else -1.0
        card[EMIT] = 1.1
        if glow <= 0.0:
            continue
        behind = ahead > 0.0
        reach = -2.3 if behind else 2.3
        for side in (-1.0, 1.0):
            if ahead * ahead < 0.1 or distance < GLOW_FROM_M:
                continue
            lamp = out[count]
            for column in range(STANDING):
                lamp[column] = 0.0
            across = side * 0.36 * CAR_WIDTH_M
            lamp[FACING], lamp[X], lamp[Y] = 1.0, x + reach * cos - across * sin, y + reach * sin + across * cos
            size = GLOW_M * (0.8 if behind else 1.6)
            middle = 0.76 if behind else 0.66
            lamp[LENGTH], lamp[LOW], lamp[HIGH] = size, middle - 0.5 * size, middle + 0.5 * size
            lamp[SPRITE] = firsts[2]
            lamp[RED], lamp[GREEN], lamp[BLUE] = (1.0, 0.10, 0.07) if behind else (1.0, 0.96, 0.86)
            lamp[ACROSS], lamp[EMIT], lamp[FAR] = 1.0, glow * (0.7 if behind else 1.3), 400.0
            count += 1
    return count


@uncounted
def lamp_at(ahead: float, left: float, headlights: float, fog_lights: float) -> float:
    """How much of the ego's own light reaches a place before the camera: two low beams, and wide short fog lights."""
    one = f(1.0)
    ahead = max(f(ahead), f(0.5))
    angle = f(left) / ahead
    narrow, wide = angle * f(2.5), angle * f(1.1)
    narrow *= narrow
    wide *= wide
    far, short = ahead * f(1.0 / 25.0), ahead * f(1.0 / 9.0)
    beam = f(1.25) / ((one + narrow * narrow) * (one + far * far) * f(sqrt(one + far * far)))
    fog = f(0.55) / ((one + wide * wide) * (one + short * short) * (one + short * short))
    begin = min(max((ahead - f(1.5)) * f(0.3), f(0.0)), one)
    return (f(headlights) * beam + f(fog_lights) * fog) * begin


@uncounted
def see_cards(
    moving: FloatArray,
    standing: FloatArray,
    sprites: FloatArray,
    eye: tuple[float, float, float, float],
    lens: FloatArray,
    pixels: tuple[int, int],
    sun: FloatArray,
    look: Look,
    depths: FloatArray,
    order: NDArray[np.int64],
    boxes: NDArray[np.int32],
    seen: NDArray[np.float32],
    bounds: NDArray[np.int32],
) -> int:
    """Fills what a camera sees of the cards of two tables, from near to far; returns how many.

    eye: x, y, cosine and sine. pixels: width and height. seen: (K, SEEN). bounds: (K, 4): first and last column, first and last row.
    depths and order, (K,), and boxes, (K, 4), are room to work in.
    """
    count = 0
    for k in range(len(moving) + len(standing)):
        card = moving[k] if k < len(moving) else standing[k - len(moving)]
        depth = depth_of(card, eye, lens, pixels, look, boxes[count])
        if depth < 0.0:
            continue
        place = count
        while place > 0 and depths[place - 1] > depth:
            depths[place], order[place] = depths[place - 1], order[place - 1]
            place -= 1
        depths[place], order[place] = depth, (k << 32) | count
        count += 1
    for place in range(count):
        box = boxes[order[place] & 0xFFFFFFFF]
        for side in range(4):
            bounds[place, side] = box[side]
        k = order[place] >> 32
        see_card(seen[place], moving[k] if k < len(moving) else standing[k - len(moving)], sprites, eye, lens[0], sun, look)
    return count


@uncounted
def depth_of(
    card: FloatArray,
    eye: tuple[float, float, float, float],
    lens: FloatArray,
    pixels: tuple[int, int],
    look: Look,
    box: NDArray[np.int32],
) -> float:
    """Returns how far ahead a card stands and fills its box, (4,); -1 where the camera does not see it."""
    ahead, left, vx, vy = line_of(card, eye)
    end, end_left = ahead + card[LENGTH] * vx, left + card[LENGTH] * vy
    middle = 0.5 * (ahead + end)
    # A wall is seen from where its left end lies at the left.
    if max(ahead, end) < NEAR_M or middle >= card[FAR] or ahead * vy - left * vx >= 0.0 or look.extinction_per_m * middle > GONE:
        return -1.0
    if not _box(box, card, ahead, left, end, end_left, lens, pixels, look.wet > 0.0):
        return -1.0
    # A wall whose nearer end is beside the camera may have its middle behind it.
    depth: float = max(middle, 0.0)
    return depth


@uncounted
def line_of(card: FloatArray, eye: tuple[float, float, float, float]) -> tuple[float, float, float, float]:
    """Returns a card's line before the eye: metres ahead and to the left of its left end, and its direction."""
    x, y, cos, sin = eye
    dx, dy = card[X] - x, card[Y] - y
    ahead, left = dx * cos + dy * sin, dy * cos - dx * sin
    if card[FACING] > 0.5:
        return ahead, left + 0.5 * card[LENGTH], 0.0, -1.0
    return ahead, left, card[DX] * cos + card[DY] * sin, card[DY] * cos - card[DX] * sin


@uncounted
def _box(
    box: NDArray[np.int32],
    card: FloatArray,
    ahead: float,
    left: float,
    end: float,
    end_left: float,
    lens: FloatArray,
    pixels: tuple[int, int],
    mirrored: bool,  # noqa: FBT001 - compiled code has no keywords
) -> bool:
    """Finds the columns and rows of a card, with its mirror image where there is one; tells whether any lie in the picture."""
    focal, height, cos_pitch, sin_pitch = lens[0], lens[1], lens[2], lens[3]
    # What lies behind the camera is cut off.
    if ahead < NEAR_M:
        left += (NEAR_M - ahead) / (end - ahead) * (end_left - left)
        ahead = NEAR_M
    elif end < NEAR_M:
        end_left += (NEAR_M - end) / (ahead - end) * (left - end_left)
        end = NEAR_M
    low_u, high_u, low_v, high_v = 1e9, -1e9, 1e9, -1e9
    for a, b in ((ahead, left), (end, end_left)):
        for z in (card[LOW], card[HIGH], 2.0 * card[LOW] - card[HIGH]):
            if z < card[LOW] and not mirrored:
                continue
            into = max(a * cos_pitch + (height - z) * sin_pitch, 0.05)
            u = 0.5 * pixels[0] - focal * b / into
            v = 0.5 * pixels[1] + focal * ((height - z) * cos_pitch - a * sin_pitch) / into
            low_u, high_u = min(low_u, u), max(high_u, u)
            low_v, high_v = min(low_v, v), max(high_v, v)
    if high_u < 0.0 or low_u > pixels[0] or high_v < 0.0 or low_v > pixels[1]:
        return False
    box[0], box[1] = int(max(low_u - 1.0, 0.0)), int(min(high_u + 1.0, pixels[0] - 1.0))
    box[2], box[3] = int(max(low_v - 1.0, 0.0)), int(min(high_v + 1.0, pixels[1] - 1.0))
    return True


@uncounted
def see_card(
    out: NDArray[np.float32],
    card: FloatArray,
    sprites: FloatArray,
    eye: tuple[float, float, float, float],
    focal: float,
    sun: FloatArray,
    look: Look,
) -> None:
    """Fills one card as the camera sees it."""
    ahead, left, vx, vy = line_of(card, eye)
    end, end_left = ahead + card[LENGTH] * vx, left + card[LENGTH] * vy
    depth = max(0.5 * (ahead + end), NEAR_M)
    sprite = int(card[SPRITE])
    width, rows = sprites[sprite, 1], sprites[sprite, 2]
    # Facades repeat, at one scale for all walls; everything else is as large as its card.
    facade = card[FACING] < 0.5 and card[EMIT] > 1.0
    per_m = abs(card[ACROSS]) * width / card[LENGTH]
    down_m = rows / (FACADE_M if facade else card[HIGH] - card[LOW])
    # The level whose texels are about three quarters of a pixel; a wall that is seen askew needs a coarser one.
    fine = 0.75 * max(per_m / max(abs(vy), 0.35), down_m) * depth / focal
    level, start, scale = 0, sprites[sprite, 0], 1.0
    while fine * scale > 1.0 and level < LEVELS - 1:
        start += width * rows * scale * scale
        scale *= 0.5
        level += 1
    sun_ahead, sun_left = sun[0] * eye[2] + sun[1] * eye[3], sun[1] * eye[2] - sun[0] * eye[3]
    turn = -1.0 if card[ACROSS] < 0.0 else 1.0
    if turn < 0.0:
        out[AX], out[AY] = end, end_left
    else:
        out[AX], out[AY] = ahead, left
    out[VX], out[VY] = turn * vx, turn * vy
    out[C] = turn * (ahead * vy - left * vx)
    out[LONG], out[FOOT], out[TOP] = card[LENGTH], card[LOW], card[HIGH]
    out[SU], out[SV], out[LAST_ROW] = per_m * scale, down_m * scale, rows * scale - 1.0
    out[START], out[MASK] = start, width * scale - 1.0
    out[TINT_R], out[TINT_G], out[TINT_B] = card[RED] - 1.0, card[GREEN] - 1.0, card[BLUE] - 1.0
    # To the right along the card, and out of it towards the camera.
    out[LIGHT_RIGHT] = turn * (sun_ahead * vx + sun_left * vy)
    out[LIGHT_UP] = sun[2]
    out[LIGHT_TOWARDS] = sun_ahead * vy - sun_left * vx
    clear = exp(-look.extinction_per_m * depth)
    lamp = lamp_at(depth, 0.5 * (left + end_left), look.headlights, look.fog_lights)
    out[ALPHA] = min(max((card[FAR] - 0.5 * (ahead + end)) * (1.0 / FADE_M), 0.0), 1.0)
    out[BASE_R] = clear * (look.ambient_red + look.lamp_red * lamp)
    out[BASE_G] = clear * (look.ambient_green + look.lamp_green * lamp)
    out[BASE_B] = clear * (look.ambient_blue + look.lamp_blue * lamp)
    out[SUN_R], out[SUN_G], out[SUN_B] = clear * look.sun_red, clear * look.sun_green, clear * look.sun_blue
    out[FOG_R] = (1.0 - clear) * look.air_red * (1.0 / 255.0)
    out[FOG_G] = (1.0 - clear) * look.air_green * (1.0 / 255.0)
    out[FOG_B] = (1.0 - clear) * look.air_blue * (1.0 / 255.0)
    out[SHINE] = clear * card[EMIT] * (0.15 + 0.85 * look.glow) * (1.0 / 255.0)
    out[CLEAR] = clear
