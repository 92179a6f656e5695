"""TorchScript programs as modules whose every operation can be seen."""

import torch
from torch import nn


class ScriptedNetwork(nn.Module):
    """Runs a TorchScript program operation by operation.

    Left to itself, TorchScript fuses operations on a GPU after a few runs, and the probe would miss the fused ones.
    """

    def __init__(self, program: torch.jit.ScriptModule) -> None:
        super().__init__()
        self.program = program

    def forward(self, inputs: torch.Tensor) -> object:
        """Returns the program's answer."""
        with torch.jit.optimized_execution(should_optimize=False):  # type: ignore[attr-defined] # public, but torch does not export it to checkers
            return self.program(inputs)
