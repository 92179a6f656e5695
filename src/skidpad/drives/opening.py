"""From a line of text, or from arrays, to a drive; and what of it is hardly meant, as far as its index tells."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from functools import cached_property
from pathlib import Path
from urllib.parse import unquote

import numpy as np

from skidpad.core.errors import BadDriveError, SkidpadError, UnknownNameError
from skidpad.core.files import NotAFileError, is_url
from skidpad.core.images import FloatArray, NumpyFrames, pixel_hash
from skidpad.core.registry import given
from skidpad.core.trust import Code, require
from skidpad.drives.drive import Drive, Problem, ProblemKind
from skidpad.drives.readers import ADJUSTING, READERS, SLICING, Options, adjusted, real_option, whole_option
from skidpad.drives.remote import DriveMirror, mirror_of


@dataclass(frozen=True, eq=False, slots=True)
class ArraySource:
    """Frames in memory; a problem in place of a frame is a broken one."""

    frames: Sequence[NumpyFrames | Problem]

    def read(self, index: int) -> NumpyFrames | Problem:
        """Returns the frame itself, not a copy."""
        return self.frames[index]

    def fingerprint(self, index: int) -> str:
        """Returns the hash of the pixels."""
        frame = self.frames[index]
        return str(frame) if isinstance(frame, Problem) else pixel_hash(frame)


def drive_from_arrays(
    frames: NumpyFrames | Sequence[NumpyFrames | Problem],
    steering_rad: Sequence[float] | FloatArray | None = None,
    *,
    frame_ids: Sequence[str] | None = None,
    time_s: Sequence[float] | FloatArray | None = None,
    name: str = "memory",
) -> Drive:
    """Makes a drive of frames in memory, which are not copied.

    frames: (N, height, width, 3) uint8 RGB, or N arrays (height, width, 3). steering_rad: N labels, None or NaN where there
    are none. frame_ids: N distinct names, the positions by default. time_s: N seconds, never falling.
    """
    pictures: list[NumpyFrames | Problem] = list(frames)
    for place, frame in enumerate(pictures):
        if not isinstance(frame, Problem) and (frame.dtype != np.uint8 or frame.ndim != 3 or frame.shape[2] != 3):
            raise BadDriveError(f"frames are uint8 RGB of shape (height, width, 3); frame {place} is {frame.dtype} {frame.shape}")
    ids = tuple(frame_ids) if frame_ids is not None else tuple(f"{place:06d}" for place in range(len(pictures)))
    if len(ids) != len(pictures) or len(set(ids)) != len(ids):
        raise BadDriveError(f"{len(pictures)} frames need as many distinct ids; got {len(ids)}, {len(set(ids))} of them distinct")
    return Drive(
        name=name,
        frame_ids=ids,
        steering_rad=np.full(len(ids), np.nan) if steering_rad is None else np.asarray(steering_rad, np.float64),
        time_s=None if time_s is None else np.asarray(time_s, np.float64),
        source=ArraySource(pictures),
    )


def open_drive(text: str) -> Drive:
    """Opens the drive that a text names; no frame is read yet.

    `PATH` is a folder or a file that one of the readers recognises, `READER:PATH` says which reader, and `READER` alone opens
    a drive that is made, not found (`rendered`; the folder of that name is `./rendered`). A path may be a URL, as
    `s3://bucket/drives/ch2`. After a `?` come options of the reader and a slice, as `name=value&name=value`, where %xx stands
    for a character as in a URL:

    - `from=`, `to=`: shares of the frames by time order, as `drives/ch2?from=0&to=0.6`;
    - `start=`, `stop=`, `step=`: positions of frames, as `drives/ch2?start=100&stop=200&step=2`;
    - `sign=`, `axle=`, `ratio=`, `drop_beyond=`: how the recording counts its angles; `rotate=`, `flip=`: how its camera hung.

    Examples: `drives/ch2`, `simulator:track1?camera=left`, `rendered?frames=600&seed=3`,
    `folder:my/frames?csv=angles.csv&id=frame&steering=angle&unit=deg`, `drive.bag?image=/camera&steering=/steering_report`.
    """
    handed = given(text, Drive)
    if handed is not None:
        return handed
    address = _Address.parse(text)
    try:
        return address.open()
    except NotAFileError as error:
        raise BadDriveError(f"cannot read {error.filename!r}: {error.strerror}") from error
    except OSError as error:
        raise BadDriveError(f"cannot read the drive {text!r}: {error}; check the path and its permissions") from error


@dataclass(frozen=True, eq=False)
class LostDrive(Drive):
    """Stands for the drive of a run that is only looked at, where it cannot or must not be opened; no frame of it can be read.

    why: what to say in place of pictures. known_sha256: the drive's, as far as the run remembers it.
    """

    why: str = ""
    known_sha256: str = ""

    @cached_property
    def sha256(self) -> str:
        """What the run remembers."""
        return self.known_sha256

    def frame(self, position: int) -> Problem:  # noqa: ARG002 - none is there
        """Says why there is none."""
        return Problem(ProblemKind.MISSING_FILE, self.name, self.why)


def look_at_drive(text: str, known_sha256: str) -> Drive:
    """Opens the drive of a run that is only looked at, or gives a LostDrive that says why not.

    A run may come from a stranger: what it names on a server is fetched only where a person allows it.
    """
    try:
        if "://" in text:
            require(Code(f"fetch pictures from {text}, which the run names,", Path.cwd(), remedy=""))
        return open_drive(text)
    except SkidpadError as error:
        name = text.partition("?")[0].rstrip("/").rpartition("/")[2] or text
        return LostDrive(name, (), np.zeros(0), None, ArraySource(()), why=str(error), known_sha256=known_sha256)


def is_recording(path: Path) -> bool:
    """Tells whether a file is a drive for one of the readers."""
    return path.is_file() and any(READERS.get(name)().recognises(path) for name in READERS.names())


@dataclass(frozen=True, slots=True)
class _Address:
    """The parts of a drive's text; `reader` is empty where the folder must be recognised."""

    reader: str
    path: str
    options: dict[str, str]

    @classmethod
    def parse(cls, text: str) -> _Address:
        """Splits the text; a one-letter prefix is a Windows drive, not a reader."""
        place, _, tail = text.strip().partition("?")
        if not place:
            raise BadDriveError(f"a drive is named by a path or a reader; got {text!r}")
        options = _parse_options(tail)
        prefix, colon, rest = place.partition(":")
        if is_url(place):
            return cls("", place, options)
        if colon and re.fullmatch(r"[A-Za-z][\w-]+", prefix) and not Path(place).exists():
            return cls(prefix, rest, options)
        if place in READERS.names() and not READERS.get(place)().needs_path:
            return cls(place, "", options)
        return cls("", place, options)

    def open(self) -> Drive:
        """Finds the reader, opens the whole drive and cuts the slice from it."""
        slicing = self._of(SLICING)
        if self.reader:
            _check_path_wanted(self.reader, self.path)
        if not self.path:
            return _cut(self._opened(self.reader, Path(), self.reader), slicing)
        if is_url(self.path):
            mirror = mirror_of(self.path)
            name = self.reader or _recognised(mirror.path, self.path)
            return _cut(self._opened(name, mirror.path, f"{name}:{self.path}", mirror), slicing)
        path = Path(self.path).expanduser().absolute()
        _check_there(path, self.path, self.reader)
        name = self.reader or _recognised(path, self.path)
        return _cut(self._opened(name, path, f"{name}:{path}"), slicing)

    def _of(self, names: tuple[str, ...]) -> dict[str, str]:
        return {name: value for name, value in self.options.items() if name in names}

    def _opened(self, name: str, path: Path, place: str, mirror: DriveMirror | None = None) -> Drive:
        """Opens a whole drive by the reader of this name; `place` is its text without options."""
        reader = READERS.get(name)()
        adjusting = self._of(ADJUSTING) if reader.needs_path else {}  # what is made here is as it should be
        shared = {*adjusting, *self._of(SLICING)}
        options = Options.of(name, reader.options, {key: value for key, value in self.options.items() if key not in shared})
        drive = reader.open(path, options)
        drive = adjusted(mirror.attached(drive) if mirror else drive, name, adjusting)
        given = replace(options, given=(*options.given, *adjusting.items()))
        return replace(drive, origin=place + (f"?{given}" if given.given else ""))


