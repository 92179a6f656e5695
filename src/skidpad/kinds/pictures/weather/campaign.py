"""Learned weathers as stimuli, with the settings: named, each under chosen styles, and the same pixels for a frame in any company."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, TypeVar

import numpy as np
import torch

from skidpad.core.errors import BadSubjectError, SkidpadError
from skidpad.core.images import FloatArray, Frames, as_numpy
from skidpad.core.seeding import child_rng
from skidpad.core.settings import Count, Natural, OneOf, Positive
from skidpad.core.stimuli import Params, Recipe, Stimulus
from skidpad.coverage.tracker import CoverageTracker
from skidpad.kinds.kind import CampaignSettings, RefereeName, RefereeUse, drive_of, start_run, subject_of
from skidpad.kinds.pictures.campaign import DeepTest
from skidpad.kinds.pictures.judging import JudgedOutput
from skidpad.kinds.pictures.settings import NOTES, DeepTestSettings, StimulusOn, StimulusOnName
from skidpad.kinds.pictures.work import default_shard_frames
from skidpad.oracles.relations import SteersAlike
from skidpad.runs.folder import Run
from skidpad.runs.manifest import Manifest
from skidpad.stimuli.weather.decoding import Prepared
from skidpad.stimuli.weather.files import BadWeatherError, WeatherCard, load_weather
from skidpad.stimuli.weather.pretrained import weather_path
from skidpad.stimuli.weather.settings import Method
from skidpad.stimuli.weather.stimulus import WeatherLooks, style_params
from skidpad.stimuli.weather.translation import REDRAWN, TOLERANCE_RAD, Weather
from skidpad.subjects.base import Observation
from skidpad.subjects.network_subject import usable_device

if TYPE_CHECKING:
    from skidpad.coverage.profile import Profile
    from skidpad.drives.drive import Drive
    from skidpad.kinds.pictures.campaign import Look
    from skidpad.subjects.base import Subject

THRESHOLDS_DEG = (10.0, 20.0, 30.0, 40.0)
"""DeepRoad's error bounds (Table 2)."""


class StyleChoice(Enum):
    """Where the styles of a MUNIT weather come from: what real pictures have on average, their spread, or N(0, 1) as MUNIT draws."""

    MEAN = "mean"
    REAL = "real"
    RANDOM = "random"


@dataclass(frozen=True, slots=True, kw_only=True)
class DeepRoadSettings(CampaignSettings):
    """One DeepRoad campaign.

    subject: path of a description. drive: text for `open_drive`. weathers: paths of learned weathers, or names of bundled ones.
    thresholds_deg: error bounds, ascending; the first one tells what a finding is. style, styles: which styles, and how many, each MUNIT
    weather is tried under; UNIT has one look. output: an angle among the subject's outputs. stimulus_on: for subjects with memory, see
    `StimulusOn`. shard_frames: the unit of resuming (0: what suits device and subject). device: where weathers run;
    subject_device: where the subject does (empty: the same, or the CPU for one that cannot).
    """

    campaign: ClassVar = "deeproad"
    notes: ClassVar = NOTES

    subject: str
    drive: str
    weathers: tuple[str, ...]
    thresholds_deg: tuple[Positive, ...] = THRESHOLDS_DEG
    style: Annotated[str, OneOf("choice of styles", StyleChoice)] = StyleChoice.MEAN.value
    styles: Count = 1
    output: str = "steering"
    stimulus_on: StimulusOnName = StimulusOn.WINDOW.value
    shard_frames: Natural = 0
    referee: RefereeName = RefereeUse.ON.value
    seed: int = 0
    device: str = "cpu"
    subject_device: str = ""

    def check_together(self) -> None:
        """Refuses settings that do not go together."""
        if not self.weathers:
            raise SkidpadError("a test under weather needs a weather; give one with --weather FILE, as `skidpad weather train` writes it")
        bounds = self.thresholds_deg
        if not bounds or list(bounds) != sorted(set(bounds)):
            words = ", ".join(f"{bound:g}" for bound in bounds) or "none"
            raise SkidpadError(f"thresholds are degrees above 0, ascending and each once, as 10,20,30,40; got {words}")
        if self.style == StyleChoice.MEAN.value and self.styles > 1:
            raise SkidpadError(f"the mean style is one style; got styles = {self.styles}: leave it out, or choose --style real or random")


