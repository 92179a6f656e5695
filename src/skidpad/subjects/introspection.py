"""What a model file says of itself: the shape of its input, the names of its outputs, the network that its weights fit."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from skidpad.core.errors import BadSubjectError
from skidpad.core.settings import plain, write_toml
from skidpad.core.units import AngleUnit, PlainUnit
from skidpad.subjects.description import STEERING, Bins, Decode, Description, Format, Output
from skidpad.subjects.formats.exported import read_exported
from skidpad.subjects.formats.keras.building import read_model
from skidpad.subjects.formats.keras.opening import read_contents, readable, stated_shape
from skidpad.subjects.formats.onnx.reading import read_model as read_onnx
from skidpad.subjects.formats.recognition import format_of, refuse_foreign
from skidpad.subjects.formats.tflite import read_tflite
from skidpad.subjects.inputs import Colour, History, HistoryKind, InputSpec, Layout, described_shape, picture_layout
from skidpad.subjects.loading import open_network, read_safetensors, read_state_dict
from skidpad.subjects.network_subject import CANNOT_RUN, TorchNetwork
from skidpad.subjects.zoo import ARCHITECTURES, Architecture


@dataclass(frozen=True, slots=True)
class Stated:
    """What is in the file; None or empty where it does not say.

    shape: of one input without the batch, None for a size that may be any. channels: of the first convolution, where that is all
    there is. outputs: a name for each tensor that it answers with. weights: the second file of a pair. lambdas: layers that must
    be declared. notes: what a person should know.
    """

    shape: tuple[int | None, ...] | None = None
    channels: int | None = None
    outputs: tuple[str, ...] = ()
    architecture: Architecture | None = None
    weights: str | None = None
    lambdas: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def stated(file: Path, format_: Format) -> Stated:
    """Reads what a file says of itself; a file that is not whole is an error."""
    return _READERS[format_](file)


def _of_onnx(file: Path) -> Stated:
    model = read_onnx(file)
    return Stated(shape=None if model.input.shape is None else model.input.shape[1:], outputs=model.outputs)


def _of_tflite(file: Path) -> Stated:
    model = read_tflite(file)
    return Stated(shape=model.shape[1:], outputs=model.outputs)


def _of_keras(file: Path) -> Stated:
    weights, notes = _weights_beside(file)
    if weights is not None:
        refuse_foreign(weights, Format.KERAS)
    with readable(file, weights.name if weights is not None else None):
        contents = read_contents(file, weights)
        model = read_model(contents.model)
        shape = stated_shape(contents.model)
    return Stated(
        shape=shape,
        outputs=tuple(answer.layer for answer in model.answers),
        weights=weights.name if weights is not None else None,
        lambdas=tuple(layer.name for layer in model.settings if layer.class_name == "Lambda"),
        notes=notes,
    )


def _weights_beside(file: Path) -> tuple[Path | None, tuple[str, ...]]:
    """Returns the weights that belong to a config in a file of its own: those of its name, or the only ones beside it; and notes."""
    if file.suffix.lower() != ".json":
        return None, ()
    found = sorted(path for suffix in ("*.h5", "*.hdf5") for path in file.parent.glob(suffix))
    near = [path for path in found if path.stem == file.stem] or [path for path in found if path.stem.startswith(file.stem)] or found
    if len(near) > 1:
        names = ", ".join(path.name for path in near[:5]) + (", ..." if len(near) > 5 else "")
        return near[0], (f"{len(near)} files could hold the weights ({names}); the first is taken, look which one belongs to {file.name}.",)
    return next(iter(near), None), ()


def _of_torchscript(file: Path) -> Stated:
    description = Description(file.stem, file.name, Format.TORCHSCRIPT, InputSpec(1, 1))
    network = open_network(file, description)
    state = network.module.state_dict() if isinstance(network, TorchNetwork) else {}
    return Stated(channels=_first_channels(state), notes=("TorchScript does not say the size of its input.",))


def _of_weights(file: Path, state: Mapping[str, torch.Tensor]) -> Stated:
    """Looks for the network of the zoo whose tensors have these names, and best also these shapes."""
    shapes = {name: tuple(tensor.shape) for name, tensor in state.items()}
    same: list[Architecture] = []
    alike: Architecture | None = None
    for name in ARCHITECTURES.names():
        row = ARCHITECTURES.get(name)
        with torch.device("meta"):  # shapes alone: drawing millions of weights would take seconds
            wanted = {key: tuple(tensor.shape) for key, tensor in row.build().state_dict().items()}
        if wanted == shapes:
            same.append(row)
        elif wanted.keys() == shapes.keys():
            alike = row
    if same:
        others = f"The weights also fit {', '.join(row.name for row in same[1:])}."
        return Stated(architecture=same[0], notes=(others,) if same[1:] else ())
    if alike is None:
        raise BadSubjectError(
            f"{file} holds weights alone, and they fit no network of the zoo ({', '.join(ARCHITECTURES.names())}); name a class of your "
            'own in a description, as architecture = "my_module:MyNet", or export the network with torch.export'
        )
    note = f"The weights have the names of {alike.name!r} but not its shapes: width_px and height_px are not those of the zoo."
    return Stated(architecture=alike, notes=(note,))


def _first_channels(state: Mapping[str, torch.Tensor]) -> int | None:
    return next((int(tensor.shape[1]) for tensor in state.values() if tensor.ndim == 4), None)


_READERS: Mapping[Format, Callable[[Path], Stated]] = {
    Format.ONNX: _of_onnx,
    Format.EXPORT: lambda file: Stated(shape=read_exported(file).input_shape[1:]),
    Format.KERAS: _of_keras,
    Format.TFLITE: _of_tflite,
    Format.TORCHSCRIPT: _of_torchscript,
    Format.SAFETENSORS: lambda file: _of_weights(file, read_safetensors(file)),
    Format.STATE_DICT: lambda file: _of_weights(file, read_state_dict(file)),
}


_SIZES_PX = ((66, 200), (160, 320), (200, 200), (64, 64), (80, 160), (100, 100), (120, 160), (128, 128), (192, 256), (224, 224), (480, 640))
"""Heights and widths that driving networks take, tried where a file does not say its own."""

_KNOWN_OUTPUTS = (
    (("steer", "angle"), Output(STEERING, AngleUnit.RAD)),
    (("coll",), Output("collision", PlainUnit.PROBABILITY)),
    (("throttle", "accel"), Output("throttle", PlainUnit.FRACTION)),
    (("brake",), Output("brake", PlainUnit.FRACTION)),
    (("speed", "velocity"), Output("speed", PlainUnit.METRES_PER_SECOND)),
)
_MOST_CONTROLS = 6
"""Steering, throttle, brake and a few more; a network that answers more numbers at once chooses among classes."""
_RANGE_HINT = "look how the training scaled its pictures"


@dataclass(frozen=True, slots=True)
class Proposal:
    """A description that may be right. guesses: the keys of [input] that the file does not say. notes: what else to look at.

    lambdas: layers whose code is in the file and never run. They stand as comments, for any guess would drive, and drive wrongly.
    """

    description: Description
    guesses: frozenset[str]
    notes: tuple[str, ...] = ()
    lambdas: tuple[str, ...] = ()

    def to_toml(self) -> str:
        """Writes the description with its guesses and notes as comments, ready to be kept beside the file."""
        described = self.description
        head: dict[str, object] = {"file": described.file, "format": described.format.value}
        head |= {key: value for key, value in (("architecture", described.architecture), ("weights", described.weights)) if value}
        lines = [*(f"# {note}" for note in self.notes), *([""] if self.notes else []), *write_toml(head).splitlines()]
        if self.lambdas:
            lines += ["", "[lambdas]  # say what each of these layers does to x; the file has it as code, which is never run"]
            lines += [f"# {write_toml({layer: 'x / 127.5 - 1'}).strip()}" for layer in self.lambdas]
        lines += ["", "[input]", *self._input_lines()]
        for output in described.outputs:
            unit = {"unit": output.unit.value} if output.unit is not None else {}
            lines += ["", "[[outputs]]", *write_toml({"name": output.name}).splitlines()]
            if output.decode is Decode.BINS:
                lines += [f'decode = "{output.decode.value}"', f"bins = {_inline(plain(output.bins))}  # guess: low and high"]
            lines += write_toml(unit).splitlines()
            lines[-1] += (
                "  # guess: look at what the training called its target, in what unit, of which wheel"
                if output is described.outputs[0]
                else ""
            )
        return "\n".join(lines) + "\n"

    def _input_lines(self) -> Iterator[str]:
        spec = self.description.input
        values: dict[str, object] = {
            "width_px": spec.width_px,
            "height_px": spec.height_px,
            "colour": spec.colour.value,
            "range": {"low": spec.range.low[0], "high": spec.range.high[0]},
            "layout": spec.layout.value,
        }
        if spec.history.frames > 1:
            values["history"] = {"frames": spec.history.frames, "kind": spec.history.kind.value}
        for key, value in values.items():
            text = f"{key} = {_inline(value)}"
            hint = f": {_RANGE_HINT}" if key == "range" else ""
            yield f"{text}  # guess{hint}" if key in self.guesses else text


def propose(file: Path) -> Proposal:
    """Proposes the description of a model file; a file that cannot be read is an error."""
    format_ = format_of(file)
    said = stated(file, format_)
    if said.architecture is not None:
        described = replace(said.architecture.describe(file.stem, file.name), format=format_)
        notes = (*said.notes, f"[input] is the usual one of {said.architecture.name!r}; weights say neither crop, nor colour, nor range.")
        return Proposal(described, frozenset({"colour", "range"}), notes)
    _check_picture(file, said)
    spec, guesses = _input(said)
    blank = Description(file.stem, file.name, format_, spec, _named(said.outputs), None, said.weights)
    # to count the answers, and for that alone, layers that nobody has declared yet hand on what they get
    tried = _tried(file, replace(blank, lambdas=tuple((layer, "x") for layer in said.lambdas)), guesses)
    if tried is None:
        notes = (*said.notes, "The network could not be run on this input, so the number of its outputs is not known.")
        return Proposal(blank, guesses, notes, said.lambdas)
    found, answers, notes = tried
    described = replace(found, outputs=_outputs(said.outputs, answers), lambdas=())
    return Proposal(described, guesses, (*said.notes, *notes, *_class_notes(answers, described.outputs)), said.lambdas)


def _check_picture(file: Path, said: Stated) -> None:
    """Refuses a network whose input has not the axes of a picture, or of pictures one after another."""
    if said.shape is not None and len(said.shape) not in {3, 4}:
        axes = " x ".join("any" if size is None else str(size) for size in said.shape) or "1"
        raise BadSubjectError(
            f"{file} takes no pictures: one input is {axes} numbers, where a picture has height, width and channels; "
            "only networks that see camera frames can be tested"
        )


def _input(said: Stated) -> tuple[InputSpec, frozenset[str]]:
    """Makes an input of what is stated; returns the keys that are not."""
    guesses = {"range"}
    shape = said.shape or ()
    history = History()
    if len(shape) == 4:
        frames, shape = shape[0], shape[1:]
        history = History(frames or 10, HistoryKind.RECURRENT)
        guesses |= set() if frames else {"history"}
    layout = picture_layout(shape)
    guesses |= set() if layout else {"layout"}
    layout = layout or Layout.NCHW
    axes = shape if len(shape) == 3 else (None, None, None)
    channels, height, width = axes if layout is Layout.NCHW else (axes[2], axes[0], axes[1])
    guesses |= set() if height and width else {"width_px", "height_px"}
    channels = channels or said.channels or 3
    colour = Colour.GREY if channels == 1 else Colour.RGB
    guesses |= set() if channels == 1 else {"colour"}
    if channels > 3 and channels % 3 == 0:
        history = History(channels // 3, HistoryKind.STACK)
        guesses.add("history")
    spec = InputSpec(width or _SIZES_PX[0][1], height or _SIZES_PX[0][0], colour, layout=layout, history=history)
    return spec, frozenset(guesses)


def _tried(file: Path, blank: Description, guesses: frozenset[str]) -> tuple[Description, list[int], tuple[str, ...]] | None:
    """Runs the network on zeros, of the usual sizes where its own is not stated.

    Returns the description of the first size that runs, how many numbers each tensor of the answer has, and notes.
    """
    sizes = _SIZES_PX if "width_px" in guesses else ((blank.input.height_px, blank.input.width_px),)
    found: list[tuple[Description, list[int]]] = []
    trouble = ""
    for height, width in sizes:
        described = replace(blank, input=replace(blank.input, height_px=height, width_px=width))
        try:
            found.append((described, _answered(file, described)))
        except BadSubjectError as error:
            trouble = str(error)
        except CANNOT_RUN:
            trouble = "the network cannot take an input of that shape"
    if not found:
        return (blank, [], (f"It could not be run: {trouble}",)) if trouble else None
    notes: tuple[str, ...] = ()
    if len(found) > 1:
        fits = ", ".join(f"{described.input.width_px} x {described.input.height_px}" for described, _ in found)
        notes = (f"The network runs with any of {fits} px; give the size that it was trained with.",)
    elif len(sizes) > 1:
        notes = ("The size was found by trying the usual ones.",)
    return *found[0], notes


def _answered(file: Path, description: Description) -> list[int]:
    network = open_network(file, description)
    inputs = torch.zeros((network.fixed_batch or 1, *described_shape(description.input)))
    answer = network.answer(inputs)
    tensors = answer if isinstance(answer, tuple | list) else (answer,)
    return [tensor.numel() // len(inputs) for tensor in tensors if isinstance(tensor, torch.Tensor)]


def _outputs(names: Sequence[str], answers: Sequence[int]) -> tuple[Output, ...]:
    """Names every number that the network answers; a tensor of several has its name with a number."""
    if not answers:
        return _named(names)
    heads = list(names) if len(names) == len(answers) else ["" for _ in answers]
    binned = [_binned(name, count) for name, count in zip(heads, answers, strict=True)]
    if all(binned):
        return tuple(output for output in binned if output is not None)
    if any(count > _MOST_CONTROLS for count in answers):
        return tuple(Output(f"output_{place + 1}") for place in range(sum(answers)))
    return _named(
        [name if count == 1 else f"{name}_{place + 1}" for name, count in zip(heads, answers, strict=True) for place in range(count)]
    )


def _binned(name: str, count: int) -> Output | None:
    """Takes several numbers under the name of a control for its bins, as Donkey's categorical pilots answer."""
    row = next((row for words, row in _KNOWN_OUTPUTS if any(word in name.lower() for word in words)), None)
    if row is None or count <= _MOST_CONTROLS:
        return None
    return replace(row, decode=Decode.BINS, bins=Bins(count, -1.0 if row.is_angle else 0.0))


def _class_notes(answers: Sequence[int], outputs: Sequence[Output]) -> tuple[str, ...]:
    most = max(answers, default=0)
    note = (
        f"The network answers {most} numbers at once, which look like the probabilities of classes. "
        'If they are bins of the steering, write one [[outputs]] with decode = "bins" and the values of the first and last bin.'
    )
    return (note,) if most > _MOST_CONTROLS and not all(output.decode is Decode.BINS for output in outputs) else ()


def _named(names: Sequence[str]) -> tuple[Output, ...]:
    """Takes the outputs that names speak of; where none speaks of steering, the first is taken for it."""
    known = [next((row for words, row in _KNOWN_OUTPUTS if any(word in name.lower() for word in words)), None) for name in names]
    outputs: list[Output] = []
    for place, row in enumerate(known or [None]):
        plain = Output(STEERING, AngleUnit.RAD) if place == 0 and not any(known) else Output(f"output_{place + 1}")
        taken = row if row is not None and row.name not in {output.name for output in outputs} else plain
        outputs.append(taken)
    return tuple(outputs)


def _inline(value: object) -> str:
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{key} = {_inline(item)}" for key, item in value.items()) + " }"
    return f'"{value}"' if isinstance(value, str) else str(value)
