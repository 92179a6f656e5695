"""Files that must not be loaded, and files that cannot: one sentence each, nothing run, nothing hung."""

import base64
import json
import marshal
import random
import sys
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import torch
from keras_toys import Config, Toy, described, sequential, write_archive, write_h5, write_pair

from skidpad.cli.main import main
from skidpad.core.errors import BadSubjectError
from skidpad.subjects.description import write_description
from skidpad.subjects.formats.keras.expression import Expression
from skidpad.subjects.formats.keras.opening import open_keras
from skidpad.subjects.inputs import Layout
from skidpad.subjects.loading import load_subject

REAL = Path(__file__).parents[1] / "keras_files"
SHAPE = (6, 8, 3)
FLAT = Toy("Flatten", {})
DENSE = Toy("Dense", {"units": 1}, (("kernel", np.ones((144, 1), "f4")), ("bias", np.zeros(1, "f4"))))


def refused(file: Path, match: str, **further: Any) -> None:
    with pytest.raises(BadSubjectError, match=match) as caught:
        open_keras(file, replace(described(SHAPE, **further), file=file.name))
    text = str(caught.value)
    assert "\n" not in text
    assert file.name in text


def test_a_lambda_is_refused_until_it_is_declared(tmp_path: Path) -> None:
    marker = tmp_path / "marker"
    code = compile(f"__import__('os').mkdir({str(marker)!r})", "<lambda>", "eval")
    body = base64.b64encode(marshal.dumps(code)).decode()
    for function in ([body, None, None], {"class_name": "__lambda__", "config": {"code": body, "defaults": None, "closure": None}}):
        layers = [Toy("Lambda", {"function": function, "function_type": "lambda"}), FLAT, DENSE]
        files = [write_h5(tmp_path / "net.h5", layers, SHAPE), write_archive(tmp_path / "net.keras", layers, SHAPE)]
        for file in files:
            refused(file, r'never run.*lambdas = \{ layer_1 = "x / 127.5 - 1" \}')
            refused(file, "no such Lambda layer", lambdas=(("layer_1", "x"), ("lambda_1", "x")))
            refused(file, "is rebuilt as it is", lambdas=(("layer_1", "x"), ("layer_2", "x")))
            net = open_keras(file, replace(described(SHAPE, lambdas=(("layer_1", "x / 127.5 - 1"),)), file=file.name))
            assert net(torch.full((1, *SHAPE), 255.0)).item() == pytest.approx(144.0)
    assert not marker.exists()
    eval(marshal.loads(base64.b64decode(body)))
    assert marker.exists(), "the trap itself must work"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("__import__('os').system('true')", "something else"),
        ("x.data", "something else"),
        ("x[0]", "something else"),
        ("(lambda: x)()", "something else"),
        ("x if x else 1", "something else"),
        ("y + x", "something else"),
        ("True * x", "something else"),
        ("1e400 * x", "something else"),
        ("x +", "no expression"),
        ("x; x", "no expression"),
        ("", "no expression"),
        ("x" * 501, "no expression"),
        ("2 + 2", "does not use x"),
        ("resize(x, 0, 5)", "resizes more than once, or not to"),
        ("resize(resize(x, 4, 4), 5, 5)", "resizes more than once"),
        ("resize(x, x, 5)", "something else"),
        ("x ** 99", "power"),
        ("9 ** 9 ** x", "power"),
        ("1 / (2 - 2) + x", "divides by zero"),
        ("x" + " + 1" * 60, "too deeply"),
    ],
)
def test_only_arithmetic_stands_for_a_lambda(text: str, why: str) -> None:
    with pytest.raises(BadSubjectError, match=why):
        Expression(text, "lambda_1")


def test_expressions_compute() -> None:
    x = torch.tensor([-2.0, 0.0, 3.0])
    found = Expression("-clip(2 * x ** 2 - 1, -1, 4) / 2 + abs(x) + (+tanh(0) - atan(x) * 3)", "l")(x)
    plain = x.numpy()
    np.testing.assert_allclose(found, -np.clip(2 * plain**2 - 1, -1, 4) / 2 + np.abs(plain) - 3 * np.arctan(plain), rtol=1e-6)


def entry(kind: str, **further: Any) -> Config:
    return {"class_name": kind, "config": {"name": "odd"}, **further}


