"""Every command once, and the words and exit codes of what goes wrong."""

import json
import re
from pathlib import Path

import numpy as np
import pytest

from skidpad.cli.listing import _LISTS
from skidpad.core.errors import InterruptedRunError

QUICK = ("--transforms", "brightness,rotation", "--search", "grid,greedy", "--seeds", "2", "--max-failed-tries", "2")


def test_test_writes_findings_and_a_report(skidpad, subject: Path, drive_text: str, tmp_path: Path) -> None:
    out = tmp_path / "run"
    done = skidpad("test", subject, drive_text, "--out", out, *QUICK, "--relation", "steers-alike", "--within-deg", "0.01", "--json")
    assert done.code == 0, done.err
    summary = json.loads(done.out)
    assert summary["originals"] == 8
    assert {row["name"] for row in summary["by_stimulus"]} == {"brightness", "rotation", "greedy"}
    assert summary["overall"]["findings"] > 20
    page = (out / "report.html").read_text(encoding="utf-8")
    assert "brightness" in page
    assert page.count("data:image/jpeg") >= 2


def test_replay_reproduces_and_report_and_resume_repeat(skidpad, subject: Path, drive_text: str, tmp_path: Path) -> None:
    out = tmp_path / "run"
    first = skidpad("test", subject, drive_text, "--out", out, *QUICK, "--relation", "steers-alike", "--within-deg", "0.01")
    case = re.search(r"skidpad replay \S+ ([0-9a-f]{12})", first.out)
    assert case is not None
    again = skidpad("replay", out, case[1], "--picture", tmp_path / "pair")
    assert again.code == 0
    said = json.loads(skidpad("replay", out, case[1], "--json").out)
    assert said["replay"] in {"identical", "within bound"}  # the run asked about the frame in a batch
    assert again.out.endswith(f"{said['said']}\npicture: {tmp_path / 'pair.png'}\n")
    assert json.loads(skidpad("replay", out, "worst", "--json").out)["case_id"] == case[1]
    assert (tmp_path / "pair.png").stat().st_size > 1000
    before = sorted(path.name for path in (out / "segments").iterdir())
    assert skidpad("resume", out).code == 0
    assert sorted(path.name for path in (out / "segments").iterdir()) == before
    assert skidpad("report", out, "--out", tmp_path / "page.html").code == 0
    assert (tmp_path / "page.html").exists()


def test_labels_choose_the_relation(skidpad, subject: Path, drive: Path, drive_text: str, tmp_path: Path) -> None:
    labelled = skidpad("test", subject, drive_text, "--out", tmp_path / "a", "--transforms", "blur")
    unlabelled = tmp_path / "frames"
    unlabelled.mkdir()
    for path in drive.glob("*.png"):
        (unlabelled / path.name).write_bytes(path.read_bytes())
    plain = skidpad("test", subject, f"folder:{unlabelled}", "--out", tmp_path / "b", "--transforms", "blur")
    assert (labelled.code, plain.code) == (0, 0)
    assert 'relation = "label-mse"' in (tmp_path / "a/config.toml").read_text()
    assert 'relation = "steers-alike"' in (tmp_path / "b/config.toml").read_text()


def test_inspect_tells_of_subjects_and_drives(skidpad, subject: Path, drive_text: str) -> None:
    network = json.loads(skidpad("inspect", subject, "--json").out)
    assert network["neurons"] == 397
    assert network["layers"]["conv1"] == 24
    recording = json.loads(skidpad("inspect", drive_text, "--json").out)
    assert (recording["count"], recording["readable"], recording["problems"]) == (8, 8, [])
    assert "252219" in skidpad("inspect", subject).out
    assert "no problems" in skidpad("inspect", drive_text).out


def test_degrees_that_are_read_as_radians_are_doubted(skidpad, drive_text: str) -> None:
    odd = skidpad("inspect", drive_text.replace("unit=deg", "unit=rad"))
    assert "labels lie beyond 470 degrees" in odd.out
    assert "no problems" not in odd.out
    assert json.loads(skidpad("inspect", drive_text, "--json").out)["warnings"] == []


def test_every_command_that_reads_labels_doubts_them(skidpad, subject: Path, drive: Path, drive_text: str, tmp_path: Path) -> None:
    odd = drive_text.replace("unit=deg", "unit=rad")
    tested = skidpad("test", subject, odd, "--out", tmp_path / "run", "--transforms", "blur")
    evaluated = skidpad("evaluate", subject, odd)
    trained = skidpad("train", "pilotnet", odd, "--out", tmp_path / "net", "--epochs", "1", "--validation", "0.25")
    for done in (tested, evaluated, trained):
        assert done.code == 0, done.err
        assert "labels lie beyond 470 degrees" in done.err.replace("\n", " ")
    aside = skidpad("test", subject, drive, "--out", tmp_path / "bare", "--transforms", "blur")
    assert "was left aside" in aside.err.replace("\n", " ")


