"""Networks that come with skidpad, trained by itself on its own rendered roads; each .training.json holds the command."""

from pathlib import Path

from skidpad.core.errors import UnknownNameError


def pretrained(name: str) -> Path:
    """Returns the description of a bundled network."""
    folder = Path(__file__).parent
    known = [path.stem for path in folder.glob("*.toml")]
    if name not in known:
        raise UnknownNameError.among("pretrained network", name, known)
    return folder / f"{name}.toml"


def subject_path(text: str) -> Path:
    """Returns where a subject is described, absolute; the word `demo` is the bundled network."""
    return pretrained("pilotnet-rendered") if text == "demo" and not Path(text).exists() else Path(text).absolute()
