"""A learned weather on disk: the translating half of the networks as safetensors, and a TOML that says what it is."""

from __future__ import annotations

import json
import tomllib
from dataclasses import asdict, dataclass, fields, replace
from hashlib import sha256
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import torch
from safetensors import SafetensorError
from safetensors.torch import load, save

from skidpad.core.errors import BadParametersError, SkidpadError, UnknownNameError
from skidpad.core.files import write_atomically
from skidpad.core.settings import read_toml, write_toml
from skidpad.stimuli.weather.drawn import DrawnConditions
from skidpad.stimuli.weather.munit import Munit
from skidpad.stimuli.weather.settings import Method, Sizes
from skidpad.stimuli.weather.unit import Unit

if TYPE_CHECKING:
    from collections.abc import Mapping


_FORMAT = "skidpad-weather-1"
_KEPT = {
    Method.MUNIT: ("source.content.", "target.decoder.", "target.style."),
    Method.UNIT: ("source.encoder.", "shared_encoder.", "shared_decoder.", "target.decoder."),
}
"""What translating from source to target needs, and the target's style encoder, which tells the styles of real pictures."""

_CHECKSUM = "card_sha256"
_FREE = frozenset({"name", _CHECKSUM})
"""What the card's checksum is not of: a weather may be called otherwise."""

MANY_LOST = 0.2
"""The share of sampled pictures in which the road may be lost; beyond it nobody should test under the weather."""

_MOST = {"filters": 1024, "halvings": 6, "blocks": 64, "style": 1024, "hidden": 16_384, "scales": 8, "size_px": 8192}
"""Far beyond any weather that was learned; a card that says more was damaged, and networks of its sizes would fill the memory."""


class BadWeatherError(SkidpadError):
    """A weather file that cannot be used, or not for these frames."""


@dataclass(frozen=True, slots=True)
class Styles:
    """The styles that real pictures of the weather have: mean and standard deviation of each number."""

    mean: tuple[float, ...]
    deviation: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class WeatherCard:
    """What a weather is, and what it was learned from.

    rendered: whether the target pictures were made by the built-in world. source_sha256 and target_sha256: of the pictures.
    contrast, road: the weights of the losses that keep light and dark apart, and the road where it is. guide: the class that a classifier
    should put its pictures in, and that classifier's checksum; empty without one. detail: how much of it is the frame's own, 0 to 1, see
    `detail.py`. drawn: the conditions that are drawn on top, see `drawn.py`; empty where there are none. road_lost: the share of sampled
    pictures in which the referee found the road elsewhere once the weather was learned; None in cards of earlier versions, and where no
    picture shows a road.
    """

    name: str
    method: Method
    sizes: Sizes
    size_px: int
    source: str
    source_sha256: str
    target: str
    target_sha256: str
    rendered: bool
    steps: int
    batch_size: int
    crop_px: int
    seed: int
    contrast: float = 0.0
    road: float = 0.0
    guide: str = ""
    detail: float = 0.0
    drawn: str = ""
    weights_sha256: str = ""
    styles: Styles | None = None
    road_lost: float | None = None

    @property
    def loses_road(self) -> bool:
        """Whether the referee found the road elsewhere in so many pictures that nobody should test under the weather."""
        return self.road_lost is not None and self.road_lost > MANY_LOST

    @property
    def sha256(self) -> str:
        """The hash of all that its pictures depend on, for manifests: the weights', the share of the frame's detail, and what is drawn."""
        found = self.weights_sha256
        for word, value in (("detail", self.detail), ("drawn", self.drawn)):
            found = sha256(f"{found} {word} {value}".encode()).hexdigest() if value else found
        return found

    @property
    def learned_from(self) -> str:
        """Names the weather's pictures, and says so if the built-in world made all of them."""
        return f"{Path(self.target).name} (rendered)" if self.rendered else Path(self.target).name

    @property
    def drawn_words(self) -> str:
        """Says what is drawn on top of its pictures, to follow other words; empty where nothing is."""
        return f", with {self.drawn} drawn on top" if self.drawn else ""

    def to_toml(self) -> str:
        """Writes the card."""
        table: dict[str, Any] = {"format": _FORMAT, **asdict(self), "method": self.method.value}
        if self.styles is None:
            del table["styles"]
        else:
            table["styles"] = {"mean": list(self.styles.mean), "deviation": list(self.styles.deviation)}
        if self.road_lost is None:
            del table["road_lost"]
        if not self.drawn:
            del table["drawn"]
        return write_toml({**table, _CHECKSUM: _checksum(table)})

    @classmethod
    def from_toml(cls, text: str, where: str) -> Self:
        """Reads what `to_toml` wrote; `where` names it in errors. A card of an earlier version has no checksum of itself."""
        try:
            table = read_toml(text)
            if table.get("format") != _FORMAT:
                raise BadWeatherError(f"{where} is no weather of this version; learn it again with `skidpad weather train`")
            wanted = table.get(_CHECKSUM, "")
            changed = bool(wanted) and wanted != _checksum(table)
            values = {name: value for name, value in table.items() if name not in {"format", _CHECKSUM}}
            styles = values.pop("styles", None)
            made = Styles(tuple(styles["mean"]), tuple(styles["deviation"])) if styles else None
            card = cls(**{**values, "method": Method(table["method"]), "sizes": Sizes(**table["sizes"]), "styles": made})
            _check_numbers(card)
        except (tomllib.TOMLDecodeError, KeyError, TypeError, ValueError, BadParametersError) as error:
            raise BadWeatherError(f"{where} is damaged ({error}); restore it or learn the weather again") from error
        if changed:
            raise BadWeatherError(
                f"{where} was changed since it was written, and only its name may be; restore it or learn the weather again"
            )
        _check_drawn(card, where)
        return card


