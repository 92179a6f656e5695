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


def larger(spec: InputSpec) -> InputSpec:
    """Returns the input half as high and wide again, to see whether a network would notice a wrong size."""
    return replace(spec, width_px=spec.width_px + (spec.width_px + 1) // 2, height_px=spec.height_px + (spec.height_px + 1) // 2)


def picture_layout(shape: Sequence[int | None]) -> Layout | None:
    """Tells where the channels of a picture (three axes) are: on the axis that is small; None where that cannot be told."""
    if len(shape) != 3:
        return None
    first, last = (size is not None and size <= _MOST_CHANNELS for size in (shape[0], shape[-1]))
    if first == last:
        return None
    return Layout.NCHW if first else Layout.NHWC
