"""All five questions together: from a subject and a drive to the scoreboard."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from skidpad.campaigns.originals import Originals
from skidpad.core.errors import BadSubjectError
from skidpad.core.files import write_atomically
from skidpad.core.progress import Progress, silent
from skidpad.drives.opening import open_drive
from skidpad.repair.retraining import check_repairable
from skidpad.repair.settings import RepairSettings
from skidpad.replicate.deeptest import paper, tables
from skidpad.replicate.deeptest.association import Association, associate
from skidpad.replicate.deeptest.combination import Combination, combine
from skidpad.replicate.deeptest.diversity import Diversity, diversify, read_activated
from skidpad.replicate.deeptest.erroneous import Erroneous, judge, read_mutants
from skidpad.replicate.deeptest.retraining import Retraining, retrain
from skidpad.replicate.deeptest.runs import ReplicationSettings, Runs, measure
from skidpad.replicate.render import markdown, plain, scoreboard_sheet
from skidpad.replicate.rows import Row, Sheet
from skidpad.subjects.loading import load_network

TITLE = "DeepTest, replicated"


@dataclass(frozen=True, slots=True)
class Replication:
    """The five answers on one subject and drive; `retraining` is None, and `not_retrained` says why, where it cannot be trained."""

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

    def sheets(self) -> tuple[Sheet, ...]:
        """Returns the scoreboard, and the tables behind it."""
        return (
            scoreboard_sheet("Scoreboard", paper.MODEL, self.rows()),
            *self.behind(),
        )

    def behind(self) -> tuple[Sheet, ...]:
        """Returns the tables behind the scoreboard."""
        return (
            self.diversity.sheet(),
            self.combination.sheet(),
            tables.figure_6(self.erroneous),
            *tables.table_7(self.erroneous),
            tables.table_8(self.erroneous),
            *((tables.table_9(self.retraining),) if self.retraining is not None else ()),
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
        values: dict[str, Any] = plain(self)
        return {"paper": "DeepTest", "model": paper.MODEL, "rows": plain(self.rows()), **values, "traps": list(paper.TRAPS)}

    def markdown(self) -> str:
        """Returns the page for the docs."""
        return markdown(TITLE, self.facts(), self.sheets(), paper.TRAPS)


def replicate(settings: ReplicationSettings, folder: Path, progress: Callable[[str], Progress] = lambda _name: silent) -> Replication:
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
            seed=settings.seed,
            device=settings.device,
        )
        retraining = retrain(subject, runs.grid, train_drive, folder, repair, progress("repair"))
    answer = answer_from(runs, settings, retraining, not_retrained)
    write_atomically(folder / "deeptest.json", (json.dumps(answer.payload(), indent=2, allow_nan=False) + "\n").encode())
    write_atomically(folder / "deeptest.md", answer.markdown().encode())
    return answer


def answer_from(runs: Runs, settings: ReplicationSettings, retraining: Retraining | None, not_retrained: str = "") -> Replication:
    """Answers the questions from finished runs; nothing is run again."""
    drive, subject = runs.originals.campaign.drive, runs.originals.campaign.subject
    grid = runs.grid
    # Eq. 3 compares means of pictures with that of originals: of the same frames, or their difference is one of frames.
    mse_tested_rad2 = Originals.of(grid.run, len(grid.campaign.drive)).mse_rad2
    return Replication(
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
    )
