"""TorchScript programs that write a marker file, each by a way that a look at the graph of `forward` does not show."""

import sys
import warnings
from collections.abc import Callable
from pathlib import Path

import torch
from torch import nn

CAN_SCRIPT = sys.version_info < (3, 14)
"""torch no longer scripts on newer versions of Python."""


class _Marked(nn.Module):
    def __init__(self, marker: str) -> None:
        super().__init__()
        self.marker = marker
        self.kept = torch.zeros(4)


class StateFromFile(_Marked):
    """Writes while it is read, before any graph could be looked at."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.mean((1, 2, 3))

    @torch.jit.export
    def __getstate__(self) -> tuple[str, bool]:
        return self.marker, self.training

    @torch.jit.export
    def __setstate__(self, state: tuple[str, bool]) -> None:
        self.marker = state[0]
        self.kept = torch.from_file(self.marker, True, 4, dtype=torch.float32)
        self.training = state[1]


class StateSave(StateFromFile):
    @torch.jit.export
    def __setstate__(self, state: tuple[str, bool]) -> None:
        self.marker = state[0]
        self.kept = torch.zeros(4)
        torch.save(self.kept, self.marker)
        self.training = state[1]


class Forked(_Marked):
    """Its graph calls a subgraph that is an attribute of a node."""

    @torch.jit.export
    def write(self, x: torch.Tensor) -> torch.Tensor:
        torch.save(x, self.marker)
        return x

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.jit.wait(torch.jit.fork(self.write, x)).mean((1, 2, 3))


class Writes(_Marked):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        torch.save(x, self.marker)
        return x


if CAN_SCRIPT:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")

        @torch.jit.interface
        class ModuleInterface(nn.Module):
            def forward(self, x: torch.Tensor) -> torch.Tensor:
                pass

        @torch.jit.interface
        class ClassInterface:
            def write(self, x: torch.Tensor, path: str) -> torch.Tensor:
                pass

        @torch.jit.script
        class WritingClass:
            def __init__(self) -> None:
                self.number = 0

            def write(self, x: torch.Tensor, path: str) -> torch.Tensor:
                torch.save(x, path)
                return x

    class OfModuleInterface(nn.Module):
        """Its graph calls a method of whichever module is there."""

        inner: ModuleInterface

        def __init__(self, marker: str) -> None:
            super().__init__()
            self.inner = Writes(marker)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.inner.forward(x).mean((1, 2, 3))

    class OfClassInterface(_Marked):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            writers: list[ClassInterface] = []
            writers.append(WritingClass())
            return writers[0].write(x, self.marker).mean((1, 2, 3))


def _trap(kind: Callable[[str], nn.Module]) -> Callable[[Path, Path], None]:
    def write(file: Path, marker: Path) -> None:
        """Writes the program; whoever runs it writes the marker."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            torch.jit.save(torch.jit.script(kind(str(marker))), file)

    write.__name__ = kind.__name__
    return write


TRAPS = [_trap(kind) for kind in (StateFromFile, StateSave, Forked, OfModuleInterface, OfClassInterface)] if CAN_SCRIPT else []
