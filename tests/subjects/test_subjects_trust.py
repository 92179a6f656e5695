"""A stranger's model file runs nothing until a person trusts it. The traps are harmless: each leaves a file in the test's own folder."""

import os
import py_compile
import sys
import zipfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
import torch
from box_toys import described as boxed
from box_toys import program, write_toml
from safetensors.torch import save_file
from script_traps import CAN_SCRIPT, TRAPS
from torch import nn

from skidpad.core import trust
from skidpad.core.errors import BadSubjectError, SkidpadError, UntrustedError
from skidpad.subjects.boxes.subject import BoxSubject
from skidpad.subjects.description import Box, Description, Format, write_description
from skidpad.subjects.inputs import InputSpec
from skidpad.subjects.introspection import propose
from skidpad.subjects.loading import load_subject, subject_code
from skidpad.subjects.own_code import named_code
from skidpad.subjects.zoo import ARCHITECTURES

pytestmark = [
    pytest.mark.usefixtures("untrusting"),
    pytest.mark.filterwarnings("ignore:.*torch.jit.*deprecated:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:.*is deprecated:DeprecationWarning"),
]
scripts = pytest.mark.skipif(not CAN_SCRIPT, reason="torch no longer scripts there")
MODULE = "from pathlib import Path\n\nPath(__file__).with_name('marker').touch()\n"


@pytest.fixture(autouse=True)
def _own_store(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))


def described(file: Path) -> Path:
    toml = file.with_name("described.toml")
    write_description(toml, Description("net", file.name, Format.TORCHSCRIPT, InputSpec(24, 16)))
    return toml


@scripts
@pytest.mark.parametrize("trap", TRAPS, ids=lambda trap: trap.__name__)
def test_torchscript_writes_nothing_until_it_is_trusted(trap: Callable[[Path, Path], None], tmp_path: Path) -> None:
    marker = tmp_path / "marker"
    for name in ("net.ts", "net.pt"):
        file = tmp_path / name
        trap(file, marker)
        marker.unlink(missing_ok=True)  # some write already while they are saved
        for look in (propose, load_subject):
            with pytest.raises(BadSubjectError):
                look(file)
        with pytest.raises(UntrustedError, match=rf"would run the TorchScript program '{name}' in .*--trust.*skidpad trust SUBJECT"):
            load_subject(described(file))
        assert not marker.exists()
        with suppress(BadSubjectError):  # it may steer badly, but it has run
            load_subject(described(file), trust=True)
        assert marker.exists(), "the trap itself must work"
        marker.unlink()


@scripts
def test_of_untrusted_torchscript_only_the_names_of_its_parts_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    TRAPS[0](tmp_path / "net.ts", tmp_path / "marker")

    def opened(*_: object, **__: object) -> None:
        raise AssertionError("a part of the archive was opened")

    monkeypatch.setattr(zipfile.ZipFile, "open", opened)
    monkeypatch.setattr(torch.jit, "load", opened)
    monkeypatch.setattr(torch, "load", opened)
    for look, path in ((load_subject, described(tmp_path / "net.ts")), (propose, tmp_path / "net.ts")):
        with pytest.raises(UntrustedError):
            look(path)


def test_a_class_of_ones_own_is_imported_only_where_it_is_trusted(tmp_path: Path) -> None:
    (tmp_path / "strangers_net.py").write_text(MODULE + "from skidpad.subjects.zoo import ARCHITECTURES\n"
        "def build():\n    return ARCHITECTURES.get('pilotnet').build()\n")  # fmt: skip
    save_file(ARCHITECTURES.get("pilotnet").build().state_dict(), tmp_path / "net.safetensors")
    toml = tmp_path / "net.toml"
    zoo = ARCHITECTURES.get("pilotnet").describe("net", "net.safetensors")
    write_description(toml, Description("net", zoo.file, zoo.format, zoo.input, zoo.outputs, architecture="strangers_net:build"))
    with pytest.raises(UntrustedError, match="would import the Python code 'strangers_net:build' in "):
        load_subject(tmp_path / "net.safetensors")
    assert not (tmp_path / "marker").exists()
    assert str(tmp_path) not in sys.path
    assert load_subject(toml, trust=True).layers
    assert (tmp_path / "marker").exists()


