"""A report stays small enough to mail, however much was found."""

from pathlib import Path

import numpy as np
from report_samples import PageReader, model, pair, rate

from skidpad.kinds.pictures.page import PAIRS
from skidpad.page.writing import render_page, write_page

MAX_BYTES = 10 << 20


def test_ten_thousand_findings_stay_below_ten_megabytes(tmp_path: Path) -> None:
    """Noise does not compress, every picture is large, and every table is longer than the page shows."""
    rng = np.random.default_rng(0)
    frames = rng.integers(0, 256, (4, 480, 640, 3), np.uint8)
    found = [pair(case_id=f"{n:012x}", excess=1.0 + n / 1000, original=frames[n % 4], mutant=frames[(n + 1) % 4]) for n in range(PAIRS)]
    rows = [rate(f"transform-{n % 50}", n % 10, 10, f"p={n}") for n in range(10_000)]
    page = model(findings=10_000, pairs=found, rates=rows[:50], by_parameters=rows)
    path = tmp_path / "report.html"
    write_page(path, page)
    assert path.stat().st_size < MAX_BYTES
    shown = PageReader(path.read_text(encoding="utf-8"))
    assert len(shown.all("img")) == 2 * PAIRS
    assert all(int(picture["width"]) <= 480 for picture in shown.all("img"))


def test_a_report_needs_nothing_beside_itself_and_can_be_read_by_keyboard_and_ear() -> None:
    text = render_page(model())
    page = PageReader(text)
    addresses = [value for _, attributes in page.elements for name, value in attributes.items() if name in {"src", "href"}]
    assert all(address.startswith(("data:", "#")) for address in addresses)
    assert "<script" not in text
    assert "url(" not in text.replace("url(#", "")
    assert all("alt" in image for image in page.all("img"))
    assert len(page.all("h1")) == 1
    assert page.all("html")[0]["lang"] == "en"
    assert all("tabindex" in region for region in page.all("div", role="region"))  # what scrolls can be reached by keys
    assert "@media print" in text
