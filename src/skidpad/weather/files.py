"""A learned weather on disk: the translating half of the networks as safetensors, and a TOML that says what it is."""

from __future__ import annotations

import tomllib
from dataclasses import asdict, dataclass, replace
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import torch
from safetensors import SafetensorError
from safetensors.torch import load, save

from skidpad.core import toml
from skidpad.core.errors import SkidpadError
from skidpad.core.files import write_atomically
from skidpad.weather.settings import Method, Sizes

if TYPE_CHECKING:
    from collections.abc import Mapping

_FORMAT = "skidpad-weather-1"
_KEPT = {
    Method.MUNIT: ("source.content.", "target.decoder.", "target.style."),
    Method.UNIT: ("source.encoder.", "shared_encoder.", "shared_decoder.", "target.decoder."),
}
"""What translating from source to target needs, and the target's style encoder, which tells the styles of real pictures."""


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
    contrast: the weight of the loss that keeps light and dark apart.
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
    weights_sha256: str = ""
    styles: Styles | None = None

    def to_toml(self) -> str:
        """Writes the card."""
        table: dict[str, Any] = {"format": _FORMAT, **asdict(self), "method": self.method.value}
        if self.styles is None:
            del table["styles"]
        else:
            table["styles"] = {"mean": list(self.styles.mean), "deviation": list(self.styles.deviation)}
        return toml.dumps(table)

    @classmethod
    def from_toml(cls, text: str, where: str) -> Self:
        """Reads what `to_toml` wrote; `where` names it in errors."""
        try:
            table = tomllib.loads(text)
            if table.pop("format", None) != _FORMAT:
                raise BadWeatherError(f"{where} is no weather of this version; learn it again with `skidpad weather train`")
            styles = table.pop("styles", None)
            made = Styles(tuple(styles["mean"]), tuple(styles["deviation"])) if styles else None
            return cls(**{**table, "method": Method(table["method"]), "sizes": Sizes(**table["sizes"]), "styles": made})
        except (tomllib.TOMLDecodeError, KeyError, TypeError, ValueError) as error:
            raise BadWeatherError(f"{where} is damaged ({error}); restore it or learn the weather again") from error


def save_weather(out: Path, card: WeatherCard, weights: Mapping[str, torch.Tensor]) -> WeatherCard:
    """Writes OUT.safetensors in half precision and OUT.toml; the weights first, so that a card never stands alone."""
    kept = {name: tensor.to(torch.float16).contiguous() for name, tensor in weights.items() if name.startswith(_KEPT[card.method])}
    data: bytes = save(kept)
    whole = replace(card, weights_sha256=sha256(data).hexdigest())
    write_pair(out, data, whole.to_toml())
    return whole


def load_weather(path: Path) -> tuple[WeatherCard, dict[str, torch.Tensor]]:
    """Reads a weather; the weights must be those that the card was written for."""
    text, where = read_card(path, "weather", "train")
    card = WeatherCard.from_toml(text, where)
    return card, read_weights(path, card.weights_sha256)


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