def _check_path_wanted(name: str, path: str) -> None:
    reader = READERS.get(name)()
    if reader.needs_path and not path:
        raise BadDriveError(f"reader {name!r} needs a path; write {name}:PATH")
    if path and not reader.needs_path:
        example = "&".join(f"{option.name}={option.default}" for option in reader.options[:2])
        raise BadDriveError(f"reader {name!r} takes no path but options, as {name}?{example}; got {path!r}")


def _parse_options(tail: str) -> dict[str, str]:
    options: dict[str, str] = {}
    for part in filter(None, tail.split("&")):
        name, equals, value = part.partition("=")
        if not equals or not name:
            raise BadDriveError(f"options after '?' are written name=value and joined by '&'; got {part!r}")
        if name in options:
            raise BadDriveError(f"option {name!r} is given twice")
        options[name] = unquote(value)
    return options


def _cut(drive: Drive, slicing: dict[str, str]) -> Drive:
    shares = {name: real_option(name, slicing[name]) for name in ("from", "to") if name in slicing}
    places = {name: whole_option(name, slicing[name]) for name in ("start", "stop", "step") if name in slicing}
    if shares and places:
        raise BadDriveError(f"slice by from/to or by start/stop/step, not by both; got {', '.join(slicing)}")
    if places.get("step", 1) < 1:
        raise BadDriveError(f"option 'step' is at least 1; got {places['step']}")
    if shares:
        places = {"start": drive.position_at(shares.get("from", 0.0)), "stop": drive.position_at(shares.get("to", 1.0))}
    if not places:
        return drive
    cut = drive[slice(places.get("start"), places.get("stop"), places.get("step"))]
    if not len(cut):
        wanted = "&".join(f"{name}={value}" for name, value in slicing.items())
        raise BadDriveError(f"the slice {wanted} of drive {drive.name!r} holds none of its {len(drive)} frames")
    return cut


