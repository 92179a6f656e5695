"""The bundled weathers, small; README.md holds the commands."""

import shlex
from difflib import get_close_matches
from pathlib import Path

from skidpad.core.errors import UnknownNameError

CLASSIFIER = "demo-classifier"
"""Tells the rendered weathers apart; see `weather.classifier`."""
_FORMER = "demo-rain"
"""A smaller weather of former versions, which their runs and campaigns may name."""
_PREFIX = "weather:"
"""What a weather's name begins with among other stimuli."""


def pretrained_names() -> tuple[str, ...]:
    """Returns the names of the bundled weathers."""
    return tuple(sorted(path.stem for path in Path(__file__).parent.glob("*.toml") if path.stem != CLASSIFIER))


def pretrained_weather(name: str) -> Path:
    """Returns the card of a bundled weather."""
    if name not in pretrained_names():
        raise UnknownNameError.among("bundled weather", name, pretrained_names())
    return Path(__file__).parent / f"{name}.toml"


def weather_path(text: str) -> Path:
    """Returns where a weather is: a file, with or without its suffix, or the name of a bundled one, such as `rain`.

    A name without a folder must be one of them. A path is returned as it is, and the weather missed when it is loaded. A file of one's own
    goes before a bundled weather of its name, and a folder of pictures does not.
    """
    path = Path(text)
    if not path.name.strip():
        raise UnknownNameError(f"a weather is a bundled name ({', '.join(pretrained_names())}) or the path of a card; got {text!r}")
    if any(path.with_name(path.name + suffix).is_file() for suffix in ("", ".toml", ".safetensors")):
        return path
    if path.stem == _FORMER:
        raise UnknownNameError(f"the weather {_FORMER!r} is no longer bundled; use 'rain', and start runs that were made with it anew")
    if text in pretrained_names():
        return pretrained_weather(text)
    if text.startswith(_PREFIX) or (path.name == text and "+" in text):
        raise _stimulus(text)
    if path.name == text:
        raise _unknown(path.stem)
    return path


def _stimulus(text: str) -> UnknownNameError:
    """Says where a weather may be written as a stimulus, with conditions on top."""
    written = shlex.quote(_PREFIX + text.removeprefix(_PREFIX))
    return UnknownNameError(
        f"no weather named {text!r}; conditions on top of a weather and `{_PREFIX}` names are for `skidpad test --transforms` "
        f"and `skidpad drive --stimulus`, as --transforms {written}"
    )


def _unknown(name: str) -> UnknownNameError:
    """Says which weathers are bundled, and how one of the user's own is named."""
    names = pretrained_names()
    near = get_close_matches(name, names, n=1)
    known = f"did you mean {near[0]!r}? Bundled" if near else "bundled"
    own = f"name one of your own by its file, as weathers/{name}.toml"
    return UnknownNameError(f"no weather named {name!r}; {known}: {', '.join(names)}; {own}")


def classifier_path(text: str) -> Path:
    """Returns where a weather classifier is: a file, or `demo-classifier` for the bundled one."""
    return Path(__file__).parent / f"{CLASSIFIER}.toml" if text == CLASSIFIER and not Path(text).exists() else Path(text)
