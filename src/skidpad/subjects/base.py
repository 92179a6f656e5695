"""What every other part knows of a subject, and what a run remembers of it where its file is gone or its code is not trusted."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol

from skidpad.core.errors import BadRunError
from skidpad.subjects.description import format_description, parse_description
from skidpad.subjects.inputs import aspect_warning

if TYPE_CHECKING:
    import torch

    from skidpad.core.images import FloatArray, Frames
    from skidpad.subjects.description import Description


@dataclass(frozen=True, slots=True)
class Layer:
    """Neurons `start` to `stop` (excluded) of the flat vector belong to this layer."""

    name: str
    start: int
    stop: int

    @property
    def neurons(self) -> int:
        """How many neurons the layer has."""
        return self.stop - self.start


@dataclass(frozen=True, slots=True)
class Observation:
    """Answers and the value of every neuron, of one pass over one clip.

    answers: (N, outputs), in the order of the description; angles in radians. values: (N, neurons) float32, on the
    subject's device; no column for a black box.
    """

    answers: FloatArray
    values: torch.Tensor


@dataclass(frozen=True, slots=True)
class DeviceObservation:
    """An observation whose answers stay on the subject's device too, so that nobody waits for them.

    answers: (N, outputs) float64, angles in radians. values: (N, neurons) float32.
    """

    answers: torch.Tensor
    values: torch.Tensor


class Subject(Protocol):
    """A network under test; every path to it goes through its description.

    It is asked about a clip, (lead + N, height, width, 3) in order of time, and answers for the last N frames: each is
    seen together with the `lead` frames before it. Most subjects have no memory (lead = 0), and a clip is N frames in any
    order. `now`, (N, height, width, 3), takes the place of each answered frame in its own window alone, so that the past
    stays as the clip has it. Campaigns ask from several threads at a time.
    """

    @property
    def description(self) -> Description:
        """What the subject takes and answers."""

    @property
    def layers(self) -> tuple[Layer, ...]:
        """The layers whose neurons can be observed; empty for a black box."""

    @property
    def sha256(self) -> str:
        """The hash of the weights and the description."""

    @property
    def lead(self) -> int:
        """How many frames before the one that it answers for the subject looks at."""

    def predict(self, clip: Frames, now: Frames | None = None) -> FloatArray:
        """Returns all outputs, (N, outputs), angles in radians; not-finite answers are passed on, not hidden."""

    def observe(self, clip: Frames, now: Frames | None = None) -> Observation:
        """Returns answers and neuron values of one pass."""


_FRAMES = "frames_px"


def subject_record(subject: Subject, *frame_shapes: Sequence[int]) -> dict[str, Any]:
    """Writes what `RecordedSubject` reads, as plain values for the manifest of a run.

    frame_shapes: (height, width, ...) of the frames that the run shows the subject, of each source of frames.
    """
    return {
        _FRAMES: [[height, width] for height, width, *_ in frame_shapes],
        "description": format_description(subject.description),
        "layers": [[layer.name, layer.neurons] for layer in subject.layers],
        "sha256": subject.sha256,
    }


def squeezed_frames(record: Mapping[str, Any]) -> tuple[str, ...]:
    """Returns a warning for each source of frames that reach the subject in other proportions than in its training.

    record: what `subject_record` wrote; one without frames, as runs of older versions have it, gives no warning.
    """
    if not record.get(_FRAMES):
        return ()
    try:
        spec = parse_description(record["description"], "the run's manifest.json").input
        warnings = [aspect_warning(spec, int(height), int(width)) for height, width in record[_FRAMES]]
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise _damaged(error) from error
    return tuple(dict.fromkeys(warning for warning in warnings if warning is not None))


def _damaged(error: Exception) -> BadRunError:
    return BadRunError(f"what the run's manifest.json says of its subject is damaged ({error!r}); restore it from a copy")


class RecordedSubject:
    """Tells what a subject was; whoever asks it for an answer has it loaded, which may need trust.

    record: what `subject_record` wrote. load: loads the subject itself.
    """

    def __init__(self, record: Mapping[str, Any], load: Callable[[], Subject]) -> None:
        self._load = load
        try:
            self.description = parse_description(record["description"], "the run's manifest.json")
            sizes = [(str(name), int(neurons)) for name, neurons in record["layers"]]
            self.sha256 = str(record["sha256"])
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise _damaged(error) from error
        self.lead = self.description.input.history.frames - 1
        starts = [sum(neurons for _, neurons in sizes[:place]) for place in range(len(sizes))]
        self.layers = tuple(Layer(name, start, start + neurons) for start, (name, neurons) in zip(starts, sizes, strict=True))

    def predict(self, clip: Frames, now: Frames | None = None) -> FloatArray:
        """Returns all outputs, (N, outputs), angles in radians."""
        return self._loaded.predict(clip, now)

    def observe(self, clip: Frames, now: Frames | None = None) -> Observation:
        """Returns answers and neuron values of one pass."""
        return self._loaded.observe(clip, now)

    @cached_property
    def _loaded(self) -> Subject:
        return self._load()
