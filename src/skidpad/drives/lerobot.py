"""Episodes of LeRobot data sets: rows in Parquet, pictures in videos, what the numbers are called in meta/info.json.

Reference: LeRobot's data set formats 2.0, 2.1 (a file for each episode) and 3.0 (files of many, and a table that says where each lies).
Read with pyarrow and av: the package `lerobot` itself (0.4) pins torch and av and brings diffusers, torchvision, wandb and pyserial along.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from skidpad.core.errors import BadDriveError, UnknownNameError
from skidpad.core.files import open_regular
from skidpad.core.images import FloatArray, IntArray
from skidpad.core.units import AngleUnit
from skidpad.drives.drive import Drive, LabelConvention, SideBySide
from skidpad.drives.frames import Names
from skidpad.drives.indexing import matched_labels, nearest
from skidpad.drives.readers import READERS, Option, Options, Reader
from skidpad.drives.video import VideoFrames, VideoIndex, frame_id, index_video

_INFO = Path("meta") / "info.json"
_MAX_INFO_BYTES = 1 << 24
_EPISODES_IN_A_CHUNK = 1000
_MAX_NUMBERS = 1000


@dataclass(frozen=True, slots=True)
class _Place:
    """Where an episode lies: its table, its video, and when in the video it begins."""

    table: Path
    video: Path
    begins_s: float = 0.0


@READERS.register("lerobot")
class LeRobot(Reader):
    """Reads one episode; a row of its table labels the frame that is nearest in time.

    LeRobot does not say what an angle means: its unit must be said, and where it is not of the steering wheel, or positive to the right,
    `axle` and `sign`.
    """

    looks_for = f"a LeRobot data set: {_INFO.as_posix()}, data and videos"
    options = (
        Option("episode", "number of the episode", "0"),
        Option("camera", "name of the video, as observation.images.front; several with commas stand side by side; not given: the only one"),
        Option("steering", "the number, as action.steering or action.0; not given: the only one whose name speaks of steering"),
        Option("unit", "unit of that number: rad, deg or scaled25; must be said"),
    )

    def recognises(self, path: Path) -> bool:
        """Looks for the file that describes the data set."""
        return (path / _INFO).is_file()

    def open(self, path: Path, options: Options) -> Drive:
        """Indexes the packets of the episode's video and reads its rows."""
        info = _info(path / _INFO)
        features = info.get("features")
        features = features if isinstance(features, dict) else {}
        cameras = [_camera(features, wanted) for wanted in options.text("camera").split(",")]
        if len(set(cameras)) != len(cameras):
            raise BadDriveError(f"each camera is named once; got camera={options.text('camera')}")
        column, number = _steering(features, options.text("steering"))
        if not options.text("unit"):
            raise BadDriveError(f"say the unit of number {number} of {column!r}: unit=rad, unit=deg or unit=scaled25")
        unit = options.choice("unit", AngleUnit)
        episode = options.whole("episode")
        places = [_place(path, str(info.get("codebase_version", "")), episode, camera) for camera in cameras]
        rows_s, angles = _rows(places[0].table, episode, column, number)
        part, own = _own_frames(places[0], rows_s, episode)
        half_step_s, rows_s = _half_step_s(part.time_s), rows_s + places[0].begins_s
        ids, problems = Names.of(frame_id(each) for each in own.tolist()), list(part.problems)
        matched = nearest(_nanoseconds(part.time_s), _nanoseconds(rows_s), int(half_step_s * 1e9))
        steering_rad = matched_labels(matched, angles * unit.rad, ids, problems, "no row near in time", "its angle is not a number")
        source = VideoFrames(places[0].video, part)
        beside = [_at_the_same_times(place, part.time_s - places[0].begins_s, rows_s - places[0].begins_s, episode) for place in places[1:]]
        return Drive(
            name=f"{path.name}-{episode}",
            frame_ids=ids,
            steering_rad=steering_rad,
            time_s=part.time_s - part.time_s[0],
            source=SideBySide(ids, (source, *beside)) if beside else source,
            problems=tuple(problems),
            labels_as=LabelConvention(unit),
            cameras=tuple(cameras) if beside else (),
        )


def _half_step_s(times_s: FloatArray) -> float:
    return 0.5 * float(np.median(np.diff(times_s))) if len(times_s) > 1 else 0.05


def _own_frames(place: _Place, rows_s: FloatArray, episode: int) -> tuple[VideoIndex, IntArray]:
    """Returns the frames of an episode's video that belong to it, and their numbers. rows_s: times of its rows since it began."""
    index = index_video(place.video)
    half_step_s, begins_s, ends_s = _half_step_s(index.time_s), rows_s[0] + place.begins_s, rows_s[-1] + place.begins_s
    own = np.flatnonzero((index.time_s >= begins_s - half_step_s) & (index.time_s <= ends_s + half_step_s))
    if len(own) == 0:
        raise BadDriveError(f"{str(place.video)!r} ends before episode {episode} begins, at {begins_s:g} s; fetch the data set again")
    return _chosen(index, own), own


def _chosen(index: VideoIndex, frames: IntArray) -> VideoIndex:
    return replace(index, **{name: getattr(index, name)[frames] for name in ("stamps", "sizes", "checksums", "time_s")})


def _at_the_same_times(place: _Place, times_s: FloatArray, rows_s: FloatArray, episode: int) -> VideoFrames:
    """Returns another camera's frames, one for each time since the episode began."""
    part, _ = _own_frames(place, rows_s, episode)
    matched = nearest(_nanoseconds(times_s), _nanoseconds(part.time_s - place.begins_s), int(_half_step_s(times_s) * 1e9))
    if (matched < 0).any() or (np.diff(matched) <= 0).any():
        raise BadDriveError(
            f"{str(place.video)!r} has other frames in episode {episode} than the first camera; open the cameras one by one"
        )
    return VideoFrames(place.video, _chosen(part, matched))


