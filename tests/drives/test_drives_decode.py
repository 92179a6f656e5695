"""Whole pictures decode, cut ones never do, whatever the version of OpenCV thinks of them."""

import struct
import zlib

import cv2
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skidpad.core.images import decode, encode

SMOOTH = np.repeat(np.linspace(0, 255, 40).astype(np.uint8)[:, None, None], 50, axis=1).repeat(3, axis=2)
JPEG, PNG = encode(SMOOTH, ".jpg"), encode(SMOOTH, ".png")


def test_a_png_comes_back_pixel_by_pixel() -> None:
    frame = np.random.default_rng(0).integers(0, 256, (9, 7, 3), np.uint8)
    np.testing.assert_array_equal(decode(encode(frame)), frame)


def test_a_jpeg_comes_back_nearly() -> None:
    decoded = decode(JPEG)
    assert decoded is not None
    assert decoded.dtype == np.uint8
    assert np.abs(decoded.astype(int) - SMOOTH).max() < 12


@given(whole=st.sampled_from([JPEG, PNG]), share=st.floats(0.0, 1.0, exclude_max=True))
def test_a_truncated_picture_is_none_even_where_opencv_paints_it_grey(whole: bytes, share: float) -> None:
    cut = whole[: int(len(whole) * share)]
    with pytest.MonkeyPatch.context() as patch:
        # OpenCV 4 answers like this for a cut JPEG; too short a start is no picture to any version.
        patch.setattr(cv2, "imdecode", lambda *_: SMOOTH.copy() if len(cut) > 8 else None)
        assert decode(cut) is None


@pytest.mark.parametrize("whole", [JPEG, PNG], ids=["jpg", "png"])
@pytest.mark.parametrize("tail", [b"\0" * 100, b"trailing notes"], ids=["zeros", "text"])
def test_bytes_after_the_end_do_no_harm(whole: bytes, tail: bytes) -> None:
    np.testing.assert_array_equal(decode(whole + tail), decode(whole))


def test_a_file_whose_tail_was_never_written_is_none() -> None:
    assert decode(JPEG[:-200] + b"\0" * 200) is None


def test_the_end_of_a_thumbnail_is_not_the_end_of_the_picture(monkeypatch: pytest.MonkeyPatch) -> None:
    thumbnail = encode(SMOOTH[:8, :8], ".jpg")
    block = b"\xff\xe1" + struct.pack(">H", len(thumbnail) + 2) + thumbnail
    whole = JPEG[:2] + block + JPEG[2:]
    np.testing.assert_array_equal(decode(whole), decode(JPEG))
    monkeypatch.setattr(cv2, "imdecode", lambda *_: SMOOTH.copy())
    assert decode(whole) is not None
    assert decode(whole[:-20]) is None


@pytest.mark.parametrize("data", [b"", b"\xff\xd8", b"no picture at all", b"\xff\xd8\xff\xd9"])
def test_what_is_no_picture_is_none(data: bytes) -> None:
    assert decode(data) is None


def test_a_header_of_an_absurd_size_is_none() -> None:
    def chunk(kind: bytes, body: bytes) -> bytes:
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))

    header = chunk(b"IHDR", struct.pack(">IIBBBBB", 100_000, 100_000, 8, 2, 0, 0, 0))
    assert decode(PNG[:8] + header + chunk(b"IDAT", zlib.compress(b"\0" * 99)) + chunk(b"IEND", b"")) is None
