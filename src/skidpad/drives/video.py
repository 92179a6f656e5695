"""Videos, with or without a csv of labels."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from skidpad.core.angles import AngleUnit
from skidpad.core.errors import BadDriveError
from skidpad.core.images import FloatArray, IntArray
from skidpad.drives.drive import Drive, LabelConvention, Problem, ProblemKind
from skidpad.drives.names import Names
from skidpad.drives.pictures import is_picture
from skidpad.drives.readers import READERS, Option, Options
from skidpad.drives.recorded import nearest
from skidpad.drives.rosbag import first_bytes
from skidpad.drives.tables import Table, TimeUnit, parse_angle, parse_number, read_table
from skidpad.drives.video_frames import VideoFrames, VideoIndex, frame_id, index_video

SUFFIXES = frozenset({".mp4", ".m4v", ".mov", ".mkv", ".webm", ".avi", ".ts", ".mpg", ".mpeg"})
_MAX_KEY = 1e21  # nanoseconds of thirty thousand years: what lies beyond is no clock and no counter
_TS_SYNC = b"\x47"


@READERS.register("video")
@dataclass(frozen=True, slots=True)
class Video:
    """Reads a video file, or the only one in a folder; a csv, if named, labels its frames by time or by number."""

    looks_for: str = f"a video ({', '.join(sorted(SUFFIXES))}), or a folder with one and no pictures"
    needs_path: bool = True
    takes_files: bool = True
    options: tuple[Option, ...] = (
        Option("csv", "file of labels, beside the video; not given: no labels"),
        Option("steering", "column of the steering angle", "steering_angle"),
        Option("unit", "unit of that column: rad, deg or scaled25; needed with csv"),
        Option("time", "column of the time; the nearest row labels a frame"),
        Option("time_unit", "unit of that column: s, ms, us or ns", TimeUnit.SECONDS.value),
        Option("offset", "what the csv's clock says at the first frame, in seconds", "0"),
        Option("tolerance", "seconds by which a row may be off its frame", "0.1"),
        Option("frame", "column of the frame's number; instead of time"),
        Option("frame_base", "number of the first frame: 0 or 1", "0"),
    )

    def recognises(self, path: Path) -> bool:
        """Looks at the suffix of a file; in a folder for a video and nothing that another reader looks for."""
        if not path.is_dir():
            # TorchScript files are called *.ts too; a transport stream begins with its sync byte.
            return path.suffix.lower() in SUFFIXES and (path.suffix.lower() != ".ts" or first_bytes(path)[:1] == _TS_SYNC)
        names = [entry.name for entry in path.iterdir() if not entry.name.startswith(".")]
        others = {"driving_log.csv", "center", "metadata.yaml"} & set(names)
        return not others and bool(_videos(path)) and not any(is_picture(name) for name in names)

    def open(self, path: Path, options: Options) -> Drive:
        """Indexes the packets of the video and the rows of the csv."""
        file = _only_video(path) if path.is_dir() else path
        index = index_video(file)
        problems = list(index.problems)
        steering_rad, labels_as = np.full(len(index.stamps), np.nan), LabelConvention()
        if options.text("csv"):
            labels_as = LabelConvention(_unit(options))
            steering_rad = _labels(read_table(file.parent / options.text("csv")), index, options, problems)
        else:
            for name, _ in options.given:
                raise BadDriveError(f"option {name!r} describes a csv, but none is named; add csv=FILE")
            how = "?csv={}&steering=COLUMN&unit=deg&time=COLUMN"
            beside = [file.with_suffix(".csv")] if path.is_file() else sorted(path.glob("*.csv"))
            problems += [
                Problem(ProblemKind.IGNORED_FILE, csv.name, f"no csv was named; to use it: {how.format(csv.name)}")
                for csv in beside
                if csv.is_file()
            ]
        return Drive(
            name=file.stem,
            frame_ids=Names.of(frame_id(place) for place in range(len(index.stamps))),
            steering_rad=steering_rad,
            time_s=index.time_s,
            source=VideoFrames(file, index),
            problems=tuple(problems),
            labels_as=labels_as,
        )


def _videos(folder: Path) -> list[Path]:
    return sorted(entry for entry in folder.iterdir() if entry.suffix.lower() in SUFFIXES and not entry.name.startswith("."))


def _only_video(folder: Path) -> Path:
    videos = _videos(folder)
    if len(videos) == 1:
        return videos[0]
    if not videos:
        raise BadDriveError(f"no video in {str(folder)!r}; known suffixes: {', '.join(sorted(SUFFIXES))}")
    names = ", ".join(video.name for video in videos)
    raise BadDriveError(f"{str(folder)!r} has several videos: {names}; name one, as {folder / videos[0].name}")


def _unit(options: Options) -> AngleUnit:
    if not options.text("unit"):
        raise BadDriveError(f"say the unit of the column {options.text('steering')!r}: unit=rad, unit=deg or unit=scaled25")
    return options.choice("unit", AngleUnit)


def _labels(table: Table, index: VideoIndex, options: Options, problems: list[Problem]) -> FloatArray:
    unit, steering = _unit(options), table.column(options.text("steering"))
    if bool(options.text("time")) == bool(options.text("frame")):
        raise BadDriveError(
            "say how the rows belong to the frames: time=COLUMN (seconds) or frame=COLUMN (numbers from 0), one of them; "
            f"columns: {', '.join(table.columns)}"
        )
    by_time = bool(options.text("time"))
    place_of = table.column(options.text("time") or options.text("frame"))
    keys: list[float] = []
    angles: list[float] = []
    for row in table.rows:
        key = parse_number(row.cell(place_of))
        if not abs(key) < _MAX_KEY or not (by_time or key.is_integer()):
            problems.append(Problem(ProblemKind.BAD_ROW, f"line {row.line} of {table.path.name}", f"it has {row.cell(place_of)!r}"))
            continue
        keys.append(key)
        angles.append(parse_angle(row.cell(steering), unit))
    order = np.argsort(keys, kind="stable")
    sorted_keys, sorted_angles = np.array(keys, np.float64)[order], np.array(angles, np.float64)[order]
    if by_time:
        matched = _by_time(sorted_keys, index.time_s, options)
        lacking = f"no row within {options.real('tolerance'):g} s"
    else:
        matched = nearest(np.arange(len(index.stamps)), sorted_keys - _frame_base(sorted_keys, options), 0)
        lacking = "no row with this number"
    steering_rad = np.full(len(matched), np.nan)
    steering_rad[matched >= 0] = sorted_angles[matched[matched >= 0]]
    problems += [Problem(ProblemKind.UNMATCHED, frame_id(place), lacking) for place in np.flatnonzero(matched < 0).tolist()]
    empty = np.flatnonzero((matched >= 0) & np.isnan(steering_rad)).tolist()
    problems += [Problem(ProblemKind.NAN_LABEL, frame_id(place), "the angle in its row is not a number") for place in empty]
    return steering_rad


def _by_time(rows: FloatArray, frames_s: FloatArray, options: Options) -> IntArray:
    """Matches rows to frames by time; refuses a clock that fits the video in another unit, or not at all.

    In the wrong unit all frames lie near one row, which would label them all.
    """
    tolerance_ns, offset_s = options.seconds("tolerance") * 1e9, options.real("offset")
    frames_ns = np.round(frames_s * 1e9)

    def match(unit: TimeUnit, start_s: float) -> IntArray:
        return nearest(frames_ns, np.round((rows / unit.per_s - start_s) * 1e9), round(tolerance_ns))

    def used(matched: IntArray) -> int:
        return len(np.unique(matched[matched >= 0]))

    unit = options.choice("time_unit", TimeUnit)
    matched = match(unit, offset_s)
    if not len(rows):
        return matched
    clock = f"column {options.text('time')!r} runs from {rows[0]:.10g} to {rows[-1]:.10g}, the video from 0 to {frames_s[-1]:.3f} s"
    guesses = [(each, start_s) for each in (unit, *TimeUnit) for start_s in (offset_s, float(rows[0] / each.per_s))]
    best, start_s = max(guesses, key=lambda guess: used(match(*guess)))
    if best is not unit and used(match(best, start_s)) > 2 * used(matched):
        offset = f"&offset={start_s:.10g}" if start_s != offset_s else ""
        raise BadDriveError(f"{clock}, and fits it in another unit than {unit.value}: write time_unit={best.value}{offset}")
    if not used(matched):
        at = f"offset={rows[0] / unit.per_s:.10g}"
        raise BadDriveError(f"{clock}, so no row belongs to a frame; say what the clock reads at the first one, as {at}")
    return matched


def _frame_base(numbers: FloatArray, options: Options) -> int:
    """Returns the number of the first frame; one that nobody said must be beyond doubt, or every label would be one frame off."""
    base = options.text("frame_base")
    if base not in {"0", "1"}:
        raise BadDriveError(f"option 'frame_base' is 0 or 1, the number of the first frame; got {base!r}")
    if "frame_base" not in dict(options.given) and len(numbers) and numbers[0] == 1:
        raise BadDriveError(
            f"the numbers in column {options.text('frame')!r} begin at 1: write frame_base=1 if 1 is the first frame, "
            "or frame_base=0 if the first frame is 0 and has no row"
        )
    return int(base)
