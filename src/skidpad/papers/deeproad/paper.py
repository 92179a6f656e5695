"""DeepRoad's published figures, as printed, what is to be minded about them, and our cells beside them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from math import isfinite, nan, radians
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from skidpad.core.errors import BadRunError
from skidpad.core.settings import jsonable
from skidpad.kinds.pictures.weather.page import road_warnings
from skidpad.kinds.pictures.weather.summary import BoundCount, RoadSummary
from skidpad.oracles.doubts import Doubt, doubts_of
from skidpad.papers.doubts import doubts_from
from skidpad.statistics.intervals import wilson

if TYPE_CHECKING:
    from skidpad.kinds.pictures.weather.campaign import DeepRoad

PAPER = "DeepRoad"

THRESHOLDS_DEG = (10.0, 20.0, 30.0, 40.0)

FRAMES = 20_826
"""Both episodes of Table 1: 15,212 + 5,614. The paper does not say on which of them Table 2 was counted."""


@dataclass(frozen=True, slots=True)
class PaperRow:
    """One row of Table 2: inconsistent behaviours at 10, 20, 30 and 40 degrees."""

    weather: str
    model: str
    counts: tuple[int, int, int, int]


TABLE_2 = (
    PaperRow("snowy", "Autumn", (11635, 11602, 11388, 10239)),
    PaperRow("snowy", "Chauffeur", (4839, 2105, 1093, 653)),
    PaperRow("snowy", "Rwightman", (334, 115, 45, 14)),
    PaperRow("rainy", "Autumn", (5279, 5279, 5279, 5279)),
    PaperRow("rainy", "Chauffeur", (710, 175, 94, 71)),
    PaperRow("rainy", "Rwightman", (656, 92, 23, 0)),
)

COUNTERPARTS = {"snow": "snowy", "wet": "rainy", "rain": "rainy"}
"""Which of the paper's weathers one of ours is most like, by a word in its name."""

TRAPS = (
    (
        "The paper counts on Udacity's two episodes (15,212 and 5,614 frames) and does not say on which of them a row of Table 2 was "
        "counted: shares of its counts cannot be worked out, so ours stand beside them and are not subtracted. Autumn under rain, 5,279 at "
        "every bound, would be 94 % of the second episode or 25 % of both."
    ),
    (
        "A model that is as often off by 40 degrees as by 10 (Autumn under rain) no longer answers to what it sees: its input is optical "
        "flow, which translating frame by frame may disturb. A subject with memory is shown one weather over its whole window here."
    ),
    (
        "A bound in degrees favours networks that hardly steer: one that always answers 0 has no inconsistent behaviour. The spread of "
        "each subject's answers on the recorded frames stands beside its counts, and the change in units of that spread."
    ),
    (
        "The paper's models were entries of Udacity's challenge, and its weathers came from one video each; ours are other networks and "
        "other pictures. What can be compared is the order of magnitude, and whether the ranks hold."
    ),
    (
        "The paper uses UNIT, which has one look for a weather; one that was learned by MUNIT is under the style that real pictures of it "
        "have on average, unless another is named."
    ),
    "Angles are those that a network answers, read in the unit of its description: degrees of the steering wheel for Udacity's labels.",
)


FILE = "cell.json"


