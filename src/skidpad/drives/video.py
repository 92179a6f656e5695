"""Drives out of videos: frames found by an index made once, decoded forward from the nearest keyframe, once each when read in order."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any
from zlib import crc32

import numpy as np

from skidpad.core.errors import BadDriveError, optional
from skidpad.core.files import open_regular
from skidpad.core.images import MAX_PICTURE_PIXELS, FloatArray, IntArray, NumpyFrames
from skidpad.drives.drive import Drive, LabelConvention, Problem, ProblemKind
from skidpad.drives.frames import Names, gone, is_picture
from skidpad.drives.indexing import RecordingIndex, cached, table_labels
from skidpad.drives.readers import READERS, Option, Options, Reader
from skidpad.drives.rosbag import first_bytes
from skidpad.drives.tables import TimeUnit, read_table

if TYPE_CHECKING:
    from av.container import InputContainer
    from av.video.frame import VideoFrame


FRAMES_KEPT = 80
"""Eight threads read eight neighbouring frames each, and all must find theirs without decoding anything twice."""

FRAMES_AHEAD = 64
"""A frame at most this far ahead is reached by decoding, not by seeking."""

_END = np.iinfo(np.int64).max


@dataclass(frozen=True, eq=False, slots=True)
class VideoIndex:
    """The frames of a video in the order of showing.

    stamps: (N,) presentation times in the stream's unit, distinct and rising. keys: stamps of the keyframes. sizes, checksums:
    (N,) of the packets. identity: size and date of the file when it was indexed.
    """

    stamps: IntArray
    keys: IntArray
    sizes: IntArray
    checksums: IntArray
    time_s: FloatArray
    identity: tuple[int, int]
    problems: tuple[Problem, ...]


def frame_id(index: int) -> str:
    """Returns the name of a frame of a video, which is its number."""
    return f"{index:06d}"


def index_video(path: Path) -> VideoIndex:
    """Goes through the packets of a video without decoding one; what can be read before a break is kept."""
    index = cached((path,), "video", lambda: _packets(path))
    table = index.arrays["packets"]
    unit_s = float(index.arrays["unit_s"])
    return VideoIndex(
        stamps=table[:, 0].astype(np.int64),
        keys=table[table[:, 3] == 1, 0].astype(np.int64),
        sizes=table[:, 1].astype(np.int64),
        checksums=table[:, 2].astype(np.int64),
        time_s=(table[:, 0] - table[0, 0]) * unit_s,
        identity=_identity(path),
        problems=index.problems,
    )


def _packets(path: Path) -> RecordingIndex:
    """Returns the rows (stamp, size, checksum, is a keyframe) in the order of showing."""
    problems: list[Problem] = []
    rows: list[tuple[int, int, int, bool]] = []
    with closing(_opened(path)) as container:
        stream = container.streams.video[0]
        announced, unit_s = stream.frames, float(stream.time_base or 1)
        try:
            for packet in container.demux(stream):
                stamp = packet.dts if packet.pts is None else packet.pts
                if packet.size and stamp is not None and not packet.is_discard:
                    rows.append((int(stamp), packet.size, crc32(bytes(packet)), packet.is_keyframe))
        except _library_errors() as error:
            problems.append(Problem(ProblemKind.BREAK, f"after frame {len(rows)}", f"{path.name}: {error}"))
    if not rows:
        raise BadDriveError(f"no pictures in the video {str(path)!r}; it may have been cut off at its start")
    if not problems and len(rows) < announced:
        problems.append(Problem(ProblemKind.BREAK, f"after frame {len(rows)}", f"{path.name} announces {announced} frames and is cut off"))
    table = np.array(rows, np.int64)
    table = table[np.argsort(table[:, 0], kind="stable")]
    first = np.concatenate([[True], np.diff(table[:, 0]) > 0])
    problems += [
        Problem(ProblemKind.DUPLICATE_ID, f"at {stamp * unit_s:.3f} s", "another frame of this time; the first is kept")
        for stamp in table[~first, 0].tolist()
    ]
    return RecordingIndex({"packets": table[first], "unit_s": np.array(unit_s)}, tuple(problems))


@dataclass(eq=False, slots=True)
class _Decoder:
    """A video opened at some place.

    good_from: frames before this stamp came out of the middle of something. shown: the stamp of the last frame that came out.
    bad_before: frames up to this stamp hang on one that could not be decoded.
    """

    container: InputContainer
    packets: Iterator[Any]
    good_from: int
    shown: int = -_END
    bad_before: int = -_END
    pending: list[VideoFrame] = field(default_factory=list)


@dataclass(eq=False)
class VideoFrames:
    """Decodes the frames of one file. decoded: how many frames have come out of the decoder so far.

    A packet that cannot be decoded spoils its frame and, as they build on it, all others up to the next keyframe.
    """

    path: Path
    index: VideoIndex
    decoded: int = 0
    _decoder: _Decoder | None = None
    _kept: OrderedDict[int, VideoFrame | None] = field(default_factory=OrderedDict)
    _lock: Lock = field(default_factory=Lock)

    def read(self, index: int) -> NumpyFrames | Problem:
        """Decodes up to one frame; those on the way are kept for the threads that will ask for them."""
        stamp = int(self.index.stamps[index])
        try:
            with self._lock:
                if stamp not in self._kept:
                    self._decode_to(stamp)
                frame = self._kept.get(stamp)
        except FileNotFoundError:
            raise gone(self.path) from None
        except _library_errors() as error:
            return Problem(ProblemKind.CORRUPT, frame_id(index), f"{self.path.name}: {error}")
        if frame is None:
            return Problem(ProblemKind.CORRUPT, frame_id(index), "it cannot be decoded, or builds on a frame that cannot")
        return np.asarray(frame.to_ndarray(format="rgb24"), np.uint8)

    def fingerprint(self, index: int) -> str:
        """Returns size and checksum of the frame's packet."""
        return f"{self.index.sizes[index]}-{self.index.checksums[index]:08x}"

    def __reduce__(self) -> tuple[type[VideoFrames], tuple[Path, VideoIndex]]:
        return VideoFrames, (self.path, self.index)

    def _decode_to(self, stamp: int) -> None:
        """Decodes forward until the frame has come out, or one after it has."""
        place = int(np.searchsorted(self.index.keys, stamp, side="right")) - 1
        decoder = self._decoder
        if decoder is None or decoder.shown >= stamp or (place >= 0 and self._is_far(decoder.shown, int(self.index.keys[place]))):
            decoder = self._decoder = self._sought(place)
        while decoder.shown < stamp:
            frame = self._next(decoder)
            if frame is None:
                decoder.shown = _END
                break
            found = frame.dts if frame.pts is None else frame.pts
            if found is None:
                continue
            decoder.shown = max(decoder.shown, found)
            self.decoded += 1
            if found >= decoder.good_from:
                self._keep(found, None if found < decoder.bad_before or frame.is_corrupt else frame)
        if stamp not in self._kept:
            self._keep(stamp, None)

    def _is_far(self, shown: int, key: int) -> bool:
        """Tells whether seeking to a keyframe pays; threads that read ahead of one another must not seek to and fro."""
        return int(np.searchsorted(self.index.stamps, key) - np.searchsorted(self.index.stamps, shown)) > FRAMES_AHEAD

    def _sought(self, place: int) -> _Decoder:
        """Opens the video at a keyframe, by its number, or at its start (-1).

        Some formats seek by guess and land too late: then an earlier keyframe is tried, and at last the start.
        """
        if self._decoder is not None:
            self._decoder.container.close()
            self._decoder = None
        if _identity(self.path) != self.index.identity:
            raise BadDriveError("the video changed after it was opened")
        for earlier in (0, 1, 4):
            if place - earlier < 0:
                break
            container = self._container()
            stream = container.streams.video[0]
            container.seek(int(self.index.keys[place - earlier]), stream=stream, backward=True)
            packets = container.demux(stream)
            first = next((packet for packet in packets if packet.is_keyframe and packet.size), None)
            key = int(self.index.keys[place])
            if first is not None and (first.dts if first.pts is None else first.pts) in self.index.keys[: place + 1]:
                return _Decoder(container, chain([first], packets), good_from=key)
            container.close()
        container = self._container()
        return _Decoder(container, container.demux(container.streams.video[0]), good_from=-_END)

    def _container(self) -> InputContainer:
        container = _opened(self.path)
        container.streams.video[0].codec_context.options = {"err_detect": "explode"}
        return container

    def _next(self, decoder: _Decoder) -> VideoFrame | None:
        """Returns the next frame that comes out of the decoder; None at the end."""
        while not decoder.pending:
            packet = next(decoder.packets, None)
            if packet is None:
                return None
            try:
                decoder.pending = list(packet.decode())
            except _library_errors():
                stamp = packet.dts if packet.pts is None else packet.pts
                after = int(np.searchsorted(self.index.keys, decoder.shown if stamp is None else stamp, side="right"))
                decoder.bad_before = int(self.index.keys[after]) if after < len(self.index.keys) else _END
        return decoder.pending.pop(0)

    def _keep(self, stamp: int, frame: VideoFrame | None) -> None:
        self._kept[stamp] = frame
        while len(self._kept) > FRAMES_KEPT:
            self._kept.popitem(last=False)


