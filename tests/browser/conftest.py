"""A headless Chromium, from the system or from playwright; and a project of DAGs to look at."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser

NAMES = ("chromium", "chromium-browser", "google-chrome")


@pytest.fixture(scope="module")
def browser() -> Iterator["Browser"]:
    """Chromium; skips where there is none. Until it ends, asyncio.run fails in this thread."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        found = next(filter(None, map(shutil.which, NAMES)), None)
        path = found or playwright.chromium.executable_path
        if not Path(path).exists():
            pytest.skip("no Chromium: apt-get install chromium, or playwright install chromium")
        # Chromium's sandbox can't be had by root, nor in most containers.
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield browser
        browser.close()
