import json
from math import inf, nan

from report_samples import bare, model, pair, rate

from skidpad.page.model import Headline
from skidpad.page.pictures import cards
from skidpad.page.writing import page_json, page_markdown


def test_markdown_has_verdict_figures_rates_worst_findings_settings_and_commands() -> None:
    lines = page_markdown(model(warnings=("Mind this.",))).splitlines()
    assert lines[0] == "# PilotNet on a track"
    assert lines[2] == "**30 of 200 mutants steer more than 5° away.**"
    assert "> Mind this." in lines
    assert "- Findings: **30** (in 200 cases)" in lines
    assert "- `worst` fog(density=0.5): 2.0° left became no finite answer, no finite answer" in lines
    assert "  `skidpad replay runs/a 0123456789ab`" in lines
    rows = [line.split(" | ")[0] for line in lines[lines.index("## Failure rate by transform") :] if line.startswith("| ")]
    assert rows[2:4] == ["| fog", "| rotation"]
    assert "- seed: `7`" in lines
    assert "- `skidpad test pilotnet.toml track`" in lines


def test_markdown_of_nothing() -> None:
    assert page_markdown(bare()) == "# A run\n\n**Nothing was run.**\n\n"


def test_hostile_names_stay_text() -> None:
    evil = "a|b\n## <img src=x> `code` [l](javascript:x) **b** \\"
    text = page_markdown(
        model(
            title=evil,
            headlines=(Headline(evil, evil, evil),),
            rates=(rate(evil, 1, 2),),
            pairs=(pair(case_id=evil, recipe=evil, replay=evil, excess=inf),),
        )
    )
    lines = text.splitlines()
    assert sum(line.startswith("# ") for line in lines) == 1
    assert not any("<img" in line.replace("\\<img", "") for line in lines if "`" not in line)
    row = next(line for line in lines if line.startswith("| a"))
    assert row.replace("\\|", "").count("|") == 6
    assert "\\<img" in lines[0]
    assert "\\[l\\]" in lines[0]
    replay = next(line for line in lines if line.startswith("  ``"))
    assert replay.startswith("  `` ")
    assert replay.endswith(" ``")


def test_nan_angles_are_words() -> None:
    text = page_markdown(model(pictures=cards([pair(original_answer=nan, mutant_answer=1.0, excess=nan)])))
    assert "no finite answer became 1.0° left, not judged" in text


def test_json_says_what_the_page_says_without_pictures_and_plots() -> None:
    page = model(warnings=("Mind this.",))
    told = json.loads(page_json(page))
    assert (told["verdict"], told["tone"], told["warnings"]) == (page.verdict, "alarm", ["Mind this."])
    assert told["headlines"][0] == {"label": "Findings", "value": "30", "detail": "in 200 cases"}
    assert [table["key"] for table in told["tables"]] == [table.key for table in page.tables]
    assert [card["case_id"] for card in told["pictures"]] == ["worst", "0123456789ab", "mild"]
    assert "base64" not in page_json(page)
    assert "<svg" not in page_json(page)