F = TypeVar("F", bound=Frames)


class InWeathers:
    """Frames under one weather and style after the other: encoded once a weather, decoded under each of its styles; for one thread."""

    def __init__(self, frames: Frames, weathers: Mapping[str, Stimulus]) -> None:
        self._frames = frames
        self._weathers = weathers
        self._kept: tuple[str, list[Prepared]] = ("", [])

    def under(self, recipe: Recipe) -> Frames:
        """Returns the frames under a recipe, as `recipe.apply` does."""
        name = recipe.steps[0].stimulus if len(recipe.steps) == 1 else ""
        looks = self._weathers.get(name)
        # one style alone needs no memory for what others would share
        if not isinstance(looks, WeatherLooks) or len(looks.space.grid) == 1 or not len(self._frames):
            return recipe.apply(self._frames, self._weathers)
        params = recipe.steps[0].params
        looks.space.check(name, params)
        if self._kept[0] != name:
            self._kept = ("", [])  # the codes of another weather make room first
            self._kept = (name, looks.encoded(self._frames))
        return looks.decoded(self._kept[1], self._frames, params)


def one_camera(drive: Drive) -> Drive:
    """Returns a drive of one camera and refuses others, whose frames are no pictures that a weather was learned on."""
    if drive.cameras:
        raise SkidpadError(
            f"a learned weather is tested on one camera, and drive {drive.name!r} has {', '.join(drive.cameras)}; open it with one, or "
            "change each of them with skidpad test --stimulus weather:NAME"
        )
    return drive


def open_weathers(files: Sequence[str], device: str, choice: StyleChoice, styles: int, seed: int) -> Mapping[str, WeatherLooks]:
    """Loads weathers by the names of their files, with the method where two have one name, and draws the styles of each."""
    usable_device(device)
    loaded = [load_weather(weather_path(file)) for file in files]
    stems = [_stem(file) for file in files]
    counts = Counter(stems)
    names = [stem if counts[stem] == 1 else f"{stem}-{card.method.value}" for stem, (card, _) in zip(stems, loaded, strict=True)]
    twice = next((stem for stem, name in zip(stems, names, strict=True) if names.count(name) > 1), None)
    if twice is not None:
        raise SkidpadError(f"two weathers are called {twice!r}; name each weather once, and rename one of the files if they differ")
    return {
        name: WeatherLooks(Weather(card, weights, device), drawn_styles(card, choice, styles, seed))
        for name, (card, weights) in zip(names, loaded, strict=True)
    }


def drawn_styles(card: WeatherCard, choice: StyleChoice, count: int, seed: int) -> tuple[Params, ...]:
    """Returns the styles that a weather is tried under; one without numbers for UNIT."""
    if card.method is Method.UNIT:
        return (Params(),)
    size = card.sizes.style
    rng = child_rng(seed, "styles", card.weights_sha256)
    if choice is StyleChoice.RANDOM:
        rows = rng.standard_normal((count, size))
    elif card.styles is None:
        raise BadWeatherError(
            f"the weather {card.name!r} does not say what styles its real pictures have; use --style random, or learn it again"
        )
    elif choice is StyleChoice.REAL:
        rows = rng.normal(card.styles.mean, card.styles.deviation, (count, size))
    else:
        rows = np.array([card.styles.mean])
    return tuple(map(style_params, rows))


def _stem(file: str) -> str:
    return Path(file).name.removesuffix(".toml").removesuffix(".safetensors")


