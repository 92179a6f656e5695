"""Learning a weather, testing under it and ranking, as commands."""

import json
import os
import re
import signal
import sys
import tomllib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from hashlib import sha256
from html import unescape
from pathlib import Path

import cv2
import numpy as np
import pytest

from skidpad.cli import weather_training
from skidpad.cli.main import main
from skidpad.core.images import encode
from skidpad.runs.folder import Run
from skidpad.stimuli.weather.files import load_weather, save_weather
from skidpad.stimuli.weather.gauge import RoadRow
from skidpad.stimuli.weather.pretrained import classifier_path
from skidpad.stimuli.weather.training import Training
from skidpad.worlds.render.weather_sets import MARK

SMALL = ("--preset", "small", "--size", 32, "--batch-size", 1, "--steps", 3)


def pictures(folder: Path, brightness: int, count: int = 8, colour: float = 20.0) -> Path:
    folder.mkdir()
    rng = np.random.default_rng(brightness)
    for number in range(count):
        grey = rng.normal(brightness, 30.0, (40, 48, 1)) + np.array([colour, 0.0, -colour])
        (folder / f"{number}.png").write_bytes(encode(cv2.GaussianBlur(np.clip(grey, 0, 255).astype(np.uint8), (9, 9), 0)))
    return folder


