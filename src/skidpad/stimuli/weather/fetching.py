"""Weathers that others have learned: the card and the weights beside it, fetched from where they publish them.

The card names the hash of the weights, so that the hash of the card is enough to pin both files.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from hashlib import sha256
from math import prod
from pathlib import Path, PurePosixPath
from urllib.parse import unquote

from safetensors import SafetensorError
from safetensors.torch import load_file

from skidpad.core.errors import SkidpadError
from skidpad.core.files import write_atomically
from skidpad.core.progress import Progress, silent
from skidpad.drives.downloads import check_content, fetch_bytes, fetch_file, split_address
from skidpad.stimuli.weather.files import BadWeatherError, WeatherCard, check_shapes, load_weather, weather_file, weight_shapes

MAX_CARD_BYTES = 256 << 10
"""A card of the longest style that is allowed has a fifth of it."""

_HASH = re.compile(r"[0-9a-f]{64}")
_NAME = re.compile(r"\w[\w.-]*")
_NUMBER_BYTES = 4
_HEADER_BYTES = 512
"""Of each tensor in the header of a safetensors file: its name, type, shape and place."""


@dataclass(frozen=True, slots=True)
class FetchedWeather:
    """A weather that lies in a folder; path: without a suffix. sha256: of its card's file. downloaded: False if it was there already."""

    path: Path
    card: WeatherCard
    sha256: str
    downloaded: bool

    @property
    def files(self) -> tuple[Path, Path]:
        """The card and the weights."""
        return weather_file(self.path, ".toml"), weather_file(self.path, ".safetensors")


def fetch_weather(url: str, wanted_sha256: str, folder: Path, progress: Progress = silent) -> FetchedWeather:
    """Fetches the card at `url` and the weights beside it into a folder; a weather that is there and whole is not fetched again.

    wanted_sha256: of the card's file, as `sha256sum` prints it. Both files are checked before either is kept, the weights come first, and
    a weather of another hash is never replaced.
    """
    wanted = wanted_sha256.strip().lower().removeprefix("sha256:")
    if not _HASH.fullmatch(wanted):
        raise SkidpadError(f"--sha256 is the 64 digits that `sha256sum` prints for the weather's .toml file; got {wanted_sha256!r}")
    name, weights_url = _beside(url)
    out = folder / name
    kept = weather_file(out, ".toml")
    content = _kept_card(kept, wanted)
    if content is not None:
        try:
            return FetchedWeather(out, load_weather(out)[0], wanted, downloaded=False)
        except (BadWeatherError, OSError):
            pass  # its weights are lost or damaged, and are fetched again
    else:
        progress(0, 2, url)
        content = fetch_bytes(url, MAX_CARD_BYTES)
        check_content(url, content[:64], len(content), wanted, sha256(content).hexdigest())
    card = _read_card(content, url)
    _check_place(folder, weather_file(out, ".safetensors"), kept, card)
    progress(1, 2, weights_url)
    fetch_file(
        weights_url,
        weather_file(out, ".safetensors"),
        most_weight_bytes(card),
        card.weights_sha256,
        lambda part: _check_weights(card, part, weights_url, url),
    )
    write_atomically(kept, content)
    return FetchedWeather(out, card, wanted, downloaded=True)


def most_weight_bytes(card: WeatherCard) -> int:
    """Returns how large the weights' file of a card can be, if it stores single precision; skidpad stores half."""
    shapes = weight_shapes(card)
    return _NUMBER_BYTES * sum(prod(shape) for shape in shapes.values()) + _HEADER_BYTES * (len(shapes) + 8)


def _beside(url: str) -> tuple[str, str]:
    """Returns the name of the weather whose card is at an address, and the address of its weights."""
    parts = split_address(url)
    stem, dot, suffix = parts.path.rpartition(".")
    name = unquote(PurePosixPath(stem).name)
    if not dot or suffix != "toml":
        raise SkidpadError(f"fetch the card of a weather, a file whose name ends in .toml; got {url!r}")
    if not _NAME.fullmatch(name):
        raise SkidpadError(
            f"the name {name!r} of the weather at {url!r} is not made of letters, digits, '.', '_' and '-'; rename its files"
        )
    return name, parts._replace(path=f"{stem}.safetensors").geturl()


def _kept_card(path: Path, wanted: str) -> bytes | None:
    if not path.exists():
        return None
    content = path.read_bytes()
    found = sha256(content).hexdigest()
    if found != wanted:
        raise SkidpadError(
            f"{path} is another weather (its SHA-256 is {found}, asked for: {wanted}), and is not replaced; choose another --out, "
            "or remove it"
        )
    return content


def _check_place(folder: Path, weights: Path, kept: Path, card: WeatherCard) -> None:
    """Makes the folder; refuses one that cannot be made, and one that holds weights of another weather without their card."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise SkidpadError(f"cannot make the folder {folder} ({error.strerror}); choose another --out") from error
    if weights.is_file() and not kept.exists() and sha256(weights.read_bytes()).hexdigest() != card.weights_sha256:
        raise SkidpadError(
            f"{weights} belongs to another weather, whose card is missing, and is not replaced; choose another --out, or remove it"
        )


def _read_card(content: bytes, url: str) -> WeatherCard:
    try:
        card = WeatherCard.from_toml(content.decode("utf-8"), url)
    except UnicodeDecodeError as error:
        raise BadWeatherError(f"{url} is no weather's card: it is not text ({error}); fetch the file that ends in .toml") from error
    if not _HASH.fullmatch(card.weights_sha256):
        raise BadWeatherError(f"the card {url} does not name the SHA-256 of its weights; ask for one that `skidpad weather train` wrote")
    return card


def _check_weights(card: WeatherCard, part: Path, weights_url: str, url: str) -> None:
    try:
        weights = load_file(part)
    except SafetensorError as error:
        raise BadWeatherError(
            f"{weights_url} is no safetensors file ({error}), though the card names its hash; ask who published it"
        ) from error
    check_shapes(card, weights, url)
