from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skidpad.core.errors import BadParametersError
from skidpad.repairs.retraining import STRETCHES, training_frames
from skidpad.repairs.settings import RepairSettings, Split


@given(frames=st.integers(20, 400), share=st.floats(0.2, 0.8), seed=st.integers(0, 5), split=st.sampled_from(Split))
def test_the_share_is_kept_and_the_seed_decides(frames: int, share: float, seed: int, split: Split) -> None:
    settings = RepairSettings(share=share, split=split, seed=seed)
    trained = training_frames(frames, settings)
    assert trained.shape == (frames,)
    assert abs(trained.sum() - share * frames) <= STRETCHES  # each stretch is rounded on its own
    assert np.array_equal(trained, training_frames(frames, settings))


def test_the_time_split_holds_out_contiguous_blocks_and_the_random_one_does_not() -> None:
    by_time = training_frames(200, RepairSettings(split=Split.TIME))
    by_chance = training_frames(200, RepairSettings(split=Split.RANDOM))
    assert np.count_nonzero(np.diff(by_time.astype(int))) == 2 * STRETCHES - 1
    assert np.count_nonzero(np.diff(by_chance.astype(int))) > 40
    assert by_time[:26].all()
    assert not by_time[27:40].any()


def test_another_seed_holds_out_other_frames() -> None:
    assert not np.array_equal(training_frames(100, RepairSettings(seed=0)), training_frames(100, RepairSettings(seed=1)))


@pytest.mark.parametrize(("frames", "share"), [(1, 0.66), (2, 0.1), (3, 0.95)])
@pytest.mark.parametrize("split", Split)
def test_a_split_with_an_empty_side_is_refused(frames: int, share: float, split: Split) -> None:
    with pytest.raises(BadParametersError, match=r"--share"):
        training_frames(frames, RepairSettings(share=share, split=split))


@pytest.mark.parametrize("wrong", [{"share": 0.0}, {"share": 1.0}, {"share": float("nan")}, {"max_mutants": 1}, {"transforms": ()}])
def test_settings_out_of_bounds_are_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(BadParametersError):
        RepairSettings(**wrong)  # type: ignore[arg-type]  # wrong on purpose


def test_training_starts_gently_from_weights_and_long_from_scratch() -> None:
    gentle, long = RepairSettings().training(), RepairSettings(from_scratch=True).training()
    assert (gentle.epochs, gentle.learning_rate, gentle.validation_fraction) == (10, 3e-4, 0.0)
    assert (long.epochs, long.learning_rate) == (30, 1e-3)
    assert RepairSettings(epochs=3, learning_rate=0.5).training().epochs == 3
