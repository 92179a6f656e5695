"""Teaches a judge of weathers, a larger network than the referee's, to see roads between hard shadows too.

    python benchmarks/train_judge.py --labelled comma10k/imgs:comma10k/masks --group '_([0-9a-f]{16})_' --drive udacity-ch2-test
        --out judge.safetensors --device cuda [--labelled IMGS:MASKS:road=17,road=18,marking=10,other=4,...] [--filters 48] [--steps 7000]

It learns from pictures with masks; over most of them stripes, patches or a side lie in hard shadow and the rest in brighter light. Half-way
it begins to learn from a drive's own frames too, which have no masks: what it says of them so far is their mask, the mean over the frame,
its mirror image and both at 0.7 EV more and less, and only of frames of which these agree. Frames that realism holds out are not used, nor
are the cameras that `skidpad referee --group` holds out of the first folder: on these it is scored. No weather learns from this network,
and it sees no weather.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

import numpy as np
import torch
from torch.nn import functional

from skidpad.cli.referee import _pairs as with_masks
from skidpad.cli.referee import _split as by_camera
from skidpad.drives import open_drive
from skidpad.kinds.pictures.weather.road_kept import STEADY_EV, STEADY_IOU, recorded_roads
from skidpad.referee.network import HEIGHT_PX, WIDTH_PX, Class, RoadNet, overlap_of, save_road_net
from skidpad.referee.training import (
    COMMA10K,
    IGNORED,
    STORED_HEIGHT_PX,
    STORED_WIDTH_PX,
    LabelledPictures,
    augmented,
    read_labelled,
    scores_of,
)
from skidpad.stimuli.weather.classifier import held_out

SHADOWED = 0.6
"""Of the pictures."""
OWN = 1.0 / 3.0
"""Of a batch, once the drive's frames have masks."""
TOGETHER = 64
HELD_OUT = 0.2
"""Of the cameras, as `skidpad referee --group` has it."""


def likely(network: RoadNet, pictures: torch.Tensor) -> torch.Tensor:
    """Returns the probabilities of the classes at the network's size, of pictures (N, 3, height, width) within 0..255."""
    small = functional.interpolate(pictures / 255.0, (HEIGHT_PX, WIDTH_PX), mode="bilinear", antialias=True)
    with torch.inference_mode():
        return network(small.contiguous(memory_format=torch.channels_last)).softmax(1)


def own_masks(network: RoadNet, frames: torch.Tensor) -> LabelledPictures:
    """Returns those of (N, 3, height, width) bytes that the network reads steadily, with what it says of them as their masks."""
    kept, masks = [], []
    for some in frames.split(TOGETHER):
        said = []
        for stops in (0.0, STEADY_EV, -STEADY_EV):
            light = (some.float() * 2.0**stops).clamp(0.0, 255.0)
            said += [likely(network, light), likely(network, light.flip(3)).flip(3)]
        roads = [(each[:, : Class.OTHER].sum(1) > 0.5).cpu().numpy() for each in said]
        least = np.min([np.nan_to_num(overlap_of(roads[0], other)) for other in roads[1:]], axis=0)
        steady = torch.from_numpy(least >= STEADY_IOU).to(frames.device)
        whole = functional.interpolate(torch.stack(said).mean(0)[steady], some.shape[2:], mode="bilinear")
        kept.append(some[steady])
        masks.append(whole.argmax(1).to(torch.uint8))
    return LabelledPictures(torch.cat(kept), torch.cat(masks))


