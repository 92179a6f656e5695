"""What stands on a report besides its verdict: warnings, originals that break the relation themselves, and what people said."""

import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "kinds"))
from bar_world import BarSubject, bar_campaign, bar_drive
from report_samples import PageReader, model, pair, rate

from skidpad.drives.drive import Problem, ProblemKind
from skidpad.drives.opening import drive_from_arrays
from skidpad.kinds.pictures.judging import Originals
from skidpad.kinds.pictures.page import deeptest_page, showcase, warnings_of
from skidpad.kinds.pictures.summary import Untested, summarise, untested_frames
from skidpad.kinds.pictures.weather.page import weather_warnings
from skidpad.page.model import Page, commands_of, tags_of, tags_payload, with_tags
from skidpad.page.writing import render_page
from skidpad.runs.tags import Tag, TaggedRates, Tags
from skidpad.stimuli.weather.files import load_weather
from skidpad.stimuli.weather.pretrained import weather_path

FRAMES = 12


def looked_at() -> Page:
    """The sample page after people have looked at some of its findings."""
    tags = {"worst": Tag.REAL_FAULT, "mild": Tag.FALSE_ALARM, "elsewhere": Tag.UNCLEAR}
    return with_tags(model(), TaggedRates(200, 30, 2, 1, 1), tags)


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
    report = deeptest_page(campaign, run)
    marked = {each.frame_id for each in report.pictures if each.mark}
    assert marked <= {row["frame_id"] for row in already}
    text = render_page(report)
    assert text.count("the original already breaks it") == len([each for each in report.pictures if each.mark])
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
    report = deeptest_page(campaign, run)
    text = render_page(report)
    assert "could not be judged and count in no rate: the frame has no label" in text
    assert "changed pictures (mutants) of 7 frames" in text
    assert "7 of 12 frames were judged. The others went untested: 5 without a label." in report.warnings
    assert report.context[-1].value.endswith("7 of 12 frames judged")


def test_every_frame_that_went_untested_has_its_reason(judged) -> None:
    """Two frames break, one picture has no row: 10 of 13 are judged; of a slice, what lies outside it is nobody's loss."""
    campaign, run = judged
    originals = Originals.of(run, FRAMES)
    relation = campaign.relation(originals)
    whole = summarise(run, campaign.blank_tracker(None), campaign.judged, relation)
    assert untested_frames(whole, originals, campaign.drive, relation, finished=True) == Untested(FRAMES, FRAMES, ())
    broken = tuple(Problem(ProblemKind.CORRUPT, str(place), "") for place in range(2))
    fewer = replace(whole, problems=broken, frames=FRAMES - 2)
    drive = replace(campaign.drive, problems=(Problem(ProblemKind.UNLISTED, "x", ""),))
    lost = (("corrupt or truncated picture", 2), ("picture without a row in the csv", 1))
    assert untested_frames(fewer, originals, drive, relation, finished=True) == Untested(10, 13, lost)
    sliced = replace(drive, origin="folder:a?csv=b&start=0&stop=12")
    assert untested_frames(fewer, originals, sliced, relation, finished=True) == Untested(10, 12, lost[:1])
    for finished, why in ((True, "not drawn by the search"), (False, "not reached yet")):
        part = untested_frames(replace(whole, frames=4), originals, campaign.drive, relation, finished=finished)
        assert part == Untested(4, 12, ((why, 8),))
        assert not part.is_damage
    apart = untested_frames(replace(whole, frames=4, frames_apart=5), originals, campaign.drive, relation, finished=True)
    assert apart == Untested(4, 12, (("with all pictures set apart by the referee", 5), ("not drawn by the search", 3)))
    assert not apart.is_damage


def test_the_stimuli_take_turns_with_their_worst_findings(judged) -> None:
    _, run = judged
    rows = [row for row in run.records("grid").to_pylist() if row["violated"]]
    worst = sorted((max(row["excess"] for row in rows if row["stimulus"] == name) for name in ("brightness", "contrast")), reverse=True)
    for pairs in (2, 6):
        shown = showcase(run, pairs)
        assert [each.excess for each in shown[:2]] == worst, "the worst of each stimulus comes first, whichever frame it is on"
        assert len({each.recipe.name for each in shown[:2]}) == 2
        assert len({(each.recipe.name, each.frame_id) for each in shown}) == len(shown), "a stimulus shows no frame twice"


def test_the_command_that_makes_a_run_again_names_another_folder(judged) -> None:
    _, run = judged
    for given, made in ((("--out", "runs/a/"), "--out runs/a-again"), (("--out=b",), "--out=b-again"), ((), "")):
        again = replace(run.manifest, command=("skidpad", "test", "x", *given))
        assert commands_of(SimpleNamespace(place=run.place, manifest=again, is_finished=True))[0] == f"skidpad test x {made}".strip()


