"""What a run found, for Python and notebooks: its rates, its findings worst first, and each as a picture."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from functools import cached_property
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from skidpad.core.errors import SkidpadError
from skidpad.core.registry import giving
from skidpad.kinds.exhibits import Motion, PictureSide, Sight, exhibit_of
from skidpad.kinds.gating import judged_cases
from skidpad.kinds.kind import Campaign, kind_of, load_campaign
from skidpad.page.pictures import embed, pair_picture
from skidpad.page.wording import counted, percent, plain
from skidpad.page.writing import write_page
from skidpad.runs.findings import run_doubts, worst_finding
from skidpad.runs.folder import Run
from skidpad.runs.gate import ALL
from skidpad.runs.replay import Replayed
from skidpad.statistics.intervals import Interval, wilson

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa
    from torch import nn

    from skidpad.core.images import NumpyFrames
    from skidpad.kinds.exhibits import Exhibit
    from skidpad.oracles.doubts import Doubt
    from skidpad.repairs.driving.outcome import DrivingOutcome
    from skidpad.repairs.outcome import Outcome
    from skidpad.subjects.network_subject import NetworkSubject


_SHOWN_GROUPS = 12


@dataclass(frozen=True, eq=False)
class Finding:
    """One case that broke the relation. row: what the run keeps of it, angles in radians."""

    row: Mapping[str, Any]
    _exhibit: Exhibit = field(repr=False)
    _objects: Mapping[str, object] = field(repr=False)

    @property
    def case_id(self) -> str:
        """Names the case in its run."""
        return str(self.row["case_id"])

    @property
    def said(self) -> str:
        """What was done and how far the answer went, in words."""
        return f"{self._exhibit.title(self.row)}: {self._exhibit.how_far(self.row)}"

    def picture(self) -> NumpyFrames | None:
        """Renders the frame beside its mutant with both answers, (height, width, 3) RGB; None of drives and duels."""
        if self._exhibit.sight(self.row) is not Sight.PAIR:
            return None
        with giving(self._objects):
            original, mutant = (self._exhibit.picture(self.row, side) for side in (PictureSide.ORIGINAL, PictureSide.MUTANT))
        answers = self._exhibit.answers(self.row)
        return pair_picture(original, mutant, answers.original, answers.mutant, answers.label, caption=self.said, unit=answers.unit)

    def __repr__(self) -> str:
        return f"<finding {self.case_id}: {self.said}>"

    def _repr_html_(self) -> str:
        return f"<figure>{self._image()}<figcaption>{escape(self.said)}</figcaption></figure>"

    def _image(self) -> str:
        if self._exhibit.sight(self.row) is Sight.NOTHING:
            return ""
        picture = self.picture()
        if picture is not None:
            source = embed(picture)[0]
        else:
            with giving(self._objects):
                film = self._exhibit.film(self.row, Motion.STRIP)
            source = f"data:image/svg+xml;base64,{b64encode(film.encode()).decode('ascii')}"
        return f'<img src="{source}" alt="{escape(self._exhibit.told(self.row))}">'


class Findings(Sequence[Finding]):
    """The findings of a run, worst first; an Arrow table inside."""

    def __init__(self, result: Result) -> None:
        self._result = result
        self._table = result.run.findings()

    def to_arrow(self) -> pa.Table:
        """Returns the Arrow table: frame, recipe, answers, excess, ...; angles in radians."""
        return self._table

    def to_pylist(self) -> list[dict[str, Any]]:
        """Returns a dictionary for each finding."""
        rows: list[dict[str, Any]] = self._table.to_pylist()
        return rows

    def to_pandas(self) -> pd.DataFrame:
        """Returns a data frame, where pandas is installed."""
        try:
            return self._table.to_pandas()
        except ModuleNotFoundError as error:
            raise SkidpadError("to_pandas needs the package 'pandas': pip install pandas; to_arrow and to_pylist need nothing") from error

    def __len__(self) -> int:
        return int(self._table.num_rows)

    def __getitem__(self, place: Any) -> Any:
        if isinstance(place, slice):
            return [self[each] for each in range(*place.indices(len(self)))]
        return self._result.finding(self._table.slice(range(len(self))[place], 1).to_pylist()[0])

    def __iter__(self) -> Iterator[Finding]:
        return (self[place] for place in range(len(self)))

    def __repr__(self) -> str:
        return f"<{counted(len(self), 'finding')}, worst first>"


@dataclass(frozen=True, eq=False)
class Result:
    """A run, and what was found in it. run: its folder, which `out` keeps; without `out` it goes with this object."""

    run: Run
    _objects: Mapping[str, object] = field(default_factory=dict, repr=False)

    @property
    def path(self) -> Path:
        """The folder of the run."""
        return self.run.path

    @cached_property
    def rates(self) -> Mapping[str, Interval]:
        """The share of judged cases that failed, with its 95 % interval: of `all`, then by group (transform, condition, ...)."""
        cases = judged_cases(self.run)
        parts = {group: cases.of(group) for group in (ALL, *cases.groups)}
        return {group: wilson(int(part.failed.sum()), len(part)) for group, part in parts.items()}

    @property
    def rate(self) -> float:
        """The share of judged cases that failed, 0 to 1."""
        return self.rates[ALL].estimate

    @cached_property
    def findings(self) -> Findings:
        """Everything that failed, worst first."""
        return Findings(self)

    @cached_property
    def worst(self) -> Finding | None:
        """The finding furthest beyond what was tolerated, one that the stimulus caused where there is one; None without findings."""
        case = worst_finding(self.run)
        return None if case is None else self.finding(self.run.find_row(case))

    @cached_property
    def doubts(self) -> tuple[Doubt, ...]:
        """What is odd about the answers on unchanged pictures; look here before trusting a rate."""
        return run_doubts(self.run)

    @cached_property
    def limits(self) -> Mapping[str, Mapping[str, Any]]:
        """How far the network holds, by severity: holds_to, fails_from, unit, curve, ...; empty for other runs than those of `limits`."""
        with giving(self._objects):
            rows = kind_of(self.run).figures(self._campaign(seen=True), self.run).get("limits", ())
        return {row["name"]: row for row in rows} if isinstance(rows, list) else {}

    def finding(self, case: str | Mapping[str, Any]) -> Finding:
        """Returns one case of the run, by its id or its row."""
        row = self.run.find_row(case) if isinstance(case, str) else case
        return Finding(row, self._exhibit, self._objects)

    def report(self, path: str | Path | None = None) -> Path:
        """Writes the page (.html, .md or .json), `report.html` in the run's folder by default, and returns where it is."""
        page = Path(path) if path is not None else self.path / "report.html"
        with giving(self._objects):
            write_page(page, kind_of(self.run).page(self._campaign(seen=True), self.run))
        return page

    def replay(self, finding: str = "worst") -> Mapping[str, Any]:
        """Computes a finding again and compares; the key `reproduced` tells whether it is the same."""
        case = worst_finding(self.run) if finding == "worst" else finding
        if case is None:
            raise SkidpadError(f"there are no findings in {self.path}, so none is the worst; name a case by its id")
        with giving(self._objects):
            again: Replayed = kind_of(self.run).part("replay", "replayed")(self._campaign(seen=False), self.run, case, None)
        return again.to_json()

    @cached_property
    def _exhibit(self) -> Exhibit:
        return exhibit_of(self.run.config)

    def _campaign(self, *, seen: bool) -> Campaign:
        return load_campaign(self.run.config, str(self.path), self.run.manifest if seen else None)

    def _rows(self) -> list[tuple[str, str, str, str, str]]:
        """Returns the rows of the table: all first, then the groups that fail most."""
        groups = sorted(self.rates.items(), key=lambda each: (each[0] != ALL, -each[1].estimate))
        return [
            (
                plain(name, 60),
                str(rate.n),
                str(round(rate.estimate * rate.n)),
                percent(rate.estimate),
                f"{percent(rate.low)} to {percent(rate.high)}",
            )
            for name, rate in groups[: _SHOWN_GROUPS + 1]
        ]

    def __repr__(self) -> str:
        rows = [("", "cases", "findings", "rate", "95 % interval"), *self._rows()]
        widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
        lines = [
            "  ".join(
                cell.ljust(width) if column == 0 else cell.rjust(width)
                for column, (cell, width) in enumerate(zip(row, widths, strict=True))
            )
            for row in rows
        ]
        doubts = [f"doubt: {doubt.said}" for doubt in self.doubts]
        worst = [] if self.worst is None else [f"worst: {self.worst.said}"]
        return "\n".join([*doubts, *lines, *worst])

    def _repr_html_(self) -> str:
        head = "".join(f"<th>{title}</th>" for title in ("", "cases", "findings", "rate", "95 % interval"))
        body = "".join(f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>" for row in self._rows())
        doubts = "".join(f"<p><strong>doubt:</strong> {escape(doubt.said)}</p>" for doubt in self.doubts)
        worst = "" if self.worst is None else self.worst._repr_html_()
        return f"{doubts}<table><tr>{head}</tr>{body}</table>{worst}"


@dataclass(frozen=True, eq=False)
class Repaired:
    """A finished repair. outcome: its figures; path: its folder."""

    outcome: Outcome | DrivingOutcome
    path: Path
    _subject: NetworkSubject = field(repr=False)

    @property
    def module(self) -> nn.Module:
        """A copy of the network with the recommended weights; with its own where no repair helped."""
        from safetensors.torch import load_file  # noqa: PLC0415  most programs repair nothing

        module = deepcopy(self._subject.module)
        weights = self.path / "recommended.safetensors"
        if weights.exists():
            module.load_state_dict(load_file(weights))
        return module

    def __repr__(self) -> str:
        return "\n".join([self.outcome.verdict, *(f"note: {note}" for note in self.outcome.notes)])
