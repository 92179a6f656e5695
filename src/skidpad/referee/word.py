"""What the referee can say of a changed picture, and why."""

from enum import Enum


class Word(Enum):
    """What the referee says of a mutant."""

    KEPT = "kept"
    REFUSED = "refused"
    UNCLEAR = "unclear"


class Reason(Enum):
    """Why; the value is the sentence, in the order in which they are asked."""

    SAME_SCENE = ""
    NO_ROAD = "no road in the original"
    BLANK = "blank"
    BORDER = "a border of one colour"
    CLIPPED = "clipped: most of the lower half is pure black or pure white"
    ROAD_BURNT = "clipped: most of the road is pure white"
    MIRRORED = "one half mirrors the other"
    FLIPPED = "the mirrored scene"
    OTHER_SCENE = "another scene"
    ROAD_LOST = "the road is no longer where it was"
    ROAD_PALE = "a large part of the road is pure white"
    SCENE_DOUBTFUL = "perhaps another scene"
    ROAD_DOUBTFUL = "the road may no longer be where it was"

    @property
    def word(self) -> Word:
        """What it comes to."""
        if self is Reason.SAME_SCENE:
            return Word.KEPT
        doubtful = {Reason.NO_ROAD, Reason.ROAD_PALE, Reason.SCENE_DOUBTFUL, Reason.ROAD_DOUBTFUL}
        return Word.UNCLEAR if self in doubtful else Word.REFUSED
