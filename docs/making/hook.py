"""What mkdocs calls while it builds: adds the reference, and brings along the files beside docs that pages link to."""

from __future__ import annotations

import os
import posixpath
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

DOCS = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(DOCS))  # mkdocs loads this file by its path alone

from making.reference import pages  # noqa: E402 - after the path above

LINK = re.compile(r"(?<=\]\()(?P<target>[^)#:\s]+)(?=[#)])")
"""Where a relative link leads, without its anchor."""


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Adds pages that the navigation does not name to its part `Guides`, so that each can be reached."""
    listed = set(_leaves(config.nav))
    guides = next(part["Guides"] for part in config.nav or () if "Guides" in part)
    guides += [path.name for path in sorted(DOCS.glob("*.md")) if path.name not in listed]
    return config


def _leaves(nav: Any) -> Iterator[str]:
    if isinstance(nav, str):
        yield nav
    elif isinstance(nav, Mapping):
        yield from _leaves(list(nav.values()))
    else:
        for item in nav or ():
            yield from _leaves(item)


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Adds the generated pages, and what lies beside docs and is linked to."""
    for path, text in pages().items():
        files.append(File.generated(config, path, content=text))
    for path in beside():
        files.append(File.generated(config, str(path), abs_src_path=str(DOCS.parent / path)))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Turns links out of docs into links to the copy on the site."""
    del config, files
    return inside(markdown, page.file.src_uri)


def inside(markdown: str, path: str) -> str:
    """Rewrites the links of a page that leave docs; `path` is where the page lies under docs."""
    folder = posixpath.dirname(path)

    def moved(match: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join(folder, match["target"]))
        return posixpath.relpath(target.removeprefix("../"), folder or ".") if target.startswith("../") else match["target"]

    return LINK.sub(moved, markdown)


def beside() -> list[Path]:
    """Lists the files outside of docs that its pages link to, from the root of the project."""
    found = {Path("CONTRIBUTING.md"), Path("CHANGELOG.md")}  # pages of the site
    for source in DOCS.rglob("*.md"):
        for match in LINK.finditer(source.read_text(encoding="utf-8")):
            target = Path(os.path.normpath(source.parent / match["target"]))
            if target.is_file() and not target.is_relative_to(DOCS):
                found.add(target.relative_to(DOCS.parent))
    return sorted(found)
