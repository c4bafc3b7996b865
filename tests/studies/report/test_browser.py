"""The page in a real browser: no errors, everything visible, no network requests."""

import base64
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.browser import WIDTHS, asked_for, chromium, console, opened
from tests.studies.report.pages import Written

pytestmark = pytest.mark.site


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """Start a browser for all tests of the page."""
    with chromium(tmp_path_factory.mktemp("chromium")) as started:
        yield started


def boxes(browser: Any, selector: str) -> list[dict[str, float]]:
    """Return the boxes of the elements that a selector finds."""
    script = (
        "return [...document.querySelectorAll(arguments[0])]"
        ".map(e => { const b = e.getBoundingClientRect();"
        " return {left: b.left, right: b.right, width: b.width, height: b.height}; })"
    )
    found: list[dict[str, float]] = browser.execute_script(script, selector)
    return found


@pytest.mark.parametrize("width", WIDTHS)
def test_every_table_and_figure_is_seen(browser: Any, written: Written, width: int) -> None:
    """Displayed, not empty, inside the page; the page is not wider than the window."""
    opened(browser, written.page, width)
    plan = written.results.study.report
    # One figure has no data; each of the others has a data table, and failed rows have one.
    drawn = len(plan.figures) - 1
    assert len(boxes(browser, "figure")) == len(plan.figures)
    assert len(boxes(browser, "figure svg")) == drawn
    assert len(boxes(browser, "table")) == len(plan.tables) + drawn + 1
    for selector in ("figure", "figure svg", "table", ".counts li", "h1", "pre"):
        for box in boxes(browser, f"main {selector}, header {selector}"):
            assert box["width"] > 20, (selector, box)
            assert box["height"] > 10, (selector, box)
            assert box["left"] >= 0, (selector, box)
            assert box["right"] <= width + 0.5, (selector, box)
    assert browser.execute_script("return document.documentElement.scrollWidth") <= width


def test_nothing_fails_and_nothing_is_fetched(browser: Any, written: Written) -> None:
    """No line in the console; the only address asked for is the page's own."""
    console(browser), asked_for(browser)
    for width in WIDTHS:
        opened(browser, written.page, width)
    assert console(browser) == []
    asked = asked_for(browser)
    assert asked
    assert [address for address in asked if address != written.page.as_uri()] == []


def test_a_fetch_would_be_noticed(browser: Any, written: Written, tmp_path: Path) -> None:
    """The console is read: an image from elsewhere in the page is refused, and told."""
    text = written.page.read_text(encoding="utf-8")
    spoiled = tmp_path / "spoiled.html"
    spoiled.write_text(
        text.replace("</main>", "<img src='other.png'><script>1</script></main>"), encoding="utf-8"
    )
    console(browser)
    opened(browser, spoiled, 1280)
    messages = " ".join(console(browser))
    assert "other.png" in messages
    assert "script-src" in messages


def test_a_click_shows_the_rows_of_a_number(browser: Any, written: Written) -> None:
    """Its keys, and for a ratio those of the baseline; Escape closes."""
    opened(browser, written.page, 1280)
    script = (
        "const e = document.querySelector('data[data-statistic=ratio]'); e.scrollIntoView();"
        " e.click(); return [e.dataset.keys, e.dataset.baselineKeys]"
    )
    keys, partners = browser.execute_script(script)
    panel = browser.find_element("id", "origin")
    assert panel.is_displayed()
    for key in [*keys.split(), *partners.split()]:
        assert key in panel.get_attribute("textContent")
    browser.find_element("tag name", "body").send_keys("\ue00c")
    assert not panel.is_displayed()


def test_the_page_prints(browser: Any, written: Written) -> None:
    """As PDF, with its figures: several sheets."""
    opened(browser, written.page, 1280)
    printed = browser.execute_cdp_cmd("Page.printToPDF", {})
    content = base64.b64decode(printed["data"])
    assert content.startswith(b"%PDF")
    assert len(content) > 50_000
