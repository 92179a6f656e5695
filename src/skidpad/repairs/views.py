"""Moved views: what a camera beside, above or behind the drive's would have shown of its pictures, roughly.

Nobody knows the right steering for them. The network that is repaired can be asked all the same, so that the repaired one learns to answer
as it did on far more pictures than were recorded.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch.nn import functional

_ZOOM, _STRETCH, _TURN_RAD, _TILT = 0.25, 0.12, 0.06, 0.12
"""At most: logarithms of zoom and stretch, the turn about the middle, and how fast the scale changes across the picture."""

_ASIDE, _UP = 0.3, 0.25
"""At most, in halves of the picture's width and height."""

_AS_IT_IS = 0.15
"""Of the pictures: those of the drive itself are what counts in the end."""


@dataclass(frozen=True, slots=True, eq=False)
class Views:
    """One view for each of n pictures. maps: (n, 3, 3) from places of the view to places of its picture.

    Places are -1 to 1, right and down.
    """

    maps: torch.Tensor

    @classmethod
    def drawn(cls, count: int, aspect: float) -> Views:
        """Draws views from torch's generator on the CPU, so that they are the same on every device. aspect: width over height."""
        zoom, stretch, turn, tilt_x, tilt_y, aside, up = (2.0 * torch.rand(7, count) - 1.0).unbind()
        moved = (torch.rand(count) >= _AS_IT_IS).float()
        zoom_y = torch.exp(_ZOOM * zoom)
        zoom_x = zoom_y * torch.exp(_STRETCH * stretch)
        cos, sin = torch.cos(_TURN_RAD * turn), torch.sin(_TURN_RAD * turn)
        tilt_x, tilt_y, aside, up, one = _TILT * tilt_x, _TILT * tilt_y, _ASIDE * aside, _UP * up, torch.ones(count)
        rows = [
            [zoom_x * cos + aside * tilt_x, -zoom_x * sin / aspect + aside * tilt_y, aside],
            [zoom_y * sin * aspect + up * tilt_x, zoom_y * cos + up * tilt_y, up],
            [tilt_x, tilt_y, one],
        ]
        maps = torch.stack([torch.stack(row, dim=-1) for row in rows], dim=-2)
        return cls(torch.eye(3) + moved[:, None, None] * (maps - torch.eye(3)))

    def of(self, places: torch.Tensor) -> Views:
        """Returns the views of the pictures at some places, (n,)."""
        return Views(self.maps[places.to(self.maps.device)])

    def __call__(self, pictures: torch.Tensor) -> torch.Tensor:
        """Returns the views of bytes, (n, height, width, channels); all pictures of a window, (n, T, ...), are seen from the same place.

        What lies outside a picture is mirrored at its edge.
        """
        *lead, height, width, channels = pictures.shape
        each = pictures.reshape(len(pictures), -1, height, width, channels).permute(0, 1, 4, 2, 3)
        stacked = each.reshape(len(pictures), -1, height, width).float()  # frames of a window and channels are sampled alike
        down, right = ((torch.arange(size, device=pictures.device) * 2.0 + 1.0) / size - 1.0 for size in (height, width))
        places = torch.stack(
            [right.expand(height, width), down[:, None].expand(height, width), torch.ones_like(right).expand(height, width)]
        )
        with torch.autocast(pictures.device.type, enabled=False):  # in bfloat16 places would be off by a pixel
            found = torch.einsum("nij,jhw->nhwi", self.maps.to(pictures.device), places)
        seen = functional.grid_sample(stacked, found[..., :2] / found[..., 2:], padding_mode="reflection", align_corners=False)
        shown = seen.round().to(torch.uint8).reshape(len(pictures), -1, channels, height, width).permute(0, 1, 3, 4, 2)
        return shown.reshape(*lead, height, width, channels)
