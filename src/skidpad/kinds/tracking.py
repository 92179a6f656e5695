"""Runs in MLflow: settings as parameters, figures as metrics, report and config as artifacts.

Told after the fact, from what the run folder holds: a campaign needs no connection while it computes, and a run that is told
twice is one run in MLflow.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from hashlib import sha256
from socket import create_connection
from typing import TYPE_CHECKING
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

from skidpad.core.errors import MissingExtraError, SkidpadError
from skidpad.runs.folder import Run

if TYPE_CHECKING:
    from mlflow import MlflowClient


ARTIFACTS = ("config.toml", "manifest.json", "report.html")
"""The files of a run that are worth a look in MLflow; the findings themselves stay in the run."""

_IDENTITY = "skidpad.run"
_PARAMETERS_AT_ONCE, _METRICS_AT_ONCE = 100, 1000  # what MLflow takes in one call
_MAX_PARAMETER, _MAX_TAG = 6000, 5000  # its longest values
_PORTS = {"http": 80, "https": 443}
_PATIENCE_S = 5.0
_NOT_IN_NAMES = re.compile(r"[^\w\-. /]", re.ASCII)


@dataclass(frozen=True, slots=True)
class Tracked:
    """Where a run stands in MLflow."""

    uri: str
    experiment: str
    run_id: str
    metrics: int


def track(run: Run, figures: Mapping[str, object], *, uri: str = "", experiment: str = "skidpad") -> Tracked:
    """Writes a run to an MLflow server or store; one that is there already is brought up to date.

    figures: what the campaign reports, nested; the finite numbers in it become metrics. uri: of the tracking server, or a folder; by
    default MLFLOW_TRACKING_URI.
    """
    client, error_kind = _client(uri)
    try:
        return _written(client, run, figures, experiment)
    except (error_kind, OSError) as error:
        where = client.tracking_uri
        raise SkidpadError(f"cannot write the run to MLflow at {where!r}: {error}; check the address and that the server runs") from error


def metrics_of(figures: Mapping[str, object]) -> dict[str, float]:
    """Returns the finite numbers of nested figures by dotted name; truth values count as 0 and 1, lists are left out."""
    return {_name(name): float(value) for name, value in _leaves(figures, "") if isinstance(value, int | float) and math.isfinite(value)}


def parameters_of(config: Mapping[str, object]) -> dict[str, str]:
    """Returns the settings by dotted name as text, lists joined by commas."""
    return {_name(name): _text(value)[:_MAX_PARAMETER] for name, value in _leaves(config, "")}


def identity_of(run: Run) -> str:
    """Returns what tells this run from every other, wherever it lies."""
    return sha256(run.manifest.to_json().encode()).hexdigest()[:32]


def _written(client: MlflowClient, run: Run, figures: Mapping[str, object], experiment: str) -> Tracked:
    from mlflow.entities import Metric, Param, RunTag  # noqa: PLC0415 - comes with the extra

    known = client.get_experiment_by_name(experiment)
    experiment_id = client.create_experiment(experiment) if known is None else known.experiment_id
    started_ms = int(datetime.fromisoformat(run.manifest.created).timestamp() * 1000)
    found = client.search_runs([experiment_id], f"tags.`{_IDENTITY}` = '{identity_of(run)}'", max_results=1)
    if found:
        run_id = str(found[0].info.run_id)
    else:
        tags = {_IDENTITY: identity_of(run)}
        run_id = str(client.create_run(experiment_id, started_ms, tags, run_name=run.path.name).info.run_id)
    tags = {
        "skidpad.place": run.place,
        "skidpad.command": " ".join(run.manifest.command),
        "skidpad.finished": str(run.is_finished).lower(),
        **{f"skidpad.hash.{name}": value for name, value in run.manifest.hashes.items()},
        **{f"skidpad.version.{name}": value for name, value in run.manifest.versions.items()},
    }
    parameters = [Param(name, value) for name, value in parameters_of(run.config).items()]
    for start in range(0, len(parameters), _PARAMETERS_AT_ONCE):
        client.log_batch(run_id, params=parameters[start : start + _PARAMETERS_AT_ONCE])
    # The time of the run, not of the telling: the same run told twice has the same metrics.
    metrics = [Metric(name, value, started_ms, 0) for name, value in metrics_of(figures).items()]
    for start in range(0, len(metrics), _METRICS_AT_ONCE):
        client.log_batch(run_id, metrics=metrics[start : start + _METRICS_AT_ONCE])
    client.log_batch(run_id, tags=[RunTag(_name(name), value[:_MAX_TAG]) for name, value in tags.items() if value])
    for name in ARTIFACTS:
        if (run.path / name).is_file():
            client.log_artifact(run_id, str(run.path / name))
    client.set_terminated(run_id, "FINISHED" if run.is_finished else "KILLED")
    return Tracked(str(client.tracking_uri), experiment, run_id, len(metrics))


def _client(uri: str) -> tuple[MlflowClient, type[Exception]]:
    try:
        from mlflow import MlflowClient  # noqa: PLC0415 - comes with the extra
        from mlflow.exceptions import MlflowException  # noqa: PLC0415 - likewise
    except ImportError as error:
        raise MissingExtraError.of("mlflow-skinny", "mlflow", "writing a run to MLflow") from error
    uri = uri or os.environ.get("MLFLOW_TRACKING_URI", "")
    if not uri:
        raise SkidpadError("which MLflow? give the address of a tracking server, as --to http://localhost:5000, or set MLFLOW_TRACKING_URI")
    _look_for_server(uri)
    if urlsplit(uri).scheme in {"", "file"}:
        # MLflow reads this from the environment alone; without it, newer versions refuse to write to a folder.
        os.environ.setdefault("MLFLOW_ALLOW_FILE_STORE", "true")
    try:
        return MlflowClient(uri), MlflowException
    except MlflowException as error:
        said = str(error).strip(" .")
        raise SkidpadError(
            f"MLflow does not take the address {uri!r}: {said}; give a server, as http://localhost:5000, or a folder, as mlruns "
            "(a database needs the whole package: pip install mlflow)"
        ) from error


def _look_for_server(uri: str) -> None:
    """Refuses a server that nobody can connect to: MLflow itself would try for minutes. Behind a proxy, that is left to MLflow."""
    address = urlsplit(uri)
    host = address.hostname or ""
    if address.scheme not in _PORTS or ({address.scheme, "all"} & getproxies().keys() and not proxy_bypass(host)):
        return
    try:
        with create_connection((host, address.port or _PORTS[address.scheme]), _PATIENCE_S):
            pass
    except (OSError, ValueError) as error:
        raise SkidpadError(f"no MLflow server answers at {uri!r} ({error}); check the address and that the server runs") from error


def _leaves(table: Mapping[str, object], prefix: str) -> Iterator[tuple[str, object]]:
    for name, value in table.items():
        if isinstance(value, Mapping):
            yield from _leaves(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value


def _text(value: object) -> str:
    if isinstance(value, Sequence) and not isinstance(value, str | bytes):
        return ",".join(map(_text, value))
    return str(value)


def _name(text: str) -> str:
    return _NOT_IN_NAMES.sub("_", text)[:250]