def _opened(path: Path) -> InputContainer:
    av = _av()
    open_regular(path).close()  # FFmpeg would wait at a pipe for ever
    try:
        container: InputContainer = av.open(str(path))
    except _library_errors() as error:
        raise BadDriveError(
            f"{str(path)!r} cannot be read as a video: {error}; an MP4 that was never finished has lost its index: record MKV or TS"
        ) from error
    if not container.streams.video:
        container.close()
        raise BadDriveError(f"{str(path)!r} has sound or data, but no pictures")
    size = container.streams.video[0].codec_context
    if size.width * size.height > MAX_PICTURE_PIXELS:
        container.close()
        most = f"{MAX_PICTURE_PIXELS // 1_000_000} megapixels"
        raise BadDriveError(f"{str(path)!r} has frames of {size.width}x{size.height} px; at most {most} are decoded: scale it down")
    return container


def _identity(path: Path) -> tuple[int, int]:
    status = path.stat()
    return status.st_size, status.st_mtime_ns


def _av() -> Any:
    return optional("av", "av", "video", "reading a video")


def _library_errors() -> tuple[type[Exception], ...]:
    return _av().FFmpegError, ValueError, OSError, BadDriveError


SUFFIXES = frozenset({".mp4", ".m4v", ".mov", ".mkv", ".webm", ".avi", ".ts", ".mpg", ".mpeg"})
_TS_SYNC = b"\x47"


@READERS.register("video")
class Video(Reader):
    """Reads a video file, or the only one in a folder; a csv, if named, labels its frames by time or by number."""

    looks_for = f"a video ({', '.join(sorted(SUFFIXES))}), or a folder with one and no pictures"
    takes_files = True
    options = (
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
        problems, ids = list(index.problems), Names.of(frame_id(place) for place in range(len(index.stamps)))
        steering_rad, labels_as = np.full(len(index.stamps), np.nan), LabelConvention()
        if options.text("csv"):
            labels_as = LabelConvention(options.csv_unit())
            steering_rad = table_labels(read_table(file.parent / options.text("csv")), ids, index.time_s, options, problems)
        else:
            options.refuse_without_csv()
            how = "?csv={}&steering=COLUMN&unit=deg&time=COLUMN"
            beside = [file.with_suffix(".csv")] if path.is_file() else sorted(path.glob("*.csv"))
            problems += [
                Problem(ProblemKind.IGNORED_FILE, csv.name, f"no csv was named; to use it: {how.format(csv.name)}")
                for csv in beside
                if csv.is_file()
            ]
        return Drive(
            name=file.stem,
            frame_ids=ids,
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
