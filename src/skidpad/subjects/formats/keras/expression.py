"""Expressions in x that stand for a Lambda layer: numbers, + - * / **, parentheses, a few functions, and resizing.

The text is parsed as Python's grammar reads it and then walked; nothing of it is ever run as Python.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping
from typing import TypeAlias

import torch
from torch import nn
from torch.nn import functional

from skidpad.core.errors import BadSubjectError
from skidpad.subjects.inputs import MAX_SIDE_PX
from skidpad.subjects.preprocess import standardised

_MAX_LENGTH = 500
_MAX_DEPTH = 50
_MAX_NUMBER = 1e30
_MAX_POWER = 16
_Number: TypeAlias = torch.Tensor | float
_BINARY: Mapping[type[ast.operator], Callable[..., _Number]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.Pow: operator.pow,
}
_FUNCTIONS: Mapping[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "abs": torch.abs,
    "tanh": torch.tanh,
    "atan": torch.atan,
    "sqrt": torch.sqrt,
    "exp": torch.exp,
    "log": torch.log,
    "sin": torch.sin,
    "cos": torch.cos,
    "relu": torch.relu,
    "sigmoid": torch.sigmoid,
    "standardise": lambda x: standardised(x, tuple(range(1, x.ndim))),
}
_RESIZES = ("resize", "resize_tf1")
_EXAMPLE = 'write it in x with numbers, + - * / **, clip(x, -1, 1), resize(x, 66, 200) and {}, as "x / 127.5 - 1"'.format(
    ", ".join(sorted(_FUNCTIONS))
)


class Expression(nn.Module):
    """Applies an expression to every number of its input; one that resizes takes pictures, (N, channels, height, width).

    size: the height and width to which it resizes. `resize` is tf.image.resize of TensorFlow 2, `resize_tf1` tf.image.resize_images of
    TensorFlow 1, which takes the upper left pixel of those it shrinks to one; both are bilinear and neither smooths what it shrinks.
    """

    def __init__(self, text: str, layer: str) -> None:
        super().__init__()
        self._text, self._layer = text, layer
        try:
            tree = ast.parse(text.strip(), mode="eval").body if len(text) <= _MAX_LENGTH else None
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            tree = None
        if tree is None:
            raise self._bad("is no expression")
        self._tree = tree
        self.size: tuple[int, int] | None = None
        self._check(tree, 0)
        try:
            self._value(tree, torch.ones(()))
        except (ZeroDivisionError, OverflowError) as error:
            raise self._bad("divides by zero or grows beyond all numbers") from error
        if not any(isinstance(node, ast.Name) and node.id == "x" for node in ast.walk(tree)):
            raise self._bad("does not use x")

    def forward(self, value: torch.Tensor) -> torch.Tensor:
        """Returns the expression's value."""
        result = self._value(self._tree, value)
        return result if isinstance(result, torch.Tensor) else torch.full_like(value, result)

    def _check(self, node: ast.AST, depth: int) -> None:
        """Refuses everything that `_value` does not know, before anything is computed."""
        if depth > _MAX_DEPTH:
            raise self._bad("is nested too deeply")
        parts: list[ast.expr] = []
        match node:
            case ast.Constant(value=int() | float() as number) if not isinstance(number, bool) and abs(number) <= _MAX_NUMBER:
                pass
            case ast.Name(id="x"):
                pass
            case ast.UnaryOp(op=ast.USub() | ast.UAdd(), operand=operand):
                parts = [operand]
            case ast.BinOp(op=ast.Pow(), left=left, right=right):
                parts = [left]
                if not isinstance(right, ast.Constant) or not isinstance(right.value, int | float) or not 0 <= right.value <= _MAX_POWER:
                    raise self._bad(f"has a power that is no number from 0 to {_MAX_POWER}")
            case ast.BinOp(left=left, op=op, right=right) if type(op) in _BINARY:
                parts = [left, right]
            case ast.Call(func=ast.Name(id=name), args=arguments, keywords=[]):
                parts = self._arguments(name, arguments)
            case _:
                raise self._bad("holds something else")
        for part in parts:
            self._check(part, depth + 1)

    def _arguments(self, name: str, arguments: list[ast.expr]) -> list[ast.expr]:
        """Returns the parts of a call that have to be looked at; notes the size of one that resizes."""
        match name, arguments:
            case _, [_] if name in _FUNCTIONS:
                return arguments
            case "clip", [_, _, _]:
                return arguments
            case _, [inner, ast.Constant(value=int() as height), ast.Constant(value=int() as width)] if name in _RESIZES:
                if self.size is not None or not (1 <= height <= MAX_SIDE_PX and 1 <= width <= MAX_SIDE_PX):
                    raise self._bad(f"resizes more than once, or not to a height and a width of 1 to {MAX_SIDE_PX}")
                self.size = (height, width)
                return [inner]
        raise self._bad("holds something else")

    def _value(self, node: ast.AST, x: torch.Tensor) -> _Number:
        match node:
            case ast.Constant(value=int() | float() as number):
                return float(number)
            case ast.UnaryOp(op=sign, operand=operand):
                inner = self._value(operand, x)
                return -inner if isinstance(sign, ast.USub) else inner
            case ast.BinOp(left=left, op=op, right=right):
                return _BINARY[type(op)](self._value(left, x), self._value(right, x))
            case ast.Call(func=ast.Name(id=name), args=arguments):
                values = [
                    value if isinstance(value, torch.Tensor) else x.new_tensor(value) for value in (self._value(a, x) for a in arguments)
                ]
                if name in _RESIZES:
                    return _resized(values[0], self.size, halves=name == "resize")
                return torch.clamp(*values) if name == "clip" else _FUNCTIONS[name](values[0])
        return x

    def _bad(self, why: str) -> BadSubjectError:
        shown = self._text if len(self._text) <= 60 else self._text[:57] + "..."
        return BadSubjectError(f"the expression {shown!r} for layer {self._layer!r} {why}; {_EXAMPLE}")


def _resized(pictures: torch.Tensor, size: tuple[int, int] | None, *, halves: bool) -> torch.Tensor:
    if size is None or pictures.ndim != 4:
        return pictures  # a number on trial
    if halves:
        return functional.interpolate(pictures, size, mode="bilinear", align_corners=False)
    for axis, wanted in zip((2, 3), size, strict=True):
        place = torch.arange(wanted, device=pictures.device) * (pictures.shape[axis] / wanted)
        before = place.long()
        after = (before + 1).clamp(max=pictures.shape[axis] - 1)
        share = (place - before).reshape((-1, 1) if axis == 2 else (-1,)).to(pictures.dtype)
        pictures = torch.lerp(pictures.index_select(axis, before), pictures.index_select(axis, after), share)
    return pictures
