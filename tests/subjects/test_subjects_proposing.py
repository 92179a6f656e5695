"""Descriptions proposed from what a file says, and sizes compared where a file states one."""

from __future__ import annotations

import shutil
import warnings
import zipfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from keras_toys import Toy, write_pair
from safetensors.torch import save_file
from torch import nn

from skidpad.core.errors import BadSubjectError
from skidpad.subjects.description import Description, Format, Output, parse_description
from skidpad.subjects.formats.recognition import format_of
from skidpad.subjects.inputs import Colour, History, HistoryKind, InputSpec, Layout, check_shape, described_shape, picture_layout, resized
from skidpad.subjects.introspection import Proposal, _named, _outputs, propose
from skidpad.subjects.loading import load_subject
from skidpad.subjects.zoo import ARCHITECTURES


def net(channels: int, height: int, width: int, outputs: int) -> nn.Module:
    torch.manual_seed(0)
    size = ((height - 3) // 2 + 1) * ((width - 3) // 2 + 1)
    return nn.Sequential(nn.Conv2d(channels, 2, 3, stride=2), nn.ReLU(), nn.Flatten(), nn.Linear(2 * size, outputs)).eval()


def free_net() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Conv2d(3, 4, 3), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 1)).eval()


def exported(module: nn.Module, file: Path, *shape: int) -> Path:
    torch.export.save(torch.export.export(module, (torch.zeros(2, *shape),)), file)
    return file


def scripted(module: nn.Module, file: Path, *shape: int) -> Path:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.jit.save(torch.jit.trace(module, torch.zeros(1, *shape)), file)
    return file


def accepted(proposal: Proposal, folder: Path) -> Description:
    """A proposal, kept as it is, loads as a subject that answers as many numbers as it names."""
    text = proposal.to_toml()
    described = parse_description(text, default_name=proposal.description.name)
    assert described == replace(proposal.description, input=described.input, outputs=described.outputs)
    assert [output.name for output in described.outputs] == [output.name for output in proposal.description.outputs]
    toml = folder / "kept.toml"
    toml.write_text(text)
    subject = load_subject(toml)
    assert len(subject.layers) > 0
    return subject.description


def test_an_exported_network_states_its_input_and_how_many_numbers_it_answers(tmp_path: Path) -> None:
    proposal = propose(exported(net(1, 30, 40, 3), tmp_path / "net.pt2", 1, 30, 40))
    described = accepted(proposal, tmp_path)
    assert described.input == InputSpec(40, 30, Colour.GREY)
    assert [output.name for output in described.outputs] == ["steering", "output_2", "output_3"]
    assert proposal.guesses == {"range"}
    assert proposal.to_toml().count("guess") == 2


def test_six_channels_are_taken_for_two_frames(tmp_path: Path) -> None:
    proposal = propose(exported(net(6, 20, 24, 1), tmp_path / "net.pt2", 6, 20, 24))
    assert accepted(proposal, tmp_path).input.history == History(2, HistoryKind.STACK)
    assert proposal.guesses == {"range", "colour", "history"}


def test_torchscript_is_tried_at_the_usual_sizes(tmp_path: Path) -> None:
    proposal = propose(scripted(net(3, 66, 200, 2), tmp_path / "net.pt", 3, 66, 200))
    described = accepted(proposal, tmp_path)
    assert described.format is Format.TORCHSCRIPT
    assert (described.input.width_px, described.input.height_px) == (200, 66)
    assert {"width_px", "height_px"} <= proposal.guesses
    assert any("found by trying" in note for note in proposal.notes)


def test_a_network_of_any_size_says_that_the_size_must_be_given(tmp_path: Path) -> None:
    proposal = propose(scripted(free_net(), tmp_path / "net.ts", 3, 50, 70))
    assert any("runs with any of 200 x 66, 320 x 160," in note for note in proposal.notes)


def test_a_network_that_runs_at_no_usual_size_still_gets_a_proposal(tmp_path: Path) -> None:
    proposal = propose(scripted(net(3, 37, 41, 1), tmp_path / "net.ts", 3, 37, 41))
    assert any(note.startswith("It could not be run") for note in proposal.notes)
    assert parse_description(proposal.to_toml()).format is Format.TORCHSCRIPT


@pytest.mark.parametrize("name", ["pilotnet", "autumn"])
def test_weights_find_their_network_in_the_zoo(name: str, tmp_path: Path) -> None:
    row = ARCHITECTURES.get(name)
    save_file(row.build().state_dict(), tmp_path / "net.safetensors")
    proposal = propose(tmp_path / "net.safetensors")
    described = accepted(proposal, tmp_path)
    assert (described.architecture, described.input.history) == (name, row.input.history)


