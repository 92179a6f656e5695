"""Small runs to look at: of every kind, odd ones, and hostile ones."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import httpx
import numpy as np
import pyarrow as pa
from fastapi import FastAPI

from skidpad.core.images import write_image
from skidpad.core.stimuli import Params, Recipe, Step
from skidpad.runs.folder import Run
from skidpad.runs.manifest import Manifest
from skidpad.runs.records import ShardResult, build_records
from skidpad.ui.app import make_app
from skidpad.ui.library import Library, RunsFolder
from skidpad.ui.reading import Question
from skidpad.ui.study import Study

ADDRESS = "http://127.0.0.1:8321"
MARKUP = "<script>alert(1)</script>\"'&"
FRAMES = 6


def recipe_at(place: int) -> Recipe:
    """Another recipe for every round through the frames, of three kinds in turn."""
    turn = place // FRAMES
    kinds = (
        Recipe.of("brightness", Params(shift=10.0 + turn)),
        Recipe.of("rotation", Params(angle_deg=3.0 + turn)),
        Recipe((Step("blur", Params(kind="averaging", size=5)), Step("contrast", Params(gain=1.2 + 0.05 * turn)))),
    )
    return kinds[turn % 3]


@dataclass
class Server:
    """The application in this process, and what it shows."""

    app: FastAPI
    library: Library
    root: Path

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.library.close()

    def key(self, name: str) -> str:
        return next(found.key for found in self.library.folder.scan() if found.name == name)

    def failing(self, key: str) -> list[str]:
        """The case ids of a run's findings, worst first."""
        return list(dict.fromkeys(line.case_id for line in self.library.view(key).reader().page(Question(), 10_000).lines))

    def get(self, address: str, **options: Any) -> httpx.Response:
        return self.ask("GET", address, **options)

    def post(self, address: str, origin: str = ADDRESS, **options: Any) -> httpx.Response:
        return self.ask("POST", address, **{**options, "headers": {"origin": origin, **options.get("headers", {})}})

    def ask(self, method: str, address: str, **options: Any) -> httpx.Response:
        return asyncio.run(self._ask(method, address, **options))

    async def _ask(self, method: str, address: str, **options: Any) -> httpx.Response:
        async with httpx.AsyncClient(transport=httpx.ASGITransport(self.app), base_url=ADDRESS) as client:
            return await client.request(method, address, **options)


def serve(root: Path, study: Study | None = None) -> Server:
    library = Library(RunsFolder(root))
    return Server(make_app(library, study), library, root)


def manifest(**hashes: str) -> Manifest:
    return Manifest.collect(device="cpu", seed=0, hashes=hashes, command=("skidpad", "test"))


def make_drive(folder: Path, frames: int = FRAMES) -> str:
    rng = np.random.default_rng(3)
    rows = ["frame,angle"]
    for frame in range(frames):
        coarse = rng.integers(0, 256, (6, 8, 3), np.uint8)
        write_image(folder / f"{frame:03d}.png", np.kron(coarse, np.ones((10, 10, 1), np.uint8)))
        rows.append(f"{frame:03d}.png,{rng.uniform(-10, 10):.3f}")
    (folder / "angles.csv").write_text("\n".join(rows) + "\n", encoding="utf-8")
    return f"folder:{folder}?csv=angles.csv&id=frame&steering=angle&unit=deg"


def picture_records(count: int, seed: int = 0, first: int = 0, *, recipe: Callable[[int], Recipe] = recipe_at) -> pa.Table:
    """Cases with all that a sort can stumble on: equal values, not judged, no finite answer."""
    rng = np.random.default_rng(seed)
    excess = rng.choice([0.25, 0.5, 1.5, 2.0, 3.25, np.inf, np.nan], count)
    original = rng.normal(0, 0.1, count)
    places = np.arange(first, first + count)
    return build_records(
        frame_index=places % FRAMES,
        frame_ids=[f"{place % FRAMES:03d}.png" for place in places],
        recipes=[recipe(place) for place in places.tolist()],
        label=rng.choice([0.0, np.nan], count),
        original=original,
        mutant=original + np.where(np.isinf(excess), np.nan, 0.2),
        excess=excess,
        violated=excess > 1.0,
        active_neurons=rng.integers(0, 5, count),
        picture=[f"{1000 * seed + place:016x}" for place in places.tolist()],
    )


def make_picture_run(
    path: Path, drive: str = "", shards: int = 3, rows: int = 40, *, seed: int = 0, finish: bool = True, subject: str = "/models/net.toml"
) -> Run:
    config = {
        "campaign": "deeptest",
        "subject": subject,
        "drive": drive,
        "unit": "rad",
        "relation": "steers-alike",
        "searches": ["grid"],
        "shard_frames": 2,
    }
    run = Run.create(path, config, manifest(subject="s", drive="d"))
    run.commit(ShardResult("originals", 0, picture_records(4, 99, recipe=lambda _: Recipe())))
    for shard in range(shards):
        run.commit(ShardResult("grid", shard, picture_records(rows, 10 * seed + shard, first=shard * rows)))
    if finish:
        run.finish({"originals": 1, "grid": shards})
    return run


ODD_SCHEMA = pa.schema(
    [
        pa.field("case_id", pa.string(), nullable=False),
        pa.field(MARKUP, pa.string()),
        pa.field('"; DROP TABLE t0; --', pa.float64()),
        pa.field("flags", pa.list_(pa.float64())),
        pa.field("speed_rad", pa.float32()),
        pa.field("packed", pa.binary()),
        pa.field("excess", pa.float64(), nullable=False),
        pa.field("violated", pa.bool_(), nullable=False),
    ]
)


def make_odd_run(path: Path) -> Run:
    """A kind of campaign that nobody knows, whose names are as bad as names can be."""
    run = Run.create(path, {"campaign": f"odd {MARKUP}", "subject": MARKUP, "note": [1, 2]}, manifest(), ODD_SCHEMA)
    rows = 5
    columns = {
        "case_id": [f"{number:04x}" for number in range(rows)],
        MARKUP: [MARKUP, None, "b", "a\u202e\x07", "%_"],
        '"; DROP TABLE t0; --': [1.0, None, float("nan"), float("inf"), -2.0],
        "flags": [[1.0], [], None, [float("nan")], [2.0, 3.0]],
        "speed_rad": [0.1, 0.2, None, 0.4, 0.5],
        "packed": [b"\x00<b>", None, b"", b"1", b"2"],
        "excess": [2.0, 1.5, 0.0, float("inf"), float("nan")],
        "violated": [True, True, False, True, False],
    }
    run.commit(ShardResult("all", 0, pa.table(columns, schema=ODD_SCHEMA)))
    run.finish({"all": 1})
    return run
