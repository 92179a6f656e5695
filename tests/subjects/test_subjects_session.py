"""Stepping through frames answers as asking about the whole clip does."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from memory_toys import Staged, clip_of, described, module_for, spec_of

from skidpad.core.images import FloatArray, Frames
from skidpad.drives import drive_from_arrays
from skidpad.subjects.base import Observation
from skidpad.subjects.description import Description
from skidpad.subjects.inputs import HistoryKind, InputSpec
from skidpad.subjects.network_subject import NetworkSubject
from skidpad.subjects.session import FrameSession, start

SETTINGS = settings(max_examples=8, deadline=None)
BACK = [kind for kind in HistoryKind if kind is not HistoryKind.SINGLE]
cases = pytest.mark.parametrize(
    ("kind", "staged"), [*((kind, False) for kind in BACK), (HistoryKind.RECURRENT, True)], ids=[*(kind.value for kind in BACK), "staged"]
)


def subject_of(kind: HistoryKind, *, staged: bool, frames: int = 4) -> NetworkSubject:
    spec = spec_of(kind, frames)
    return NetworkSubject.of_module(module_for(spec, staged=staged), described(spec))


class Box:
    """A subject that is no network: it answers through one, as a black box would."""

    def __init__(self, inner: NetworkSubject) -> None:
        self.inner = inner
        self.layers = ()
        self.sha256 = ""
        self.lead = inner.lead

    @property
    def description(self) -> Description:
        return self.inner.description

    def predict(self, clip: Frames, now: Frames | None = None) -> FloatArray:
        return self.inner.predict(clip, now)

    def observe(self, clip: Frames, now: Frames | None = None) -> Observation:
        return self.inner.observe(clip, now)


@cases
@pytest.mark.parametrize("boxed", [False, True])
@SETTINGS
@given(frames=st.integers(2, 5), steps=st.integers(1, 7), seed=st.integers(0, 3))
def test_stepping_is_predicting(kind: HistoryKind, staged: bool, boxed: bool, frames: int, steps: int, seed: int) -> None:
    subject = subject_of(kind, staged=staged, frames=frames)
    drive = drive_from_arrays(clip_of(steps, seed))
    expected = subject.predict(drive.read(range(steps), lead=subject.lead).clip)
    session = start(Box(subject) if boxed else subject)
    assert isinstance(session, FrameSession) == boxed
    answers = np.concatenate([session.step(drive.read([step]).frames) for step in range(steps)])
    np.testing.assert_allclose(answers, expected, atol=1e-6)


@cases
@pytest.mark.parametrize("boxed", [False, True])
def test_cars_have_memories_of_their_own_and_forget_alone(kind: HistoryKind, staged: bool, boxed: bool) -> None:
    subject = subject_of(kind, staged=staged)
    clips = [clip_of(9, seed) for seed in range(3)]
    session = start(Box(subject) if boxed else subject, 3)
    together = []
    for step in range(9):
        if step == 5:
            session.reset(np.array([False, True, False]))
        together.append(session.step(np.stack([clip[step] for clip in clips])))
    for car, clip in enumerate(clips):
        lone = start(subject)
        for step in range(9):
            if step == 5 and car == 1:
                lone = start(subject)
            np.testing.assert_allclose(together[step][car], lone.step(clip[step : step + 1])[0], atol=1e-6)
    session.reset()
    first = session.step(np.stack([clip[0] for clip in clips]))
    np.testing.assert_allclose(first, together[0], atol=1e-6)


def test_a_step_looks_at_the_new_frames_alone() -> None:
    subject = subject_of(HistoryKind.RECURRENT, staged=True, frames=20)
    module = subject.module
    assert isinstance(module, Staged)
    session = start(subject, 2)
    module.looked_at = 0
    for step in range(5):
        session.step(clip_of(2, step))
    assert module.looked_at == 10


def test_without_memory_a_step_is_a_prediction() -> None:
    spec = InputSpec(16, 12)
    subject = NetworkSubject.of_module(module_for(spec), described(spec))
    frames = clip_of(3)
    session = start(subject, 3)
    np.testing.assert_array_equal(session.step(frames), subject.predict(frames))
    np.testing.assert_array_equal(start(Box(subject), 3).step(frames), subject.predict(frames))
    with pytest.raises(ValueError, match="3 cars takes 3 frames a step; got 2"):
        session.step(frames[:2])
    with pytest.raises(ValueError, match="at least one car"):
        start(subject, 0)
