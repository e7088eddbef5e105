"""What the master's API can be called for: the table of its calls. What each takes and answers its handler's types say.

`api` serves this table, `openapi` describes it.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, get_type_hints

from controller.wire.message import Message

Scope = Literal["anybody", "submit", "admin", "application", "worker", "metrics"]
"""Whose token it needs; `application` and `worker`: of the one that the path names."""


@dataclass(frozen=True, slots=True)
class Call:
    """`handler` is a method of `api.Api`."""

    method: Literal["GET", "POST"]
    path: str
    scope: Scope
    handler: str
    says: str


CALLS = (
    Call("GET", "/metrics", "metrics", "scrape", "Metrics for Prometheus, as text."),
    Call("GET", "/v1/health", "anybody", "health", "Which cluster this is, and its release."),
    Call("POST", "/v1/applications", "submit", "register", "A driver registers its application."),
    Call("GET", "/v1/applications", "submit", "views", "All applications, in order of registration."),
    Call("GET", "/v1/applications/{id}", "submit", "view", "One application."),
    Call(
        "POST", "/v1/applications/{id}/sync", "application", "driver_sync", "A driver says what it wants and what happened."
    ),
    Call("POST", "/v1/applications/{id}/kill", "submit", "kill", "Ends an application; answers before executors are gone."),
    Call("POST", "/v1/submissions/{id}/ended", "submit", "driver_ended", "The driver of a submission has ended."),
    Call("POST", "/v1/applications/{id}/set", "submit", "change", "Another deadline, priority, or other workers."),
    Call("GET", "/v1/applications/{id}/course", "submit", "course", "What was recorded of an application behind offsets."),
    Call(
        "GET",
        "/v1/applications/{id}/explain",
        "submit",
        "explain",
        "Of each worker, why the next executor goes there or not.",
    ),
    Call("POST", "/v1/plan", "submit", "plan", "Whether a deadline can be met, and with how many cores."),
    Call("GET", "/v1/runs", "submit", "runs", "The ended runs whose records are kept."),
    Call("GET", "/v1/workers", "submit", "workers", "All workers."),
    Call("POST", "/v1/started-workers/end", "admin", "end_started_workers", "Gives back workers that a provider started."),
    Call("POST", "/v1/workers/{id}/labels", "admin", "label", "Sets labels of a worker, or takes them away (null)."),
    Call(
        "POST", "/v1/workers/{id}/sync", "worker", "worker_sync", "An agent reports and hears what its worker should be like."
    ),
    Call(
        "GET", "/v1/workers/{id}/changes", "worker", "worker_changes", "Waits until a worker should be like something else."
    ),
)


@dataclass(frozen=True, slots=True)
class CallTypes:
    """What a handler takes besides the request: a `body`, whole `numbers` of the query by name; and what it answers."""

    body: type[Message] | None
    numbers: tuple[str, ...]
    answer: Any


def types_of(handler: Callable[..., Any]) -> CallTypes:
    """By the types of its parameters: the second one is the body, those by keyword alone are numbers."""
    types, parameters = get_type_hints(handler), inspect.signature(handler).parameters.values()
    bodies = [one for one in parameters if issubclass(types.get(one.name, object), Message)]
    numbers = tuple(one.name for one in parameters if one.kind is one.KEYWORD_ONLY)
    return CallTypes(types[bodies[0].name] if bodies else None, numbers, types["return"])
