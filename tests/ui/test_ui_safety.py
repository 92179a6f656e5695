"""Who may ask, and what an answer may do: host, origin, policy, size."""

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from ui_runs import ADDRESS, MARKUP, ODD_SCHEMA, Server, make_picture_run, manifest, serve

from skidpad.core.errors import BadRunError
from skidpad.kinds.pictures.exhibit import PairExhibit
from skidpad.runs.folder import Run
from skidpad.runs.records import ShardResult
from skidpad.runs.tags import Tags
from skidpad.ui.app import MAX_BODY_BYTES, POLICY
from skidpad.ui.run_pages import FOREIGN_POLICY


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    root = tmp_path_factory.mktemp("runs")
    make_picture_run(root / "run", rows=8)
    with serve(root) as server:
        yield server


@pytest.fixture
def tag(server: Server) -> str:
    key = server.key("run")
    return f"/runs/{key}/cases/{server.failing(key)[0]}/tag"


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example:8321", "evil.example:8321", "[::1]:8321", "0.0.0.0:8321", ""])
def test_a_name_that_only_resolves_to_this_machine_is_refused(server: Server, host: str) -> None:
    answer = server.get("/", headers={"host": host})
    assert answer.status_code == 421
    assert "run" not in answer.text.replace("running", "")


@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.1:9", "localhost:8321", "LOCALHOST"])
def test_this_machine_is_answered(server: Server, host: str) -> None:
    assert server.get("/", headers={"host": host}).status_code == 200


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"origin": "null"},
        {"origin": "http://evil.example"},
        {"origin": "https://127.0.0.1:8321"},
        {"origin": "http://127.0.0.1:9999"},
        {"origin": "http://localhost:8321"},
        {"origin": ADDRESS, "sec-fetch-site": "cross-site"},
        {"origin": ADDRESS, "sec-fetch-site": "same-site"},
        {"referer": f"{ADDRESS}/"},
    ],
)
def test_no_other_page_may_change_anything(server: Server, tag: str, headers: dict[str, str]) -> None:
    answer = server.ask("POST", tag, content="tag=unclear", headers=headers)
    assert answer.status_code == 403
    assert not Tags.of(server.root / "run").current()


def test_this_page_may(server: Server, tag: str, tmp_path: Path) -> None:
    assert server.post(tag, content="tag=unclear", headers={"sec-fetch-site": "same-origin"}).status_code == 303
    assert server.post(tag, content="tag=", headers={"x-skidpad": "script"}).status_code == 204
    assert not Tags.of(server.root / "run").current()


def test_after_a_tag_one_stays_on_this_page_whatever_the_form_says(server: Server, tag: str) -> None:
    answer = server.post(tag, content="tag=&back=//evil.example%0d%0aset-cookie:x")
    assert answer.headers["location"].startswith("/runs/")
    assert "set-cookie" not in answer.headers


@pytest.mark.parametrize("method", ["PUT", "DELETE", "PATCH", "OPTIONS"])
def test_other_methods_do_nothing(server: Server, method: str) -> None:
    assert server.ask(method, "/", headers={"origin": ADDRESS, "content-length": "0"}).status_code == 405


def test_a_large_body_is_refused(server: Server, tag: str) -> None:
    assert server.post(tag, content=b"x" * (MAX_BODY_BYTES + 1)).status_code == 413


def test_a_body_of_unknown_size_is_refused(server: Server, tag: str) -> None:
    async def pieces() -> object:
        yield b"tag=unclear"

    assert server.post(tag, content=pieces()).status_code == 413


@pytest.mark.parametrize("address", ["/", "/nowhere", "/static/page.js", "/static/report.css", "/study", "/compare", "/runs/none"])
def test_every_answer_forbids_what_comes_from_outside(server: Server, address: str) -> None:
    answer = server.get(address)
    assert answer.headers["content-security-policy"] == POLICY
    assert POLICY.startswith("default-src 'self'; ")
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["x-frame-options"] == "DENY"
    assert answer.headers["cross-origin-resource-policy"] == "same-origin"
    assert "http://" not in answer.text.replace("http://www.w3.org/", "")
    assert "https://" not in answer.text


