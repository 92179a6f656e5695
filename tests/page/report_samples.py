"""A small made-up run, and a reader of pages that is strict about structure."""

from dataclasses import replace
from html.parser import HTMLParser
from math import inf, nan
from typing import Any

import numpy as np

from skidpad.page.model import (
    CoverageRow,
    Curve,
    CurvePlot,
    DeviationHistogram,
    Fact,
    Headline,
    PicturePair,
    ProblemRow,
    RateRow,
    ReportModel,
    YieldRow,
)

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
        stimulus="fog",
        recipe="fog(density=0.5)",
        original=frame(),
        mutant=frame(200),
        original_answer=2.0,
        mutant_answer=-12.0,
        excess=2.8,
        label_answer=1.0,
        relation="steers-alike within 5°",
        replay="skidpad replay runs/a 0123456789ab",
    )
    return replace(base, **changes)


def rate(stimulus: str, violations: int, cases: int, parameters: str = "") -> RateRow:
    if cases == 0:
        return RateRow(stimulus, parameters, 0, 0, nan, nan, nan)
    share = violations / cases
    return RateRow(stimulus, parameters, violations, cases, share, max(share - 0.05, 0.0), min(share + 0.05, 1.0))


def model(**changes: Any) -> ReportModel:
    base = ReportModel(
        title="PilotNet on a track",
        verdict="30 of 200 mutants steer more than 5° away.",
        cases=200,
        findings=30,
        headlines=(Headline("Findings", "30", "in 200 cases"), Headline("Failure rate", "15.0 %"), Headline("Coverage", "71 %")),
        subject="pilotnet.toml",
        drive="track, 20 frames",
        pairs=(pair(), pair(case_id="worst", excess=inf, mutant_answer=nan), pair(case_id="mild", excess=1.1, label_answer=nan)),
        rates=(rate("fog", 25, 100), rate("rotation", 5, 100)),
        rates_by_parameters=tuple(rate(name, k, 10, f"p={k}") for name in ("fog", "rotation") for k in range(10)),
        coverage=(CoverageRow("NC 0.2", 50, 71, 100),),
        yields=(YieldRow("fog", "NC 0.2", 15, 100, 25, 100), YieldRow("rotation", "NC 0.2", 6, 100, 5, 100)),
        deviations=DeviationHistogram((-10.0, -5.0, 0.0, 5.0, 10.0), (3, 80, 90, 27), 5.0, 1),
        curve_plots=(CurvePlot("Growth", "As cases are added.", "cases", "regions", (Curve("guided", (0.0, 1.0), (50.0, 71.0)),)),),
        problems=(ProblemRow("corrupt", 2, ("a.jpg", "b.jpg")),),
        configuration=(Fact("seed", "7"),),
        manifest=(Fact("subject sha256", "ab" * 32),),
        commands=("skidpad test pilotnet.toml track --seed 7",),
        notes=("Positive angles steer left.",),
    )
    return replace(base, **changes)


def bare(**changes: Any) -> ReportModel:
    """A model with nothing but what it must have."""
    return replace(ReportModel("A run", "Nothing was run.", 0, 0, ()), **changes)
