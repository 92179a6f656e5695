"""The main paths in a real browser: clicked and typed through, without a complaint in its console."""

import os
import re
import shutil
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from threading import Thread

import numpy as np
import pytest
from ui_runs import FRAMES, make_drive, make_picture_run, picture_records

from skidpad.core.images import write_image
from skidpad.runs.records import ShardResult
from skidpad.runs.tags import Tag, Tags
from skidpad.ui.app import HOST, bound_socket, make_app, server_of
from skidpad.ui.library import Library, RunsFolder
from skidpad.ui.study import Study

REQUIRED = os.environ.get("SKIDPAD_BROWSER_TESTS") == "required"
"""Continuous integration must not pass without a browser: there a missing one is a failure, elsewhere a skip."""

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
if CHROMIUM is None and REQUIRED:
    pytest.fail("SKIDPAD_BROWSER_TESTS=required, but there is no chromium on this machine; install the package chromium", pytrace=False)
if REQUIRED:
    import playwright.sync_api as playwright
else:
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="there is no chromium on this machine")
PATIENCE_MS = 60_000
"""How long to wait for what must come; a crowded machine is slow, and no test hangs on how slow."""


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("browser")
    drive = make_drive(root / "drive")
    for name, seed in (("first", 1), ("second", 2)):
        make_picture_run(root / "runs" / name, drive, seed=seed)
    make_picture_run(root / "runs" / "going", drive, shards=1, finish=False)
    for number in range(2):
        picture = np.random.default_rng(number).integers(0, 256, (24, 32, 3), np.uint8)
        write_image(root / "real" / f"{number}.png", picture)
        write_image(root / "made" / "tactic" / "fog" / f"{number}.png", picture // 2)
    return root


@pytest.fixture(scope="module")
def address(root: Path) -> Iterator[str]:
    study = Study.of(root / "real", root / "made", root / "answers.jsonl")
    with bound_socket(0) as taken, closing(Library(RunsFolder(root / "runs"))) as library:
        server = server_of(make_app(library, study))
        thread = Thread(target=server.run, args=([taken],), daemon=True)
        thread.start()
        yield f"http://{HOST}:{taken.getsockname()[1]}"
        server.should_exit = True
        thread.join()


@pytest.fixture(scope="module")
def browser() -> Iterator[object]:
    with playwright.sync_playwright() as started:
        browser = started.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture
def page(browser, address: str) -> Iterator[object]:
    """A fresh window; what it writes into its console, and every request to elsewhere, fails the test at its end."""
    context = browser.new_context(base_url=address, viewport={"width": 1280, "height": 900})
    context.set_default_timeout(PATIENCE_MS)
    page = context.new_page()
    complaints: list[str] = []
    page.on("console", lambda message: complaints.append(f"{message.type}: {message.text}"))
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("request", lambda request: None if request.url.startswith((address, "data:")) else complaints.append(request.url))
    page.on("response", lambda response: None if response.status < 400 else complaints.append(f"{response.status} {response.url}"))
    yield page
    context.close()
    assert complaints == []


def open_run(page, name: str) -> None:
    page.goto("/")
    page.get_by_role("link", name=name, exact=True).click()
    settled(page, "#results table")


def settled(page, selector: str) -> None:
    """Waits for a new page that shows something, and for its script, which listens to keys once all is loaded."""
    page.wait_for_selector(selector)
    page.wait_for_load_state("load")


def found(page) -> int:
    return int(re.sub(r"\D", "", page.locator("#found b").inner_text()))


def test_filtering_sorting_and_paging_answer_in_place(page, root: Path) -> None:
    open_run(page, "first")
    everything = found(page)
    page.get_by_label("stimulus").select_option("rotation")
    page.wait_for_url(lambda url: "rotation" in url)  # the address follows once the rows are there
    assert 0 < found(page) < everything
    page.keyboard.press("Escape")
    page.locator("h1").click()
    page.keyboard.press("/")
    page.keyboard.type("nothing has this name")
    page.wait_for_selector("text=No findings match")
    assert "No findings match" in page.locator("#said").inner_text()
    page.get_by_label("Words in any column").fill("")
    page.get_by_label("stimulus").select_option("")
    page.wait_for_url(lambda url: "?" not in url)
    assert found(page) == everything
    page.get_by_role("columnheader", name="frame index").get_by_role("link").click()
    page.wait_for_selector("th[aria-sort=descending] >> text=frame index")
    frames = [int(cell) for cell in page.locator("#results tbody tr td:nth-child(3)").all_inner_texts()]
    assert frames == sorted(frames, reverse=True)
    page.get_by_role("link", name="Next").click()
    page.wait_for_selector("text=page 2 of")
    address = page.url
    page.reload()
    page.wait_for_selector("text=page 2 of")
    assert page.url == address


def test_a_finding_is_looked_at_and_tagged_by_keys(page, root: Path) -> None:
    open_run(page, "first")
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    settled(page, ".stage img.over")
    assert page.evaluate("[...document.querySelectorAll('.stage img')].every(image => image.complete && image.naturalWidth > 0)")
    slider = page.get_by_role("slider")
    slider.focus()
    page.keyboard.press("Home")
    assert page.locator(".stage").evaluate("stage => stage.style.getPropertyValue('--split')") == "0%"
    page.keyboard.press("End")
    assert page.locator(".stage").evaluate("stage => getComputedStyle(stage.querySelector('.over')).clipPath") == "inset(0px 0% 0px 0px)"
    page.keyboard.press("x")
    assert slider.input_value() == "0"
    case = page.url.partition("/cases/")[2].partition("?")[0]
    page.keyboard.press("1")
    page.wait_for_selector("button.real-fault[aria-pressed=true]")
    assert Tags.of(root / "runs" / "first").current()[case] is Tag.REAL_FAULT
    assert page.locator("#said").inner_text() == "Tagged as real fault."
    page.get_by_label("go on to the next after tagging").check()
    before = page.url
    page.keyboard.press("2")
    page.wait_for_url(lambda url: url != before)  # which waits for all to be loaded
    assert Tags.of(root / "runs" / "first").current()[case] is Tag.FALSE_ALARM
    page.keyboard.press("k")
    page.wait_for_url(before)
    settled(page, "button.false-alarm[aria-pressed=true]")
    page.keyboard.press("u")
    page.wait_for_selector("#results span.tag.false-alarm")
    page.wait_for_function("id => document.activeElement.closest('tr')?.id === `case-${id}`", arg=case)  # where one came from
    page.wait_for_function("(box => box.top >= 0 && box.bottom <= innerHeight)(document.activeElement.getBoundingClientRect())")
    assert "1 false alarm," in page.locator("#status").inner_text()


def test_pictures_are_shown_and_lead_to_their_finding(page, root: Path) -> None:
    open_run(page, "second")
    page.get_by_label("Pictures").check()
    page.wait_for_selector("#results .shot img")
    page.locator("#results .shot").first.click()
    page.wait_for_selector(".slider")


def test_runs_are_chosen_and_compared(page, root: Path) -> None:
    page.goto("/")
    for name in ("first", "second"):
        page.get_by_label(f"Choose {name}").check()
    page.get_by_role("button", name="Compare the chosen").click()
    page.wait_for_selector("h2 >> text=against")
    assert page.get_by_text("persisting").is_visible()
    before = page.locator("h2").first.inner_text()
    page.get_by_role("link", name="Swap baseline and other").click()
    page.wait_for_url(lambda url: "base=" in url)
    name, other = before.split(" against ")
    assert page.locator("h2").first.inner_text() == f"{other} against {name}"
    page.goto("/")
    page.get_by_label("Find a run").fill("second")
    assert page.locator("#runs tr:visible").count() == 1


def test_a_running_campaign_moves_on_by_itself(page, root: Path) -> None:
    from skidpad.runs.folder import Run

    run = Run.open(root / "runs" / "going")
    with run.lock():
        open_run(page, "going")
        page.wait_for_selector("text=2 of 6 shards")
        run.commit(ShardResult("grid", 1, picture_records(FRAMES, 5, 40)))
        page.wait_for_selector("text=3 of 6 shards")
    page.wait_for_selector("#status .state.stopped")


def test_the_questionnaire_is_answered_by_keys(page, root: Path) -> None:
    page.goto("/study")
    page.get_by_label("industry").check()
    page.get_by_role("button", name="Begin").click()
    for number in range(4):
        settled(page, f"text=question {number + 1} of 4")
        page.keyboard.press("3" if number < 2 else "4")
    page.wait_for_selector("text=Thank you")
    page.get_by_role("link", name="See the tally").click()
    page.wait_for_selector("text=4 answers of 1 person")


@pytest.mark.parametrize(("width", "scheme"), [(390, "dark"), (1280, "light")])
def test_no_page_is_wider_than_its_window_or_without_names(browser, address: str, root: Path, width: int, scheme: str) -> None:
    context = browser.new_context(base_url=address, viewport={"width": width, "height": 800}, color_scheme=scheme)
    context.set_default_timeout(PATIENCE_MS)
    page = context.new_page()
    open_run(page, "first")
    run = page.url
    case = page.locator("#results tbody a").first.get_attribute("href")
    key = run.rpartition("/")[2]
    for place in ("/", run, f"{run}?view=pictures", case, "/study", "/study/tally", f"/compare?run={key}"):
        page.goto(place)
        assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth"), place
        nameless = page.evaluate(
            "[...document.querySelectorAll('button, a[href], input:not([type=hidden]), select')]"
            ".filter(e => !(e.innerText || '').trim() && !e.getAttribute('aria-label'))"
            ".filter(e => ![...(e.labels || [])].some(l => l.textContent.trim())).map(e => e.outerHTML)"
        )
        assert nameless == [], place
        assert page.locator("h1").count() == 1
        assert page.evaluate("[...document.images].every(image => image.hasAttribute('alt'))")
    context.close()


def test_it_works_without_script(browser, address: str, root: Path) -> None:
    context = browser.new_context(base_url=address, java_script_enabled=False)
    context.set_default_timeout(PATIENCE_MS)
    page = context.new_page()
    open_run(page, "second")
    page.get_by_label("Words in any column").fill("brightness")
    page.get_by_role("button", name="Show").click()
    assert "q=brightness" in page.url
    page.locator("#results tbody a").first.click()
    page.get_by_role("button", name="unclear").click()
    assert page.locator("button.unclear").get_attribute("aria-pressed") == "true"
    assert Tag.UNCLEAR in Tags.of(root / "runs" / "second").current().values()
    context.close()
