"""Networks that look back, small enough to be checked against plain loops."""

from __future__ import annotations

import numpy as np
import torch
from torch import nn

from skidpad.core.units import AngleUnit
from skidpad.subjects.description import Description, Format, Output
from skidpad.subjects.inputs import Colour, Crop, History, HistoryKind, InputSpec, Layout, Range, input_channels

HEIGHT_PX, WIDTH_PX = 20, 28


class Plain(nn.Module):
    """Any picture with any number of channels, to one number."""

    def __init__(self, channels: int, layout: Layout = Layout.NCHW) -> None:
        super().__init__()
        self.layout = layout
        self.conv = nn.Conv2d(channels, 3, 3, stride=2)
        self.dense = nn.Linear(3 * 5 * 7, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x if self.layout is Layout.NCHW else x.permute(0, 3, 1, 2)
        return self.dense(torch.relu(self.conv(x)).flatten(1))


class Whole(nn.Module):
    """A recurrent network that takes windows whole, as most files hold it."""

    def __init__(self, layout: Layout = Layout.NCHW) -> None:
        super().__init__()
        self.layout = layout
        self.conv = nn.Conv2d(3, 3, 3, stride=2)
        self.lstm = nn.LSTM(3 * 5 * 7, 4, batch_first=True)
        self.dense = nn.Linear(4, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x if self.layout is Layout.NCHW else x.permute(0, 1, 4, 2, 3)
        seen = torch.relu(self.conv(x.flatten(0, 1))).reshape(len(x), x.shape[1], -1)
        return self.dense(self.lstm(seen)[0][:, -1])


class Staged(Whole):
    """The same network, which says where its frames end and its window begins; it counts the frames that it looks at."""

    def __init__(self) -> None:
        super().__init__()
        self.out = nn.Linear(3 * 5 * 7, 1)
        self.looked_at = 0

    def features(self, x: torch.Tensor) -> torch.Tensor:
        self.looked_at += len(x)
        return torch.relu(self.conv(x)).flatten(1)

    def alone(self, codes: torch.Tensor) -> torch.Tensor:
        return self.out(codes)

    def forward_windows(self, codes: torch.Tensor, windows: torch.Tensor) -> torch.Tensor:
        return self.dense(self.lstm(codes[windows])[0][:, -1])


def spec_of(kind: HistoryKind, frames: int = 3, layout: Layout = Layout.NCHW, colour: Colour = Colour.RGB) -> InputSpec:
    low, high = ((-1.0,), (1.0,)) if colour is Colour.GREY else ((-1.0, 0.0, -0.5), (1.0, 2.0, 0.5))
    return InputSpec(16, 12, colour, Range(low, high), Crop(top=0.2), layout, History(frames, kind))


def described(spec: InputSpec) -> Description:
    return Description("toy", "toy.pt2", Format.EXPORT, spec, (Output("steering", AngleUnit.RAD),))


def module_for(spec: InputSpec, *, staged: bool = False) -> nn.Module:
    torch.manual_seed(3)
    if spec.history.kind is HistoryKind.RECURRENT:
        return Staged().eval() if staged else Whole(spec.layout).eval()
    return Plain(input_channels(spec), spec.layout).eval()


def clip_of(count: int, seed: int = 0) -> np.ndarray:
    """Frames that move, so that flow and differences say something."""
    rng = np.random.default_rng(seed)
    ground = rng.integers(0, 256, (HEIGHT_PX // 4 + 1, WIDTH_PX // 2 + 40, 3), dtype=np.uint8).repeat(4, 0).repeat(2, 1)
    starts = np.cumsum(rng.integers(0, 3, count))
    return np.stack([ground[:HEIGHT_PX, start % 60 : start % 60 + WIDTH_PX] for start in starts])
