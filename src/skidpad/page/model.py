"""What a report of transformed recordings is made of; the campaign fills it, the report only draws it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from math import nan
from typing import TYPE_CHECKING

from skidpad.core.images import NumpyFrames
from skidpad.oracles.error import Scale

if TYPE_CHECKING:
    from skidpad.runs.tags import Tag, TaggedRates


class Tone(Enum):
    """How the verdict sounds: the words carry it, the colour only repeats it."""

    CALM = "calm"
    ALARM = "alarm"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Headline:
    """One of the figures that stand beside the verdict, already worded."""

    label: str
    value: str
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Fact:
    """One name with its value, of the configuration, the manifest or the subject."""

    name: str
    value: str


@dataclass(frozen=True, slots=True, eq=False)
class PicturePair:
    """One finding to look at: the frame, its mutant and what was answered.

    original, mutant: (height, width, 3) uint8 RGB, sizes may differ. Answers are in `unit`; degrees are drawn as arrows,
    positive steers left. NaN is "no finite answer", and for the label "no label". excess: above 1 is a finding; `scale` says what
    it counts. already_broken: whether the original breaks the relation too.
    """

    case_id: str
    frame_id: str
    stimulus: str
    recipe: str
    original: NumpyFrames
    mutant: NumpyFrames
    original_answer: float
    mutant_answer: float
    excess: float
    label_answer: float = nan
    unit: str = "deg"
    scale: Scale = Scale.ERRORS
    relation: str = ""
    replay: str = ""
    already_broken: bool = False


@dataclass(frozen=True, slots=True)
class RateRow:
    """How often a stimulus broke the relation, with the interval [low, high]; shares from 0 to 1, NaN without cases.

    parameters: "" for the stimulus as a whole. already_broken: violations whose original breaks the relation too.
    """

    stimulus: str
    parameters: str
    violations: int
    cases: int
    rate: float
    low: float
    high: float
    already_broken: int = 0


@dataclass(frozen=True, slots=True)
class CoverageRow:
    """Regions of one criterion reached by the originals alone and together with the mutants.

    total: what the papers divide by. reachable: the regions that the profile leaves; None where it leaves all.
    """

    criterion: str
    originals: int
    with_mutants: int
    total: int
    reachable: int | None = None


@dataclass(frozen=True, slots=True)
class YieldRow:
    """What one stimulus added to the coverage of the originals, beside the faults that it found."""

    stimulus: str
    criterion: str
    gained: int
    total: int
    violations: int
    cases: int


@dataclass(frozen=True, slots=True)
class DeviationHistogram:
    """How far the mutants' answers lie from the originals', in `unit`.

    edges: increasing, one more than counts. tolerance: where the relation begins to be broken, NaN where it
    has no such place. not_finite: cases left out because an answer was not finite.
    """

    edges: tuple[float, ...]
    counts: tuple[int, ...]
    tolerance: float = nan
    not_finite: int = 0
    unit: str = "deg"

    def __post_init__(self) -> None:
        if self.counts and len(self.edges) != len(self.counts) + 1:
            raise ValueError(f"{len(self.counts)} counts need {len(self.counts) + 1} edges; got {len(self.edges)}")


@dataclass(frozen=True, slots=True)
class Curve:
    """A named line of points, as cumulative coverage over cases; NaN breaks the line."""

    label: str
    x: tuple[float, ...]
    y: tuple[float, ...]

    def __post_init__(self) -> None:
        if len(self.x) != len(self.y):
            raise ValueError(f"curve {self.label!r} needs as many x as y; got {len(self.x)} and {len(self.y)}")


@dataclass(frozen=True, slots=True)
class CurvePlot:
    """Curves that share their axes."""

    title: str
    caption: str
    x_label: str
    y_label: str
    curves: tuple[Curve, ...]


@dataclass(frozen=True, slots=True)
class ProblemRow:
    """Broken frames of one kind: how many, and a few of them by name."""

    kind: str
    count: int
    examples: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Looked:
    """What people said about a run's findings: how many of each tag, with their rates, and the tags by case id."""

    rates: TaggedRates
    tags: Mapping[str, Tag]


@dataclass(frozen=True, slots=True)
class ReportModel:
    """Everything that the report of one run shows, in the order in which it shows it.

    findings and cases count the whole run; pairs may be a selection of the findings. rates_by_parameters keeps the
    grid's order within each stimulus. warnings: what a reader must know before believing the verdict. looked: what people said
    about the findings.
    """

    title: str
    verdict: str
    cases: int
    findings: int
    headlines: tuple[Headline, ...]
    subject: str = ""
    output: str = ""
    drive: str = ""
    pairs: tuple[PicturePair, ...] = ()
    rates: tuple[RateRow, ...] = ()
    rates_by_parameters: tuple[RateRow, ...] = ()
    coverage: tuple[CoverageRow, ...] = ()
    yields: tuple[YieldRow, ...] = ()
    deviations: DeviationHistogram | None = None
    curve_plots: tuple[CurvePlot, ...] = ()
    problems: tuple[ProblemRow, ...] = ()
    configuration: tuple[Fact, ...] = ()
    manifest: tuple[Fact, ...] = ()
    commands: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()
    looked: Looked | None = None
    undecided: bool = False

    @property
    def tone(self) -> Tone:
        """A run without cases, or with a tolerance that lets everything pass, proves nothing, so it is not calm."""
        if self.undecided:
            return Tone.UNKNOWN
        if self.findings > 0:
            return Tone.ALARM
        return Tone.CALM if self.cases > 0 else Tone.UNKNOWN
