"""Networks of Udacity's challenge 2: Autumn, which steers by optical flow, Epoch, Rambo, and Chauffeur with its LSTM."""

from dataclasses import replace

import torch
from torch import nn
from torch.nn import functional

from skidpad.subjects.inputs import Colour, Crop, History, HistoryKind, InputSpec, Range
from skidpad.subjects.probe import recurrence
from skidpad.subjects.zoo.architecture import SameConv2d, TwiceAtan, architecture, flat_features, network, pooled, strided

_FLOWS = 7


@architecture(
    "autumn",
    # The original keeps the lower 400 of 480 rows.
    InputSpec(200, 66, Colour.RGB, Range((0.0,), (1.0,)), Crop(top=80 / 480), history=History(_FLOWS + 1, HistoryKind.OPTICAL_FLOW)),
)
def autumn(channels: int, height_px: int, width_px: int) -> nn.Module:
    """Autumn, of Udacity's challenge 2: the mean optical flow of 8 frames, painted, then DAVE-2's convolutions; 1,561 neurons.

    | layer | kernel | stride | output (66 x 200 input) |
    | --- | --- | --- | --- |
    | conv1..3 | 5x5 | 2 | 24 x 31 x 98, 36 x 14 x 47, 48 x 5 x 22 |
    | conv4..5 | 3x3 | 1 | 64 x 3 x 20, 64 x 1 x 18 |
    | dense1..5 | | | 1164, 100, 50, 10 (dropout 0.2 after each), 1 (then 2 atan) |

    Reference: Udacity self-driving-car, steering-models/community-models/autumn (README, cnn_model, process_images and
    train-cnn for the 0.2); DeepRoad, section 4.2.
    Deviates: flow is computed at the network's size (see `windows.Assembler`), and the seven flows count alike, as when the
    original was trained; its later evaluation weighted the last four 1, 1, 2, 2. The LSTM of the repository is not part of
    what its evaluation answers, and not of this.
    """
    return network(strided(channels), (1164, 100, 50, 10, 1), (channels, height_px, width_px), (0.2,) * 4).append(TwiceAtan())


# cg23 drops the first 200 of 480 rows.
@architecture("epoch", InputSpec(128, 128, Colour.RGB, Range((0.0,), (1.0,)), Crop(top=200 / 480)))
def epoch(channels: int, height_px: int, width_px: int) -> nn.Module:
    """Epoch, the sixth of Udacity's challenge 2 (community model cg23): 1,249 neurons.

    | layer | kernel | output (128 x 128 input) |
    | --- | --- | --- |
    | conv1, pool, dropout 0.25 | 3x3 padded, 2x2 | 32 x 64 x 64 |
    | conv2, pool, dropout 0.25 | 3x3 padded, 2x2 | 64 x 32 x 32 |
    | conv3, pool, dropout 0.5 | 3x3 padded, 2x2 | 128 x 16 x 16 |
    | dense1, dropout 0.5 | | 1024 |
    | dense2 | | 1 |

    Reference: Udacity self-driving-car, steering-models/community-models/cg23; DeepTest, section 4 and table 3.
    Deviates: DeepTest counts 2,500 neurons: it also counts the four dropout layers (224 + 1,024) and the 3 channels of the
    input, which are no neurons of their own: 2,500 - 1,248 - 3 = 1,249.
    """
    convolutions = pooled(channels, (32, 64, 128), padding=1, dropout=(0.25, 0.25, 0.5))
    return network(convolutions, (1024, 1), (channels, height_px, width_px), (0.5,))


_NVIDIA = ((24, 5, 2), (36, 5, 2), (48, 5, 2), (64, 3, 2), (64, 3, 2))
_STREAMS: tuple[tuple[tuple[tuple[int, int, int], ...], tuple[int, ...]], ...] = (
    ((*_NVIDIA, (64, 3, 2)), (100, 50, 10, 1)),
    (_NVIDIA, (100, 50, 10, 1)),
    (((16, 8, 4), (32, 5, 2), (64, 5, 2)), (512, 1)),
)
"""Filters, kernel and stride of each convolution, then the dense layers, of the streams that DeepTest calls S1, S2 and S3."""


_START = 1.0
"""What each stream says before it is trained: one at or below zero is cut off by the ReLU of the merge and never trained."""


