"""docs/openapi.json is what the code says, is OpenAPI, and is what a master really answers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
from jsonschema import Draft202012Validator
from openapi_spec_validator import validate

from controller.master.api import Api
from controller.master.bodies import MOST
from controller.master.calls import CALLS, types_of
from controller.master.openapi import openapi_text
from tests.fakes.cluster import FakeCluster, report

KEPT = Path(__file__).parents[3] / "docs" / "openapi.json"
DOCUMENT = msgspec.json.decode(openapi_text())


def test_the_kept_document_is_that_of_the_code() -> None:
    assert KEPT.read_text() == openapi_text(), "run `make openapi`"


def test_it_is_openapi() -> None:
    validate(DOCUMENT)


def test_it_has_every_call_with_its_messages() -> None:
    named = {(method, path) for path, methods in DOCUMENT["paths"].items() for method in methods}
    assert named == {(call.method.lower(), call.path) for call in CALLS}
    bodies = {types_of(getattr(Api, call.handler)).body for call in CALLS} - {None}
    assert bodies == set(MOST), "each body has a limit"


def conforms(value: object, name: str) -> None:
    schema = {"$ref": f"#/components/schemas/{name}", "components": DOCUMENT["components"]}
    Draft202012Validator(schema).validate(msgspec.json.decode(msgspec.json.encode(value)))


def test_what_a_master_answers_is_what_the_document_says(tmp_path: Path) -> None:
    cluster = FakeCluster(tmp_path)
    cluster.worker("w1")
    application = cluster.register()
    cluster.worker("w1", report(application, "1"))
    commands = cluster.state.commands
    conforms(commands.view(application, cluster.now_s), "ApplicationView")
    conforms(commands.explain(application, cluster.now_s), "Explanation")
    for view in cluster.state.workers.views(cluster.now_s):
        conforms(view, "WorkerView")
    cluster.state.close()


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("Change", {"deadline_s": "soon"}),
        ("Change", {"deadline_s": 1e10}),
        ("Labels", {"labels": {"zone": 3}}),
        ("Registration", {}),
        ("ApplicationView", {"application_id": "a"}),
    ],
)
def test_what_a_master_would_refuse_the_document_refuses(name: str, wrong: dict[str, Any]) -> None:
    schema = {"$ref": f"#/components/schemas/{name}", "components": DOCUMENT["components"]}
    assert not Draft202012Validator(schema).is_valid(wrong)
