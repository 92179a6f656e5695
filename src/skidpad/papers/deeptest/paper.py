"""DeepTest's published figures, as printed, and what is to be minded about them.

Epoch, a single CNN that sees one frame, is the model that a subject of ours compares with; Chauffeur (CNN and LSTM) and
Rambo (three CNNs on differences of frames) stand beside.
"""

from dataclasses import dataclass

MODEL = "Epoch"

TEST_FRAMES = 5614
"""Frames of HMB_3.bag, the test drive (Table 3)."""

RQ2_IMAGES = 1000
RQ3_SEEDS = 100

# Table 5
SPEARMAN = 0.78
SPEARMAN_OTHERS = "Chauffeur -0.10 (CNN 0.28, LSTM -0.10), Rambo -0.11 (S1 -0.19, S2 0.10, S3 -0.11)"
DIRECTION = "left < right"
DIRECTION_OTHERS = "Chauffeur left > right, Rambo left < right"
DIRECTION_EFFECT = "small"
DIRECTION_EFFECT_OTHERS = "Chauffeur negligible, Rambo negligible (S1 large)"

# Figure 4.1
JACCARD_MEDIAN = 0.67
JACCARD_OTHERS = "Chauffeur-CNN 0.53, -LSTM 0.002, then 0.12, 0.17, 0.30, 0.65"


@dataclass(frozen=True, slots=True)
class NeuronIncrease:
    """Figure 5 for one transformation: the median increase in neurons and percent, and the word for Cohen's d."""

    transform: str
    neurons: float
    percent: float
    effect: str
    others: str


FIGURE_5 = (
    NeuronIncrease("translation", 65.0, 155.0, "large", "Chauffeur-CNN 99 %, -LSTM 0.2 %, Rambo 29 / 38 / 263 %"),
    NeuronIncrease("scale", 39.0, 93.0, "large", "Chauffeur-CNN 0.67 %, -LSTM 0 %, Rambo 0.41 / 1 / 4 %"),
    NeuronIncrease("shear", 167.0, 398.0, "large", "Chauffeur-CNN 113 %, -LSTM 0.2 %, Rambo 10 / 30 / 167 %"),
    NeuronIncrease("rotation", 81.0, 193.0, "large", "Chauffeur-CNN 134 %, -LSTM 0.39 %, Rambo 14 / 3 / 89 %"),
    NeuronIncrease("contrast", 75.0, 179.0, "large", "Chauffeur-CNN 80 %, -LSTM 0.2 %, Rambo 10 / 23 / 18 %"),
    NeuronIncrease("brightness", 113.0, 269.0, "large", "Chauffeur-CNN 67 %, -LSTM 0.2 %, Rambo 14 / 24 / 66 %"),
    NeuronIncrease("blur", 9.0, 21.0, "small", "Chauffeur-CNN 28 %, -LSTM 0 %, Rambo 4 / 5 / 31 %"),
)


@dataclass(frozen=True, slots=True)
class Combined:
    """A row of Table 6, in neurons."""

    model: str
    neurons: int
    baseline: int
    cumulative: int
    guided: int


TABLE_6 = (
    Combined("Epoch", 2500, 621, 1034, 1266),
    Combined("Chauffeur-CNN", 1427, 658, 1065, 1250),
    Combined("Rambo-S1", 1625, 710, 929, 1043),
    Combined("Rambo-S2", 3801, 1146, 2210, 2676),
    Combined("Rambo-S3", 13473, 13008, 13080, 13150),
)
GUIDED_IMAGES = 221
GUIDED_IMAGES_OTHERS = "Chauffeur-CNN 254, Rambo 864"

# Section 5, RQ4
MSE_VIOLATING = 0.41
MSE_THEIR_ORIGINALS = 0.035

LAMBDA = 5.0
EPSILON_SCALED2 = 0.03
EPSILONS_SCALED2 = (0.01, 0.02, 0.03, 0.04, 0.05)