@architecture("rambo", InputSpec(256, 192, Colour.GREY, Range((-0.5,), (0.5,)), history=History(3, HistoryKind.DIFFERENCES)))
class Rambo(nn.Module):
    """Rambo, the second of Udacity's challenge 2: three streams on the two differences of three grey frames; 1,484 neurons.

    | stream | convolutions (kernel, stride; padded), 192 x 256 input | dense |
    | --- | --- | --- |
    | S1 | 24 (5x5, 2), 36 (5x5, 2), 48 (5x5, 2), 64 (3x3, 2) three times: 64 x 3 x 4 | 100, 50, 10, 1 |
    | S2 | 24 (5x5, 2), 36 (5x5, 2), 48 (5x5, 2), 64 (3x3, 2) twice: 64 x 6 x 8 | 100, 50, 10, 1 |
    | S3 | 16 (8x8, 4), 32 (5x5, 2), 64 (5x5, 2): 64 x 12 x 16 | 512, 1 |
    | merge | ReLU of the three numbers | 1 |

    Reference: Udacity self-driving-car, steering-models/community-models/rambo, README and train.py; DeepTest, section 4 and
    table 3, whose counts 1,625, 3,801 and 13,473 are these streams with each activation counted as well.
    Deviates: the mean picture that the original subtracts is the middle of the range here; streams start with a bias of 1 and
    the merge with its opposite, since a stream that the ReLU cuts off is never trained (with the usual start all three die).
    """

    def __init__(self, channels: int, height_px: int, width_px: int) -> None:
        super().__init__()
        self.streams = nn.ModuleList(_stream(*stream, (channels, height_px, width_px)) for stream in _STREAMS)
        self.merge = nn.Linear(len(_STREAMS), 1)
        with torch.no_grad():
            self.merge.bias.copy_(-_START * self.merge.weight.sum())  # straight on at first: else streams flee below zero

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        """Answers (N, 1) for (N, channels, height, width)."""
        return torch.as_tensor(self.merge(torch.relu(torch.cat([stream(inputs) for stream in self.streams], 1))))


def _stream(convolutions: tuple[tuple[int, int, int], ...], dense: tuple[int, ...], shape: tuple[int, int, int]) -> nn.Sequential:
    layers: list[nn.Module] = []
    channels = shape[0]
    for filters, kernel, stride in convolutions:
        layers += [SameConv2d(channels, filters, kernel, stride), nn.ReLU()]
        channels = filters
    stream = network(layers, dense, shape)
    last = stream[-1]
    if isinstance(last, nn.Linear):
        nn.init.constant_(last.bias, _START)
    return stream


_FILTERS = ((16, 5), (20, 5), (40, 3), (60, 3), (80, 2), (128, 2))
_STATES = 256


_SIGHT = InputSpec(320, 120, Colour.YUV, Range((-0.5,), (0.5,)), Crop(top=0.5))
"""320 x 240 px, of which the lower half is kept."""


@architecture("chauffeur-cnn", _SIGHT)
class ChauffeurCnn(nn.Module):
    """Chauffeur's first half alone, of Udacity's challenge 2: six convolutions, five poolings, one dense layer; 345 neurons.

    | layer | kernel (padded) | output (120 x 320 input) |
    | --- | --- | --- |
    | conv1, dropout 0.1, pool | 5x5, 2x2 | 16 x 60 x 160 |
    | conv2, dropout 0.1, pool | 5x5, 2x2 | 20 x 30 x 80 |
    | conv3, dropout 0.1, pool | 3x3, 2x2 | 40 x 15 x 40 |
    | conv4, dropout 0.1, pool | 3x3, 2x2 | 60 x 7 x 20 |
    | conv5, dropout 0.1, pool | 2x2, 2x2 | 80 x 3 x 10 |
    | conv6, dropout 0.5 | 2x2 | 128 x 3 x 10 = 3,840 features |
    | dense1 | | 1 |

    Reference: Udacity self-driving-car, steering-models/community-models/chauffeur, models.py (RegressionModel) and
    submission.py (input); DeepTest, section 4.
    Deviates: the original evens out the histogram of the brightness first, as a description does that says `equalise`; its answers
    were 16 times the angle. DeepTest's weights are of another network of the team: it has 8,960 features and 1,427 neurons by
    DeepTest's count.
    """

    def __init__(self, channels: int, height_px: int, width_px: int) -> None:
        super().__init__()
        shape = (channels, height_px, width_px)
        layers: list[nn.Module] = []
        for position, (filters, kernel) in enumerate(_FILTERS):
            layers += [SameConv2d(channels, filters, kernel), nn.ReLU()]
            if position < len(_FILTERS) - 1:
                layers += [nn.Dropout2d(0.1), nn.MaxPool2d(2)]
            channels = filters
        for layer in layers:
            _start_he_normal(layer)
        self.count = flat_features(layers, shape)
        self.convolutions = nn.Sequential(*layers, nn.Flatten()).train()
        self.dropout = nn.Dropout(0.5)
        self.out = nn.Linear(self.count, 1)
        _start_he_normal(self.out)

    def features(self, inputs: torch.Tensor) -> torch.Tensor:
        """Returns the flat maps of the last convolution, (N, features)."""
        return torch.as_tensor(self.convolutions(inputs))

    def alone(self, codes: torch.Tensor) -> torch.Tensor:
        """Answers (N, 1) from features."""
        return torch.as_tensor(self.out(self.dropout(codes)))

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        """Answers (N, 1) for (N, channels, height, width)."""
        return self.alone(self.features(inputs))