def test_pages_have_no_inline_script_or_style(server: Server) -> None:
    key = server.key("run")
    case = server.failing(key)[0]
    for address in ("/", f"/runs/{key}", f"/runs/{key}/cases/{case}?at=0", f"/compare?run={key}"):
        text = server.get(address).text
        assert "<style" not in text
        assert "style=" not in text
        assert text.count("<script") == text.count('<script src="/static/page.js" defer></script>') == 1
        assert " onclick=" not in text


def test_a_report_that_a_run_brings_is_shut_in(server: Server) -> None:
    key = server.key("run")
    assert server.get(f"/runs/{key}/report").status_code == 422, "its subject is not remembered, and is not loaded"
    report = server.root / "run" / "report.html"
    report.write_text("<script>alert(1)</script>")
    answer = server.get(f"/runs/{key}/report")
    assert answer.headers["content-security-policy"] == FOREIGN_POLICY
    assert "sandbox" in FOREIGN_POLICY
    assert "script-src" not in FOREIGN_POLICY
    report.unlink()
    report.symlink_to("/etc/hostname")
    assert server.get(f"/runs/{key}/report").status_code == 422
    report.unlink()


@pytest.mark.parametrize("name", ["../app.py", "..%2fapp.py", "%2e%2e/app.py", "templates/run.jinja", "style.css", ""])
def test_only_known_files_are_served(server: Server, name: str) -> None:
    assert server.get(f"/static/{name}").status_code in {404, 307}


@pytest.mark.parametrize("address", ["/docs", "/redoc", "/openapi.json"])
def test_there_is_no_generated_documentation(server: Server, address: str) -> None:
    assert server.get(address).status_code == 404


def test_the_address_of_the_server_is_this_machine_alone() -> None:
    from skidpad.core.errors import SkidpadError
    from skidpad.ui.app import HOST, bound_socket

    assert HOST == "127.0.0.1"
    with bound_socket(0) as taken:
        host, port = taken.getsockname()
        assert host == "127.0.0.1"
        with pytest.raises(SkidpadError, match="choose another --port"):
            bound_socket(port)
    with pytest.raises(SkidpadError, match="choose another --port"):
        bound_socket(70_000)


def test_a_run_whose_drive_is_a_url_makes_no_connection() -> None:
    exhibit = PairExhibit({"campaign": "deeptest", "drive": "folder:http://127.0.0.1:9/secret"})
    with pytest.raises(BadRunError, match="fetches nothing"):
        _ = exhibit.drive


@pytest.mark.parametrize(
    "config",
    [
        {"campaign": "deeptest", "relation": "label-mse", "tolerance": 5.0},
        {"campaign": "deeptest", "relation": MARKUP, "tolerance": MARKUP},
        {"campaign": "deeptest", "relation": "label-mse", "tolerance": True},
        {"campaign": "deeptest", "relation": "answers-alike", "tolerance": 1, "unit": MARKUP},
        {"campaign": "deeproad", "thresholds_deg": MARKUP},
        {"campaign": "tactic", "bounds_deg": [MARKUP]},
        {"campaign": "online", "world": MARKUP},
        {"campaign": "duel"},
    ],
    ids=lambda config: config["campaign"],
)
def test_a_rule_of_any_config_over_any_columns_is_shown_and_compared(tmp_path: Path, config: dict[str, object]) -> None:
    rows = {
        "case_id": ["a1", "a2"],
        MARKUP: ["x", "y"],
        '"; DROP TABLE t0; --': [1.0, 2.0],
        "flags": [[1.0], []],
        "speed_rad": [0.1, 0.2],
        "packed": [b"1", b"2"],
        "excess": [2.0, 0.5],
        "violated": [True, False],
    }
    for name in ("one", "two"):
        run = Run.create(tmp_path / name, config, manifest(), ODD_SCHEMA)
        run.commit(ShardResult("originals", 0, pa.table(rows, schema=ODD_SCHEMA)))
        run.commit(ShardResult("all", 0, pa.table(rows, schema=ODD_SCHEMA)))
    with serve(tmp_path) as server:
        first, second = server.key("one"), server.key("two")
        listed = server.get("/")
        assert listed.status_code == 200
        assert "<script>alert" not in listed.text
        assert server.get(f"/runs/{first}").status_code in {200, 422}
        compared = server.get(f"/compare?run={first}&run={second}&base={MARKUP}")
        assert compared.status_code in {200, 422}
        assert "<script>alert" not in compared.text
        assert server.get("/").status_code == 200


