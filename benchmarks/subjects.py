"""How much of a subject's time is skidpad's own, format by format.

One network (PilotNet of the zoo, or --architecture) is written as a file of every format. Each file is asked the same frames in
two ways, turn by turn, batch by batch, so that a busy machine disturbs both alike:

bare: what the format's own runtime gives for inputs that are ready: floats of the right range, size and order of axes. Torch
      gets them in whichever of its two memory orders is the faster; onnxruntime runs its own reading of the file, with the same
      number of threads.
skidpad: `subject.predict` on frames, bytes in RGB that have the network's size. Everything that it does besides is counted:
      checks, the colour space, bytes to floats, the order of axes, batches, units of the answers.

overhead_share = (time of skidpad - time of bare) / time of skidpad; by format, the median over rounds. With one thread, time is the
processor's in that thread, which other programs do not disturb; with more, it is the clock's. Cropping and resizing are not in
it: their cost is the frame's, whatever the network. observe_share says what the neurons' values cost on top:
(time of `subject.observe` - time of `subject.predict`) / time of `subject.observe`.

Run: python benchmarks/subjects.py [--quick] [--frames 256] [--rounds 5] [--threads 1] [--architecture pilotnet]
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

import cv2
import numpy as np
import torch
from torch import nn

from skidpad.subjects.base import Subject
from skidpad.subjects.description import Description, Format, write_description
from skidpad.subjects.inputs import Crop
from skidpad.subjects.loading import load_subject
from skidpad.subjects.preprocess import Preprocessor
from skidpad.subjects.training.training import save_subject
from skidpad.subjects.zoo import ARCHITECTURES

BATCH = 32
"""As campaigns ask on a CPU."""

Bare = Callable[[torch.Tensor], object]


@dataclass
class Contender:
    """One format: its subject, the runtime without skidpad, and the seconds of each round."""

    format: Format
    subject: Subject
    bare: tuple[Bare, ...]
    clock: Callable[[], float]
    orders_s: list[list[float]] = field(default_factory=list)
    predict_s: list[float] = field(default_factory=list)
    observe_s: list[float] = field(default_factory=list)

    def measure(self, frames: np.ndarray, inputs: torch.Tensor) -> None:
        """Runs all frames once each way, in turns of one batch."""
        orders_s = [0.0] * len(self.bare)
        predict_s = observe_s = 0.0
        for start in range(0, len(frames), BATCH):
            part, ready = frames[start : start + BATCH], inputs[start : start + BATCH]
            predict_s += self._timed(partial(self.subject.predict, part))
            for place, run in enumerate(self.bare):
                orders_s[place] += self._timed(partial(run, ready))
            observe_s += self._timed(partial(self.subject.observe, part))
        self.orders_s.append(orders_s)
        self.predict_s.append(predict_s)
        self.observe_s.append(observe_s)

    @property
    def bare_s(self) -> list[float]:
        """The rounds of the memory order that is the faster over all of them."""
        return list(min(zip(*self.orders_s, strict=True), key=sum))

    def _timed(self, run: Callable[[], object]) -> float:
        start = self.clock()
        run()
        return self.clock() - start

    @property
    def overhead_share(self) -> float:
        """What of the subject's time is not the runtime's."""
        return median((mine - bare) / mine for mine, bare in zip(self.predict_s, self.bare_s, strict=True))

    @property
    def observe_share(self) -> float:
        """What of an observation's time goes into the neurons' values."""
        return median((both - alone) / both for both, alone in zip(self.observe_s, self.predict_s, strict=True))


def clock() -> Callable[[], float]:
    return time.thread_time if torch.get_num_threads() == 1 else time.perf_counter


def ready_twice(run: Bare) -> tuple[Bare, ...]:
    """A torch runtime, in both memory orders; the input is put into order outside the clock, by `remembered`."""
    return tuple(partial(_inferring, run, remembered(order)) for order in (torch.contiguous_format, torch.channels_last))


def _inferring(run: Bare, order: Callable[[torch.Tensor], torch.Tensor], inputs: torch.Tensor) -> object:
    with torch.inference_mode():
        return run(order(inputs))


def remembered(order: torch.memory_format) -> Callable[[torch.Tensor], torch.Tensor]:
    """Orders each input once, at the warm-up, and finds it again afterwards."""
    known: dict[int, torch.Tensor] = {}

    def ordered(inputs: torch.Tensor) -> torch.Tensor:
        place = inputs.data_ptr()
        if place not in known:
            known[place] = inputs.contiguous(memory_format=order)
        return known[place]

    return ordered


def described(folder: Path, description: Description, file: str, format_: Format) -> Subject:
    toml = folder / f"{format_.value}.toml"
    write_description(toml, replace(description, file=file, format=format_, architecture=None))
    return load_subject(toml, trust=True)


def safetensors(net: nn.Module, description: Description, folder: Path) -> Contender:
    subject = load_subject(save_subject(net, description, folder / "weights").toml)
    return Contender(Format.SAFETENSORS, subject, ready_twice(net), clock())


def torchscript(net: nn.Module, description: Description, folder: Path) -> Contender:
    torch.jit.save(torch.jit.trace(net, torch.zeros(2, *description.input.shape)), folder / "net.ts")
    return Contender(
        Format.TORCHSCRIPT,
        described(folder, description, "net.ts", Format.TORCHSCRIPT),
        ready_twice(torch.jit.load(folder / "net.ts")),
        clock(),
    )


def export(net: nn.Module, description: Description, folder: Path) -> Contender:
    shapes = ({0: torch.export.Dim("batch", min=1, max=512)},)
    program = torch.export.export(net, (torch.zeros(2, *description.input.shape),), dynamic_shapes=shapes)
    torch.export.save(program, folder / "net.pt2")
    return Contender(Format.EXPORT, described(folder, description, "net.pt2", Format.EXPORT), ready_twice(program.module()), clock())


def onnx(net: nn.Module, description: Description, folder: Path) -> Contender:
    import onnxruntime  # noqa: PLC0415 - an extra

    example = torch.zeros(2, *description.input.shape)
    file = str(folder / "net.onnx")
    torch.onnx.export(net, (example,), file, dynamo=False, input_names=["input"], dynamic_axes={"input": {0: "batch"}})
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = torch.get_num_threads()
    session = onnxruntime.InferenceSession(file, options, providers=["CPUExecutionProvider"])
    return Contender(
        Format.ONNX,
        described(folder, description, "net.onnx", Format.ONNX),
        (lambda inputs: session.run(None, {"input": inputs.numpy()}),),
        clock(),
    )


def keras(net: nn.Module, description: Description, folder: Path) -> Contender:
    """Keras' own runtime is not here: bare is the torch network that the file was written from."""
    sys.path.append(str(Path(__file__).parents[1] / "tests" / "subjects"))
    from keras_toys import GENERATIONS  # noqa: PLC0415 - the tests' writer of Keras files, which needs h5py

    channels, spec = description.input.colour.channels, description.input
    written = GENERATIONS["keras3"](net, (channels, spec.height_px, spec.width_px), folder)
    known = replace(description, input=replace(spec, layout=written.layout))
    return Contender(Format.KERAS, described(folder, known, written.file, Format.KERAS), ready_twice(net), clock())


