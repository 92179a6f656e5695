"""Independent answers that the tests compare with."""

import numpy as np
from scipy.integrate import quad

from skidpad.core.images import FloatArray
from skidpad.worlds.scenario.road import Piece, Road


def polyline_projection(road: Road, points: FloatArray, step_m: float = 0.02) -> tuple[FloatArray, FloatArray]:
    """Distance along and beside a polyline through dense points of the road, by brute force over all its segments."""
    s = np.arange(0.0, road.length_m, step_m)
    line = road.at(s).beside(0.0)
    along, beside = np.empty(len(points)), np.empty(len(points))
    for k, point in enumerate(points):
        near = int(np.argmin(np.sum((line - point) ** 2, axis=1)))
        best = np.inf
        for i in range(max(near - 2, 0), min(near + 2, len(line) - 1)):
            chord = line[i + 1] - line[i]
            share = np.clip(np.dot(point - line[i], chord) / np.dot(chord, chord), 0.0, 1.0)
            away = point - line[i] - share * chord
            if np.hypot(*away) < best:
                best = float(np.hypot(*away))
                along[k] = s[i] + share * step_m
                beside[k] = np.copysign(best, chord[0] * away[1] - chord[1] * away[0])
    return along, beside


def piece_end(piece: Piece) -> tuple[float, float, float]:
    """Where one piece from the origin ends, by adaptive quadrature: x, y and heading."""
    slope = (piece.end_per_m - piece.start_per_m) / piece.length_m

    def heading(u: float) -> float:
        return piece.start_per_m * u + 0.5 * slope * u * u

    x = quad(lambda u: np.cos(heading(u)), 0.0, piece.length_m, epsabs=1e-13, epsrel=1e-13, limit=200)[0]
    y = quad(lambda u: np.sin(heading(u)), 0.0, piece.length_m, epsabs=1e-13, epsrel=1e-13, limit=200)[0]
    return x, y, heading(piece.length_m)


def straight(length_m: float = 300.0) -> Road:
    return Road((Piece(length_m),))


def bend(radius_m: float, length_m: float = 120.0) -> Road:
    """A bend of constant radius, to the left where the radius is positive."""
    return Road((Piece(length_m, 1.0 / radius_m, 1.0 / radius_m),))