def test_a_wrong_unit_is_doubted_by_whatever_reads_the_drive(skidpad, subject: Path, drive_text: str, tmp_path: Path) -> None:
    wrong = drive_text.replace("unit=deg", "unit=rad")
    doubt = "further than a steering wheel turns"
    words = ("--transforms", "blur", "--out")
    tested = skidpad("test", subject, wrong, *words, tmp_path / "run")
    assert tested.code == 0
    assert tested.err.count(doubt) == 1
    assert "Undecided: " in tested.out
    assert doubt in skidpad("evaluate", subject, wrong).err
    assert doubt in " ".join(json.loads(skidpad("report", tmp_path / "run", "--json").out)["warnings"])
    right = skidpad("test", subject, drive_text, *words, tmp_path / "right")
    assert doubt not in right.err
    assert "Undecided" not in right.out


def test_what_was_stopped_is_no_error(skidpad, monkeypatch: pytest.MonkeyPatch) -> None:
    def stopped() -> None:
        raise InterruptedRunError("stopped: 3 shards are kept")

    monkeypatch.setattr("skidpad.cli.main.app", stopped)
    done = skidpad("test")
    assert (done.code, done.err.strip()) == (130, "stopped: 3 shards are kept")


def test_ids_and_names_are_whole_in_a_narrow_terminal(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    from skidpad.page.terminal import table

    monkeypatch.setenv("COLUMNS", "60")
    heads = ("case", "scenario", "condition", "what happened", "collides at s")
    table("worst [all]", heads, [("89943d2244d0", "curved-003", "brightness(shift=60)", "leaves its lane", 3.25)])
    printed = capsys.readouterr().out
    words = {"worst", "[all]", "89943d2244d0", "curved-003", "brightness(shift=60)", "3.25", "collides"}
    assert words <= set(printed.split())
    table("long", ("name", "what"), [("a", "word " * 30 + "x" * 50)])
    assert max(map(len, capsys.readouterr().out.splitlines())) <= 60, "what can be broken is"


def test_a_broken_frame_is_counted_and_the_run_goes_on(skidpad, subject: Path, drive: Path, tmp_path: Path) -> None:
    copy = tmp_path / "drive"
    copy.mkdir()
    for path in drive.iterdir():
        (copy / path.name).write_bytes(path.read_bytes())
    (copy / "003.png").write_bytes(b"broken")
    text = f"folder:{copy}?csv=angles.csv&id=frame&steering=angle&unit=deg"
    report = json.loads(skidpad("inspect", text, "--json").out)
    assert report["readable"] == 7
    done = skidpad("test", subject, text, "--out", tmp_path / "run", "--transforms", "blur", "--json")
    summary = json.loads(done.out)
    assert (summary["originals"], summary["problems"], summary["overall"]["cases"]) == (7, 1, 70)
    assert summary["frames"] == {"judged": 7, "all": 8, "untested": {"corrupt or truncated picture": 1}}


def test_evaluate_scores_a_network_and_a_csv_of_answers(skidpad, subject: Path, drive: Path, drive_text: str, tmp_path: Path) -> None:
    scored = json.loads(skidpad("evaluate", subject, drive_text, "--json").out)
    assert scored["all"]["judged"] == 8
    rows = (drive / "angles.csv").read_text().splitlines()[1:]
    answers = ["frame_id,steering_angle", *(f"{row.split(',')[0][:-4]},0.0" for row in rows)]
    (tmp_path / "answers.csv").write_text("\n".join(answers) + "\n")
    zero = json.loads(skidpad("evaluate", tmp_path / "answers.csv", drive_text, "--json").out)
    labels_deg = [float(row.split(",")[1]) for row in rows]
    rms_deg = (sum(label**2 for label in labels_deg) / 8) ** 0.5
    assert zero["all"]["rmse_rad"] == pytest.approx(rms_deg * 3.141592653589793 / 180, rel=1e-9)


def test_train_writes_a_subject_that_can_be_tested(skidpad, drive_text: str, tmp_path: Path) -> None:
    done = skidpad("train", "pilotnet", drive_text, "--out", tmp_path / "net", "--epochs", "1", "--validation", "0.25")
    assert done.code == 0, done.err
    assert json.loads(skidpad("inspect", tmp_path / "net.toml", "--json").out)["neurons"] == 397


@pytest.mark.parametrize("what", list(_LISTS))
def test_list_names_what_there_is(skidpad, what: str) -> None:
    rows = json.loads(skidpad("list", what, "--json").out)
    rows = {f"{part} {name}": text for part, some in rows.items() if isinstance(some, dict) for name, text in some.items()} or rows
    assert len(rows) >= 2
    assert "Loads the campaign of a config." not in rows.values()
    assert all(isinstance(text, str) and text for text in rows.values())


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("list", "transfroms"), "did you mean 'transforms'"),
        (("test", "nothing.toml", "rendered?frames=2"), "there is no description"),
        (("inspect", "no/such/folder"), "no folder 'no/such/folder'"),
        (("inspect", "no-such-net.onnx"), "there is no model file 'no-such-net.onnx'"),
        (("report", "no-run"), "no run folder at no-run"),
        (("replay", "no-run", "abc"), "no run folder at no-run"),
        (("train", "pilotnett", "rendered?frames=20", "--out", "x"), "did you mean 'pilotnet'"),
    ],
)
def test_bad_input_is_one_sentence_and_exit_code_2(skidpad, words: tuple[str, ...], message: str) -> None:
    done = skidpad(*words)
    assert done.code == 2
    assert message in done.err.replace("\n", "")
    assert "Traceback" not in done.err


