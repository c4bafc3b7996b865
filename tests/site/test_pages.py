"""Every page of the site in a real browser: wide and narrow, offline, accessible."""

from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from bfio.studies.report.page import write_report
from tests.browser import WIDTHS, asked_for, console, opened
from tests.studies.report import synthetic

pytestmark = [pytest.mark.site, pytest.mark.timeout(1800)]

#: Kinds of accessibility errors that keep somebody from reading.
_GRAVE = ("serious", "critical")
#: A page of each kind: prose, formulas, reference, notebook, study, search.
_KINDS = (
    "README.html",
    "docs/step.html",
    "docs/api/bfio.html",
    "docs/notebooks/paper-table.html",
    "benchmarks/studies/01-paper-table/README.html",
    "search.html",
)
#: The checker looks at every element; pages of thousands take their time [s].
_PATIENCE = 200


def pages(site: Path) -> list[Path]:
    """Return all pages, but the one that only sends on."""
    return sorted(page for page in site.rglob("*.html") if page != site / "index.html")


def axe_script() -> str:
    """Return the checker."""
    found = find_spec("axe_core_python")
    if found is None or found.origin is None:
        pytest.skip("axe-core-python is not installed: make docs")
    return (Path(found.origin).parent / "axe.min.js").read_text(encoding="utf-8")


def grave_errors(browser: Any, *, contrast: bool = True) -> list[str]:
    """Return the grave accessibility errors of the page that is open.

    The contrast of every element takes three quarters of the time, and is the style sheet's.
    """
    browser.set_script_timeout(_PATIENCE)
    browser.execute_script(axe_script())
    found = browser.execute_async_script(
        "const done = arguments[1];"
        " const rules = {'color-contrast': {enabled: arguments[0]}};"
        " axe.run({resultTypes: ['violations'], rules}).then(r => done(r.violations));",
        contrast,
    )
    return [
        f"{error['id']}: {node['target']}"
        for error in found
        if error["impact"] in _GRAVE
        for node in error["nodes"][:3]
    ]


@pytest.mark.parametrize("width", WIDTHS)
def test_every_page_fits_and_is_silent(browser: Any, site: Path, width: int) -> None:
    """No page is wider than the window, or says a word; only files of the site are asked for."""
    console(browser), asked_for(browser)
    wide = {}
    for page in pages(site):
        opened(browser, page, width)
        needed = browser.execute_script("return document.documentElement.scrollWidth")
        if needed > width:
            wide[str(page.relative_to(site))] = needed
    assert wide == {}
    assert console(browser) == []
    asked = asked_for(browser)
    assert asked
    assert [address for address in asked if not address.startswith(site.as_uri())] == []


def test_no_page_keeps_anybody_out(browser: Any, site: Path) -> None:
    """No serious or critical error on any page; colours, and narrow pages, on one of each kind."""
    errors = {}
    looked_at = [(page, WIDTHS[0], False) for page in pages(site)]
    looked_at += [(site / page, width, True) for page in _KINDS for width in WIDTHS]
    for page, width, contrast in looked_at:
        opened(browser, page, width)
        if found := grave_errors(browser, contrast=contrast):
            errors[str(page.relative_to(site))] = found
    assert errors == {}


def test_the_checker_would_notice(browser: Any, site: Path, tmp_path: Path) -> None:
    """An image without a text and pale words are errors."""
    page = tmp_path / "bad.html"
    page.write_text(
        "<html lang='en'><title>Bad</title><main><h1>Bad</h1><img src='data:,'>"
        "<p style='color: #ddd; background: #fff'>pale</p></main>",
        encoding="utf-8",
    )
    opened(browser, page, 1280)
    assert {error.split(":")[0] for error in grave_errors(browser)} == {
        "color-contrast",
        "image-alt",
    }


def test_the_search_works_without_a_server(browser: Any, site: Path) -> None:
    """A page opened as a file finds pages and names; what nobody wrote is not found."""
    wait = pytest.importorskip("selenium.webdriver.support.ui").WebDriverWait
    for words, target in (
        ("certificate", "docs/exact.html"),
        ("measure_gap", "docs/api/bfio.html"),
        ("MC-SF", "docs/kvcache.html"),
    ):
        console(browser)
        opened(browser, site / "search.html", 1280, f"?q={words}")
        wait(browser, 20).until(
            lambda b, t=target: b.find_elements("css selector", f"#search-results a[href*='{t}']")
        )
        assert console(browser) == []
    opened(browser, site / "search.html", 1280, "?q=qwertzuiop")
    wait(browser, 20).until(lambda b: "did not match" in b.find_element("tag name", "body").text)


def test_the_report_of_a_study_keeps_nobody_out(browser: Any, tmp_path: Path) -> None:
    """The checker finds no serious or critical error on it, wide or narrow."""
    study = synthetic.study()
    results = synthetic.stored(study, synthetic.rows(study), tmp_path / "made-up.sqlite")
    write_report(results, tmp_path / "out")
    for width in WIDTHS:
        opened(browser, tmp_path / "out" / "report.html", width)
        assert grave_errors(browser) == []
