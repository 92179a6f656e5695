"""How fast critical conditions are found: the decoder by itself, and a whole search beside the paper's one frame at a time.

First the search: one condition by the evolution strategy, over as many scenes as Udacity's test drive has (on a GPU), raced; beside it
what one frame at a time in float32 (encode, decode, ask, count) takes for a frame. On a GPU 60 tries are measured and reckoned to 250,
which is about how long such searches last. `vs_one_at_a_time` is the time that the same tries on all scenes would take that way, over
the time that they took. Scenes, weather and network are drawn at random unless given, so the search says nothing about errors.

Then the decoder by itself: the same scenes under the same style, decoded as a plain script does and as the search does, with the
distance of the pictures from the plain decoder's in float32.

Run: python benchmarks/style_search.py [--device cuda] [--decoder-only] [--size 256x340] [--filters 64] [--frames 512] [--profile]
         [--scenes 5614] [--patience 100] [--budget 300] [--weather FILE] [--architecture dave-orig] [--criterion nbc] [--no-racing]
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Sequence
from pathlib import Path

import torch
from torch.profiler import ProfilerActivity, profile

from skidpad.stimuli.weather.blocks import start
from skidpad.stimuli.weather.files import WeatherCard, load_weather
from skidpad.stimuli.weather.munit import Munit
from skidpad.stimuli.weather.settings import Method, Sizes
from ways.style_decoders import Decoders, Timing, measure
from ways.style_searching import drawn_drive, looked, one_at_a_time, prepared, random_subject, searched

ON_CUDA = (
    "one at a time, float32",
    "plain, float32",
    "plain",
    "plain, compiled",
    "folded",
    "folded, compiled",
    "folded, compiled, batch 128",
)
TRIES = 250
"""How long a search with a patience of 100 lasts, about; what a benchmark that was cut short is reckoned to."""
BRIEF = ("one at a time, float32", "plain, compiled", "folded, compiled")
ON_CPU = ("one at a time, float32", "plain", "folded")


def arguments(given: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Critical conditions: frames a second of the decoder, minutes a condition.")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--decoder-only", action="store_true")
    parser.add_argument("--brief", action="store_true", help="only three ways to decode")
    parser.add_argument("--quick", action="store_true", help="a few small frames: does it run?")
    parser.add_argument("--size", default="", help="height x width of the frames; 256x340 on a GPU, 64x84 else")
    parser.add_argument("--filters", type=int, default=0, help="of the weather; 64 on a GPU, 12 else")
    parser.add_argument("--frames", type=int, default=0, help="decoded in a round")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--search-only", action="store_true")
    parser.add_argument("--scenes", type=int, default=0, help="of the search; 5614 on a GPU, 48 else")
    parser.add_argument("--patience", type=int, default=0, help="100 on a GPU, 10 else")
    parser.add_argument("--budget", type=int, default=0, help="tries that are measured at most; 60 on a GPU, none else")
    parser.add_argument("--at-once", type=int, default=0)
    parser.add_argument("--no-racing", action="store_true")
    parser.add_argument("--weather", default="", help="a learned weather instead of a random one")
    parser.add_argument("--architecture", default="dave-orig")
    parser.add_argument("--criterion", default="nbc")
    parser.add_argument("--profile", action="store_true", help="show where the time of one batch goes")
    return parser.parse_args(given)


def random_weather(filters: int, size_px: int, blocks: int) -> tuple[WeatherCard, dict[str, torch.Tensor]]:
    sizes = Sizes(filters=filters, blocks=blocks)
    torch.manual_seed(0)
    model = Munit(sizes)
    start(model, gain_from_relu=True)
    card = WeatherCard(
        "random",
        Method.MUNIT,
        sizes,
        size_px,
        "none",
        "0" * 64,
        "none",
        "0" * 64,
        rendered=True,
        steps=1,
        batch_size=1,
        crop_px=size_px,
        seed=0,
    )
    return card, {name: tensor.detach() for name, tensor in model.state_dict().items()}


def decoder_rows(options: argparse.Namespace) -> list[Timing]:
    cuda = options.device.startswith("cuda")
    height, width = (int(part) for part in (options.size or ("256x340" if cuda else "64x84")).split("x"))
    filters = options.filters or (64 if cuda else 12)
    frames = options.frames or (1024 if cuda else 16 if options.quick else 128)
    card, weights = random_weather(filters, min(height, width), 4 if cuda else 2)
    kept = 256 if cuda else 64
    generator = torch.Generator().manual_seed(0)
    content = torch.randn((kept, card.sizes.channels, height // 4, width // 4), generator=generator).to(options.device)
    style = torch.randn(card.sizes.style, generator=generator)
    decoders = Decoders(card, weights, content, style, options.device)
    reference = decoders.reference(16)
    rows: list[Timing] = []
    for name in BRIEF if options.brief else ON_CUDA if cuda else ON_CPU:
        begun = time.perf_counter()
        way = decoders.ways((name,))[0]
        row = measure(way, reference, frames, 1 if options.quick else options.rounds, options.device)
        rows.append(row)
        print(
            f"{row.name:32s} {row.frames_per_s:9.1f} frames/s   error {row.largest_error:3d} largest {row.mean_error:.4f} mean   "
            f"first batch {row.first_s:6.2f} s   all {time.perf_counter() - begun:6.1f} s",
            flush=True,
        )
        if options.profile and name in {"plain, compiled", "folded, compiled"}:
            show_profile(way.decode, way.batch)
    return rows


def show_profile(decode, batch: int) -> None:  # type: ignore[no-untyped-def]
    with profile(activities=[ProfilerActivity.CUDA, ProfilerActivity.CPU]) as watched:
        decode(4 * batch)
        torch.cuda.synchronize()
    print(watched.key_averages().table(sort_by="cuda_time_total", row_limit=25, max_name_column_width=90))


def search_figures(options: argparse.Namespace) -> dict[str, float]:
    cuda = options.device.startswith("cuda")
    scenes = options.scenes or (5614 if cuda else 16 if options.quick else 48)
    patience = options.patience or (100 if cuda else 3 if options.quick else 10)
    card, weights = (
        load_weather(Path(options.weather))
        if options.weather
        else random_weather(64 if cuda else 12, 256 if cuda else 64, 4 if cuda else 2)
    )
    height, width = (480, 640) if cuda else (96, 128)
    drive = drawn_drive(scenes, height, width)
    subject = random_subject(options.architecture, options.device)
    made = prepared(card, weights, drive, subject, options.device, options.criterion)
    print(f"{scenes} scenes read and encoded in {made.seconds:.1f} s; {subject.layers[-1].stop} neurons", flush=True)
    plain = one_at_a_time(card, weights, made, 8 if options.quick else 64, options.device)
    print(f"one at a time, float32: {plain:9.1f} frames/s", flush=True)
    rate = looked(made, 2)
    print(f"looking at a style:     {rate:9.1f} frames/s (decode, resize, ask, count)", flush=True)
    if options.profile:
        show_profile(lambda _: looked(made, 0), 1)
    budget = options.budget or (60 if cuda else 0)
    found = searched(made, patience=patience, budget=budget, racing=not options.no_racing, at_once=options.at_once)
    tries, dropped = len(found.tries), sum(each.fitness is None for each in found.tries)
    whole = tries * scenes
    # A search that the budget ended is reckoned to a length that searches with this patience have.
    lasting = max(tries, TRIES) if tries == budget else tries
    seconds = found.seconds * lasting / tries
    kept = sum(each.kept for each in found.tries)
    print(
        f"one condition: {seconds:.1f} s for {lasting} tries; {found.seconds:.1f} s for {tries} measured ({kept} kept, {dropped} dropped), "
        f"{found.frames:,} frames instead of {whole:,}; fitness {found.best.value:.4f}",
        flush=True,
    )
    return {
        "minutes_per_condition": round(seconds / 60.0, 3),
        "vs_one_at_a_time": round(whole / plain / found.seconds, 1),
        "search_frames_per_s": round(rate, 1),
        "tries": lasting,
        "measured_tries": tries,
        "frames_share": round(found.frames / whole, 3),
    }


def main() -> None:
    options = arguments()
    figures: dict[str, float] = {}
    if not options.decoder_only:
        figures |= search_figures(options)
    if not options.search_only:
        rows = decoder_rows(options)
        best = max(rows, key=lambda row: row.frames_per_s)
        figures["decoder_frames_per_s"] = round(best.frames_per_s, 1)
        figures["decoder_vs_one_at_a_time"] = round(best.frames_per_s / rows[0].frames_per_s, 2)
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
