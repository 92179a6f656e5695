"""The networks of both methods against plain references written from the papers."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

from skidpad.stimuli.weather.blocks import Discriminator, LayerNorm, StyledResidual, grouped, normalised, start, written_out
from skidpad.stimuli.weather.munit import Munit
from skidpad.stimuli.weather.settings import LossWeights, Sizes
from skidpad.stimuli.weather.unit import Unit

SMALL = Sizes(filters=4, blocks=2, style=3, hidden=8, scales=2)
PAPER = Sizes()


def pictures(seed: int, count: int = 2, height: int = 32, width: int = 40) -> torch.Tensor:
    return torch.rand((count, 3, height, width), generator=torch.Generator().manual_seed(seed)) * 2.0 - 1.0


def fresh(model: nn.Module, seed: int = 0) -> nn.Module:
    torch.manual_seed(seed)
    start(model, gain_from_relu=True)
    return model


@pytest.mark.parametrize("norm", [normalised, grouped, written_out])
@pytest.mark.parametrize(("axes", "shape"), [((2, 3), None), ((2, 3), (2, 3, 1, 1)), ((2, 3), (1, 3, 1, 1)), ((1, 2, 3), (3, 1, 1))])
def test_norms_and_their_gradients_are_those_of_the_formula(
    norm: Callable[..., torch.Tensor], axes: tuple[int, ...], shape: tuple[int, ...] | None
) -> None:
    torch.manual_seed(0)
    maps, pull = torch.randn(2, 3, 4, 5) * 5.0 + 2.0, torch.randn(2, 3, 4, 5)
    scale, shift = (None, None) if shape is None else (torch.randn(shape), torch.randn(shape))
    asked, plain = maps.clone().requires_grad_(), maps.double().requires_grad_()
    mean = plain.mean(axes, keepdim=True)
    expected = (plain - mean) / ((plain - mean).square().mean(axes, keepdim=True) + 1e-5).sqrt()
    if scale is not None and shift is not None:
        expected = expected * scale + shift
    found = norm(asked, axes, scale, shift)
    torch.testing.assert_close(found, expected.float(), rtol=1e-4, atol=1e-5)
    (found * pull).sum().backward()
    (expected * pull).sum().backward()
    assert asked.grad is not None
    assert plain.grad is not None
    torch.testing.assert_close(asked.grad, plain.grad.float(), rtol=1e-3, atol=1e-5)


def test_a_layers_norm_has_its_own_weights() -> None:
    maps = pictures(1, 3) * 5.0 + 2.0
    norm = LayerNorm(3)
    norm.weight.data = torch.tensor([1.0, 2.0, -0.5])[:, None, None]
    norm.bias.data = torch.tensor([0.0, 0.3, 1.0])[:, None, None]
    expected = functional.group_norm(maps, 1, norm.weight.flatten(), norm.bias.flatten())
    torch.testing.assert_close(norm(maps), expected, rtol=1e-4, atol=1e-5)


def test_a_style_scales_and_shifts_the_normalised_maps() -> None:
    """AdaIN (MUNIT, equation 8): gamma (z - mean) / deviation + beta."""
    torch.manual_seed(0)
    block = StyledResidual(3)
    maps, norms = torch.randn(2, 3, 6, 7), torch.randn(2, 4, 3, 1, 1)
    first = norms[:, 0] * functional.instance_norm(block.first(maps)) + norms[:, 1]
    second = norms[:, 2] * functional.instance_norm(block.second(functional.relu(first))) + norms[:, 3]
    torch.testing.assert_close(block(maps, norms), maps + second, rtol=1e-4, atol=1e-4)


def test_paper_sizes_are_the_papers() -> None:
    """MUNIT, appendix B.1: content 256 channels at a quarter of the size, style 8, 8 AdaIN layers of 256 channels."""
    with torch.device("meta"):
        model = Munit(PAPER)
        content = model.source.content(torch.zeros(1, 3, 256, 340))
        assert tuple(content.shape) == (1, 256, 64, 85)
        assert tuple(model.source.style(torch.zeros(1, 3, 256, 340)).shape) == (1, 8)
        assert tuple(model.target.decoder(content, torch.zeros(1, 8)).shape) == (1, 3, 256, 340)
    assert model.target.decoder.norms[-1].out_features == 4 * 2 * 2 * 256


@pytest.mark.parametrize("scales", [1, 3])
def test_the_discriminators_losses_are_least_squares(scales: int) -> None:
    torch.manual_seed(0)
    critic = Discriminator(4, scales)
    real, made = pictures(1, 2, 64, 64), pictures(2, 2, 64, 64)
    wanted = sum(((a - 1.0) ** 2).mean() + (b**2).mean() for a, b in zip(critic(real), critic(made), strict=True))
    fooled = sum(((b - 1.0) ** 2).mean() for b in critic(made))
    torch.testing.assert_close(critic.loss(real, made), wanted)
    torch.testing.assert_close(critic.fooling_loss(made), fooled)
    assert len(critic(real)) == scales


def distance(first: torch.Tensor, second: torch.Tensor) -> torch.Tensor:
    return (first - second).abs().mean()


def test_munits_losses_are_those_of_tactics_appendix() -> None:
    model = fresh(Munit(SMALL))
    a, b = model.source, model.target
    x_a, x_b = pictures(1), pictures(2)
    s_a, s_b = torch.randn(2, 3), torch.randn(2, 3)
    made_a, made_b, losses = model(x_a, x_b, (s_a, s_b), LossWeights())
    c_a, c_b = a.content(x_a), b.content(x_b)
    torch.testing.assert_close(made_a, a.decoder(c_b, s_a))
    torch.testing.assert_close(made_b, b.decoder(c_a, s_b))
    expected = {
        "image": distance(a.decoder(c_a, a.style(x_a)), x_a) + distance(b.decoder(c_b, b.style(x_b)), x_b),
        "content": distance(b.content(made_b), c_a) + distance(a.content(made_a), c_b),
        "style": distance(a.style(made_a), s_a) + distance(b.style(made_b), s_b),
        "cycle": distance(a.decoder(b.content(made_b), a.style(x_a)), x_a) + distance(b.decoder(a.content(made_a), b.style(x_b)), x_b),
    }
    assert losses.keys() == expected.keys()
    for name, loss in losses.items():
        torch.testing.assert_close(loss, expected[name], rtol=1e-4, atol=1e-5, msg=name)
    assert "cycle" not in model(x_a, x_b, (s_a, s_b), LossWeights(cycle=0.0))[2]


def test_a_share_of_the_pictures_borrows_the_styles_of_real_ones() -> None:
    model, plain = fresh(Munit(SMALL, real_styles=0.5)), fresh(Munit(SMALL))
    plain.load_state_dict(model.state_dict())
    x_a, x_b, drawn = pictures(1), pictures(2), (torch.randn(2, 3), torch.randn(2, 3))
    styles = tuple(
        torch.cat([domain.style(real)[:1], noise[1:]])
        for domain, real, noise in zip((model.source, model.target), (x_a, x_b), drawn, strict=True)
    )
    mixed, wanted = model(x_a, x_b, drawn, LossWeights()), plain(x_a, x_b, styles, LossWeights())
    torch.testing.assert_close(mixed[:2], wanted[:2])
    torch.testing.assert_close(mixed[2]["style"], wanted[2]["style"])
    assert not torch.equal(mixed[1], plain(x_a, x_b, drawn, LossWeights())[1])


def test_units_losses_are_those_of_deeproad() -> None:
    model = fresh(Unit(SMALL))
    x_a, x_b = pictures(1), pictures(2)
    noise = tuple(torch.randn(shape) for shape in model.noise_shapes(2, 32, 40))

    def code(domain: nn.Module, x: torch.Tensor) -> torch.Tensor:
        return model.shared_encoder(domain.encoder(x))

    def picture(domain: nn.Module, z: torch.Tensor) -> torch.Tensor:
        return torch.tanh(domain.decoder(model.shared_decoder(z)))

    a, b = model.source, model.target
    made_a, made_b, losses = model(x_a, x_b, noise, LossWeights())
    m_a, m_b = code(a, x_a), code(b, x_b)
    z_a, z_b = m_a + noise[0][0], m_b + noise[1][0]
    torch.testing.assert_close(made_b, picture(b, z_a))
    torch.testing.assert_close(made_a, picture(a, z_b))
    n_a, n_b = code(b, made_b), code(a, made_a)
    expected = {
        "image": distance(picture(a, z_a), x_a) + distance(picture(b, z_b), x_b),
        "kl": sum((m**2).mean() for m in (m_a, m_b, n_a, n_b)),
        "cycle": distance(picture(a, n_a + noise[0][1]), x_a) + distance(picture(b, n_b + noise[1][1]), x_b),
    }
    assert losses.keys() == expected.keys()
    for name, loss in losses.items():
        torch.testing.assert_close(loss, expected[name], rtol=1e-4, atol=1e-4, msg=name)


def test_units_weathers_share_what_lies_nearest_to_the_latent_code() -> None:
    model = Unit(SMALL)
    names = {name.partition(".")[0] for name, _ in model.named_parameters()}
    assert names == {"source", "target", "shared_encoder", "shared_decoder"}
    np.testing.assert_allclose(model.decoded(model.encoded(pictures(1))).detach(), model.decoded(model.encoded(pictures(1))).detach())
