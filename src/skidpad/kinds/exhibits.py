"""What the page of `skidpad ui` shows of a run: columns with their units, pictures, motion."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from enum import Enum
from math import degrees, isfinite, isnan, nan, sqrt
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

from skidpad.core.errors import BadRunError, UnknownNameError
from skidpad.core.stimuli import Recipe
from skidpad.kinds.kind import KINDS
from skidpad.oracles.error import ErrorScale, scale_of, scale_of_run, times_tolerated
from skidpad.page.wording import NOTHING, plain, with_unit

if TYPE_CHECKING:
    import pyarrow as pa

    from skidpad.core.images import NumpyFrames


_RAD = "rad"
_ANSWERS = frozenset({"original", "mutant", "label"})
"""Columns of runs over pictures whose unit stands in the config."""
_RECIPE = "recipe"
_MAX_TEXT = 240


class Form(Enum):
    """How a column's values are written and compared."""

    TEXT = "text"
    WHOLE = "whole"
    REAL = "real"
    TRUTH = "truth"
    LIST = "list"
    HIDDEN = "hidden"
    """Packed bytes, which say nothing to a reader."""


_FORMS = {
    "string": Form.TEXT,
    "bool": Form.TRUTH,
    "int32": Form.WHOLE,
    "int64": Form.WHOLE,
    "float": Form.REAL,
    "double": Form.REAL,
    "list<element: double>": Form.LIST,
    "list<item: double>": Form.LIST,
}


@dataclass(frozen=True, slots=True)
class Column:
    """One column: its place in the schema, its name there, the title it is shown under, and whether radians become degrees."""

    place: int
    name: str
    title: str
    form: Form
    in_degrees: bool = False

    @property
    def is_number(self) -> bool:
        """Whether its values stand to the right."""
        return self.form in {Form.WHOLE, Form.REAL}

    def word(self, value: Any) -> str:
        """Writes one value."""
        if value is None:
            return NOTHING
        if self.form is Form.TRUTH:
            return "yes" if value else "no"
        if self.form is Form.REAL:
            return _real(degrees(value) if self.in_degrees else float(value))
        if self.form is Form.LIST:
            return plain(", ".join(_real(float(item)) for item in value[:16]), _MAX_TEXT)
        return plain(_recipe_words(str(value)) if self.name == _RECIPE else str(value), _MAX_TEXT)


def columns_of(schema: pa.Schema, config: Mapping[str, Any]) -> tuple[Column, ...]:
    """Reads the columns of a run from its own schema; angles are degrees at the surface."""
    answers_rad = config.get("unit") == _RAD
    return tuple(_column(place, field.name, str(field.type), answers_rad=answers_rad) for place, field in enumerate(schema))


def column_named(columns: tuple[Column, ...], name: str) -> Column:
    """Returns the column of a name that is shown."""
    shown = {column.name: column for column in columns if column.form is not Form.HIDDEN}
    if name not in shown:
        raise UnknownNameError.among("record column", plain(name, 80), shown)
    return shown[name]


def _column(place: int, name: str, kind: str, *, answers_rad: bool) -> Column:
    form = _FORMS.get(kind, Form.HIDDEN)
    in_degrees = form is Form.REAL and (name.endswith(f"_{_RAD}") or (answers_rad and name in _ANSWERS))
    title = plain(name.removesuffix(f"_{_RAD}"), 60).replace("_", " ")
    return Column(place, name, f"{title} (°)" if in_degrees else title, form, in_degrees)


def _recipe_words(text: str) -> str:
    try:
        return str(Recipe.from_json(text))
    except (ValueError, TypeError, RecursionError):
        return text  # of another kind of campaign, or damaged


def _real(value: float) -> str:
    if isnan(value):
        return NOTHING
    if not isfinite(value):
        return "∞" if value > 0 else "−∞"
    return f"{value:.4g}".replace("-", "−")


LABEL_MSE = "label-mse"
_STEERS, _ANSWERS_ALIKE, _DECIDES = "steers-alike", "answers-alike", "decides-alike"


