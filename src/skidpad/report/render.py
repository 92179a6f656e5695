"""Writes a page as one HTML file that needs nothing beside itself."""

from functools import cache
from importlib.resources import files
from pathlib import Path

from jinja2 import Environment, PackageLoader, StrictUndefined

from skidpad import __version__
from skidpad.core.errors import SkidpadError
from skidpad.core.files import write_atomically
from skidpad.report.layout import lay_out
from skidpad.report.model import ReportModel
from skidpad.report.page import Page
from skidpad.report.plots import HEAT_STEPS
from skidpad.runs.folder import DISK_FULL

MAX_PAIRS = 24


class UnwrittenError(SkidpadError):
    """A page that could not be written; what it tells of is untouched."""


def render(model: ReportModel, max_pairs: int = MAX_PAIRS) -> str:
    """Returns the report of transformed recordings as HTML; the same model gives the same bytes."""
    return render_page(lay_out(model, max_pairs))


def render_page(page: Page) -> str:
    """Returns any campaign's page as HTML."""
    style = files("skidpad.report").joinpath("templates", "style.css").read_text(encoding="utf-8")
    return _environment().get_template("page.jinja").render(page=page, style=style, version=__version__, heat_steps=HEAT_STEPS)


def write_report(model: ReportModel, path: Path, max_pairs: int = MAX_PAIRS) -> None:
    """Writes the report whole or not at all; a file of that name is replaced in one move."""
    write_text_whole(path, render(model, max_pairs))


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
        loader=PackageLoader("skidpad.report", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
