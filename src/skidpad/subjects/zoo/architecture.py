"""What a network of the zoo is, and the list of them."""

from collections.abc import Callable
from dataclasses import dataclass

from torch import nn

from skidpad.core.angles import AngleUnit
from skidpad.core.errors import BadSubjectError
from skidpad.core.registry import Registry
from skidpad.subjects.description import STEERING, Description, Format, HistoryKind, InputSpec, Layout, Output
from skidpad.subjects.windows import check_history, input_channels

_STEERING_ALONE = (Output(STEERING, AngleUnit.RAD),)


@dataclass(frozen=True, slots=True)
class Architecture:
    """A network of the zoo: how it is built for an input, the input that its source gives it, and what it answers.

    builder: takes channels, height_px and width_px of one input; one with a recurrent history also how many frames a window
    has. `input.history` fixes how many channels an input has, and its kind cannot be changed.
    """

    name: str
    builder: Callable[..., nn.Module]
    input: InputSpec
    outputs: tuple[Output, ...] = _STEERING_ALONE

    def build(self, spec: InputSpec | None = None) -> nn.Module:
        """Builds the network with fresh weights for an input; drawn from torch's global generator."""
        spec = spec or self.input
        if spec.layout is not Layout.NCHW:
            raise BadSubjectError(f"networks of the zoo take the layout 'nchw'; got {spec.layout.value!r}")
        kind = self.input.history.kind
        if spec.history.kind is not kind:
            raise BadSubjectError(f"{self.name!r} takes a history of kind {kind.value!r}; got {spec.history.kind.value!r}")
        check_history(spec)
        shape = (input_channels(spec), spec.height_px, spec.width_px)
        try:
            return self.builder(*shape, spec.history.frames) if kind is HistoryKind.RECURRENT else self.builder(*shape)
        except RuntimeError as error:
            raise BadSubjectError(f"an input of {spec.height_px} x {spec.width_px} px is too small for {self.name!r}") from error

    def describe(self, name: str, file: str, spec: InputSpec | None = None) -> Description:
        """Describes a network of this architecture whose weights are the safetensors `file`."""
        return Description(name, file, Format.SAFETENSORS, spec or self.input, self.outputs, self.name)


_MODULES = tuple(f"skidpad.subjects.zoo.{module}" for module in ("dave", "epoch", "chauffeur", "rambo", "autumn", "dronet"))

ARCHITECTURES: Registry[Architecture] = Registry("architecture", "architectures", _MODULES)
