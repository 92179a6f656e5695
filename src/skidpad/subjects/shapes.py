"""The shape of a network's input: as a description makes it, as a file states it, and whether the two agree."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from skidpad.core.errors import BadSubjectError
from skidpad.subjects.description import HistoryKind, InputSpec, Layout
from skidpad.subjects.windows import input_channels

if TYPE_CHECKING:
    from pathlib import Path

_MOST_CHANNELS = 16
"""More than that is an edge of a picture, even of a small one."""

_ALIKE = 1.05
"""By how much a picture may be stretched without a word: rounding to pixels stretches a little, no camera by so much."""


def described_shape(spec: InputSpec) -> tuple[int, ...]:
    """Returns the shape of one input without the batch; a recurrent window has its frames first."""
    channels = input_channels(spec)
    picture = (channels, spec.height_px, spec.width_px) if spec.layout is Layout.NCHW else (spec.height_px, spec.width_px, channels)
    return (spec.history.frames, *picture) if spec.history.kind is HistoryKind.RECURRENT else picture


def check_shape(file: Path, shape: Sequence[int | None] | None, spec: InputSpec) -> None:
    """Refuses a description whose input is not the one that the file states; None stands for any size."""
    wanted = described_shape(spec)
    if shape is None or (len(shape) == len(wanted) and all(size in {None, other} for size, other in zip(shape, wanted, strict=True))):
        return
    declared = " x ".join("any" if size is None else str(size) for size in shape)
    described = " x ".join(map(str, wanted))
    raise BadSubjectError(
        f"{file} takes an input of {declared}, [input] describes one of {described} ({spec.layout.value}); "
        "correct width_px, height_px, colour, layout or history"
    )


def resized(spec: InputSpec) -> InputSpec:
    """Returns the input half as high and wide again, to see whether a network would notice a wrong size; halved near the limits."""
    try:
        return replace(spec, width_px=spec.width_px + (spec.width_px + 1) // 2, height_px=spec.height_px + (spec.height_px + 1) // 2)
    except BadSubjectError:
        return replace(spec, width_px=(spec.width_px + 1) // 2, height_px=(spec.height_px + 1) // 2)


def aspect_warning(spec: InputSpec, frame_height_px: int, frame_width_px: int) -> str | None:
    """Warns of frames that reach the network in other proportions than those it was trained on; None where they do not.

    Where the description does not say `frame_aspect`, training is taken not to have stretched its pictures.
    """
    crop = spec.crop
    kept_width, kept_height = 1.0 - crop.left - crop.right, 1.0 - crop.top - crop.bottom
    trained = spec.frame_aspect or spec.width_px / spec.height_px * kept_height / kept_width
    given = frame_width_px / frame_height_px
    share = min(trained, given) / max(trained, given)
    if share * _ALIKE >= 1.0:
        return None
    if given > trained:
        side, part, margin = "width", "the sides", 0.5 * (1.0 - share)
        cut = replace(crop, left=margin + share * crop.left, right=margin + share * crop.right)
    else:
        side, part = "height", "the upper rows"
        cut = replace(crop, top=1.0 - share + share * crop.top, bottom=share * crop.bottom)
    sides = ", ".join(f"{name} = {round(value, 4)}" for name in ("top", "bottom", "left", "right") if (value := getattr(cut, name)))
    way_out = f"cut {part} away, as crop = {{ {sides} }}"
    frames = f"frames of {frame_width_px} x {frame_height_px} px are squeezed to {share:.0%} of their {side}"
    if spec.frame_aspect is None:
        return (
            f"{frames} to fill the input of {spec.width_px} x {spec.height_px} px after the crop; {way_out}, or, if the training squeezed "
            f"frames of this shape too, confirm it with frame_aspect = {given:.4g} in [input]"
        )
    return f"{frames}, compared with the network's training on frames with frame_aspect = {trained:.4g}; {way_out}"


def picture_layout(shape: Sequence[int | None]) -> Layout | None:
    """Tells where the channels of a picture (three axes) are: on the axis that is small; None where that cannot be told."""
    if len(shape) != 3:
        return None
    first, last = (size is not None and size <= _MOST_CHANNELS for size in (shape[0], shape[-1]))
    if first == last:
        return None
    return Layout.NCHW if first else Layout.NHWC