def test_a_state_dict_is_told_from_torchscript_by_its_content(tmp_path: Path) -> None:
    torch.save(ARCHITECTURES.get("pilotnet").build().state_dict(), tmp_path / "net.pt")
    assert propose(tmp_path / "net.pt").description.format is Format.STATE_DICT
    assert format_of(scripted(free_net(), tmp_path / "script.pt", 3, 8, 8)) is Format.TORCHSCRIPT
    assert format_of(exported(free_net(), tmp_path / "program.pt", 3, 8, 8)) is Format.EXPORT


def test_weights_of_another_size_are_named_and_noted(tmp_path: Path) -> None:
    row = ARCHITECTURES.get("pilotnet")
    save_file(row.build(replace(row.input, width_px=240)).state_dict(), tmp_path / "net.safetensors")
    proposal = propose(tmp_path / "net.safetensors")
    assert proposal.description.architecture == "pilotnet"
    assert "not its shapes" in proposal.notes[0]


def test_weights_of_no_known_network_are_refused_with_the_way_out(tmp_path: Path) -> None:
    save_file({"mine": torch.zeros(3)}, tmp_path / "net.safetensors")
    with pytest.raises(BadSubjectError, match=r"fit no network of the zoo \(pilotnet.*architecture = \"my_module:MyNet\""):
        propose(tmp_path / "net.safetensors")


def test_formats_are_told_by_content_before_the_name(tmp_path: Path) -> None:
    (tmp_path / "a.bin").write_bytes(b"\x89HDF\r\n\x1a\n" + bytes(20))
    assert format_of(tmp_path / "a.bin") is Format.KERAS
    with zipfile.ZipFile(tmp_path / "b.zip", "w") as archive:
        for member in ("config.json", "metadata.json", "model.weights.h5"):
            archive.writestr(member, "{}")
    assert format_of(tmp_path / "b.zip") is Format.KERAS
    save_file({"a": torch.zeros(1)}, tmp_path / "c.dat")
    assert format_of(tmp_path / "c.dat") is Format.SAFETENSORS
    (tmp_path / "d.onnx").write_text("anything")
    assert format_of(tmp_path / "d.onnx") is Format.ONNX
    (tmp_path / "e.what").write_text("anything")
    with pytest.raises(BadSubjectError, match=r"cannot tell what .* is"):
        format_of(tmp_path / "e.what")
    (tmp_path / "f.pkl").write_bytes(b"\x80\x04.")
    with pytest.raises(BadSubjectError, match="pickle"):
        format_of(tmp_path / "f.pkl")


def test_a_file_without_a_description_gets_a_template_of_its_own_format(tmp_path: Path) -> None:
    scripted(free_net(), tmp_path / "net.pt", 3, 8, 8)
    with pytest.raises(BadSubjectError, match=r"skidpad inspect .*net\.pt` proposes one") as caught:
        load_subject(tmp_path / "net.pt")
    assert 'format = "torchscript"' in str(caught.value)
    assert "architecture" not in str(caught.value)


def test_an_exported_size_is_compared_even_where_any_would_run(tmp_path: Path) -> None:
    exported(free_net(), tmp_path / "net.pt2", 3, 20, 30)
    text = (
        'file = "net.pt2"\nformat = "export"\n[input]\nwidth_px = 31\nheight_px = 20\ncolour = "rgb"\nrange = { low = 0.0, high = 1.0 }\n'
    )
    (tmp_path / "net.toml").write_text(text + '[[outputs]]\nname = "steering"\nunit = "rad"\n')
    with pytest.raises(BadSubjectError, match=r"takes an input of 3 x 20 x 30, \[input\] describes one of 3 x 20 x 31 \(nchw\)"):
        load_subject(tmp_path / "net.toml")


@given(
    st.sampled_from(Layout),
    st.sampled_from(Colour),
    st.integers(17, 99),
    st.integers(17, 99),
    st.integers(2, 4),
    st.sampled_from(HistoryKind),
)
def test_a_stated_shape_fits_its_own_description_and_no_other(
    layout: Layout, colour: Colour, width: int, height: int, frames: int, kind: HistoryKind
) -> None:
    spec = InputSpec(width, height, colour, layout=layout, history=History(1 if kind is HistoryKind.SINGLE else frames, kind))
    shape = described_shape(spec)
    check_shape(Path("net"), shape, spec)
    check_shape(Path("net"), (None,) * len(shape), spec)
    check_shape(Path("net"), None, spec)
    with pytest.raises(BadSubjectError, match="correct width_px"):
        check_shape(Path("net"), shape, resized(spec))
    with pytest.raises(BadSubjectError, match="correct width_px"):
        check_shape(Path("net"), (*shape, 1), spec)
    assert picture_layout(shape[-3:]) is layout


