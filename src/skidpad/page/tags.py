"""What people said about the findings of a run, on its report: rates with and without the false alarms, and a mark on each picture.

Reference: DeepTest 5 (RQ4, Figure 8), where the authors look at findings by hand and count the false positives.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import TYPE_CHECKING

from skidpad.page.build import Page, Table
from skidpad.page.model import Headline, Looked
from skidpad.page.wording import count, counted, interval, percent
from skidpad.runs.tags import TaggedRates, Tags, tagged_rates

if TYPE_CHECKING:
    from skidpad.runs.folder import Run


_UNJUDGED = {"compare": ("matched", "offline")}
"""Phases whose records are no cases of a rate, by the kind of campaign; elsewhere such records have no excess."""


def looked_at(run: Run) -> Looked | None:
    """Reads the tags of a run; None where nobody has tagged a finding."""
    tags = Tags.of(run.path).current()
    if not tags:
        return None
    rates = tagged_rates(run, _UNJUDGED.get(str(run.config.get("campaign")), ()))
    return Looked(rates, tags) if rates.untagged < rates.findings else None


def tags_payload(looked: Looked | None) -> Mapping[str, object]:
    """Returns the tags of a run as plain values: how many of each, and the rates that they leave; nothing where there are none."""
    if looked is None:
        return {}
    rates = looked.rates
    return {
        "tags": {
            **asdict(rates),
            "untagged": rates.untagged,
            "rate": asdict(rates.rate),
            "rate_without_false_alarms": asdict(rates.without_false_alarms),
            "confirmed_rate": asdict(rates.confirmed),
        }
    }


def with_tags(page: Page, looked: Looked | None) -> Page:
    """Returns the page with what people said: one more figure, one more table, and the tag beside each picture."""
    if looked is None:
        return page
    rates = looked.rates
    kept = rates.without_false_alarms
    alarms = f"{counted(rates.false_alarms, 'false alarm')} of {counted(rates.findings, 'finding')}"
    said = f"95 % interval {interval(kept.low, kept.high)}; {alarms}, {count(rates.untagged)} not looked at"
    return replace(
        page,
        headlines=(*page.headlines, Headline("rate without false alarms", percent(kept.estimate), said)),
        tables=(_table(rates), *page.tables),
        pictures=tuple(replace(card, tag=_tag(looked, card.case_id)) for card in page.pictures),
        films=tuple(replace(film, tag=_tag(looked, film.case_id)) for film in page.films),
    )


def _tag(looked: Looked, case_id: str) -> str:
    tag = looked.tags.get(case_id)
    return tag.value if tag is not None else ""


def _table(rates: TaggedRates) -> Table:
    rows = (
        ("as the oracle judges", rates.findings, rates.cases, rates.rate),
        ("without those that people call false alarms", rates.findings - rates.false_alarms, rates.cases, rates.without_false_alarms),
        ("those that people call real faults", rates.real_faults, rates.cases, rates.confirmed),
        ("real faults among the decided", rates.real_faults, rates.real_faults + rates.false_alarms, rates.precision),
    )
    words = tuple(
        (name, count(hits), count(trials), percent(rate.estimate), interval(rate.low, rate.high)) for name, hits, trials, rate in rows
    )
    note = (
        f"{counted(rates.real_faults, 'finding')} tagged as real faults, {count(rates.false_alarms)} as false alarms, "
        f"{count(rates.unclear)} as unclear, {count(rates.untagged)} not looked at."
    )
    return Table("tags", "Findings that people have looked at", ("Findings", "Number", "of", "Rate", "95 % interval"), words, note=note)
