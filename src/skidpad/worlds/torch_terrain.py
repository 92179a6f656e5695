"""The ground of many frames at once: the arithmetic of `terrain`, for every pixel instead of knots, in one fused kernel where compiled."""

from __future__ import annotations

import torch
from torch import Tensor

from skidpad.worlds import surface as t
from skidpad.worlds.lightmap import COLUMNS, FROM_M, HALF_M, STEP_M
from skidpad.worlds.roadtable import CELL_M, NODE_M
from skidpad.worlds.torch_cards import LOOK, lamp_at
from skidpad.worlds.torch_pack import Pack, Present

Colour = tuple[Tensor, Tensor, Tensor]


def unit(value: Tensor) -> Tensor:
    """Limits a value to [0, 1]."""
    return value.clamp(0.0, 1.0)


def _stripe(position: Tensor, low: Tensor | float, high: Tensor | float, width: Tensor) -> Tensor:
    upper, lower = position + 0.5 * width, position - 0.5 * width
    upper = upper.clamp(max=high) if isinstance(high, float) else torch.minimum(upper, high)
    lower = lower.clamp(min=low) if isinstance(low, float) else torch.maximum(lower, low)
    return unit((upper - lower) / width)


def _dashes(s: Tensor, length: Tensor, dash: float, period: float) -> Tensor:
    a, b = s - 0.5 * length, s + 0.5 * length
    low, high = torch.floor(a / period), torch.floor(b / period)
    before = low * dash + (a - low * period).clamp(max=dash)
    after = high * dash + (b - high * period).clamp(max=dash)
    return (after - before) / length


def _mix(colour: Colour, other: tuple[Tensor | float, Tensor | float, Tensor | float], share: Tensor) -> Colour:
    r, g, b = colour
    return r + (other[0] - r) * share, g + (other[1] - g) * share, b + (other[2] - b) * share