def test_a_layout_that_cannot_be_told_is_not_told() -> None:
    assert picture_layout((8, 9, 10)) is None
    assert picture_layout((40, 50, 60)) is None
    assert picture_layout((3, 40)) is None
    assert picture_layout((3, None, None)) is Layout.NCHW


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        ((), ["steering"]),
        (("Identity:0",), ["steering"]),
        (("steer_out", "coll_prob"), ["steering", "collision"]),
        (("throttle", "brake", "predicted_angle"), ["throttle", "brake", "steering"]),
        (("a", "b"), ["steering", "output_2"]),
        (("a", "collision"), ["output_1", "collision"]),
        (("steer_left", "steer_right"), ["steering", "output_2"]),
    ],
)
def test_outputs_are_named_after_what_the_file_calls_them(names: tuple[str, ...], expected: list[str]) -> None:
    assert [output.name for output in _named(names)] == expected


def test_every_number_of_an_answer_has_an_output() -> None:
    assert [output.name for output in _outputs(("controls",), [3])] == ["steering", "output_2", "output_3"]
    assert _outputs(("steer", "speed"), [1, 1])[0] == Output("steering", _named(("steer",))[0].unit)


def test_probabilities_of_classes_are_not_taken_for_the_steering(tmp_path: Path) -> None:
    proposal = propose(exported(net(3, 20, 24, 15), tmp_path / "net.pt2", 3, 20, 24))
    assert [output.name for output in accepted(proposal, tmp_path).outputs] == [f"output_{number}" for number in range(1, 16)]
    assert any("answers 15 numbers at once" in note for note in proposal.notes)


@pytest.mark.parametrize("shape", [(12,), (10, 12)])
def test_a_network_that_takes_no_pictures_gets_no_proposal(shape: tuple[int, ...], tmp_path: Path) -> None:
    file = exported(nn.Linear(12, 1), tmp_path / "net.pt2", *shape)
    axes = " x ".join(map(str, shape))
    with pytest.raises(
        BadSubjectError, match=f"takes no pictures: one input is {axes} numbers, where a picture has height, width and channels"
    ):
        propose(file)


def test_a_lambda_is_left_to_the_user_and_never_taken_for_nothing(tmp_path: Path) -> None:
    file = tmp_path / "lambda_keras2.h5"
    shutil.copy(Path(__file__).parent / "keras_files" / file.name, file)
    proposal = propose(file)
    assert (proposal.lambdas, proposal.description.lambdas) == (("lambda",), ())
    text = proposal.to_toml()
    assert '# lambda = "x / 127.5 - 1"' in text
    toml = tmp_path / "net.toml"
    toml.write_text(text)
    with pytest.raises(BadSubjectError, match=r"layer 'lambda' is a Lambda.*say in the description what it does to x"):
        load_subject(toml)
    toml.write_text(text.replace("# lambda", "lambda"))
    assert load_subject(toml).description.lambdas == (("lambda", "x / 127.5 - 1"),)


def test_weights_of_a_config_are_found_by_its_name_and_never_at_random(tmp_path: Path) -> None:
    flat, dense = Toy("Flatten", {}), Toy("Dense", {"units": 1}, (("kernel", np.ones((1200, 1), "f4")), ("bias", np.zeros(1, "f4"))))
    file, weights = write_pair(tmp_path, [flat, dense], (20, 20, 3))
    shutil.copy(weights, tmp_path / "another.h5")
    assert (propose(file).description.weights, propose(file).notes) == ("net_weights.h5", ())
    shutil.copy(weights, tmp_path / "net_best.h5")
    assert propose(file).notes[0].startswith("2 files could hold the weights (net_best.h5, net_weights.h5)")
    shutil.copy(weights, tmp_path / "net.h5")
    assert propose(file).description.weights == "net.h5"
    for path in tmp_path.glob("*.h5"):
        path.unlink()
    with pytest.raises(
        BadSubjectError, match=r"net\.json: it is the config of a Keras network, which has the layers without their weights"
    ):
        propose(file)


@pytest.mark.real_data
def test_the_published_dronets_are_proposed_from_their_files(shared_data: Path) -> None:
    models = shared_data / "models"
    for file, layout in ((models / "dronet/model_struct.json", Layout.NHWC), (models / "pulp-dronet-v2/model_original.onnx", Layout.NCHW)):
        described = propose(file).description
        assert described.input == InputSpec(200, 200, Colour.GREY, layout=layout)
        assert len(described.outputs) == 2
    assert propose(models / "dronet/model_struct.json").description.weights == "model_weights.h5"
