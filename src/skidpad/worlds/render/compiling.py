"""How the functions of the renderer are compiled, and the memory that they share.

Compiled code counts the references to every array that it takes, in memory that all threads share and with instructions that lock it. In
functions that are called for every card of every row that was a third of a frame's time, and more with two threads than with one.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from skidpad.core.compiling import compiler

compiled = compiler()
"""For functions that make or return arrays."""
# `_nrt` is a private option of numba, there since its first releases.
uncounted = compiler(_nrt=False)
"""For functions that neither make nor return arrays: they count no references, whoever calls them holds the arrays."""
inlined = compiler(_nrt=False, forceinline=True)
"""Likewise, for the arithmetic of one pixel: it becomes a part of the loop that calls it."""

CHUNK = 64
"""Rows are painted in pieces of so many pixels; loops of fixed length become vector instructions."""

Scratch: TypeAlias = NDArray[np.float32]
"""Scratch memory of a kernel: lines of CHUNK values."""
