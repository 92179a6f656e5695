"""One cell of the tables: a subject under a weather, guided by a criterion; kept beside its run, so that the tables grow."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from skidpad.core.errors import BadRunError
from skidpad.kinds.pictures.styles.summary import Compared, TacticSummary, compared
from skidpad.kinds.pictures.weather.page import weather_warnings

if TYPE_CHECKING:
    from skidpad.core.images import FloatArray
    from skidpad.kinds.pictures.styles.campaign import Tactic


FILE = "cell.json"


@dataclass(frozen=True, slots=True)
class Searched:
    """The finished repeats of one search.

    values: coverage (KMNC, NBC, within 0..1) and errors at each bound, for each repeat over all its conditions. one: the same as
    means over single conditions. tries, seconds: means over conditions.
    """

    search: str
    values: tuple[tuple[float, ...], ...]
    one: tuple[float, ...]
    tries: float
    seconds: float

    @property
    def sample(self) -> FloatArray:
        """The values, (repeats, metrics)."""
        return np.array(self.values, np.float64)


@dataclass(frozen=True, slots=True)
class SearchCell:
    """The figures of one cell; scenes: of one condition. warnings: what to know before believing the figures."""

    subject: str
    subject_sha256: str
    weather: str
    weather_sha256: str
    criterion: str
    drive: str
    drive_sha256: str
    scenes: int
    conditions: int
    patience: int
    racing: bool
    bounds_deg: tuple[float, ...]
    metrics: tuple[str, ...]
    searches: tuple[Searched, ...]
    device: str
    warnings: tuple[str, ...] = ()

    @classmethod
    def of(cls, campaign: Tactic, summary: TacticSummary, device: str) -> Self:
        """Takes the figures of a run that was begun on a device; who puts tables together may have another."""
        s = campaign.settings
        scenes = max((each.scenes for repeat in summary.repeats for each in repeat.conditions), default=0)
        return cls(
            subject=campaign.subject.description.name,
            subject_sha256=campaign.subject.sha256,
            weather=campaign.weather.card.name,
            weather_sha256=campaign.weather.card.sha256,
            criterion=s.criterion,
            drive=campaign.drive.name,
            drive_sha256=campaign.drive.sha256,
            scenes=scenes,
            conditions=s.conditions,
            patience=s.patience,
            racing=s.racing,
            bounds_deg=s.bounds_deg,
            metrics=summary.metrics,
            searches=tuple(_searched(summary, search) for search in summary.searches),
            device=device,
            warnings=cell_warnings(campaign),
        )

    @property
    def hashes(self) -> Mapping[str, str]:
        """The hashes of subject, drive and weather, as a campaign has them."""
        return {"subject": self.subject_sha256, "drive": self.drive_sha256, "weather": self.weather_sha256}

    def to_json(self) -> str:
        """Writes the cell."""
        return json.dumps(asdict(self), indent=1, allow_nan=False) + "\n"

    @classmethod
    def from_json(cls, text: str, where: str) -> Self:
        """Reads what `to_json` wrote; `where` names it in errors."""
        try:
            values: dict[str, Any] = json.loads(text)
            searches = tuple(
                Searched(**{**each, "values": tuple(map(tuple, each["values"])), "one": tuple(each["one"])}) for each in values["searches"]
            )
            lists = {name: tuple(values.get(name, ())) for name in ("bounds_deg", "metrics", "warnings")}
            return cls(**{**values, **lists, "searches": searches})
        except (ValueError, KeyError, TypeError) as error:
            raise BadRunError(f"{where} is damaged ({error}); remove it and replicate again") from error

    def of_search(self, search: str) -> Searched | None:
        """Returns the figures of a search; None where it has no finished repeat."""
        return next((each for each in self.searches if each.search == search), None)

    def compare(self, search: str, other: str) -> tuple[Compared, ...]:
        """Compares two searches metric by metric; none where one of them is missing."""
        first, second = self.of_search(search), self.of_search(other)
        if first is None or second is None:
            return ()
        return tuple(compared(name, first.sample[:, place], second.sample[:, place]) for place, name in enumerate(self.metrics))


def cell_warnings(campaign: Tactic) -> tuple[str, ...]:
    """Says what `skidpad weather search` warns of before its figures."""
    return weather_warnings([campaign.weather.card], campaign.settings.drive, campaign.subject)


def _searched(summary: TacticSummary, search: str) -> Searched:
    conditions = [each.condition for repeat in summary.of(search) for each in repeat.conditions]
    return Searched(
        search,
        tuple(tuple(row) for row in summary.values(search).tolist()),
        tuple(summary.means_of_one(search).tolist()),
        float(np.mean([len(each.tries) for each in conditions])),
        float(np.mean([each.seconds for each in conditions])),
    )


def kept_cells(folder: Path, measured: Sequence[SearchCell]) -> tuple[SearchCell, ...]:
    """Returns the measured cells and those that earlier calls left in the folder, on the same drive, each once."""
    found = {_key(cell): cell for cell in measured}
    drives = {cell.drive_sha256 for cell in measured}
    for path in sorted(folder.glob(f"*/*/*/{FILE}")):
        cell = SearchCell.from_json(path.read_text(encoding="utf-8"), str(path))
        if cell.drive_sha256 in drives and cell.searches:
            found.setdefault(_key(cell), cell)
    return tuple(cell for cell in found.values() if cell.searches)


def _key(cell: SearchCell) -> tuple[str, ...]:
    return cell.subject_sha256, cell.weather_sha256, cell.criterion
