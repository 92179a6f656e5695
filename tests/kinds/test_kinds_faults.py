"""What goes wrong on the way of each kind of campaign: a clear sentence, and in the end the findings of a run without faults."""

import errno
import os
import shutil
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from bar_world import BarSubject, bar_campaign, bar_drive
from duel_toys import small
from online_toys import DEMO, ROADS, demo, online
from tactic_toys import CARD, toy_campaign, toy_drive, toy_subject, toy_weights

from skidpad.core.errors import BadRunError, InterruptedRunError, LostDriveError, SkidpadError
from skidpad.core.images import write_image
from skidpad.core.stimuli import Recipe
from skidpad.coverage.profile import Profile
from skidpad.drives.drive import Drive, Problem
from skidpad.drives.opening import open_drive
from skidpad.kinds.drives.campaign import Online, OnlineSettings
from skidpad.kinds.drives.compare.campaign import OfflineVsOnline, OfflineVsOnlineSettings
from skidpad.kinds.drives.records import Case
from skidpad.kinds.duels.campaign import Duel
from skidpad.kinds.kind import Campaign, kind_of
from skidpad.kinds.pictures.weather.campaign import DeepRoad, DeepRoadSettings, StyleChoice, drawn_styles
from skidpad.page.writing import render_page, write_text_whole
from skidpad.runs.folder import Run
from skidpad.runs.workers.here import Here
from skidpad.runs.workers.protocol import Workers
from skidpad.stimuli.registry import ORIGINAL, conditions_of
from skidpad.stimuli.weather.stimulus import WeatherLooks
from skidpad.stimuli.weather.translation import Weather
from skidpad.worlds.scenario.files import NamedScenario

BRIEF = tuple(NamedScenario(each.name, replace(each.scenario, duration_s=0.1)) for each in ROADS)
GO_ON = r"go on with: skidpad resume"


def deeptest(drive: Drive) -> Campaign:
    return bar_campaign(BarSubject(left_threshold=60), drive=drive, relation="steers-alike", tolerance=1.0)


def deeproad(drive: Drive) -> Campaign:
    settings = DeepRoadSettings(
        subject="toy",
        drive="toy",
        weathers=("toy",),
        styles=2,
        style="random",
        thresholds_deg=(0.01,),
        subject_device="cpu",
        shard_frames=4,
    )
    looks = WeatherLooks(Weather(CARD, toy_weights()), drawn_styles(CARD, StyleChoice.RANDOM, 2, 0))
    return DeepRoad.of(settings, toy_subject(), drive, {"toy": looks})


def tactic(drive: Drive) -> Campaign:
    return toy_campaign(drive, patience=1, iterations=2, searches=("es", "map-elites"), bounds_deg=(0.01,))


def compare(drive: Drive) -> Campaign:
    first, second = (Case(each.name, each.scenario, ORIGINAL, Recipe()) for each in BRIEF[:2])
    settings = OfflineVsOnlineSettings(subject=DEMO, drive="toy", scenarios=1, matched=1)
    return OfflineVsOnline(settings, demo(), drive, (first,), (second,))


def search() -> Campaign:
    settings = OnlineSettings(subject=DEMO, scenarios=2, searches=("es",), seconds=1.0, width=1)
    return Online(settings, demo(), (), *conditions_of(()))


def duel() -> Campaign:
    few = {"train_episodes": 4, "validation_episodes": 2, "test_episodes": 4, "cross_episodes": 4, "search_episodes": 1, "search_depth": 2}
    return Duel.load(small(test_runs=1, egos=2, repairs=1, **few))


ON_DRIVES: dict[str, tuple[Callable[[Drive], Campaign], Callable[[], Drive]]] = {
    "deeptest": (deeptest, bar_drive),
    "deeproad": (deeproad, lambda: toy_drive(10)),
    "tactic": (tactic, lambda: toy_drive(10)),
    "compare": (compare, lambda: toy_drive(70)),
}


def unlabelled(kind: str) -> Drive:
    """Returns the toy drive as a folder of its pictures gives it."""
    drive = ON_DRIVES[kind][1]()
    return replace(drive, steering_rad=np.full(len(drive), np.nan))