def _checksum(table: Mapping[str, Any]) -> str:
    """Returns the SHA-256 of what a card says, in whatever order and layout."""
    said = {name: value for name, value in table.items() if name not in _FREE}
    return sha256(json.dumps(said, sort_keys=True).encode()).hexdigest()


def _check_numbers(card: WeatherCard) -> None:
    """Refuses numbers that no training writes."""
    whole = {field.name: getattr(card.sizes, field.name) for field in fields(card.sizes)}
    whole |= {name: getattr(card, name) for name in ("size_px", "crop_px", "steps", "batch_size")}
    for name, value in whole.items():
        if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= _MOST.get(name, value):
            most = f" to {_MOST[name]}" if name in _MOST else " or more"
            raise ValueError(f"{name} is a whole number of 1{most}; got {value!r}")
    stride = card.sizes.stride
    if card.size_px % stride or card.crop_px > card.size_px:
        raise ValueError(
            f"size_px is a multiple of {stride} and crop_px at most size_px; got size_px = {card.size_px}, crop_px = {card.crop_px}"
        )
    if not (isfinite(card.contrast) and card.contrast >= 0.0):
        raise ValueError(f"contrast is 0 or more; got {card.contrast}")
    if not 0.0 <= card.detail <= 1.0:
        raise ValueError(f"detail is 0 to 1; got {card.detail}")
    if not isinstance(card.drawn, str):
        raise TypeError(f"drawn is a text; got {card.drawn!r}")
    if card.road_lost is not None and not 0.0 <= card.road_lost <= 1.0:
        raise ValueError(f"road_lost is 0 to 1; got {card.road_lost}")
    if card.styles is not None:
        rows = (card.styles.mean, card.styles.deviation)
        if any(len(row) != card.sizes.style or not all(map(isfinite, row)) for row in rows) or min(card.styles.deviation) < 0.0:
            raise ValueError(f"styles are {card.sizes.style} finite numbers and as many deviations of 0 or more")


def _check_drawn(card: WeatherCard, where: str) -> None:
    """Refuses conditions that cannot be drawn; the card may be a stranger's."""
    try:
        if card.drawn:
            DrawnConditions(card.drawn)
    except (BadParametersError, UnknownNameError) as error:
        raise BadWeatherError(
            f"the conditions that {where} draws on its pictures are refused ({error}); learn the weather again with another --drawn, or "
            "ask who published it"
        ) from error


