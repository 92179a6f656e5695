"""A small made-up run, and a reader of pages that is strict about structure."""

from collections.abc import Sequence
from dataclasses import replace
from html.parser import HTMLParser
from math import inf, nan
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa

from skidpad.drives.drive import Problem, ProblemKind
from skidpad.kinds.pictures.charts import deviation_chart, picture_charts, picture_tables, problem_table
from skidpad.kinds.pictures.page import pictures_note
from skidpad.kinds.pictures.summary import CoverageGain, Rate
from skidpad.page.charts import DeviationHistogram
from skidpad.page.model import Headline, Page, Tone, run_page
from skidpad.page.pictures import PicturePair, cards
from skidpad.runs.manifest import Integrity

VOID = {"meta", "img", "br", "hr", "link", "input"}


class PageReader(HTMLParser):
    """Keeps every element with its attributes and its own text; a tag closed out of order is an error."""

    def __init__(self, html: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[tuple[str, dict[str, str]]] = []
        self.texts: list[str] = []
        self._open: list[int] = []
        self.feed(html)
        self.close()
        if self._open:
            raise AssertionError(f"never closed: {[self.elements[i][0] for i in self._open]}")

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        names = [name for name, _ in attrs]
        if len(names) != len(set(names)):
            raise AssertionError(f"<{tag}> has an attribute twice: {names}")
        self.elements.append((tag, {name: value or "" for name, value in attrs}))
        self.texts.append("")
        if tag not in VOID:
            self._open.append(len(self.elements) - 1)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self._open.pop()

    def handle_endtag(self, tag: str) -> None:
        opened = self.elements[self._open.pop()][0]
        if opened != tag:
            raise AssertionError(f"<{opened}> is closed by </{tag}>")

    def handle_data(self, data: str) -> None:
        for index in self._open:
            self.texts[index] += data

    def all(self, tag: str, **having: str) -> list[dict[str, str]]:
        """Attributes of every element of a tag; `class_="a"` asks for the class among others."""
        return [attributes for name, attributes in self.elements if name == tag and _has(attributes, having)]

    def text(self, tag: str, **having: str) -> list[str]:
        return [
            text for (name, attributes), text in zip(self.elements, self.texts, strict=True) if name == tag and _has(attributes, having)
        ]


def _has(attributes: dict[str, str], having: dict[str, str]) -> bool:
    return all(value in attributes.get(name.rstrip("_"), "").split() for name, value in having.items())


def frame(value: int = 90, height: int = 24, width: int = 32) -> np.ndarray:
    return np.full((height, width, 3), value, np.uint8)


def pair(**changes: Any) -> PicturePair:
    base = PicturePair(
        case_id="0123456789ab",
        frame_id="frame-7",
        recipe="fog(density=0.5)",
        original=frame(),
        mutant=frame(200),
        original_answer=2.0,
        mutant_answer=-12.0,
        excess=2.8,
        label_answer=1.0,
        replay="skidpad replay runs/a 0123456789ab",
    )
    return replace(base, **changes)


def rate(stimulus: str, findings: int, cases: int, parameters: str = "") -> Rate:
    return Rate.of(stimulus, parameters, cases, findings)


def gain(stimulus: str, together: int, criterion: str = "NC 0.2", total: int = 100) -> CoverageGain:
    return CoverageGain(criterion, stimulus, 50, together, total, total)


PAIRS = (pair(case_id="worst", excess=inf, mutant_answer=nan), pair(), pair(case_id="mild", excess=1.1, label_answer=nan))
RATES = (rate("fog", 25, 100), rate("rotation", 5, 100))
BY_PARAMETERS = tuple(rate(name, k, 10, f"p={k}") for name in ("fog", "rotation") for k in range(10))
GAINS = (gain("", 71), gain("fog", 65), gain("rotation", 56))
DEVIATIONS = DeviationHistogram((-10.0, -5.0, 0.0, 5.0, 10.0), (3, 80, 90, 27), 5.0, 1)
PROBLEMS = tuple(Problem(ProblemKind.CORRUPT, name, "") for name in ("a.jpg", "b.jpg"))


def no_run(config: dict[str, str], facts: dict[str, str], command: tuple[str, ...]) -> Any:
    """As much of a finished run as its page asks for."""
    manifest = SimpleNamespace(facts=lambda: facts, command=command, subject={})
    whole = {"is_finished": True, "damage": lambda: "", "integrity": Integrity(), "schema": pa.schema([])}
    return SimpleNamespace(config=config, manifest=manifest, path=Path("nowhere"), place="runs/a", **whole)


def model(
    findings: int = 30,
    pairs: Sequence[PicturePair] = PAIRS,
    rates: Sequence[Rate] = RATES,
    by_parameters: Sequence[Rate] = BY_PARAMETERS,
    gains: Sequence[CoverageGain] = GAINS,
    deviations: DeviationHistogram = DEVIATIONS,
    problems: Sequence[Problem] = PROBLEMS,
    config: dict[str, str] | None = None,
    facts: dict[str, str] | None = None,
    command: tuple[str, ...] = ("skidpad", "test", "pilotnet.toml", "track"),
    **changes: Any,
) -> Page:
    """The page of a run over pictures, as its kind makes it of these figures."""
    shown = cards(pairs)
    said = {
        "title": "PilotNet on a track",
        "tone": Tone.ALARM if findings else Tone.CALM,
        "verdict": "30 of 200 mutants steer more than 5° away.",
        "headlines": (Headline("Findings", "30", "in 200 cases"), Headline("Failure rate", "15.0 %"), Headline("Coverage", "71 %")),
        "context": {"Subject": "pilotnet.toml", "Drive": "track, 20 frames"},
        "notes": ("Positive angles steer left.",),
        "pictures": shown,
        "pictures_note": pictures_note(shown, findings, "steers-alike within 5°"),
        "charts": (*picture_charts(rates, by_parameters, gains), deviation_chart(deviations)),
        "tables": (*picture_tables(rates, by_parameters, gains), problem_table(problems)),
        **changes,
    }
    return run_page(no_run(config or {"seed": "7"}, facts or {"subject sha256": "ab" * 32}, command), **said)


def bare(**changes: Any) -> Page:
    """A page with nothing but what it must have."""
    return replace(Page("A run", Tone.UNKNOWN, "Nothing was run."), **changes)
