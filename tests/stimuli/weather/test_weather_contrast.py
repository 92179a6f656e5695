"""The loss against negatives: kept scenes cost nothing, inverted ones much, and flat places are free."""

import pytest
import torch

from skidpad.stimuli.weather.losses import contrast_loss


def scene(seed: int) -> torch.Tensor:
    torch.manual_seed(seed)
    coarse = torch.rand(2, 3, 12, 16) * 2.0 - 1.0
    return torch.nn.functional.interpolate(coarse, scale_factor=8, mode="bilinear").clamp(-1.0, 1.0)


def test_a_kept_scene_costs_nothing() -> None:
    before = scene(1)
    assert float(contrast_loss(before, before)) == 0.0
    assert float(contrast_loss(before, before * 0.4 + 0.5)) == pytest.approx(0.0, abs=1e-3)


def test_a_negative_costs_most() -> None:
    before = scene(2)
    inverted, other = float(contrast_loss(before, -before)), float(contrast_loss(before, scene(3)))
    assert 1.2 < inverted <= 1.4
    assert other < inverted


def test_flat_places_are_free() -> None:
    flat = torch.zeros(1, 3, 96, 128)
    assert float(contrast_loss(flat, scene(4)[:1])) == 0.0


def test_the_gradient_leads_away_from_the_negative() -> None:
    before = scene(5)
    after = (-before).clone().requires_grad_()
    loss = contrast_loss(before, after)
    (gradient,) = torch.autograd.grad(loss, after)
    assert float(contrast_loss(before, after.detach() - 100.0 * gradient)) < float(loss.detach())
    assert torch.isfinite(gradient).all()


def test_a_window_against_the_plain_formula() -> None:
    before, after = scene(6)[:1, :, :32, :32], scene(7)[:1, :, :32, :32]
    light = [picture.mean(1).reshape(16, 2, 16, 2).mean((1, 3)) for picture in (before, after)]
    first, second = (values - values.mean() for values in light)
    correlation = (first * second).mean() / (first.square().mean() * second.square().mean() + 1e-6).sqrt()
    weight = first.square().mean() / (first.square().mean() + 0.01)
    wanted = float((weight * torch.relu(0.4 - correlation)).clamp(min=0.0) / weight.clamp(min=1.0))
    assert float(contrast_loss(before, after)) == pytest.approx(wanted, abs=1e-6)
