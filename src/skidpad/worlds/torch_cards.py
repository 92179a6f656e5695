"""Cards of many frames at once: what `cards` does for one, and the lists of cards that each tile of a picture needs."""

from __future__ import annotations

from math import pi

import torch
from torch import Tensor

from skidpad.worlds import cards as c
from skidpad.worlds.atlas import LEVELS
from skidpad.worlds.objects import CAR_WIDTH_M
from skidpad.worlds.sprites_built import FACADE_M
from skidpad.worlds.sprites_cars import CAR_ANGLES, CARD_FOOT_M, CARD_M
from skidpad.worlds.sprites_living import PERSON_M, WALK_PHASES
from skidpad.worlds.torch_pack import Pack, Shared
from skidpad.worlds.weather import Look

LOOK = {name: column for column, name in enumerate(Look._fields)}

TILE_ROWS, TILE_COLUMNS = 32, 16
KEPT = 160
"""So many cards of a frame are kept, the nearest ones."""
DEEP = 32
"""So many cards of a tile are painted, the nearest ones."""


def moving(pack: Pack, scene: Tensor, time_s: Tensor, eye: Tensor, glow: Tensor, firsts: tuple[int, int, int]) -> tuple[Tensor, Tensor]:
    """Returns the cards of who moves, (N, 3 M, STANDING), and their shadows before the eye, (N, M, 6). eye: (N, 4)."""
    movers = pack.movers[scene]
    s = movers[..., 0] + movers[..., 2] * time_s[:, None]
    count, start = pack.node_count[scene][:, None], pack.node_start[scene][:, None]
    node = pack.nodes[start + (torch.floor(s).int() + 1).clamp(min=0).minimum(count - 1)]
    step = s - node[..., 5]
    half = 0.5 * node[..., 4] * step
    cos_half, sin_half = 1.0 - 0.5 * half * half, half * (1.0 - half * half * (1.0 / 6.0))
    cos, sin = node[..., 2], node[..., 3]
    x = node[..., 0] + step * (cos * cos_half - sin * sin_half)
    y = node[..., 1] + step * (sin * cos_half + cos * sin_half)
    double_cos, double_sin = 1.0 - 2.0 * sin_half * sin_half, 2.0 * sin_half * cos_half
    along_x, along_y = cos * double_cos - sin * double_sin, sin * double_cos + cos * double_sin
    x, y = x - movers[..., 1] * along_y, y + movers[..., 1] * along_x
    turn = torch.where(movers[..., 2] < 0.0, -1.0, 1.0)
    cos, sin = turn * along_x, turn * along_y
    there, person = movers[..., 7] > 0.5, movers[..., 3] > 0.5
    away_x, away_y = x - eye[:, None, 0], y - eye[:, None, 1]
    distance = torch.sqrt(away_x * away_x + away_y * away_y) + 1e-6
    ahead, turned = (away_x * cos + away_y * sin) / distance, (away_x * sin - away_y * cos) / distance
    angle = torch.atan2(turned, ahead)
    number = torch.arange(movers.shape[1], device=movers.device, dtype=torch.float32)[None]
    phase = torch.floor(time_s[:, None] * 1.9 * WALK_PHASES * 0.5 + 3.0 * number)
    zero, one = torch.zeros_like(x), torch.ones_like(x)
    hidden = torch.where(there, zero, one * 1e9)

    def chosen(for_person: float | Tensor, for_car: float | Tensor) -> Tensor:
        return torch.where(person, for_person * one, for_car * one)

    body = torch.stack(
        (
            one, x + hidden, y, zero, zero,
            chosen(PERSON_M[0], CARD_M[0]), chosen(0.0, CARD_FOOT_M), chosen(PERSON_M[1], CARD_FOOT_M + CARD_M[1]),
            chosen(firsts[1] + phase % WALK_PHASES, firsts[0] + torch.floor(angle.abs() * ((CAR_ANGLES - 1) / pi) + 0.5)),
            movers[..., 4], movers[..., 5], movers[..., 6],
            chosen(1.0, torch.where(angle >= 0.0, 1.0, -1.0)), chosen(0.0, 1.1), 400.0 * one,
        ),
        dim=-1,
    )  # fmt: skip
    behind = ahead > 0.0
    dark = person | (ahead * ahead < 0.1) | (distance < c.GLOW_FROM_M) | (glow[:, None] <= 0.0) | ~there
    reach = torch.where(behind, -2.3, 2.3)
    size, middle = c.GLOW_M * torch.where(behind, 0.8, 1.6), torch.where(behind, 0.76, 0.66)
    shine = glow[:, None] * torch.where(behind, 0.7, 1.3)
    lamps = []
    for side in (-1.0, 1.0):
        across = side * 0.36 * CAR_WIDTH_M
        lamps.append(
            torch.stack(
                (
                    one, torch.where(dark, 1e9, x + reach * cos - across * sin), y + reach * sin + across * cos, zero, zero, size,
                    middle - 0.5 * size, middle + 0.5 * size, firsts[2] * one,
                    one, torch.where(behind, 0.10, 0.96), torch.where(behind, 0.07, 0.86),
                    one, shine, 400.0 * one,
                ),
                dim=-1,
            )
        )  # fmt: skip
    cards = torch.stack((body, *lamps), dim=2).flatten(1, 2)
    eye_cos, eye_sin = eye[:, None, 2], eye[:, None, 3]
    shadows = torch.stack(
        (
            away_x * eye_cos + away_y * eye_sin + hidden, away_y * eye_cos - away_x * eye_sin,
            cos * eye_cos + sin * eye_sin, sin * eye_cos - cos * eye_sin,
            chosen(0.28, 2.25), chosen(0.28, 0.92),
        ),
        dim=-1,
    )  # fmt: skip
    return cards, shadows


