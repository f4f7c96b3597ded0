"""One headless Chromium for the tests of pages; they are skipped where playwright or a browser is not installed."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome")
QUIET = ("--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update")


@dataclass
class Opened:
    """A page in the browser and what it complained of or asked the network for."""

    page: Any
    complaints: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)

    def do(self, script: str, *given: Any) -> Any:
        return self.page.evaluate(script, *given)

    def drawn(self) -> None:
        self.page.wait_for_selector("html[data-drawn]", timeout=120_000, state="attached")


@contextmanager
def chromium() -> Iterator[Any]:
    """A browser; skips with what to install where there is none."""
    sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed: pip install playwright")
    path = next((found for name in NAMES if (found := shutil.which(name))), None)
    if path is None:
        pytest.skip(f"no browser is installed (looked for {', '.join(NAMES)})")
    with sync_api.sync_playwright() as play:
        browser = play.chromium.launch(executable_path=path, args=list(QUIET))
        yield browser
        browser.close()


@contextmanager
def opened(
    browser: Any, file: Path, *, width: int = 1280, scheme: str = "light", fragment: str = "", before: str = ""
) -> Iterator[Opened]:
    """The file in a window of its own without a network; the script `before` runs before those of the page."""
    context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme, offline=True)
    page = context.new_page()
    page.set_default_timeout(60_000)
    seen = Opened(page)
    page.on("console", lambda told: seen.complaints.append(told.text) if told.type in ("error", "warning") else None)
    page.on("pageerror", lambda problem: seen.complaints.append(str(problem)))
    page.on("request", lambda one: None if one.url.startswith(("file:", "data:")) else seen.requests.append(one.url))
    if before:
        page.add_init_script(before)
    page.goto(file.as_uri() + fragment)
    yield seen
    context.close()
