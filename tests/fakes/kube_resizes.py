"""Rules of a Kubernetes API server for the resize of a pod.

They are those of real servers from 1.33 on, as seen on 1.36: a resize may change only CPU and memory, must keep the QoS
class, and is refused with 403 where a LimitRange or a quota does not allow it.
"""

from __future__ import annotations

import copy
import json
from typing import Any

from lightkube.utils.quantity import parse_quantity

Json = dict[str, Any]
Answer = tuple[int, bytes, str]
"""Status, body and content type."""


class Refused(Exception):
    def __init__(self, code: int, message: str, name: str = "") -> None:
        super().__init__(message)
        details = {"name": name} if name else {}
        self.status = {"kind": "Status", "status": "Failure", "message": message, "details": details, "code": code}
        self.answer: Answer = (code, json.dumps(self.status).encode(), "application/json")


def forbidden(name: str, why: str) -> Refused:
    return Refused(403, f'pods "{name}" is forbidden: {why}', name)


def invalid(name: str, why: str) -> Refused:
    return Refused(422, f'Pod "{name}" is invalid: {why}', name)


def merged(pod: Json, patch: Json) -> Json:
    """Merge strategically: containers are known by their names. Only resources may be in the patch."""
    resized = copy.deepcopy(pod)
    containers = {one["name"]: one for one in resized["spec"]["containers"]}
    if (
        patch.keys() != {"spec"}
        or patch["spec"].keys() != {"containers"}
        or any(one.keys() != {"name", "resources"} or one["name"] not in containers for one in patch["spec"]["containers"])
    ):
        raise invalid(pod["metadata"]["name"], "spec: Forbidden: only cpu and memory resources are mutable")
    for change in patch["spec"]["containers"]:
        has = containers[change["name"]]["resources"]
        for kind, amounts in change["resources"].items():
            has[kind] = {**has.get(kind, {}), **amounts}
    return resized


def check(pod: Json, resized: Json, limit_range: Json, used: float, hard: float) -> None:
    """Refuse what the QoS class, a LimitRange, or a quota of `hard` cores of which some are used does not allow, and requests
    above limits."""
    name = pod["metadata"]["name"]
    if qos_class(resized["spec"]) != pod["status"]["qosClass"]:
        raise invalid(name, "spec: Pod QOS Class may not change as a result of resizing")
    for container in resized["spec"]["containers"]:
        gets = container["resources"]
        for what in gets.get("requests", {}):
            request, limit = (amount_of(gets.get(kind, {}), what) for kind in ("requests", "limits"))
            if request is not None and limit is not None and request > limit:
                raise invalid(name, f"requests: must be less than or equal to {what} limit")
        if why := _why_out_of_range(limit_range, gets):
            raise forbidden(name, why)
    has, asks = limited(pod["spec"]), limited(resized["spec"])
    if asks > has and used - has + asks > hard + 1e-9:  # a resize that asks for no more is always allowed
        more = f"requested: limits.cpu={asks - has:g}, used: limits.cpu={used:g}, limited: {hard:g}"
        raise forbidden(name, f"exceeded quota: cores, {more}")


def _why_out_of_range(limit_range: Json, gets: Json) -> str:
    """Say what of a container's CPU a LimitRange does not allow; empty if it allows all."""
    limit = amount_of(gets.get("limits", {}), "cpu")
    request = amount_of(gets.get("requests", {}), "cpu") or 0.0
    for one in limit_range.get("spec", {}).get("limits", []):
        most, least, ratio = (amount_of(one.get(rule, {}), "cpu") for rule in ("max", "min", "maxLimitRequestRatio"))
        if limit is not None and most is not None and limit > most:
            return f"maximum cpu usage per Container is {most:g}, but limit is {limit:g}"
        if least is not None and request < least:
            return f"minimum cpu usage per Container is {least:g}, but request is {request:g}"
        if limit is not None and ratio is not None and limit > ratio * request:
            return f"cpu max limit to request ratio per Container is {ratio:g}, but provided ratio is {limit / request:f}"
    return ""


def qos_class(spec: Json) -> str:
    resources = [one.get("resources", {}) for one in spec["containers"]]
    all_of = [(one.get("limits", {}), one.get("requests", {})) for one in resources]
    if not any(limits or requests for limits, requests in all_of):
        return "BestEffort"
    for limits, requests in all_of:
        for what in ("cpu", "memory"):
            limit = amount_of(limits, what)
            if limit is None or limit != amount_of(requests, what, limit):
                return "Burstable"
    return "Guaranteed"


def limited(spec: Json) -> float:
    return sum(amount_of(one["resources"].get("limits", {}), "cpu") or 0.0 for one in spec["containers"])


def amount_of(amounts: Json, what: str, otherwise: float | None = None) -> float | None:
    amount = parse_quantity(amounts.get(what))
    return otherwise if amount is None else float(amount)
