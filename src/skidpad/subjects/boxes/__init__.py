"""Black boxes: networks that are only asked, as a Python callable, a program over a pipe or an HTTP address."""

from skidpad.subjects.boxes.protocol import Failures
from skidpad.subjects.boxes.subject import BoxSubject, box_code

__all__ = ["BoxSubject", "Failures", "box_code"]