def _nanoseconds(times_s: FloatArray) -> IntArray:
    return np.rint(times_s * 1e9).astype(np.int64)


def _info(file: Path) -> Mapping[str, Any]:
    with open_regular(file) as data:
        try:
            found = json.loads(data.read(_MAX_INFO_BYTES))
        except (ValueError, RecursionError) as error:
            raise BadDriveError(f"{str(file)!r} is no JSON ({error}); fetch the data set again") from error
    return found if isinstance(found, dict) else {}


def _camera(features: Mapping[str, Any], wanted: str) -> str:
    videos = [name for name, feature in features.items() if isinstance(feature, dict) and feature.get("dtype") == "video"]
    videos = [name for name in videos if Path(name).name == name]  # it becomes the name of a folder
    if wanted:
        if wanted not in videos:
            raise UnknownNameError.among("camera of the data set", wanted, videos)
        return wanted
    if len(videos) != 1:
        named = ", ".join(videos) or "none; pictures outside of videos are not read"
        raise BadDriveError(f"the data set has {len(videos)} videos ({named}); say which, as ?camera={(videos or ['NAME'])[0]}")
    return videos[0]


def _steering(features: Mapping[str, Any], wanted: str) -> tuple[str, int]:
    """Returns the column and which of its numbers is the steering."""
    known = dict(_numbers(features))
    if wanted:
        if wanted not in known:
            raise UnknownNameError.among("number of the data set", wanted, list(known))
        return known[wanted]
    found = [name for name in known if "steer" in name.lower()]
    if len({known[name] for name in found}) != 1:
        named = ", ".join(found or known)
        raise BadDriveError(
            f"{len(found) or 'no'} numbers of the data set speak of steering; say which, as ?steering={(found or ['action.0'])[0]}: {named}"
        )
    return known[found[0]]


def _numbers(features: Mapping[str, Any]) -> Iterator[tuple[str, tuple[str, int]]]:
    """Yields every number of every column, by its name and by its place, as action.steering and action.0."""
    for column, feature in features.items():
        shape = feature.get("shape") if isinstance(feature, dict) else None
        if not isinstance(shape, list) or len(shape) != 1 or not isinstance(shape[0], int) or "float" not in str(feature.get("dtype")):
            continue
        names = feature.get("names")
        if isinstance(names, dict):  # {"motors": [...]}
            names = next(iter(names.values()), None)
        for place in range(min(shape[0], _MAX_NUMBERS)):
            yield f"{column}.{place}", (column, place)
            if isinstance(names, list) and place < len(names):
                yield f"{column}.{names[place]}", (column, place)


def _place(root: Path, version: str, episode: int, camera: str) -> _Place:
    if episode < 0:
        raise BadDriveError(f"episodes are numbered from 0; got episode={episode}")
    if version.startswith("v2"):
        chunk, name = f"chunk-{episode // _EPISODES_IN_A_CHUNK:03d}", f"episode_{episode:06d}"
        place = _Place(root / "data" / chunk / f"{name}.parquet", root / "videos" / chunk / camera / f"{name}.mp4")
    elif version.startswith("v3"):
        place = _listed_place(root, episode, camera)
    else:
        raise BadDriveError(f"{str(root)!r} is a LeRobot data set of version {version or 'unknown'!r}; versions 2 and 3 are read")
    for file in (place.table, place.video):
        if not file.is_file():
            raise BadDriveError(f"episode {episode} of {str(root)!r} has no file {file.relative_to(root)}; fetch the whole data set")
    return place


def _listed_place(root: Path, episode: int, camera: str) -> _Place:
    """Looks up an episode in the tables of meta/episodes."""
    columns = ["episode_index", "data/chunk_index", "data/file_index"]
    columns += [f"videos/{camera}/{name}" for name in ("chunk_index", "file_index", "from_timestamp")]
    for file in sorted((root / "meta" / "episodes").glob("*/*.parquet")):
        for row in _table(file, columns).filter(pc.field("episode_index") == episode).to_pylist():
            _, chunk, number, video_chunk, video, begins_s = (row[name] for name in columns)
            return _Place(
                root / "data" / f"chunk-{chunk:03d}" / f"file-{number:03d}.parquet",
                root / "videos" / camera / f"chunk-{video_chunk:03d}" / f"file-{video:03d}.mp4",
                float(begins_s),
            )
    raise BadDriveError(f"{str(root)!r} lists no episode {episode}")


def _rows(file: Path, episode: int, column: str, number: int) -> tuple[FloatArray, FloatArray]:
    """Returns times since the episode began, and angles, in order of time."""
    table = _table(file, ["episode_index", "timestamp", column])
    table = table.filter(pc.field("episode_index") == episode).sort_by("timestamp")
    if len(table) == 0:
        raise BadDriveError(f"{str(file)!r} has no row of episode {episode}")
    values = [float("nan") if row is None else row[number] if isinstance(row, list) else row for row in table[column].to_pylist()]
    return np.asarray(table["timestamp"].to_numpy(), np.float64), np.array(values, np.float64)


def _table(file: Path, columns: list[str]) -> pa.Table:
    open_regular(file).close()
    try:
        return pq.read_table(file, columns=columns, partitioning=None)
    except (pa.ArrowException, OSError, ValueError) as error:
        raise BadDriveError(f"{str(file)!r} is no whole Parquet file with the columns {', '.join(columns)} ({error})") from error