@pytest.mark.parametrize(
    ("extra", "message"),
    [
        (("--transforms", "brightnes"), "no transform named 'brightnes'; did you mean 'brightness'"),
        (("--criteria", "kmnk"), "did you mean 'kmnc'"),
        (("--search", "gready"), "did you mean 'greedy'"),
        (("--relation", "steers-alik"), "did you mean 'steers-alike'"),
        (("--criteria", "nc,kmnc"), "--profile-drive"),
        (("--lambda", "-1"), "above 0"),
        (("--device", "cuda:9"), "cuda:9"),
    ],
)
def test_bad_settings_are_refused_in_clear_words(skidpad, subject: Path, drive_text: str, tmp_path: Path, extra, message: str) -> None:
    done = skidpad("test", subject, drive_text, "--out", tmp_path / "run", *extra)
    assert done.code == 2
    assert message in done.err.replace("\n", "")


def test_a_used_folder_is_refused_and_resume_is_named(skidpad, subject: Path, drive_text: str, tmp_path: Path) -> None:
    assert skidpad("test", subject, drive_text, "--out", tmp_path / "run", "--transforms", "blur").code == 0
    again = skidpad("test", subject, drive_text, "--out", tmp_path / "run", "--transforms", "blur")
    assert again.code == 2
    assert "skidpad resume" in again.err