def _check_there(path: Path, text: str, reader: str) -> None:
    if path.is_dir():
        return
    if path.exists():
        if READERS.get(reader)().takes_files if reader else is_recording(path):
            return
        raise BadDriveError(f"{text!r} is a file, and a drive is a folder or a recording; did you mean {str(path.parent)!r}?")
    siblings = [entry.name for entry in path.parent.iterdir()] if path.parent.is_dir() else []
    near = get_close_matches(path.name, siblings, n=1)
    if near:
        raise BadDriveError(f"no folder {text!r}; did you mean {str(Path(text).with_name(near[0]))!r}?")
    alone = [name for name in READERS.names() if not READERS.get(name)().needs_path]
    if get_close_matches(text, alone, n=1):
        raise UnknownNameError.among("drive", text, alone)
    raise BadDriveError(f"no folder {text!r}; a drive is a folder, a bag, a video, READER:PATH or {' or '.join(alone) or 'a URL'}")


def _recognised(path: Path, text: str) -> str:
    readers = {name: READERS.get(name)() for name in READERS.names()}
    names: list[str] = []
    is_ours_found = False
    for name, reader in readers.items():
        is_ours = type(reader).__module__.startswith("skidpad.")
        if is_ours and is_ours_found:
            continue  # of our own readers at most one recognises a drive; a plug-in may claim it too
        if reader.needs_path and reader.recognises(path):
            names.append(name)
            is_ours_found |= is_ours
    if len(names) == 1:
        return names[0]
    if names:
        raise BadDriveError(f"{text!r} looks like a drive for {' and '.join(names)}; say which, as {names[0]}:{text}")
    if path.is_dir() and not any(path.iterdir()):
        raise BadDriveError(f"the folder {text!r} is empty; a drive needs frames")
    wanted = "; ".join(f"{name} looks for {reader.looks_for}" for name, reader in readers.items() if reader.needs_path)
    raise BadDriveError(f"no reader recognises the {'folder' if path.is_dir() else 'file'} {text!r}: {wanted}")


