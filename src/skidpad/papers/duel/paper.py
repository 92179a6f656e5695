"""The published figures of adversarial testing with reinforcement learning, as printed, and what to know before comparing with them."""

from dataclasses import dataclass

PAPER = "ICST 2024"


@dataclass(frozen=True, slots=True)
class TableRow:
    """A row of Table I: failure rates as shares, SEM across tests in percent."""

    ego_train: float
    ego_test: float
    ego_sem: float
    front_train: float
    front_test: float
    front_sem: float
    random_test: float
    random_sem: float
    repair_train: float
    repair_test: float = 0.0


TABLE_1 = (
    TableRow(0.03, 0.00, 0.00, 0.87, 0.92, 0.26, 0.39, 0.30, 0.10),
    TableRow(0.04, 0.00, 0.00, 0.89, 0.90, 0.22, 0.39, 0.42, 0.07),
    TableRow(0.03, 0.00, 0.00, 0.94, 1.00, 0.04, 0.39, 0.36, 0.15),
    TableRow(0.05, 0.00, 0.00, 0.86, 0.92, 0.23, 0.39, 0.30, 0.02),
    TableRow(0.07, 0.00, 0.00, 0.93, 1.00, 0.00, 0.39, 0.34, 0.17),
    TableRow(0.10, 0.00, 0.00, 0.89, 1.00, 0.00, 0.41, 0.27, 0.04),
    TableRow(0.20, 0.00, 0.00, 0.91, 0.90, 0.17, 0.39, 0.38, 0.14),
    TableRow(0.11, 0.01, 0.06, 0.90, 0.93, 0.12, 0.39, 0.31, 0.03),
    TableRow(0.11, 0.00, 0.00, 0.91, 0.93, 0.21, 0.39, 0.57, 0.28),
    TableRow(0.11, 0.09, 0.26, 0.97, 1.00, 0.00, 0.38, 0.30, 0.05),
)

AVERAGE = TableRow(0.09, 0.01, 0.03, 0.91, 0.95, 0.13, 0.39, 0.35, 0.11)
"""The row `Average`."""

EGO_SEM, FRONT_SEM, RANDOM_SEM = 0.92, 1.37, 0.17
"""The row `SEM`: across trainings, in percent."""

P_VALUE, A12 = 1e-5, 1.00

SLOW_MPS, FAST_MPS = 20.0, 30.0
"""Figure 6: the speed of the ego after and before retraining, read off the plot."""

TRAPS = (
    (
        "The spacing of 0.5 to 2 'meters' is a ratio in the published program. Read as metres, a random front vehicle makes the ego crash "
        "more often than the printed 0.39; the same happens if an episode ends when the ego is level instead of 3 m behind. The scenario "
        "`released` follows the program, `paper` the text."
    ),
    (
        "How often a random front vehicle makes an ego crash depends more on the ego than on chance: the table's 0.17 % is the error of "
        "testing one ego repeatedly. The paper does not say which of the egos that never crash with IDM it uses; we use the first."
    ),
    (
        "It also depends on which weights of a training are kept. We keep an ego's weights by the rule of the paper's program: a running "
        "mean of training returns, with a weight of 1 / 50 for the newest, replaces the weights whenever it is a tenth above the best so "
        "far. Egos kept by their return on validation episodes pass more closely and crash more often with a random front vehicle. We keep "
        "adversaries and retrained egos by validation, because there the program uses a running mean of R_diff, which is negative, and "
        "saves the adversary's network instead of the ego's."
    ),
    (
        "The published program changes highway-env's observation so that a driver sees what is behind it. Without that change an adversary "
        "sees the ego only within 10 m. Drivers here see behind, too."
    ),
    (
        "The bonus R_ep (Eq. 4), summed over an episode as printed, pays less than a crash costs: a crash ends the episode, and a tenth of "
        "a short sum is less than the rewards of the steps that are lost. The reward `paper` is Eq. 2 to 4 exactly as printed, so its "
        "adversary learns to keep clear. The published program never clears the sum, so its bonus grows over the training (`released`). "
        "`sound` is a small running cost and a fixed bonus."
    ),
    (
        "`paper` and `released` also differ in R_diff (Eq. 3). `paper` takes the distance in metres and tests D_vy != 0 exactly; after a "
        "lane change the sideways speed decays but almost never reaches exactly 0, so closing in no longer pays. `released` divides D_x "
        "by 1,200 m, as the program's observations do, and treats |D_vy| up to 0.05 m/s as 0. The published program has R_diff commented "
        "out."
    ),
    (
        "The simulation drives a policy step to its end even if a crash happens within it, as highway-env does, and crashed vehicles "
        "brake: the last speed of a crashed episode is a speed after the impact. Mean speeds of columns with many crashes are therefore "
        "too low, and the ego loses more speed with its adversary in front than the table says."
    ),
    (
        "The text says that the random agent 'does not go above 40 %' and that the adversary's training failure rate is at least 0.87; "
        "Table I has 0.41 and 0.86."
    ),
    "With ten values each and no overlap the exact two-sided p-value is 2 / 184,756 = 1.08e-5, the table's 10^-5; it cannot be smaller.",
    (
        "No vehicle here chooses a speed below 20 m/s, so an ego that always chooses SLOWER is a baseline: its failure rates in this "
        "scenario are in the rows `slow`. Read the table's 0.00 after retraining beside those and beside the speed it costs. The "
        "published program saves the adversary's network while it retrains the ego."
    ),
)
