"""Masters that may give orders to a worker, and an agent's answer to a master that speaks another version of the wire."""

from __future__ import annotations

import logging
import threading
from pathlib import Path

import msgspec
import pytest

from controller.agent.link import ANSWERS_S, BACK_OFF, OPENS_S, Link, OrderFilter, Refused
from controller.home import Home
from controller.master.core.core import ClusterOptions
from controller.wire.worker import Desired, WorkerReply, WorkerSync
from stage_model.errors import Unavailable
from tests.fakes.master import TOKEN, serving
from tests.fakes.messages import made_up
from tests.fakes.refusals import assert_names


def orders(cluster_id: str = "mine", generation: int = 3) -> Desired:
    return Desired(cluster_id=cluster_id, generation=generation, version=1)


def test_orders_of_a_foreign_cluster_are_refused() -> None:
    orders_of = OrderFilter("mine")
    with pytest.raises(Refused, match=r"foreign.* mine"):
        orders_of.check(orders("foreign", 99))
    # and leave no trace
    orders_of.check(orders(generation=1))


def test_orders_of_an_older_generation_are_refused() -> None:
    orders_of = OrderFilter("mine")
    orders_of.check(orders(generation=3))
    with pytest.raises(Refused, match=r" 2 .* 3 "):
        orders_of.check(orders(generation=2))
    orders_of.check(orders(generation=3))
    orders_of.check(orders(generation=4))


class Stop(threading.Event):
    """An event that is set once its owner has waited a given number of times."""

    def __init__(self, waits: int) -> None:
        super().__init__()
        self.left = waits

    def wait(self, timeout: float | None = None) -> bool:
        self.left -= 1
        if self.left == 0:
            self.set()
        return self.is_set()


def test_a_renewed_token_is_found_when_the_last_one_is_refused_and_not_before(tmp_path: Path) -> None:
    tokens = ["of before", "of before", TOKEN, TOKEN]
    with serving(Home(tmp_path)) as master:
        link = Link(master.url, master.home.ca_file, lambda: tokens.pop(0), "w1", OrderFilter("mine"), lambda: None)
        assert len(tokens) == 3
        for ended in ("status 401", None, None):
            if ended is None:
                link._call(link._reports, "GET", "/v1/applications")
                continue
            with pytest.raises(OSError, match=ended):  # it is the same one still
                link._call(link._reports, "GET", "/v1/applications")
        assert len(tokens) == 1


def test_a_call_that_was_under_way_when_the_other_thread_found_the_renewed_token_is_repeated(tmp_path: Path) -> None:
    tokens = ["of before", TOKEN, TOKEN]
    with serving(Home(tmp_path)) as master:
        link = Link(master.url, master.home.ca_file, lambda: tokens.pop(0), "w1", OrderFilter("mine"), lambda: None)
        before = link._headers
        assert link._renewed(before), "the first of the two threads"
        assert link._renewed(before), "the second, which sent the token of before, too"


def test_a_token_file_that_is_gone_is_as_no_renewal(tmp_path: Path) -> None:
    def token() -> str:
        if tokens:
            return tokens.pop()
        raise Unavailable("there is no token file")

    tokens = ["of before"]
    with serving(Home(tmp_path)) as master:
        link = Link(master.url, master.home.ca_file, token, "w1", OrderFilter("mine"), lambda: None)
        with pytest.raises(OSError, match="status 401"):
            link._call(link._reports, "GET", "/v1/applications")


def test_orders_of_newer_versions_are_refused_logged_once_and_retried(
    caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    report = msgspec.json.decode(made_up(WorkerSync, full=True), type=WorkerSync)
    with serving(Home(tmp_path)) as master, caplog.at_level(logging.WARNING, "sparkpace.agent"):
        master.speaks, master.refuse = "3", (200, made_up(WorkerReply, full=True))
        woken = threading.Event()
        link = Link(master.url, master.home.ca_file, lambda: TOKEN, "w1", OrderFilter("mine"), woken.set)
        link.post(report)
        link.send_now = Stop(0)
        link.run_sync(Stop(3), lambda: None)
        link.run_notices(Stop(3), lambda: None)
    (message,) = caplog.messages
    assert_names(message, "'3'", "'1'")
    assert link.take() == []
    assert not woken.is_set()


def test_an_agent_is_back_after_a_cut_of_25_s_before_its_worker_is_lost() -> None:
    """The kernel repeats what opens a connection 1 s and 3 s after the first try (RFC 6298), where nothing says that it is in
    vain."""
    last_report_s, cut_s, last_repeat_s = 1.0, 25.0, 3.0
    next_try_s = OPENS_S - last_repeat_s + BACK_OFF.most_s
    assert last_report_s + cut_s + next_try_s < ClusterOptions().lost_after_s
    assert cut_s > ANSWERS_S, "a kept connection is given up meanwhile"
