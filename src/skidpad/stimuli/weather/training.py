"""The training of UNIT and MUNIT, by the papers' losses and ours."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable
from dataclasses import asdict, dataclass
from hashlib import sha256
from io import BytesIO
from math import isfinite
from pathlib import Path
from time import monotonic
from typing import Any

import torch
from torch import nn

from skidpad.core.errors import BadParametersError, InterruptedRunError, SkidpadError
from skidpad.core.files import write_atomically
from skidpad.core.progress import Progress, silent
from skidpad.core.seeding import child_rng, child_seed
from skidpad.stimuli.weather.blocks import Discriminator, start
from skidpad.stimuli.weather.classifier import WeatherClassifier
from skidpad.stimuli.weather.gauge import RealismPoint, RoadRow
from skidpad.stimuli.weather.losses import alike, contrast_loss, road_loss
from skidpad.stimuli.weather.munit import Munit
from skidpad.stimuli.weather.samples import Sample, Sampler, fresh_model, sample_steps
from skidpad.stimuli.weather.scenes import Scenes
from skidpad.stimuli.weather.settings import WeatherSettings
from skidpad.stimuli.weather.unit import Unit

_REPORT_EVERY = 25
"""Steps between two readings of the losses at most: each one makes the processor wait for the GPU."""

_CHECKPOINT_EVERY_S = 60.0
"""What a training that is killed loses at most; a checkpoint of the paper's sizes is 700 MB."""

_SLOWEST = 10.0
"""The kept weights follow at least this often over a training, or a short one would keep some of its random first weights."""


@dataclass(frozen=True, slots=True)
class LossRow:
    """The losses of one step by name, unweighted."""

    step: int
    losses: dict[str, float]


@dataclass(frozen=True, slots=True)
class Guide:
    """A classifier that made pictures should convince that they show the class `label`; never the one that judges the result.

    Deviates: neither UNIT nor MUNIT has it. A wet road differs little from a dry one, and a grey sky is enough for the discriminators.
    """

    classifier: WeatherClassifier
    label: str

    def __post_init__(self) -> None:
        self.classifier.card.place(self.label)

    def __str__(self) -> str:
        return f"{self.label}, classifier {self.classifier.card.weights_sha256[:8]}"