def test_training_writes_over_nothing_and_keeps_its_checkpoint(
    skidpad, drive_text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "net"
    options = ("train", "pilotnet", drive_text, "--out", out, "--epochs", "3", "--validation", "0.25")
    resumed = skidpad(*options, "--resume")
    assert resumed.code == 2
    assert "no checkpoint" in resumed.err

    from skidpad.subjects.training import fitting

    save = fitting.Fitting.save

    def stop_after_saving(self, *arguments) -> None:
        save(self, *arguments)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(fitting.Fitting, "save", stop_after_saving)
        stopped = skidpad(*options)
    assert stopped.code == 130
    assert "--resume" in stopped.err
    assert "--resume" in skidpad(*options).err
    assert skidpad(*options, "--resume").code == 0
    again = skidpad(*options)
    assert again.code == 2
    assert "writes over no network" in again.err


def test_an_option_of_the_other_relation_is_refused(skidpad, subject: Path, drive_text: str, tmp_path: Path) -> None:
    done = skidpad("test", subject, drive_text, "--out", tmp_path / "run", "--relation", "steers-alike", "--lambda", "3")
    assert done.code == 2
    assert "takes no --lambda" in done.err
    assert not (tmp_path / "run").exists()


def test_a_picture_goes_where_it_can(skidpad, subject: Path, drive_text: str, tmp_path: Path) -> None:
    skidpad("test", subject, drive_text, "--out", tmp_path / "run", "--transforms", "rotation", "--within-deg", "0.001")
    from skidpad.runs.folder import Run

    case = Run.open(tmp_path / "run").findings(limit=1)["case_id"][0].as_py()
    assert skidpad("replay", tmp_path / "run", case, "--picture", tmp_path / "new/folder/pair").code == 0
    assert (tmp_path / "new/folder/pair.png").exists()
    odd = skidpad("replay", tmp_path / "run", case, "--picture", tmp_path / "pair.txt")
    assert odd.code == 2
    assert ".png or .jpg" in odd.err


def test_parameters_are_told_in_the_order_of_the_grid(skidpad, subject: Path, drive_text: str, tmp_path: Path) -> None:
    skidpad("test", subject, drive_text, "--out", tmp_path / "run", "--transforms", "deeptest-fog,shear")
    page = (tmp_path / "run/report.html").read_text(encoding="utf-8").partition("<table")[2]
    for rows in (["density=%g" % (step / 10) for step in range(1, 11)], ["sx=%g" % (step / 10) for step in range(-10, 0)]):
        places = [page.index(row + " ") for row in rows]
        assert places == sorted(places)


def test_nothing_to_score_is_said(skidpad, subject: Path, drive: Path, tmp_path: Path) -> None:
    frames = tmp_path / "frames"
    frames.mkdir()
    for path in drive.glob("*.png"):
        (frames / path.name).write_bytes(path.read_bytes())
    done = skidpad("evaluate", subject, f"folder:{frames}")
    assert done.code == 2
    assert "nothing to score" in done.err


def test_version_and_help(skidpad) -> None:
    assert re.match(r"skidpad \d", skidpad("--version").out)
    assert "crash-tests" in skidpad("--help").out.lower()


def test_a_campaign_file_gives_the_run_of_the_command(skidpad, subject: Path, drive_text: str, tmp_path: Path) -> None:
    assert skidpad("test", subject, drive_text, "--out", tmp_path / "a", "--transforms", "blur").code == 0
    assert skidpad("run", tmp_path / "a/config.toml", "--out", tmp_path / "b").code == 0
    names = [sorted(path.name for path in (tmp_path / run / "segments").iterdir()) for run in "ab"]
    assert names[0] == names[1]
    (tmp_path / "odd.toml").write_text((tmp_path / "a/config.toml").read_text() + "transfroms = []\n")
    odd = skidpad("run", tmp_path / "odd.toml", "--out", tmp_path / "c")
    assert odd.code == 2
    assert "did you mean 'transforms'" in odd.err
    assert skidpad("run", tmp_path / "none.toml").code == 2


def test_evaluate_says_first_what_makes_no_sense(skidpad, drive: Path, drive_text: str, tmp_path: Path) -> None:
    rows = [f"{place:03d},{np.radians(-2118.0 + place)}" for place in range(8)]
    (tmp_path / "answers.csv").write_text("\n".join(["frame_id,steering_angle", *rows]))
    words = ("evaluate", tmp_path / "answers.csv", drive_text)
    done = skidpad(*words)
    assert done.out.startswith("doubt: 8 of 8 answers on unchanged frames lie beyond 470°")
    assert done.out.index("worse than one that always answers the mean label") < done.out.index("correlation")
    assert [doubt["kind"] for doubt in json.loads(skidpad(*words, "--json").out)["doubts"]] == ["implausible", "worse-than-mean"]


def test_coverage_is_divided_as_in_the_papers_and_by_what_is_reachable_beside(
    skidpad, subject: Path, drive_text: str, tmp_path: Path
) -> None:
    words = ("--transforms", "blur", "--criteria", "kmnc,nbc", "--profile-drive", f"{drive_text}&stop=2", "--out", tmp_path / "run")
    done = skidpad("test", subject, drive_text, *words)
    assert done.code == 0, done.err
    told = json.loads(skidpad("report", tmp_path / "run", "--json").out)["coverage"]
    kmnc = next(gain for gain in told if gain["criterion"] == "kmnc" and not gain["stimulus"])
    nc = next(gain for gain in told if gain["criterion"] == "nc" and not gain["stimulus"])
    assert kmnc["total"] == 1000 * nc["total"], "k sections of every neuron"
    assert kmnc["reachable"] < kmnc["total"], "some neurons are dead"
    assert kmnc["share"] == kmnc["together"] / kmnc["total"]
    assert kmnc["share_of_reachable"] == kmnc["together"] / kmnc["reachable"]
    (shown,) = [
        line.replace("│", " ").split() for line in done.out.splitlines() if line.startswith("│ kmnc") and str(kmnc["total"]) in line
    ]
    assert [str(kmnc[name]) for name in ("originals", "together", "total", "reachable")] == [shown[at] for at in (1, 4, 7, 8)]
    assert "deviate from the papers" in done.out
    page = (tmp_path / "run" / "report.html").read_text()
    assert "deviate from the papers" in page
    assert "With mutants, of reachable" in page
