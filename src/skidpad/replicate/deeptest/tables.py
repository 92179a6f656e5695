"""DeepTest's Tables 7, 8 and 9 with our figures, as sheets."""

from __future__ import annotations

from math import isnan
from typing import TYPE_CHECKING

from skidpad.replicate.deeptest import paper
from skidpad.replicate.render import p_text
from skidpad.replicate.rows import Figure, Sheet, ratio

if TYPE_CHECKING:
    from skidpad.replicate.deeptest.erroneous import Erroneous
    from skidpad.replicate.deeptest.retraining import Retraining


def table_7(answer: Erroneous) -> tuple[Sheet, Sheet]:
    """Returns the paper's Table 7 and ours; ours with the share of the pictures in percent."""
    columns = ("lambda", *(f"simple, epsilon {epsilon}" for epsilon in paper.EPSILONS_SCALED2), "fog", "rain", "guided")
    published = tuple((row.lambda_, *row.simple, row.fog, row.rain, row.guided) for row in paper.TABLE_7)
    counts = (*answer.simple, *answer.composite)
    ours: tuple[tuple[Figure, ...], ...] = tuple(
        (int(lambda_), *(_with_rate(column.violations[place], column.cases) for column in counts))
        for place, lambda_ in enumerate(answer.lambdas)
    )
    kept = ", ".join(f"{column.name}: {column.parameters}" for column in answer.simple)
    note = (
        f"Out of {', '.join(f'{column.cases} ({column.name})' for column in (answer.simple[0], *answer.composite))} pictures; "
        f"parameters that Eq. 3 keeps, of 70: {kept}. MSE_orig = {answer.mse_original_rad2:.4g} rad^2."
    )
    return (
        Sheet("RQ4, Table 7: violations, the paper's three models", columns, published),
        Sheet("RQ4, Table 7: violations, ours (share of the pictures)", columns, ours, note.replace("(epsilon 0.01)", "(simple)")),
    )


def table_8(answer: Erroneous) -> Sheet:
    """Returns Table 8 with our counts and rates beside the paper's three models."""
    ours = {count.stimulus: count for count in answer.by_stimulus}
    rows: list[tuple[Figure, ...]] = []
    for found in paper.TABLE_8:
        count = ours[found.stimulus]
        published = 100.0 * ratio(found.epoch, found.of_epoch) if found.of_epoch else None
        rows.append(
            (
                found.stimulus,
                found.chauffeur,
                found.rambo,
                found.epoch,
                published,
                count.violations,
                100.0 * ratio(count.violations, count.cases),
                count.cases,
                count.kept_cases,
            )
        )
    columns = ("stimulus", "Chauffeur", "Rambo", "Epoch", "Epoch (%)", "ours", "ours (%)", "our pictures", "kept by Eq. 3")
    return Sheet("RQ4, Table 8: violations at lambda 5, epsilon 0.03", columns, tuple(rows))


def figure_6(answer: Erroneous) -> Sheet:
    """Returns the errors of violating pictures and of their originals, by kind."""
    rows = tuple(
        (row.pictures, row.cases, row.violations, row.mse_violating_rad2, row.mse_originals_rad2, row.times, p_text(row.p_value))
        for row in answer.deviations
    )
    columns = ("pictures", "cases", "violations", "MSE violating (rad^2)", "MSE originals (rad^2)", "ratio", "signed-rank")
    return Sheet("RQ4, Figure 6: violating pictures beside their originals, lambda 5", columns, rows)


def table_9(answer: Retraining) -> Sheet:
    """Returns Table 9 with our errors, and those of the control, under both splits."""
    rows: list[tuple[Figure, ...]] = [
        (row.pictures, "the paper's Epoch", None, row.before, row.after, None, 100.0 * (row.after / row.before - 1.0), *(None,) * 5)
        for row in paper.TABLE_9
    ]
    for report in answer.reports:
        rows += [
            _known(
                row.pictures,
                f"ours, {report.settings.split.value} split",
                row.cases,
                row.mse_before_rad2,
                row.mse_after_rad2,
                row.mse_control_rad2,
                100.0 * row.mse_change,
                100.0 * row.mse_change_control,
                100.0 * row.mse_change_beyond_control,
                row.rmse_before_rad,
                row.rmse_after_rad,
                row.rmse_control_rad,
            )
            for row in report.improvements
        ]
    columns = (
        *("held out", "whose", "pictures", "MSE before", "MSE after", "MSE control", "change (%)", "change of control (%)"),
        *("change beyond control (%)", "RMSE before (rad)", "RMSE after (rad)", "RMSE control (rad)"),
    )
    note = "The unit of the paper's MSE is not said; ours is rad^2. " + " ".join(
        f"{note[:1].upper()}{note[1:]}." for note in dict.fromkeys(note for report in answer.reports for note in report.notes)
    )
    return Sheet("RQ5, Table 9: errors before and after retraining, and of the control", columns, tuple(rows), note)


def _known(*figures: Figure) -> tuple[Figure, ...]:
    return tuple(None if isinstance(figure, float) and isnan(figure) else figure for figure in figures)


def _with_rate(violations: int, cases: int) -> str:
    return f"{violations} ({100.0 * ratio(violations, cases):.2g} %)" if cases else str(violations)
