"""The live page in a real Chromium, before a real master: what is seen is what the API says, whatever names say."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.fakes.browser import tab_of
from tests.fakes.cluster import one_stage_run, report, sample
from tests.fakes.served import ServedPage, served

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = pytest.mark.browser
MOST_ROWS = 200
HOSTILE = "<img src=x onerror=document.title='hacked'>"


@pytest.fixture
def page(tmp_path: Path) -> Iterator[ServedPage]:
    with served(tmp_path) as running:
        yield running


@pytest.fixture
def jobs(page: ServedPage) -> list[str]:
    """Two that run, one with a hostile name."""
    cluster = page.master.cluster
    cluster.worker("w1")
    jobs = [cluster.register(name=name) for name in (HOSTILE, "second")]
    for job in jobs:
        cluster.driver(job, *one_stage_run(1000)[:-3])
    running = [report(job, "1", quota_cores=0.4, demand_cores=0.55) for job in jobs]
    samples = tuple(sample(job, "1", float(second), progress=second / 20) for second in range(10) for job in jobs)
    cluster.worker("w1", *running)
    cluster.worker("w1", *running, samples=samples, sample_seq=0)
    return jobs


@pytest.fixture(params=["light", "dark"])
def tab(chromium: Path, jobs: list[str], request: pytest.FixtureRequest) -> Iterator[Page]:
    """In one theme. The jobs are there before, as Playwright has a loop of its own on this thread."""
    with tab_of(chromium, color_scheme=request.param) as tab:
        yield tab


def test_it_shows_what_the_api_says_and_names_are_texts(page: ServedPage, jobs: list[str], tab: Page) -> None:
    tab.goto(page.links[-1])
    tab.get_by_role("heading", name="Cluster").wait_for()
    page.look()
    tab.get_by_role("link", name=HOSTILE).wait_for()
    assert "0.80 of 1.00 cores granted, 1.10 demanded" in tab.locator("#sums").inner_text()
    assert tab.locator("main img:not([role])").count() == 0
    tab.get_by_role("link", name=HOSTILE).press("Enter")
    tab.get_by_role("heading", name=HOSTILE).wait_for()
    page.look()
    tab.get_by_role("row", name="collect at /x/app.py:1").wait_for()
    [view] = [view for view in page.master.client().applications() if view.application_id == jobs[0]]
    shown = {key: tab.locator(f"[data-figure={key}]").inner_text() for key in ("granted_cores", "demand_cores", "used_cores")}
    assert shown == {key: f"{getattr(view, key):.2f}" for key in shown}
    assert tab.locator("[data-figure=state]").inner_text() == view.state
    assert tab.title() == f"{HOSTILE} · Sparkpace"


def test_a_job_is_ended_from_the_keyboard_once_that_is_confirmed(page: ServedPage, jobs: list[str], tab: Page) -> None:
    job = jobs[1]
    tab.goto(page.links[-1])
    tab.get_by_role("heading", name="Cluster").wait_for()
    page.look()
    tab.get_by_role("link", name="second").press("Enter")
    tab.get_by_role("button", name="End it…").wait_for()
    tab.get_by_role("button", name="End it…").press("Enter")
    tab.keyboard.press("Enter")  # on what has the focus: to leave it
    tab.get_by_role("dialog").wait_for(state="hidden")
    assert page.master.client().application(job).state == "running"
    tab.get_by_role("button", name="End it…").press("Enter")
    tab.keyboard.press("Tab")
    tab.keyboard.press("Enter")
    tab.get_by_role("dialog").wait_for(state="hidden")
    assert page.master.client().application(job).state == "ended"
    page.look()
    tab.get_by_text("it was killed").first.wait_for()
    assert not tab.get_by_role("button", name="End it…").is_visible()


def test_a_table_says_of_how_many_it_shows_the_first(page: ServedPage, chromium: Path) -> None:
    for _ in range(MOST_ROWS + 5):
        page.master.cluster.register()
    with tab_of(chromium) as tab:
        tab.goto(page.links[-1])
        tab.get_by_role("heading", name="Cluster").wait_for()
        page.look()
        tab.get_by_text(f"the first {MOST_ROWS} of {MOST_ROWS + 5}").wait_for()
        assert tab.get_by_role("region", name="Who waits").locator("tbody tr").count() == MOST_ROWS