def save_weather(out: Path, card: WeatherCard, weights: Mapping[str, torch.Tensor]) -> WeatherCard:
    """Writes OUT.safetensors in half precision and OUT.toml; the weights first, so that a card never stands alone."""
    kept = {name: tensor.to(torch.float16).contiguous() for name, tensor in weights.items() if name.startswith(_KEPT[card.method])}
    data: bytes = save(kept)
    whole = replace(card, weights_sha256=sha256(data).hexdigest())
    write_pair(out, data, whole.to_toml())
    return whole


def load_weather(path: Path) -> tuple[WeatherCard, dict[str, torch.Tensor]]:
    """Reads a weather; the weights must be those that the card was written for, and of the sizes that it says."""
    text, where = read_card(path, "weather", "train")
    card = WeatherCard.from_toml(text, where)
    weights = read_weights(path, card.weights_sha256)
    check_shapes(card, weights, where)
    return card, weights


def weight_shapes(card: WeatherCard) -> dict[str, tuple[int, ...]]:
    """Returns the shapes of the weights that a weather of the card's sizes has, by name."""
    with torch.device("meta"):  # shapes without memory
        model = Munit(card.sizes) if card.method is Method.MUNIT else Unit(card.sizes)
    return {name: tuple(tensor.shape) for name, tensor in model.state_dict().items() if name.startswith(_KEPT[card.method])}


def check_shapes(card: WeatherCard, weights: Mapping[str, torch.Tensor], where: str) -> None:
    """Refuses weights that are not those of a network of the card's sizes."""
    wanted = weight_shapes(card)
    found = {name: tuple(tensor.shape) for name, tensor in weights.items()}
    if wanted != found:
        name = min(name for name in {*wanted, *found} if wanted.get(name) != found.get(name))
        said = ", ".join(f"{field.name} = {getattr(card.sizes, field.name)}" for field in fields(card.sizes))
        raise BadWeatherError(
            f"the weights beside {where} are not those of a {card.method.value} with {said}: {name} should be {wanted.get(name, 'absent')} "
            f"and is {found.get(name, 'absent')}; restore both files together"
        )


def write_pair(out: Path, weights: bytes, card: str) -> None:
    """Writes OUT.safetensors and OUT.toml; the weights first, so that a card never stands alone."""
    out.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(weather_file(out, ".safetensors"), weights)
    write_atomically(weather_file(out, ".toml"), card.encode())


def read_card(path: Path, what: str, command: str) -> tuple[str, str]:
    """Returns the text of a card and where it stands; both files must be there. command: of `skidpad weather`, that makes them."""
    for suffix in (".toml", ".safetensors"):
        file = weather_file(path, suffix)
        if not file.is_file():
            raise BadWeatherError(f"there is no {what} {file}; `skidpad weather {command} --out {weather_file(path, '')}` makes one")
    return weather_file(path, ".toml").read_text(encoding="utf-8"), str(weather_file(path, ".toml"))


def read_weights(path: Path, wanted_sha256: str) -> dict[str, torch.Tensor]:
    """Reads the weights beside a card, which must be those that it was written for."""
    file = weather_file(path, ".safetensors")
    data = file.read_bytes()
    if sha256(data).hexdigest() != wanted_sha256:
        raise BadWeatherError(f"{file} is not what {weather_file(path, '.toml').name} was written for; restore both files together")
    try:
        weights: dict[str, torch.Tensor] = load(data)
    except SafetensorError as error:
        raise BadWeatherError(f"{file} is no whole safetensors file ({error}); restore it") from error
    return weights


def weather_file(out: Path, suffix: str) -> Path:
    """Returns the file of a weather with a suffix; `out` may be given with or without that of the weather itself."""
    stem = out.name.removesuffix(".toml").removesuffix(".safetensors")
    return out.with_name(stem + suffix)
