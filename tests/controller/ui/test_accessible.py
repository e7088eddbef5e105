"""The live page for people who use only a keyboard, have weak sight or have a small screen: a real Chromium with a real
master, in both themes; the cluster and an application with 1, 20 and 200 applications, the rest with one. axe-core looks for
what its rules know; the rest is measured here."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.controller.ui.made_crowd import COUNTS, KEPT, crowd
from tests.fakes.browser import tab_of
from tests.fakes.served import ServedPage, served

if TYPE_CHECKING:
    from playwright.sync_api import Locator, Page

pytestmark = pytest.mark.browser
ENDED, TICKS = 12, 12
ROUTES = {
    "Cluster": "#/",
    "Application": "#/application/{job}",
    "History": "#/history",
    "What-if": "#/whatif/pagerank@pagerank.py",
}
WIDE, NARROW = 1280, 320
"""Widths in pixels. The narrow one is also that of a wide page which is magnified four times (WCAG 2.2, 1.4.10)."""

MOST_TABS = 1000
AXE = {"resultTypes": ["violations", "incomplete"], "rules": {"target-size": {"enabled": True}}}
"""Options of axe-core: all rules that it has on by itself, and the one of WCAG 2.2 that it has off."""

CONTROLS = """() => [...(document.querySelector("dialog[open]") ?? document).querySelectorAll(
  "a[href], button, input, [tabindex='0']")].filter((one) => one.checkVisibility())"""
NAMES = "all => all.map((one) => one.ariaLabel ?? (one.textContent || one.name))"
FOCUSES = """all => {
  const found = [];
  const look = () => {
    const focused = document.activeElement;
    const { outlineStyle, outlineWidth } = getComputedStyle(focused);
    const { top, bottom, left, right } = focused.getBoundingClientRect();
    const hasRing = outlineStyle !== "none" && parseFloat(outlineWidth) >= 2;
    const isInSight = bottom > 0 && top < innerHeight && right > 0 && left < innerWidth;
    found.push([all.indexOf(focused), hasRing, isInSight]);
  };
  addEventListener("keydown", look, true);
  return () => { look(); return found; };
}"""
"""The number of the control that has the focus, and the two facts that make it visible, before each key and at the end."""

TOO_WIDE = """except => [...document.querySelectorAll("html, body *")]
  .filter((one) => one.clientWidth && one.scrollWidth > one.clientWidth + 1 && !one.closest(except))
  .map((one) => `${one.localName}.${one.className}: ${one.scrollWidth} of ${one.clientWidth}`)"""
CUT_OFF = ".unseen, .uplot"
"""Elements that cut off what sticks out of them: text for screen readers, and the inside of a plot."""

TWO_FRAMES = "() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))"


@dataclass(frozen=True)
class Shown:
    """A tab that shows the page of a crowded cluster; `job` is one of its applications that run."""

    page: ServedPage
    job: str
    tab: Page

    def open(self, name: str) -> None:
        """Load a page, as wide as on a desktop, with the focus in its content, as after a link to it."""
        self.resize(WIDE)
        self.tab.goto(f"http://{self.page.host}{self.page.entrance.path}{ROUTES[name].format(job=self.job)}")
        self.tab.reload()  # where only the route has changed, nothing was loaded
        self.wait_until_drawn(name)
        self.tab.locator("#main").focus()

    def wait_until_drawn(self, name: str) -> None:
        if name == "Application":
            self.tab.locator("[data-figure=state]").filter(has_text="running").wait_for()
            self.page.look()  # its stream has begun, so this look asks for its course
            self.tab.locator(".bar").wait_for()
            self.tab.get_by_role("region", name="Largest stages").wait_for()
        else:
            self.tab.get_by_role("heading", name=name, level=1).wait_for()
        self.tab.locator("canvas").first.wait_for()

    def resize(self, width: int) -> None:
        self.tab.set_viewport_size({"width": width, "height": 720})
        self.tab.evaluate(TWO_FRAMES)  # charts follow the width in the next frame


@pytest.fixture(scope="module", params=COUNTS)
def crowded(chromium: Path, request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shown]:
    """Make the applications, then open a tab: Playwright has a loop of its own on this thread from then on."""
    with served(tmp_path_factory.mktemp("crowded"), KEPT) as page:
        job = crowd(page, request.param, ended=ENDED, ticks=TICKS)
        with tab_of(chromium) as tab:
            tab.goto(page.links[-1])
            yield Shown(page, job, tab)


@pytest.fixture(params=["light", "dark"])
def shown(crowded: Shown, request: pytest.FixtureRequest) -> Shown:
    crowded.tab.emulate_media(color_scheme=request.param)
    return crowded


few = pytest.mark.parametrize("crowded", COUNTS[:1], indirect=True)
"""Mark of tests of what does not depend on the number of applications."""


def findings(tab: Page, part: str | None = None) -> list[str]:
    """Return what axe-core finds wrong on the whole page, or in the part that a selector names. On the whole page, what it
    cannot judge counts, too; of a dialog, it cannot judge texts with other elements of the page behind them."""
    from axe_playwright_python.sync_playwright import Axe

    found = Axe().run(tab, part, AXE).response
    assert found["passes"], "no rule applied to anything"
    rules = [*found["violations"], *([] if part else found["incomplete"])]
    wrong = [(rule["id"], node) for rule in rules for node in rule["nodes"]]
    return [f"{rule}: {node['failureSummary']} {node['html']}" for rule, node in wrong]


def walk(tab: Page) -> list[str]:
    """Press Tab from the first control of a page or of an open dialog, which has the focus, to the last one. Assert that each
    is reached in its turn and shows the focus; return the names of all."""
    controls = tab.evaluate_handle(CONTROLS)
    names: list[str] = controls.evaluate(NAMES)
    focuses = controls.evaluate_handle(FOCUSES)
    for _ in names[1:]:
        tab.keyboard.press("Tab")
    found = focuses.evaluate("focuses => focuses()")
    assert [name for number, name in enumerate(names) if found[number] != [number, True, True]] == []
    return names


def has_focus(control: Locator) -> bool:
    return bool(control.evaluate("one => one === document.activeElement"))


def go_to(control: Locator, key: str = "Tab") -> None:
    for _ in range(MOST_TABS):
        control.page.keyboard.press(key)
        if has_focus(control):
            return
    pytest.fail(f"{control} was not reached with {key}")


def check(shown: Shown) -> None:
    """Check the page that is shown in every way, from wherever the focus is in it."""
    tab = shown.tab
    assert findings(tab) == []
    go_to(tab.get_by_role("link", name="Skip to the content"), "Shift+Tab")
    assert walk(tab)[:5] == ["Skip to the content", *ROUTES]
    assert tab.evaluate(TOO_WIDE, CUT_OFF) == []
    shown.resize(NARROW)
    assert tab.evaluate(TOO_WIDE, f"{CUT_OFF}, .wide") == []  # tables have scroll bars of their own
    shown.resize(WIDE)


def test_the_cluster_and_an_application_that_is_opened_and_left_from_the_keyboard(shown: Shown) -> None:
    tab = shown.tab
    shown.open("Cluster")
    links = tab.locator("main a[href^='#/application/']")
    assert links.count() == len(shown.page.master.client().applications())
    go_to(tab.locator(f"a[href='#/application/{shown.job}']"))
    tab.keyboard.press("Enter")
    shown.wait_until_drawn("Application")
    check(shown)
    go_to(tab.get_by_role("link", name="Cluster", exact=True), "Shift+Tab")
    tab.keyboard.press("Enter")
    shown.wait_until_drawn("Cluster")
    check(shown)


@few
def test_history_and_what_if(shown: Shown) -> None:
    for name in ("History", "What-if"):
        shown.open(name)
        check(shown)


@few
def test_a_question_of_an_application_is_asked_for_and_left_from_the_keyboard(shown: Shown) -> None:
    tab = shown.tab
    shown.open("Application")
    for button, verb in (("Change deadline or priority…", "Change it"), ("End it…", "End it")):
        opener, dialog = tab.get_by_role("button", name=button), tab.get_by_role("dialog")
        go_to(opener)
        tab.keyboard.press("Enter")
        dialog.wait_for()
        assert findings(tab, "dialog") == []
        assert walk(tab)[-2:] == ["Leave it", verb]
        go_to(dialog.get_by_role("button", name="Leave it"), "Shift+Tab")
        tab.keyboard.press("Enter")
        dialog.wait_for(state="hidden")
        assert has_focus(opener)


@few
def test_faint_text_a_missing_ring_and_a_wide_heading_are_found(shown: Shown) -> None:
    shown.open("Cluster")
    go_to(shown.tab.get_by_role("link", name="Skip to the content"), "Shift+Tab")
    shown.tab.locator("nav a").first.evaluate("one => { one.style.color = '#777'; one.style.outline = 'none'; }")
    shown.tab.locator("h1").evaluate("one => { one.style.width = '2000px'; }")
    assert [finding.partition(":")[0] for finding in findings(shown.tab, "nav")] == ["color-contrast"]
    with pytest.raises(AssertionError, match="Cluster"):
        walk(shown.tab)
    assert any(found.startswith("html") for found in shown.tab.evaluate(TOO_WIDE, CUT_OFF))
