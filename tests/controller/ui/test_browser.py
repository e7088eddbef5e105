"""The live page in a real Chromium, before a real master: what is seen is what the API says, whatever names say."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from controller.wire.command import PlanRequest
from tests.controller.ui.made_runs import ended_run
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
        waiting = tab.get_by_role("region", name="Who waits").locator("tbody tr")
        assert waiting.count() == MOST_ROWS
        assert [waiting.nth(index).locator("td").nth(0).inner_text() for index in (0, 1, 199)] == ["1", "2", "200"]


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_what_if_shows_the_masters_curve_and_is_asked_from_the_keyboard(page: ServedPage, chromium: Path, theme: str) -> None:
    for number in range(2):
        ended_run(page.master.cluster, "nightly", number)
    reply = page.master.client().plan(PlanRequest(profile="nightly@nightly.py", curve=True))
    assert reply.curve is not None
    last = reply.curve.points[-1]
    with tab_of(chromium, color_scheme=theme) as tab:
        tab.goto(page.links[-1])
        tab.get_by_role("heading", name="Cluster").wait_for()
        tab.get_by_role("link", name="What-if").press("Enter")
        tab.get_by_role("heading", name="What-if").wait_for()
        page.look()
        tab.locator("#profiles option[value='nightly@nightly.py']").wait_for(state="attached")

        tab.get_by_label("Profile").fill("nightly@nightly.py")
        tab.keyboard.press("Enter")
        rows = tab.get_by_role("region", name="Cores against end").locator("tbody tr")
        rows.nth(7).wait_for()
        shown = rows.nth(7).locator("th, td").all_inner_texts()
        assert shown[:2] == [f"{last.cores:.2f}", f"{last.end_s:.1f}s"]
        assert "2 runs alone" in tab.get_by_role("region", name="What would be").inner_text()
        assert tab.locator("[data-figure=needed]").inner_text() == "–"
        assert (
            tab.get_by_role("img", name=re.compile(rf"with {last.cores:.2f} {last.end_s:.1f}s")).locator("canvas").count()
            == 1
        )

        deadline_s = 3 * last.end_s
        tab.get_by_label("Deadline after submission").fill(f"{deadline_s:.2f}s")
        tab.keyboard.press("Tab")
        tab.keyboard.type("0.8")
        tab.keyboard.press("Enter")
        asked = PlanRequest(profile="nightly@nightly.py", deadline_s=round(deadline_s, 2), most_cores=0.8)
        answer = page.master.client().plan(asked)
        assert answer.cores is not None
        tab.locator("[data-figure=needed]").filter(has_text=f"{answer.cores:.2f}").wait_for()
        assert tab.locator("[data-figure=least]").inner_text() == f"{answer.least_deadline_s:.1f}s with 0.80"

        tab.get_by_label("Cores to itself").fill("99")
        tab.keyboard.press("Enter")
        tab.get_by_role("alert").filter(has_text="99 cores are not there; accepted: more than 0, at most 1.00").wait_for()
        assert not tab.get_by_role("region", name="What would be").is_visible()


def test_a_jobs_history_leads_to_what_if(page: ServedPage, chromium: Path) -> None:
    ended_run(page.master.cluster, HOSTILE, 0)
    with tab_of(chromium) as tab:
        tab.goto(page.links[-1])
        tab.get_by_role("link", name="History").click()
        page.look()
        tab.get_by_role("link", name="What if it had fewer cores?").press("Enter")
        tab.get_by_text("One run alone gives no interval.").wait_for()
        assert tab.get_by_label("Profile").input_value().startswith("_img_src_x")
