"""A kind of campaign as somebody else's package brings it: numbers that must not exceed a limit. One module, one line that registers it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa

from skidpad.core.progress import Progress, silent
from skidpad.kinds.bundles import Evidence, Judgement
from skidpad.kinds.exhibits import Exhibit, Form, Row, Rule
from skidpad.kinds.kind import KINDS, CaseColumns, Kind, check_unchanged, start_run
from skidpad.kinds.shards import crew_for, mapped
from skidpad.kinds.shrinking import Change, Shrunk
from skidpad.page.model import Headline, Page, Table, Tone, run_page
from skidpad.runs.folder import Run
from skidpad.runs.records import REQUIRED, ShardResult
from skidpad.runs.replay import Replayed, Reproduction

SCHEMA = pa.schema([*REQUIRED, pa.field("number", pa.int64(), nullable=False)])
PER_SHARD = 4


@dataclass(frozen=True)
class Numbers:
    """Judges the numbers 0, 1, 2, ... up to `count`; `fails_at` interrupts it there, as a user does."""

    count: int
    limit: int
    judged: list[int] = field(default_factory=list)
    fails_at: int = -1

    @property
    def hashes(self) -> Mapping[str, str]:
        return {"subject": f"at most {self.limit}"}

    def start(self, out: Path) -> Run:
        return start_run(self, out, {"campaign": "numbers", "count": self.count, "limit": self.limit, "seed": 0}, SCHEMA)

    def execute(self, run: Run, progress: Progress = silent, workers: Any = None) -> None:
        from skidpad.kinds.shards import run_shards

        check_unchanged(self, run, SCHEMA)
        shards = -(-self.count // PER_SHARD)
        with run.lock(), crew_for(self, run, workers) as crew:
            run_shards(run, "numbers", shards, mapped(crew, "numbers", None), progress)
            run.finish({"numbers": shards})

    def step(self, name: str, given: None) -> Any:
        return self.shard

    def item_name(self, step: str, item: int) -> str:
        return f"shard {item}"

    def shard(self, index: int, _: Progress) -> ShardResult:
        if index == self.fails_at:
            raise KeyboardInterrupt
        numbers = range(index * PER_SHARD, min((index + 1) * PER_SHARD, self.count))
        self.judged.extend(numbers)
        return ShardResult("numbers", index, pa.Table.from_pylist([self.row(number) for number in numbers], SCHEMA))

    def row(self, number: int) -> dict[str, Any]:
        return {"case_id": f"{number:012x}", "excess": number / self.limit, "violated": number > self.limit, "number": number}


def load(config: Mapping[str, Any], seen: object = None) -> Numbers:
    return Numbers(int(config["count"]), int(config["limit"]))


def page(campaign: Numbers, run: Run) -> Page:
    found = run.findings().num_rows
    return run_page(
        run,
        title="Numbers",
        tone=Tone.ALARM if found else Tone.CALM,
        verdict=f"{found} numbers are beyond {campaign.limit}.",
        headlines=(Headline("findings", str(found)),),
        remarks=("Numbers are counted from 0.",),
        tables=(Table("found", "Found", ("What", "Number"), (("findings", str(found)),)),),
    )


def figures(campaign: Numbers, run: Run) -> Mapping[str, object]:
    return {"findings": run.findings().num_rows, "limit": campaign.limit}


def replay(campaign: Numbers, run: Run, finding: str, picture: Path | None) -> Replayed:
    row = run.find_row(finding)
    again = campaign.row(row["number"])
    differences = tuple(name for name in row if row[name] != again[name])
    pictures = ()
    if picture is not None:
        picture.write_text(str(row["number"]))
        pictures = (picture,)
    rows = tuple((name, row[name], again[name]) for name in SCHEMA.names)
    return Replayed(f"the number {row['number']}", rows, again, Reproduction(differences, False, "", ()), pictures=pictures)


def shrink(campaign: Numbers, run: Run, row: Mapping[str, Any], progress: Progress = silent) -> Shrunk:
    smallest = campaign.row(campaign.limit + 1)
    changes = (Change("number", str(row["number"]), str(smallest["number"])),) if smallest["number"] < row["number"] else ()
    return Shrunk(row, smallest, changes, judged=1, batches=1)


@dataclass(frozen=True)
class NumberCheck:
    """Asks whether a limit holds a number; the subject is the limit."""

    kind: ClassVar[str] = "number"

    number: int

    def judge(self, folder: Path, subject: Any) -> Judgement:
        return Judgement(self.number <= int(str(subject)), f"{self.number} against {subject}")


@dataclass(frozen=True)
class NumberExporter:
    campaign: Numbers
    run: Run

    def draw(self, row: Mapping[str, Any], folder: Path, stem: str) -> tuple[Path, ...]:
        (folder / f"{stem}.txt").write_text(str(row["number"]))
        return (folder / f"{stem}.txt",)

    def export(self, row: Mapping[str, Any], folder: Path) -> Evidence:
        self.draw(row, folder, "number")
        files = {"number.txt": "the number"}
        said = f"{row['number']} is beyond {self.campaign.limit}"
        return Evidence("a number", said, "", files, row["number"], {"excess": row["excess"]}, NumberCheck(row["number"]))


class NumberExhibit(Exhibit):
    """Shows numbers in the browser."""

    needs: ClassVar[Mapping[str, Form]] = {"number": Form.WHOLE}
    command: ClassVar[str] = "run"
    cases: ClassVar[str] = "numbers"

    @property
    def rule(self) -> Rule:
        return Rule("is small", f"at most {self.config['limit']}")

    def title(self, row: Row) -> str:
        return f"the number {row['number']}"


KINDS.register("numbers")(
    Kind(
        summary="Judges numbers by a limit.",
        load=load,
        page=page,
        figures=figures,
        replay=replay,
        shrink=shrink,
        exporter=NumberExporter,
        exhibit=NumberExhibit,
        columns=CaseColumns(key=("number",)),
        checks={"number": NumberCheck},
    )
)
