"""The reader of HDF5 against the real library, and against files that lead elsewhere or nowhere."""

from collections.abc import Iterator
from pathlib import Path

import h5py
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skidpad.core.errors import BadSubjectError
from skidpad.subjects.formats.keras.hdf5 import Hdf5File

REAL = Path(__file__).parents[1] / "keras_files"
CANNOT = (BadSubjectError, ValueError, IndexError, OverflowError, KeyError)


def written(fill) -> Hdf5File:
    from io import BytesIO

    buffer = BytesIO()
    with h5py.File(buffer, "w") as target:
        fill(target)
    return Hdf5File(buffer.getvalue())


def everything(group: h5py.Group) -> Iterator[tuple[str, h5py.Group | h5py.Dataset]]:
    found: list[tuple[str, h5py.Group | h5py.Dataset]] = [("", group)]
    group.visititems(lambda name, item: found.append((name, item)))
    yield from found


@pytest.mark.parametrize("name", ["residual_keras2.h5", "recurrent_keras2_weights.h5", "lambda_keras2.h5"])
def test_all_of_a_keras_file_reads_as_with_the_library(name: str) -> None:
    file = Hdf5File((REAL / name).read_bytes())
    arrays = 0
    with h5py.File(REAL / name) as library:
        for path, item in everything(library):
            node = file.root.child(path)
            assert node is not None
            for key, value in item.attrs.items():
                texts = np.vectorize(lambda text: text.decode() if isinstance(text, bytes) else text)(value) if np.size(value) else value
                expected = str(texts) if np.ndim(value) == 0 else tuple(texts.tolist())
                assert node.attributes()[key] == expected
            if isinstance(item, h5py.Dataset):
                arrays += 1
                np.testing.assert_array_equal(node.array(), item[()])
            else:
                assert set(node.children()) == set(item)
    assert arrays > 1


@given(
    shape=st.lists(st.integers(1, 9), min_size=1, max_size=4),
    kind=st.sampled_from(["<f4", "<f8", ">f4", "<f2", "<i8", "<i4", "u1"]),
    chunked=st.booleans(),
    gzip=st.booleans(),
    shuffle=st.booleans(),
    fletcher=st.booleans(),
)
def test_arrays_read_as_they_were_written(shape: list[int], kind: str, chunked: bool, gzip: bool, shuffle: bool, fletcher: bool) -> None:
    array = (np.random.default_rng(0).random(shape) * 100).astype(kind)
    options = {"chunks": tuple((size + 1) // 2 for size in shape)} if chunked else {}
    if chunked:
        options |= {"compression": "gzip"} if gzip else {}
        options |= {"shuffle": shuffle, "fletcher32": fletcher}
    file = written(lambda target: target.create_dataset("a/b", data=array, **options))
    node = file.root.child("a/b")
    found = node.array()
    assert found.dtype == array.dtype
    np.testing.assert_array_equal(found, array)


def test_groups_of_many_members_are_whole() -> None:
    def fill(target: h5py.File) -> None:
        for number in range(500):
            target[f"many/{number}"] = np.float32(number)

    file = written(fill)
    many = file.root.child("many")
    assert len(many.children()) == 500
    assert many.child("321").array() == 321
    assert many.child("500") is None
    assert file.root.child("many/3/deeper") is None


def test_links_to_elsewhere_are_not_followed(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "secret.h5", "w") as target:
        target["a"] = np.ones(3)
    (tmp_path / "raw").write_bytes(b"\1" * 64)

    def fill(target: h5py.File) -> None:
        target["soft"] = h5py.SoftLink("/here")
        target["outside"] = h5py.ExternalLink(str(tmp_path / "secret.h5"), "/a")
        target["here"] = np.ones(2)
        target.create_dataset("stolen", shape=(8,), dtype="f8", external=[(str(tmp_path / "raw"), 0, 64)])

    with h5py.File(tmp_path / "links.h5", "w") as target:
        fill(target)
        assert target["stolen"].shape == (8,)
        assert target["outside"].shape == (3,)
    with pytest.raises(BadSubjectError, match="write it again"):  # an external link makes a group of the newer layout
        Hdf5File((tmp_path / "links.h5").read_bytes()).root.child("here")
    with h5py.File(tmp_path / "less.h5", "w") as target:
        target["soft"] = h5py.SoftLink("/here")
        target["here"] = np.ones(2)
        target.create_dataset("stolen", shape=(8,), dtype="f8", external=[(str(tmp_path / "raw"), 0, 64)])
    root = Hdf5File((tmp_path / "less.h5").read_bytes()).root
    assert set(root.children()) == {"here", "stolen"}
    with pytest.raises(BadSubjectError, match="another file"):
        root.child("stolen").array()


def test_arrays_that_are_no_numbers_are_refused() -> None:
    def fill(target: h5py.File) -> None:
        target["text"] = np.array([b"abc", b"de"])
        target.create_dataset("objects", data=["a", "b"], dtype=h5py.string_dtype())
        target["pairs"] = np.zeros(2, [("a", "f4"), ("b", "i4")])
        target["complex"] = np.zeros(2, complex)

    root = written(fill).root
    for name in ("text", "objects", "pairs", "complex"):
        with pytest.raises(BadSubjectError, match="no number"):
            root.child(name).array()


def test_arrays_that_are_not_there_cost_nothing() -> None:
    def fill(target: h5py.File) -> None:
        target.create_dataset("huge", shape=(1 << 40,), dtype="f4")
        target.create_dataset("late", shape=(1 << 20,), dtype="f4")
        target.create_dataset("sparse", shape=(1 << 20,), dtype="f4", chunks=(1 << 10,))

    root = written(fill).root
    with pytest.raises(BadSubjectError, match="at most"):
        root.child("huge").array()
    for name in ("late", "sparse"):
        with pytest.raises(BadSubjectError):
            root.child(name).array()


def test_a_newer_layout_is_refused_with_the_way_out(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "new.h5", "w", libver="latest") as target:
        target["a"] = np.ones(2)
    with pytest.raises(BadSubjectError, match="write it again"):
        Hdf5File((tmp_path / "new.h5").read_bytes())


@pytest.mark.parametrize("share", [0.0, 0.001, 0.01, 0.1, 0.3, 0.6, 0.9, 0.999])
def test_a_truncated_file_ends_in_an_error(share: float) -> None:
    raw = (REAL / "residual_keras2.h5").read_bytes()

    def read_all() -> None:
        file = Hdf5File(raw[: int(len(raw) * share)])
        waiting = [file.root]
        while waiting:
            node = waiting.pop()
            node.attributes()
            waiting += [node.child(name) for name in node.children()]
            if node.stored() is not None:
                node.array()

    with pytest.raises(CANNOT):
        read_all()


def test_structures_that_point_at_one_another_end() -> None:
    raw = bytearray((REAL / "residual_keras2.h5").read_bytes())
    trees = [place for place in range(len(raw)) if raw[place : place + 4] == b"TREE"]
    for place in trees:  # every tree becomes its own first child
        raw[place + 32 : place + 40] = place.to_bytes(8, "little")
    with pytest.raises(BadSubjectError, match="without end"):
        Hdf5File(bytes(raw)).root.child("model_weights")
