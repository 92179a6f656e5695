"""What stands on a report besides its verdict: warnings, originals that break the relation themselves, and what people said."""

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "campaigns"))
from bar_world import BarSubject, bar_campaign, bar_drive
from report_samples import PageReader, model, pair, rate

from skidpad.campaigns.originals import Originals
from skidpad.campaigns.summary import summarise
from skidpad.drives.memory import drive_from_arrays
from skidpad.report.deeptest import deeptest_report
from skidpad.report.deeptest_words import warnings_of
from skidpad.report.layout import lay_out
from skidpad.report.model import Looked
from skidpad.report.render import render
from skidpad.report.tagging import looked_at, tags_payload
from skidpad.report.weather_warnings import weather_warnings
from skidpad.runs.tags import Tag, TaggedRates, Tags
from skidpad.weather.files import load_weather
from skidpad.weather.pretrained import weather_path

LOOKED = Looked(TaggedRates(200, 30, 2, 1, 1), {"worst": Tag.REAL_FAULT, "mild": Tag.FALSE_ALARM, "elsewhere": Tag.UNCLEAR})
FRAMES = 12


def far_label(place: int = 3, off_rad: float = 0.2):
    """The toy's drive, on which the human steers elsewhere on one frame: the subject is wrong there before anything changes."""
    plain = bar_drive(FRAMES)
    labels = plain.steering_rad.copy()
    labels[place] += off_rad
    return drive_from_arrays(plain.read(range(FRAMES)).frames, labels)


@pytest.fixture(scope="module")
def judged(tmp_path_factory: pytest.TempPathFactory):
    campaign = bar_campaign(
        BarSubject(left_threshold=130), drive=far_label(), relation="label-mse", tolerance=5.0, transforms=("brightness", "contrast")
    )
    run = campaign.start(tmp_path_factory.mktemp("judged") / "run")
    campaign.execute(run)
    return campaign, run


def test_findings_of_originals_that_break_the_relation_are_counted_and_marked(judged) -> None:
    campaign, run = judged
    originals = Originals.of(run, FRAMES)
    relation = campaign.relation(originals)
    summary = summarise(run, campaign.blank_tracker(None), campaign.judged, relation)
    rows = [row for row in run.records("grid").to_pylist() if row["violated"]]
    already = [row for row in rows if (row["original"] - row["label"]) ** 2 > relation.tolerated_rad2]
    assert {row["frame_index"] for row in already} == {3}
    assert 0 < len(already) < len(rows)
    assert summary.overall.already_broken == len(already)
    assert sum(each.already_broken for each in summary.by_stimulus) == sum(each.already_broken for each in summary.by_parameters)
    assert summarise(run, campaign.blank_tracker(None), campaign.judged).overall.already_broken == 0
    assert f"{len(already)} of {len(rows)} findings are on frames" in warnings_of(relation, originals, summary)[0]
    report = deeptest_report(run, campaign)
    marked = {each.frame_id for each in report.pairs if each.already_broken}
    assert marked <= {row["frame_id"] for row in already}
    text = render(report)
    assert text.count("the original already breaks it") == len([each for each in report.pairs if each.already_broken])
    assert "Original already breaks it" in text
    assert "in squares)" in text


