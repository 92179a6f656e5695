"""A subject as a run remembers it, for those who look at the run where its file is gone or its code is not trusted."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from skidpad.core.errors import BadRunError
from skidpad.core.layers import Layer
from skidpad.subjects.description_toml import format_description, parse_description
from skidpad.subjects.windows import aspect_warning

if TYPE_CHECKING:
    from skidpad.core.images import FloatArray, Frames
    from skidpad.subjects.base import Observation, Subject


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
