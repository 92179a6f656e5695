"""Registry, seeding, angles, images and the rule that importing does nothing."""

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from skidpad.core import images
from skidpad.core.errors import MissingExtraError, SkidpadError, UnknownNameError
from skidpad.core.images import as_numpy, decode, encode, pixel_hash
from skidpad.core.registry import Registry
from skidpad.core.seeding import child_rng, child_seed
from skidpad.core.units import AngleUnit


def test_a_registry_answers_by_name_and_says_what_is_near() -> None:
    toys: Registry[type] = Registry("toy", "toys", ())
    toys.register("brightness")(int)
    toys.register("blur")(str)
    assert toys.get("brightness") is int
    assert toys.names() == ("brightness", "blur")
    with pytest.raises(UnknownNameError, match="no toy named 'brightnes'; did you mean 'brightness'"):
        toys.get("brightnes")
    with pytest.raises(UnknownNameError, match="known: blur, brightness"):
        toys.get("zzz")


def test_a_name_is_taken_once() -> None:
    toys: Registry[type] = Registry("toy", "toys", ())
    toys.register("a")(int)
    toys.register("a")(int)
    with pytest.raises(ValueError, match="registered twice"):
        toys.register("a")(str)


def test_a_registry_imports_its_modules_at_the_first_look_up() -> None:
    lazy: Registry[type] = Registry("toy", "toys", ("a_module_that_is_not_there",))
    with pytest.raises(ModuleNotFoundError):
        lazy.names()


def test_a_registry_imports_no_further_than_the_row_that_is_looked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    rows: Registry[int] = Registry("number", "numbers-of-a-test", ("first_of_a_test", "second_of_a_test"))
    monkeypatch.setitem(sys.modules, "rows_of_a_test", SimpleNamespace(ROWS=rows))
    for name, value in (("first", 1), ("second", 2)):
        (tmp_path / f"{name}_of_a_test.py").write_text(f"from rows_of_a_test import ROWS\nROWS.register({name!r})({value})\n")
    assert rows.get("first") == 1
    assert "second_of_a_test" not in sys.modules
    assert (rows.get("second"), rows.names()) == (2, ("first", "second"))
    for name in ("first", "second"):
        monkeypatch.delitem(sys.modules, f"{name}_of_a_test")


@given(st.integers(0, 2**40), st.lists(st.text(max_size=5), max_size=3))
def test_children_are_reproducible_and_differ_from_their_parent(seed: int, names: list[str]) -> None:
    assert child_rng(seed, *names).integers(2**60) == child_rng(seed, *names).integers(2**60)
    assert child_seed(seed, *names) != child_seed(seed, *names, "more")
    assert 0 <= child_seed(seed, *names) < 2**63


def test_names_do_not_run_into_each_other() -> None:
    assert child_seed(1, "ab", "c") != child_seed(1, "a", "bc")


def test_units_of_angles() -> None:
    assert AngleUnit.RAD.rad == 1.0
    assert AngleUnit.DEG.rad * 180 == pytest.approx(np.pi, abs=1e-15)
    assert AngleUnit.SCALED_25.rad == pytest.approx(np.radians(25), abs=1e-15)


@given(st.integers(1, 20), st.integers(1, 20), st.integers(0, 2**32))
def test_png_keeps_every_pixel(height: int, width: int, seed: int) -> None:
    frame = np.random.default_rng(seed).integers(0, 256, (height, width, 3), np.uint8)
    again = decode(encode(frame))
    assert again is not None
    assert np.array_equal(again, frame)


def test_no_picture_is_none_not_an_exception() -> None:
    assert decode(b"") is None
    assert decode(b"not a picture") is None


def test_pixel_hash_sees_pixels_and_shape() -> None:
    frame = np.zeros((4, 6, 3), np.uint8)
    other = frame.copy()
    other[3, 5, 2] = 1
    assert pixel_hash(frame) == pixel_hash(frame[::1].copy())
    assert len({pixel_hash(frame), pixel_hash(other), pixel_hash(frame.reshape(6, 4, 3))}) == 3


def test_torch_frames_come_to_the_cpu_unchanged() -> None:
    torch = pytest.importorskip("torch")
    frames = np.arange(24, dtype=np.uint8).reshape(1, 2, 4, 3)
    assert as_numpy(frames) is frames
    assert np.array_equal(as_numpy(torch.from_numpy(frames)), frames)


def test_errors_own_their_exit_code() -> None:
    assert SkidpadError.exit_code == 2
    assert "pip install 'skidpad[onnx]'" in str(MissingExtraError.of("onnxruntime", "onnx", "an ONNX subject"))


def test_importing_skidpad_imports_neither_torch_nor_opencv() -> None:
    code = "import sys, skidpad; print(sorted({'torch', 'cv2', 'numba', 'scipy', 'pyarrow', 'numpy'} & set(sys.modules)))"
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert answer.stdout.strip() == "[]"


@given(st.integers(1, 9), st.integers(0, 12), st.integers(0, 12), st.integers(0, 99))
def test_pooled_sums_are_those_of_slices(size: int, more_rows: int, more_columns: int, seed: int) -> None:
    maps = torch.from_numpy(np.random.default_rng(seed).random((2, 3, size + more_rows, size + more_columns), np.float32))
    torch.testing.assert_close(images._pooled_sum(maps, size), images._box_sum(maps, size), rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(images._pooled_sum(maps[0], size), images._box_sum(maps[0], size), rtol=1e-5, atol=1e-5)
