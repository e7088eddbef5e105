"""The live page's server before a real master: the browsers that get in, and the data that each is served."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from controller.client import LastingClient
from controller.ui.entrance import LINK_S
from controller.ui.server import FOLDER, POLICY, STATIC
from controller.wire.command import ApplicationView, PlanRequest, WorkerView
from controller.wire.course import EndedRun, RunSavings, Savings
from controller.wire.worker import OrderedQuota
from stage_model.errors import BadInput, Denied
from stage_model.forecast.bounds import StageBound
from tests.controller.ui.made_runs import ended_run
from tests.fakes.cluster import one_stage_run, report, sample
from tests.fakes.served import ServedPage, Stream, served

CALLS = ("events", "runs", "savings", "plan?profile=x", *(f"applications/x/{what}" for what in ("explain", "set", "kill")))


@pytest.fixture
def page(tmp_path: Path) -> Iterator[ServedPage]:
    with served(tmp_path) as running:
        yield running


def running_job(page: ServedPage, **changed: object) -> str:
    """Run a job on worker w1, with a stage under way, two samples and a quota that was changed."""
    cluster = page.master.cluster
    cluster.worker("w1")
    job = cluster.register(**changed)
    cluster.driver(job, *one_stage_run(1000)[:-3])
    quota = OrderedQuota(time_s=1.5, before=None, cores=0.75, reason="forecast: 0.75 cores for the application")
    samples = (sample(job, "1", 1.0, quota=0.5), sample(job, "1", 2.0, quota=0.75, ordered=(quota,)))
    running = report(job, "1", quota_cores=0.75, demand_cores=0.8)
    cluster.worker("w1", running)
    cluster.worker("w1", running, samples=samples, sample_seq=0)
    return job


def method_of(path: str) -> str:
    return "POST" if path.endswith(("set", "kill")) else "GET"


def post(page: ServedPage, path: str, said: object) -> tuple[int, dict[str, Any]]:
    """Ask for a change of an application, as a viewer's browser does; return the status and the answer."""
    own = {"Cookie": page.signed_in(), "Origin": f"http://{page.host}"}
    answer, body = page.call(f"applications/{path}", method="POST", body=json.dumps(said).encode(), **own)
    return answer.status, json.loads(body)


def test_a_link_gives_a_cookie_that_scripts_and_other_sites_do_not_get(page: ServedPage) -> None:
    [link] = page.links
    answer, _ = page.call(link.partition(page.host)[2])
    assert (answer.status, answer.getheader("location")) == (303, page.entrance.path)
    cookie = str(answer.getheader("set-cookie"))
    assert {"HttpOnly", "SameSite=strict", f"Path={page.entrance.path}"} <= set(cookie.split("; "))
    again, said = page.call(link.partition(page.host)[2])
    assert (again.status, again.getheader("set-cookie"), said != b"") == (403, None, True)
    assert len(page.links) == 2, "the next viewer's link is printed"


def test_a_link_that_is_too_old_is_refused_and_a_new_one_is_printed(page: ServedPage) -> None:
    page.now_s += LINK_S
    answer, _ = page.call(page.links[0].partition(page.host)[2])
    assert answer.status == 403
    assert len(page.links) == 2
    assert page.signed_in()


@pytest.mark.parametrize("path", CALLS)
def test_the_master_shows_nothing_to_a_browser_that_has_not_signed_in(page: ServedPage, path: str) -> None:
    for cookie in ("", "sparkpace=guess", "sparkpace="):
        answer, said = page.call(path, method=method_of(path), body=b"{}", Origin=f"http://{page.host}", Cookie=cookie)
        assert (answer.status, json.loads(said)["exit_code"]) == (401, Denied.exit_code)
    assert page.master.calls == []


@pytest.mark.parametrize(
    "headers",
    [
        {"host": "rebound.example:80"},
        {"Origin": "http://evil.example"},
        {"Origin": "http://127.0.0.1:4040"},
        {"Sec_Fetch_Site": "cross-site"},
        {"Sec_Fetch_Site": "same-site"},
    ],
)
def test_another_pages_calls_are_refused_whatever_their_cookie(page: ServedPage, headers: dict[str, str]) -> None:
    cookie = page.signed_in()
    for path in ("", *CALLS):
        own = {} if method_of(path) == "GET" else {"Origin": f"http://{page.host}"}
        answer, _ = page.call(path, method=method_of(path), body=b"{}", **({"Cookie": cookie} | own | headers))
        assert answer.status == 403
    assert page.master.calls == []


