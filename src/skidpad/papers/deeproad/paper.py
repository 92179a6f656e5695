"""DeepRoad's published figures, as printed, and what is to be minded about them."""

from __future__ import annotations

from dataclasses import dataclass

PAPER = "DeepRoad"

THRESHOLDS_DEG = (10.0, 20.0, 30.0, 40.0)

FRAMES = 20_826
"""Both episodes of Table 1: 15,212 + 5,614. The paper does not say on which of them Table 2 was counted."""


@dataclass(frozen=True, slots=True)
class PaperRow:
    """One row of Table 2: inconsistent behaviours at 10, 20, 30 and 40 degrees."""

    weather: str
    model: str
    counts: tuple[int, int, int, int]


TABLE_2 = (
    PaperRow("snowy", "Autumn", (11635, 11602, 11388, 10239)),
    PaperRow("snowy", "Chauffeur", (4839, 2105, 1093, 653)),
    PaperRow("snowy", "Rwightman", (334, 115, 45, 14)),
    PaperRow("rainy", "Autumn", (5279, 5279, 5279, 5279)),
    PaperRow("rainy", "Chauffeur", (710, 175, 94, 71)),
    PaperRow("rainy", "Rwightman", (656, 92, 23, 0)),
)

COUNTERPARTS = {"snow": "snowy", "wet": "rainy", "rain": "rainy"}
"""Which of the paper's weathers one of ours is most like, by a word in its name."""

TRAPS = (
    (
        "The paper counts on Udacity's two episodes (15,212 and 5,614 frames) and does not say on which of them a row of Table 2 was "
        "counted: shares of its counts cannot be worked out, so ours stand beside them and are not subtracted. Autumn under rain, 5,279 at "
        "every bound, would be 94 % of the second episode or 25 % of both."
    ),
    (
        "A model that is as often off by 40 degrees as by 10 (Autumn under rain) no longer answers to what it sees: its input is optical "
        "flow, which translating frame by frame may disturb. A subject with memory is shown one weather over its whole window here."
    ),
    (
        "A bound in degrees favours networks that hardly steer: one that always answers 0 has no inconsistent behaviour. The spread of "
        "each subject's answers on the recorded frames stands beside its counts, and the change in units of that spread."
    ),
    (
        "The paper's models were entries of Udacity's challenge, and its weathers came from one video each; ours are other networks and "
        "other pictures. What can be compared is the order of magnitude, and whether the ranks hold."
    ),
    (
        "The paper uses UNIT, which has one look for a weather; one that was learned by MUNIT is under the style that real pictures of it "
        "have on average, unless another is named."
    ),
    "Angles are those that a network answers, read in the unit of its description: degrees of the steering wheel for Udacity's labels.",
)
