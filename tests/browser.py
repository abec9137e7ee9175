"""A real browser without network access beyond this machine."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from tempfile import TemporaryDirectory

from selenium import webdriver
from selenium.webdriver.chrome.service import Service

from tests.requirements import find_chromium

SWITCHES = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--window-size=1400,900",
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
)


@contextmanager
def open_browser(logs: bool = False) -> Iterator[webdriver.Chrome]:
    """Open headless Chromium, optionally with logs of network and console."""
    with TemporaryDirectory(ignore_cleanup_errors=True) as profile:  # Chromium may still write while it exits
        options = webdriver.ChromeOptions()
        options.binary_location = str(find_chromium())
        for switch in (*SWITCHES, f"--user-data-dir={profile}"):
            options.add_argument(switch)
        if logs:
            options.set_capability("goog:loggingPrefs", {"performance": "ALL", "browser": "ALL"})
        chrome = webdriver.Chrome(options=options, service=Service(shutil.which("chromedriver")))
        try:
            yield chrome
        finally:
            chrome.quit()