KINDS: dict[str, Callable[[], Campaign]] = {
    **{kind: lambda kind=kind: ON_DRIVES[kind][0](unlabelled(kind)) for kind in ON_DRIVES},
    "online": lambda: online(scenarios=BRIEF, width=1),
    "search": search,
    "duel": duel,
}
kinds = pytest.mark.parametrize("kind", KINDS)


@dataclass(frozen=True)
class Whole:
    """A run that nothing happened to; order: its segments as they were written; told: how often its progress was heard of."""

    run: Run
    order: tuple[str, ...]
    told: int

    def short_of(self, last: int, folder: Path) -> Run:
        """Copies it as it was before its last shards."""
        shutil.copytree(self.run.path, folder)
        (folder / "state" / "finished.json").unlink()
        for name in self.order[len(self.order) - last :]:
            (folder / "segments" / name).unlink()
        return Run.open(folder)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Whole]:
    def computed(kind: str) -> Whole:
        told = []
        run = KINDS[kind]().start(tmp_path_factory.mktemp(kind) / "run")
        KINDS[kind]().execute(run, lambda *words: told.append(words), Here(1))
        order = sorted((run.path / "segments").iterdir(), key=lambda path: path.stat().st_mtime_ns)
        return Whole(run, tuple(path.name for path in order), len(told))

    return cache(computed)


def segments(run: Run) -> list[str]:
    """The names of the segments, which carry the hash of records, coverage and problems."""
    return sorted(path.name for path in (run.path / "segments").glob("*.parquet"))


def ends_as(whole: Whole, kind: str, run: Run, threads: int = 1) -> None:
    """Goes on with a run, which must end as if nothing had happened."""
    again = Run.open(run.path)
    KINDS[kind]().execute(again, workers=Here(threads))
    assert again.is_finished
    assert segments(again) == sorted(whole.order)


def truncated(data: bytes) -> bytes:
    return data[:-20]


def flipped(data: bytes) -> bytes:
    middle = len(data) // 2
    return data[:middle] + bytes(255 - byte for byte in data[middle : middle + 4]) + data[middle + 4 :]


def harmed(whole: Whole, folder: Path, place: int, harm: Callable[[bytes], bytes]) -> Run:
    """Copies a run and harms one of its segments."""
    shutil.copytree(whole.run.path, folder)
    victim = folder / "segments" / whole.order[place]
    victim.write_bytes(harm(victim.read_bytes()))
    return Run.open(folder)


@kinds
@pytest.mark.parametrize(("place", "harm"), [(-1, truncated), (-1, flipped), (0, flipped)])
def test_a_damaged_segment_is_computed_again(kind: str, place: int, harm, whole: Callable[[str], Whole], tmp_path: Path) -> None:
    run = harmed(whole(kind), tmp_path / "run", place, harm)
    assert not run.is_finished
    assert run.damaged == (f"{whole(kind).order[place]}.damaged",)
    ends_as(whole(kind), kind, run)


@kinds
def test_the_page_of_a_damaged_run_says_so(kind: str, whole: Callable[[str], Whole], tmp_path: Path) -> None:
    run, page = harmed(whole(kind), tmp_path / "run", -1, truncated), tmp_path / "page.html"
    write_text_whole(page, render_page(kind_of(run).page(KINDS[kind](), run)))
    assert f"1 file of findings was damaged; `skidpad resume {run.path}` computes it again." in page.read_text(encoding="utf-8")


def stopping(calls: int) -> Callable[..., None]:
    """Returns a progress that is Ctrl-C when it is called so many times."""
    left = iter(range(calls - 1))

    def stop(*_: object) -> None:
        if next(left, None) is None:
            raise KeyboardInterrupt

    return stop


