"""The limits of a network as a statement of its operational design domain, in the words of ISO 34503 and PAS 1883."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from skidpad.core.errors import SkidpadError
from skidpad.kinds.limits.campaign import Limits
from skidpad.kinds.limits.curves import LimitRow, all_rows, with_unit
from skidpad.kinds.limits.page import definitions, fails_words, holds_words, note_of, short_words, tolerance_words
from skidpad.kinds.limits.summary import Found, Limit, limit_payload
from skidpad.page.model import Fact, Headline, Page, Table, Tone, run_warnings
from skidpad.page.wording import counted, drive_words, percent, plain
from skidpad.page.writing import page_markdown, render_page
from skidpad.stimuli.registry import stimuli

if TYPE_CHECKING:
    from skidpad.kinds.kind import Campaign
    from skidpad.runs.folder import Run

TAXONOMY: Mapping[str, Sequence[str]] = {
    "Scenery": (
        "zones",
        "drivable area type",
        "drivable area geometry",
        "lane specification",
        "drivable area signs",
        "drivable area edge",
        "drivable area surface",
        "junctions",
        "basic road structures",
        "special structures",
        "temporary structures",
    ),
    "Environmental conditions": (
        "wind",
        "rainfall",
        "snowfall",
        "visibility",
        "particulates",
        "illumination",
        "cloudiness",
        "artificial illumination",
        "connectivity",
    ),
    "Dynamic elements": ("traffic agents", "subject vehicle speed"),
}
"""Attributes of an operational design domain. Reference: ISO 34503:2023, clauses 9 to 11; BSI PAS 1883:2020, clause 5."""

_WORDS = {
    "fog": "visibility",
    "mist": "visibility",
    "rain": "rainfall",
    "snow": "snowfall",
    "road surface": "drivable area surface",
    "light": "illumination",
}
"""What an attribute may be called besides its name in the taxonomy."""

CAMERA = "Camera system"
"""What is no attribute of the domain: exposure, lens and mounting of the subject vehicle's sensor."""


def attribute_of(row: LimitRow) -> tuple[str, str]:
    """Returns the part of the taxonomy and the attribute that a row belongs to; what the taxonomy lacks is of the camera system."""
    said = row.severity.attribute.lower()
    known = [(part, name) for part, names in TAXONOMY.items() for name in names]
    for part, name in sorted(known, key=lambda each: -len(each[1])):
        if re.search(rf"\b{name}\b", said):
            return part, name
    for word, name in _WORDS.items():
        if re.search(rf"\b{word}\b", said):
            return next(part for part, names in TAXONOMY.items() if name in names), name
    return CAMERA, row.severity.attribute or row.name


def statement(campaign: Campaign, run: Run, suffix: str) -> str:
    """Writes the statement as Markdown, JSON or HTML."""
    if not isinstance(campaign, Limits):
        raise SkidpadError(f"{run.path} is no run of `skidpad limits`, so that it says nothing of an operational design domain")
    found = Found.of(campaign, run)
    if suffix == ".json":
        return json.dumps(odd_payload(found), indent=2, ensure_ascii=False, default=str) + "\n"
    page = odd_page(found)
    return render_page(page) if suffix == ".html" else page_markdown(page)


def odd_page(found: Found) -> Page:
    """Builds the statement: what was tested and how, how far the network holds, and what was not tested."""
    campaign, run = found.campaign, found.run
    name = plain(campaign.subject.description.name, 80)
    settings = campaign.settings
    tested = len(found.limits)
    failing = sum(each.curve.fails_from is not None for each in found.limits)
    tolerance = tolerance_words(campaign)
    criterion = f"{settings.relation}{f', tolerance {tolerance}' if tolerance else ''}"
    in_part = {attribute_of(each.row)[1] for each in found.limits}
    return Page(
        title=f"Operational design domain of {name}, as tested",
        tone=Tone.UNKNOWN,
        verdict=("" if run.is_finished else "Not finished yet. ")
        + f"{name} was tested under {counted(tested, 'condition')} on {counted(len(found.frames), 'frame')} of one drive. It failed under "
        f"{failing or 'none'} of the {counted(tested, 'condition')} tested. "
        "Within the limits below it holds on that drive; nothing is claimed beyond them.",
        headlines=(
            Headline("conditions tested", str(tested)),
            Headline("attributes not tested", str(sum(name not in in_part for _, name, _ in _untested(found)))),
        ),
        context=(
            Fact("Subject", name),
            Fact("Subject sha256", run.manifest.hashes.get("subject", "")),
            Fact("Drive", drive_words(settings.drive)),
            Fact("Drive sha256", run.manifest.hashes.get("drive", "")),
            Fact("Criterion", f"{criterion}; {percent(settings.accepted_share)} of frames may fail"),
        ),
        notes=(
            (
                "Attributes are named as in ISO 34503 and PAS 1883. Exposure, lens and mounting belong to the camera system of the subject "
                "vehicle and are stated apart."
            ),
            *definitions(found),
            (
                "A condition is computed onto recorded frames. The statement covers the scenes of this drive; it does not replace driving "
                "in the real condition."
            ),
        ),
        tables=(_untested_table(found),),
        warnings=(*run_warnings(run), *short_words(found)),
        lead_tables=tuple(_tested_tables(found)),
    )


