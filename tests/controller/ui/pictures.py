"""Pictures of the live page, of made-up clusters of 1, 20 and 200 applications in both themes: to be looked at, and for the
docs. `python -m tests.controller.ui.pictures FOLDER [COUNT...]`; needs chromium."""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path

from tests.controller.ui.made_crowd import COUNTS, KEPT, crowd
from tests.fakes.browser import tab_of
from tests.fakes.served import served

TICKS = 80
LOOKS = 5
"""Looks until a new stream has reported everything."""


def take(folder: Path, chromium: Path, count: int) -> None:
    with tempfile.TemporaryDirectory() as place, served(Path(place), KEPT) as page:
        job = crowd(page, count, ended=max(12, count), ticks=TICKS)
        for theme in ("light", "dark"):
            with tab_of(chromium, color_scheme=theme, viewport={"width": 1100, "height": 900}) as tab:
                tab.goto(page.links[-1])
                for name, route, ready in (
                    ("cluster", "#/", "#sums:not(:empty)"),
                    ("application", f"#/application/{job}", ".chart canvas"),
                    ("history", "#/history", "section:not([hidden]) canvas"),
                    ("whatif", "#/whatif/pagerank@pagerank.py", "section:not([hidden]) canvas"),
                ):
                    tab.evaluate("route => { location.hash = route; }", route)
                    tab.get_by_role("heading", level=1).wait_for()
                    if name == "whatif":
                        tab.get_by_label("Deadline after submission").fill("12s")
                        tab.get_by_label("Cores to itself").fill("2")
                        tab.keyboard.press("Enter")
                    for _ in range(LOOKS):
                        page.look()
                        tab.wait_for_timeout(300)
                    tab.locator(ready).first.wait_for()
                    wide = tab.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
                    rows, nodes = tab.locator("tbody tr").count(), tab.locator("*").count()
                    print(f"{name}, {count}, {theme}: {rows} rows, {nodes} elements, {wide} px too wide")
                    tab.screenshot(path=folder / f"{name}-{count}-{theme}.png")
                    tab.screenshot(path=folder / f"{name}-{count}-{theme}-whole.png", full_page=True)


def main() -> None:
    folder, counts = Path(sys.argv[1]), [int(word) for word in sys.argv[2:]] or COUNTS
    found = shutil.which("chromium")
    if found is None:
        raise SystemExit("there is no chromium; `.ci/setup browser` installs it")
    folder.mkdir(parents=True, exist_ok=True)
    for count in counts:
        take(folder, Path(found), count)


if __name__ == "__main__":
    main()
