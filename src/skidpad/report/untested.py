"""How many frames went untested, in words; for the report and the terminal."""

from skidpad.campaigns.untested import Untested
from skidpad.report.wording import count, counted


def untested_words(untested: Untested) -> str:
    """Says how many frames went untested and why; "" where none did."""
    if not untested.reasons:
        return ""
    why = ", ".join(f"{count(number)} {reason}" for reason, number in untested.reasons)
    were = "was" if untested.judged == 1 else "were"
    return f"{count(untested.judged)} of {counted(untested.frames, 'frame')} {were} judged. The others went untested: {why}."


def drive_frames(untested: Untested) -> str:
    """Words how many frames a drive has, and how many of them were judged where not all were."""
    whole = counted(untested.frames, "frame")
    return whole if untested.judged == untested.frames else f"{count(untested.judged)} of {whole} judged"
