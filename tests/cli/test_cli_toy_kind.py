"""A kind of campaign from outside skidpad has every command: it is one module, registered by one line, found by an entry point."""

import json
import sys
from collections.abc import Iterator
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from skidpad.kinds.bundles import judge_bundle
from skidpad.kinds.exhibits import exhibit_of
from skidpad.kinds.kind import KINDS, load_campaign
from skidpad.runs.folder import Run


@pytest.fixture
def campaign(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Writes a campaign of the kind, whose package is installed as far as the registry can tell."""
    KINDS.names()
    monkeypatch.setattr(KINDS, "_rows", dict(KINDS._rows))
    monkeypatch.setattr(KINDS, "_loaded", False)
    monkeypatch.syspath_prepend(str(Path(__file__).parents[1] / "kinds"))
    point = EntryPoint("numbers", "toy_kind", "skidpad.campaigns")
    monkeypatch.setattr("importlib.metadata.entry_points", lambda group: [point] if group == point.group else [])
    path = tmp_path / "numbers.toml"
    path.write_text('campaign = "numbers"\ncount = 10\nlimit = 6\n')
    yield path
    sys.modules.pop("toy_kind", None)


def test_a_kind_from_outside_has_every_command(skidpad, campaign: Path, tmp_path: Path) -> None:
    assert "Judges numbers by a limit." in skidpad("list", "campaigns").out
    run = tmp_path / "run"
    done = skidpad("run", campaign, "--out", run)
    assert done.code == 0, done.err
    assert done.out.splitlines()[:3] == ["3 numbers are beyond 6.", "findings: 3", "Numbers are counted from 0."]
    assert f"worst finding: skidpad replay {run} 000000000009" in done.out
    assert f"  skidpad report {run}" in done.out.splitlines(), "the page's commands"
    assert "3 numbers are beyond 6." in (run / "report.html").read_text()
    assert skidpad("report", run, "--out", tmp_path / "page.md").code == skidpad("report", run, "--out", tmp_path / "page.json").code == 0
    assert (tmp_path / "page.md").read_text().startswith("# Numbers\n\n**3 numbers are beyond 6.**\n")
    assert json.loads((tmp_path / "page.json").read_text())["headlines"][0]["value"] == "3"
    told = json.loads(skidpad("report", run, "--json").out)
    assert (told["findings"], told["limit"], told["evidence"]) == (3, 6, "unchanged")

    again = skidpad("replay", run, "worst", "--picture", tmp_path / "nine.txt")
    assert (again.code, (tmp_path / "nine.txt").read_text()) == (0, "9")
    assert json.loads(skidpad("replay", run, "worst", "--json").out)["number"] == 9

    small = json.loads(skidpad("shrink", run, "worst", "--json").out)
    assert small["changes"] == [{"name": "number", "before": "9", "after": "7"}]
    bundle = tmp_path / "bundle"
    assert skidpad("export", run, "worst", "--smallest", "--out", bundle).code == 0
    assert [judge_bundle(bundle, limit).holds for limit in ("6", "7")] == [False, True]

    assert skidpad("gate", run, "--max-rate", "0.5").code == 0
    assert skidpad("gate", run, "--max-rate", "0.1").code == 1
    exhibit = exhibit_of(Run.open(run).config)
    assert (exhibit.rule.tolerance, exhibit.title({"number": 9})) == ("at most 6", "the number 9")


def test_a_kind_from_outside_goes_on_where_it_stopped(skidpad, campaign: Path, tmp_path: Path) -> None:
    from toy_kind import Numbers

    stopped = Numbers(10, 6, fails_at=2)
    run = stopped.start(tmp_path / "run")
    with pytest.raises(BaseException, match="stopped"):
        stopped.execute(run)
    whole = load_campaign(run.config, "here")
    assert skidpad("resume", run.path).code == 0
    assert Run.open(run.path).findings().num_rows == 3
    assert 0 < len(stopped.judged) < 10
    other = Numbers(10, 5)
    refused = Run.open(run.path)
    with pytest.raises(Exception, match="the subject has changed since"):
        other.execute(refused)
    assert whole.hashes == {"subject": "at most 6"}


def test_what_is_wrong_with_a_campaign_file_names_the_file(skidpad, tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    for text, said in (('campaign = "online"\nsubject = "x"\nscenarios = "ten"\n', "scenarios"), ('campaign = "tset"\n', "tset")):
        path.write_text(text)
        refused = skidpad("run", path, "--out", tmp_path / "run")
        assert refused.code == 2
        assert f"{path}: " in refused.err.replace("\n", "")
        assert refused.err.count(str(path)) == 1
        assert said in refused.err