def test_a_change_without_an_origin_is_refused(page: ServedPage) -> None:
    answer, _ = page.call("applications/x/kill", method="POST", body=b"{}", Cookie=page.signed_in())
    assert answer.status == 403
    assert page.master.calls == []


def test_everything_has_the_policy_and_nothing_is_outside_the_secret_path(page: ServedPage) -> None:
    cookie = page.signed_in()
    for path in ("", *STATIC, "events-not", "enter?once=x", "/", "/page.js", "/enter", "runs"):
        answer, _ = page.call(path, Cookie=cookie)
        assert answer.getheader("content-security-policy") == POLICY
        assert answer.getheader("cache-control") == "no-store"
        assert (answer.status == 404) == (path.startswith("/") or path == "events-not")


def test_the_masters_tokens_are_in_nothing_that_is_served(page: ServedPage) -> None:
    cookie, home = page.signed_in(), page.master.home
    job = running_job(page)
    stream = Stream(page, cookie, f"?past=1&application={job}")
    page.look()
    received = b"".join(stream.next()[1] for _ in range(3))
    stream.close()
    for path in ("", *STATIC, "runs", "savings", f"applications/{job}/explain"):
        answer, body = page.call(path, Cookie=cookie)
        received += body + str(answer.getheaders()).encode()
    assert job.encode() in received
    assert home.submit_token().encode() not in received
    assert home.admin_token().encode() not in received


def test_five_viewers_cost_the_master_one_look_and_see_what_it_says(page: ServedPage) -> None:
    job = running_job(page)
    streams = [Stream(page, page.signed_in()) for _ in range(5)]
    page.look()
    seen = [stream.next() for stream in streams]
    assert page.master.calls == ["/v1/applications", "/v1/workers"]
    assert {name for name, _ in seen} == {"cluster"}
    assert len({data for _, data in seen}) == 1
    picture = json.loads(seen[0][1])
    [view] = page.master.client().applications()
    assert picture["applications"] == [json.loads(msgspec.json.encode(view))]
    assert picture["applications"][0]["application_id"] == job
    assert picture["applications"][0]["granted_cores"] == 0.75
    assert [worker["worker_id"] for worker in picture["workers"]] == ["w1"]
    for stream in streams:
        stream.close()


def test_viewers_of_an_application_get_its_course(page: ServedPage) -> None:
    job, cookie = running_job(page), page.signed_in()
    stream = Stream(page, cookie, f"?application={job}")
    page.look()
    assert stream.next()[0] == "cluster"
    name, data = stream.next()
    course = json.loads(data)
    assert (name, course["application_id"], course["first"], course["problem"]) == ("course", job, 0, "")
    assert [(point[0], point[5]) for point in course["points"]] == [(1.0, 0.5), (2.0, 0.75)]
    [quota] = course["quotas"]
    assert (quota["executor_id"], quota["cores"], quota["reason"]) == ("1", 0.75, "forecast: 0.75 cores for the application")
    [stage] = course["stages"]
    assert (stage["stage"], stage["tasks"], stage["name"]) == (0, 4, "collect at /x/app.py:1")
    page.look()
    stream.next()
    again = json.loads(stream.next()[1])
    assert (again["quotas"], again["stages"]) == ([], [])
    stream.close()


def test_it_stays_when_the_driver_and_the_record_of_the_master_are_gone(page: ServedPage) -> None:
    cluster = page.master.cluster
    job = cluster.finished_run(name="gone")
    stream = Stream(page, page.signed_in(), f"?application={job}")
    page.look()
    [view] = json.loads(stream.next()[1])["applications"]
    assert (view["state"], view["finished"], view["name"]) == ("ended", True, "gone")
    assert [stage["end_s"] is not None for stage in json.loads(stream.next()[1])["stages"]] == [True]
    stream.close()
    answer, said = page.call("runs", Cookie=page.signed_in())
    assert (answer.status, [run["app_id"] for run in json.loads(said)["runs"]]) == (200, [job])