@pytest.mark.parametrize(
    ("layer", "match"),
    [
        (entry("SpatialTransformer"), r"layer 'odd' is of class 'SpatialTransformer'.*ONNX"),
        (entry("Conv2D", module="evil.package"), r"class 'evil.package.Conv2D'"),
        (entry("Flatten", module="keras.layers", registered_name="mine>Flatten"), r"'keras.layers.Flatten'"),
        (entry("function", module="builtins"), r"'builtins.function'"),
        (entry("Activation"), "activation"),
        ({"class_name": "Activation", "config": {"name": "odd", "activation": "reluu"}}, "did you mean 'relu'"),
        ({"class_name": "Activation", "config": {"name": "odd", "activation": {"class_name": "eval", "config": {}}}}, "'eval'"),
        ({"class_name": "LSTM", "config": {"name": "odd", "units": 3}}, "takes 2 axes"),
        ({"class_name": "Reshape", "config": {"name": "odd", "target_shape": [7, -1]}}, "144 numbers"),
        ({"class_name": "ZeroPadding2D", "config": {"name": "odd", "padding": [9_999_999, 9_999_999]}}, "more than"),
        ({"class_name": "Cropping2D", "config": {"name": "odd", "cropping": [3, 3]}}, "leaves nothing"),
        ({"class_name": "MaxPooling2D", "config": {"name": "odd", "pool_size": 0}}, "above 0"),
        ({"class_name": "UpSampling2D", "config": {"name": "odd", "size": [10**6, 10**6]}}, "more than"),
        ({"class_name": "Conv2D", "config": {"name": "odd", "filters": 10**9, "kernel_size": 3}}, "filters"),
        ({"class_name": "Dense", "config": {"name": "odd", "units": 2}}, "no weights in the file"),
        ("Flatten", "where the layer"),
    ],
)
def test_odd_layers_are_named(layer: Any, match: str, tmp_path: Path) -> None:
    config = sequential([FLAT], SHAPE)
    first = {"class_name": "InputLayer", "config": {"name": "in", "batch_input_shape": [None, *SHAPE]}}
    config["config"] = [first, layer]
    refused(write_h5(tmp_path / "net.h5", [], SHAPE, config=config), match)


def functional(layers: list[Config], ends: list[Any], starts: list[Any] | None = None) -> Config:
    first = {"class_name": "InputLayer", "name": "in", "config": {"batch_input_shape": [None, *SHAPE]}, "inbound_nodes": []}
    return {
        "class_name": "Model",
        "config": {"name": "m", "layers": [first, *layers], "input_layers": starts or [["in", 0, 0]], "output_layers": ends},
    }


def called(name: str, *inputs: Any) -> Config:
    return {"class_name": "Activation", "name": name, "config": {"activation": "relu"}, "inbound_nodes": [[[*ref, 0, 0] for ref in inputs]]}


@pytest.mark.parametrize(
    ("config", "match"),
    [
        (functional([called("a", "b"), called("b", "a")], [["a", 0, 0]]), "circle"),
        (functional([called("a", "a")], [["a", 0, 0]]), "circle"),
        (functional([called("a", ["nobody"])], [["a", 0, 0]]), "'nobody'"),
        (functional([called("a", ["in"])], [["a", 0, 1]]), "no layer gives"),
        (functional([called("a", ["in"])], [["a", "x", 1]]), "names its input"),
        (functional([called("a", ["in"]), called("a", ["in"])], [["a", 0, 0]]), "one name"),
        (functional([called("a", ["in"])], [["a", 0, 0]], [["in", 0, 0], ["a", 0, 0]]), "2 inputs"),
        (functional([called("a")], [["a", 0, 0]]), "not in the graph"),
        ({"class_name": "MyModel", "config": {"name": "m"}}, "code is not in the file"),
        ({"class_name": "Sequential", "config": {"layers": []}}, "no layers"),
        (["Sequential"], "where the layer"),
    ],
)
def test_odd_graphs_are_refused(config: Any, match: str, tmp_path: Path) -> None:
    refused(write_h5(tmp_path / "net.h5", [], SHAPE, config=config), match)


def test_models_within_models_end(tmp_path: Path) -> None:
    inner: Config = entry("Flatten")
    for number in range(40):
        inner = {"class_name": "Sequential", "config": {"name": f"s{number}", "layers": [inner]}}
    refused(write_h5(tmp_path / "net.h5", [], SHAPE, config=inner), "deep")
    many: Config = {"class_name": "Activation", "config": {"name": "a", "activation": "linear"}}
    for number in range(8):  # eleven calls of eleven calls of ...
        calls = [[["in", 0, 0]]] + [[["w", place, 0]] for place in range(10)]
        whole = functional([{**many, "name": "w", "inbound_nodes": calls}], [["w", 10, 0]])
        many = {"class_name": "Model", "config": {**whole["config"], "name": f"m{number}"}}
    refused(write_h5(tmp_path / "net.h5", [], SHAPE, config=many), "times|no layer gives|circle")
    (tmp_path / "deep.json").write_text("[" * 100_000)
    refused(tmp_path / "deep.json", "Keras file|JSON", weights="net.h5")


