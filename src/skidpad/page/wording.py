"""How values and foreign names become words: safe to print, short enough to read, honest about NaN."""

import unicodedata
from math import isfinite
from typing import TYPE_CHECKING

from skidpad.core.units import Axle, side_of
from skidpad.drives.readers import SLICING
from skidpad.oracles.error import NO_ANSWER, ErrorScale

if TYPE_CHECKING:
    from skidpad.subjects.description import Output


NOTHING = "–"
DEGREES = "deg"
"""The unit of answers that are angles: they are drawn as arrows and have a side."""
_SAID_UNITS = frozenset({"m/s", "m/s2"})
_SPACE = "\N{NO-BREAK SPACE}"
_HIDDEN = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}


def plain(text: str, limit: int = 400) -> str:
    """Returns the text without control, direction and surrogate characters, cut in the middle beyond `limit`.

    A name from a file system may hold any of them: the first break a page, the second reorder what is read, and
    the third cannot be written as UTF-8. Line breaks and tabs become spaces.
    """
    if len(text) > limit:
        head = (limit - 1) * 2 // 3
        text = f"{text[:head]}…{text[len(text) - (limit - 1 - head) :]}"
    if text.isascii() and text.isprintable():
        return text
    return "".join(_visible(character) for character in text)


def _visible(character: str) -> str:
    if character in "\n\r\t":
        return " "
    return "\N{REPLACEMENT CHARACTER}" if unicodedata.category(character) in _HIDDEN else character


def percent(share: float) -> str:
    """Words a share from 0 to 1; a few in ten thousand do not become zero."""
    if not isfinite(share):
        return NOTHING
    value = 100.0 * share
    digits = 0 if value in {0.0, 100.0} else 1 if abs(value) >= 0.1 else 2
    return f"{value:.{digits}f}{_SPACE}%"


def interval(low: float, high: float) -> str:
    """Words the interval of a share."""
    return f"{percent(low)} to {percent(high)}" if isfinite(low) and isfinite(high) else NOTHING


def count(number: int) -> str:
    """Words a count with thin groups of three."""
    return f"{number:,}".replace(",", "\N{NARROW NO-BREAK SPACE}")


def counted(number: int, noun: str, plural: str = "") -> str:
    """Words a count with its noun: 1 limit, 2 limits."""
    return f"{count(number)} {noun if number == 1 else plural or f'{noun}s'}"


def steering(angle_deg: float) -> str:
    """Words a steering angle with its side; positive steers left, as in Udacity's recordings."""
    if not isfinite(angle_deg):
        return NO_ANSWER
    return f"{abs(angle_deg):.1f}° {side_of(angle_deg)}"


def angles_sentence(output: "Output") -> str:
    """Says what the angles of a report are of, and what was done to a network's that are of something else; empty for no angle."""
    if not output.is_angle:
        return ""
    turned = f" The network answers with angles of the road wheels; they are multiplied by {output.ratio:g}."
    return f"Angles are degrees of the steering wheel, positive is left.{turned if output.axle is Axle.ROAD_WHEEL else ''} "


def answer(value: float, unit: str) -> str:
    """Words one answer in its unit: degrees as steering, shares as they are, others with their unit."""
    if unit == DEGREES:
        return steering(value)
    return with_unit(value, unit) if isfinite(value) else NO_ANSWER


def with_unit(value: float, unit: str) -> str:
    """Words a number; a share has no unit to say."""
    if unit == DEGREES:
        return f"{value:g}°"
    return f"{value:.4g}{_SPACE}{unit}" if unit in _SAID_UNITS else f"{value:.4g}"


def moved_words(expected: float, moved: float, unit: str = DEGREES) -> str:
    """Says that the right answer moved with the camera, and from where to where; empty where it did not."""
    if moved == 0.0 or not isfinite(moved):
        return ""
    return f"the camera moved, and the right answer with it: from {answer(expected - moved, unit)} to {answer(expected, unit)}"


def difference(original: float, mutant: float, unit: str = DEGREES) -> str:
    """Words how far the mutant's answer lies from the original's."""
    return _gap(mutant - original, "apart", unit)


def from_human(mutant: float, label: float, unit: str = DEGREES) -> str:
    """Words how far the mutant's answer lies from the recorded one."""
    return _gap(mutant - label, "from the human", unit)


def _gap(gap: float, of: str, unit: str) -> str:
    if not isfinite(gap):
        return NO_ANSWER
    return f"{abs(gap):.1f}° {of}" if unit == DEGREES else f"{with_unit(abs(gap), unit)} {of}"


def how_far(original: float, mutant: float, label: float, unit: str, scale: ErrorScale) -> str:
    """Words the distance that was judged: from the human where the relation compares with the label, else from the original's answer."""
    return from_human(mutant, label, unit) if scale is ErrorScale.SQUARES and isfinite(label) else difference(original, mutant, unit)


def drive_with(text: str, said: str) -> str:
    """Words a drive and what is said of it, as how many frames it has, unless its name says that already."""
    words = drive_words(text)
    return words if said in words else f"{words}: {said}"


_SLICED = ("frames", "seed", *SLICING)
"""The options of a drive that say which frames it has; the others say how a folder is read, which is nobody's question in a list."""


def drive_words(text: str) -> str:
    """Words the text that names a drive: its last folder, and which frames of it."""
    place, _, options = text.partition("?")
    name = place.partition(":")[2] or place
    name = name.replace("\\", "/").rstrip("/").rpartition("/")[2]
    given = dict(part.partition("=")[::2] for part in options.split("&"))
    said = [words for key in _SLICED if (words := _option_words(key, given))]
    return plain(", ".join([name, *said]), 200)


def _option_words(key: str, given: dict[str, str]) -> str:
    if key not in given or (key == "start" and given[key] == "0" and "stop" in given) or (key == "step" and given[key] == "1"):
        return ""
    value = given[key]
    return {
        "frames": f"{value} frames",
        "start": f"from frame {value}",
        "stop": f"to frame {value}",
        "step": f"every {value}th",
    }.get(key, f"{key} {value}")


def share(part: int, whole: int) -> float:
    """Returns part / whole, NaN where there is no whole."""
    return part / whole if whole > 0 else float("nan")
