"""How a kind of campaign shows its findings on the page: one exhibit for each row of CAMPAIGNS, under the same name.

An exhibit is made from a run's config alone and never loads the subject: a foreign run must not be able to name a program that looking
at it would start. Everything that it draws follows from the record.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

from skidpad.core.errors import UnknownNameError
from skidpad.core.registry import Registry
from skidpad.oracles.excess import scale_of_run, times_tolerated
from skidpad.report.wording import plain
from skidpad.ui.columns import Column, Form
from skidpad.ui.rules import Rule

if TYPE_CHECKING:
    from skidpad.core.images import NumpyFrames

Row: TypeAlias = Mapping[str, Any]


class Side(Enum):
    """One picture of a pair."""

    ORIGINAL = "original"
    MUTANT = "mutant"


class Motion(Enum):
    """A film as a row of moments, or moving."""

    STRIP = "strip"
    MOVING = "moving"


class Sight(Enum):
    """What there is to look at in a record."""

    PAIR = "pair"
    FILM = "film"
    NOTHING = "nothing"


@dataclass(frozen=True, slots=True)
class PairAnswers:
    """What was answered on the two pictures of a pair, in `unit`; degrees are drawn as arrows. NaN: none."""

    original: float
    mutant: float
    label: float
    unit: str


class Exhibit:
    """What every kind of campaign has: rows to read. Kinds with something to look at override the rest.

    needs: columns that it reads, with their form. command: which one makes such runs, after `skidpad`. cases: what records are called,
    in the plural. unjudged: phases whose records are no cases of a rate. groups: columns whose values are worth a rate of their own.
    apart: a column whose values are never put into one rate, as who was tested; "" where all cases are of one. numbered: what a
    recipe is called whose parameters say nothing to a reader, "" where they do; `numbers` then has the place of each recipe in the run.
    """

    needs: ClassVar[Mapping[str, Form]] = {}
    command: ClassVar[str] = ""
    cases: ClassVar[str] = "cases"
    apart: ClassVar[str] = ""
    numbered: ClassVar[str] = ""
    unjudged: ClassVar[frozenset[str]] = frozenset()
    groups: ClassVar[tuple[str, ...]] = ()

    def __init__(self, config: Mapping[str, Any]) -> None:
        self.config = config
        self.numbers: Mapping[str, int] = {}

    def fits(self, columns: Iterable[Column]) -> bool:
        """Tells whether a run has the columns that are read here; one that only claims to be of this kind need not."""
        forms = {column.name: column.form for column in columns}
        return all(forms.get(name) is form for name, form in self.needs.items())

    @property
    def rule(self) -> Rule:
        """By what cases are judged, as far as the config tells."""
        return Rule()

    def shards(self) -> Mapping[str, int]:
        """Returns how many shards each phase will have, as far as the config tells."""
        return {}

    def title(self, row: Row) -> str:
        """Says in a few words what a record is."""
        return f"case {plain(str(row['case_id']), 40)}"

    def sight(self, row: Row) -> Sight:  # noqa: ARG002  here it is the same for every row
        """Tells what there is to look at."""
        return Sight.NOTHING

    def verdict(self, row: Row) -> str:
        """Says in a few words what the oracle said."""
        return f"finding, {times_tolerated(float(row['excess']), scale_of_run(self.config))}" if row["violated"] else "passed"

    def how_far(self, row: Row) -> str:
        """Says in a few words how far it went, for a list in which all are findings."""
        return self.verdict(row).removeprefix("finding, ")

    def told(self, row: Row) -> str:
        """Says in a sentence what the pictures show, for those who do not see them."""
        return self.title(row)

    def answers(self, row: Row) -> PairAnswers:
        """Returns the answers on the two pictures of a pair."""
        raise self._nothing(row)

    def picture(self, row: Row, side: Side) -> NumpyFrames:  # noqa: ARG002  here there is neither
        """Renders one picture of a pair, (height, width, 3)."""
        raise self._nothing(row)

    def film(self, row: Row, motion: Motion) -> str:  # noqa: ARG002  here there is neither
        """Draws a film as a whole SVG file."""
        raise self._nothing(row)

    def _nothing(self, row: Row) -> UnknownNameError:
        return UnknownNameError(f"{self.title(row)} has nothing to look at")


EXHIBITS: Registry[Callable[[Mapping[str, Any]], Exhibit]] = Registry(
    "campaign",
    "exhibits",
    ("skidpad.ui.exhibit_pairs", "skidpad.ui.exhibit_weathers", "skidpad.ui.exhibit_drives", "skidpad.ui.exhibit_duels"),
)
"""A row makes the exhibit of a run's config; a campaign without a row is shown as a table."""


def exhibit_of(config: Mapping[str, Any]) -> Exhibit:
    """Returns the exhibit of a run; a kind that nobody registered is shown as a table."""
    kind = config.get("campaign")
    if not isinstance(kind, str) or kind not in EXHIBITS.names():
        return Exhibit(config)
    return EXHIBITS.get(kind)(config)
