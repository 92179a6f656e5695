"""Frames of other proportions than those a network was trained on are told of, with a crop that mends it."""

import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skidpad.subjects.inputs import Colour, Crop, InputSpec, aspect_warning, resized

FOUR_TO_THREE = InputSpec(320, 240)


def mended(spec: InputSpec, warning: str) -> InputSpec:
    """The input with the crop that a warning proposes."""
    found = re.search(r"crop = \{ (.*?) \}", warning)
    assert found is not None
    return replace(spec, crop=Crop(**{side: float(share) for side, share in re.findall(r"(\w+) = ([\d.]+)", found[1])}))


def test_a_wide_frame_on_a_narrow_input_is_told_with_numbers_and_a_way_out() -> None:
    warning = aspect_warning(FOUR_TO_THREE, 720, 1280)
    assert warning is not None
    assert "frames of 1280 x 720 px are squeezed to 75 % of their width to fill the input of 320 x 240 px" in warning
    assert "crop = { left = 0.125, right = 0.125 }" in warning
    assert "confirm it with frame_aspect = 1.778 in [input]" in warning
    assert aspect_warning(replace(FOUR_TO_THREE, frame_aspect=1.778), 720, 1280) is None


def test_the_crop_counts_and_a_few_percent_do_not() -> None:
    assert aspect_warning(FOUR_TO_THREE, 480, 640) is None
    assert aspect_warning(FOUR_TO_THREE, 480, 660) is None
    assert aspect_warning(InputSpec(320, 120, crop=Crop(top=0.5)), 480, 640) is None
    assert aspect_warning(InputSpec(320, 120), 480, 640) is not None


def test_a_network_trained_on_squeezed_frames_wants_them_squeezed_alike() -> None:
    trained = InputSpec(200, 66, crop=Crop(top=0.4), frame_aspect=4 / 3)
    assert aspect_warning(trained, 240, 320) is None
    warning = aspect_warning(trained, 720, 1280)  # which happens to fill the input with no squeezing at all
    assert warning is not None
    assert "training on frames with frame_aspect = 1.333" in warning
    assert "crop = { top = 0.4, left = 0.125, right = 0.125 }" in warning


@given(
    st.integers(100, 2000),
    st.integers(100, 2000),
    st.sampled_from([Crop(), Crop(top=0.4), Crop(top=0.2, bottom=0.1, left=0.1)]),
    st.none() | st.floats(0.5, 3.0),
)
def test_the_proposed_crop_gives_the_network_the_proportions_of_its_training(
    height_px: int, width_px: int, crop: Crop, aspect: float | None
) -> None:
    spec = InputSpec(200, 100, crop=crop, frame_aspect=aspect)
    warning = aspect_warning(spec, height_px, width_px)
    used = mended(spec, warning).crop if warning else crop
    kept = width_px * (1.0 - used.left - used.right) / (height_px * (1.0 - used.top - used.bottom))
    in_training = 2.0 if aspect is None else aspect * (1.0 - crop.left - crop.right) / (1.0 - crop.top - crop.bottom)
    assert kept == pytest.approx(in_training, rel=0.051)


@pytest.mark.parametrize(
    ("spec", "size_px"),
    [(InputSpec(200, 66), (300, 99)), (InputSpec(8192, 4096), (4096, 2048)), (InputSpec(7000, 7000, Colour.GREY), (3500, 3500))],
)
def test_another_size_is_within_the_limits(spec: InputSpec, size_px: tuple[int, int]) -> None:
    assert (resized(spec).width_px, resized(spec).height_px) == size_px
