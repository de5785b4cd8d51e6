"""The documentation site in a real browser. `make page-test` runs this."""

import functools
import http.server
import os
import re
import shutil
import threading

import pytest
from places import DOCS, PROJECT
from web_driver import Browser

DRIVER = shutil.which("chromedriver")
SITE = PROJECT / "build" / "docs"
if not os.environ.get("KERAS_BERT_PAGE_TEST"):
    pytest.skip("make page-test runs this", allow_module_level=True)
if DRIVER is None or not (SITE / "index.html").exists():
    pytest.skip("no browser (Debian: chromium-driver), or no site (make docs)", allow_module_level=True)


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


@pytest.fixture(scope="module")
def site():
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=SITE)) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()


@pytest.fixture
def browser(site):
    with Browser(DRIVER) as browser:
        yield browser


@pytest.mark.parametrize("width", [1280, 420])
def test_the_first_screen_shows_an_answer(browser, site, width):
    browser.resize(width, 800)
    browser.open(site)
    picture = (
        "const box = document.querySelector('.content img').getBoundingClientRect(); return [box.width, box.bottom]"
    )
    wide, bottom = browser.run(picture)
    assert wide > 300
    assert bottom <= 800
    wider = "return document.documentElement.scrollWidth - document.documentElement.clientWidth"
    assert browser.run(wider) == 0
    browser.save_screens("start_page")


def test_the_start_page_has_three_screens_and_nothing_in_it_scrolls(browser, site):
    browser.resize(1280, 800)
    browser.open(site)
    assert browser.run("return document.documentElement.scrollHeight") <= 3 * 800
    scrolls = "one => one.scrollWidth > one.clientWidth + 1 && getComputedStyle(one).overflowX !== 'visible'"
    shown = "document.querySelectorAll('.content :not(.visually-hidden)')"
    assert browser.run(f"return [...{shown}].filter({scrolls}).map(one => one.outerHTML)") == []


@pytest.mark.parametrize(
    ("words", "guide"),
    [
        ("calibrate", "explanations"),
        ("resume", "training"),
        ("few-shot", "training_embeddings"),
        ("export", "serving_export"),
    ],
)
def test_the_search_finds_a_guide_before_methods(browser, site, words, guide):
    browser.open(f"{site}search.html?q={words}")
    links = "[...document.querySelectorAll('#search-results li > a')].map(link => link.getAttribute('href'))"
    browser.wait_for("return document.querySelector('.search-summary').textContent.includes('found')")
    found = [link.split(".html")[0] for link in browser.run(f"return {links}")]
    assert guide in found[:5]
    methods = [number for number, page in enumerate(found) if page.startswith("api/")]
    assert methods == list(range(len(found) - len(methods), len(found)))


def test_a_copied_block_has_neither_prompts_nor_output(browser, site):
    browser.open(site + "text_prediction.html")
    browser.command("Browser.grantPermissions", permissions=["clipboardReadWrite", "clipboardSanitizedWrite"])
    click = """
        [...document.querySelectorAll('div.highlight')].find(one => one.textContent.startsWith('$ '))
            .querySelector('button.copybtn').click()
    """
    text = re.search(r"```\n\$ (.*?[^\\])\n", (DOCS / "text_prediction.md").read_text("utf-8"), re.S)[1]
    browser.command("Runtime.evaluate", expression=click, userGesture=True)  # browsers copy for people only
    assert browser.wait_for("return navigator.clipboard.readText()").strip() == text