def test_archives_that_grow_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "bomb.keras"
    for part, limit in (("config.json", 15 * 2**20), ("model.weights.h5", 64 * 2**20)):
        with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("config.json", b" " * limit if part == "config.json" else b"{}")
            archive.writestr("model.weights.h5", b"\0" * limit)
        refused(file, f"{part}.*refused")
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("config.json", "{}")
    refused(file, "lacks 'model.weights.h5'")


def test_weights_that_do_not_fit_are_told(tmp_path: Path) -> None:
    narrow = Toy("Dense", {"units": 1}, (("kernel", np.ones((9, 1), "f4")), ("bias", np.zeros(1, "f4"))))
    refused(write_h5(tmp_path / "net.h5", [FLAT, narrow], SHAPE), r"'layer_2' needs weights of shapes \[\(144, 1\), \(1,\)\].*\(9, 1\)")
    refused(write_h5(tmp_path / "net.h5", [FLAT, Toy("Dense", {"units": 1})], SHAPE), "'layer_2' has no weights")
    file = write_h5(tmp_path / "net.h5", [FLAT, DENSE], SHAPE)
    with h5py.File(file, "a") as target:
        del target["model_weights/layer_2/layer_2"]
    refused(file, "are not there")
    file, weights = write_pair(tmp_path, [FLAT, DENSE], SHAPE)
    refused(file, r"is the config of a Keras network.*weights = \"model_weights.h5\"")
    (tmp_path / "list.json").write_text("[1, 2]")
    refused(tmp_path / "list.json", "JSON, but not the config of a Keras network")
    refused(file, "there is no file", weights="elsewhere.h5")
    refused(weights, "without a config")
    (tmp_path / "text.h5").write_text("steering, steering, steering\n" * 20)
    refused(file, "no HDF5 file", weights="text.h5")
    refused(tmp_path / "text.h5", "no Keras file")


def test_weights_of_another_session_are_found_in_order(tmp_path: Path) -> None:
    file, weights = write_pair(tmp_path, [FLAT, DENSE], SHAPE)
    text = file.read_text().replace("layer_2", "dense_9").replace("layer_1", "flatten_7")
    file.write_text(text)
    net = open_keras(file, replace(described(SHAPE, weights=weights.name), file=file.name))
    assert net(torch.ones(1, *SHAPE)).item() == 144.0


def test_a_whole_network_serves_as_the_weights_of_its_config(tmp_path: Path) -> None:
    file, _ = write_pair(tmp_path, [FLAT, DENSE], SHAPE)
    write_h5(tmp_path / "whole.h5", [FLAT, DENSE], SHAPE)
    net = open_keras(file, replace(described(SHAPE, weights="whole.h5"), file=file.name))
    assert net(torch.ones(1, *SHAPE)).item() == 144.0


def test_damaged_weights_are_named_beside_their_config(tmp_path: Path) -> None:
    file, weights = write_pair(tmp_path, [FLAT, DENSE], SHAPE)
    weights.write_bytes(weights.read_bytes()[:-600])
    refused(file, r"net\.json with the weights net_weights\.h5", weights=weights.name)


def test_a_config_that_was_dumped_twice_is_read(tmp_path: Path) -> None:
    file, weights = write_pair(tmp_path, [FLAT, DENSE], SHAPE)
    file.write_text(json.dumps(file.read_text()))
    net = open_keras(file, replace(described(SHAPE, weights=weights.name), file=file.name))
    assert net(torch.ones(1, *SHAPE)).item() == 144.0
    file.write_text(json.dumps(file.read_text()))
    refused(file, "not the config of a Keras network", weights=weights.name)


def subject_toml(folder: Path, file: Path, shape: tuple[int, ...] = SHAPE, **further: Any) -> Path:
    write_description(folder / "net.toml", replace(described(shape, **further), file=str(file)))
    return folder / "net.toml"


def test_a_wrong_input_is_told_with_both_shapes(tmp_path: Path) -> None:
    file = write_h5(tmp_path / "net.h5", [FLAT, DENSE], SHAPE)
    with pytest.raises(BadSubjectError, match=r"6 x 8 x 3.*describes one of 9 x 9 x 3"):
        load_subject(subject_toml(tmp_path, file, (9, 9, 3)))
    with pytest.raises(BadSubjectError, match=r"6 x 8 x 3.*3 x 6 x 8 \(nchw\).*layout"):
        load_subject(subject_toml(tmp_path, file, (3, 6, 8), layout=Layout.NCHW))
    assert load_subject(subject_toml(tmp_path, file)).predict(np.zeros((2, 6, 8, 3), np.uint8)).shape == (2, 1)


