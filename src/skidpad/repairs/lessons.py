"""What a repair teaches: labels on clean pictures and on mutants, and that a mutant is answered as its original is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import nan
from typing import TYPE_CHECKING, Protocol

import numpy as np
import torch
from torch import nn

from skidpad.core.errors import BadParametersError
from skidpad.repairs.pairs import Pairs
from skidpad.repairs.views import Views
from skidpad.subjects.training.data import Asking, Labelled, Lesson, first_of_run

if TYPE_CHECKING:
    from skidpad.core.images import FloatArray, IntArray

AVERAGING = 0.995
"""Of the weights at each step: noise of single steps costs clean accuracy, and their mean over some 200 does not have it."""

SETTLES = 2 / 3
"""Of the epochs: while the learning rate is high, networks answer less to everything, which looks better on a short stretch than it is."""

RULES = 6
"""How a repair is trained and measured; a folder that was begun under others is not continued, since its candidates do not compare."""

_COST = 3.0
"""How much worse a rise of the clean error beyond what it may is than a fall of the stressed one by the same share is good.

It may be small, since weights whose clean error is too high are blended with the start's until it is not."""

KEPT_RESPONSE = 0.9
"""Of the first network's: what a repair keeps at least. Networks that hardly know a road lose little clean accuracy by answering less to
everything, and then fail less often."""

_LEAST = 1e-9
"""Radians: the error of a network that never errs, which others are divided by."""

Loss = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]
"""Returns the error of answers (n,) against what is right (n,), both in radians, as one number: a user's own loss."""


@dataclass(frozen=True, slots=True, eq=False)
class Batch:
    """What a user's own training step is given: n pictures as the network takes them.

    labels_rad: the right steering. is_mutant: which are mutants. originals: the inputs of the pictures they came from, in the same order;
    a clean picture's is itself. moved_rad: by how much the right steering differs from the original's, where the camera was moved.
    """

    inputs: torch.Tensor
    labels_rad: torch.Tensor
    is_mutant: torch.Tensor
    originals: torch.Tensor
    moved_rad: torch.Tensor


class OwnStep(Protocol):
    """A user's own training step: returns the loss of a batch; skidpad draws the batch and takes the step."""

    def __call__(self, module: nn.Module, batch: Batch, /) -> torch.Tensor:
        """Returns what is to become smaller."""
        ...


@dataclass(frozen=True, slots=True)
class Diet:
    """What a candidate is trained on. share: mutants for each clean picture of an epoch. labels, consistency: weights of the losses.

    asks_first: whether the first network says what is right, on moved views too, and no label does.
    """

    share: float
    labels: float
    consistency: float
    asks_first: bool = False