def lamp_at(ahead: Tensor, left: Tensor, headlights: Tensor, fog_lights: Tensor) -> Tensor:
    """How much of the ego's own light reaches a place before the camera; see `cards.lamp_at`."""
    ahead = ahead.clamp(min=0.5)
    angle = left / ahead
    narrow, far, wide, short = (angle * 2.5) ** 2, ahead * (1.0 / 25.0), (angle * 1.1) ** 2, ahead * (1.0 / 9.0)
    beam = 1.25 / ((1.0 + narrow * narrow) * (1.0 + far * far) * torch.sqrt(1.0 + far * far))
    fog = 0.55 / ((1.0 + wide * wide) * (1.0 + short * short) * (1.0 + short * short))
    return (headlights * beam + fog_lights * fog) * ((ahead - 1.5) * 0.3).clamp(0.0, 1.0)


def see(
    cards: Tensor, shared: Shared, eye: Tensor, lens: tuple[float, float, float, float], pixels: tuple[int, int], sun: Tensor, look: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Returns what is seen of the cards: (N, K, SEEN), their boxes (N, K, 4), their depths (N, K), infinite where nothing is seen."""
    focal, height, cos_pitch, sin_pitch = lens
    x, y, cos, sin = (eye[:, None, k] for k in range(4))
    dx, dy = cards[..., c.X] - x, cards[..., c.Y] - y
    long = cards[..., c.LENGTH]
    facing = cards[..., c.FACING] > 0.5
    ahead = dx * cos + dy * sin
    left = dy * cos - dx * sin + torch.where(facing, 0.5 * long, 0.0)
    vx = torch.where(facing, 0.0, cards[..., c.DX] * cos + cards[..., c.DY] * sin)
    vy = torch.where(facing, -1.0, cards[..., c.DY] * cos - cards[..., c.DX] * sin)
    end, end_left = ahead + long * vx, left + long * vy
    middle = 0.5 * (ahead + end)
    cross = ahead * vy - left * vx
    shown = {name: look[:, None, column] for name, column in LOOK.items()}
    ok = (
        (torch.maximum(ahead, end) >= c.NEAR_M)
        & (middle < cards[..., c.FAR])
        & (cross < 0.0)
        & (shown["extinction_per_m"] * middle <= c.GONE)
    )
    # What lies behind the camera is cut off.
    cut_start, cut_end = ahead < c.NEAR_M, (ahead >= c.NEAR_M) & (end < c.NEAR_M)
    a_left = torch.where(cut_start, left + (c.NEAR_M - ahead) / (end - ahead) * (end_left - left), left)
    b_left = torch.where(cut_end, end_left + (c.NEAR_M - end) / (ahead - end) * (left - end_left), end_left)
    a, b = ahead.clamp(min=c.NEAR_M), end.clamp(min=c.NEAR_M)
    low, high = cards[..., c.LOW], cards[..., c.HIGH]
    columns, rows = [], []
    lowest = torch.where(shown["wet"] > 0.0, 2.0 * low - high, low)
    for far, aside in ((a, a_left), (b, b_left)):
        for z in (lowest, high, low):
            into = (far * cos_pitch + (height - z) * sin_pitch).clamp(min=0.05)
            columns.append(0.5 * pixels[0] - focal * aside / into)
            rows.append(0.5 * pixels[1] + focal * ((height - z) * cos_pitch - far * sin_pitch) / into)
    us, vs = torch.stack(columns), torch.stack(rows)
    low_u, high_u, low_v, high_v = us.amin(0), us.amax(0), vs.amin(0), vs.amax(0)
    ok = ok & (high_u >= 0.0) & (low_u <= pixels[0]) & (high_v >= 0.0) & (low_v <= pixels[1])
    boxes = torch.stack((low_u - 1.0, high_u + 1.0, low_v - 1.0, high_v + 1.0), dim=-1)
    return (
        _columns(cards, shared, eye, focal, sun, shown, (ahead, left, vx, vy, end, end_left, middle, cross)),
        boxes,
        torch.where(ok, middle, torch.inf),
    )


def _columns(
    cards: Tensor, shared: Shared, eye: Tensor, focal: float, sun: Tensor, look: dict[str, Tensor], line: tuple[Tensor, ...]
) -> Tensor:
    """Fills the columns of `cards.SEEN`."""
    ahead, left, vx, vy, end, end_left, middle, cross = line
    long, low, high = cards[..., c.LENGTH], cards[..., c.LOW], cards[..., c.HIGH]
    depth = middle.clamp(min=c.NEAR_M)
    sprite = shared.sprites[cards[..., c.SPRITE].int()]
    width, rows = sprite[..., 1], sprite[..., 2]
    facade = (cards[..., c.FACING] < 0.5) & (cards[..., c.EMIT] > 1.0)
    across = cards[..., c.ACROSS]
    per_m = across.abs() * width / long
    down_m = rows / torch.where(facade, FACADE_M, high - low)
    fine = 0.75 * torch.maximum(per_m / vy.abs().clamp(min=0.35), down_m) * depth / focal
    level = sum(((fine * 0.5**k > 1.0).int() for k in range(LEVELS - 1)), torch.zeros_like(fine, dtype=torch.int32))
    scale = torch.exp2(-level.float())
    start = torch.gather(sprite[..., 3:], -1, level.long()[..., None])[..., 0]
    eye_cos, eye_sin = eye[:, None, 2], eye[:, None, 3]
    sun_x, sun_y, sun_z = (sun[:, None, k] for k in range(3))
    sun_ahead, sun_left = sun_x * eye_cos + sun_y * eye_sin, sun_y * eye_cos - sun_x * eye_sin
    turned = across < 0.0
    turn = torch.where(turned, -1.0, 1.0)
    clear = torch.exp(-look["extinction_per_m"] * depth)
    lamp = lamp_at(depth, 0.5 * (left + end_left), look["headlights"], look["fog_lights"])
    colours = ("red", "green", "blue")
    columns = [
        turn * cross, torch.where(turned, end, ahead), torch.where(turned, end_left, left), turn * vx, turn * vy, long, low, high,
        per_m * scale, down_m * scale, rows * scale - 1.0, start, width * scale - 1.0,
        cards[..., c.RED] - 1.0, cards[..., c.GREEN] - 1.0, cards[..., c.BLUE] - 1.0,
        turn * (sun_ahead * vx + sun_left * vy), sun_z.expand_as(vx), sun_ahead * vy - sun_left * vx,
        ((cards[..., c.FAR] - middle) * (1.0 / c.FADE_M)).clamp(0.0, 1.0), clear,
        *(clear * (look[f"ambient_{name}"] + look[f"lamp_{name}"] * lamp) for name in colours),
        *(clear * look[f"sun_{name}"] for name in colours),
        *((1.0 - clear) * look[f"air_{name}"] * (1.0 / 255.0) for name in colours),
        clear * cards[..., c.EMIT] * (0.15 + 0.85 * look["glow"]) * (1.0 / 255.0),
    ]  # fmt: skip
    return torch.stack(columns, dim=-1)


def tile_lists(boxes: Tensor, depths: Tensor, tiles: tuple[int, int]) -> tuple[Tensor, Tensor, Tensor]:
    """Lists the cards of each tile from near to far.

    Returns the order of the kept cards (N, KEPT), for each tile the places in that order (N, rows, columns, DEEP), and how many there
    are (N, rows, columns). tiles: rows and columns of tiles.
    """
    kept = min(KEPT, depths.shape[1])
    near, order = torch.sort(depths, dim=1, stable=True)
    order, near = order[:, :kept], near[:, :kept]
    box = torch.gather(boxes, 1, order[..., None].expand(-1, -1, 4))
    device = boxes.device
    top = TILE_ROWS * torch.arange(tiles[0], device=device, dtype=torch.float32)[None, :, None]
    start = TILE_COLUMNS * torch.arange(tiles[1], device=device, dtype=torch.float32)[None, :, None]
    in_rows = (box[:, None, :, 2] < top + TILE_ROWS) & (box[:, None, :, 3] >= top) & torch.isfinite(near)[:, None]
    in_columns = (box[:, None, :, 0] < start + TILE_COLUMNS) & (box[:, None, :, 1] >= start)
    inside = in_rows[:, :, None] & in_columns[:, None]
    rank = torch.cumsum(inside, dim=-1, dtype=torch.int32)
    slot = torch.where(inside & (rank <= DEEP), rank - 1, DEEP).long()
    places = torch.arange(kept, device=device, dtype=torch.int32).expand(slot.shape)
    lists = torch.zeros((*slot.shape[:-1], DEEP + 1), dtype=torch.int32, device=device)
    # The last slot takes whatever belongs nowhere; it is thrown away.
    lists.scatter_(-1, slot, places)
    return order, lists[..., :DEEP], rank[..., -1].clamp(max=DEEP)
