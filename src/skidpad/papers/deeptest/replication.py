"""Replicates DeepTest: its five questions, and Tables 7, 8 and 9 with our figures."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from math import isnan
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from skidpad.core.errors import BadSubjectError
from skidpad.core.progress import Progress, silent
from skidpad.core.settings import jsonable
from skidpad.drives.opening import open_drive
from skidpad.kinds.pictures.judging import Originals
from skidpad.papers.deeptest import paper
from skidpad.papers.deeptest.coverage import Association, Combination, Diversity, associate, combine, diversify, read_activated
from skidpad.papers.deeptest.erroneous import Erroneous, judge, read_mutants
from skidpad.papers.deeptest.retraining import ReplicationSettings, Retraining, Runs, measure, retrain
from skidpad.papers.scoreboard import Figure, Replication, Row, Sheet, p_text, ratio
from skidpad.repairs.retraining import check_repairable
from skidpad.repairs.settings import RepairSettings
from skidpad.subjects.loading import load_network

if TYPE_CHECKING:
    from skidpad.papers.deeptest.erroneous import Erroneous
    from skidpad.papers.deeptest.retraining import Retraining
    from skidpad.runs.folder import Run


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


def refereed_by_stimulus(run: Run) -> tuple[tuple[str, int, int, int], ...]:
    """Counts the referee's words on the violations of the grid: stimulus, kept, refused, unclear; nothing where it was not asked."""
    counts: Counter[tuple[str, str]] = Counter()
    for table in run.iter_records("grid", ("stimulus", "referee")):
        said = table.filter(table["referee"].is_valid())
        counts.update(zip(said["stimulus"].to_pylist(), said["referee"].to_pylist(), strict=True))
    names = dict.fromkeys(name for name, _ in counts)
    return tuple((name, counts[name, "kept"], counts[name, "refused"], counts[name, "unclear"]) for name in names)


def referee_sheet(rows: tuple[tuple[str, int, int, int], ...]) -> Sheet:
    """Returns what the referee says of the violations: the paper counts them all."""
    note = "These figures count every violation, as the paper does; the referee (docs/referee.md) takes those that it kept for faults."
    return Sheet("RQ4: which violations still show the same scene", ("stimulus", "kept", "refused", "unclear"), rows, note)


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


@dataclass(frozen=True, slots=True)
class DeepTestReplication(Replication):
    """The five answers on one subject and drive; `retraining` is None, and `not_retrained` says why, where it cannot be trained."""

    paper_name: ClassVar = "DeepTest"
    title: ClassVar = "DeepTest, replicated"
    beside: ClassVar = paper.MODEL
    traps: ClassVar = paper.TRAPS

    settings: ReplicationSettings
    subject: str
    drive: str
    frames: int
    mse_rad2: float
    association: Association
    diversity: Diversity
    combination: Combination
    erroneous: Erroneous
    retraining: Retraining | None
    not_retrained: str = ""
    refereed: tuple[tuple[str, int, int, int], ...] = ()

    def rows(self) -> tuple[Row, ...]:
        """Returns the scoreboard."""
        accuracy = Row.compared(
            "set-up",
            "RMSE on the drive (rad)",
            0.10,
            self.mse_rad2**0.5,
            "Table 3 calls it MSE and reports 0.08; the figures are the challenge's RMSE in radians",
            "Chauffeur 0.06, Rambo 0.05",
        )
        last = self.retraining.rows() if self.retraining is not None else (Row.beside("RQ5", "retraining", None, None, self.not_retrained),)
        answers = (self.association, self.diversity, self.combination, self.erroneous)
        return (accuracy, *(row for answer in answers for row in answer.rows()), *last)

    def behind(self) -> tuple[Sheet, ...]:
        """Returns the tables behind the scoreboard."""
        return (
            self.diversity.sheet(),
            self.combination.sheet(),
            figure_6(self.erroneous),
            *table_7(self.erroneous),
            table_8(self.erroneous),
            *((referee_sheet(self.refereed),) if self.refereed else ()),
            *((table_9(self.retraining),) if self.retraining is not None else ()),
        )

    def facts(self) -> tuple[str, ...]:
        """Returns what was measured, in words."""
        return (
            f"subject: {self.subject}, {self.association.neurons} neurons (a convolution's filter is one)",
            f"drive: {self.drive}, {self.frames} frames",
            f"evenly spaced frames: {self.diversity.pictures} for RQ2, RQ4 and RQ5, {self.combination.seeds} seeds for RQ3; RQ1 takes all",
            f"seed {self.settings.seed}",
        )

    def payload(self) -> dict[str, Any]:
        """Returns everything as plain values for JSON."""
        values: dict[str, Any] = jsonable(self)
        return {"paper": "DeepTest", "model": paper.MODEL, "rows": jsonable(self.rows()), **values, "traps": list(paper.TRAPS)}


def replicate(
    settings: ReplicationSettings, folder: Path, progress: Callable[[str], Progress] = lambda _name: silent
) -> DeepTestReplication:
    """Answers the five questions and writes FOLDER/deeptest.json and FOLDER/deeptest.md; what the folder holds is not computed again.

    progress: gives the progress of each stage by its name.
    """
    subject = load_network(settings.subject, settings.device)
    train_drive = open_drive(settings.train_drive) if settings.train_drive else None
    runs = measure(settings, folder, progress)
    not_retrained = ""
    retraining = None
    try:
        check_repairable(subject)
    except BadSubjectError as error:
        not_retrained = str(error)
    else:
        repair = RepairSettings(
            max_mutants=settings.max_mutants,
            epochs=settings.epochs,
            control=settings.control,
            kept_alone=False,
            seed=settings.seed,
            device=settings.device,
        )
        retraining = retrain(subject, runs.grid, train_drive, folder, repair, progress("repair"))
    answer = answer_from(runs, settings, retraining, not_retrained)
    answer.write(folder, "deeptest")
    return answer


def answer_from(runs: Runs, settings: ReplicationSettings, retraining: Retraining | None, not_retrained: str = "") -> DeepTestReplication:
    """Answers the questions from finished runs; nothing is run again."""
    drive, subject = runs.originals.campaign.drive, runs.originals.campaign.subject
    grid = runs.grid
    # Eq. 3 compares means of pictures with that of originals: of the same frames, or their difference is one of frames.
    mse_tested_rad2 = Originals.of(grid.run, len(grid.campaign.drive)).mse_rad2
    return DeepTestReplication(
        settings=settings,
        subject=subject.description.name,
        drive=drive.name,
        frames=len(drive),
        mse_rad2=Originals.of(runs.originals.run, len(drive)).mse_rad2,
        association=associate(runs.originals.run, sum(layer.neurons for layer in subject.layers)),
        diversity=diversify(read_activated(grid.run)),
        combination=combine(runs.seeds.run, runs.seeds.campaign.blank_tracker(None)),
        erroneous=judge(read_mutants(grid.run, "grid"), read_mutants(runs.seeds.run, "greedy"), mse_tested_rad2),
        retraining=retraining,
        not_retrained=not_retrained,
        refereed=refereed_by_stimulus(grid.run),
    )
