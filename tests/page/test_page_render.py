import os
import re
import stat
from itertools import pairwise
from math import inf, nan
from pathlib import Path

import pytest
from report_samples import PageReader, bare, frame, gain, model, pair, rate

from skidpad.core.errors import SkidpadError
from skidpad.drives.drive import Problem, ProblemKind
from skidpad.page.charts import Curve, DeviationHistogram
from skidpad.page.model import Headline
from skidpad.page.terminal import show_page
from skidpad.page.writing import render_page, write_page

EVIL = "\"'><script>alert(1)</script></style></svg><img src=x onerror=alert(2)>&amp;\u202e\x00\ud800{{ 7*7 }}{% raw %}雪"


def test_order_is_verdict_pictures_plots_tables_configuration_reproduce() -> None:
    html = render_page(model())
    marks = ['class="sentence"', 'class="headlines"', 'id="pictures"', 'id="plots"', 'id="tables"', 'id="configuration"', 'id="reproduce"']
    places = [html.index(mark) for mark in marks]
    assert places == sorted(places)


def test_landmarks_headings_and_names() -> None:
    page = PageReader(render_page(model()))
    assert page.all("html")[0]["lang"] == "en"
    assert len(page.all("main")) == len(page.all("h1")) == len(page.all("nav")) == 1
    levels = [int(tag[1]) for tag, _ in page.elements if re.fullmatch("h[1-6]", tag)]
    assert levels[0] == 1
    assert all(after - before <= 1 for before, after in pairwise(levels))
    assert all(text.strip() for tag in ("h1", "h2", "h3", "th") for text in page.text(tag))
    ids = [attributes["id"] for _, attributes in page.elements if "id" in attributes]
    assert len(ids) == len(set(ids))
    for _, attributes in page.elements:
        for name in ("aria-labelledby", "aria-describedby"):
            assert set(attributes.get(name, "").split()) <= set(ids)
    targets = [link["href"] for link in page.all("a")]
    assert targets[0] == "#main", "the first stop of the keyboard skips to the verdict"
    assert {target.removeprefix("#") for target in targets} <= set(ids)
    regions = page.all("div", role="region")
    assert len(regions) == len(page.all("table")) == 5
    assert all(region["tabindex"] == "0" for region in regions)


def test_every_picture_is_embedded_and_said_in_words() -> None:
    page = PageReader(render_page(model()))
    pictures = page.all("img")
    assert len(pictures) == 6
    assert all(picture["src"].startswith("data:image/jpeg;base64,") for picture in pictures)
    alts = [picture["alt"] for picture in pictures]
    assert "the subject gives no finite answer" in alts[1]
    assert "the subject answers 2.0° left; label 1.0° left" in alts[2]
    assert "the subject answers 12.0° right" in alts[3]
    assert "no label" in alts[4]


def test_worst_first_with_arrows_of_the_right_kind() -> None:
    page = PageReader(render_page(model()))
    cards = page.text("article")
    assert [next(word for word in ("worst", "0123456789ab", "mild") if f"case {word}" in card) for card in cards] == [
        "worst",
        "0123456789ab",
        "mild",
    ]
    arrows = [shape["class"].split()[1] for shape in page.all("polygon", class_="arrow")]
    assert arrows == ["original", "label", "original", "mutant", "label"] * 2 + ["original", "original", "mutant"]
    red = [shape["points"].split() for shape in page.all("polygon", class_="mutant")]
    assert [len(points) for points in red] == [12, 7, 7], "a cross, then arrows"
    assert float(red[1][3].split(",")[0]) > 16, "12° right leans right on a frame 32 wide"


def test_nothing_outside_is_referenced_and_nothing_runs() -> None:
    html = render_page(model())
    words = re.sub(r'src="data:image/jpeg;base64,[A-Za-z0-9+/=]+"', "", html)
    assert "base64" not in words
    assert not re.search(r"https?:|//|@import|url\(", words, re.IGNORECASE)
    page = PageReader(html)
    assert not page.all("script")
    assert not page.all("link")
    assert "default-src 'none'" in next(meta["content"] for meta in page.all("meta") if "http-equiv" in meta)
    for _, attributes in page.elements:
        assert not any(name.startswith("on") for name in attributes)
        assert all(attributes[name].startswith(("#", "data:image/jpeg")) for name in ("href", "src") if name in attributes)


def test_hostile_names_stay_text_everywhere() -> None:
    evil = model(
        title=EVIL,
        verdict=EVIL,
        headlines=(Headline(EVIL, EVIL, EVIL),) * 3,
        context={"Subject": EVIL, EVIL: EVIL},
        pairs=(pair(case_id=EVIL, frame_id=EVIL, recipe=EVIL, replay=EVIL), pair()),
        rates=(rate(EVIL, 1, 2),),
        by_parameters=(rate(EVIL, 1, 2, EVIL), rate(EVIL, 0, 2, EVIL)),
        gains=(gain("", 60, EVIL), gain(EVIL, 51, EVIL), gain(EVIL, 52, EVIL + "2")),
        problems=(Problem(ProblemKind.CORRUPT, EVIL, EVIL),),
        config={EVIL: EVIL},
        facts={EVIL: EVIL},
        command=(EVIL,),
        notes=(EVIL,),
        remarks=(EVIL,),
    )
    html = render_page(evil)
    html.encode("utf-8")
    page = PageReader(html)
    calm = PageReader(render_page(model()))
    assert not page.all("script")
    assert {tag for tag, _ in page.elements} == {tag for tag, _ in calm.elements}
    assert {name for _, attributes in page.elements for name in attributes} == {
        name for _, attributes in calm.elements for name in attributes
    }
    assert page.text("h1")[0].startswith("\"'><script>alert(1)</script>")
    assert "{{ 7*7 }}" in page.text("h1")[0]
    assert "\u202e" not in html
    assert "\x00" not in html


