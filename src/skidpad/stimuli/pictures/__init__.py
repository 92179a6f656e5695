"""DeepTest's image transformations, and their composition.

Frames that leave the picture are black, the constant border of OpenCV that the paper uses. NumPy frames run on OpenCV
and all cores, torch frames on their device; `torch_kernels` states how closely the two answer alike.

Reference: DeepTest, sections 3.2 and 4, Tables 2 and 4.
"""

from skidpad.stimuli.registry import COMPOSITE, SIMPLE, TRANSFORMS, stimuli

__all__ = ["COMPOSITE", "SIMPLE", "TRANSFORMS", "stimuli"]
