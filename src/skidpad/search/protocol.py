"""What every search answers to: it is asked for candidates of a space and told how fit they are.

One interface and one registry serve the pairs of stimuli on a seed frame (DeepTest), the styles of a weather (TACTIC) and scenarios.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, Protocol, TypeVar

import numpy as np

from skidpad.core.errors import BadParametersError, UnknownNameError
from skidpad.core.registry import Registry

Candidate = TypeVar("Candidate")
Candidate_co = TypeVar("Candidate_co", covariant=True)


@dataclass(frozen=True, slots=True)
class Fitness:
    """What a candidate brought: the higher the better, NaN where it could not be tried, -inf where it was dropped as one that cannot win.

    Of a pair of stimuli it is 1 where coverage grew, else 0. cell: its cell of a map of scenarios. measures: what a map of styles
    tells them apart by, each within 0..1.
    """

    value: float
    cell: str = ""
    measures: tuple[float, float] = (0.0, 0.0)

    def __bool__(self) -> bool:
        return self.value > 0.0


class Space(Protocol[Candidate]):
    """What a search may propose. A search that goes by `draw` and `vary` alone searches every space."""

    noun: ClassVar[str]
    """What the candidates are called, in the plural."""

    def draw(self, rng: np.random.Generator) -> Candidate:
        """Draws a candidate as chance would."""

    def vary(self, candidate: Candidate, rng: np.random.Generator, step: float) -> Candidate:
        """Returns a neighbour; step: 0 is none, and 1 about as far away as another draw."""


S = TypeVar("S", bound=Space[Any])


@dataclass(frozen=True, slots=True)
class SearchTask(Generic[S]):
    """What a search is given.

    place: what it searches on, a frame say; each has draws of its own. budget: the most tries. patience: how many tries may bring
    nothing before it ends, in all for Algorithm 1 of DeepTest, in a row for TACTIC. None: as many as it takes. unguided_tries: how many
    a baseline makes that learns nothing, say as many as a guided search made at this place.
    """

    space: S
    seed: int
    budget: int | None = None
    patience: int | None = None
    place: str = ""
    unguided_tries: int | None = None

    def __post_init__(self) -> None:
        for setting, value in (("budget", self.budget), ("patience", self.patience)):
            if value is not None and value < 1:
                raise BadParametersError(f"the {setting} of a search must be 1 or more; got {value}")
        if self.unguided_tries is not None and self.unguided_tries < 0:
            raise BadParametersError(f"unguided_tries must be 0 or more; got {self.unguided_tries}")


class Search(Protocol[Candidate_co]):
    """Proposes candidates and learns from their fitness; it knows nothing of subjects, frames or worlds.

    Searches are sequential, but evaluating is cheaper in batches, so `ask` may run ahead: candidate i of an answer is
    what the search would try next if candidates 0 to i - 1 were all rejected. A search that learns from one candidate at a
    time takes results up to the first that it keeps; what was drawn after that is void and must leave no trace in coverage
    or records (see `kept` and `taken`).
    """

    @property
    def done(self) -> bool:
        """Whether there is nothing left to ask."""

    def ask(self, width: int) -> Sequence[Candidate_co]:
        """Returns 1 to `width` candidates, none where the search is done; asking again without telling is free."""

    def tell(self, feedback: Sequence[Fitness]) -> Sequence[int] | None:
        """Takes the fitness of each candidate of the last `ask`; returns the places of those that are kept, in order.

        None, as of a function that returns nothing: all are kept. Empty: all were tried, and none is kept. Otherwise what was drawn
        after the last one that is kept is void.
        """


class CountingSearch(Generic[Candidate]):
    """What our searches share: the count of tries and failures, and the candidates that were asked for and not told of yet.

    A subclass makes candidates (`_candidate`), and learns from their fitness (`_learn`), where it learns at all.
    """

    name = ""

    def __init__(self, task: SearchTask[Any]) -> None:
        self.task = task
        self.tries = 0
        self.failures = 0
        self._asked: list[Candidate] = []

    @property
    def left(self) -> int:
        """How many tries budget and patience still allow."""
        limits = (self.task.budget and self.task.budget - self.tries, self.task.patience and self.task.patience - self.failures)
        return min((limit for limit in limits if limit is not None), default=sys.maxsize)

    @property
    def done(self) -> bool:
        """Whether no try is left."""
        return self.left < 1

    def ask(self, width: int) -> list[Candidate]:
        """Returns the next candidates, at most `width`, each in case those before it fail; asking again without telling gives the same."""
        if width < 1:
            raise ValueError(f"ask() needs a width of 1 or more; got {width}")
        self._asked = self._next(width)
        return list(self._asked)

    def tell(self, feedback: Sequence[Fitness]) -> Sequence[int] | None:
        """Takes the fitness of each candidate of the last `ask`; see `Search.tell`."""
        if len(self._asked) != len(feedback):
            raise ValueError(f"tell() needs one feedback for each candidate of the last ask(): {len(self._asked)}; got {len(feedback)}")
        asked, self._asked = self._asked, []
        return self._learn(asked, feedback)

    def _next(self, width: int) -> list[Candidate]:
        return [self._candidate(ahead) for ahead in range(min(width, self.left))]

    def _candidate(self, ahead: int, /) -> Candidate:
        """Makes the candidate of a try, so many after the next one."""
        raise NotImplementedError

    def _learn(self, asked: Sequence[Candidate], _feedback: Sequence[Fitness], /) -> Sequence[int] | None:
        """Takes every candidate, whatever it brought."""
        self.tries += len(asked)
        return None


MakeSearch = Callable[[SearchTask[Any]], Search[Any]]
"""A row of the registry: a class of searches, whose constructor takes the task. `over` may name the spaces that it searches."""

SEARCHES: Registry[MakeSearch] = Registry(
    "search",
    "searches",
    (
        "skidpad.search.pairs",
        "skidpad.search.evolution",
        "skidpad.search.vectors",
        "skidpad.search.populations",
    ),
)


class _Row:
    """One name of ours with a class for each space, since `es` climbs scenarios side by side and styles one at a time."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.by_space: dict[type[Space[Any]], MakeSearch] = {}

    @property
    def over(self) -> tuple[type[Space[Any]], ...]:
        """The spaces that it searches."""
        SEARCHES.names()  # imports every module that may add to the row
        return tuple(self.by_space)

    def __call__(self, task: SearchTask[Any]) -> Search[Any]:
        check_search(self.name, type(task.space))
        return self.by_space[type(task.space)](task)