def _beside(nodes: Tensor, node: Tensor, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Returns lateral position, distance along the road, and its direction; see `roadtable`."""
    at = node * 6
    dx, dy = x - nodes[at], y - nodes[at + 1]
    cos, sin, bend = nodes[at + 2], nodes[at + 3], nodes[at + 4]
    along, left = dx * cos + dy * sin, dy * cos - dx * sin
    square = along * along + left * left
    lateral = (2.0 * left - bend * square) / (1.0 + torch.sqrt(1.0 - 2.0 * bend * left + bend * bend * square))
    inner = (1.0 - bend * left).clamp(min=0.1)
    turn = bend * along / inner
    return lateral, nodes[at + 5] + along / inner * (1.0 - turn * turn * (1.0 / 3.0)), cos, sin


def locate(pack: Pack, scene: Tensor, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Returns lateral position, distance along the road, and the direction of the road at places; scene: of a shape that broadcasts."""
    nodes = pack.nodes.view(-1)
    columns = pack.cell_columns[scene]
    i = ((x - pack.origin[:, 0][scene]) * (1.0 / CELL_M)).int().clamp(min=0).minimum(columns - 1)
    j = ((y - pack.origin[:, 1][scene]) * (1.0 / CELL_M)).int().clamp(min=0).minimum(pack.cell_rows[scene] - 1)
    start = pack.node_start[scene]
    first = start + pack.cells[pack.cell_start[scene] + j * columns + i]
    _, s, _, _ = _beside(nodes, first, x, y)
    node = start + (s * (1.0 / NODE_M) + 1.5).int().clamp(min=0).minimum(pack.node_count[scene] - 1)
    return _beside(nodes, node, x, y)


def _smooth(noise: Tensor, offset: Tensor, size: Tensor, x: Tensor, y: Tensor) -> Tensor:
    x0, y0 = torch.floor(x), torch.floor(y)
    fx, fy = x - x0, y - y0
    mask = size - 1
    column, row = x0.int() & mask, y0.int() & mask
    right, below = (column + 1) & mask, (row + 1) & mask
    a, b = noise[offset + row * size + column], noise[offset + row * size + right]
    c, d = noise[offset + below * size + column], noise[offset + below * size + right]
    top = a + fx * (b - a)
    return top + fy * (c + fx * (d - c) - top)


def _shade(pack: Pack, scene: Tensor, s: Tensor, lateral: Tensor) -> Tensor:
    """Returns the shade at places beside the road, 0 to 1, bilinear; beyond the map there is none."""
    rows = pack.shade_rows[scene]
    r, c = (s - FROM_M) * (1.0 / STEP_M), (lateral + HALF_M) * (1.0 / STEP_M)
    inside = (r >= 0.0) & (c >= 0.0) & (r < rows - 1.0) & (c < COLUMNS - 1.0)
    i, j = torch.where(inside, c, 0.0).int(), torch.where(inside, r, 0.0).int()
    fx, fy = c - i, r - j
    at = pack.shade_start[scene] + j * COLUMNS + i
    w, x, y, z = (pack.shade[at + step].float() for step in (0, 1, COLUMNS, COLUMNS + 1))
    top = w + fx * (x - w)
    return torch.where(inside, (top + fy * (y + fx * (z - y) - top)) * (1.0 / 255.0), 0.0)


def paint(
    pack: Pack,
    noise: Tensor,
    rows: Tensor,
    left: Tensor,
    scene: Tensor,
    eye: Tensor,
    grain_at: Tensor,
    shadows: Tensor,
    present: Present,
) -> Tensor:
    """Returns the ground of rows below the horizon, (4, N, H, W): red, green, blue, and how much it mirrors.

    rows: (H, 13), see `torch_pack.Shared`. scene: (N,). eye: (N, 4). grain_at: (N, H, 2), the eye in texels
    of each row's fine noise. shadows: (N, M, 6).
    """
    column = [rows[None, :, None, k] for k in range(13)]
    forward, reach, across_px, along_px = column[0], *column[2:5]
    which = scene[:, None, None]
    look = {name: pack.look[:, k][which] for name, k in LOOK.items()}
    x, y, cos, sin = (eye[:, None, None, k] for k in range(4))
    ahead, side = reach * forward, reach * left[None, None]
    east, north = ahead * cos - side * sin, ahead * sin + side * cos
    px, py = x + east, y + north
    lateral, s, road_cos, road_sin = locate(pack, which, px, py)
    view = left[None, None]
    step_x, step_y = along_px * (cos - sin * view), along_px * (sin + cos * view)
    width = (road_sin * sin + road_cos * cos).abs() * across_px + (road_cos * step_y - road_sin * step_x).abs() + 1e-4
    length = (road_cos * sin - road_sin * cos).abs() * across_px + (road_cos * step_x + road_sin * step_y).abs() + 1e-4
    patch = column[12] * _smooth(noise, column[9].int(), column[10].int(), column[11] * (px + 0.3 * py), column[11] * (py - 0.3 * px))
    size = column[6].int()
    texel_x, texel_y = (torch.floor(grain_at[:, :, k, None] + column[7] * way).int() & (size - 1) for k, way in enumerate((east, north)))
    grain = column[8] * noise[column[5].int() + texel_y * size + texel_x]
    lamp = lamp_at(ahead, side, look["headlights"], look["fog_lights"])
    colour = _grass(patch, grain, look["snow"])
    colour, mirror = _road(pack.section, which, colour, (patch, grain, lateral, s, width, length, lamp), look, column[:2], present)
    for k in range(shadows.shape[1]):
        at, aside, turn_x, turn_y, half_a, half_b = (shadows[:, k, p][:, None, None] for p in range(6))
        soft = torch.where(half_a > 1.0, 0.45, 0.15)
        dx, dy = ahead - at, side - aside
        a, b = (dx * turn_x + dy * turn_y).abs(), (dy * turn_x - dx * turn_y).abs()
        lit = 1.0 - 0.72 * unit((half_a - a) / soft + 0.5) * unit((half_b - b) / soft + 0.5)
        colour = colour[0] * lit, colour[1] * lit, colour[2] * lit
        mirror = mirror * lit
    sunny = 1.0 - _shade(pack, which, s, lateral)
    hazy = 1.0 - torch.exp(-look["extinction_per_m"] * ahead)
    hazy = torch.where(hazy > 0.995, 1.0, hazy)
    parts = []
    for value, name in zip(colour, ("red", "green", "blue"), strict=True):
        seen = value * (look[f"ambient_{name}"] + look[f"sun_{name}"] * sunny + look[f"lamp_{name}"] * lamp)
        parts.append(seen + (look[f"air_{name}"] - seen) * hazy)
    mirror = torch.where(hazy > 0.995, 0.0, mirror)
    return torch.stack((*parts, mirror))


def _grass(patch: Tensor, grain: Tensor, snow: Tensor) -> Colour:
    white = (snow * 1.9).clamp(max=1.0)
    dry, lit = unit(0.42 + 1.1 * patch), 1.0 + 0.42 * grain + 0.18 * patch
    cover = unit(3.0 * (white - 0.55) + 1.2 * grain + 1.6 * patch + 0.35) * white
    bright = 1.0 + 0.05 * grain + 0.05 * patch
    green = ((74.0 + 52.0 * dry) * lit, (104.0 + 24.0 * dry) * lit, (44.0 + 16.0 * dry) * lit)
    return _mix(green, (226.0 * bright, 230.0 * bright, 237.0 * bright), cover)


def _road(
    sections: Tensor,
    which: Tensor,
    colour: Colour,
    at: tuple[Tensor, ...],
    look: dict[str, Tensor],
    ray: list[Tensor],
    present: Present,
) -> tuple[Colour, Tensor]:
    patch, grain, lateral, s, width, length, lamp = at
    edge, paved, outer, lane, lanes = (sections[:, k][which] for k in (t.EDGE, t.PAVED, t.OUTER, t.LANE, t.LANES))
    off = lateral.abs()
    paving = _stripe(off, -1.0, paved + 0.1 * grain, width + 0.05)
    gravel = _stripe(off, -1.0, outer + 0.5 * grain + 0.35 * patch, width + 0.5)
    lines = _stripe(off, edge - t.LINE_M, edge, width)
    if present.ramps:
        turn, start, parallel, taper, leaving = (
            sections[:, k][which] for k in (t.RAMP_TURN, t.RAMP_START, t.RAMP_PARALLEL, t.RAMP_TAPER, t.RAMP_LEAVING)
        )
        along = turn * (s - start)
        gap = leaving * along.clamp(max=0.0) ** 2
        end = gap + lane * unit((parallel + taper - along) / taper)
        right, margin = -lateral - edge, paved - edge
        there = unit((end - gap) * 4.0) * turn.abs()
        paving = torch.maximum(paving, there * _stripe(right, gap - margin, end + margin + 0.1 * grain, width + 0.05))
        rough = _stripe(right, gap - margin - 1.0, end + outer - edge + 0.5 * grain + 0.35 * patch, width + 0.5)
        gravel = torch.maximum(gravel, there * rough)
        gaps = 1.0 - _dashes(s, length, 3.0, 6.0)
        lines = lines * (1.0 - gaps * there * unit(along + 0.5) * unit(right + edge))
        extra = _stripe(right, end - t.LINE_M, end, width) + unit(gap * 3.0 - 0.3) * _stripe(right, gap, gap + t.LINE_M, width)
        lines = (lines + there * extra).clamp(max=1.0)
    stone = 1.0 + 0.5 * grain
    colour = _mix(colour, (148.0 * stone, 136.0 * stone, 114.0 * stone), gravel)
    wheels = unit(1.6 - 2.5 * ((off - lane * (torch.floor(off / lane) + 0.5)).abs() - 0.8).abs())
    tar = 1.0 + 0.30 * grain + 0.16 * patch - 0.07 * wheels
    colour = _mix(colour, (102.0 * tar, 102.0 * tar, 106.0 * tar), paving)
    wear = (1.0 + 0.25 * grain) * (1.0 + 0.8 * look["night"] * lamp)
    dashes = _dashes(s, length, t.DASH_M, t.PERIOD_M)
    line = torch.floor(off / lane + 0.5)
    half = 0.5 * t.LINE_M
    between = dashes * _stripe(off - lane * line, -half, half, width) * unit(line) * unit(lanes - line)
    several = lanes > 1.5
    white = 0.92 * torch.where(several, torch.maximum(lines, between), lines)
    yellow = 0.95 * torch.where(several, _stripe(off, 0.08, 0.08 + t.LINE_M, width), dashes * _stripe(lateral, -half, half, width))
    colour = _mix(colour, (232.0 * wear, 232.0 * wear, 226.0 * wear), white)
    colour = _mix(colour, (240.0 * wear, 190.0 * wear, 62.0 * wear), yellow)
    mirror = torch.zeros_like(off)
    if present.wet:
        forward, down = ray
        grazing = (1.0 - down / torch.sqrt(down * down + forward * forward)) ** 5
        mirrors = 0.04 + 0.9 * grazing
        dark = 1.0 - 0.38 * look["wet"] * paving * (0.75 + 0.25 * wheels)
        puddle = unit((patch - 0.12) * 5.0)
        film = look["wet"] * paving * mirrors * (0.45 + 0.55 * puddle)
        colour = _mix((dark * colour[0], dark * colour[1], dark * colour[2]), (look["air_red"], look["air_green"], look["air_blue"]), film)
        mirror = look["wet"] * paving * (0.16 + 0.5 * mirrors) * (0.6 + 0.4 * puddle)
    if present.snow:
        some, deep = unit(look["snow"] * 20.0), 2.2 * look["snow"] - 0.75
        cover = some * paving * unit(deep + 1.1 * patch + 0.5 * grain - 0.55 * wheels)
        cover = torch.maximum(cover, some * unit(2.0 * look["snow"] + 0.4 * grain) * (gravel - paving))
        colour = _mix(colour, (218.0, 223.0, 231.0), cover)
    return colour, mirror
