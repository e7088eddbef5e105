"""The commands' way to the master: typed calls over its HTTP API, errors as sentences.

Bridge and agents have their own ends. See docs/protocol.md.
"""

from __future__ import annotations

import urllib.parse
from contextlib import closing
from functools import cached_property, partial
from pathlib import Path
from typing import TypeVar

import msgspec

from controller.home import Home
from controller.machine.http import HttpAnswer, HttpConnection, to_master
from controller.machine.tls import address_of
from controller.wire import command, version
from controller.wire.course import Course, EndedRun, EndedRuns, SavingsReply
from controller.wire.hosting import HostedList, HostedView, HostRequest
from controller.wire.joining import JoinCheck, JoinFound, JoinRequest, NewIdentity
from controller.wire.message import Message
from controller.wire.worker import Changed
from stage_model.decoding import UNREADABLE
from stage_model.errors import BadInput, Denied, InfeasibleDeadline, OtherVersion, PaceError, Unavailable

T = TypeVar("T")

TIMEOUT_S = 10.0
"""Longest silence of a living master; a plan of thousands of stages takes far less."""


class MasterClient:
    """A client. `ca` is the file with the certificate that is pinned. Methods raise `Unavailable` when no master answers, or
    when a server does not prove that it is the master: that server learns no token. They raise `OtherVersion` when the master
    speaks no version that this release speaks, `Denied` for a wrong token, else the master's own error."""

    def __init__(self, url: str, ca: Path, token: str | None = None, timeout_s: float = TIMEOUT_S) -> None:
        address_of(url)
        self.url, self._token = url.rstrip("/"), token
        self._connection = partial(to_master, self.url, ca, timeout_s)

    def health(self) -> command.Health:
        """Return the master's health, without a token."""
        return self._call("/v1/health", command.Health)

    def applications(self) -> tuple[command.ApplicationView, ...]:
        return self._call("/v1/applications", command.ApplicationList).applications

    def application(self, application_id: str) -> command.ApplicationView:
        return self._call(f"/v1/applications/{_quoted(application_id)}", command.ApplicationView)

    def explain(self, application_id: str) -> command.Explanation:
        return self._call(f"/v1/applications/{_quoted(application_id)}/explain", command.Explanation)

    def executors(self, application_id: str) -> tuple[command.ExecutorPlace, ...]:
        """Return where an application's executors are, or were."""
        return self._call(f"/v1/applications/{_quoted(application_id)}/executors", command.ExecutorPlaces).executors

    def executor_log(self, application_id: str, executor_id: str) -> command.ExecutorLog:
        """Return the ends of an executor's log, which its worker's agent reads."""
        path = f"/v1/applications/{_quoted(application_id)}/executors/{_quoted(executor_id)}/log"
        return self._call(path, command.ExecutorLog)

    def course(self, application_id: str, samples: int, quotas: int, since_s: float) -> Course:
        """Return the records behind these offsets, and the stages that did not end before."""
        behind = urllib.parse.urlencode({"samples": samples, "quotas": quotas, "since": int(since_s)})
        return self._call(f"/v1/applications/{_quoted(application_id)}/course?{behind}", Course)

    def runs(self) -> tuple[EndedRun, ...]:
        return self._call("/v1/runs", EndedRuns).runs

    def savings(self) -> SavingsReply:
        return self._call("/v1/savings", SavingsReply)

    def kill(self, application_id: str) -> None:
        """Ask for the end of an application and its executors; return before they are gone."""
        self._request(f"/v1/applications/{_quoted(application_id)}/kill", command.Empty())

    def start(self, submission: str, asked: command.StartRequest) -> command.StartReply:
        """Ask if the driver of a submission that comes after others may start."""
        return self._call(f"/v1/submissions/{_quoted(submission)}/start", command.StartReply, asked)

    def services(self, after: str) -> dict[str, str]:
        """Return the addresses of the services among what a job comes after, by the words that asked for them."""
        return self._call("/v1/services", command.Services, command.ServicesRequest(after=after)).addresses

    def host_driver(self, asked: HostRequest) -> HostedView:
        """Have a worker host a driver; return once the driver is stored."""
        return self._call("/v1/drivers", HostedView, asked)

    def hosted_drivers(self) -> tuple[HostedView, ...]:
        return self._call("/v1/drivers", HostedList).drivers

    def hosted_driver(self, driver_id: str) -> HostedView:
        return self._call(f"/v1/drivers/{_quoted(driver_id)}", HostedView)

    def kill_driver(self, driver_id: str) -> HostedView:
        """Have a hosted driver end for good; return before it is gone."""
        return self._call(f"/v1/drivers/{_quoted(driver_id)}/kill", HostedView, command.Empty())

    def driver_ended(self, submission: str, exit_code: int) -> None:
        self._request(f"/v1/submissions/{_quoted(submission)}/ended", command.DriverEnded(exit_code=exit_code))

    def change(self, application_id: str, change: command.Change) -> None:
        self._request(f"/v1/applications/{_quoted(application_id)}/set", change)

    def plan(self, request: command.PlanRequest) -> command.PlanReply:
        return self._call("/v1/plan", command.PlanReply, request)

    def label(self, worker_id: str, labels: command.Labels) -> command.Labels:
        """Change labels of a worker; the answer has all of them."""
        return self._call(f"/v1/workers/{_quoted(worker_id)}/labels", command.Labels, labels)

    def end_worker(self, worker_id: str) -> None:
        """Ask for the end of a worker's agent; return before it has ended."""
        self._request(f"/v1/workers/{_quoted(worker_id)}/end", command.Empty())

    def end_started_workers(self) -> None:
        """Give back the workers that the master had a provider start; return when this is done."""
        self._request("/v1/started-workers/end", command.Empty())

    def check_join(self, said: JoinCheck) -> JoinFound:
        """Have the master look at this machine, which wants to join; the token is a join token, as for `join`."""
        return self._call("/v1/join/check", JoinFound, said)

    def join(self, said: JoinRequest) -> None:
        self._request("/v1/join", said)

    def renew(self, worker_id: str, said: NewIdentity) -> None:
        """Give a worker its next identity, or none; the token is its last one."""
        self._request(f"/v1/workers/{_quoted(worker_id)}/identity", said)

    def reported(self, worker_id: str) -> bool:
        """Return True if the worker's agent, whose token this is, has reported in this life of the master."""
        return self._call(f"/v1/workers/{_quoted(worker_id)}/changes?seen=-1&wait=0", Changed).reported

    def workers(self) -> tuple[command.WorkerView, ...]:
        return self._call("/v1/workers", command.WorkerList).workers

    def _call(self, path: str, kind: type[T], said: Message | None = None) -> T:
        reply = self._request(path, said)
        try:
            return msgspec.json.decode(reply, type=kind)
        except UNREADABLE as error:
            raise Unavailable(f"what answers at {self.url} is no Sparkpace master of this version ({error})") from error

    def _request(self, path: str, said: Message | None = None) -> bytes:
        """Ask for `path`, or send a message there; return the body of the answer."""
        body = None if said is None else msgspec.json.encode(said)
        headers = {"Accept": "application/json", version.HEADER: version.SPOKEN}
        if body is not None:
            headers["Content-Type"] = "application/json"
        if self._token is not None:
            headers["Authorization"] = f"Bearer {self._token}"
        try:
            answer = self._ask("GET" if body is None else "POST", path, body, headers)
        except OSError as error:
            raise Unavailable(
                f"no Sparkpace master answers at {self.url} ({error}); start one with `sparkpace up`"
            ) from error
        version.check_header(answer.headers.get(version.HEADER), f"the master at {self.url}", "this command")
        if answer.status >= 400:
            raise self._failure(answer.status, answer.body)
        return answer.body

    def _ask(self, method: str, path: str, body: bytes | None, headers: dict[str, str]) -> HttpAnswer:
        with closing(self._connection()) as connection:
            return connection.ask(method, path, body, headers)

    def _failure(self, status: int, reply: bytes) -> PaceError:
        try:
            failure = msgspec.json.decode(reply, type=command.Failure)
        except UNREADABLE:
            failure = command.Failure(error=f"the master at {self.url} answered with status {status}")
        if status == 401:
            return Denied(failure.error)
        if status == 404:  # a master of another release has no such call
            return OtherVersion(failure.error)
        known: dict[int, type[PaceError]] = {
            kind.exit_code: kind for kind in (BadInput, Unavailable, InfeasibleDeadline, Denied)
        }
        return known.get(failure.exit_code, PaceError)(failure.error)


class LastingClient(MasterClient):
    """A client that keeps its connection for the next call: TLS costs a master more than most answers. Several threads must
    not use it at once."""

    @cached_property
    def _kept(self) -> HttpConnection:
        return self._connection()

    def _ask(self, method: str, path: str, body: bytes | None, headers: dict[str, str]) -> HttpAnswer:
        return self._kept.ask(method, path, body, headers)

    def close(self) -> None:
        self._kept.close()


def submit_client(home: Home, timeout_s: float = TIMEOUT_S) -> MasterClient:
    """Return a client of the cluster that was started here. Raise `Unavailable` without one."""
    return MasterClient(home.need_cluster().url, home.ca_file, home.submit_token(), timeout_s)


def admin_client(home: Home, url: str | None = None, timeout_s: float = TIMEOUT_S) -> MasterClient:
    """Return a client with all rights, of the cluster here or of the master at `url`."""
    return MasterClient(url or home.need_cluster().url, home.ca_file, home.admin_token(), timeout_s)


def _quoted(part: str) -> str:
    return urllib.parse.quote(part, safe="")
