"""A headless Chromium, from the system or from playwright, and a person in it who has logged in."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tidemark_local._airflow import Airflow

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

NAMES = ("chromium", "chromium-browser", "google-chrome")
PATIENCE_MS = 180_000


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


@pytest.fixture(scope="module")
def session(browser: "Browser", airflow: Airflow) -> Iterator["Page"]:
    """One who has logged in."""
    context = browser.new_context(
        base_url=airflow.url, viewport={"width": 1280, "height": 900}, color_scheme="light",
        timezone_id="Asia/Tokyo",
    )  # fmt: skip
    context.set_default_timeout(PATIENCE_MS)
    page = context.new_page()
    page.goto("/")
    user, password = airflow.login
    page.fill("input[name=username]", user)
    page.fill("input[name=password]", password)
    page.click("button[type=submit]")
    page.wait_for_url(lambda url: "login" not in url)
    yield page
    context.close()