@pytest.mark.parametrize("name", ["..%2Fprofiles", "pace-20200101-000000-abcdef"])
def test_a_viewer_of_an_unknown_run_is_informed(page: ServedPage, name: str) -> None:
    stream = Stream(page, page.signed_in(), f"?application={name}")
    page.look()
    stream.next()
    problem = json.loads(stream.next()[1])["problem"]
    assert "no application or run" in problem or "has no call" in problem
    stream.close()


def test_a_master_that_is_away_is_shown_and_the_last_look_stays(page: ServedPage) -> None:
    running_job(page)
    stream = Stream(page, page.signed_in())
    page.look()
    before = json.loads(stream.next()[1])
    page.poller.client = LastingClient("https://127.0.0.1:1", page.master.home.ca_file)
    page.look()
    away = json.loads(stream.next()[1])
    assert "no Sparkpace master answers" in away["trouble"]
    assert away["applications"] == before["applications"]
    page.poller.client = page.lasting
    page.look()
    assert json.loads(stream.next()[1])["trouble"] == ""
    stream.close()


def test_set_and_kill_reach_the_master_and_its_refusals_come_back(page: ServedPage) -> None:
    job = running_job(page)
    assert post(page, f"{job}/set", {"deadline": "90s", "priority": "high", "force": True}) == (200, {})
    view = page.master.client().application(job)
    assert (view.deadline_s, view.priority) == (90.0, 100)
    refused: list[object] = [{}, {"priority": "1e9"}, {"other": 1}, [], {"deadline": "x" * 5000}]
    for asked in refused:
        status, said = post(page, f"{job}/set", asked)
        assert (status, said["exit_code"]) == (400, BadInput.exit_code), said
    assert page.master.client().application(job).deadline_s == 90.0
    assert post(page, f"{job}/kill", {}) == (200, {})
    view = page.master.client().application(job)
    assert (view.state, view.reason) == ("ended", "it was killed")
    status, said = post(page, "missing/kill", {})
    assert (status, "missing" in said["error"]) == (400, True)


def test_a_plan_is_the_masters_and_what_it_cannot_answer_is_said(page: ServedPage) -> None:
    ended_run(page.master.cluster, "nightly", 0)
    cookie = page.signed_in()
    answer, said = page.call("plan?profile=nightly%40nightly.py&deadline=90s&cores=0.5", Cookie=cookie)
    asked = PlanRequest(profile="nightly@nightly.py", deadline_s=90.0, most_cores=0.5, curve=True)
    plan = json.loads(msgspec.json.encode(page.master.client().plan(asked)))
    assert (answer.status, json.loads(said)) == (200, {"deadline_s": 90.0, "plan": plan})
    assert len(plan["curve"]["points"]) == 8
    for query, part in (
        ("", "profile"),
        ("profile=%20", "profile"),
        ("profile=nightly%40nightly.py&deadline=soon", "deadline 'soon'"),
        ("profile=nightly%40nightly.py&cores=all", "cores 'all'"),
        ("profile=nightly%40nightly.py&cores=7", "1.00"),
    ):
        answer, said = page.call(f"plan?{query}", Cookie=cookie)
        assert (answer.status, part in said.decode()) == (400, True), said
    answer, said = page.call("plan?profile=other", Cookie=cookie)
    plan = json.loads(said)["plan"]
    assert (answer.status, plan["known"], plan["curve"]) == (200, False, None)


def test_the_bounds_of_the_largest_stages_are_the_masters(page: ServedPage) -> None:
    cookie = page.signed_in()
    first = ended_run(page.master.cluster, "nightly", 0)
    second = page.master.cluster.register(name="nightly", main="nightly.py")
    for job, known in ((first, 0), (second, 1)):
        answer, said = page.call(f"applications/{job}/explain", Cookie=cookie)
        found = page.master.client().explain(job).largest_stages
        assert (answer.status, len(found)) == (200, known)
        assert json.loads(said) == {"largest_stages": json.loads(msgspec.json.encode(found))}
    answer, said = page.call("applications/missing/explain", Cookie=cookie)
    assert (answer.status, json.loads(said)["exit_code"]) == (400, BadInput.exit_code)