def test_very_long_names_are_cut() -> None:
    long = "x" * 100_000
    html = render_page(model(title=long, pairs=(pair(recipe=long, frame_id=long, replay=long),), rates=(rate(long, 1, 2),), notes=(long,)))
    assert len(html) < 100_000


def test_not_finite_values_are_words() -> None:
    html = render_page(
        model(
            pairs=(pair(original_answer=nan, mutant_answer=inf, label_answer=nan, excess=nan),),
            rates=(rate("fog", 0, 0),),
            deviations=DeviationHistogram((-1.0, 1.0), (0,), nan, 3),
        )
    )
    page = PageReader(html)
    assert "no finite answer" in page.text("article")[0]
    assert "not judged" in page.text("article")[0]
    assert "no cases" in " ".join(page.text("td"))
    visible = " ".join([*page.text("main"), *(attributes.get("points", "") for _, attributes in page.elements)])
    assert not re.search(r"\b(nan|inf)\b", visible, re.IGNORECASE)


def test_zero_findings_is_a_calm_page_with_its_figures() -> None:
    page = PageReader(render_page(model(findings=0, pairs=(), verdict="No mutant steers away.")))
    assert page.all("body")[0]["class"] == "calm"
    assert "No findings" in page.text("section", id="pictures")[0]
    assert len(page.text("dt")) >= 3
    assert page.all("table")
    assert len(page.all("svg", class_="plot")) == 4
    assert not page.all("img")


def test_zero_cases_is_not_calm_and_needs_nothing() -> None:
    page = PageReader(render_page(bare()))
    assert page.all("body")[0]["class"] == "unknown"
    assert "No cases were judged" in page.text("section", id="pictures")[0]
    assert not page.all("table")
    assert {link["href"] for link in page.all("a")} == {"#main", "#pictures"}


def test_findings_without_pictures_are_not_called_calm() -> None:
    page = PageReader(render_page(model(pairs=())))
    assert page.all("body")[0]["class"] == "alarm"
    assert "No pictures were rendered" in page.text("section", id="pictures")[0]


def test_ten_thousand_rows_are_cut_and_said() -> None:
    rates = tuple(rate(f"rotation+blur+{k}", k % 7, 10) for k in range(3_000))
    many = tuple(rate(f"t{k // 10}", k % 7, 10, f"p={k}") for k in range(10_000))
    page = PageReader(render_page(model(findings=10_000, pairs=(pair(),) * 24, rates=rates, by_parameters=many)))
    assert "24 of 10\u202f000 findings" in page.text("section", id="pictures")[0]
    assert "The run has 2\u202f500 rows more." in page.text("section", id="tables")[0]


def test_the_relation_is_named_once_for_all_pictures() -> None:
    assert render_page(model()).count("steers-alike within 5°") == 1


def test_same_model_same_bytes() -> None:
    assert render_page(model()) == render_page(model())


def test_writing_replaces_whole_and_leaves_no_scraps(tmp_path: Path) -> None:
    target = tmp_path / "new" / "report.html"
    write_page(target, bare(title="first"))
    write_page(target, bare(title="second"))
    assert "second" in target.read_text(encoding="utf-8")
    assert [entry.name for entry in target.parent.iterdir()] == ["report.html"]
    mask = os.umask(0)
    os.umask(mask)
    assert stat.S_IMODE(target.stat().st_mode) == 0o666 & ~mask, "others may read it as any file of the user"


def test_a_failed_write_keeps_the_old_report_and_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = tmp_path / "report.html"
    write_page(target, bare(title="old"))

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("skidpad.core.files.os.fsync", full)
    with pytest.raises(SkidpadError, match="No space left on device"):
        write_page(target, bare(title="new"))
    assert "old" in target.read_text(encoding="utf-8")
    assert [entry.name for entry in tmp_path.iterdir()] == ["report.html"]


def test_a_folder_in_the_way_is_one_clear_error(tmp_path: Path) -> None:
    with pytest.raises(SkidpadError, match="cannot write the report"):
        write_page(tmp_path, bare())


def test_models_that_contradict_themselves_are_refused() -> None:
    with pytest.raises(ValueError, match="2 counts need 3 edges"):
        DeviationHistogram((0.0, 1.0), (1, 2))
    with pytest.raises(ValueError, match="as many x as y"):
        Curve("c", (1.0,), ())


def test_pair_sizes_may_differ() -> None:
    page = PageReader(render_page(model(pairs=(pair(original=frame(1, 10, 20), mutant=frame(2, 1000, 700)),))))
    sizes = [(int(picture["width"]), int(picture["height"])) for picture in page.all("img")]
    assert sizes == [(20, 10), (336, 480)]


def test_a_terminal_names_the_commands_at_the_end_as_the_page_does(capsys: pytest.CaptureFixture[str]) -> None:
    show_page(bare(commands=("skidpad limits net drive", "skidpad report run")))
    assert capsys.readouterr().out.splitlines()[-3:] == ["How to reproduce", "  skidpad limits net drive", "  skidpad report run"]
