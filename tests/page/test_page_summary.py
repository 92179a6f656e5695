from math import inf, nan

from report_samples import bare, model, pair, rate

from skidpad.kinds.tracking import summary_markdown
from skidpad.page.model import Headline


def test_summary_has_verdict_figures_rates_and_worst() -> None:
    text = summary_markdown(model())
    lines = text.splitlines()
    assert lines[0] == "## PilotNet on a track"
    assert lines[2] == "**30 of 200 mutants steer more than 5° away.**"
    assert "- Findings: **30** (in 200 cases)" in lines
    rows = [line for line in lines if line.startswith("| ")]
    assert [row.split(" | ")[0] for row in rows[2:]] == ["| fog", "| rotation"]
    assert "- `worst` fog(density=0.5): 2.0° left became no finite answer, no finite answer" in lines
    assert "  `skidpad replay runs/a 0123456789ab`" in lines
    assert "2 broken frames were left out." in lines
    assert len(lines) < 40


def test_summary_is_short_whatever_the_run() -> None:
    many = model(pairs=(pair(),) * 500, rates=tuple(rate(f"t{k}", k % 9, 10) for k in range(500)))
    assert len(summary_markdown(many).splitlines()) < 40
    assert "492 more transforms" in summary_markdown(many)


def test_summary_of_nothing() -> None:
    text = summary_markdown(bare(rates=(rate("fog", 0, 0),)))
    assert text == "## A run\n\n**Nothing was run.**\n\n"


def test_hostile_names_stay_text() -> None:
    evil = "a|b\n## <img src=x> `code` [l](javascript:x) **b** \\"
    text = summary_markdown(
        model(
            title=evil,
            headlines=(Headline(evil, evil, evil),),
            rates=(rate(evil, 1, 2),),
            pairs=(pair(case_id=evil, recipe=evil, replay=evil, excess=inf),),
        )
    )
    lines = text.splitlines()
    assert sum(line.startswith("## ") for line in lines) == 1
    row = next(line for line in lines if line.startswith("| a"))
    assert row.replace("\\|", "").count("|") == 6
    assert "\\<img" in lines[0]
    assert "\\[l\\]" in lines[0]
    replay = next(line for line in lines if line.startswith("  ``"))
    assert replay.startswith("  `` ")
    assert replay.endswith(" ``")


def test_nan_angles_are_words() -> None:
    text = summary_markdown(model(pairs=(pair(original_answer=nan, mutant_answer=1.0, excess=nan),)))
    assert "no finite answer became 1.0° left, not judged" in text
