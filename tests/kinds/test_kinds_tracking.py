"""Runs in MLflow, in a store of files on this machine."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from skidpad.core.errors import MissingExtraError, SkidpadError
from skidpad.kinds.tracking import identity_of, metrics_of, parameters_of, track
from skidpad.runs.folder import Run
from skidpad.runs.manifest import Manifest
from skidpad.runs.records import SCHEMA, ShardResult, no_rows

CONFIG = {
    "campaign": "deeptest",
    "drive": "drives/ch2?to=0.6",
    "transforms": ["blur", "deeptest-rain"],
    "seed": 3,
    "search": {"tries": 10, "on": True},
}
FIGURES = {
    "findings": 12,
    "rate": 0.25,
    "note": "x",
    "by transform": {"blur": {"rate": 0.5}, "rain & fog": {"rate": float("nan")}},
    "worst": [1, 2],
}


@pytest.fixture
def run(tmp_path: Path) -> Run:
    manifest = Manifest(
        {"skidpad": "1", "torch": ""}, "linux", "cpu", 3, {"drive": "abc"}, ("skidpad", "test"), "2026-01-02T03:04:05+00:00"
    )
    made = Run.create(tmp_path / "run-001", CONFIG, manifest)
    (made.path / "report.html").write_text("<p>report")
    return made


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    return f"file://{tmp_path / 'mlruns'}"


def told(store: str, run_id: str) -> Any:
    from mlflow import MlflowClient

    return MlflowClient(store).get_run(run_id)


def test_a_run_is_told_once_and_brought_up_to_date(run: Run, store: str) -> None:
    from mlflow import MlflowClient

    first = track(run, FIGURES, uri=store, experiment="nightly")
    kept = told(store, first.run_id)
    assert kept.info.run_name == "run-001"
    assert kept.info.status == "KILLED"  # it is not finished
    assert kept.info.start_time == 1767323045000
    assert kept.data.metrics == {"findings": 12.0, "rate": 0.25, "by transform.blur.rate": 0.5}
    assert kept.data.params == {
        "campaign": "deeptest",
        "drive": "drives/ch2?to=0.6",
        "transforms": "blur,deeptest-rain",
        "seed": "3",
        "search.tries": "10",
        "search.on": "True",
    }
    tags = kept.data.tags
    assert (tags["skidpad.hash.drive"], tags["skidpad.version.skidpad"], tags["skidpad.finished"]) == ("abc", "1", "false")
    assert tags["skidpad.place"] == str(run.path)
    client = MlflowClient(store)
    assert sorted(file.path for file in client.list_artifacts(first.run_id)) == ["config.toml", "manifest.json", "report.html"]

    run.commit(ShardResult("mutants", 0, no_rows(SCHEMA, None)))
    run.finish({"mutants": 1})
    again = track(run, {**FIGURES, "findings": 13}, uri=store, experiment="nightly")
    assert again.run_id == first.run_id
    kept = told(store, again.run_id)
    assert (kept.info.status, kept.data.metrics["findings"], kept.data.tags["skidpad.finished"]) == ("FINISHED", 13.0, "true")
    assert len(client.search_runs([kept.info.experiment_id])) == 1


def test_many_settings_and_figures_fit(run: Run, store: str) -> None:
    wide = Run(run.path, {f"setting {number}": "x" * 7000 for number in range(150)}, run.manifest)
    kept = told(store, track(wide, {f"figure {number}": number for number in range(1200)}, uri=store).run_id)
    assert (len(kept.data.params), len(kept.data.metrics)) == (150, 1200)
    assert len(kept.data.params["setting 3"]) == 6000


def test_the_address_may_come_from_the_environment(run: Run, store: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(SkidpadError, match=r"which MLflow\? give the address .* set MLFLOW_TRACKING_URI"):
        track(run, FIGURES)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", store)
    assert track(run, FIGURES).uri == store


def test_names_and_values() -> None:
    assert metrics_of({"a(b)": 1, "c": {"d": True, "e": None, "f": "g"}, "h": float("inf")}) == {"a_b_": 1.0, "c.d": 1.0}
    assert parameters_of({"a": [1, [2, 3]], "b": {"c": 0.5}}) == {"a": "1,2,3", "b.c": "0.5"}


def test_the_identity_is_the_runs_and_not_the_places(run: Run, tmp_path: Path) -> None:
    import shutil

    shutil.copytree(run.path, tmp_path / "moved")
    assert identity_of(Run.open(tmp_path / "moved")) == identity_of(run)


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """MLflow's own tries take minutes."""
    for name in ("http_proxy", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("uri", ["http://127.0.0.1:9", "http://127.0.0.1:port"])
def test_a_server_that_is_not_there_is_said_before_mlflow_asks_it(uri: str, run: Run) -> None:
    with pytest.raises(SkidpadError, match=rf"no MLflow server answers at '{uri}' \(.*\); check the address and that the server runs$"):
        track(run, FIGURES, uri=uri)


@pytest.mark.usefixtures("impatient")
def test_behind_a_proxy_mlflow_asks_itself(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    with pytest.raises(SkidpadError, match=r"cannot write the run to MLflow at 'http://mlflow.invalid'.*check the address"):
        track(run, FIGURES, uri="http://mlflow.invalid")


def test_a_folder_is_a_store_by_itself(run: Run, store: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MLFLOW_ALLOW_FILE_STORE")
    tracked = track(run, FIGURES, uri=str(tmp_path / "mlruns"))
    assert told(store, tracked.run_id).data.metrics["findings"] == 12.0


def test_a_store_that_the_extra_cannot_write_is_answered_with_those_it_can(run: Run, tmp_path: Path) -> None:
    with pytest.raises(SkidpadError, match=r"give a server, as http.*, or a folder, as mlruns \(a database needs .*pip install mlflow\)"):
        track(run, FIGURES, uri=f"nosuch:///{tmp_path / 'a.db'}")


def test_a_missing_extra_is_named(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mlflow", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'skidpad\[mlflow\]'"):
        track(run, FIGURES, uri="http://localhost")
