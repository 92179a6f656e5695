"""The templates, which escape everything, and the few files that pages are dressed with."""

from functools import cache
from importlib.resources import files
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from starlette.responses import HTMLResponse, Response

from skidpad import __version__
from skidpad.report.wording import count, counted, percent
from skidpad.runs.tags import Tag

_STATIC = {
    "report.css": ("skidpad.report", "templates", "style.css", "text/css"),
    "page.css": ("skidpad.ui", "static", "page.css", "text/css"),
    "page.js": ("skidpad.ui", "static", "page.js", "text/javascript"),
    "icon.svg": ("skidpad.ui", "static", "icon.svg", "image/svg+xml"),
}
"""Every file that may be asked for; no address becomes a path."""

TAG_KEYS = (("1", Tag.REAL_FAULT), ("2", Tag.FALSE_ALARM), ("3", Tag.UNCLEAR))
"""The keys that tag a finding."""


def page(template: str, status: int = 200, **shown: Any) -> HTMLResponse:
    """Renders a template of this package."""
    html = _environment().get_template(template).render(version=__version__, tag_keys=TAG_KEYS, **shown)
    return HTMLResponse(html, status)


def static_file(name: str) -> Response | None:
    """Returns one of the files of the page, None where there is no such."""
    if name not in _STATIC:
        return None
    package, folder, file, kind = _STATIC[name]
    data = files(package).joinpath(folder, file).read_bytes()
    return Response(data, media_type=kind, headers={"cache-control": "no-cache"})


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("skidpad.ui", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"count": count, "counted": counted, "percent": percent}
    return environment
