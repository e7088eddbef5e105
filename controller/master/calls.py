"""The table of the calls of the master's API. The types of a call's handler say what it takes and answers; docs/protocol.md
describes them."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, get_type_hints

from controller.wire.message import Message

Scope = Literal["anybody", "submit", "admin", "application", "worker", "join", "metrics"]
"""The scope of the token that a call needs; for `application` and `worker`, the token of the named one; for `join`, a
join token."""


@dataclass(frozen=True, slots=True)
class Call:
    """A call; `handler` is a method of `api.Api`."""

    method: Literal["GET", "POST"]
    path: str
    scope: Scope
    handler: str


CALLS = (
    Call("GET", "/metrics", "metrics", "scrape"),
    Call("GET", "/v1/health", "anybody", "health"),
    Call("POST", "/v1/applications", "submit", "register"),
    Call("GET", "/v1/applications", "submit", "views"),
    Call("GET", "/v1/applications/{id}", "submit", "view"),
    Call("POST", "/v1/applications/{id}/sync", "application", "driver_sync"),
    Call("POST", "/v1/applications/{id}/kill", "submit", "kill"),
    Call("POST", "/v1/submissions/{id}/start", "submit", "start"),
    Call("POST", "/v1/drivers", "submit", "host_driver"),
    Call("GET", "/v1/drivers", "submit", "hosted_drivers"),
    Call("GET", "/v1/drivers/{id}", "submit", "hosted_driver"),
    Call("POST", "/v1/drivers/{id}/kill", "submit", "kill_driver"),
    Call("POST", "/v1/services", "submit", "services"),
    Call("POST", "/v1/submissions/{id}/ended", "submit", "driver_ended"),
    Call("POST", "/v1/applications/{id}/set", "submit", "change"),
    Call("GET", "/v1/applications/{id}/course", "submit", "course"),
    Call("GET", "/v1/applications/{id}/explain", "submit", "explain"),
    Call("GET", "/v1/applications/{id}/executors", "admin", "executors"),
    Call("GET", "/v1/applications/{id}/executors/{executor}/log", "admin", "executor_log"),
    Call("POST", "/v1/plan", "submit", "plan"),
    Call("GET", "/v1/runs", "submit", "runs"),
    Call("GET", "/v1/savings", "submit", "savings"),
    Call("GET", "/v1/workers", "submit", "workers"),
    Call("POST", "/v1/started-workers/end", "admin", "end_started_workers"),
    Call("POST", "/v1/workers/{id}/labels", "admin", "label"),
    Call("POST", "/v1/workers/{id}/end", "admin", "end_worker"),
    Call("POST", "/v1/workers/{id}/sync", "worker", "worker_sync"),
    Call("GET", "/v1/workers/{id}/changes", "worker", "worker_changes"),
    Call("POST", "/v1/workers/{id}/identity", "worker", "renew"),
    Call("GET", "/v1/ca", "anybody", "authority"),
    Call("POST", "/v1/join/check", "join", "check_join"),
    Call("POST", "/v1/join", "join", "join"),
)


def types_of(handler: Callable[..., Any]) -> tuple[type[Message] | None, tuple[str, ...]]:
    """Return the type of the body that a handler takes, None without one, and the names of the whole numbers of the query
    that it takes: they are its keyword-only parameters."""
    types, parameters = get_type_hints(handler), inspect.signature(handler).parameters.values()
    bodies = [types[one.name] for one in parameters if issubclass(types.get(one.name, object), Message)]
    return bodies[0] if bodies else None, tuple(one.name for one in parameters if one.kind is one.KEYWORD_ONLY)
