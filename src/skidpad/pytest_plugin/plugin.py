"""What pytest loads: options, fixtures, and the parametrisation over transforms; skidpad itself is imported by what uses it."""

from __future__ import annotations

import os
from collections.abc import Generator
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from skidpad.core.errors import SkidpadError
from skidpad.core.trust import trusting
from skidpad.pytest_plugin import DEFAULT_FOLDER, CurrentTest, begin, end, folder_of

if TYPE_CHECKING:
    from skidpad.drives.drive import Drive
    from skidpad.subjects.base import Subject

_STIMULUS = "skidpad_stimulus"
_MARK = "skidpad_stimuli"
_OURS = "skidpad.pytest_plugin."
_LOADED = pytest.StashKey[dict[str, Any]]()
_SUBJECT_HELP = "the network under test: path of its description"
_DRIVE_HELP = "the drive that it is tested on, as `skidpad test` takes it"
_TRUST_HELP = "run the code that the network under test names; refused otherwise, unless `skidpad trust` was told"
_RUNS_HELP = f"folder under which pictures of failures are kept; {DEFAULT_FOLDER.as_posix()} by default"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds --skidpad-subject, --skidpad-drive, --skidpad-runs, each also as a setting of the ini file, and --skidpad-trust."""
    group = parser.getgroup("skidpad", "driving networks")
    for name, meaning in (("subject", _SUBJECT_HELP), ("drive", _DRIVE_HELP), ("runs", _RUNS_HELP)):
        group.addoption(f"--skidpad-{name}", dest=f"skidpad_{name}", default=None, help=meaning)
        parser.addini(f"skidpad_{name}", meaning, default="")
    group.addoption("--skidpad-trust", dest="skidpad_trust", action="store_true", default=False, help=_TRUST_HELP)


def pytest_configure(config: pytest.Config) -> None:
    """Registers the marker, and makes room for subjects and drives, which are loaded once a session."""
    config.addinivalue_line("markers", f"{_MARK}(*stimuli): what the fixture {_STIMULUS} goes through; all transforms without it")
    config.stash[_LOADED] = {}


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Runs a test that asks for `skidpad_stimulus` once for each stimulus of its marker, or for each transform."""
    if _STIMULUS not in metafunc.fixturenames:
        return
    marker = metafunc.definition.get_closest_marker(_MARK)
    if marker is not None:
        chosen = marker.args
    else:
        from skidpad.stimuli.pictures import COMPOSITE, SIMPLE  # noqa: PLC0415 - only where a test asks for it

        chosen = (*SIMPLE, *COMPOSITE)
    metafunc.parametrize(_STIMULUS, chosen, ids=[str(each) for each in chosen])


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, Any, Any]:
    """Lets assertions know whose pictures they draw."""
    root = Path(_setting(item.config, "runs") or DEFAULT_FOLDER)
    folder = folder_of(item.config.rootpath / root, item.nodeid)
    begin(CurrentTest(folder, lambda name, value: item.user_properties.append((name, value))))
    try:
        with trusting() if item.config.getoption("skidpad_trust") else nullcontext():
            return (yield)
    finally:
        end()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_makereport(call: pytest.CallInfo[None]) -> None:
    """Tells what the user of a fixture or an assertion can mend in its own words: a traceback through skidpad would bury them."""
    raised = call.excinfo
    if raised is None or not isinstance(raised.value, SkidpadError):
        return
    names = [str(entry.frame.f_globals.get("__name__", "")) for entry in raised.traceback]
    first = next((at for at, name in enumerate(names) if name.startswith(_OURS)), None)
    if first is None:  # a call of the user's own, whose traceback is theirs
        return
    entry = raised.traceback[first - 1] if first else None
    is_test = entry is not None and not names[first - 1].startswith(("_pytest", "pluggy"))
    where = f"{Path(str(entry.path)).name}:{entry.lineno + 1}: " if entry is not None and is_test else ""
    try:
        pytest.fail(f"{where}{raised.value}", pytrace=False)
    except pytest.fail.Exception as told:
        call.excinfo = pytest.ExceptionInfo.from_exception(told)


@pytest.fixture
def skidpad_subject_name(request: pytest.FixtureRequest) -> str:
    """The text that names the subject: --skidpad-subject, SKIDPAD_SUBJECT of the environment, the ini file, or of the test's module."""
    own = str(getattr(request.module, "SKIDPAD_SUBJECT", ""))
    beside = request.path.parent / own
    text = _wanted(request.config, "subject", str(beside) if own and beside.is_file() else own)
    if text == own and text.endswith((".toml", ".safetensors")) and not Path(text).is_file():
        pytest.fail(f"the network that this test names is not at {beside}; name the one to ask with --skidpad-subject FILE", pytrace=False)
    return text


@pytest.fixture
def skidpad_subject(request: pytest.FixtureRequest, skidpad_subject_name: str) -> Subject:
    """The network under test, loaded once a session."""
    from skidpad.subjects.description import subject_path  # noqa: PLC0415 - imports torch
    from skidpad.subjects.loading import load_subject  # noqa: PLC0415 - imports torch

    loaded = request.config.stash[_LOADED]
    key = f"subject {skidpad_subject_name}"
    if key not in loaded:
        loaded[key] = load_subject(subject_path(skidpad_subject_name))
    subject: Subject = loaded[key]
    return subject


@pytest.fixture
def skidpad_drive(request: pytest.FixtureRequest) -> Drive:
    """The drive that the subject is tested on, opened once a session: --skidpad-drive and so on, as for the subject."""
    from skidpad.drives.opening import open_drive  # noqa: PLC0415 - imports OpenCV

    text = _wanted(request.config, "drive", str(getattr(request.module, "SKIDPAD_DRIVE", "")))
    loaded = request.config.stash[_LOADED]
    key = f"drive {text}"
    if key not in loaded:
        loaded[key] = open_drive(text)
    drive: Drive = loaded[key]
    return drive


def _wanted(config: pytest.Config, name: str, own: str) -> str:
    text = _setting(config, name) or own
    if not text:
        pytest.fail(
            f"no {name} is named; give --skidpad-{name}, set SKIDPAD_{name.upper()} in the environment or in the test's module, "
            f"or write skidpad_{name} into pytest's ini file",
            pytrace=False,
        )
    return text


def _setting(config: pytest.Config, name: str) -> str:
    given = config.getoption(f"skidpad_{name}")
    return str(given or os.environ.get(f"SKIDPAD_{name.upper()}", "") or config.getini(f"skidpad_{name}"))
