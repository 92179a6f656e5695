"""What the page and the terminal say of a search for critical conditions: verdict, figures at the top, warnings and notes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from skidpad.campaigns.tactic_settings import GUIDES
from skidpad.report.model import Headline, Tone
from skidpad.report.weather_warnings import weather_warnings
from skidpad.report.wording import count, counted, interval, percent

if TYPE_CHECKING:
    from skidpad.campaigns.tactic import Tactic
    from skidpad.campaigns.tactic_settings import TacticSettings
    from skidpad.campaigns.tactic_summary import TacticSummary

NAMES = {"es": "(1+1)-ES", "random-search": "random search (RS)", "random-styles": "random styles (R_c)"}


def tactic_warnings(campaign: Tactic, summary: TacticSummary) -> tuple[str, ...]:
    """Says what a reader must know before believing the figures."""
    warnings = [*weather_warnings([campaign.weather.card], campaign.settings.drive, campaign.subject)]
    found = [each for repeat in summary.repeats for each in repeat.conditions]
    if found and summary.problems:
        broken, scenes = counted(summary.problems, "broken frame"), counted(found[0].scenes, "scene")
        warnings.append(f"{broken} left out, so that the search had {scenes}; `skidpad inspect` lists what is wrong.")
    if found and not any(each.judged for each in found):
        warnings.append(
            "The filter refused every scene under every condition, so that nothing was judged. Look at the scenes: where the weather "
            "destroys them, learn it for longer; where it does not, search with --validity off."
        )
    return tuple(warnings)


def search_name(search: str) -> str:
    """Words a search."""
    return NAMES.get(search, search)


def shown_words(summary: TacticSummary, search: str) -> str:
    """Says which repeat of a search is shown; empty where there is but one."""
    repeats = summary.of(search)
    return f"repeat {summary.worst_of(search).number + 1} of {len(repeats)}, the one with the most errors" if len(repeats) > 1 else ""


def tone(summary: TacticSummary) -> Tone:
    """Returns whether errors were found by any search, none, or nothing was judged."""
    if any(repeat.errors[0] for repeat in summary.repeats):
        return Tone.ALARM
    return Tone.CALM if any(repeat.judged for repeat in summary.repeats) else Tone.UNKNOWN


def verdict(summary: TacticSummary, name: str, *, finished: bool) -> str:
    """Words what the first search found, over all its repeats, and what another found where it found nothing."""
    state = "" if finished else "Not finished yet. "
    if not summary.repeats:
        return f"{state}No condition was found yet."
    first, *others = summary.searches
    conditions = [each for repeat in summary.of(first) for each in repeat.conditions]
    worst = max(conditions, key=lambda each: each.errors[0])
    rate = worst.error_rate(0)
    bound = summary.bounds_deg[0]
    which = "the condition found" if len(conditions) == 1 else f"the worst of {len(conditions)} conditions"
    if worst.errors[0]:
        return (
            f"{state}Under {which} {name} moves by {bound:g}° or more on {count(worst.errors[0])} of "
            f"{counted(worst.judged, 'scene')}: {interval(rate.low, rate.high)} with 95 % confidence."
        )
    judged, shown = sum(each.judged for each in conditions), sum(each.scenes for each in conditions)
    only = "" if judged == shown else f" on the {count(judged)} of {counted(shown, 'answer')} that could be judged"
    said = f"Under {which} {name} never moves by {bound:g}° or more{only}." if judged else "Nothing was judged: every scene was refused."
    elsewhere = {search: sum(repeat.errors[0] for repeat in summary.of(search)) for search in others}
    found = ", ".join(f"{search_name(search)} found {counted(errors, 'error')}" for search, errors in elsewhere.items() if errors)
    return f"{state}{said}{f' But {found}.' if found else ''}"


def headlines(summary: TacticSummary) -> tuple[Headline, ...]:
    """The figures of the first search, over all its repeats."""
    repeats = summary.of(summary.searches[0]) if summary.repeats else ()
    judged = sum(repeat.judged for repeat in repeats)
    if not judged:
        return ()
    over = f", {len(repeats)} repeats" if len(repeats) > 1 else ""
    lines = [
        Headline(f"move by {bound:g}° or more", percent(errors / judged), f"{count(errors)} of {count(judged)}{over}")
        for bound, errors in zip(
            summary.bounds_deg[:4], (sum(each) for each in zip(*(repeat.errors for repeat in repeats), strict=True)), strict=False
        )
    ]
    inside, beyond = (float(value) for value in summary.means(summary.searches[0])[:2])
    words = f"and {percent(beyond)} of the regions beyond it (NBC){', means' if over else ''}"
    return (*lines, Headline("neuron coverage, inside the known range (KMNC)", percent(inside), words))


def notes(campaign: Tactic, summary: TacticSummary) -> list[str]:
    """Says how the figures came about."""
    s = campaign.settings
    said = [
        (
            "A condition is one style of the weather, applied to every scene. The subject should steer as it does on the scene as it is; "
            "an error at a bound is an answer that moved by so many degrees of the steering wheel or more."
        ),
        (
            f"Fitness F = {s.coverage_weight:g} F_c + {s.divergence_weight:g} norm(F_d): F_c is the share of uncovered "
            f"{s.criterion.upper()} regions that a style enters, F_d the mean divergence in radians, norm(x) = x / (x + 1). A search "
            f"ends after {_end_words(s)}; the next one starts from what is covered."
        ),
        "Intervals are 95 % Wilson intervals; neighbouring scenes are not independent, so read them as lower bounds of the uncertainty.",
    ]
    found = [each.condition for repeat in summary.repeats for each in repeat.conditions]
    dropped = sum(each.dropped for each in found)
    if dropped:
        word = "only where they cannot win" if s.risk == 0.0 else f"where they hardly can (risk {s.risk:g} a comparison)"
        tries = counted(sum(len(each.tries) for each in found), "try", "tries")
        said.append(f"{count(dropped)} of {tries} were dropped before they had seen all scenes, {word}.")
    farthest = max((each.farthest for each in found), default=0.0)
    limit = f"and kept within {s.style_limit:g}" if s.style_limit else "and not limited"
    said.append(
        f"Styles are drawn from N(0, 1) {limit}; the farthest number of a condition found is {farthest:.1f}. "
        "Far from 0 a condition may be none that a camera meets: look at the pictures."
    )
    said.append(filter_words(campaign, summary))
    cut = [f"{percent(share)} of {name.upper()}'s" for name, share in zip(GUIDES, summary.reachable, strict=True) if share < 1.0]
    if cut:
        said.append(
            f"Coverage is of all regions, those of a neuron times the neurons, as in the paper. Under this profile {' and '.join(cut)} can "
            "be reached at all: a constant neuron has one section. F_c, unlike the paper's, counts the reachable ones alone."
        )
    if not s.profile_drive:
        said.append("The neurons' bounds come from the drive itself as it is; the paper's from the training drive (--profile-drive).")
    if campaign.subject.lead:
        said.append(f"The subject looks at {campaign.subject.lead + 1} frames, all of which are under the condition.")
    return said


def filter_words(campaign: Tactic, summary: TacticSummary) -> str:
    """Says how many scenes the filter refused."""
    if not campaign.settings.validity:
        return "No filter of scenes was used: scenes that a style destroyed count as any other."
    rejected = [each.rejection_rate.estimate for repeat in summary.repeats for each in repeat.conditions] or [float("nan")]
    return f"The filter refused {percent(float(np.mean(rejected)))} of the scenes; they count neither as errors nor as covered."


def _end_words(settings: TacticSettings) -> str:
    """Says what ends a search."""
    if 0 < settings.iterations <= settings.patience:
        return counted(settings.iterations, "try", "tries")
    most = f", or {settings.iterations} in all" if settings.iterations else ""
    return f"{counted(settings.patience, 'try', 'tries')} without anything better{most}"