def test_a_tolerance_that_hangs_on_an_error_of_nothing_is_warned_of(tmp_path: Path) -> None:
    """The toy is 0.01 rad off, which five times the mean square makes 1.3 degrees; a tenth of that is too strict to mean much."""
    for off_rad, warned in ((0.01, False), (0.001, True)):
        plain = bar_drive(FRAMES)
        drive = drive_from_arrays(plain.read(range(FRAMES)).frames, plain.steering_rad + off_rad)
        campaign = bar_campaign(BarSubject(), drive=drive, relation="label-mse", tolerance=5.0, transforms=("blur",))
        run = campaign.start(tmp_path / f"{warned}")
        campaign.execute(run)
        text = " ".join(deeptest_page(campaign, run).warnings)
        assert ("If it was trained on them" in text) is warned


def test_warnings_stand_before_the_figures_and_are_escaped() -> None:
    text = render_page(model(warnings=("<b>mind</b> this",)))
    page = PageReader(text)
    assert page.text("ul", class_="warnings") == ["<b>mind</b> this"]
    assert text.index("&lt;b&gt;mind") < text.index('<dl class="headlines">')
    assert not PageReader(render_page(model())).all("ul", class_="warnings")


def test_both_rates_stand_on_the_page_and_a_tag_beside_its_picture() -> None:
    page = looked_at()
    assert page.headlines[-1].label == "rate without false alarms"
    assert page.headlines[-1].value.replace("\N{NO-BREAK SPACE}", " ") == "14.5 %"
    assert "1 false alarm of 30 findings, 26 not looked at" in page.headlines[-1].detail
    rows = {row[0]: row[1:4] for row in page.tables[0].rows}
    assert rows["as the oracle judges"][:2] == ("30", "200")
    assert rows["without those that people call false alarms"][:2] == ("29", "200")
    assert rows["real faults among the decided"][:2] == ("2", "3")
    assert {card.case_id: card.tag for card in page.pictures} == {"worst": "real fault", "mild": "false alarm", "0123456789ab": ""}
    html = PageReader(render_page(looked_at()))
    assert html.text("span", class_="tag") == ["real fault", "false alarm"]
    assert model().tables[0].key == "rates"


def test_tags_of_a_run_are_read_counted_and_written_as_plain_values(judged) -> None:
    campaign, run = judged
    assert tags_of(run) is None
    assert tags_payload(None) == {}
    found = [row["case_id"] for row in run.findings().to_pylist()]
    Tags.of(run.path).put(found[0], Tag.FALSE_ALARM)
    Tags.of(run.path).put(found[1], Tag.REAL_FAULT)
    told = tags_payload(tags_of(run))["tags"]
    mutants = run.records("grid").num_rows
    assert (told["cases"], told["findings"], told["false_alarms"], told["untagged"]) == (mutants, len(found), 1, len(found) - 2)
    assert told["rate"]["estimate"] == len(found) / mutants
    assert told["rate_without_false_alarms"]["estimate"] == (len(found) - 1) / mutants
    assert "rate without false alarms" in render_page(deeptest_page(campaign, run))
    for case in found[:2]:
        Tags.of(run.path).put(case, None)


def test_a_rate_table_has_the_column_of_originals_only_where_there_are_such() -> None:
    some = replace(rate("fog", 25, 100), already_broken=4)
    columns = model(rates=(some, rate("rain", 1, 100))).tables[0]
    assert columns.columns[-1] == "Original already breaks it"
    assert [row[-1] for row in columns.rows] == ["4", "0"]
    assert model().tables[0].columns[-1] == "95 % interval"
    assert "the original already breaks it" in render_page(model(pairs=(pair(already_broken=True),)))


def test_a_weather_from_rendered_pictures_on_photographs_is_warned_of_first() -> None:
    card = replace(load_weather(weather_path("rain"))[0], rendered=True, detail=0.0)
    subject = BarSubject()
    foreign = weather_warnings([card], "folder:/drives/photographs?step=10", subject)
    assert foreign[0].startswith("rain was learned from rendered pictures, and this drive is not rendered")
    assert weather_warnings([card], "rendered?frames=12&seed=3", subject) == ()
    lost = weather_warnings([replace(card, road_lost=0.6)], "rendered", subject)
    assert len(lost) == 1
    assert "found the road lost in 60.0\N{NO-BREAK SPACE}% of the sampled pictures. Do not test under it" in lost[0]
    assert weather_warnings([replace(card, road_lost=0.2)], "rendered", subject) == ()
    two = weather_warnings([card, replace(card, name="snow")], "photographs", subject)
    assert two[0].startswith("rain, snow were learned")
    small = weather_warnings([replace(card, size_px=8)], "rendered", subject)
    assert len(small) == 1
    assert "fewer pixels than the subject sees: rain" in small[0]
    assert weather_warnings([replace(card, size_px=8, detail=1.0)], "rendered", subject) == ()
