"""The master's HTTP interface as an OpenAPI document, made of the table of calls and the wire's types: docs/openapi.json.

`make openapi` writes it; a test tells when it is out of date.
"""

from __future__ import annotations

import re
import sys
from typing import Any, get_args

import msgspec

from controller.master.api import STATUS, Api
from controller.master.calls import CALLS, Call, CallTypes, types_of
from controller.wire import version
from controller.wire.command import Failure
from stage_model.history.events import AnyEvent

TOKENS = {
    "anybody": "Needs no token.",
    "submit": "Scope submit.",
    "admin": "Scope admin.",
    "application": "The application's own token.",
    "worker": "The token of that worker's agent.",
    "metrics": "Scope metrics.",
}
IDS = {"applications": "The application's id.", "submissions": "The submission's id.", "workers": "The worker's id."}
ABOUT = (
    "HTTPS with the cluster's own CA; tokens are bearer tokens. What each message means, and who sends what when, is "
    "in protocol.md. The version is that of the wire: the oldest and the newest that this release speaks."
)


def openapi_text() -> str:
    """The document as it is kept."""
    return msgspec.json.format(msgspec.json.encode(_document())).decode() + "\n"


def _document() -> dict[str, Any]:
    shapes = {call: types_of(getattr(Api, call.handler)) for call in CALLS}
    served = {call: shape for call, shape in shapes.items() if call.scope != "metrics"}
    types = [kind for shape in served.values() for kind in (shape.body, shape.answer) if kind is not None]
    # events travel as they came, so no message's type names theirs
    types = list(dict.fromkeys([*types, Failure, *get_args(AnyEvent)]))
    _, components = msgspec.json.schema_components(types, ref_template="#/components/schemas/{name}")
    paths: dict[str, dict[str, Any]] = {}
    for call, shape in shapes.items():
        paths.setdefault(call.path, {})[call.method.lower()] = _operation(call, shape)
    return {
        "openapi": "3.1.0",
        "info": {"title": "Sparkpace master", "version": version.SPOKEN, "description": ABOUT},
        "paths": paths,
        "components": {
            "schemas": _ecma(components),
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
            "responses": {"failure": {"description": "Refused or failed.", "content": _content(Failure)}},
        },
    }


def _operation(call: Call, shape: CallTypes) -> dict[str, Any]:
    of_metrics = call.scope == "metrics"
    parameters = [_parameter("path", "id", {"type": "string"}, IDS[call.path.split("/")[2]])] if "{id}" in call.path else []
    parameters += [_parameter("query", name, {"type": "integer"}) for name in shape.numbers]
    if not of_metrics:
        said = f"Oldest and newest version of the wire that the sender speaks; without it {version.UNNAMED}."
        parameters.append(_parameter("header", version.HEADER, {"type": "string", "example": version.SPOKEN}, said))
    found = {"text/plain": {"schema": {"type": "string"}}} if of_metrics else _content(shape.answer)
    operation: dict[str, Any] = {
        "operationId": call.handler,
        "summary": call.says,
        "description": TOKENS[call.scope],
        "security": [] if call.scope == "anybody" else [{"token": []}],
        "parameters": parameters,
        "responses": {"200": {"description": "Done.", "content": found}}
        | {str(status): {"$ref": "#/components/responses/failure"} for status in sorted({404, 500, *STATUS.values()})},
    }
    if shape.body is not None:
        operation["requestBody"] = {"required": True, "content": _content(shape.body)}
    return operation


def _parameter(where: str, name: str, schema: dict[str, Any], said: str = "") -> dict[str, Any]:
    described = {"description": said} if said else {}
    return {"in": where, "name": name, "required": where != "header", "schema": schema, **described}


def _content(kind: Any) -> dict[str, Any]:
    return {"application/json": {"schema": {"$ref": f"#/components/schemas/{kind.__name__}"}}}


def _ecma(schema: Any) -> Any:
    r"""The same with patterns as JSON Schema has them, where \Z, Python's end, is $."""
    if isinstance(schema, dict):
        return {
            key: re.sub(r"\\Z$", "$", value) if key == "pattern" and isinstance(value, str) else _ecma(value)
            for key, value in schema.items()
        }
    return [_ecma(one) for one in schema] if isinstance(schema, list | tuple) else schema


if __name__ == "__main__":
    sys.stdout.write(openapi_text())