@dataclass(frozen=True, slots=True)
class WeatherCell:
    """The figures of one subject under one weather; hashes tell whether cells belong into one table.

    inconsistent: by error bound. mean_deg: of |mutant - original|. spread_deg: of the answers on all frames as they are;
    original_rmse_rad: on those of them that count in the weather. A figure that is not known is None. warnings: what to know before
    believing the figures. doubts: what is odd about the answers on the frames as they are.
    """

    subject: str
    subject_sha256: str
    weather: str
    weather_sha256: str
    method: str
    rendered: bool
    style: str
    drive: str
    drive_sha256: str
    thresholds_deg: tuple[float, ...]
    inconsistent: tuple[int, ...]
    cases: int
    mean_deg: float | None
    worst_deg: float | None
    correlation: float | None
    rmse_rad: float | None
    spread_deg: float | None
    original_rmse_rad: float | None
    device: str
    warnings: tuple[str, ...] = ()
    doubts: tuple[Doubt, ...] = ()

    @classmethod
    def of(cls, campaign: DeepRoad, summary: RoadSummary, doubts: tuple[Doubt, ...]) -> Self:
        """Takes the figures of a run with one weather."""
        ((name, looks),) = campaign.weathers.items()
        card, whole = looks.weather.card, summary.overall
        return cls(
            subject=campaign.subject.description.name,
            subject_sha256=campaign.subject.sha256,
            weather=name,
            weather_sha256=card.sha256,
            method=card.method.value,
            rendered=card.rendered,
            style=_style(campaign),
            drive=campaign.drive.name,
            drive_sha256=campaign.drive.sha256,
            thresholds_deg=tuple(bound.threshold_deg for bound in whole.counts),
            inconsistent=tuple(bound.inconsistent for bound in whole.counts),
            cases=whole.cases,
            mean_deg=jsonable(whole.mean_deg),
            worst_deg=jsonable(whole.worst_deg),
            correlation=jsonable(whole.correlation),
            rmse_rad=jsonable(whole.rmse_rad),
            spread_deg=jsonable(summary.spread_deg),
            original_rmse_rad=jsonable(whole.original_rmse_rad),
            device=campaign.road.device,
            warnings=road_warnings(campaign),
            doubts=doubts,
        )

    def other_than(self, campaign: DeepRoad) -> tuple[str, ...]:
        """Names what a campaign would measure otherwise than this cell was, wherever it runs; nothing where it would be the same cell."""
        (looks,) = campaign.weathers.values()
        pairs = {
            "subject": (self.subject_sha256, campaign.subject.sha256),
            "weather": (self.weather_sha256, looks.weather.card.sha256),
            "drive, or other --frames of it": (self.drive_sha256, campaign.drive.sha256),
            "style": (self.style, _style(campaign)),
            "list of --thresholds": (self.thresholds_deg, campaign.road.thresholds_deg),
        }
        return tuple(name for name, (then, now) in pairs.items() if then != now)

    @property
    def counts(self) -> tuple[BoundCount, ...]:
        """The counts with their intervals."""
        made = []
        for bound, found in zip(self.thresholds_deg, self.inconsistent, strict=True):
            interval = wilson(found, self.cases)
            made.append(BoundCount(bound, found, self.cases, interval.low, interval.high))
        return tuple(made)

    @property
    def moved(self) -> float | None:
        """The mean change in spreads of the answers."""
        return self.mean_deg / self.spread_deg if self.mean_deg is not None and self.spread_deg else None

    def to_json(self) -> str:
        """Writes the cell."""
        return json.dumps({**asdict(self), "doubts": jsonable(self.doubts)}, indent=2, allow_nan=False) + "\n"

    @classmethod
    def from_json(cls, text: str, where: str) -> Self:
        """Reads what `to_json` wrote."""
        try:
            values: dict[str, Any] = json.loads(text)
            values |= {name: tuple(values.get(name, ())) for name in ("thresholds_deg", "inconsistent", "warnings")}
            doubts = doubts_from(values) if "doubts" in values else _told_by_spread(values["spread_deg"], values["thresholds_deg"][0])
            return cls(**{**values, "doubts": doubts})
        except (ValueError, TypeError, AttributeError, LookupError) as error:
            raise BadRunError(f"{where} is damaged ({error}); remove it, and the replication writes it again") from error


def _told_by_spread(spread_deg: float | None, bound_deg: float) -> tuple[Doubt, ...]:
    """Returns the doubt that a cell of an older version did not keep: whether so small a spread is that of a constant answer."""
    spread_rad = radians(nan if spread_deg is None else spread_deg)
    # as many made-up answers as it takes to be judged, that spread as the network's did
    answers = np.array([-spread_rad, spread_rad] * 4)
    return doubts_of(answers, np.full(len(answers), nan), radians(bound_deg)) if isfinite(spread_rad) else ()


def _style(campaign: DeepRoad) -> str:
    road = campaign.road
    if not any(looks.weather.style_size for looks in campaign.weathers.values()):
        return "one look"
    return road.style if road.style == "mean" else f"{road.style} x {road.styles}, seed {road.seed}"


def kept_cells(folder: Path, like: Sequence[WeatherCell]) -> tuple[WeatherCell, ...]:
    """Reads the cells that earlier calls left in the folder and that belong into one table with those given, which come first."""
    names = {(cell.subject, cell.weather) for cell in like}
    same = {(cell.drive_sha256, cell.thresholds_deg) for cell in like}
    found = [WeatherCell.from_json(path.read_text(encoding="utf-8"), str(path)) for path in sorted(folder.glob(f"*/*/{FILE}"))]
    others = [cell for cell in found if (cell.subject, cell.weather) not in names and (cell.drive_sha256, cell.thresholds_deg) in same]
    return (*like, *others)
