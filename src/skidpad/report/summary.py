"""The report in a few lines of Markdown, for terminals and CI pages."""

import re
from math import isfinite

from skidpad.oracles.excess import times_tolerated
from skidpad.report.model import RateRow, ReportModel
from skidpad.report.pictures import worst_first
from skidpad.report.wording import answer, count, counted, interval, percent, plain

_SPECIAL = re.compile(r"([\\`*_\[\]<>&|#~!])")


def summary_markdown(model: ReportModel, max_rows: int = 8, max_findings: int = 3) -> str:
    """Returns verdict, figures, the highest failure rates and the worst findings; names from outside stay inert."""
    lines = [f"## {_text(model.title, 120)}", "", f"**{_text(model.verdict, 400)}**", ""]
    for headline in model.headlines:
        detail = f" ({_text(headline.detail, 160)})" if headline.detail else ""
        lines.append(f"- {_text(headline.label, 60)}: **{_text(headline.value, 60)}**{detail}")
    rated = sorted((row for row in model.rates if isfinite(row.rate)), key=lambda row: row.rate, reverse=True)
    if rated:
        lines += ["", "| transform | failures | cases | rate | 95 % interval |", "| --- | ---: | ---: | ---: | ---: |"]
        lines += [_row(row) for row in rated[:max_rows]]
    if len(rated) > max_rows:
        lines += ["", f"{count(len(rated) - max_rows)} more transforms are in the report."]
    worst = worst_first(model.pairs, max_findings)
    if worst:
        lines += ["", "Worst findings:"]
    for pair in worst:
        answers = f"{answer(pair.original_answer, pair.unit)} became {answer(pair.mutant_answer, pair.unit)}"
        lines.append(f"- {_code(pair.case_id, 40)} {_text(pair.recipe, 120)}: {answers}, {times_tolerated(pair.excess, pair.scale)}")
        if pair.replay:
            lines.append(f"  {_code(pair.replay, 300)}")
    broken = sum(row.count for row in model.problems)
    if broken:
        lines += ["", f"{counted(broken, 'broken frame')} {'was' if broken == 1 else 'were'} left out."]
    return "\n".join(lines) + "\n"


def _row(row: RateRow) -> str:
    cells = (_text(row.stimulus, 60), count(row.violations), count(row.cases), percent(row.rate), interval(row.low, row.high))
    return f"| {' | '.join(cells)} |"


def _text(text: str, limit: int) -> str:
    return _SPECIAL.sub(r"\\\1", plain(text, limit)).replace("\\_", "_")


def _code(text: str, limit: int) -> str:
    """Fences with more backticks than the text holds in a row; inside such a span nothing else is special."""
    words = plain(text, limit)
    longest = max((len(run) for run in re.findall("`+", words)), default=0)
    fence = "`" * (longest + 1)
    pad = " " if longest else ""
    return f"{fence}{pad}{words}{pad}{fence}"
