"""Cloudy noise, of which random looks are made."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt


def clouds(shape: tuple[int, int, int, int], power: float, rng: np.random.Generator) -> npt.NDArray[np.float32]:
    """Returns noise of mean 0 and deviation 1 whose amplitudes fall with the frequency to a power, (N, height, width, channels)."""
    _, height, width, _ = shape
    across, down = np.fft.rfftfreq(width)[None, :, None], np.fft.fftfreq(height)[:, None, None]
    frequency = np.sqrt(across**2 + down**2)
    frequency[0, 0] = 1.0
    spectrum = np.fft.rfft2(rng.normal(size=shape), axes=(1, 2)) / frequency**power
    spectrum[:, 0, 0] = 0.0
    field = np.fft.irfft2(spectrum, s=(height, width), axes=(1, 2))
    return np.asarray(field / max(float(field.std()), 1e-9), np.float32)