def test_frames_without_a_label_are_in_no_rate(tmp_path: Path) -> None:
    plain = bar_drive(FRAMES)
    labels = plain.steering_rad.copy() + 0.01
    labels[:5] = np.nan
    drive = drive_from_arrays(plain.read(range(FRAMES)).frames, labels)
    campaign = bar_campaign(BarSubject(), drive=drive, relation="label-mse", tolerance=5.0, transforms=("blur",))
    run = campaign.start(tmp_path / "run")
    campaign.execute(run)
    summary = summarise(run, campaign.blank_tracker(None), campaign.judged)
    mutants = run.records("grid").num_rows
    assert (summary.overall.cases, summary.unjudged) == (mutants * 7 // 12, mutants * 5 // 12)
    assert "could not be judged and count in no rate: the frame has no label" in render(deeptest_report(run, campaign))


def test_a_tolerance_that_hangs_on_an_error_of_nothing_is_warned_of(tmp_path: Path) -> None:
    """The toy is 0.01 rad off, which five times the mean square makes 1.3 degrees; a tenth of that is too strict to mean much."""
    for off_rad, warned in ((0.01, False), (0.001, True)):
        plain = bar_drive(FRAMES)
        drive = drive_from_arrays(plain.read(range(FRAMES)).frames, plain.steering_rad + off_rad)
        campaign = bar_campaign(BarSubject(), drive=drive, relation="label-mse", tolerance=5.0, transforms=("blur",))
        run = campaign.start(tmp_path / f"{warned}")
        campaign.execute(run)
        text = " ".join(deeptest_report(run, campaign).warnings)
        assert ("If it was trained on them" in text) is warned


def test_warnings_stand_before_the_figures_and_are_escaped() -> None:
    text = render(model(warnings=("<b>mind</b> this",)))
    page = PageReader(text)
    assert page.text("ul", class_="warnings") == ["<b>mind</b> this"]
    assert text.index("&lt;b&gt;mind") < text.index('<dl class="headlines">')
    assert not PageReader(render(model())).all("ul", class_="warnings")


def test_both_rates_stand_on_the_page_and_a_tag_beside_its_picture() -> None:
    page = lay_out(model(looked=LOOKED))
    assert page.headlines[-1].label == "rate without false alarms"
    assert page.headlines[-1].value.replace("\N{NO-BREAK SPACE}", " ") == "14.5 %"
    assert "1 false alarm of 30 findings, 26 not looked at" in page.headlines[-1].detail
    rows = {row[0]: row[1:4] for row in page.tables[0].rows}
    assert rows["as the oracle judges"][:2] == ("30", "200")
    assert rows["without those that people call false alarms"][:2] == ("29", "200")
    assert rows["real faults among the decided"][:2] == ("2", "3")
    assert {card.case_id: card.tag for card in page.pictures} == {"worst": "real fault", "mild": "false alarm", "0123456789ab": ""}
    html = PageReader(render(model(looked=LOOKED)))
    assert html.text("span", class_="tag") == ["real fault", "false alarm"]
    assert lay_out(model()).tables[0].key == "rates"


def test_tags_of_a_run_are_read_counted_and_written_as_plain_values(judged) -> None:
    campaign, run = judged
    assert looked_at(run) is None
    assert tags_payload(None) == {}
    found = [row["case_id"] for row in run.findings().to_pylist()]
    Tags.of(run.path).put(found[0], Tag.FALSE_ALARM)
    Tags.of(run.path).put(found[1], Tag.REAL_FAULT)
    told = tags_payload(looked_at(run))["tags"]
    mutants = run.records("grid").num_rows
    assert (told["cases"], told["findings"], told["false_alarms"], told["untagged"]) == (mutants, len(found), 1, len(found) - 2)
    assert told["rate"]["estimate"] == len(found) / mutants
    assert told["rate_without_false_alarms"]["estimate"] == (len(found) - 1) / mutants
    assert "rate without false alarms" in render(deeptest_report(run, campaign))
    for case in found[:2]:
        Tags.of(run.path).put(case, None)


def test_a_rate_table_has_the_column_of_originals_only_where_there_are_such() -> None:
    some = replace(rate("fog", 25, 100), already_broken=4)
    columns = lay_out(model(rates=(some, rate("rain", 1, 100)))).tables[0]
    assert columns.columns[-1] == "Original already breaks it"
    assert [row[-1] for row in columns.rows] == ["4", "0"]
    assert lay_out(model()).tables[0].columns[-1] == "95 % interval"
    assert "the original already breaks it" in render(model(pairs=(pair(already_broken=True),)))


def test_a_weather_from_rendered_pictures_on_photographs_is_warned_of_first() -> None:
    card = load_weather(weather_path("demo-rain"))[0]
    subject = BarSubject()
    foreign = weather_warnings([card], "folder:/drives/photographs?step=10", subject)
    assert foreign[0].startswith("demo-rain was learned from rendered pictures, and this drive is not rendered")
    assert weather_warnings([card], "rendered?frames=12&seed=3", subject) == ()
    two = weather_warnings([card, replace(card, name="snow")], "photographs", subject)
    assert two[0].startswith("demo-rain, snow were learned")
    small = weather_warnings([replace(card, size_px=8)], "rendered", subject)
    assert len(small) == 1
    assert "fewer pixels than the subject sees: demo-rain" in small[0]
