"""What every search answers to: it is asked for candidates and told what they brought."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias, TypeVar

from skidpad.core.errors import BadParametersError
from skidpad.core.registry import Registry
from skidpad.core.stimuli import Recipe, Stimulus

Candidate_co = TypeVar("Candidate_co", covariant=True)
Feedback_contra = TypeVar("Feedback_contra", contravariant=True)

DEFAULT_MAX_FAILED_TRIES = 10
"""DeepTest 3.3 names maxFailedTries and leaves its value open; this one is ours."""

DEFAULT_MAX_TRIES = 1000
"""A safety: DeepTest kept 2 to 9 pictures a seed image (5, RQ3), so a search that gets here is lost."""


class Search(Protocol[Candidate_co, Feedback_contra]):
    """Proposes candidates and learns from feedback; it knows nothing of subjects, frames or worlds.

    Candidates are recipes here, style vectors or scenarios elsewhere; feedback is whether coverage grew, or a fitness.

    Searches are sequential, but evaluating is cheaper in batches, so `ask` may run ahead: candidate i of an answer is
    what the search would try next if candidates 0 to i - 1 were all rejected. A search that learns from one candidate at a
    time takes results up to the first that it keeps; what was drawn after that is void and must leave no trace in coverage
    or records (see `kept` and `taken`).
    """

    @property
    def done(self) -> bool:
        """Whether there is nothing left to ask."""
        ...

    def ask(self, width: int) -> Sequence[Candidate_co]:
        """Returns 1 to `width` candidates, none where the search is done; asking again without telling is free."""
        ...

    def tell(self, feedback: Sequence[Feedback_contra]) -> Sequence[int] | None:
        """Takes the feedback on each candidate of the last `ask`; returns the places of those that are kept, in order.

        None, as of a function that returns nothing: all are kept. Empty: all were tried, and none is kept. Otherwise what was drawn
        after the last one that is kept is void.
        """
        ...


RecipeSearch: TypeAlias = Search[Recipe, bool]
"""A search over the recipes of one seed image; the feedback tells whether coverage grew."""


@dataclass(frozen=True, slots=True)
class SearchTask:
    """What a search over the recipes of one seed image is given.

    max_failed_tries: the guided search ends after one failed try more than this (Algorithm 1, line 8).
    max_tries: a cap on the tries of one image; None: as printed, without one.
    unguided_tries: how many tries the random baseline makes, say as many as the guided search made on this image;
    None: max_failed_tries + 1, the fewest that the guided search can make.
    """

    frame_id: str
    stimuli: Mapping[str, Stimulus]
    seed: int
    max_failed_tries: int = DEFAULT_MAX_FAILED_TRIES
    max_tries: int | None = DEFAULT_MAX_TRIES
    unguided_tries: int | None = None

    def __post_init__(self) -> None:
        if not self.stimuli:
            raise BadParametersError("a search needs at least one stimulus and got none; name one, see `skidpad list transforms`")
        for name, stimulus in self.stimuli.items():
            if not stimulus.space.grid:
                raise BadParametersError(f"stimulus {name!r} has an empty grid, so no parameters can be drawn; leave it out")
        for setting, value in (
            ("max_failed_tries", self.max_failed_tries),
            ("max_tries", self.max_tries),
            ("unguided_tries", self.unguided_tries),
        ):
            if value is not None and value < 0:
                raise BadParametersError(f"{setting} must be 0 or more; got {value}")


SEARCHES: Registry[Callable[[SearchTask], RecipeSearch]] = Registry("search", "searches", ("skidpad.search.pairs",))


def kept(asked: int, told: Sequence[int] | None) -> list[int]:
    """Returns the places of the candidates that are kept, given what `tell` answered to `asked` of them."""
    places = list(range(asked) if told is None else told)
    if places != sorted(set(places)) or not all(0 <= place < asked for place in places):
        raise ValueError(f"tell() answers with places of the {asked} candidates of the last ask(), in order, or with None; got {told!r}")
    return places


def taken(asked: int, told: Sequence[int] | None) -> int:
    """Returns how many of `asked` candidates count as tried, given what `tell` answered; the rest is void."""
    return max(kept(asked, told), default=asked - 1) + 1


def asked_of(search: Search[Candidate_co, Feedback_contra], width: int, name: str) -> Sequence[Candidate_co]:
    """Asks a search that is not done; one that has nothing to try then would never end."""
    candidates = search.ask(width)
    if not candidates:
        raise BadParametersError(f"the search {name!r} is not done, and ask() returned nothing to try; make `done` true at its end")
    return candidates


def check_feedback(asked: int, told: int) -> None:
    """Refuses feedback that does not match the candidates asked for."""
    if asked != told:
        raise ValueError(f"tell() needs one feedback for each candidate of the last ask(): {asked}; got {told}")


def check_width(width: int) -> None:
    """Refuses to be asked for no candidate at all."""
    if width < 1:
        raise ValueError(f"ask() needs a width of 1 or more; got {width}")
