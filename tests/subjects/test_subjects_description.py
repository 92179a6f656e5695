import tomllib
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skidpad.core.errors import BadSubjectError, UnknownNameError
from skidpad.core.units import UNITS, AngleUnit, Axle, PlainUnit
from skidpad.subjects.description import (
    Box,
    Description,
    Format,
    Output,
    description_hash,
    format_description,
    left_to_default,
    minimal_description,
    missing_keys,
    parse_description,
    read_description,
    write_description,
)
from skidpad.subjects.inputs import Colour, Crop, History, HistoryKind, InputSpec, Layout, Range

WHOLE = """
name = "car"
file = "car.safetensors"
format = "safetensors"
architecture = "pilotnet"

[input]
width_px = 200
height_px = 66
colour = "yuv"
range = { low = -1.0, high = 1.0 }
crop = { top = 0.4, bottom = 0.1 }

[[outputs]]
name = "steering"
unit = "deg"
scale = -1.0

[[outputs]]
name = "throttle"
"""

fractions = st.floats(0.0, 0.45)
numbers = st.floats(-300.0, 300.0, allow_nan=False)


words = st.text(min_size=1, max_size=8)
boxes = st.builds(Box, function=words) | st.builds(Box, url=words) | st.builds(Box, command=st.lists(words, min_size=1).map(tuple))


@st.composite
def descriptions(draw: st.DrawFn) -> Description:
    colour = draw(st.sampled_from(Colour))
    count = draw(st.sampled_from([1, colour.channels]))
    low = tuple(draw(numbers) for _ in range(count))
    high = tuple(value + draw(st.floats(0.5, 300.0)) for value in low)
    kind = draw(st.sampled_from(HistoryKind))
    spec = InputSpec(
        draw(st.integers(1, 999)),
        draw(st.integers(1, 999)),
        colour,
        Range(low, high),
        Crop(*(draw(fractions) for _ in range(4))),
        draw(st.sampled_from(Layout)),
        History(1 if kind is HistoryKind.SINGLE else draw(st.integers(1, 40)), kind),
        draw(st.none() | st.floats(0.1, 10.0)),
    )
    names = draw(st.lists(st.text(min_size=1, max_size=8), unique=True, max_size=3).filter(lambda names: "steering" not in names))
    scale = st.floats(-100, 100).filter(lambda value: value != 0.0)
    outputs = [Output(name, draw(st.none() | st.sampled_from(list(UNITS.values()))), draw(scale)) for name in names]
    axle = draw(st.just(()) | st.tuples(st.just(Axle.ROAD_WHEEL), st.floats(0.5, 100.0)))
    outputs.insert(draw(st.integers(0, len(outputs))), Output("steering", draw(st.sampled_from(AngleUnit)), draw(scale), *axle))
    text = st.text(min_size=1, max_size=20)
    format_ = draw(st.sampled_from(Format))
    box = draw(boxes) if format_ is Format.BOX else None
    lambdas = tuple(draw(st.dictionaries(text, text, max_size=2)).items())
    weights = draw(st.none() | text)
    return Description(draw(text), "" if box else draw(text), format_, spec, tuple(outputs), draw(text), weights, lambdas, box)


@settings(max_examples=50)
@given(descriptions())
def test_what_is_written_is_read_back(description: Description) -> None:
    assert parse_description(format_description(description)) == description


def test_keys_are_read_with_their_meaning() -> None:
    description = parse_description(WHOLE)
    assert description.format is Format.SAFETENSORS
    assert description.input == InputSpec(200, 66, Colour.YUV, Range((-1.0,), (1.0,)), Crop(top=0.4, bottom=0.1))
    assert description.steering.per_answer == pytest.approx(-3.141592653589793 / 180)
    assert [output.name for output in description.outputs] == ["steering", "throttle"]
    assert description.input.shape == (3, 66, 200)


