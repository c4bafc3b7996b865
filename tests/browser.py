"""Open pages in a headless browser, with access to its console and its network requests."""

import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

#: A desktop and a telephone [pixels].
WIDTHS = (1280, 400)
#: Addresses that need no network, or belong to the browser.
_OWN = ("data:", "about:", "chrome:", "chrome-untrusted:", "chrome-search:", "chrome-extension:")
_FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


@contextmanager
def chromium(profile: Path) -> Iterator[Any]:
    """Start Debian's chromium; skip the test if it is not installed."""
    webdriver = pytest.importorskip(
        "selenium.webdriver", reason="selenium is not installed: no browser can be driven"
    )
    program, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if program is None or driver is None:
        pytest.skip("no chromium or no chromedriver here (Debian: chromium, chromium-driver)")
    options = webdriver.ChromeOptions()
    options.binary_location = program
    for flag in _FLAGS:
        options.add_argument(flag)
    options.add_argument(f"--user-data-dir={profile}")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    started = webdriver.Chrome(options=options, service=webdriver.ChromeService(driver))
    try:
        yield started
    finally:
        started.quit()


def opened(browser: Any, page: Path, width: int, query: str = "") -> None:
    """Open a page in a window of the given width [pixels], with all folded parts expanded."""
    metrics = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    browser.get(page.as_uri() + query)
    browser.execute_script("document.querySelectorAll('details').forEach(d => { d.open = true; })")


def console(browser: Any) -> list[str]:
    """Return the console messages since the last call."""
    return [entry["message"] for entry in browser.get_log("browser")]


def asked_for(browser: Any) -> list[str]:
    """Return the addresses asked for since the last call, without those of the browser itself.

    A browser loads pages of its own (``chrome:``) when it starts, at a time of its choosing.
    """
    messages = [
        json.loads(entry["message"])["message"] for entry in browser.get_log("performance")
    ]
    asked = [
        str(message["params"]["request"]["url"])
        for message in messages
        if message["method"] == "Network.requestWillBeSent"
    ]
    return [address for address in asked if not address.startswith(_OWN)]