def shadowed(pictures: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """Lays stripes, patches or a side of most pictures, bytes (N, 3, height, width), into hard shadow, and the rest into brighter light."""
    count, _, height, width = pictures.shape
    device = pictures.device

    def uniform(low: float, high: float) -> torch.Tensor:
        return torch.rand((count, 1, 1, 1), generator=generator, device=device) * (high - low) + low

    down, right = torch.meshgrid(torch.linspace(-1, 1, height, device=device), torch.linspace(-1, 1, width, device=device), indexing="ij")
    drawn = [torch.randn((count, 1, size, size), generator=generator, device=device) for size in (4, 9, 24)]
    coarse = [functional.interpolate(each, (height, width), mode="bicubic") for each in drawn]
    turn = uniform(-1.0, 1.0)
    # stripes lie closer together far away, as the shadows of trees on a road do
    depth = 1.0 / (down + 1.4)
    along = (torch.cos(turn) * depth * uniform(1.0, 5.0) + torch.sin(turn) * right * uniform(1.0, 6.0)) * uniform(1.5, 6.0)
    stripes = torch.sin(along + 1.2 * coarse[0] + 0.7 * coarse[1]) + 0.5 * coarse[2]
    patches = coarse[1] + 0.7 * coarse[2]
    side = 2.0 * (torch.cos(3.0 * turn) * right + torch.sin(3.0 * turn) * down) + 0.5 * coarse[1]
    kind = uniform(0.0, 1.0)
    field = torch.where(kind < 0.45, stripes, torch.where(kind < 0.8, patches, side))
    shade = torch.sigmoid((field - uniform(-0.7, 0.7)) * uniform(6.0, 40.0))
    tint = 1.0 + uniform(0.0, 0.25) * torch.tensor([-0.5, 0.0, 1.0], device=device)[None, :, None, None]
    dark, bright = uniform(0.08, 0.6) * tint, 2.0 ** uniform(-0.2, 1.2)
    lit = pictures.float() * (shade * dark + (1.0 - shade) * bright)
    return torch.where(uniform(0.0, 1.0) < SHADOWED, lit, pictures.float()).clamp(0.0, 255.0)


def taught(labelled: LabelledPictures, frames: torch.Tensor, given: argparse.Namespace) -> tuple[RoadNet, int]:
    """Teaches a network; returns its slowly following weights, and how many of the drive's frames had masks."""
    torch.manual_seed(given.seed)
    generator = torch.Generator(given.device).manual_seed(given.seed)
    network = RoadNet(given.filters).to(given.device).train().to(memory_format=torch.channels_last)
    optimiser = torch.optim.AdamW(network.parameters(), given.rate, weight_decay=1e-2)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, given.rate, given.steps, pct_start=0.1)
    ema = torch.optim.swa_utils.get_ema_multi_avg_fn(0.998)
    averaged = torch.optim.swa_utils.AveragedModel(network, multi_avg_fn=ema, use_buffers=True)
    weights = torch.tensor([1.0, 3.0, 1.0, 1.5, 1.0], device=given.device)
    begun, own = time.perf_counter(), None
    for step in range(given.steps):
        if own is None and step >= given.steps // 2:
            own = own_masks(averaged.module.eval(), frames)
            averaged.module.train()
        sets = [(labelled, given.batch)] if not own else [(labelled, round((1.0 - OWN) * given.batch)), (own, round(OWN * given.batch))]
        drawn = [(each, torch.randint(len(each), (count,), generator=generator, device=given.device)) for each, count in sets]
        made = [augmented(shadowed(each.pictures[at], generator), each.classes[at], generator) for each, at in drawn]
        pictures, classes = (torch.cat(parts) for parts in zip(*made, strict=True))
        with torch.autocast(torch.device(given.device).type, torch.bfloat16):
            logits = network(pictures.to(memory_format=torch.channels_last))
        loss = functional.cross_entropy(logits.float(), classes, weights, ignore_index=IGNORED)
        optimiser.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(network.parameters(), 5.0)
        optimiser.step()
        schedule.step()
        averaged.update_parameters(network)
        if step % 200 == 0:
            print(f"step {step} of {given.steps}, loss {float(loss.detach()):.3f}, {time.perf_counter() - begun:.0f} s", flush=True)
    return averaged.module.eval(), len(own or ())


def values_of(text: str) -> dict[int, int]:
    """Returns which value of a mask is which class, of `road=17,road=18,...`."""
    pairs = (part.split("=") for part in text.split(","))
    return {int(value): int(Class[name.upper()]) for name, value in pairs}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--labelled", action="append", required=True, help="PICTURES:MASKS, or PICTURES:MASKS:VALUES; comma10k's values unless given"
    )
    parser.add_argument(
        "--group", required=True, help="a pattern whose group names a camera of the first folder; a fifth of them is held out"
    )
    parser.add_argument("--drive", required=True)
    parser.add_argument("--every", type=int, default=3, help="of the drive's frames")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--filters", type=int, default=48)
    parser.add_argument("--steps", type=int, default=7000)
    parser.add_argument("--batch", type=int, default=48)
    parser.add_argument("--rate", type=float, default=3e-3)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--device", default="cpu")
    given = parser.parse_args()
    scored, parts = LabelledPictures(torch.empty(0), torch.empty(0)), []
    for number, text in enumerate(given.labelled):
        pictures, masks, *values = text.split(":")
        pairs, table = with_masks(Path(pictures), Path(masks)), values_of(values[0]) if values else dict(COMMA10K)
        if number == 0:
            held, pairs = by_camera(pairs, given.group, HELD_OUT)
            scored = read_labelled(held, table)
        parts.append(read_labelled(pairs, table))
    labelled = LabelledPictures(torch.cat([part.pictures for part in parts]), torch.cat([part.classes for part in parts])).to(given.device)
    drive = open_drive(given.drive)
    held = held_out(len(drive))
    seen = [
        np.concatenate([batch.frames for batch in drive.select(np.flatnonzero(places).tolist()).batches(64)])
        for places in (~held & (np.arange(len(drive)) % given.every == 0), held)
    ]
    frames = torch.from_numpy(seen[0]).permute(0, 3, 1, 2).to(given.device)
    frames = functional.interpolate(frames.float(), (STORED_HEIGHT_PX, STORED_WIDTH_PX), mode="bilinear").round().to(torch.uint8)
    network, own = taught(labelled, frames, given)
    generator = torch.Generator().manual_seed(1)
    dark = LabelledPictures(shadowed(scored.pictures, generator).to(torch.uint8), scored.classes)
    steady = recorded_roads([network], seen[1][:: max(1, len(seen[1]) // 200)]).is_steady
    figures = {
        "labelled": len(labelled),
        "own": own,
        "drivable_iou": scores_of(network, scored).drivable,
        "in_shadow": scores_of(network, dark).drivable,
    }
    save_road_net(network, given.out)
    print(json.dumps(figures | {"steady_of_held_out_frames": float(steady.mean()), "filters": given.filters, "steps": given.steps}))


if __name__ == "__main__":
    main()