def test_a_file_is_written_whole_and_named_in_errors(tmp_path: Path) -> None:
    path = tmp_path / "car.toml"
    write_description(path, parse_description(WHOLE))
    assert read_description(path) == parse_description(WHOLE)
    assert [entry.name for entry in tmp_path.iterdir()] == ["car.toml"]
    path.write_text(WHOLE.replace('name = "car"', "").replace("yuv", "yuf"))
    with pytest.raises(BadSubjectError, match=r"car\.toml.*did you mean 'yuv'"):
        read_description(path)
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(BadSubjectError, match="cannot read"):
        read_description(path)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('name = "car"', 'nam = "car"', "no key of the description named 'nam'; did you mean 'name'"),
        ("width_px = 200", "widht_px = 200", r"no key of \[input\] named 'widht_px'; did you mean 'width_px'"),
        ("width_px = 200", 'width_px = "200"', "must be a whole number"),
        ("width_px = 200", "width_px = 0", "sides are 1 to 8192 pixels"),
        ("width_px = 200", "width_px = 2000000", "sides are 1 to 8192 pixels"),
        ("width_px = 200", "width_px = 200\nheigth = 2", r"no key of \[input\] named 'heigth'"),
        ("top = 0.4", "topp = 0.4", "did you mean 'top'"),
        ("top = 0.4", "top = 40", "fractions of the frame"),
        ("top = 0.4", "top = 0.95", "leave something over"),
        ("high = 1.0", "high = nan", "finite"),
        ('file = "car.safetensors"', 'file = ""', "file must not be empty"),
        ('name = "car"', 'name = "car"\nlambdas = 3', "lambdas must be a table of names and texts; got 3"),
        ('architecture = "pilotnet"', 'architecture = ""', "architecture must not be empty"),
        ("high = 1.0", "high = -1.0", "must not be empty"),
        ("high = 1.0", "high = [1.0, 1.0]", "as many low as high"),
        ('unit = "deg"', 'unit = "degrees"', "no value for outputs.1.unit named 'degrees'; did you mean 'deg'"),
        ('unit = "deg"', 'unit = "m/s"', "needs a unit of angles"),
        ('unit = "deg"', "", "needs a unit"),
        ('"steering"', '"stering"', "did you mean 'steering'"),
        ('"throttle"', '"steering"\nunit = "rad"', "names must differ"),
        ("scale = -1.0", "scale = 0.0", "finite and not zero"),
        ("scale = -1.0", "scale = true", "must be a number"),
        ("scale = -1.0", 'axle = "road"', "no value for outputs.1.axle named 'road'.*road-wheel"),
        ("scale = -1.0", 'axle = "road-wheel"\nratio = 0', "above 0 and at most 100, as 14.8; got 0"),
        ("scale = -1.0", 'axle = "road-wheel"\nratio = nan', "outputs.1.ratio must be a finite number; got nan"),
        ("scale = -1.0", "ratio = 16", 'which is for angles of the road wheels; write axle = "road-wheel"'),
        ('name = "throttle"', 'name = "throttle"\naxle = "road-wheel"', "'throttle' is no angle, so it is of no axle"),
        ("width_px = 200", "width_px = 200\nframe_aspect = 0", "frame_aspect is a frame's width over its height"),
        ("width_px = 200", "width_px = 200\nframe_aspect = [4, 3]", r"input.frame_aspect must be a number; got \[4, 3\]"),
        (
            "width_px = 200",
            'width_px = 200\nhistory = { frames = 1000000000, kind = "stack" }',
            "at most 1000 frames; got frames = 1000000000",
        ),
        (
            "width_px = 200\nheight_px = 66",
            "width_px = 8192\nheight_px = 8192",
            "at most 134217728 numbers; got 8192 x 8192 pixels x 3 channels x 1 frames = 201326592",
        ),
        ('architecture = "pilotnet"', "", "holds weights alone"),
        ('"safetensors"\n', '"safetensor"\n', "did you mean 'safetensors'"),
        ("[[outputs]]", "[outputs]", "is not TOML"),
        ("[input]", "[inputs]", "no key of the description named 'inputs'; did you mean 'input'"),
        ("width_px = 200", 'width_px = 200\nhistory = { frames = 3, kind = "single" }', "cannot have 3 frames"),
        ("width_px = 200", 'width_px = 200\nhistory = { frames = 3, kind = "stak" }', "did you mean 'stack'"),
    ],
)
def test_a_wrong_key_is_one_sentence_that_teaches(old: str, new: str, message: str) -> None:
    assert old in WHOLE
    with pytest.raises(BadSubjectError, match=message) as caught:
        parse_description(WHOLE.replace(old, new))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("format_", [format_ for format_ in Format if format_ is not Format.BOX])
def test_the_minimal_description_is_one(format_: Format) -> None:
    assert parse_description(minimal_description("net.bin", format_)).format is format_


def test_the_hash_knows_what_changes_an_answer() -> None:
    description = parse_description(WHOLE)
    assert description_hash(replace(description, name="other", file="elsewhere.safetensors")) == description_hash(description)
    changed = replace(description, input=replace(description.input, crop=Crop(top=0.41, bottom=0.1)))
    assert description_hash(changed) != description_hash(description)


@given(fractions, fractions, fractions, fractions, st.integers(1, 700), st.integers(1, 700))
def test_a_crop_always_leaves_a_picture(top: float, bottom: float, left: float, right: float, height: int, width: int) -> None:
    rows, columns = Crop(top, bottom, left, right).window(height, width)
    assert 0 <= rows.start < rows.stop <= height
    assert 0 <= columns.start < columns.stop <= width