CONTENDERS = {"": (safetensors, torchscript, export), "onnxruntime": (onnx,), "h5py": (keras,)}
"""By the package that each needs besides skidpad's own."""


@contextmanager
def threads(count: int) -> Iterator[None]:
    before = torch.get_num_threads(), cv2.getNumThreads()
    torch.set_num_threads(count)
    cv2.setNumThreads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before[0])
        cv2.setNumThreads(before[1])


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Prediction throughput of each format, through skidpad and without.")
    parser.add_argument("--quick", action="store_true", help="one batch and one round: does it run?")
    parser.add_argument("--frames", type=int, default=256)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=1, help="a campaign gives each batch one thread")
    parser.add_argument("--architecture", default="pilotnet")
    given = parser.parse_args()
    if given.quick:
        given.frames, given.rounds = BATCH, 1
    return given


def main() -> None:
    given = arguments()
    architecture = ARCHITECTURES.get(given.architecture)
    spec = replace(architecture.input, crop=Crop())
    torch.manual_seed(0)
    net = architecture.build(spec).eval()
    description = architecture.describe(given.architecture, "", spec)
    frames = np.random.default_rng(0).integers(0, 256, (given.frames, spec.height_px, spec.width_px, 3), dtype=np.uint8)
    inputs = Preprocessor(spec, torch.device("cpu"))(frames).contiguous()
    size = f"{spec.width_px} x {spec.height_px}"
    print(f"{given.architecture}, {given.frames} frames of {size}, {given.threads} threads of {os.cpu_count()} cores")
    with TemporaryDirectory() as folder, threads(given.threads), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch's exporters warn about each other
        made = [make for package, makers in CONTENDERS.items() if not package or find_spec(package) for make in makers]
        contenders = [make(net, description, Path(folder)) for make in made]
        for contender in contenders:
            contender.measure(frames, inputs)  # warms up, and does not count
            for times in (contender.orders_s, contender.predict_s, contender.observe_s):
                times.clear()
        for _ in range(given.rounds):
            for contender in contenders:
                contender.measure(frames, inputs)
    report(contenders, given)


def report(contenders: list[Contender], given: argparse.Namespace) -> None:
    def rate(times: list[float]) -> float:
        return given.frames / median(times)

    print(f"\n{'format':14}{'bare images/s':>15}{'skidpad':>10}{'overhead':>10}{'observing':>11}{'on top':>8}")
    for each in contenders:
        print(
            f"{each.format.value:14}{rate(each.bare_s):15.0f}{rate(each.predict_s):10.0f}{each.overhead_share:10.1%}"
            f"{rate(each.observe_s):11.0f}{each.observe_share:8.1%}"
        )
    print(f"load at the end: {os.getloadavg()[0]:.1f} of {os.cpu_count()}")
    figures = {
        "overhead_share": {each.format.value: round(each.overhead_share, 4) for each in contenders},
        "observe_share": {each.format.value: round(each.observe_share, 4) for each in contenders},
        "images_per_s": {each.format.value: round(rate(each.predict_s), 1) for each in contenders},
        "bare_images_per_s": {each.format.value: round(rate(each.bare_s), 1) for each in contenders},
        "frames": given.frames,
        "rounds": given.rounds,
        "threads": given.threads,
        "load": round(os.getloadavg()[0], 2),
    }
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
