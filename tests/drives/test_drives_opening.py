"""Bad input: counted and listed, or one clear error; never a stack trace."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from drive_files import ANGLES, STAMPS, picture, write_folder, write_pictures, write_udacity

from skidpad.core.errors import BadDriveError, SkidpadError
from skidpad.core.images import encode
from skidpad.drives import READERS, Drive, ProblemKind, open_drive

LABELS = "CH2_final_evaluation.csv"


def kinds(drive: Drive) -> list[tuple[ProblemKind, str]]:
    return [(problem.kind, problem.frame_id) for problem in drive.problems]


def relabel(folder: Path, *rows: str, header: str = "frame_id,steering_angle") -> Drive:
    (folder / LABELS).write_text("\n".join([header, *rows]) + "\n")
    return open_drive(str(folder))


def test_corrupt_truncated_empty_and_vanished_frames_are_listed(udacity: Path) -> None:
    drive = open_drive(str(udacity))
    files = sorted((udacity / "center").iterdir())
    files[1].write_bytes(files[1].read_bytes()[:-30])
    files[2].write_bytes(b"")
    files[3].write_bytes(b"garbage")
    files[4].unlink()
    files[5].unlink()
    files[5].mkdir()
    (batch,) = drive.batches(16)
    assert batch.frame_ids == (STAMPS[0], STAMPS[6])
    assert [(problem.kind, problem.frame_id) for problem in batch.problems] == [
        (ProblemKind.CORRUPT, STAMPS[1]),
        (ProblemKind.CORRUPT, STAMPS[2]),
        (ProblemKind.CORRUPT, STAMPS[3]),
        (ProblemKind.MISSING_FILE, STAMPS[4]),
        (ProblemKind.CORRUPT, STAMPS[5]),
    ]


def test_mixed_sizes_are_listed(udacity: Path) -> None:
    (udacity / "center" / f"{STAMPS[2]}.png").write_bytes(encode(picture(2, 20, 30)))
    (batch,) = open_drive(str(udacity)).batches(16)
    assert [(problem.kind, problem.frame_id) for problem in batch.problems] == [(ProblemKind.OTHER_SIZE, STAMPS[2])]


def test_all_frames_broken_is_one_error_at_use(udacity: Path) -> None:
    for file in (udacity / "center").iterdir():
        file.write_bytes(b"")
    drive = open_drive(str(udacity))
    for use in (lambda: drive.read([0]), lambda: next(drive.batches(4)), lambda: drive.frame_shape):
        with pytest.raises(BadDriveError, match=f"no frame of drive 'ch2' can be read: the first problem is {STAMPS[0]}"):
            use()


@pytest.mark.parametrize("label", ["nan", "", "left a bit", "inf", "-inf", "0,5"])
def test_unusable_labels_are_listed_and_the_frame_is_kept(label: str, udacity: Path) -> None:
    drive = relabel(udacity, *(f'{stamp},"{label if place == 2 else 0.5}"' for place, stamp in enumerate(STAMPS)))
    assert kinds(drive) == [(ProblemKind.NAN_LABEL, STAMPS[2])]
    assert [place for place, value in enumerate(drive.steering_rad) if value != 0.5] == [2]


def test_rows_and_pictures_without_each_other_are_listed(udacity: Path) -> None:
    drive = relabel(udacity, "1479425440000000000,0.5", *(f"{stamp},0.5" for stamp in STAMPS[:5]), ",0.5", "   ")
    assert drive.frame_ids == STAMPS[:5]
    assert kinds(drive) == [
        (ProblemKind.MISSING_FILE, "1479425440000000000"),
        (ProblemKind.BAD_ROW, f"line 8 of {LABELS}"),
        (ProblemKind.UNLISTED, STAMPS[5]),
        (ProblemKind.UNLISTED, STAMPS[6]),
    ]


def test_the_first_of_duplicate_ids_is_kept(udacity: Path) -> None:
    drive = relabel(udacity, *(f"{stamp},{angle}" for stamp, angle in zip(STAMPS, ANGLES, strict=True)), f"{STAMPS[1]},9")
    assert drive.steering_rad.tolist() == list(ANGLES)
    assert kinds(drive) == [(ProblemKind.DUPLICATE_ID, STAMPS[1])]


def test_two_pictures_of_one_id_are_listed(udacity: Path) -> None:
    (udacity / "center" / f"{STAMPS[0]}.jpg").write_bytes(encode(picture(0), ".jpg"))
    drive = open_drive(str(udacity))
    assert len(drive) == 7
    assert kinds(drive) == [(ProblemKind.DUPLICATE_ID, STAMPS[0])]


def test_a_row_without_a_time_is_listed(folder: Path) -> None:
    (folder / "timed.csv").write_text("frame_id,steering_angle,t\nframe1,0.1,0\nframe2,0.2,soon\nframe3,0.3,\nframe9,0.4,1\n")
    drive = open_drive(f"{folder}?csv=timed.csv&unit=rad&time=t")
    assert drive.frame_ids == ("frame1", "frame9")
    assert kinds(drive)[:2] == [(ProblemKind.BAD_ROW, "frame2"), (ProblemKind.BAD_ROW, "frame3")]


def test_a_byte_order_mark_and_blanks_do_no_harm(udacity: Path) -> None:
    text = "\ufeff frame_id , steering_angle \r\n\r\n" + "".join(f" {stamp}.jpg , 0.5 \r\n" for stamp in STAMPS)
    (udacity / LABELS).write_bytes(text.encode())
    drive = open_drive(str(udacity))
    assert (drive.problems, drive.steering_rad.tolist()) == ((), [0.5] * 7)


def test_hidden_files_are_no_frames(folder: Path) -> None:
    (folder / "._frame1.png").write_bytes(b"resource fork")
    assert len(open_drive(str(folder))) == 7


Breakage = Callable[[Path], str]


def _write(name: str, data: bytes, text: str = "{}") -> Breakage:
    def write(folder: Path) -> str:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)
        return text.format(folder)

    return write


def _udacity(data: bytes, tail: str = "") -> Breakage:
    def write(folder: Path) -> str:
        (write_udacity(folder / "ch2") / LABELS).write_bytes(data)
        return f"{folder / 'ch2'}{tail}"

    return write


def _pictures(tail: str) -> Breakage:
    return lambda folder: f"{write_folder(folder / 'frames')}{tail}"


def _two_label_files(folder: Path) -> str:
    (write_udacity(folder / "ch2") / LABELS).rename(folder / "ch2" / "a.csv")
    (folder / "ch2" / "b.csv").write_text("frame_id,steering_angle\n")
    return str(folder / "ch2")


BAD = {
    "empty folder": (str, "is empty"),
    "no drive in it": (_write("notes.txt", b""), "no reader recognises .* udacity looks for"),
    "no pictures": (_write("center/notes.txt", b""), "no pictures in"),
    "not there": (_write("drive-1/x", b"", "{}/drive-2"), "did you mean '.*drive-1'"),
    "nowhere near": (lambda folder: str(folder / "zzz" / "qqq"), "no folder"),
    "a file": (_write("x.csv", b"", "{}/x.csv"), "is a file, and a drive is a folder"),
    "other columns": (_udacity(b"frame_idx,angle\n1,2\n"), "no column named 'frame_id'; did you mean 'frame_idx'"),
    "empty csv": (_udacity(b""), "is empty; it needs a header"),
    "no rows": (_udacity(b"frame_id,steering_angle\n"), "no usable rows"),
    "no row fits": (_udacity(b"frame_id,steering_angle\n7,0.1\n"), "a row says '7', a picture is called '1479"),
    "not utf-8": (_udacity(b"frame_id,steering_angle\n\xff\xfe,1\n"), "not UTF-8 text: byte 0xff"),
    "a huge cell": (_udacity(b'frame_id,steering_angle\n"' + b"x" * 200_000), "is not a csv"),
    "filler asked for": (_udacity(b"", "?csv=final_example.csv"), "random filler"),
    "answers as labels": (_udacity(b"", "?csv=predictions-team.csv"), "not labels"),
    "csv not there": (_udacity(b"", "?csv=labels.csv"), f"no file .*csv files there: {LABELS}"),
    "csv is a folder": (_udacity(b"", "?csv=center"), "cannot read"),
    "two label files": (_two_label_files, r"several files of labels: a\.csv, b\.csv; .*csv=a\.csv"),
    "empty log": (_write("driving_log.csv", b""), "is empty; drive a lap"),
    "short log": (_write("driving_log.csv", b"IMG/a.jpg,0.5\n"), "columns center, left, right, steering"),
    "log without the camera": (_write("driving_log.csv", b"center,steering\n", "{}?camera=left"), "no column named 'left'"),
    "unknown camera": (_write("driving_log.csv", b"center,steering\n", "{}?camera=top"), "one of center, left, right; got 'top'"),
    "no unit": (_pictures("?csv=angles.csv&id=frame&steering=angle"), "say the unit of the column 'angle'"),
    "unknown unit": (_pictures("?csv=angles.csv&id=frame&steering=angle&unit=grad"), "one of rad, deg, scaled25; got 'grad'"),
    "unknown option": (_pictures("?cvs=angles.csv"), "no option of reader 'folder' named 'cvs'; did you mean 'csv'"),
    "misspelt slice": (_pictures("?form=0.5"), "did you mean 'from'"),
    "option without csv": (_pictures("?unit=deg"), "'unit' describes a csv"),
    "rate of nothing": (_pictures("?rate=0"), "above 0"),
    "rate in words": (_pictures("?rate=fast"), "takes a number; got 'fast'"),
    "no equals sign": (_pictures("?csv"), "name=value"),
    "option twice": (_pictures("?rate=1&rate=2"), "given twice"),
    "half a frame": (_pictures("?start=0.5"), "takes a whole number; got '0.5'"),
    "backwards": (_pictures("?step=-1"), "at least 1"),
    "two kinds of slice": (_pictures("?from=0.5&stop=3"), "not by both"),
    "share above one": (_pictures("?to=60"), "within 0 and 1; got 60"),
    "share of nothing": (_pictures("?to=nan"), "within 0 and 1"),
    "empty slice": (_pictures("?start=5&stop=5"), "holds none of its 7 frames"),
    "unknown reader": (lambda folder: f"foldr:{folder}", "no reader named 'foldr'; did you mean 'folder'"),
    "wrong reader": (lambda folder: f"udacity:{write_folder(folder / 'x')}", "no folder 'center'"),
    "reader alone": (lambda _: "udacity:", "needs a path; write udacity:PATH"),
    "path too many": (lambda _: "rendered:frames=600,seed=3", r"takes no path but options, as rendered\?"),
    "nearly a reader": (lambda _: "renderd?frames=3", "did you mean 'rendered'"),
    "nothing": (lambda _: " ", "named by a path or a reader"),
    "only options": (lambda _: "?from=0.5", "named by a path or a reader"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_one_clear_error(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    prepare, says = BAD[name]
    with pytest.raises(SkidpadError, match=says) as caught:
        open_drive(prepare(tmp_path))
    assert caught.value.exit_code == 2


def test_slices_in_the_text(folder: Path) -> None:
    drive = open_drive(str(folder))
    assert open_drive(f"{folder}?from=0&to=0.6").frame_ids == drive.split(0.6)[0].frame_ids
    assert open_drive(f"{folder}?from=0.6").frame_ids == drive.split(0.6)[1].frame_ids
    assert open_drive(f"{folder}?start=1&stop=6&step=2").frame_ids == drive[1:6:2].frame_ids
    assert open_drive(f"{folder}?start=-2").frame_ids == drive[-2:].frame_ids


def test_odd_characters_in_options_survive_the_origin(folder: Path) -> None:
    (folder / "my a&b=c %+.csv").write_text("the id,steering angle\nframe1,0.5\n")
    text = f"folder:{folder}?csv=my a%26b=c %25+.csv&id=the id&steering=steering angle&unit=rad"
    drive = open_drive(text)
    assert drive.steering_rad.tolist() == [0.5]
    assert open_drive(drive.origin).sha256 == drive.sha256
    assert open_drive(drive.origin).origin == drive.origin


def test_a_relative_path_gets_an_absolute_origin(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder.parent)
    assert open_drive("frames").origin == f"folder:{folder}"


def test_a_folder_named_like_a_reader_is_reached_by_its_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_pictures(tmp_path / "rendered", ("a", "b"))
    assert open_drive("./rendered").frame_ids == ("a", "b")


def test_two_readers_that_recognise_a_folder_must_be_told_apart(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Again(READERS.get("folder")):  # type: ignore[misc]
        """A plug-in's reader of the same folders."""

    monkeypatch.setitem(READERS._rows, "folder-again", Again)
    with pytest.raises(BadDriveError, match="looks like a drive for folder and folder-again; say which, as folder:"):
        open_drive(str(folder))


def test_a_folder_that_cannot_be_listed_is_one_error(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("skidpad.drives.frames.os.scandir", refuse)
    with pytest.raises(BadDriveError, match="Permission denied"):
        open_drive(f"folder:{folder}")
