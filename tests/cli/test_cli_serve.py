"""skidpad serve from the command line, for a drive.py and a Donkey client in this process."""

import json

from fake_clients import fake_drive_py, steer

from skidpad.worlds.scenario.files import write_scenario
from skidpad.worlds.scenario.scenario import Scenario


def test_a_drive_py_is_served_reported_gated_and_replayed(skidpad, tmp_path) -> None:
    write_scenario(tmp_path / "road.toml", Scenario(duration_s=3.0, seed=4))
    run = tmp_path / "run"
    with fake_drive_py(lambda *_: [steer(0.2, 1.0)], "3") as client:
        words = ("--as", "udacity", "--port", client.port, "--scenario", tmp_path / "road.toml", "--name", "net 7", "--out", run)
        done = skidpad("serve", *words, "--json")
    assert done.code == 0, done.err
    assert f"Playing the udacity simulator for drive.py at 127.0.0.1:{client.port}; start it" in done.err
    (case,) = json.loads(done.out)["cases"]
    assert (case["scenario"], case["verdict"]) == ("road", "FAIL")
    assert "net 7 failed in 1 of 1 case" in (run / "report.html").read_text()
    assert skidpad("gate", run, "--max-rate", "0.05").code == 1
    again = skidpad("replay", run, "worst")
    assert again.code == 0, again.out
    assert "net 7 was not asked" in again.out
    assert "cannot be made smaller" in skidpad("shrink", run, "worst").err
    assert "cannot be exported" in skidpad("export", run, "worst", "--out", tmp_path / "bundle").err


def test_bad_use_is_refused_in_a_sentence(skidpad) -> None:
    for words, said in (
        (("--as", "udacty"), "did you mean 'udacity'"),
        (("--as", "udacity", "--connect"), "--connect is for Donkey clients"),
        (("--as", "udacity", "--port", 99999), "port"),
    ):
        refused = skidpad("serve", *words)
        assert refused.code == 2
        assert said in refused.err