def odd_payload(found: Found) -> dict[str, Any]:
    """Returns the statement as plain values."""
    accepted = found.campaign.settings.accepted_share
    tested = [(*attribute_of(limit.row), limit) for limit in found.limits]
    return {
        "standard": ["ISO 34503:2023", "BSI PAS 1883:2020"],
        "subject": {"name": found.campaign.subject.description.name, "sha256": found.run.manifest.hashes.get("subject", "")},
        "drive": {"name": drive_words(found.campaign.settings.drive), "sha256": found.run.manifest.hashes.get("drive", "")},
        "criterion": {
            "relation": found.campaign.settings.relation,
            "tolerance": found.campaign.settings.tolerance,
            "accepted_share": accepted,
        },
        "frames": len(found.frames),
        "tested": [
            {"part": part, "attribute": name, "source": limit.row.severity.source}
            | {key: value for key, value in limit_payload(limit, accepted).items() if key not in {"curve", "online", "attribute"}}
            for part, name, limit in tested
        ],
        "not_tested": [{"part": part, "attribute": name, "why": why} for part, name, why in _untested(found)],
        "definitions": list(definitions(found)),
    }


def _tested_tables(found: Found) -> list[Table]:
    tables = []
    for part in (*TAXONOMY, CAMERA):
        rows = [(name, limit) for place, name, limit in ((*attribute_of(each.row), each) for each in found.limits) if place == part]
        if rows:
            columns = ("Attribute", "Condition", "Tested", "Holds to", "Fails from", "Kept by the referee", "Note")
            words = tuple((plain(name, 60), *_tested(limit)) for name, limit in rows)
            tables.append(Table(f"tested-{part.split()[0].lower()}", f"{part}: tested", columns, words, numbers_from=len(columns)))
    return tables


def _tested(limit: Limit) -> tuple[str, ...]:
    severity = limit.row.severity
    tested = f"{with_unit(severity.harmless, '')} to {with_unit(severity.worst, severity.unit)}"
    return plain(limit.row.name, 60), tested, holds_words(limit), fails_words(limit), percent(limit.kept_share), note_of(limit)


def _untested(found: Found) -> list[tuple[str, str, str]]:
    """Returns what was not tested, with the reason: conditions that were left out, of every attribute, and attributes without any."""
    tested = {attribute_of(limit.row) for limit in found.limits}
    names = {limit.row.name for limit in found.limits}
    left: dict[tuple[str, str], list[str]] = {}
    for row in all_rows(stimuli(), found.campaign.settings.steps):
        if row.name not in names:
            left.setdefault(attribute_of(row), []).append(row.name)
    known = [(part, name) for part, attributes in TAXONOMY.items() for name in attributes]
    rows = []
    for each in [*known, *(found for found in left if found[0] == CAMERA)]:
        if each in left:
            rows.append((*each, f"{'tested in part; ' if each in tested else ''}left out: {', '.join(left[each])}"))
        elif each not in tested:
            rows.append((*each, "no condition for it"))
    return rows


def _untested_table(found: Found) -> Table:
    rows = tuple((plain(part, 60), plain(name, 80), plain(why)) for part, name, why in _untested(found))
    return Table(
        "not-tested", "Not tested", ("Part", "Attribute", "Why"), rows, numbers_from=3, note="Outside of what was tested nothing is known."
    )
