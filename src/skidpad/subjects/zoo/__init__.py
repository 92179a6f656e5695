"""The zoo: driving networks of the papers, written from their descriptions, each with its usual input.

Every network takes any input size; the sizes in the tables hold for the usual one. Answers are radians here, whatever the
original was trained on, since `training` trains in radians.
"""

from skidpad.subjects.zoo.architecture import ARCHITECTURES, Architecture

__all__ = ["ARCHITECTURES", "Architecture"]