@dataclass(frozen=True, slots=True)
class Rule:
    """What a case had to keep to.

    relation, tolerance: in words, "" where there is none. multiple: of the originals' mean squared error, for `label-mse`, else NaN.
    bound_rad2: the largest squared error against the label that is tolerated, NaN where none is or it is not known yet.
    """

    relation: str = ""
    tolerance: str = ""
    multiple: float = nan
    bound_rad2: float = nan

    @property
    def words(self) -> str:
        """Relation and tolerance together."""
        return ", ".join(part for part in (self.relation, self.tolerance) if part)

    @property
    def scale(self) -> ErrorScale:
        """What an excess is a multiple of."""
        return scale_of(self.relation)

    def measured(self, mse_rad2: float) -> Rule:
        """Returns the rule with the tolerance that the originals' mean squared error makes of its multiple."""
        bound = self.multiple * mse_rad2
        if not isfinite(bound) or bound < 0.0:
            return self
        return replace(self, bound_rad2=bound, tolerance=f"{self.tolerance} (within {degrees(sqrt(bound)):.1f}°)")

    def is_already_broken(self, row: Row) -> bool:
        """Tells whether a row is a finding whose original breaks the rule before anything is changed."""
        original, label = row.get("original"), row.get("label")
        if not row["violated"] or not isinstance(original, float):
            return False
        if not isfinite(original):
            return True
        return isinstance(label, float) and isfinite(self.bound_rad2) and (original - label) ** 2 > self.bound_rad2


def picture_rule(config: Mapping[str, Any]) -> Rule:
    """Reads the rule of a run over pictures from its config; what is missing or odd is left out."""
    relation = plain(str(config.get("relation", "")), 60)
    tolerance, threshold = _number(config.get("tolerance")), _number(config.get("threshold"))
    if relation == LABEL_MSE and isfinite(tolerance):
        return Rule(relation, f"{tolerance:g} × MSE of the originals", tolerance)
    if relation in {_STEERS, "steers-right"} and isfinite(tolerance):
        return Rule(relation, f"within {tolerance:g}°")
    if relation == _ANSWERS_ALIKE and isfinite(tolerance):
        return Rule(relation, f"within {with_unit(tolerance, plain(str(config.get('unit', '')), 20))}")
    if relation == _DECIDES and isfinite(threshold):
        return Rule(relation, f"at {threshold:g}")
    return Rule(relation)


def bound_rule(bounds_deg: object) -> Rule:
    """Returns the rule of a run that counts at several error bounds: a finding is what breaks the smallest."""
    first = _number(bounds_deg[0]) if isinstance(bounds_deg, list | tuple) and bounds_deg else nan
    return Rule(_STEERS, f"within {first:g}°" if isfinite(first) else "")


def _number(value: object) -> float:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else nan


Row: TypeAlias = Mapping[str, Any]


class PictureSide(Enum):
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
    """What was answered on the two pictures of a pair, in `unit`; degrees are drawn as arrows. NaN: none.

    moved: by how much the right answer moved with the camera; `original` and `label` are the moved ones.
    """

    original: float
    mutant: float
    label: float
    unit: str
    moved: float = 0.0


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

    def picture(self, row: Row, side: PictureSide) -> NumpyFrames:  # noqa: ARG002  here there is neither
        """Renders one picture of a pair, (height, width, 3)."""
        raise self._nothing(row)

    def film(self, row: Row, motion: Motion) -> str:  # noqa: ARG002  here there is neither
        """Draws a film as a whole SVG file."""
        raise self._nothing(row)

    def _nothing(self, row: Row) -> UnknownNameError:
        return UnknownNameError(f"{self.title(row)} has nothing to look at")

    @contextmanager
    def _reading(self, row: Row, what: str = "record") -> Iterator[None]:
        """Says of a record that raises what no sound one does that it is damaged; it may come from a stranger."""
        try:
            yield
        except (ValueError, KeyError, TypeError, IndexError, RecursionError) as error:
            raise BadRunError(f"the {what} of case {plain(str(row['case_id']), 40)} is damaged ({plain(str(error), 120)})") from error


def exhibit_of(config: Mapping[str, Any]) -> Exhibit:
    """Returns the exhibit of a run; a kind that is unknown here, or has none, is shown as a table."""
    name = config.get("campaign")
    kind = KINDS.get(name) if isinstance(name, str) and name in KINDS.names() else None
    return Exhibit(config) if kind is None or kind.exhibit is None else kind.exhibit(config)