@kinds
def test_stopped_at_the_start_and_in_the_middle_it_ends_the_same(kind: str, whole: Callable[[str], Whole], tmp_path: Path) -> None:
    run = KINDS[kind]().start(tmp_path / "run")
    for calls in (1, whole(kind).told // 2):
        with pytest.raises(InterruptedRunError, match=rf"^stopped: \d+ [^;]* are kept; {GO_ON} \S+$") as stopped:
            KINDS[kind]().execute(run, stopping(calls), Here(1))
        assert stopped.value.exit_code == 130
        run = Run.open(run.path)
        assert set(segments(run)) < set(whole(kind).order)
    ends_as(whole(kind), kind, run, threads=2)


def full(*_: object) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@kinds
def test_a_disk_that_fills_up_keeps_what_is_kept(
    kind: str, whole: Callable[[str], Whole], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = whole(kind).short_of(1, tmp_path / "run")
    kept, found = segments(run), run.findings(columns=("case_id", "excess"))
    with monkeypatch.context() as patch:
        patch.setattr("skidpad.core.files.os.fsync", full)
        said = rf"the disk is full; {len(kept)} shards are kept; free some space .*{GO_ON}"
        with pytest.raises(BadRunError, match=said) as ended:
            KINDS[kind]().execute(run, workers=Here(2))
    assert ended.value.exit_code == 2
    run = Run.open(run.path)
    assert segments(run) == kept
    assert run.findings(columns=("case_id", "excess")).equals(found)
    ends_as(whole(kind), kind, run)


def test_a_disk_that_fills_up_between_the_phases_is_told_alike(
    whole: Callable[[str], Whole], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = KINDS["tactic"]().start(tmp_path / "tactic")
    with monkeypatch.context() as patch:
        patch.setattr(Profile, "save", full)
        with pytest.raises(BadRunError, match=rf"the disk is full; 0 shards are kept; free some space, then {GO_ON}"):
            KINDS["tactic"]().execute(run)
    with monkeypatch.context() as patch:
        patch.setattr("skidpad.stimuli.weather.contents._CPU_BYTES", 0)
        patch.setattr("skidpad.stimuli.weather.contents.os.posix_fallocate", full)
        with pytest.raises(SkidpadError, match=r"cannot keep content codes in .*No space left on device; free some space"):
            KINDS["tactic"]().execute(run)
    assert not (run.path / "state" / "contents.bin").exists()
    ends_as(whole("tactic"), "tactic", run)


def test_a_duel_is_not_finished_before_its_policies_are_written(
    whole: Callable[[str], Whole], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = whole("duel").short_of(0, tmp_path / "duel")
    policies = sorted(path.name for path in (run.path / "policies").iterdir())
    shutil.rmtree(run.path / "policies")
    with monkeypatch.context() as patch:
        patch.setattr("skidpad.kinds.duels.drivers.write_atomically", full)
        with pytest.raises(BadRunError, match=rf"the disk is full; {len(segments(run))} shards are kept; free some space, then {GO_ON}"):
            KINDS["duel"]().execute(run)
    assert not run.is_finished
    ends_as(whole("duel"), "duel", run)
    assert sorted(path.name for path in (run.path / "policies").iterdir()) == policies


@kinds
def test_a_second_run_into_the_folder_is_refused_while_the_first_goes_on(kind: str, whole: Callable[[str], Whole], tmp_path: Path) -> None:
    with pytest.raises(BadRunError, match="is not empty; go on with that run"):
        KINDS[kind]().start(whole(kind).run.path)
    run = whole(kind).short_of(1, tmp_path / "run")
    tried = []

    def second(*_: object) -> None:
        if not tried:
            tried.append(True)
            with pytest.raises(BadRunError, match=r"in use by another skidpad \(process \d+\)"):
                KINDS[kind]().execute(Run.open(run.path, set_aside=False), workers=Here(1))

    KINDS[kind]().execute(run, second, Here(1))
    assert tried
    assert segments(run) == sorted(whole(kind).order)


@dataclass(frozen=True)
class OnDisk:
    """A toy drive as pictures in a folder, which can be lost and found again, and a campaign on them."""

    kind: str
    folder: Path

    def campaign(self) -> Campaign:
        return ON_DRIVES[self.kind][0](open_drive(f"folder:{self.folder}"))

    def begun(self, note: str) -> Campaign:
        """Loads the campaign; without a note to lose the drive at, it is lost at once."""
        campaign = self.campaign()
        _ = campaign.hashes
        if not note:
            self.lose()
        return campaign

    def lose(self) -> None:
        self.folder.rename(self.folder.with_name("elsewhere"))

    def find(self) -> None:
        self.folder.with_name("elsewhere").rename(self.folder)

    def losing(self, note: str, done: int) -> Callable[..., None]:
        """Returns a progress that loses the drive when it is told so."""

        def told(now: int, _: int, words: str = "") -> None:
            if (words, now) == (note, done) and self.folder.exists():
                self.lose()

        return told


@pytest.fixture
def on_disk(kind: str, tmp_path: Path) -> OnDisk:
    drive = unlabelled(kind)
    folder = tmp_path / "drive"
    folder.mkdir()
    for place in range(len(drive)):
        frame = drive.frame(place)
        assert not isinstance(frame, Problem)
        write_image(folder / f"{drive.frame_ids[place]}.png", frame)
    return OnDisk(kind, folder)


@pytest.mark.parametrize(
    ("kind", "note", "done", "workers"),
    [
        ("deeptest", "originals", 1, Here(1)),
        ("deeptest", "originals", 0, Here(2)),  # threads read ahead of what is told
        ("deeptest", "grid", 1, Here(1)),
        ("deeptest", "grid", 0, Here(2)),
        ("deeproad", "originals", 1, Here(1)),
        ("deeproad", "grid", 1, Here(1)),
        ("deeproad", "grid", 0, Here(2)),
        ("tactic", "", 0, Here(1)),
        ("tactic", "neuron bounds", 10, Here(1)),
        ("tactic", "encoding scenes", 1, Here(2)),
        ("compare", "recorded drive", 64, Here(1)),
    ],
)
def test_a_drive_that_is_gone_is_waited_for_or_said_and_the_run_goes_on_when_it_is_back(
    kind: str,
    note: str,
    done: int,
    workers: Workers,
    whole: Callable[[str], Whole],
    on_disk: OnDisk,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    run, waiting = (on_disk.campaign().start(tmp_path / name) for name in ("run", "waiting"))
    waited: list[float] = []
    monkeypatch.setattr("skidpad.runs.workers.here.time.sleep", waited.append)
    campaign = on_disk.begun(note)
    with pytest.raises(LostDriveError, match=rf"is gone; put it back [^;]*; \d+ [^;]* are kept; {GO_ON} \S+$"):
        campaign.execute(run, on_disk.losing(note, done), workers)
    assert len(waited) >= 4
    on_disk.find()
    campaign.execute(Run.open(run.path), workers=workers)
    assert segments(Run.open(run.path)) == sorted(whole(kind).order)
    assert Run.open(run.path).problems() == ()

    def back(seconds: float) -> None:
        waited.append(seconds)
        with suppress(FileNotFoundError):  # the other thread has found it
            on_disk.find()

    waited.clear()
    monkeypatch.setattr("skidpad.runs.workers.here.time.sleep", back)
    campaign = on_disk.begun(note)
    campaign.execute(waiting, on_disk.losing(note, done), workers)
    assert waited
    assert segments(waiting) == sorted(whole(kind).order)


@pytest.mark.parametrize("kind", ["tactic"])
def test_a_folder_whose_pictures_are_gone_is_told_too(
    kind: str, whole: Callable[[str], Whole], on_disk: OnDisk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("skidpad.runs.workers.here.WAITS_S", ())
    run = on_disk.campaign().start(tmp_path / "run")

    def emptied(_now: int, _total: int, note: str = "") -> None:
        if note == "encoding scenes":
            on_disk.lose()
            on_disk.folder.mkdir()

    with pytest.raises(LostDriveError, match=rf"a frame of the drive can no longer be read: .*; put the drive back as it was; .*{GO_ON}"):
        on_disk.campaign().execute(run, emptied, Here(1))
    on_disk.folder.rmdir()
    on_disk.find()
    on_disk.campaign().execute(run, workers=Here(1))
    assert segments(run) == sorted(whole(kind).order)


@pytest.mark.parametrize("kind", ["deeproad"])
def test_a_drive_that_is_gone_before_its_hash_is_known_is_not_taken_for_another(kind: str, on_disk: OnDisk, tmp_path: Path) -> None:
    run, campaign = on_disk.campaign().start(tmp_path / "run"), on_disk.campaign()
    on_disk.lose()
    with pytest.raises(LostDriveError, match="is gone; put it back"):
        campaign.execute(run)
    on_disk.find()
    campaign.execute(run)
    assert run.is_finished
