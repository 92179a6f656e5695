"""A report stays small enough to mail, however much was found."""

import re
from pathlib import Path

import numpy as np
from report_samples import PageReader, model, pair, rate

from skidpad.page.html import render, write_report
from skidpad.page.model import RateRow

MAX_BYTES = 10 << 20


def test_ten_thousand_findings_stay_below_ten_megabytes(tmp_path: Path) -> None:
    """Noise does not compress, every picture is large, and every table is longer than the page shows."""
    rng = np.random.default_rng(0)
    frames = rng.integers(0, 256, (4, 480, 640, 3), np.uint8)
    found = [pair(case_id=f"{n:012x}", excess=1.0 + n / 1000, original=frames[n % 4], mutant=frames[(n + 1) % 4]) for n in range(10_000)]
    rows: list[RateRow] = [rate(f"transform-{n % 50}", n % 10, 10, f"p={n}") for n in range(10_000)]
    report = model(cases=20_000, findings=10_000, pairs=tuple(found), rates=tuple(rows[:50]), rates_by_parameters=tuple(rows))
    path = tmp_path / "report.html"
    write_report(report, path)
    assert path.stat().st_size < MAX_BYTES
    page = PageReader(path.read_text(encoding="utf-8"))
    shown = [text for text in page.text("code") if re.fullmatch(r"[0-9a-f]{12}", text)]
    assert shown[0] == f"{9999:012x}"  # the worst is among those that are shown


def test_a_report_needs_nothing_beside_itself_and_can_be_read_by_keyboard_and_ear() -> None:
    text = render(model())
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