class RepairLesson(Lesson):
    """Clean pictures once an epoch, and mutants drawn from a pool beside them.

    The data are the clean pictures, then the mutants, then the mutants' originals. A control has the same number of steps without any
    mutant. first: the first network, for a diet that asks it. It is asked about a moved view of the original, and the one that is trained
    about the same view of the mutant, so that nothing is learned by heart. The score weighs the clean error of the validation and how far
    its mutants move the answer, both over those of the start. watch: is given the answers of each epoch and their score.
    """

    averaging = AVERAGING
    keeps_start = True
    settles = SETTLES
    at_once = True

    def __init__(
        self,
        clean: int,
        mutants: int,
        diet: Diet,
        validation: Validation,
        *,
        most_cost: float = 0.0,
        is_control: bool = False,
        loss: Loss | None = None,
        step: OwnStep | None = None,
        first: nn.Module | None = None,
        run: int = 1,
        watch: Callable[[FloatArray, float], None] | None = None,
    ) -> None:
        self._clean, self._mutants, self._diet = clean, mutants, diet
        self._validation, self._most_cost = validation, most_cost
        self._is_control = is_control
        self._loss = loss or nn.functional.mse_loss
        self._step = step
        self._first = first
        self._run = run
        self._watch = watch
        self.key = repr((RULES, clean, mutants, diet, most_cost, is_control, named(loss), named(step), run))

    def order(self, rng: np.random.Generator, count: int) -> IntArray:  # noqa: ARG002 - the originals among them are not drawn
        """Returns each clean picture once and about as many mutants as the diet asks for, run by run, the runs shuffled."""
        # runs of clean pictures begin elsewhere in every epoch
        clean = np.split(np.arange(self._clean), np.arange(int(rng.integers(self._run)) or self._run, self._clean, self._run))
        pool = (
            clean if self._is_control else np.split(np.arange(self._mutants) + self._clean, np.arange(self._run, self._mutants, self._run))
        )
        extra = round(self._diet.share * len(clean))
        rounds = -(-extra // len(pool))
        more = np.concatenate([rng.permutation(len(pool)) for _ in range(rounds)])[:extra]
        runs = [*clean, *(pool[place] for place in more.tolist())]
        return np.concatenate([runs[place] for place in rng.permutation(len(runs)).tolist()])

    def loss(self, asking: Asking, chosen: torch.Tensor, mirrored: torch.Tensor) -> torch.Tensor:
        """Returns the loss of a batch: each clean picture counts 1, each mutant its diet's weights."""
        if self._step is not None:
            return _one_number(self._step(asking.module, self._batch(asking, chosen, mirrored)), "step")
        mirrored = mirrored[self._together(chosen)]
        is_mutant = chosen >= self._clean
        weights = torch.where(is_mutant, self._diet.labels, 1.0)
        if self._diet.asks_first and self._first is not None:
            return self._weighed(*self._as_first(asking, self._first, chosen, mirrored), weights)
        answers = asking.answers(chosen, mirrored)
        total = self._weighed(answers, asking.labels(chosen, mirrored), weights)
        if self._diet.consistency and bool(is_mutant.any()):
            partner, flipped = chosen[is_mutant] + self._mutants, mirrored[is_mutant]
            with torch.no_grad():
                moved = asking.labels(chosen[is_mutant], flipped) - asking.labels(partner, flipped)
                target = asking.answers(partner, flipped) + moved
            share = self._diet.consistency * float(is_mutant.sum()) / len(chosen)
            total = total + share * _one_number(self._loss(answers[is_mutant], target), "loss")
        return total

    def _as_first(
        self, asking: Asking, first: nn.Module, chosen: torch.Tensor, mirrored: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Returns answers to moved views of the pictures, and what the first network answers to the same views of their originals."""
        partner = torch.where(chosen >= self._clean, chosen + self._mutants, chosen)
        spec = asking.description.input
        views = Views.drawn(len(chosen), spec.columns_px / spec.height_px).of(self._together(chosen))
        with torch.no_grad():
            moved = asking.labels(chosen, mirrored) - asking.labels(partner, mirrored)
            right = replace(asking, module=first.to(chosen.device).eval()).answers(partner, mirrored, views) + moved
        return asking.answers(chosen, mirrored, views), right

    def _together(self, chosen: torch.Tensor) -> torch.Tensor:
        """Returns the place, in a batch, of the example whose mirroring and view each example shares: its own, or its run's first."""
        return first_of_run(chosen) if self._run > 1 else torch.arange(len(chosen), device=chosen.device)

    def _weighed(self, answers: torch.Tensor, labels: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
        counted = weights > 0
        if not bool(counted.any()):
            return answers.sum() * 0.0
        scale = weights[counted].sqrt()
        # a loss of a user's own is asked as it is: it need not be a square, so that pictures are weighed by leaving them out alone
        if self._loss is nn.functional.mse_loss:
            return self._loss(answers[counted] * scale, labels[counted] * scale) * (float(counted.sum()) / len(weights))
        return _one_number(self._loss(answers[counted], labels[counted]), "loss") * (float(counted.sum()) / len(weights))

    def _batch(self, asking: Asking, chosen: torch.Tensor, mirrored: torch.Tensor) -> Batch:
        is_mutant = chosen >= self._clean
        partner = torch.where(is_mutant, chosen + self._mutants, chosen)
        labels = asking.labels(chosen, mirrored)
        moved = labels - asking.labels(partner, mirrored)
        return Batch(asking.inputs(chosen, mirrored), labels, is_mutant, asking.inputs(partner, mirrored), moved)

    def score(self, answers_rad: FloatArray, labels_rad: FloatArray, first_rad: FloatArray) -> float:  # noqa: ARG002 - it knows its labels
        """Returns the stressed error over the start's, and three times what the clean error rose or the response fell too far."""
        clean, stressed = self._validation.errors_rad(answers_rad)
        clean_first, stressed_first = self._validation.errors_rad(first_rad)
        rise = max(0.0, clean / max(clean_first, _LEAST) - 1.0 - self._most_cost)
        response, first = (self._validation.response(each) for each in (answers_rad, first_rad))
        fall = max(0.0, KEPT_RESPONSE - response / first) if first > 0.0 else 0.0
        score = stressed / max(stressed_first, _LEAST) + _COST * (rise + fall)
        if self._watch is not None:
            self._watch(answers_rad, score)
        return score


def _one_number(found: object, what: str) -> torch.Tensor:
    """Refuses what a user's own function returns where it cannot be made smaller."""
    if isinstance(found, torch.Tensor) and found.ndim == 0 and found.requires_grad:
        return found
    said = f"a tensor of shape {tuple(found.shape)}" if isinstance(found, torch.Tensor) else f"{found!r}"
    if isinstance(found, torch.Tensor) and found.ndim == 0:
        said = "one that does not depend on the network's answers"
    raise BadParametersError(f"your {what} must return one number, a tensor of shape () made of the network's answers; got {said}")


def named(given: object) -> str:
    """Names a function of a user's own, so that a repair with another one does not continue it."""
    return "" if given is None else f"{getattr(given, '__module__', '')}:{getattr(given, '__qualname__', type(given).__qualname__)}"


@dataclass(frozen=True, slots=True, eq=False)
class Validation:
    """Clean pictures and pairs that no training sees."""

    clean: Labelled
    pairs: Pairs

    @property
    def data(self) -> Labelled:
        """The clean pictures, then the mutants, then their originals."""
        return self.clean.joined(self.pairs.mutants, self.pairs.originals)

    def response(self, answers_rad: FloatArray) -> float:
        """Returns how far clean answers follow the labels: the slope of their regression on them. 1 steers as far as the human does.

        0 is a network that always answers the same; NaN where all labels are alike.
        """
        labels = self.clean.labels_rad - self.clean.labels_rad.mean()
        power = float(labels @ labels)
        return float(labels @ answers_rad[: len(labels)]) / power if power else nan

    def errors_rad(self, answers_rad: FloatArray) -> tuple[float, float]:
        """Returns the clean error against labels, and how far mutants move the answer, both as root mean squares."""
        clean, mutants = len(self.clean), len(self.pairs)
        wrong = answers_rad[:clean] - self.clean.labels_rad
        shift = self.pairs.mutants.labels_rad - self.pairs.originals.labels_rad
        moved = answers_rad[clean : clean + mutants] - answers_rad[clean + mutants :] - shift
        kept = moved[self.pairs.kept]
        return float(np.sqrt(np.mean(wrong**2))), float(np.sqrt(np.mean(kept**2))) if len(kept) else 0.0
