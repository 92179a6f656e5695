"""The scoreboard of offline and online testing, and the tables behind it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import degrees

from skidpad.campaigns.comparing_summary import Comparison
from skidpad.oracles.agreement import Agreement
from skidpad.replicate.offline_online import paper
from skidpad.replicate.rows import Figure, Row, Sheet


@dataclass(frozen=True, slots=True, eq=False)
class SubjectAnswer:
    """One subject's comparison, and the paper's model that is most like it: the recurrent one for a network that looks back."""

    name: str
    lead: int
    found: Comparison

    @property
    def model(self) -> paper.Model:
        """The paper's counterpart."""
        return paper.CHAUFFEUR if self.lead else paper.AUTUMN

    @property
    def other(self) -> paper.Model:
        """The paper's other subject."""
        return paper.AUTUMN if self.lead else paper.CHAUFFEUR


def rq0_rows(answer: SubjectAnswer) -> tuple[Row, ...]:
    """Returns RQ0 for one subject; nothing where no recorded drive was given."""
    matching = answer.found.matching
    if matching is None:
        return ()
    model, other = answer.model, answer.other
    question = f"RQ0 {answer.name}"
    share = matching.consistent
    lost = sum(pair.difference > 0.1 for pair in matching.comparable)
    return (
        Row.beside(question, "MAE on the recorded drive", model.mae, answer.found.recorded_mae, "", f"{other.name} {other.mae}"),
        Row.compared(
            question,
            "scenarios comparable with a part of the recording (%)",
            100.0 * paper.COMPARABLE / paper.SCENARIOS,
            100.0 * len(matching.comparable) / max(len(matching.pairs), 1),
            f"{len(matching.comparable)} of {len(matching.pairs)}",
        ),
        Row.compared(
            question,
            "mean difference of MAE, simulated and recorded",
            model.mean_difference,
            matching.mean_difference,
            "",
            f"{other.name} {other.mean_difference}",
        ),
        Row.compared(
            question,
            "pairs that differ by at most 0.1 (%)",
            100.0 * model.consistent,
            100.0 * share.estimate,
            f"95 % interval {share.low:.1%} to {share.high:.1%}; {matching.worse_simulated} of the {lost} others are worse simulated",
            f"{other.name} {100.0 * other.consistent:g}",
        ),
    )


def rq1_rows(answer: SubjectAnswer) -> tuple[Row, ...]:
    """Returns RQ1 for one subject."""
    model, other, found = answer.model, answer.other, answer.found
    table = found.agreement
    question = f"RQ1 {answer.name}"
    return (
        Row.compared(
            question,
            "scenarios on which offline and online differ (%)",
            100.0 * model.disagreement,
            100.0 * found.disagreement.estimate,
            _interval(found.disagreement.low, found.disagreement.high, table.disagreeing, table.total),
            f"{other.name} {100.0 * other.disagreement:g}",
        ),
        Row.compared(
            question,
            "false-safe: unsafe online, accepted offline (%)",
            100.0 * model.false_safe_rate,
            100.0 * found.false_safe.estimate,
            _interval(found.false_safe.low, found.false_safe.high, table.false_safe, table.unsafe_online),
            f"{other.name} {100.0 * other.false_safe_rate:.3g}",
        ),
        Row.compared(
            question,
            "false alarms: safe online, refused offline",
            model.false_alarm,
            table.false_alarm,
            _interval(found.false_alarm.low, found.false_alarm.high, table.false_alarm, table.safe_online),
            f"{other.name} {other.false_alarm}",
        ),
        Row.compared(
            question,
            "which is more optimistic",
            "offline",
            table.optimist,
            f"one-sided sign test over the disagreements: p = {found.optimism_p:.2g}",
            f"{other.name} offline",
        ),
        Row.beside(question, "rank correlation of MAE and MDCL", None, found.rank_correlation, "not in the paper"),
    )


def table_3(answer: SubjectAnswer) -> Sheet:
    """Returns Table III, ours and the counterpart's."""
    model, found = answer.model, answer.found
    ours = found.agreement
    theirs = Agreement(model.both_safe, model.false_safe, model.false_alarm, model.both_unsafe)
    rows: list[tuple[Figure, ...]] = []
    for whose, table in ((f"{answer.name}, ours", ours), (f"{model.name}, the paper's", theirs)):
        rows.append((whose, "MDCL < 0.7", table.both_safe, table.false_alarm, table.safe_online))
        rows.append((whose, "MDCL >= 0.7", table.false_safe, table.both_unsafe, table.unsafe_online))
    title = f"Table III: {answer.name}"
    note = f"Ours with MAE below {found.mae_limit:g} ({found.unit.value}) and MDCL below {found.mdcl_limit:g}."
    return Sheet(title, ("subject", "online", "MAE < 0.1", "MAE >= 0.1", "total"), tuple(rows), note)


def sensitivity(answer: SubjectAnswer) -> Sheet:
    """Returns Table III at other thresholds."""
    unit = answer.found.unit
    rows = tuple(
        (
            each.mae_limit,
            round(degrees(each.mae_limit * unit.rad), 2),
            each.mdcl_limit,
            each.agreement.both_safe,
            each.agreement.false_safe,
            each.agreement.false_alarm,
            each.agreement.both_unsafe,
            each.agreement.optimist,
        )
        for each in answer.found.sensitivity
    )
    columns = (
        *(f"MAE below ({unit.value})", "degrees of the wheel", "MDCL below"),
        *("both safe", "false-safe", "false alarm", "both unsafe", "more optimistic"),
    )
    return Sheet(f"Other thresholds: {answer.name}", columns, rows)


def scoreboard(answers: Sequence[SubjectAnswer]) -> tuple[Row, ...]:
    """Returns both questions for every subject."""
    return (*(row for answer in answers for row in rq0_rows(answer)), *(row for answer in answers for row in rq1_rows(answer)))


def _interval(low: float, high: float, part: int, whole: int) -> str:
    return f"{part} of {whole}; 95 % interval {low:.1%} to {high:.1%}"