ODD = (
    *(
        "-1",
        "9" * 8,
        "9" * 18,
        str(2**63 - 1),
        str(2**63),
        str(-(2**63) - 1),
        "9" * 30,
        "9" * 5000,
        "1e999",
        "nan",
        "-inf",
        "0x10",
        "1_000",
    ),
    *(
        "%00",
        "%ff",
        "%C2%9B",
        "%E2%80%AE",
        "..",
        "%2e%2e",
        "%2f",
        "a" * 5000,
        "%D9%A3",
        "%C2%BD",
        "+1",
        "[]",
        "%27%20OR%201=1",
        "%0d%0ax",
        "",
    ),
)
"""What an address may hold where a number, a word or an id is meant."""


@pytest.mark.parametrize(
    "address",
    [
        "/{odd}",
        "/runs/{odd}",
        "/runs/{key}/at/{odd}",
        "/runs/{key}/cases/{odd}",
        "/runs/{key}/cases/{odd}/original.jpg",
        "/runs/{key}/cases/{case}/{odd}.jpg",
        "/runs/{key}/cases/{case}/{odd}.svg",
        "/runs/{key}/cases/{case}?at={odd}",
        "/runs/{key}/rows?page={odd}&view=pictures",
        "/runs/{key}?page={odd}",
        "/runs/{key}?over={odd}",
        "/runs/{key}?sort={odd}",
        "/runs/{key}?is.frame_index={odd}",
        "/runs/{key}?is.{odd}=1",
        "/runs/{key}?q={odd}&tag={odd}&phase={odd}",
        "/compare?run={key}&run={odd}&base={odd}",
        "/static/{odd}",
        "/study/{odd}?at={odd}",
    ],
)
def test_odd_numbers_and_ids_in_an_address_are_answered_with_a_page(server: Server, address: str) -> None:
    key = server.key("run")
    case = server.failing(key)[0]
    for odd in ODD:
        answer = server.get(address.format(key=key, case=case, odd=odd))
        assert answer.status_code < 500, (odd[:40], answer.status_code)
        assert not {"\x9b", "\u202e", "\x00"} & set(answer.text)


@pytest.mark.parametrize("length", ["\xb2", "9" * 5000, "-1", "", "1e3"])
def test_a_request_that_does_not_say_how_long_it_is_is_refused(server: Server, tag: str, length: str) -> None:
    answer = server.post(tag, content=b"", headers={"content-length": length.encode("latin-1")})
    assert answer.status_code == 413


def test_a_run_that_was_changed_says_so_in_the_list_on_its_page_and_where_it_is_compared(tmp_path: Path) -> None:
    for name in ("good", "bad"):
        make_picture_run(tmp_path / name, rows=8)
    path = tmp_path / "bad" / "config.toml"
    path.write_text(path.read_text().replace("steers-alike", "answers-alike"))
    with serve(tmp_path) as server:
        assert server.get("/").text.count("files changed") == 1
        said = "config.toml was changed after the run was made"
        good, bad = server.key("good"), server.key("bad")
        assert said in server.get(f"/runs/{bad}").text
        assert said not in server.get(f"/runs/{good}").text
        assert said in server.get(f"/compare?run={good}&run={bad}").text


def test_a_mark_and_tags_that_cannot_be_read_are_said_and_stop_no_page(tmp_path: Path) -> None:
    run = make_picture_run(tmp_path / "run", rows=8)
    Tags.of(run.path).journal.path.write_text("no tag\n")
    for mark, said in (("", "state/finished.json, is damaged"), ("7", "state/finished.json, is damaged"), ('{"grid": 1000000000000}', "")):
        (run.path / "state" / "finished.json").write_text(mark)
        with serve(tmp_path) as server:
            assert server.get("/").status_code == 200
            shown = server.get(f"/runs/{server.key('run')}")
            assert shown.status_code == 200
            assert said in shown.text
            assert "1 line is damaged in the tags" in shown.text
            assert "stopped" in shown.text