NEAR_STRAIGHT_DEG = 2.0
"""A recorded angle below this, either way, counts as driving straight; most of a drive does."""

LOCK_DEG = 470.0
"""No steering wheel is known to be turned further, either way, while a car drives: 8.2 rad is where the drive-by-wire of the car that
recorded Udacity's drives ends, and usual cars reach 1.3 to 1.6 turns. What lies beyond is most likely in another unit."""

SLOWEST_HZ, FASTEST_HZ = 0.2, 1000.0
"""Rates beyond these are most likely times read in another unit."""

_NAMED = 5


@dataclass(frozen=True, slots=True)
class LabelSummary:
    """The labels of a drive in degrees.

    straight_share: the share of them below NEAR_STRAIGHT_DEG either way. beyond_lock: how many lie beyond LOCK_DEG.
    """

    count: int
    min_deg: float
    max_deg: float
    mean_deg: float
    std_deg: float
    straight_share: float
    beyond_lock: int = 0


def drive_warnings(drive: Drive) -> tuple[str, ...]:
    """Says what is hardly meant, from the index alone: labels beyond any wheel, rates of no camera, label files passed over."""
    if drive.has_labels:
        return (*label_warnings(summarise_labels(drive)), *rate_warnings(recorded_hz(drive)))
    aside = [problem for problem in drive.problems if problem.kind is ProblemKind.IGNORED_FILE][:_NAMED]
    passed_over = (f"no frame of {drive.name!r} has a label, and {problem.frame_id} was left aside: {problem.detail}" for problem in aside)
    return (*passed_over, *rate_warnings(recorded_hz(drive)))


def rate_warnings(rate_hz: float | None) -> tuple[str, ...]:
    """Doubts a rate that no camera in a car has."""
    if rate_hz is None or SLOWEST_HZ <= rate_hz <= FASTEST_HZ:
        return ()
    apart = f"{1.0 / rate_hz:.3g} s"
    return (f"frames lie {apart} apart, as of no camera in a car: is the time in another unit? time_unit=ms reads milliseconds, s seconds",)


def recorded_hz(drive: Drive) -> float | None:
    """Returns the rate of the whole recording: every 200th frame of it is no reason for doubt."""
    return drive.rate_hz if drive.cut is None else drive.cut.whole.rate_hz


def label_warnings(labels: LabelSummary | None) -> tuple[str, ...]:
    """Doubts angles that no steering wheel reaches."""
    if labels is None or not labels.beyond_lock:
        return ()
    most = max(abs(labels.min_deg), abs(labels.max_deg))
    lie = "label lies" if labels.count == 1 else "labels lie"
    found = f"{labels.beyond_lock} of {labels.count} {lie} beyond {LOCK_DEG:g} degrees ({most:.0f} at most)"
    return (f"{found}, further than a steering wheel turns: is the column in another unit? unit=deg reads degrees",)


def summarise_labels(drive: Drive) -> LabelSummary | None:
    """Returns the figures of the labels, None without any."""
    labels_deg = np.degrees(drive.steering_rad[np.isfinite(drive.steering_rad)])
    if not len(labels_deg):
        return None
    return LabelSummary(
        count=len(labels_deg),
        min_deg=float(labels_deg.min()),
        max_deg=float(labels_deg.max()),
        mean_deg=float(labels_deg.mean()),
        std_deg=float(labels_deg.std()),
        straight_share=float(np.mean(np.abs(labels_deg) < NEAR_STRAIGHT_DEG)),
        beyond_lock=int(np.sum(np.abs(labels_deg) > LOCK_DEG)),
    )