@dataclass(frozen=True, slots=True)
class Thresholds:
    """A row of Table 7, over all three models: simple transformations by epsilon, then fog, rain and guided search."""

    lambda_: int
    simple: tuple[int, int, int, int, int]
    fog: int
    rain: int
    guided: int


TABLE_7 = (
    Thresholds(1, (15666, 18520, 23391, 24952, 29649), 9018, 6133, 1148),
    Thresholds(2, (4066, 5033, 6778, 7362, 9259), 6503, 2650, 1026),
    Thresholds(3, (1396, 1741, 2414, 2627, 3376), 5452, 1483, 930),
    Thresholds(4, (501, 642, 965, 1064, 4884), 4884, 997, 872),
    Thresholds(5, (95, 171, 330, 382, 641), 4448, 741, 820),
    Thresholds(6, (49, 85, 185, 210, 359), 4063, 516, 764),
    Thresholds(7, (13, 24, 89, 105, 189), 3732, 287, 721),
    Thresholds(8, (3, 5, 34, 45, 103), 3391, 174, 668),
    Thresholds(9, (0, 1, 12, 19, 56), 3070, 111, 637),
    Thresholds(10, (0, 0, 3, 5, 23), 2801, 63, 597),
)


@dataclass(frozen=True, slots=True)
class ErroneousRow:
    """A row of Table 8: erroneous behaviours at lambda = 5 and epsilon = 0.03, a dash being 0; `of_epoch` pictures, if known."""

    stimulus: str
    chauffeur: int
    epoch: int
    rambo: int
    of_epoch: int | None = None


TABLE_8 = (
    ErroneousRow("blur", 3, 27, 11),
    ErroneousRow("brightness", 97, 32, 15),
    ErroneousRow("contrast", 31, 12, 0),
    ErroneousRow("rotation", 0, 13, 0),
    ErroneousRow("scale", 0, 10, 0),
    ErroneousRow("shear", 0, 0, 23),
    ErroneousRow("translation", 21, 35, 0),
    ErroneousRow("deeptest-rain", 650, 64, 27, TEST_FRAMES),
    ErroneousRow("deeptest-fog", 201, 135, 4112, TEST_FRAMES),
    ErroneousRow("guided", 89, 65, 666, GUIDED_IMAGES),
)


@dataclass(frozen=True, slots=True)
class Retrained:
    """A row of Table 9, Epoch's."""

    pictures: str
    before: float
    after: float


TABLE_9 = (Retrained("originals", 0.10, 0.09), Retrained("deeptest-fog", 0.18, 0.10), Retrained("deeptest-rain", 0.13, 0.07))

TRAPS = (
    "Table 3's 'MSE' of 0.06, 0.06 and 0.08 are the challenge's RMSE in radians.",
    "The unit of the 'MSE' in RQ4 and Table 9 is not said; ratios and relative changes, which have none, are compared instead.",
    "Epsilon of Eq. 3 is taken to be in (degrees / 25)^2, the unit that section 4 scales the labels to: 0.03 is 0.0057 rad^2.",
    "Section 4 calls negative angles left, Table 5 positive ones. Udacity's own labels are positive to the left, and so are ours.",
    "Table 7 prints 4884 twice in the row of lambda = 4; under epsilon = 0.05 it stands between 3376 and 641 and cannot be right.",
    "The text gives 4448 to rain, 741 to fog and 821 to guided search; Tables 7 and 8 agree on fog 4448, rain 741, guided 820.",
    "Figure 4.1 lists seven medians for six models; the third is taken as Epoch's.",
    "Counts grow with the number of pictures, so rates stand beside wherever the paper's number of pictures is known.",
    "Epoch's fog and rain are taken as one picture for each of 5,614 frames; of how many pictures the simple ones are is not said.",
    "The paper's Epoch has 2,500 neurons and activates 42 of them on the median picture (Figure 5); other layers give other counts.",
)