def test_savings_are_the_masters_and_only_watched_runs_have_any(page: ServedPage) -> None:
    ended_run(page.master.cluster, "paced", 0)
    watched = ended_run(page.master.cluster, "watched", 0, observe=True)
    cookie = page.signed_in()
    _, said = page.call("runs", Cookie=cookie)
    assert [run["observed"] for run in json.loads(said)["runs"]] == [False, True]
    answer, said = page.call("savings", Cookie=cookie)
    found = page.master.client().savings()
    assert (answer.status, json.loads(said)) == (200, json.loads(msgspec.json.encode(found)))
    [run] = found.savings.applications
    assert (run.application_id, run.held_core_s > 0, found.left_out) == (watched, True, 0)


@pytest.mark.parametrize(
    ("typed", "from_now_s", "after_submission_s"),
    [
        ("10min", None, 600.0),
        ("by 13:00", 3600.0, None),
        ("thursday 12:30 UTC", 5400.0, None),
        ("2030-02-01T12:00", 86_400.0, None),
        ("2030-01-31T12:00:00+00:00", 3600.0, None),
        ("None", None, None),
    ],
)
def test_a_deadline_is_typed_as_for_the_command(
    page: ServedPage, typed: str, from_now_s: float | None, after_submission_s: float | None
) -> None:
    job = running_job(page, conf={"spark.pace.deadline": "90s"})
    page.master.cluster.now_s += 7
    status, said = post(page, f"{job}/set", {"deadline": typed})
    assert status == 200, said
    view = page.master.client().application(job)
    assert view.deadline_s == (after_submission_s if from_now_s is None else pytest.approx(view.elapsed_s + from_now_s))


@pytest.mark.parametrize(
    "typed", ["soon", "by 25:00", "someday 07:00", "by 07:00 Atlantis", "2029-12-31T12:00", "", "-5s", "x" * 500]
)
def test_a_deadline_that_cannot_be_is_refused_and_changes_nothing(page: ServedPage, typed: str) -> None:
    job = running_job(page, conf={"spark.pace.deadline": "90s"})
    status, said = post(page, f"{job}/set", {"deadline": typed})
    assert (status, said["error"].startswith("deadline ")) == (400, True), said
    assert page.master.client().application(job).deadline_s == 90.0


def test_later_viewers_get_grants_of_the_past(page: ServedPage) -> None:
    job = running_job(page)
    first = Stream(page, page.signed_in())
    page.look()
    page.look()
    late = Stream(page, page.signed_in(), "?past=1")
    name, data = late.next()
    past = json.loads(data)
    assert (name, len(past["times"]), past["grants"]) == ("past", 2, {job: [0.75, 0.75]})
    first.close()
    late.close()


def test_uplot_is_the_release_that_is_named() -> None:
    said = json.loads((FOLDER / "uPlot.json").read_text())
    assert {name: hashlib.sha256((FOLDER / name).read_bytes()).hexdigest() for name in said["sha256"]} == said["sha256"]
    assert set(said["sha256"]) == {name for name in STATIC if "uPlot" in name}
    assert said["source"] == f"https://registry.npmjs.org/uplot/-/uplot-{said['version']}.tgz"
    assert len(base64.b64decode(said["integrity"].removeprefix("sha512-"))) == 64


def test_the_page_names_nothing_of_elsewhere_and_makes_no_html_of_texts() -> None:
    script = (FOLDER / "page.js").read_text()
    for word in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "http://", "https://"):
        assert word not in script
    assert "//" not in (FOLDER / "index.html").read_text()


@pytest.mark.parametrize(
    ("called", "kind"),
    [
        ("view", ApplicationView),
        ("worker", WorkerView),
        ("run", EndedRun),
        ("quota", OrderedQuota),
        ("bound", StageBound),
        ("saved", RunSavings),
        ("savings", Savings),
    ],
)
def test_the_page_reads_fields_that_the_master_sends(called: str, kind: type[msgspec.Struct]) -> None:
    """Fields are compared by their names on the wire: one name is another in the code."""
    used = set(re.findall(rf"\b{called}\.(\w+)", (FOLDER / "page.js").read_text()))
    sent = {field.encode_name for field in msgspec.structs.fields(kind)}
    assert used
    assert sorted(used - sent - {"number"}) == [], "number is the page's own"
