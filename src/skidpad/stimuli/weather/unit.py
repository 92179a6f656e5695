"""UNIT: both weathers share one latent space; a scene goes through the encoder of one and the decoder of the other.

Reference: Liu et al. 2017, Unsupervised Image-to-Image Translation Networks, sections 3 and 4; DeepRoad, section 3.2.
Written from the papers alone.
"""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional

from skidpad.stimuli.weather.blocks import Convolution, Enlarging, Residual
from skidpad.stimuli.weather.settings import LossWeights, Sizes


class UnitDomain(nn.Module):
    """One weather: what of encoder and decoder is its own."""

    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        encoder: list[nn.Module] = [Convolution(3, sizes.filters, 7, norm="instance", reflect=True)]
        encoder += [
            Convolution(sizes.filters * 2**step, sizes.filters * 2 ** (step + 1), 4, stride=2, norm="instance")
            for step in range(sizes.halvings)
        ]
        own = max(sizes.blocks - 1, 0)
        self.encoder = nn.Sequential(*encoder, *(Residual(sizes.channels) for _ in range(own)))
        enlarging = [Enlarging(sizes.channels // 2**step) for step in range(sizes.halvings)]
        self.decoder = nn.Sequential(
            *(Residual(sizes.channels) for _ in range(own)), *enlarging, Convolution(sizes.filters, 3, 7, relu=False, reflect=True)
        )


class Unit(nn.Module):
    """Both weathers with the blocks that they share: the encoders' last and the decoders' first."""

    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        self.sizes = sizes
        self.source = UnitDomain(sizes)
        self.target = UnitDomain(sizes)
        self.shared_encoder = Residual(sizes.channels)
        self.shared_decoder = Residual(sizes.channels)

    def noise_shapes(self, batch: int, height_px: int, width_px: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """The shapes of what `forward` draws from N(0, 1): the spread of the latent codes, for both codes of each picture."""
        shape = (2, batch, self.sizes.channels, height_px // self.sizes.stride, width_px // self.sizes.stride)
        return shape, shape

    def _latent(self, domain: UnitDomain, pictures: torch.Tensor) -> torch.Tensor:
        return self.shared_encoder(domain.encoder(pictures))  # type: ignore[no-any-return] # modules are untyped

    def _picture(self, domain: UnitDomain, latent: torch.Tensor) -> torch.Tensor:
        return torch.tanh(domain.decoder(self.shared_decoder(latent)))

    def forward(
        self, source: torch.Tensor, target: torch.Tensor, noise: tuple[torch.Tensor, torch.Tensor], weights: LossWeights
    ) -> tuple[torch.Tensor, torch.Tensor, dict[str, torch.Tensor]]:
        """Returns pictures made as source, made as target, and the losses but the GAN's, each unweighted.

        The latent code is normal with the encoder's answer as its mean and variance 1, so that the divergence from N(0, 1) is
        half the mean square; constants go into the weight.
        """
        a, b = self.source, self.target
        mean_a, mean_b = self._latent(a, source), self._latent(b, target)
        latent_a, latent_b = mean_a + noise[0][0].to(mean_a.dtype), mean_b + noise[1][0].to(mean_b.dtype)
        again_a, made_a = self._picture(a, torch.cat([latent_a, latent_b])).chunk(2)
        again_b, made_b = self._picture(b, torch.cat([latent_b, latent_a])).chunk(2)
        mean_b_again, mean_a_again = self._latent(a, made_a), self._latent(b, made_b)
        losses = {
            "image": _distance(again_a, source) + _distance(again_b, target),
            "kl": _square(mean_a) + _square(mean_b),
        }
        if weights.cycle:
            round_a = self._picture(a, mean_a_again + noise[0][1].to(mean_a.dtype))
            round_b = self._picture(b, mean_b_again + noise[1][1].to(mean_b.dtype))
            losses["cycle"] = _distance(round_a, source) + _distance(round_b, target)
            losses["kl"] = losses["kl"] + _square(mean_a_again) + _square(mean_b_again)
        return made_a, made_b, losses

    def encoded(self, source: torch.Tensor) -> torch.Tensor:
        """Returns the latent codes of source scenes: their means, so that the result is always the same."""
        return self._latent(self.source, source)

    def decoded(self, latent: torch.Tensor) -> torch.Tensor:
        """Returns the scenes of latent codes in the target weather."""
        return self._picture(self.target, latent)


def _distance(first: torch.Tensor, second: torch.Tensor) -> torch.Tensor:
    return functional.l1_loss(first.float(), second.float())


def _square(latent: torch.Tensor) -> torch.Tensor:
    return latent.float().square().mean()