@pytest.mark.parametrize(
    ("box", "words"),
    [
        (Box(command=(sys.executable, "-S", "serve.py")), "would run the program '.*serve.py' in "),
        (Box(function="strangers_box:drive"), "would import the Python code 'strangers_box:drive' in "),
        (Box(url="http://127.0.0.1:9/steer"), "would send pictures to http://127.0.0.1:9/steer"),
    ],
)
def test_a_box_is_asked_only_where_it_is_trusted(box: Box, words: str, tmp_path: Path) -> None:
    program(tmp_path, before='open("marker", "w")')
    (tmp_path / "strangers_box.py").write_text(MODULE)
    with pytest.raises(UntrustedError, match=words) as caught:
        load_subject(write_toml(tmp_path, box))
    assert "\n" not in str(caught.value)
    with pytest.raises(UntrustedError):
        BoxSubject(boxed(box), tmp_path)
    assert not (tmp_path / "marker").exists()


def test_a_persons_word_is_kept_until_anything_changes(tmp_path: Path) -> None:
    program(tmp_path)
    toml = write_toml(tmp_path, Box(command=(sys.executable, "-S", "serve.py")))
    trust.remember(subject_code(toml))
    assert trust.store().is_relative_to(tmp_path / "config")
    with load_subject(toml):
        pass
    (tmp_path / "neighbour.py").write_text("harmless = True\n")
    with pytest.raises(UntrustedError):
        load_subject(toml)
    (tmp_path / "neighbour.py").unlink()
    with load_subject(toml):
        pass
    program(tmp_path, before="harmless = True")
    with pytest.raises(UntrustedError):
        load_subject(toml)
    program(tmp_path)
    write_toml(tmp_path, Box(command=(sys.executable, "-S", "-B", "serve.py")))
    with pytest.raises(UntrustedError):
        load_subject(toml)
    write_toml(tmp_path, Box(command=(sys.executable, "-S", "serve.py")))
    trust.forget(subject_code(toml))
    with pytest.raises(UntrustedError):
        load_subject(toml)


@pytest.mark.parametrize("box", [Box(command=(sys.executable, "-S", "serve.py")), Box(function="deep_box:drive")])
@pytest.mark.parametrize("place", ["inner/__init__.py", "inner/further/code.py", "json.pyc", "linked/code.py", "struct.abi3.so"])
def test_the_word_holds_for_every_module_that_is_reached(box: Box, place: str, tmp_path: Path) -> None:
    program(tmp_path, before="# inner")
    (tmp_path / "deep_box.py").write_text("import inner.further\n")
    (tmp_path / "inner" / "further").mkdir(parents=True)
    (tmp_path / "inner" / "__init__.py").write_text("import linked.code\n")
    (tmp_path / "elsewhere-1").mkdir()
    (tmp_path / "linked").symlink_to(tmp_path / "elsewhere-1")
    (tmp_path / "inner" / "round").symlink_to(tmp_path / "inner")
    toml = write_toml(tmp_path, box)
    trust.remember(subject_code(toml))
    (tmp_path / "unnamed").mkdir()
    (tmp_path / "unnamed" / "code.py").touch()
    assert all(map(trust.is_remembered, subject_code(toml)))
    (tmp_path / place).write_text("import changed\n")
    assert not any(map(trust.is_remembered, subject_code(toml)))


def test_the_sources_are_imported_and_not_the_bytecode_beside_them(tmp_path: Path) -> None:
    (tmp_path / "shown_inner").mkdir()
    for file in (tmp_path / "shown_box.py", tmp_path / "shown_inner" / "code.py"):
        file.write_text(f"open({str(tmp_path / 'marker')!r}, 'w')\n")
        py_compile.compile(str(file), invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH)
        file.write_text("")
    (tmp_path / "shown_box.py").write_text("import shown_inner.code\ndrive = len\n")
    with trust.trusting():
        named_code("shown_box:drive", tmp_path, "the function")
    assert not (tmp_path / "marker").exists()


