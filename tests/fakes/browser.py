"""A tab of a real Chromium, driven by Playwright."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from playwright.sync_api import Page


@contextmanager
def tab_of(chromium: Path, **context: Any) -> Iterator[Page]:
    """Open a tab in which nothing may go wrong in scripts, and nothing that it loads may be missing. `context`: Playwright's
    options, for instance the theme. While the tab is open, this thread has a loop of Playwright's."""
    from playwright.sync_api import sync_playwright

    problems: list[str] = []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        tab = browser.new_context(**context).new_page()
        tab.on("pageerror", lambda error: problems.append(str(error)))
        tab.on(
            "console",
            lambda line: problems.append(line.text) if "Content Security" in line.text or "404" in line.text else None,
        )
        yield tab
        browser.close()
    assert problems == []
