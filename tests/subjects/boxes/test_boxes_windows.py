import json
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from skidpad.core.units import AngleUnit
from skidpad.subjects.boxes.subject import BoxSubject
from skidpad.subjects.description import Box, Description, Format, Output
from skidpad.subjects.inputs import Colour, History, HistoryKind, InputSpec, Layout, Range
from skidpad.subjects.network_subject import NetworkSubject
from skidpad.subjects.session import start

SERVE = """
import array, json, sys
while True:
    line = sys.stdin.buffer.readline()
    if not line:
        break
    header = json.loads(line)
    size = 1
    for length in header["shape"][1:]:
        size *= length
    rows = []
    for _ in range(header["shape"][0]):
        numbers = array.array("f", sys.stdin.buffer.read(4 * size))
        rows.append([sum(number * (place % 7 - 2) for place, number in enumerate(numbers)) / size])
    sys.stderr.write(json.dumps(header["shape"]) + "\\n")
    print("skidpad-answer:", json.dumps({"id": header["id"], "answers": rows}), flush=True)
"""


class Weighted(nn.Module):
    """The network of SERVE: every input number times a weight from its place."""

    def __init__(self) -> None:
        super().__init__()
        self.dense = nn.Linear(1, 1)  # the probe wants a layer

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        flat = x.reshape(len(x), -1)
        places = torch.arange(flat.shape[1]) % 7 - 2
        return (flat * places).mean(1, keepdim=True) + 0.0 * self.dense(flat[:, :1])


@pytest.mark.parametrize("layout", Layout)
@pytest.mark.parametrize("kind", HistoryKind)
def test_a_box_is_sent_what_a_network_is_given(kind: HistoryKind, layout: Layout, tmp_path: Path) -> None:
    (tmp_path / "serve.py").write_text(SERVE)
    frames = 1 if kind is HistoryKind.SINGLE else 3
    spec = InputSpec(20, 16, Colour.YUV, Range((-1.0,), (1.0,)), layout=layout, history=History(frames, kind))
    outputs = (Output("steering", AngleUnit.DEG, -2.0),)
    network = NetworkSubject.of_module(Weighted(), Description("net", "", Format.EXPORT, spec, outputs))
    rng = np.random.default_rng(5)
    clip, now = rng.integers(0, 256, (frames + 4, 24, 30, 3), dtype=np.uint8), rng.integers(0, 256, (5, 24, 30, 3), dtype=np.uint8)
    box = Box(command=(sys.executable, "-S", "serve.py"))
    with BoxSubject(Description("boxed", "", Format.BOX, spec, outputs, box=box), tmp_path, batch_size=2) as subject:
        assert subject.lead == frames - 1
        np.testing.assert_allclose(subject.predict(clip), network.predict(clip), atol=1e-6)
        np.testing.assert_allclose(subject.observe(clip, now).answers, network.observe(clip, now).answers, atol=1e-6)
        assert subject.predict(clip[: frames - 1]).shape == (0, 1)
        stepped = start(subject)
        answers = np.concatenate([stepped.step(frame[np.newaxis]) for frame in clip])
        np.testing.assert_allclose(answers[frames - 1 :], subject.predict(clip), atol=1e-6)
        running = subject._box._channel._running
        running.last_words()
        shape = json.loads(running._complaints.words().split(" | ")[-1])
    assert (kind is HistoryKind.RECURRENT) == (len(shape) == 5)
    if kind is not HistoryKind.SINGLE:
        with pytest.raises(ValueError, match="takes 5 frames `now`; got 4"):
            subject.predict(clip, now[:4])
