"""Writes a page as one HTML file that holds everything it shows and loads nothing."""

from functools import cache
from importlib.resources import files
from pathlib import Path

from jinja2 import Environment, PackageLoader, StrictUndefined

from skidpad import __version__
from skidpad.core.errors import SkidpadError
from skidpad.core.files import write_atomically
from skidpad.page.markdown import page_json, page_markdown
from skidpad.page.model import Page
from skidpad.page.svg import HEAT_STEPS
from skidpad.runs.folder import DISK_FULL


class UnwrittenError(SkidpadError):
    """A page that could not be written; what it tells of is untouched."""


def render_page(page: Page) -> str:
    """Returns any page as HTML; the same page gives the same bytes."""
    style = files("skidpad.page").joinpath("templates", "style.css").read_text(encoding="utf-8")
    return _environment().get_template("page.jinja").render(page=page, style=style, version=__version__, heat_steps=HEAT_STEPS)


def write_page(path: Path, page: Page) -> None:
    """Writes a page as the ending of its file says: .md is Markdown, .json JSON, anything else HTML."""
    writer = {".md": page_markdown, ".json": page_json}.get(path.suffix.lower(), render_page)
    write_text_whole(path, writer(page))


def write_text_whole(path: Path, text: str) -> None:
    """Writes beside the path first and moves it into place, so that no reader meets half a file."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, text.encode())
    except OSError as error:
        way_out = "free some space" if error.errno in DISK_FULL else "choose a file in a folder you may write to"
        raise UnwrittenError(f"cannot write the report to {str(path)!r} ({error.strerror}); {way_out}") from error


@cache
def _environment() -> Environment:
    return Environment(
        loader=PackageLoader("skidpad.page", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