class Training:
    """A training between two sets of scenes; `run` goes on from where it stands.

    teacher: a network that tells what each pixel shows, the first two of its classes road and marking; it is frozen, and never the one
    that judges the result. guide: for the loss `named`.

    batch_size: that of the settings, or half of it and so on where a GPU ran out of memory. samples: translations of the same
    scenes as training went on. realism, roads: what a watcher measured meanwhile; checkpoints keep it.
    """

    def __init__(
        self, source: Scenes, target: Scenes, settings: WeatherSettings, teacher: nn.Module | None = None, guide: Guide | None = None
    ) -> None:
        if teacher is None and (settings.weights.road or settings.alike):
            raise BadParametersError(
                "keeping the road where it is needs a teacher that tells where it is; give one, or use the preset paper"
            )
        if guide is None and settings.weights.named:
            raise BadParametersError("the loss `named` needs a classifier that tells weathers apart; give one, or leave its weight at 0")
        self.settings = settings
        self.guide = guide
        self.device = torch.device(settings.device)
        self._is_half = self.device.type == "cuda" or has_fast_bfloat16()
        if teacher is not None:
            teacher = teacher.to(self.device).eval().requires_grad_(requires_grad=False)
        self._teacher = teacher
        self.batch_size = settings.batch_size
        self.sampler = Sampler(source, settings)
        self._source, self._target = source.to(self.device), target.to(self.device)
        if teacher is not None and settings.alike:
            self._target = alike(self._target, self._source, teacher, settings.alike)
        self._given = _given(source, target, settings) | ({} if guide is None else {"guide": str(guide)})
        self._key = sha256(
            f"{source.sha256} {target.sha256} {_without_device(settings)}{'' if guide is None else guide}".encode()
        ).hexdigest()
        self._follow = max(1.0 - settings.ema, min(1.0, _SLOWEST / settings.steps))
        self._begin()

    def _begin(self) -> None:
        settings = self.settings
        self.step = 0
        self.curve: list[LossRow] = []
        self.samples: list[Sample] = []
        self.realism: list[RealismPoint] = []
        self.roads: list[RoadRow] = []
        with torch.random.fork_rng([]):
            torch.manual_seed(child_seed(settings.seed, "weights"))
            self.model: Munit | Unit = fresh_model(settings)
            self._critics = nn.ModuleDict(
                {name: Discriminator(settings.sizes.filters, settings.sizes.scales) for name in ("source", "target")}
            )
            start(self.model, gain_from_relu=True)
            start(self._critics, gain_from_relu=False)
        layout = torch.channels_last if self.device.type == "cuda" else torch.contiguous_format
        for module in (self.model, self._critics):
            module.to(self.device).to(memory_format=layout)  # type: ignore[call-overload] # torch leaves this form out
        self._kept = [weight.detach().clone() for weight in self.model.parameters()]
        self._optimizers = [self._adam(self.model), self._adam(self._critics)]
        self._buffers = self._blank_buffers()
        self._replay: Callable[[], None] | None = None

    def run(
        self,
        progress: Progress = silent,
        checkpoint: Path | None = None,
        *,
        checkpoint_every_s: float = _CHECKPOINT_EVERY_S,
        watch: Callable[[Training], None] | None = None,
        stop: Callable[[], bool] | None = None,
        resumed: Callable[[int], None] | None = None,
    ) -> None:
        """Trains to the last step; stopped or killed and run again with its checkpoint, it goes on.

        watch: called after every new sample. resumed: told the step that it goes on from. stop: asked after every step; where it says
        so, the training is written down and left. A GPU that runs out of memory halves the batch, and the training goes on from its
        checkpoint.
        """
        if checkpoint is not None and checkpoint.is_file():
            self.restore(checkpoint)
            if resumed is not None:
                resumed(self.step)
        saved = monotonic()
        every = min(_REPORT_EVERY, max(1, self.settings.steps // 100))
        wanted = sample_steps(self.settings.steps)
        while self.step < self.settings.steps:
            try:
                self._fill_buffers()
                self._advance()
            except torch.cuda.OutOfMemoryError as error:
                self._halve(checkpoint, error)
                progress(self.step, self.settings.steps, f"the GPU ran out of memory: {self.batch_size} pictures a step from now on")
                continue
            self.step += 1
            last = self.step == self.settings.steps
            if self.step % every == 0 or last:
                self._note(progress)
            if self.step in wanted:
                self.samples.append(self.sampler.sample(self.step, self.kept_weights()))
                if watch is not None:
                    watch(self)
            stopped = stop is not None and stop() and not last
            if checkpoint is not None and (last or stopped or monotonic() - saved >= checkpoint_every_s):
                self.save(checkpoint)
                saved = monotonic()
            if stopped:
                raise InterruptedRunError(f"stopped at step {self.step} of {self.settings.steps}")

    def _halve(self, checkpoint: Path | None, error: Exception) -> None:
        if self.batch_size == 1:
            raise SkidpadError(
                f"one picture does not fit into the memory of {self.device}; use a smaller --crop, the preset small, or another device"
            ) from error
        self._replay = None
        self._buffers = ()
        torch.cuda.empty_cache()
        self.batch_size = (self.batch_size + 1) // 2
        halved = self.batch_size
        # A step that broke off may have changed half of the weights.
        self._begin()
        if checkpoint is not None and checkpoint.is_file():
            self.restore(checkpoint)
            self.batch_size = min(self.batch_size, halved)
            self._buffers = self._blank_buffers()

    def kept_weights(self) -> dict[str, torch.Tensor]:
        """Returns the slowly following weights of the generators by name, float32 on the CPU."""
        names = [name for name, _ in self.model.named_parameters()]
        return {name: weight.detach().float().cpu().contiguous() for name, weight in zip(names, self._kept, strict=True)}

    def save(self, path: Path) -> None:
        """Writes everything the next step needs."""
        state = {
            "key": self._key,
            "given": self._given,
            "step": self.step,
            "batch_size": self.batch_size,
            "curve": json.dumps([asdict(row) for row in self.curve]),
            "samples": [sample.to_tensors() for sample in self.samples],
            "realism": json.dumps([asdict(point) for point in self.realism]),
            "roads": json.dumps([asdict(row) for row in self.roads]),
            "model": self.model.state_dict(),
            "critics": self._critics.state_dict(),
            "kept": self._kept,
            "optimizers": [optimizer.state_dict() for optimizer in self._optimizers],
        }
        buffer = BytesIO()
        torch.save(state, buffer)
        write_atomically(path, buffer.getvalue())

    def restore(self, path: Path) -> None:
        """Goes on from what `save` wrote."""
        try:
            state: dict[str, Any] = torch.load(path, map_location=self.device, weights_only=True)
            if state["key"] != self._key:
                raise BadParametersError(
                    f"{path} is the checkpoint of another training ({self._other(state)}); remove it to start anew, or train as then"
                )
            self.model.load_state_dict(state["model"])
            self._critics.load_state_dict(state["critics"])
            for mine, theirs in zip(self._kept, state["kept"], strict=True):
                mine.copy_(theirs)
            for optimizer, stored in zip(self._optimizers, state["optimizers"], strict=True):
                optimizer.load_state_dict(stored)
            self.step = int(state["step"])
            self.curve = [LossRow(**row) for row in json.loads(state["curve"])]
            self.samples = [Sample.from_tensors(*stored) for stored in state["samples"]]
            self.realism = [RealismPoint(**point) for point in json.loads(state.get("realism", "[]"))]
            self.roads = [RoadRow(row["step"], tuple(row["ious"])) for row in json.loads(state.get("roads", "[]"))]
            self.batch_size = int(state["batch_size"])
        except (OSError, RuntimeError, ValueError, KeyError, TypeError, EOFError, pickle.UnpicklingError) as error:
            raise BadParametersError(f"{path} is no whole checkpoint ({error}); remove it to start anew") from error
        self._buffers = self._blank_buffers()
        self._replay = None

    def _other(self, state: dict[str, Any]) -> str:
        """Says what a checkpoint was given otherwise; one of an earlier version does not tell."""
        then: dict[str, str] = state.get("given", {})
        changed = [f"{name} was {then.get(name)} and is {now}" for name, now in self._given.items() if then.get(name) != now]
        return "; ".join(changed) if then and changed else "pictures or settings differ"

    def _adam(self, module: nn.Module) -> torch.optim.Adam:
        on_gpu = self.device.type == "cuda"
        rate = torch.tensor(self.settings.learning_rate, device=self.device) if on_gpu else self.settings.learning_rate
        return torch.optim.Adam(module.parameters(), lr=rate, betas=(0.5, 0.999), weight_decay=1e-4, capturable=on_gpu, fused=on_gpu)

    def _blank_buffers(self) -> tuple[torch.Tensor, ...]:
        settings = self.settings
        square = (self.batch_size, 3, settings.crop_px, settings.crop_px)
        pictures = [torch.zeros(square, device=self.device) for _ in range(2)]
        if self.device.type == "cuda":
            pictures = [picture.contiguous(memory_format=torch.channels_last) for picture in pictures]
        shapes = self.model.noise_shapes(self.batch_size, settings.crop_px, settings.crop_px)
        return (*pictures, *(torch.zeros(shape, device=self.device) for shape in shapes))

    def _fill_buffers(self) -> None:
        """Draws pictures and noise of the next step; everything random comes from the seed and the step's number."""
        rng = child_rng(self.settings.seed, "step", self.step)
        for buffer, scenes in zip(self._buffers[:2], (self._source, self._target), strict=True):
            buffer.copy_(scenes.cut(rng, self.batch_size, self.settings.crop_px))
        for number, buffer in enumerate(self._buffers[2:]):
            generator = torch.Generator(self.device).manual_seed(child_seed(self.settings.seed, "noise", self.step, number))
            buffer.normal_(generator=generator)
        left = (self.settings.steps - self.step) / self.settings.steps
        rate = self.settings.learning_rate * min(1.0, 2.0 * left)
        for optimizer in self._optimizers:
            for group in optimizer.param_groups:
                if isinstance(group["lr"], torch.Tensor):
                    group["lr"].fill_(rate)
                else:
                    group["lr"] = rate

    def _advance(self) -> None:
        if self.device.type != "cuda":
            self._losses = self._train_step()
        elif self._replay is not None:
            self._replay()
        else:
            self._replay = self._captured()

    def _captured(self) -> Callable[[], None]:
        """Takes one step and records it, so that the next ones are launched whole: a step is thousands of small kernels."""
        side = torch.cuda.Stream()  # type: ignore[no-untyped-call] # torch leaves it untyped
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            self._losses = self._train_step()
        torch.cuda.current_stream().wait_stream(side)
        for optimizer in self._optimizers:
            optimizer.zero_grad(set_to_none=True)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):  # records, does not run
            self._losses = self._train_step()
        return graph.replay

    def _train_step(self) -> dict[str, torch.Tensor]:
        """One step of generators and then discriminators, on the same made pictures.

        Deviates: the published trainings make new pictures for the discriminators' step; theirs differ by one step's weights
        and cost a quarter more.
        """
        source, target, *noise = self._buffers
        weights = self.settings.weights
        real = {"source": source, "target": target}
        for optimizer in self._optimizers:
            optimizer.zero_grad(set_to_none=True)
        self._critics.requires_grad_(requires_grad=False)
        with torch.autocast(self.device.type, torch.bfloat16, enabled=self._is_half, cache_enabled=False):
            made_source, made_target, losses = self.model(source, target, (noise[0], noise[1]), weights)
            made_source, made_target = made_source.float(), made_target.float()  # a CPU resizes no bfloat16
            made = {"source": made_source, "target": made_target}
            if weights.contrast:
                losses["contrast"] = contrast_loss(source, made_target) + contrast_loss(target, made_source)
            if weights.road and self._teacher is not None:
                losses["road"] = road_loss(self._teacher, source, made_target) + road_loss(self._teacher, target, made_source)
            if weights.named and self.guide is not None:
                losses["named"] = self.guide.classifier.surprise(made_target, self.guide.label)
            losses["gan"] = torch.stack([self._critics[name].fooling_loss(made[name]) for name in made]).sum()  # type: ignore[operator] # modules are untyped
        total = torch.stack([getattr(weights, name) * loss for name, loss in losses.items()]).sum()
        torch.autograd.backward(total)
        self._optimizers[0].step()
        self._critics.requires_grad_(requires_grad=True)
        with torch.autocast(self.device.type, torch.bfloat16, enabled=self._is_half, cache_enabled=False):
            judged = torch.stack([self._critics[name].loss(real[name], made[name].detach()) for name in made]).sum()  # type: ignore[operator] # modules are untyped
        torch.autograd.backward(judged)
        self._optimizers[1].step()
        with torch.no_grad():
            torch._foreach_lerp_(self._kept, list(self.model.parameters()), self._follow)
        return {**{name: loss.detach() for name, loss in losses.items()}, "critic": judged.detach()}

    def _note(self, progress: Progress) -> None:
        values = {name: float(loss) for name, loss in self._losses.items()}
        if not all(map(isfinite, values.values())):
            raise SkidpadError(
                f"the training diverged at step {self.step} ({_brief(values)}); use a tenth of learning_rate {self.settings.learning_rate}"
            )
        self.curve.append(LossRow(self.step, values))
        progress(self.step, self.settings.steps, _brief(values))


def has_fast_bfloat16() -> bool:
    """Whether this processor multiplies bfloat16 faster than float32; where torch does not tell, it is taken not to."""
    return bool(getattr(torch.cpu, "_is_avx512_bf16_supported", bool)())


def _brief(values: dict[str, float]) -> str:
    return ", ".join(f"{name} {value:.3g}" for name, value in values.items())


def _given(source: Scenes, target: Scenes, settings: WeatherSettings) -> dict[str, str]:
    """Names all that a training depends on."""
    sets = {f"{name} pictures": f"{len(scenes)} ({scenes.sha256[:8]})" for name, scenes in (("source", source), ("target", target))}
    rest = {**asdict(settings), "method": settings.method.value}
    inner = {f"{name} of {part}": value for part in ("sizes", "weights") for name, value in rest.pop(part).items()}
    return sets | {name: str(value) for name, value in {**rest, **inner}.items() if name != "device"}


def _without_device(settings: WeatherSettings) -> str:
    return json.dumps({**asdict(settings), "method": settings.method.value, "device": ""}, sort_keys=True)