def test_all_that_is_missing_is_said_at_once() -> None:
    text = 'format = "safetensors"\n[input]\nwidth_px = 3\n[[outputs]]\nname = "steering"\n[[outputs]]\nunit = "m/s"'
    with pytest.raises(BadSubjectError) as caught:
        parse_description(text, "car.toml")
    said = str(caught.value)
    assert said.startswith("car.toml: the description lacks the key 'file'")
    for key in ("architecture", "height_px of [input]", "colour of [input]", "range of [input]", "unit of [[outputs]] number 1"):
        assert key in said
    assert said.count("file") == 2  # the key and the example, not again among what else is missing
    assert missing_keys({"format": "box"}) == ("box", "input", "outputs")
    assert missing_keys({}) == ("format", "file", "input", "outputs")


def test_what_is_left_to_defaults_is_known() -> None:
    assert left_to_default(tomllib.loads(WHOLE)) == (
        "layout of [input]: nchw",
        "history of [input]: one frame at a time",
        "axle of [[outputs]] number 1: the angle is of the steering wheel",
        "unit of [[outputs]] number 2: a plain number",
    )


def test_a_subject_need_not_steer() -> None:
    brake = Description("car", "car.onnx", Format.ONNX, InputSpec(4, 3), (Output("brake", PlainUnit.FRACTION, 2.0), Output("collision")))
    assert not brake.steers
    assert (brake.column("collision"), brake.outputs[0].per_answer, brake.outputs[0].is_angle) == (1, 2.0, False)
    with pytest.raises(BadSubjectError, match=r"no output named 'steering' \(it has brake, collision\).*--output brake"):
        _ = brake.steering
    with pytest.raises(UnknownNameError, match="no output of 'car' named 'brakes'; did you mean 'brake'"):
        brake.column("brakes")
    with pytest.raises(BadSubjectError, match="needs an output"):
        Description("car", "car.onnx", Format.ONNX, InputSpec(4, 3), ())


def test_a_description_that_says_no_axle_has_the_hash_it_always_had() -> None:
    assert description_hash(parse_description(WHOLE)) == "013c02543d77de71921688050462ca5817b1f6ba9e259ac0dabb352f586e69cf"


def test_the_axle_changes_the_hash_and_the_aspect_of_training_does_not() -> None:
    plain, turned = parse_description(WHOLE), parse_description(WHOLE.replace("scale = -1.0", 'scale = -1.0\naxle = "road-wheel"'))
    assert description_hash(turned) != description_hash(plain)
    assert description_hash(replace(plain, input=replace(plain.input, frame_aspect=1.5))) == description_hash(plain)


def test_one_of_udacitys_simulator_is_25_degrees_of_the_road_wheels_to_the_right() -> None:
    simulator = WHOLE.replace('unit = "deg"', 'unit = "scaled25"').replace("scale = -1.0", 'scale = -1.0\naxle = "road-wheel"')
    assert parse_description(simulator).steering.per_answer == pytest.approx(-14.8 * 25.0 * 3.141592653589793 / 180)
    assert parse_description(simulator.replace('"road-wheel"', '"road-wheel"\nratio = 16.5')).steering.per_answer == pytest.approx(
        -16.5 * 25.0 * 3.141592653589793 / 180
    )


@pytest.mark.parametrize("text", ["a = " + "[" * 20_000, "a = " + "{ b = " * 20_000, "a = " + "[" * 20_000 + "]" * 20_000])
def test_toml_nested_beyond_all_measure_is_a_sentence(text: str) -> None:
    with pytest.raises(BadSubjectError, match="nested more than 32 deep"):
        parse_description(text)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("restarts = 1000000000", "restarts of a box are 0 to 1000; got 1000000000"),
        ("restarts = -1", "restarts of a box are 0 to 1000; got -1"),
        ("timeout_s = 1e300", "above 0 and at most 86400, a day; got 1e[+]300"),
        ("timeout_s = inf", "box.timeout_s must be a finite number; got inf"),
        ("timeout_s = nan", "box.timeout_s must be a finite number; got nan"),
    ],
)
def test_a_box_has_limits(words: str, message: str) -> None:
    box = f'[box]\nurl = "http://127.0.0.1:8000/steer"\n{words}\n\n[input]'
    text = WHOLE.replace('"safetensors"', '"box"').replace('file = "car.safetensors"\n', "").replace("[input]", box)
    with pytest.raises(BadSubjectError, match=message):
        parse_description(text)
