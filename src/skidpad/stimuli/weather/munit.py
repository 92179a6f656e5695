"""MUNIT: a scene is content, shared by both weathers, and style, one of a space of its own for each.

Reference: Huang et al. 2018, Multimodal Unsupervised Image-to-Image Translation, sections 3 and 4, appendix B; TACTIC, appendix A.
Written from the papers alone.
"""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional

from skidpad.stimuli.weather.blocks import Convolution, Enlarging, Residual, StyledResidual
from skidpad.stimuli.weather.settings import LossWeights, Sizes


class ContentEncoder(nn.Module):
    """Pictures to content codes: a 7x7 convolution, halvings, residual blocks; instance norm takes the style out."""

    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        layers: list[nn.Module] = [Convolution(3, sizes.filters, 7, norm="instance", reflect=True)]
        layers += [
            Convolution(sizes.filters * 2**step, sizes.filters * 2 ** (step + 1), 4, stride=2, norm="instance")
            for step in range(sizes.halvings)
        ]
        self.layers = nn.Sequential(*layers, *(Residual(sizes.channels) for _ in range(sizes.blocks)))

    def forward(self, pictures: torch.Tensor) -> torch.Tensor:
        """Returns (N, channels, height / stride, width / stride)."""
        result: torch.Tensor = self.layers(pictures)
        return result


class StyleEncoder(nn.Module):
    """Pictures to styles: convolutions without norms, since means and deviations are the style; then the average and a line."""

    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        channels = sizes.filters
        layers: list[nn.Module] = [Convolution(3, channels, 7, reflect=True)]
        for step in range(4):
            filters = min(channels * 2, sizes.channels) if step < sizes.halvings else channels
            layers.append(Convolution(channels, filters, 4, stride=2))
            channels = filters
        self.layers = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, sizes.style))

    def forward(self, pictures: torch.Tensor) -> torch.Tensor:
        """Returns (N, style) in float32."""
        result: torch.Tensor = self.layers(pictures).float()
        return result


class StyledDecoder(nn.Module):
    """Content and style to pictures: residual blocks with AdaIN, enlarging with layer norm, a 7x7 convolution with tanh."""

    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(StyledResidual(sizes.channels) for _ in range(sizes.blocks))
        self.norms = nn.Sequential(
            nn.Linear(sizes.style, sizes.hidden),
            nn.ReLU(),
            nn.Linear(sizes.hidden, sizes.hidden),
            nn.ReLU(),
            nn.Linear(sizes.hidden, sizes.blocks * 4 * sizes.channels),
        )
        enlarging = [Enlarging(sizes.channels // 2**step) for step in range(sizes.halvings)]
        self.rest = nn.Sequential(*enlarging, Convolution(sizes.filters, 3, 7, relu=False, reflect=True))

    def forward(self, content: torch.Tensor, style: torch.Tensor) -> torch.Tensor:
        """Returns pictures, (N, 3, height, width) within -1..1; one style (1, style) does for all."""
        maps = content
        norms = self.norms(style).reshape(len(style), len(self.blocks), 4, -1, 1, 1)
        for place, block in enumerate(self.blocks):
            maps = block(maps, norms[:, place])
        return torch.tanh(self.rest(maps))


class MunitDomain(nn.Module):
    """One weather: its encoders and its decoder."""

    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        self.content = ContentEncoder(sizes)
        self.style = StyleEncoder(sizes)
        self.decoder = StyledDecoder(sizes)


class Munit(nn.Module):
    """Both weathers, and the losses between them.

    real_styles: the share of the pictures made while it learns that borrow the style of a real picture instead of drawing one from N(0, 1).

    Deviates: MUNIT draws all of them. The styles of real pictures then lie where the decoder was never asked, and a weather under their
    mean may lose the road that it keeps under drawn ones.
    """

    def __init__(self, sizes: Sizes, real_styles: float = 0.0) -> None:
        super().__init__()
        self.sizes = sizes
        self._real_styles = real_styles
        self.source = MunitDomain(sizes)
        self.target = MunitDomain(sizes)

    def noise_shapes(self, batch: int, height_px: int, width_px: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """The shapes of what `forward` draws from N(0, 1) for source and target: styles; the pictures' size does not matter."""
        del height_px, width_px
        return (batch, self.sizes.style), (batch, self.sizes.style)

    def forward(
        self, source: torch.Tensor, target: torch.Tensor, noise: tuple[torch.Tensor, torch.Tensor], weights: LossWeights
    ) -> tuple[torch.Tensor, torch.Tensor, dict[str, torch.Tensor]]:
        """Returns pictures made as source, made as target, and the losses but the GAN's, each unweighted, (N, 3, h, w).

        noise: styles of source and target, drawn from N(0, 1).
        """
        a, b = self.source, self.target
        content_a, content_b = a.content(source), b.content(target)
        style_a, style_b = a.style(source), b.style(target)
        drawn_a, drawn_b = self._drawn(style_a, noise[0]), self._drawn(style_b, noise[1])
        # Reconstruction and translation through a decoder are one pass of twice the batch.
        again_a, made_a = a.decoder(torch.cat([content_a, content_b]), torch.cat([style_a, drawn_a])).chunk(2)
        again_b, made_b = b.decoder(torch.cat([content_b, content_a]), torch.cat([style_b, drawn_b])).chunk(2)
        content_b_again, content_a_again = a.content(made_a), b.content(made_b)
        losses = {
            "image": _distance(again_a, source) + _distance(again_b, target),
            "content": _distance(content_a_again, content_a) + _distance(content_b_again, content_b),
            "style": _distance(a.style(made_a), drawn_a) + _distance(b.style(made_b), drawn_b),
        }
        if weights.cycle:
            round_a, round_b = a.decoder(content_a_again, style_a), b.decoder(content_b_again, style_b)
            losses["cycle"] = _distance(round_a, source) + _distance(round_b, target)
        return made_a, made_b, losses

    def _drawn(self, real: torch.Tensor, noise: torch.Tensor) -> torch.Tensor:
        borrowed = round(self._real_styles * len(real))
        return torch.cat([real[:borrowed].detach(), noise[borrowed:]]) if borrowed else noise


def _distance(first: torch.Tensor, second: torch.Tensor) -> torch.Tensor:
    return functional.l1_loss(first.float(), second.float())
