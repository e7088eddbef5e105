"""The live page in a real Chromium, before a real master: what is seen is what the API says, whatever names say."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from controller.ui.server import RUNS_S
from controller.wire.command import PlanRequest
from controller.wire.driver import ExecutorWish
from controller.wire.worker import OrderedQuota
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
    """Run two jobs, one with a hostile name."""
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


def open_page(page: ServedPage, tab: Page, route: str = "") -> None:
    tab.goto(page.links[-1])
    tab.get_by_role("heading", name="Cluster").wait_for()
    page.look()
    if route:
        tab.evaluate("route => { location.hash = route; }", route)


def cells(tab: Page, region: str) -> list[list[str]]:
    rows = tab.get_by_role("region", name=region).locator("tbody tr")
    return [row.locator("th, td").all_inner_texts() for row in rows.all()]


@pytest.fixture(params=["light", "dark"])
def tab(chromium: Path, jobs: list[str], request: pytest.FixtureRequest) -> Iterator[Page]:
    """Open a tab in one theme. The jobs are there before, because Playwright has a loop of its own on this thread."""
    with tab_of(chromium, color_scheme=request.param) as tab:
        yield tab


def test_it_shows_what_the_api_says_and_names_are_texts(page: ServedPage, jobs: list[str], tab: Page) -> None:
    open_page(page, tab)
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
    assert not any(call.endswith("/explain") for call in page.master.calls), "no run teaches its largest stages"


def test_a_job_is_ended_from_the_keyboard_once_that_is_confirmed(page: ServedPage, jobs: list[str], tab: Page) -> None:
    job = jobs[1]
    open_page(page, tab)
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


def test_enter_in_the_dialog_makes_the_change(page: ServedPage, jobs: list[str], tab: Page) -> None:
    open_page(page, tab, f"#/application/{jobs[1]}")
    tab.get_by_role("button", name="Change deadline or priority…").press("Enter")
    tab.keyboard.type("someday")
    tab.keyboard.press("Enter")
    tab.get_by_role("dialog").get_by_role("alert").filter(has_text="deadline 'someday'").wait_for()
    tab.get_by_role("dialog").get_by_label("Deadline:").fill("90s")
    tab.get_by_role("dialog").get_by_label("Priority:").fill("high")
    tab.keyboard.press("Enter")
    tab.get_by_role("dialog").wait_for(state="hidden")
    view = page.master.client().application(jobs[1])
    assert (view.deadline_s, view.priority) == (90.0, 100)
    page.look()
    tab.locator("[data-figure=priority]").filter(has_text="high").wait_for()


def test_an_application_keeps_its_colour(page: ServedPage, jobs: list[str], tab: Page) -> None:
    def legend(smallest: str) -> dict[str, str]:
        tab.locator(".legend li").first.filter(has_text=smallest).wait_for()
        script = "list => [...list.children].map(one => [one.textContent, one.firstChild.style.color])"
        return dict(tab.locator(".legend").evaluate(script))

    def grant(*quotas: float) -> None:
        running = [report(job, "1", quota_cores=cores) for job, cores in zip(jobs, quotas, strict=True)]
        page.master.cluster.worker("w1", *running)

    grant(0.6, 0.2)
    open_page(page, tab)
    before = legend("second")
    assert len(set(before.values())) == 2
    grant(0.1, 0.9)
    page.look()
    assert legend(HOSTILE) == before
    tab.reload()
    tab.get_by_role("heading", name="Cluster").wait_for()
    assert legend(HOSTILE) == before


def test_quota_changes_of_several_executors_are_sorted_by_time(page: ServedPage, chromium: Path) -> None:
    cluster = page.master.cluster
    for worker in ("w1", "w2"):
        cluster.worker(worker)
    wish = {"0": ExecutorWish(count=2)}
    job = cluster.register(wanted=wish)
    cluster.driver(job, *one_stage_run(1000)[:-3], wanted=wish)
    for worker, times in (("w1", (1.5, 5.5)), ("w2", (3.5, 4.5))):
        [placed] = cluster.worker(worker).desired.executors
        ordered = tuple(OrderedQuota(time_s=at, before=None, cores=0.5, reason="r") for at in times)
        running = report(job, placed.executor_id)
        cluster.worker(worker, running)
        samples = (sample(job, placed.executor_id, 6.0, ordered=ordered),)
        cluster.worker(worker, running, samples=samples, sample_seq=0)
    with tab_of(chromium) as tab:
        open_page(page, tab, f"#/application/{job}")
        tab.get_by_text("The records are being read.").wait_for()
        page.look()
        tab.get_by_role("cell", name="no limit").nth(3).wait_for()
        assert [row[0] for row in cells(tab, "Changes of CPU quotas")] == ["5.5s", "4.5s", "3.5s", "1.5s"]


def test_what_bounds_the_largest_stages_is_asked_for_once_and_long_names_are_cut(page: ServedPage, chromium: Path) -> None:
    name = HOSTILE + "x" * 300
    ended_run(page.master.cluster, "nightly", 0, stage=name)
    job = page.master.cluster.register(name="nightly", main="nightly.py")
    [bound] = page.master.client().explain(job).largest_stages
    page.master.calls.clear()
    with tab_of(chromium) as tab:
        open_page(page, tab, f"#/application/{job}")
        table = tab.get_by_role("table", name="Largest stages")
        table.get_by_role("rowheader", name=HOSTILE).wait_for()
        heads = ["Stage", "Number", "Bound by", "Tasks", "Time", "Share of the run"]
        assert table.get_by_role("columnheader").all_inner_texts() == heads
        figures = [bound.bound, str(bound.tasks), f"{bound.time_s:.1f}s", f"{bound.share:.0%}"]
        assert cells(tab, "Largest stages") == [[f"{name[:200]}…", "1", *figures]]
        page.look()
        page.look()
        page.master.client().kill(job)
        page.look()
        tab.locator("#reason", has_text="it was killed").wait_for()
    assert [call.endswith("/explain") for call in page.master.calls].count(True) == 1


def test_how_applications_ended_and_who_will_be_late_is_said_in_words(page: ServedPage, chromium: Path) -> None:
    cluster = page.master.cluster
    early, late = (ended_run(cluster, "nightly", number) for number in (0, 5))
    killed = cluster.register(name="stopped", conf={"spark.pace.deadline": "90s"})
    cluster.driver(killed, *one_stage_run(1000)[:-3])
    page.master.client().kill(killed)
    cluster.worker("w1")
    running = cluster.register(name="nightly", conf={"spark.pace.deadline": "90s"})
    cluster.driver(running, *one_stage_run(1000)[:-3])
    placed = cluster.worker("w1")
    samples = (sample(running, "1", 1.0, forecast_end_s=200.0),)
    cluster.worker("w1", report(running, "1"))
    cluster.worker("w1", report(running, "1"), samples=samples, sample_seq=placed.samples_acknowledged)
    views = {view.application_id: view for view in page.master.client().applications()}
    reason = views[late].lateness
    assert reason is not None
    by = {job: 100 * abs(views[job].elapsed_s / (views[job].deadline_s or 1) - 1) for job in (early, late)}
    with tab_of(chromium) as tab:
        open_page(page, tab)
        tab.get_by_role("link", name="stopped").wait_for()
        rows = cells(tab, "Ended applications")
        assert [(row[0], row[1], row[2], row[4]) for row in rows] == [
            ("stopped", "normal", "1m30s", "it was killed"),
            (f"nightly …{late[-6:]}", "normal", "11.9s", f"late by {by[late]:.1f}%: {reason.sentence}"),
            (f"nightly …{early[-6:]}", "normal", "11.4s", f"early by {by[early]:.1f}%"),
        ]
        [row] = cells(tab, "Running applications")
        assert (row[0], row[4]) == (f"nightly …{running[-6:]}", "3m20s, late since 1.0s")
        tab.get_by_role("link", name="stopped").press("Enter")
        tab.get_by_text("The records are being read.").wait_for()
        page.look()
        tab.get_by_role("cell", name="cut off").wait_for()
        assert tab.locator(".bar.active").count() == 0
        for figure in ("distance", "lateness"):
            assert tab.locator(f"[data-figure={figure}]").inner_text() == "–"
        open_page(page, tab, f"#/application/{late}")
        for figure, said in (("lateness", reason), ("basis", views[late].basis)):
            assert said is not None
            tab.locator(f"[data-figure={figure}]", has_text=said.sentence).wait_for()


def test_pipelines_are_shown_where_there_are_any(page: ServedPage, chromium: Path) -> None:
    cluster = page.master.cluster
    cluster.worker("w1")
    cluster.register(name="alone")
    with tab_of(chromium) as tab:
        open_page(page, tab)
        waiting = tab.get_by_role("region", name="Applications that wait")
        waiting.get_by_role("link", name="alone").wait_for()
        assert waiting.get_by_role("columnheader", name="Pipeline").count() == 0
    conf = {"spark.pace.pipeline": "daily", "spark.pace.pipeline.by": "90s"}
    cluster.register(name="member", instance="other", conf=conf)
    with tab_of(chromium) as tab:
        open_page(page, tab)
        tab.get_by_role("columnheader", name="Pipeline").first.wait_for()
        assert [row[:2] for row in cells(tab, "Applications that wait")] == [["alone", "–"], ["member", "daily"]]
        tab.get_by_role("link", name="member").press("Enter")
        tab.locator("[data-figure=pipeline]").filter(has_text="daily").wait_for()


def test_where_there_is_nothing_to_draw_a_sentence_says_so(page: ServedPage, chromium: Path) -> None:
    with tab_of(chromium) as tab:
        open_page(page, tab)
        tab.get_by_text("No application has been granted cores").wait_for()
        tab.get_by_role("link", name="What-if").click()
        tab.get_by_text("No run that is kept has a profile").wait_for()
    page.master.cluster.finished_run()
    page.master.cluster.register(name="waits", instance="other")
    page.now_s += RUNS_S
    with tab_of(chromium) as tab:
        open_page(page, tab, "#/history")
        tab.get_by_text("No run that succeeded had a deadline.").wait_for()
        tab.get_by_role("link", name="Application").click()
        tab.get_by_role("heading", name="waits").wait_for()
        tab.get_by_text("No stage has reported its progress.").wait_for()
        tab.get_by_text("No executor has reported its cores.").wait_for()
        assert not tab.locator(".chart canvas").first.is_visible()


def test_an_unknown_application_is_one_sentence(page: ServedPage, chromium: Path) -> None:
    with tab_of(chromium) as tab:
        open_page(page, tab, "#/application/pace-20200101-000000-abcdef")
        tab.get_by_text("The records are being read.").wait_for()
        page.look()
        tab.get_by_text("no application or run 'pace-20200101-000000-abcdef' is known").wait_for()
        assert not tab.locator("dl.figures").is_visible()
        assert not tab.locator("table").first.is_visible()


def test_a_run_that_was_killed_counts_in_no_core_seconds(page: ServedPage, chromium: Path) -> None:
    cluster = page.master.cluster
    for number in range(2):
        ended_run(cluster, "nightly", number)
    killed = cluster.register(name="nightly", main="nightly.py")
    cluster.driver(killed, *one_stage_run(1000)[:-3])
    page.master.client().kill(killed)
    cluster.driver(killed, ended=True)
    cluster.worker("w1")
    cluster.state.tick(cluster.now_s)
    first, second, _ = page.master.client().runs()
    assert first.used_core_s is not None
    assert second.used_core_s is not None
    with tab_of(chromium) as tab:
        open_page(page, tab, "#/history")
        tab.get_by_text("it was killed").wait_for()
        [row] = cells(tab, "Jobs, by profile")
        drift = 100 * (second.used_core_s / first.used_core_s - 1)
        assert (row[1], row[5], row[7]) == ("3", f"{second.used_core_s:.1f}", f"{drift:+.1f}%")


def test_savings_are_shown_where_a_run_was_only_watched(page: ServedPage, chromium: Path) -> None:
    ended_run(page.master.cluster, "paced", 0)
    with tab_of(chromium) as tab:
        open_page(page, tab, "#/history")
        tab.get_by_role("heading", name="paced (paced@paced.py)").wait_for()
        assert not tab.get_by_role("heading", name="Savings").is_visible()
    for number in range(2):
        ended_run(page.master.cluster, HOSTILE, number, observe=True)
    page.now_s += RUNS_S
    savings = page.master.client().savings().savings
    newest = savings.applications[-1]
    assert newest.saved_core_s is not None
    assert newest.on_time is not None
    with tab_of(chromium) as tab:
        open_page(page, tab, "#/history")
        tab.get_by_role("heading", name="Savings").wait_for()
        first, second = cells(tab, "Runs that were only watched")
        assert (first[:2], first[2]) == ([newest.application_id, HOSTILE], "yes" if newest.on_time else "no")
        assert first[6:10] == [
            f"{newest.held_core_s:.0f}",
            f"{newest.used_core_s:.0f}",
            f"{newest.saved_core_s:.0f}",
            f"{newest.least_core_s:.0f} to {newest.most_core_s:.0f}",
        ]
        assert second[8:] == [f"{savings.applications[0].saved_core_s:.0f}", "not known", "one run gives no interval"]
        assert f"{savings.saved_core_s:.0f} saved (interval: not known)" in tab.locator("#saved").inner_text()
        assert tab.locator("main img:not([role])").count() == 0
        tab.get_by_role("region", name="Runs that were only watched").focus()
        tab.keyboard.press("Tab")
        tab.keyboard.press("Enter")
        tab.wait_for_url(re.compile(rf"#/application/{newest.application_id}$"))
        tab.get_by_role("heading", name=HOSTILE, exact=True).wait_for()


def test_a_table_says_of_how_many_it_shows_the_first(page: ServedPage, chromium: Path) -> None:
    for _ in range(MOST_ROWS + 5):
        page.master.cluster.register()
    with tab_of(chromium) as tab:
        open_page(page, tab)
        tab.get_by_text(f"the first {MOST_ROWS} of {MOST_ROWS + 5}").wait_for()
        waiting = tab.get_by_role("region", name="Applications that wait").locator("tbody tr")
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
        assert "only 2 runs" in tab.get_by_role("region", name="What would be").inner_text()
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
        legend = tab.locator(".legend")
        legend.get_by_text(f"deadline {deadline_s:.1f}s").wait_for()
        assert [legend.locator(f".{line}").count() for line in ("dashed", "dotted")] == [1, 1]

        tab.get_by_label("Cores to itself").fill("99")
        tab.keyboard.press("Enter")
        tab.get_by_role("alert").filter(has_text=re.compile(r"99 .*1\.00")).wait_for()
        assert not tab.get_by_role("region", name="What would be").is_visible()


def test_a_jobs_history_leads_to_what_if(page: ServedPage, chromium: Path) -> None:
    ended_run(page.master.cluster, HOSTILE, 0)
    with tab_of(chromium) as tab:
        tab.goto(page.links[-1])
        tab.get_by_role("link", name="History").click()
        page.look()
        tab.get_by_role("link", name="What if it had fewer cores?").press("Enter")
        tab.get_by_text("A single run gives no interval.").wait_for()
        assert tab.get_by_label("Profile").input_value().startswith("_img_src_x")