@dataclass(frozen=True)
class DeepRoad(DeepTest):
    """A grid of weathers and styles over a drive; neurons are not looked at.

    `settings` are those of the grid underneath, `road` what was asked for.
    """

    road: DeepRoadSettings = field(kw_only=True)
    weathers: Mapping[str, WeatherLooks] = field(kw_only=True)

    @classmethod
    def load_road(cls, road: DeepRoadSettings, seen: Manifest | None = None) -> DeepRoad:
        """Loads weathers and subject and opens the drive, so that a wrong one ends the work at once."""
        weathers = open_weathers(road.weathers, road.device, StyleChoice(road.style), road.styles, road.seed)
        chosen = road.subject_device
        subject, device = (subject_of(seen, road.subject, chosen), chosen) if chosen else subject_beside(road.device, road.subject, seen)
        drive = one_camera(drive_of(seen, road.drive))
        if not JudgedOutput.of(subject.description, road.output).output.is_angle:
            angles = ", ".join(output.name for output in subject.description.outputs if output.is_angle) or "none"
            raise SkidpadError(
                f"a test under weather compares angles, and the output {road.output!r} is no angle; choose --output among: {angles}"
            )
        shard_frames = road.shard_frames or default_shard_frames(subject.lead, road.device, drive)
        return cls.of(replace(road, shard_frames=shard_frames, subject_device=device), subject, drive, weathers)

    @classmethod
    def of(cls, road: DeepRoadSettings, subject: Subject, drive: Drive, weathers: Mapping[str, WeatherLooks]) -> DeepRoad:
        """Puts a campaign together from parts that are loaded already."""
        grid = DeepTestSettings(
            subject=road.subject,
            drive=road.drive,
            searches=("grid",),
            output=road.output,
            relation=SteersAlike.name,
            tolerance=road.thresholds_deg[0],
            criteria=(),
            stimulus_on=road.stimulus_on,
            shard_frames=road.shard_frames,
            referee=road.referee,
            seed=road.seed,
            device=road.device,
        )
        return cls(grid, subject, drive, dict(weathers), road=road, weathers=weathers)

    @property
    def has_coverage(self) -> bool:
        """DeepRoad asks for answers alone."""
        return False

    @property
    def rounding(self) -> tuple[float, str]:
        """As for any picture on a CPU, where groups of one size are rounded alike; on a GPU within the bound of weathers."""
        kind = torch.device(self.road.device).type
        return (TOLERANCE_RAD[kind], REDRAWN[kind]) if kind in REDRAWN else super().rounding

    @property
    def hashes(self) -> Mapping[str, str]:
        """The hashes of subject, drive and weathers."""
        made = {f"weather {name}": looks.weather.card.sha256 for name, looks in self.weathers.items()}
        return {"subject": self.subject.sha256, "drive": self.drive.sha256, **made}

    def start(self, out: Path) -> Run:
        """Makes the run folder."""
        return start_run(self, out, {**self.road.to_config(), "unit": self.judged.stored_unit}, None, self.drive.frame_shape)

    def looker(self, clip: Frames, times_s: FloatArray | None = None) -> Look:  # noqa: ARG002  a learned weather knows no time
        """Returns a way to show the subject a clip in one weather after the other; frames are encoded once a weather.

        On a GPU frames stay there from their translation to the answer; a subject on the CPU gets its own copy.
        """
        clip = self.on_device(clip)
        lead = self.subject.lead
        frames = InWeathers(clip[lead:] if self._last_alone else clip, self.stimuli)

        def look(recipe: Recipe) -> tuple[Frames, Observation]:
            changed = frames.under(recipe)
            if self._last_alone:
                now = changed
                answers = self.subject.predict(self._for_subject(clip), self._for_subject(now))
            else:
                now = changed[lead:]
                answers = self.subject.predict(self._for_subject(changed))
            return now, Observation(answers, torch.zeros((len(answers), 0)))

        return look

    def blank_tracker(self, profile: Profile | None, device: str = "") -> CoverageTracker:  # noqa: ARG002  nothing to count on a device
        """Returns a tracker that counts pictures alone."""
        return CoverageTracker((), (), profile)

    def _for_subject(self, frames: Frames) -> Frames:
        return as_numpy(frames) if self.road.subject_device == "cpu" else frames


def subject_beside(weather_device: str, path: str, seen: Manifest | None) -> tuple[Subject, str]:
    """Loads the subject where the weathers run, and says where it is; one that cannot run there (a format without a GPU) on the CPU."""
    try:
        return subject_of(seen, path, weather_device), weather_device
    except BadSubjectError:
        if weather_device == "cpu":
            raise
        return subject_of(seen, path, "cpu"), "cpu"


def from_config(config: Mapping[str, Any], seen: Manifest | None = None) -> DeepRoad:
    """Tests a network on a drive under learned weathers, counted at several error bounds."""
    return DeepRoad.load_road(DeepRoadSettings.from_config(config), seen)