@architecture("chauffeur", replace(_SIGHT, history=History(100, HistoryKind.RECURRENT)))
class Chauffeur(nn.Module):
    """Chauffeur, the third of Udacity's challenge 2: the features of 100 frames, then an LSTM of 256; 26,201 neurons unrolled.

    | layer | output (120 x 320 input, 100 frames) |
    | --- | --- |
    | conv1..6 of `chauffeur-cnn`, on each frame | 3,840 features |
    | lstm1 (dropout 0.1 on the features) | 100 x 256 |
    | dense1 | 256 |
    | dense2 | 1 |

    It is trained as the team did: the convolutions first, with a dense layer that steers by single frames; then the LSTM on
    their features, which stay as they are.

    Reference: Udacity self-driving-car, steering-models/community-models/chauffeur, models.py (TransferLstmModel) and
    submission.py; DeepTest, section 4 and table 3: 256 + 256 + 1 = 513 neurons of the LSTM model, not unrolled.
    Deviates: as `ChauffeurCnn`; and dropout falls on the features alone, where Keras' also falls on the states.
    """

    def __init__(self, channels: int, height_px: int, width_px: int, frames: int) -> None:
        super().__init__()
        self.cnn = ChauffeurCnn(channels, height_px, width_px)
        self.dropout = nn.Dropout(0.1)
        self.inward = nn.Linear(self.cnn.count, 4 * _STATES)
        self.back = nn.Linear(_STATES, 4 * _STATES, bias=False)
        self.head = nn.Sequential(nn.Linear(frames * _STATES, 256), nn.ReLU(), nn.Linear(256, 1))
        nn.init.xavier_uniform_(self.inward.weight)
        for gate in self.back.weight.data.chunk(4):
            nn.init.orthogonal_(gate)
        nn.init.zeros_(self.inward.bias)
        nn.init.ones_(self.inward.bias.data[_STATES : 2 * _STATES])  # an LSTM that starts by forgetting learns nothing of the past

    def features(self, inputs: torch.Tensor) -> torch.Tensor:
        """Returns the features of single frames, (N, features)."""
        return self.cnn.features(inputs)

    def alone(self, codes: torch.Tensor) -> torch.Tensor:
        """Answers (N, 1) from the features of single frames, as the first half does."""
        return self.cnn.alone(codes)

    def forward_windows(self, codes: torch.Tensor, windows: torch.Tensor) -> torch.Tensor:
        """Answers (N, 1) for (N, T) rows of features."""
        # Looked up as an embedding, whose gradients are summed in one order on every device.
        states = recurrence(lambda: self._states(functional.embedding(windows, self.inward(self.dropout(codes)))))
        return torch.as_tensor(self.head(states.flatten(1)))

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        """Answers (N, 1) for whole windows, (N, T, channels, height, width)."""
        count, frames = inputs.shape[:2]
        rows = torch.arange(count * frames, device=inputs.device).reshape(count, frames)
        return self.forward_windows(self.features(inputs.flatten(0, 1)), rows)

    def _states(self, seen: torch.Tensor) -> torch.Tensor:
        """Runs the LSTM over (N, T, 4 x states), what the input does to the gates; that much is the same in every window.

        Returns the hidden states, (N, T, states).
        """
        state = memory = seen.new_zeros((len(seen), _STATES))
        states: list[torch.Tensor] = []
        for step in seen.unbind(1):
            take, keep, new, give = (step + self.back(state)).chunk(4, 1)
            memory = torch.sigmoid(keep) * memory + torch.sigmoid(take) * torch.tanh(new)
            state = torch.sigmoid(give) * torch.tanh(memory)
            states.append(state)
        return torch.stack(states, 1)


def _start_he_normal(layer: nn.Module) -> None:
    if isinstance(layer, nn.Conv2d | nn.Linear):
        nn.init.kaiming_normal_(layer.weight)
        if layer.bias is not None:
            nn.init.zeros_(layer.bias)
