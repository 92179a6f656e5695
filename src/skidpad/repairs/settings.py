"""What DeepTest's retraining takes: which mutants, how they are split, and how long the network is retrained."""

from dataclasses import dataclass
from enum import Enum
from typing import Annotated

from skidpad.core.errors import BadParametersError
from skidpad.core.settings import Count, Positive, Within, check
from skidpad.subjects.training.fitting import TrainingSettings

TRANSFORMS = ("deeptest-fog", "deeptest-rain")
"""DeepTest, section 5 (RQ5)."""

SHARE = 0.66
"""DeepTest, section 5 (RQ5): 66 % of the synthetic pictures are trained on, 34 % held out."""


class Split(Enum):
    """How frames are held out; all mutants of a frame fall on one side."""

    RANDOM = "random"
    """At random, as the paper does. A held-out frame's neighbours in time, nearly the same picture, may be trained on."""
    TIME = "time"
    """Contiguous blocks of time, so that only the frames at their edges have a neighbour that is trained on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RepairSettings:
    """One repair; `epochs` and `learning_rate` of None are 10 and 3e-4, or 30 and 1e-3 from scratch.

    transforms: a mutant is taken where every step of its recipe is among them. share: of the frames, for training.
    max_mutants: at most so many mutants are rendered, drawn at random, one of them at least to train on and one held out; each takes two
    to three times the network's input in bytes of memory, about 0.1 MB, beside 0.5 GB for frames and training. control: a second network
    is retrained as long without mutants, which doubles the time. kept_alone: leaves out the mutants that the referee set apart.
    """

    transforms: tuple[str, ...] = TRANSFORMS
    share: Annotated[float, Within(above=0, below=1)] = SHARE
    split: Split = Split.RANDOM
    max_mutants: Annotated[int, Within(least=2)] = 6000
    from_scratch: bool = False
    epochs: Count | None = None
    learning_rate: Positive | None = None
    batch_size: Count = 64
    mirror: bool = True
    control: bool = True
    kept_alone: bool = True
    seed: int = 0
    device: str = "cpu"
    threads: Count = 1
    half: bool = False

    def __post_init__(self) -> None:
        check(self, BadParametersError)
        if not self.transforms:
            raise BadParametersError("a repair needs at least one transform, as deeptest-fog,deeptest-rain; got none")

    def training(self) -> TrainingSettings:
        """Returns the settings of the retraining; the last epoch's weights are kept, so nothing held out chooses them."""
        epochs = self.epochs if self.epochs is not None else (30 if self.from_scratch else 10)
        rate = self.learning_rate if self.learning_rate is not None else (1e-3 if self.from_scratch else 3e-4)
        return TrainingSettings(
            epochs=epochs,
            batch_size=self.batch_size,
            learning_rate=rate,
            patience=max(epochs, 1),
            validation_fraction=0.0,
            mirror=self.mirror,
            seed=self.seed,
            device=self.device,
            threads=self.threads,
            half=self.half,
        )
