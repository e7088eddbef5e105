"""The live page of a real cluster in a real Chromium: a job with a deadline is watched from its start to its end."""

from __future__ import annotations

import json
import re
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from stage_model.units import parse_duration
from tests.fakes.browser import tab_of
from tests.integration.local_cluster import PATIENCE_S, LocalCluster, eventually
from tests.integration.pacing import AIM, deadline_for

if TYPE_CHECKING:
    from playwright.sync_api import Locator, Page

pytestmark = [pytest.mark.slow, pytest.mark.spark, pytest.mark.browser]
LINK = "Open this within 5 minutes: "
STAGES = ("stages.py", "--work", "4", "--tasks", "6", "--rounds", "3")
ATTEMPTS = re.compile("^Stages$")  # not "Largest stages"
ALL, BEFORE_FILE = 6, 4
"""Two stages a round; the last round waits for the file."""


@contextmanager
def live_page(cluster: LocalCluster) -> Iterator[str]:
    """Run `sparkpace ui` as a process; provide its first link. Ctrl-C ends it."""
    serving = cluster.start(cluster.sparkpace().command(("ui", "--port", "0")))

    def printed() -> str | None:
        assert serving.process.poll() is None, serving.err.read_text()
        lines = serving.out.read_text().splitlines()
        return next((line.removeprefix(LINK) for line in lines if line.startswith(LINK)), None)

    yield eventually(printed, "a link")
    serving.interrupt()
    assert serving.process.wait(PATIENCE_S) in {0, -signal.SIGINT}


def figure(tab: Page, key: str) -> str:
    return tab.locator(f"[data-figure={key}]").inner_text()


def wait_for_figure(tab: Page, key: str, pattern: str) -> None:
    tab.locator(f"[data-figure={key}]").filter(has_text=re.compile(pattern)).wait_for()


def rows(tab: Page, region: str | re.Pattern[str]) -> Locator:
    return tab.get_by_role("region", name=region).locator("tbody tr")


def assert_shown(end: str, error: str, summary: dict[str, Any]) -> None:
    """Assert that both are shown as people read them: to a tenth, or to the second beyond a minute."""
    assert parse_duration(end) == pytest.approx(summary["end_s"], abs=0.51 if "m" in end else 0.051)
    share, side = error.split()
    assert float(share.removesuffix("%")) == pytest.approx(abs(summary["error_pct"]), abs=0.051)
    assert side == ("late" if summary["violated"] else "early")


def test_a_job_is_watched_from_its_start_to_its_end_and_kept(
    process_cluster: LocalCluster, chromium: Path, stop_file: Path
) -> None:
    words = ("--name", "watched", "--executor-cores", "1")
    job = (*STAGES, "--hold", str(stop_file))
    stop_file.touch()
    assert process_cluster.run(*words, *job).ok().answer["ok"]
    deadline = f"{deadline_for(process_cluster.summary('watched')['end_s']):.0f}s"
    stop_file.unlink()
    with live_page(process_cluster) as link, tab_of(chromium) as tab:
        tab.set_default_timeout(1000 * PATIENCE_S)
        tab.goto(link)
        running = process_cluster.submit(*words, "--deadline", deadline, *AIM, *job)
        tab.get_by_role("region", name="Running applications").get_by_role("link", name="watched").click()

        # It cannot end before the file is there.
        wait_for_figure(tab, "stages", f"^{BEFORE_FILE} of")
        wait_for_figure(tab, "progress", "^[1-9]")
        rows(tab, "Changes of CPU quotas").first.wait_for()
        assert figure(tab, "state") == "running"
        rows(tab, ATTEMPTS).nth(BEFORE_FILE - 1).wait_for()
        stop_file.touch()
        assert running.finish().ok().answer["ok"]

        summary = process_cluster.summary("watched")
        wait_for_figure(tab, "state", "^succeeded$")
        assert_shown(figure(tab, "elapsed_s"), figure(tab, "distance"), summary)
        # The driver has gone; a viewer that comes now sees it, too.
        for _ in range(2):
            rows(tab, "Changes of CPU quotas").first.wait_for()
            rows(tab, ATTEMPTS).nth(ALL - 1).wait_for()
            assert figure(tab, "state") == "succeeded"
            assert not tab.get_by_role("button", name="End it…").is_visible()
            tab.reload()
            wait_for_figure(tab, "state", "^succeeded$")

        said = process_cluster.sparkpace().need("explain", summary["app_id"], "--output", "json")
        bounds = [[one["name"], str(one["number"]), one["bound"]] for one in json.loads(said)["largest_stages"]]
        rows(tab, "Largest stages").first.wait_for()
        shown_bounds = [row.locator("th, td").all_inner_texts()[:3] for row in rows(tab, "Largest stages").all()]
        assert shown_bounds == bounds

        tab.get_by_role("link", name="History").click()
        tab.get_by_role("region", name="Jobs, by profile").get_by_role("link", name="watched").click()
        row = rows(tab, "Runs, the newest first").filter(has_text=summary["app_id"])
        assert_shown(row.locator("td").nth(2).inner_text(), row.locator("td").nth(3).inner_text(), summary)

        tab.get_by_role("link", name="What if it had fewer cores?").click()
        said = process_cluster.sparkpace().need("plan", "--profile", summary["profile"], "--curve", "--output", "json")
        last = json.loads(said)["curve"]["points"][-1]
        shown = rows(tab, "Cores against end").last.locator("th, td")
        assert shown.nth(0).inner_text() == f"{last['cores']:.2f}"
        assert parse_duration(shown.nth(1).inner_text()) == pytest.approx(last["end_s"], abs=0.51)