@pytest.fixture(scope="session")
def sets(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    root = tmp_path_factory.mktemp("sets")
    return pictures(root / "day", 170), pictures(root / "night", 50)


@pytest.fixture(scope="session")
def learned(sets: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("learned") / "night"
    words = ("skidpad", "weather", "train", "--from", sets[0], "--to", sets[1], "--out", out, *SMALL)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", list(map(str, words)))
        patch.setattr(weather_training, "_road_row", lambda training: RoadRow(training.step, (0.95,)))
        with pytest.raises(SystemExit) as ended:
            main()
    assert not ended.value.code
    return out


@pytest.fixture
def night(learned: Path, tmp_path: Path) -> Path:
    for file in learned.parent.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    return tmp_path / "night"


def test_a_weather_is_learned_tested_under_and_ranked(
    skidpad: Callable, night: Path, subject: Path, drive_text: str, sets: tuple[Path, Path], tmp_path: Path
) -> None:
    page = night.with_suffix(".html").read_text()
    assert "As training went on" in page
    assert "Styles of one weather" in page
    assert "Learned: night, from 8 pictures of it and 8 without it." in page
    again = skidpad("weather", "train", "--from", sets[0], "--to", sets[1], "--out", night, *SMALL)
    assert again.code == 2
    assert "writes over no weather" in again.err

    run = tmp_path / "run"
    tested = skidpad(
        "weather", "test", subject, drive_text, "--weather", night, "--thresholds", "0.01,5,40", "--styles", 2, "--out", run, "--json"
    )
    figures = json.loads(tested.out)
    assert figures["thresholds_deg"] == [0.01, 5.0, 40.0]
    (row,) = figures["by_weather"]
    assert (row["weather"], row["cases"], len(figures["by_style"])) == ("night", 16, 2)
    counts = [bound["inconsistent"] for bound in row["counts"]]
    assert counts == sorted(counts, reverse=True)
    assert counts[0] > 0
    assert "What the subject is shown" in (run / "report.html").read_text()

    resumed = skidpad("resume", run)
    assert "MUNIT weathers are under 2 styles drawn from N(0, 1), seed 0" in resumed.out
    worst = resumed.out.split(f"skidpad replay {run} ")[1].split()[0]
    replayed = skidpad("replay", run, worst, "--picture", tmp_path / "pair.png")
    assert replayed.code == 0
    assert "reproduced" in replayed.out
    assert (tmp_path / "pair.png").exists()

    ranking = json.loads(skidpad("weather", "rank", run, "--json").out)["ranking"]
    assert [(each["subject"], each["rank"]) for each in ranking] == [("small", None)]
    shown = skidpad("weather", "rank", run).out
    assert "subjects by robustness" in shown
    assert "not ranked: small answers the same on every frame" in shown  # untrained, it hardly answers
    twice = skidpad("weather", "rank", run, run)
    assert (twice.code, "are of one subject" in twice.err) == (2, True)
    nowhere = skidpad("weather", "rank", tmp_path / "nowhere")
    assert "`skidpad weather test SUBJECT DRIVE --weather FILE --out" in nowhere.err


def test_a_replication_of_deeproad_grows(skidpad: Callable, night: Path, subject: Path, drive_text: str, tmp_path: Path) -> None:
    out = tmp_path / "rep"
    rain = night.with_name("rain")
    for suffix in (".toml", ".safetensors"):
        rain.with_suffix(suffix).write_bytes(night.with_suffix(suffix).read_bytes())
    words = ("replicate", "deeproad", subject, "--drive", drive_text, "--frames", 4, "--out", out)
    first = json.loads(skidpad(*words, "--weather", night, "--json").out)
    assert [(cell["weather"], cell["cases"]) for cell in first["cells"]] == [("night", 4)]
    shown = skidpad(*words, "--weather", rain)
    assert "rainy, 10 degrees: inconsistent behaviours" in shown.out
    both = json.loads((out / "deeproad.json").read_text())
    assert {cell["weather"] for cell in both["cells"]} == {"night", "rain"}
    # the two files hold one weather
    assert both["cells"][0]["inconsistent"] == both["cells"][1]["inconsistent"]
    assert "| rainy | Autumn | 5,279 | 5,279 | 5,279 | 5,279 |" in (out / "deeproad.md").read_text()
    other = skidpad(*words, "--weather", night, "--thresholds", "3")
    assert (other.code, "was measured with another list of --thresholds; choose another --out" in other.err) == (2, True)
    fewer = skidpad(*words, "--weather", night, "--frames", 2)
    assert (fewer.code, "was measured with another drive, or other --frames of it;" in fewer.err) == (2, True)
    less = skidpad(*words, "--weather", night, "--frames", -5)
    assert (less.code, "--frames is a number of frames, 0 for all; got -5" in less.err) == (2, True)


def test_a_rendered_weather_on_another_drive_is_warned_of_wherever_figures_stand(
    skidpad: Callable, night: Path, subject: Path, drive_text: str, tmp_path: Path
) -> None:
    """`weather test` and `replicate deeproad` in the same words; those of cells that an earlier call measured as well."""
    card, weights = load_weather(night)
    save_weather(tmp_path / "painted-rain", replace(card, name="painted-rain", rendered=True), weights)
    warning = "painted-rain was learned from rendered pictures, and this drive is not rendered"
    tested = skidpad("weather", "test", subject, drive_text, "--weather", tmp_path / "painted-rain", "--out", tmp_path / "run")
    assert f"warning: {warning}" in tested.out
    assert "MUNIT weathers are under the mean style of rendered pictures" in tested.out
    words = (
        "replicate",
        "deeproad",
        subject,
        "--drive",
        drive_text,
        "--weather",
        tmp_path / "painted-rain",
        "--frames",
        2,
        "--out",
        tmp_path / "rep",
    )
    for _ in range(2):
        shown = skidpad(*words)
        assert shown.out.count(f"warning: {warning}") == 1
        assert f"- warning: {warning}" in (tmp_path / "rep" / "deeproad.md").read_text()
        assert "painted-rain (rendered); the paper's frames are not told" in (tmp_path / "rep" / "deeproad.md").read_text()


@contextmanager
def interrupted_after_a_step(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Presses Ctrl-C in the second step of a training."""
    advance = Training._advance

    def interrupted(self: Training) -> None:
        advance(self)
        if self.step == 1:
            os.kill(os.getpid(), signal.SIGINT)

    with monkeypatch.context() as patched:
        patched.setattr(Training, "_advance", interrupted)
        yield


def test_ctrl_c_keeps_what_was_learned(
    skidpad: Callable, sets: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, night: Path
) -> None:
    words = ("weather", "train", "--from", sets[0], "--to", sets[1], "--out", tmp_path / "dark", *SMALL, "--detail", 0.5)
    before = signal.getsignal(signal.SIGINT)
    monkeypatch.setattr(weather_training, "_road_row", lambda training: RoadRow(training.step, (0.95,)))
    with interrupted_after_a_step(monkeypatch):
        stopped = skidpad(*words)
    assert stopped.code == 130
    assert "go on with the same command: skidpad weather train --from" in stopped.err
    assert not (tmp_path / "dark.toml").exists()
    resumed = skidpad(*words)
    assert f"going on from {tmp_path / 'dark.checkpoint.pt'}, step 2 of 3" in resumed.err.replace("\n", "")
    assert "step 3 of 3: image" in resumed.err  # a log file has no bar
    assert (tmp_path / "dark.safetensors").read_bytes() == night.with_suffix(".safetensors").read_bytes(), (
        "detail takes no part in learning"
    )
    assert [tomllib.loads(file.read_text())["detail"] for file in (tmp_path / "dark.toml", night.with_suffix(".toml"))] == [0.5, 1.0]
    assert signal.getsignal(signal.SIGINT) is before
    told = sha256((tmp_path / "dark.toml").read_bytes()).hexdigest()
    assert f"skidpad weather fetch URL/dark.toml --sha256 {told}" in resumed.out
    assert load_weather(tmp_path / "dark")[0].road_lost == 0.0


def test_conditions_are_drawn_on_top_of_what_was_learned(
    skidpad: Callable, sets: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, night: Path
) -> None:
    """The training does not see them, so that the same command with another --drawn goes on."""
    words = ("weather", "train", "--from", sets[0], "--to", sets[1], "--out", tmp_path / "wet", *SMALL, "--drawn")
    monkeypatch.setattr(weather_training, "_road_row", lambda training: RoadRow(training.step, (0.95,)))
    with interrupted_after_a_step(monkeypatch):
        assert skidpad(*words, "wet-road(wetness=1)").code == 130
    text = "rain(mm_per_h=8)+lens-drops(share=0.08)"
    ended = skidpad(*words, " rain( mm_per_h=8 ) + lens-drops(share=0.08)")
    assert ended.code == 0, ended.err
    assert "going on from" in ended.err
    assert (tmp_path / "wet.safetensors").read_bytes() == night.with_suffix(".safetensors").read_bytes()
    card = load_weather(tmp_path / "wet")[0]
    assert card.drawn == text
    assert "drawn" not in night.with_suffix(".toml").read_text()
    page = unescape((tmp_path / "wet.html").read_text())
    assert (
        f"Wherever the weather is used, {text} is drawn on top of its pictures. The scenes and the figures on this page are without" in page
    )
    assert "drawn on top" not in unescape(night.with_suffix(".html").read_text())
    toml = tmp_path / "wet.toml"
    fetch = ("weather", "fetch", toml.as_uri(), "--sha256", sha256(toml.read_bytes()).hexdigest(), "--out", tmp_path / "fetched")
    assert f"3 steps, with {text} drawn on top; SHA-256 as it should be" in " ".join(skidpad(*fetch).out.split())
    assert json.loads(skidpad(*fetch, "--json").out)["drawn"] == text


def test_a_test_under_a_weather_says_what_is_drawn_on_its_pictures(
    skidpad: Callable, night: Path, subject: Path, drive_text: str, tmp_path: Path
) -> None:
    card, weights = load_weather(night)
    save_weather(tmp_path / "wet", replace(card, name="wet", drawn="lens-drops(share=0.3)"), weights)
    words = ("weather", "test", subject, drive_text, "--weather", night, "--weather", tmp_path / "wet", "--thresholds", 0.001)
    tested = skidpad(*words, "--out", tmp_path / "run")
    assert tested.code == 0, tested.err
    assert "Drawn on top of the pictures of wet: lens-drops(share=0.3)." in tested.out
    assert "of night:" not in tested.out
    page = unescape((tmp_path / "run" / "report.html").read_text())
    assert f"{card.learned_from}, with lens-drops(share=0.3) drawn on top" in page
    found = Run.open(tmp_path / "run").findings().to_pylist()
    wet = next(row["case_id"] for row in found if '"wet"' in row["recipe"])
    replayed = skidpad("replay", tmp_path / "run", wet)
    assert (replayed.code, "reproduced" in replayed.out) == (0, True), replayed.out


def test_the_road_chart_keeps_its_points_after_a_resume(
    skidpad: Callable, sets: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ("weather", "train", "--from", sets[0], "--to", sets[1], "--out", tmp_path / "dark", *SMALL)
    monkeypatch.setattr(weather_training, "_road_row", lambda training: RoadRow(training.step, (0.95, 0.9 - 0.1 * training.step)))
    with interrupted_after_a_step(monkeypatch):
        assert skidpad(*words).code == 130
    ended = skidpad(*words)
    assert ended.code == 0
    said = "the road is lost in 1 of 2 pictures: do not test under this weather"
    assert said in ended.err.replace("\n", " ")
    assert "weather fetch" not in ended.out, "nobody should share it"
    assert load_weather(tmp_path / "dark")[0].road_lost == 0.5
    card = tmp_path / "dark.toml"
    fetch = ("weather", "fetch", card.as_uri(), "--sha256", sha256(card.read_bytes()).hexdigest(), "--out", tmp_path / "fetched")
    fetched = skidpad(*fetch)
    assert (fetched.code, "Do not test under it" in fetched.err, "test under it" in fetched.out) == (0, True, False)
    told = json.loads(skidpad(*fetch, "--json").out)
    assert (told["road_lost"], len(told["warnings"])) == (0.5, 1)
    chart = (tmp_path / "dark.html").read_text().partition("Is the road where it was?")[2].partition("</svg>")[0]
    lines = {found[2]: found[1].split() for found in re.finditer(r'points="([^"]*)"[^>]*><title>([^<]*)</title>', chart)}
    assert {name: len(points) for name, points in lines.items()} == {"mean": 3, "worst picture": 3, "lost below this": 3}
    limit = {point.partition(",")[2] for point in lines["lost below this"]}
    assert limit == {lines["worst picture"][0].partition(",")[2]}, "after the first step the worst picture lies at 0.8"


def test_bad_pictures_and_settings_end_in_clear_words(skidpad: Callable, sets: tuple[Path, Path], tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    one = pictures(tmp_path / "one", 90, count=1)
    grey = pictures(tmp_path / "grey", 90, colour=0.0)
    for given, message in (
        (("--to", tmp_path / "empty"), "is empty"),
        (("--to", one), "has 1 readable pictures (0 broken); a weather needs at least 8"),
        (("--to", grey), "are grey; a weather is learned from colour pictures"),
        (("--to", tmp_path / "nowhere"), "no folder"),
        (("--to", sets[0]), "hold the same pictures"),
        (("--to", sets[1], "--crop", 48), "crop_px must be at least 32 and at most size_px"),
        (("--to", sets[1], "--size", 0), "--size is a number of pixels; got 0"),
        (("--to", sets[1], "--method", "munich"), "did you mean 'munit'"),
        (("--to", sets[1], "--preset", "smal"), "did you mean 'small'"),
        (("--to", sets[1], "--steps", 0), "steps must be at least 1"),
        (("--to", sets[1], "--styles-of", tmp_path / "nowhere"), "no folder"),
        (("--to", sets[1], "--styles-of", sets[1], "--method", "unit"), "a weather by UNIT has one look and no styles"),
        (("--to", sets[1], "--detail", 2), "detail must be at least 0 and at most 1"),
        (("--to", sets[1], "--drawn", "rian(mm_per_h=5)"), "no condition named 'rian'; did you mean 'rain'?"),
        (("--to", sets[1], "--drawn", "rain"), "give its parameters, as rain(mm_per_h="),
        (("--to", sets[1], "--drawn", "os:system"), "code that is not skidpad's cannot be drawn"),
        (("--to", tmp_path / "nowhere", "--drawn", "late-frames(latency_ms=100)"), "'late-frames' shows earlier frames"),
        (("--to", sets[1], "--device", "cuba"), "no device named 'cuba'"),
        (("--to", sets[1], "--seed", -1), "seed must be at least 0; got -1"),
        (("--to", sets[1], "--limit", 4), "a weather needs at least 8 pictures of each set, better a thousand; got --limit 4"),
        (("--to", sets[1], "--limit", -1), "got --limit -1"),
    ):
        ended = skidpad("weather", "train", "--from", sets[0], "--out", tmp_path / "w", *SMALL, *given)
        assert (ended.code, message in ended.err) == (2, True), (given, ended.err)
    assert not list(tmp_path.glob("w.*"))


def test_bad_weathers_end_in_clear_words(skidpad: Callable, subject: Path, drive_text: str, tmp_path: Path) -> None:
    for words, message in (
        (("--weather", tmp_path / "fog"), "there is no weather"),
        (("--weather", tmp_path / "fog", "--thresholds", "ten"), "thresholds are degrees, as 10,20,30,40; got 'ten'"),
        (("--weather", tmp_path / "fog", "--thresholds", "-1"), "thresholds_deg.1 must be above 0; got -1.0"),
        (("--weather", tmp_path / "fog", "--thresholds", "20,10"), "ascending and each once, as 10,20,30,40; got 20, 10"),
        (("--weather", tmp_path / "fog", "--styles", "-1"), "styles must be at least 1; got -1"),
        (("--weather", tmp_path / "fog", "--style", "men"), "did you mean 'mean'"),
    ):
        ended = skidpad("weather", "test", subject, drive_text, *words, "--out", tmp_path / "run")
        assert (ended.code, message in ended.err) == (2, True), ended.err
    assert not (tmp_path / "run").exists()


def test_a_weather_is_published_and_fetched(skidpad: Callable, learned: Path, tmp_path: Path) -> None:
    card = learned.with_name(f"{learned.name}.toml")
    wanted = sha256(card.read_bytes()).hexdigest()
    words = ("weather", "fetch", card.as_uri(), "--sha256", wanted, "--out", tmp_path / "fetched")
    done = skidpad(*words)
    assert done.code == 0, done.err
    assert "SHA-256 as it should be" in done.out
    assert f"skidpad weather test SUBJECT DRIVE --weather {tmp_path / 'fetched' / learned.name}" in done.out
    again = json.loads(skidpad(*words, "--json").out)
    assert (again["downloaded"], again["sha256"], again["weather"]) == (False, wanted, str(tmp_path / "fetched" / learned.name))
    assert [Path(file).read_bytes() for file in again["files"]] == [
        learned.with_name(learned.name + suffix).read_bytes() for suffix in (".toml", ".safetensors")
    ]
    refused = skidpad("weather", "fetch", card.as_uri(), "--sha256", "0" * 64, "--out", tmp_path / "other")
    assert refused.code == 2
    assert f"Its SHA-256 is {wanted}, and should be {'0' * 64}" in refused.err
    assert not (tmp_path / "other").exists()


def test_the_page_of_a_training_says_how_real_the_weather_looks(skidpad: Callable, tmp_path: Path) -> None:
    day, night = (pictures(tmp_path / name, level, count=20) for name, level in (("day", 170), ("night", 50)))
    words = ("weather", "train", "--from", day, "--to", night, *SMALL, "--classifier", f"{classifier_path('demo-classifier')}=rain")
    done = skidpad(*words, "--out", tmp_path / "night-x", "--json")
    assert done.code == 0, done.err
    realism = json.loads(done.out)["realism"]
    assert [point["step"] for point in realism["steps"]] == [1, 2, 3]
    assert (realism["pictures"], realism["label"], realism["untranslated"]["told"]) == (8, "rain", 1.0)
    page = unescape((tmp_path / "night-x.html").read_text())
    for said in (
        "told from its pictures",
        "The weather's pictures from each other: ",
        "Can they be told from the weather's pictures?",
        "Nearer to the weather's pictures",
        "In the class",
    ):
        assert said in page
    few = skidpad(*words[:4], "--to", pictures(tmp_path / "few", 60, count=8), *SMALL, "--out", tmp_path / "few-x")
    assert few.code == 0, few.err
    assert "Can they be told from the weather's pictures?" not in unescape((tmp_path / "few-x.html").read_text())


def test_rendered_pictures_are_never_called_real(skidpad: Callable, tmp_path: Path) -> None:
    day, night = (pictures(tmp_path / name, level, count=16) for name, level in (("day", 170), ("night", 50)))
    (night / MARK).write_text("")
    done = skidpad("weather", "train", "--from", day, "--to", night, *SMALL, "--out", tmp_path / "dark")
    page = unescape((tmp_path / "dark.html").read_text())
    assert "16 without the weather, 16 rendered ones in it" in done.out
    assert "what dark was learned from: rendered, of other scenes" in page
    assert not re.search(r"\breal\b", re.sub("<style.*?</style>|<script.*?</script>", "", page, flags=re.DOTALL))
    assert not re.search(r"\breal\b", done.out)