Row = TypeVar("Row", bound=MakeSearch)


def searches(name: str, over: type[Space[Any]]) -> Callable[[Row], Row]:
    """Decorates a search of ours as what `name` is over one space."""

    def add(make: Row) -> Row:
        row = _ROWS.setdefault(name, _Row(name))
        row.by_space[over] = make
        SEARCHES.register(name)(row)
        return make

    return add


_ROWS: dict[str, _Row] = {}


def searchers(over: type[Space[Any]]) -> dict[str, MakeSearch]:
    """Returns the searches over a space by name: ours for it, and those of others that do not say that they search other spaces alone."""
    rows = {name: SEARCHES.get(name) for name in SEARCHES.names() if name not in SEARCHES.broken}
    return {
        name: row.by_space[over] if isinstance(row, _Row) else row for name, row in rows.items() if over in getattr(row, "over", (over,))
    }


def check_search(name: str, over: type[Space[Any]]) -> None:
    """Refuses a name that stands for no search over a space, and says which do."""
    if ":" in name or name in SEARCHES.broken:
        SEARCHES.get(name)
    elif name not in (known := searchers(over)):
        raise UnknownNameError.among(f"search over {over.noun}", name, known)


def kept(asked: int, told: Sequence[int] | None) -> list[int]:
    """Returns the places of the candidates that are kept, given what `tell` answered to `asked` of them."""
    places = list(range(asked) if told is None else told)
    if places != sorted(set(places)) or not all(0 <= place < asked for place in places):
        raise ValueError(f"tell() answers with places of the {asked} candidates of the last ask(), in order, or with None; got {told!r}")
    return places


def taken(asked: int, told: Sequence[int] | None) -> int:
    """Returns how many of `asked` candidates count as tried, given what `tell` answered; the rest is void."""
    return max(kept(asked, told), default=asked - 1) + 1


def asked_of(search: Search[Candidate_co], width: int, name: str) -> Sequence[Candidate_co]:
    """Asks a search that is not done; one that has nothing to try then would never end."""
    candidates = search.ask(width)
    if not candidates:
        raise BadParametersError(f"the search {name!r} is not done, and ask() returned nothing to try; make `done` true at its end")
    return candidates