def test_the_store_of_words_is_the_users_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program(tmp_path)
    codes = subject_code(write_toml(tmp_path, Box(command=(sys.executable, "-S", "serve.py"))))
    before = os.umask(0)
    try:
        trust.remember(codes)
    finally:
        os.umask(before)
    assert all(map(trust.is_remembered, codes))
    assert trust.store().stat().st_mode & 0o777 == 0o600
    trust.store().chmod(0o620)
    with pytest.raises(SkidpadError, match="others can write to it"):
        trust.is_remembered(codes[0])
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", "config")
    assert not trust.store().is_relative_to(tmp_path)
    assert trust.store().is_absolute()


def test_the_word_does_not_hold_for_a_copy_elsewhere(tmp_path: Path) -> None:
    for name in ("here", "there"):
        (tmp_path / name).mkdir()
        program(tmp_path / name)
        write_toml(tmp_path / name, Box(command=(sys.executable, "-S", "serve.py")))
    here, there = (next((tmp_path / name).glob("*.toml")) for name in ("here", "there"))
    trust.remember(subject_code(here))
    with load_subject(here):
        pass
    with pytest.raises(UntrustedError):
        load_subject(there)


def test_a_worker_runs_what_its_driver_allowed_whatever_files_say(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program(tmp_path)
    toml = write_toml(tmp_path, Box(command=(sys.executable, "-S", "serve.py")))
    (code,) = subject_code(toml)
    trust.remember([code])
    monkeypatch.setattr(trust, "_handed_over", frozenset())
    with pytest.raises(UntrustedError):
        load_subject(toml)
    monkeypatch.setattr(trust, "_handed_over", frozenset((code.sha256,)))
    with load_subject(toml):
        assert code.sha256 in trust.granted()


def test_networks_without_code_need_no_trust(tmp_path: Path) -> None:
    zoo = ARCHITECTURES.get("pilotnet")
    save_file(zoo.build().state_dict(), tmp_path / "net.safetensors")
    write_description(tmp_path / "net.toml", zoo.describe("net", "net.safetensors"))
    assert subject_code(tmp_path / "net.toml") == subject_code(tmp_path / "net.safetensors") == ()
    assert load_subject(tmp_path / "net.toml").layers


def write_weights(file: Path) -> None:
    torch.save({"weight": torch.zeros(100)}, file)


@pytest.mark.filterwarnings("ignore::FutureWarning")
@pytest.mark.parametrize("name", ["net.pt", "net.pt2"])
def test_an_archive_that_grows_without_measure_is_refused(name: str, tmp_path: Path) -> None:
    file = tmp_path / name
    if name == "net.pt":
        write_weights(file)
    else:
        torch.export.save(torch.export.export(nn.Sequential(nn.Flatten(), nn.Linear(12, 1)), (torch.zeros(1, 3, 2, 2),)), file)
    with zipfile.ZipFile(file) as archive:
        parts = {part: archive.read(part) for part in archive.namelist()}
    largest = max(parts, key=lambda part: len(parts[part]))
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for part, data in parts.items():
            archive.writestr(part, b"\0" * 30_000_000 if part == largest else data)
    assert file.stat().st_size < 100_000
    with pytest.raises(BadSubjectError, match="grows to 30000000 bytes from") as caught:
        propose(file)
    assert "\n" not in str(caught.value)
    with zipfile.ZipFile(file, "w") as archive:
        for part, data in parts.items():
            archive.writestr(part, data)
        whole = archive.infolist()[0]
        archive.filelist += [whole] * 5000  # many names for the same bytes
        whole.compress_size = whole.file_size = max(whole.file_size, 200)
    with pytest.raises(BadSubjectError, match="parts of its archive have"):
        propose(file)
