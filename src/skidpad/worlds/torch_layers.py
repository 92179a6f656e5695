"""What lies between the ground and the finished frames in torch: cards over tiles, sky, what falls, drops on the lens."""

from __future__ import annotations

import torch
from torch import Tensor

from skidpad.worlds import cards as c
from skidpad.worlds.falling import TILE
from skidpad.worlds.torch_cards import LOOK, TILE_COLUMNS, TILE_ROWS
from skidpad.worlds.torch_pack import LAYERS, Pack, Present, Shared

_CLOSED = 0.01
"""Where less than this is left to see, nothing behind is painted."""


def layer(
    front: Tensor,
    seen: Tensor,
    cards: Tensor,
    tile: Tensor,
    shared: Shared,
    snow: Tensor,
    ground: Tensor,
    kept: int,
    tiles: tuple[int, int],
    first_row: int,
    height: float,
    present: Present,
) -> Tensor:
    """Adds cards to what is in front of tiles, (A, 4, rows, columns); see `casting`. cards: (A, n), places among the kept ones, or -1."""
    device = front.device
    frame, within = tile // (tiles[0] * tiles[1]), tile % (tiles[0] * tiles[1])
    row = (within // tiles[1] * TILE_ROWS)[:, None, None] + torch.arange(TILE_ROWS, device=device, dtype=torch.int32)[None, :, None]
    column = (within % tiles[1] * TILE_COLUMNS)[:, None, None] + torch.arange(TILE_COLUMNS, device=device, dtype=torch.int32)[None, None]
    pixels = (shared.left.shape[0], shared.rows.shape[0])
    row, column = row.clamp(max=pixels[1] - 1), column.clamp(max=pixels[0] - 1)
    forward, down, left = shared.rows[:, 0][row], shared.rows[:, 1][row], shared.left[column]
    colour, open_ = [front[:, 0], front[:, 1], front[:, 2]], front[:, 3]
    white_cover = snow[frame][:, None, None]
    mirror = None
    if present.wet:
        below = row - first_row
        place = (frame[:, None, None] * ground.shape[2] + below.clamp(min=0)) * pixels[0] + column
        mirror = torch.where(below >= 0, ground[3].reshape(-1)[place], 0.0)
    for k in range(cards.shape[1]):
        number = cards[:, k]
        at = ((frame * kept + number.clamp(min=0)) * c.SEEN)[:, None, None]
        there = (number >= 0)[:, None, None] & (open_ >= _CLOSED)
        hit, weight, texel = _meet(seen, at, there, (forward, down, left), height, mirror)
        colours, surface = shared.texels_colour[texel], shared.texels_surface[texel]
        cover = torch.where(hit, ((colours >> 24) & 255).float(), 0.0)
        right = (surface & 255).float() * (1.0 / 127.0) - 128.0 / 127.0
        up = ((surface >> 8) & 255).float() * (1.0 / 127.0) - 128.0 / 127.0
        glows = ((surface >> 16) & 255).float() * seen[at + c.SHINE]
        tint = ((surface >> 24) & 255).float() * (1.0 / 255.0)
        towards = (1.0 - right * right - up * up).clamp(min=0.0)
        direct = right * seen[at + c.LIGHT_RIGHT] + up * seen[at + c.LIGHT_UP] + towards * seen[at + c.LIGHT_TOWARDS]
        direct = direct.clamp(min=0.0)
        white = white_cover * (1.6 * up + 0.15).clamp(0.0, 1.0)
        share = torch.where(hit, weight * open_, 0.0)
        for channel, value in enumerate(colour):
            own = ((colours >> (8 * channel)) & 255).float() * (1.0 + tint * seen[at + c.TINT_R + channel])
            own = own + (0.9 * cover - own) * white
            light = seen[at + c.BASE_R + channel] + seen[at + c.SUN_R + channel] * direct + glows
            colour[channel] = value + share * (own * light + cover * seen[at + c.FOG_R + channel])
        open_ = open_ * (1.0 - cover * (1.0 / 255.0) * torch.where(hit, weight, 0.0))
    return torch.stack((*colour, open_), dim=1)


def _meet(
    seen: Tensor, at: Tensor, there: Tensor, ray: tuple[Tensor, Tensor, Tensor], height: float, mirror: Tensor | None
) -> tuple[Tensor, Tensor, Tensor]:
    """Tells which rays meet a card, how much it weighs there, and which texel they meet."""
    forward, down, left = ray
    over = 1.0 / (forward * seen[at + c.VY] - left * seen[at + c.VX])
    reach = seen[at + c.C] * over
    along = (left * seen[at + c.AX] - forward * seen[at + c.AY]) * over
    z = height - reach * down
    top, foot, weight = seen[at + c.TOP], seen[at + c.FOOT], seen[at + c.ALPHA]
    hit = there & (reach > 0.0) & (along >= 0.0) & (along < seen[at + c.LONG]) & (z < top)
    if mirror is None:
        hit = hit & (z >= foot)
    else:
        low = z < foot
        weight = torch.where(low, weight * mirror, weight)
        z = torch.where(low, 2.0 * foot - z, z)
        hit = hit & (z < top) & (weight > 0.0)
    line = ((top - z) * seen[at + c.SV]).int().minimum(seen[at + c.LAST_ROW].int())
    mask = seen[at + c.MASK].int()
    # Rays that miss all read the same texel, which costs nothing.
    texel = seen[at + c.START].int() + line * (mask + 1) + ((along * seen[at + c.SU]).int() & mask)
    return hit, weight, torch.where(hit, texel, 0)


def finish(
    front: Tensor,
    ground: Tensor,
    tables: Pack,
    shared: Shared,
    scene: Tensor,
    turn: Tensor,
    time_s: Tensor,
    tiles: tuple[int, int],
    first_row: int,
    present: Present,
) -> Tensor:
    """Puts sky, ground, cards and what falls together, uint8 (N, height, width, 3)."""
    device = front.device
    frames, height, width = len(scene), shared.rows.shape[0], shared.left.shape[0]
    number = torch.arange(frames, device=device, dtype=torch.int32)[:, None, None]
    v = torch.arange(height, device=device, dtype=torch.int32)[None, :, None]
    u = torch.arange(width, device=device, dtype=torch.int32)[None, None]
    tile = (number * tiles[0] + v // TILE_ROWS) * tiles[1] + u // TILE_COLUMNS
    inside = (v % TILE_ROWS) * TILE_COLUMNS + u % TILE_COLUMNS
    flat = front.view(-1)
    step = TILE_ROWS * TILE_COLUMNS
    open_ = flat[tile * (4 * step) + 3 * step + inside]
    open_ = torch.where(open_ >= _CLOSED, open_, 0.0)
    columns = shared.sky_columns
    around = turn[:, None, None] + columns * (1.0 - torch.floor(turn / columns))[:, None, None] + shared.sky_column[None]
    sky = tables.sky[tables.sky_start[scene][:, None, None] + shared.sky_row[None] * columns + around.int() % columns]
    above = v < first_row
    at = torch.where(above, 0, (number * ground.shape[2] + (v - first_row)) * width + u)
    lower = ground.reshape(4, -1)
    horizon = (shared.rows[:, 1] > 0.0)[None, :, None] & above
    parts = []
    for k, name in enumerate(("red", "green", "blue")):
        far = torch.where(horizon, tables.look[:, LOOK[f"air_{name}"]][scene][:, None, None], ((sky >> (8 * k)) & 255).float())
        value = torch.where(above, far, lower[k][at])
        parts.append(flat[tile * (4 * step) + k * step + inside] + open_ * value)
    if present.falls:
        parts = _falling(parts, tables, shared, scene, time_s, u, v)
    return torch.stack([(part + 0.5).clamp(0.0, 255.0) for part in parts], dim=-1).to(torch.uint8)


def _falling(parts: list[Tensor], tables: Pack, shared: Shared, scene: Tensor, time_s: Tensor, u: Tensor, v: Tensor) -> list[Tensor]:
    """Adds streaks or flakes; see `falling`."""
    when = time_s[:, None, None]
    for k in range(LAYERS):
        wide, high, fall, drift, offset, weight, kind = (tables.layers[:, k, p][scene][:, None, None] for p in range(7))
        line = torch.floor((v + 0.5) * high + fall * when + 3.0 * offset).int() & (TILE - 1)
        column = torch.floor(drift * when + offset + (u + 0.5) * wide).int() & (TILE - 1)
        at = line * TILE + column
        share = weight * (1.0 / 255.0) * torch.where(kind > 1.5, shared.flakes[at], shared.streaks[at]).float()
        parts = [part + share * (tables.colour[:, p][scene][:, None, None] - part) for p, part in enumerate(parts)]
    return parts


def bend(frames: Tensor, drops: Tensor, step: Tensor, limit: Tensor) -> Tensor:
    """Shows, where drops lie on the lens, the part of the frame that they bend there; see `falling`.

    step: (N,), which map of the drops; limit: (N,), how many of them there are.
    """
    count, height, width = frames.shape[:3]
    v = torch.arange(height, device=frames.device, dtype=torch.int32)[None, :, None]
    u = torch.arange(width, device=frames.device, dtype=torch.int32)[None, None]
    number = torch.arange(count, device=frames.device, dtype=torch.int32)[:, None, None]
    word = drops.view(-1)[(step[:, None, None] * height + v) * width + u]
    there = ((word >> 24) & 255) < limit[:, None, None]
    column, line = (u + (word & 255) - 128).clamp(0, width - 1), (v + ((word >> 8) & 255) - 128).clamp(0, height - 1)
    at = torch.where(there, (number * height + line) * width + column, (number * height + v) * width + u) * 3
    light = torch.where(there, (word >> 16) & 255, 255)
    flat = frames.reshape(-1)
    return torch.stack([(flat[at + k].int() * light) // 255 for k in range(3)], dim=-1).to(torch.uint8)