@pytest.mark.parametrize("spoil", ["nan", "truncated", "text", "shape"])
def test_the_command_ends_with_2_and_one_sentence(
    spoil: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = write_h5(tmp_path / "net.h5", [FLAT, DENSE], SHAPE)
    if spoil == "nan":
        with h5py.File(file, "a") as target:
            target["model_weights/layer_2/layer_2/kernel:0"][3] = np.nan
    elif spoil == "truncated":
        file.write_bytes(file.read_bytes()[:3000])
    elif spoil == "text":
        file.write_text("no weights here")
    shape = (7, 8, 3) if spoil == "shape" else SHAPE
    monkeypatch.setattr(sys, "argv", ["skidpad", "inspect", str(subject_toml(tmp_path, file, shape))])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    said = capsys.readouterr().err.strip()
    assert said.startswith("error: ")
    assert said.count("\n") == 0


def byte_mutant(raw: bytes, rng: random.Random) -> bytes:
    """Changes a few bytes, mostly of the first headers: numbers, runs of 0 and 255, copies, cuts."""
    mutant = bytearray(raw)
    for _ in range(rng.choice([1, 1, 2, 4, 16])):
        place = rng.randrange(len(mutant) if rng.random() < 0.3 else min(len(mutant), 12_000))
        kind = rng.random()
        if kind < 0.5:
            mutant[place] = rng.randrange(256)
        elif kind < 0.7:
            mutant[place : place + 8] = rng.choice([b"\xff" * 8, bytes(8), (1 << 31).to_bytes(8, "little"), rng.randbytes(8)])
        elif kind < 0.75:
            del mutant[place + 1 :]
        else:
            other = rng.randrange(min(len(mutant), 12_000))
            mutant[place : place + 16] = mutant[other : other + 16]
    return bytes(mutant)


def json_mutant(raw: bytes, rng: random.Random) -> bytes:
    """Changes a few values of a config, so that it stays JSON."""
    config = json.loads(raw)
    places: list[tuple[Any, Any]] = []
    waiting = [config]
    while waiting:
        item = waiting.pop()
        keys = list(item) if isinstance(item, dict) else range(len(item)) if isinstance(item, list) else []
        places += [(item, key) for key in keys]
        waiting += [item[key] for key in keys]
    for _ in range(rng.choice([1, 1, 2, 5])):
        holder, key = rng.choice(places)
        other, elsewhere = rng.choice(places)
        odd = [None, True, -1, 0, 1, 2, 3, 10**6, 10**18, 1e308, -0.5, "", "same", "th", [], {}, [[]], [1, 2], [None], {"a": 1}]
        holder[key] = rng.choice([*odd, other[elsewhere]])
    try:
        return json.dumps(config).encode()
    except ValueError:  # it now holds itself
        return b"{}"


def zipped(file: Path, change: Callable[[bytes, random.Random], bytes], part: str, rng: random.Random) -> bytes:
    """Changes one part of an archive, whose checksums stay right."""
    target = file.with_suffix(".mutant")
    with zipfile.ZipFile(file) as archive, zipfile.ZipFile(target, "w") as changed:
        for name in archive.namelist():
            raw = archive.read(name)
            changed.writestr(name, change(raw, rng) if name == part else raw)
    return target.read_bytes()


@pytest.mark.timeout(60)
@pytest.mark.parametrize("kind", ["h5", "keras", "json", "config", "weights", "pair"])
def test_damaged_files_end_in_one_sentence(kind: str, tmp_path: Path) -> None:
    rng = random.Random(kind)
    pair = {name: (REAL / name).read_bytes() for name in ("recurrent_keras2.json", "recurrent_keras2_weights.h5")}
    (tmp_path / "whole.keras").write_bytes((REAL / "residual_keras3.keras").read_bytes())
    whole = (REAL / "residual_keras2.h5").read_bytes()
    refusals: list[str] = []
    for _ in range(120):
        description = replace(described((13, 18, 3), 2), file="net")
        if kind == "h5":
            mutant = byte_mutant(whole, rng)
        elif kind in {"keras", "config", "weights"}:
            part, change = {"config": ("config.json", json_mutant)}.get(kind, ("model.weights.h5", byte_mutant))
            archive = tmp_path / "whole.keras"
            mutant = byte_mutant(archive.read_bytes(), rng) if kind == "keras" else zipped(archive, change, part, rng)
        else:
            description = replace(described((4, 8, 10, 3), 2, weights="weights.h5"), file="net")
            config, weights = pair["recurrent_keras2.json"], pair["recurrent_keras2_weights.h5"]
            mutant = json_mutant(config, rng) if kind == "json" else config
            (tmp_path / "weights.h5").write_bytes(byte_mutant(weights, rng) if kind == "pair" else weights)
        (tmp_path / "net").write_bytes(mutant)
        try:
            open_keras(tmp_path / "net", description)
        except BadSubjectError as error:
            refusals.append(str(error))
    assert len(refusals) > 20
    assert not any("\n" in refusal for refusal in refusals)
