"""Labels and what is asked of them."""

from __future__ import annotations

import pytest

from placement.labels import parse_labels, parse_requirements
from stage_model.errors import BadInput

LABELS = {"zone": "a", "disk": "ssd"}


@pytest.mark.parametrize(
    ("text", "holds"),
    [
        ("zone=a", True),
        ("zone=b", False),
        ("zone!=b", True),
        ("zone!=a", False),
        ("gpu!=a100", True),
        ("disk", True),
        ("gpu", False),
        ("!gpu", True),
        ("!disk", False),
        ("zone=a,disk=ssd", True),
        ("zone=a,disk=hdd", False),
        ("", True),
    ],
)
def test_all_requirements_must_hold(text: str, holds: bool) -> None:
    assert all(one.holds(LABELS) for one in parse_requirements(text)) is holds


def test_a_requirement_reads_as_it_was_written() -> None:
    text = "zone=a,disk!=hdd,gpu,!spot"
    assert ",".join(map(str, parse_requirements(text))) == text


def test_labels_are_read() -> None:
    assert parse_labels("zone=a, example.com/disk=ssd") == {"zone": "a", "example.com/disk": "ssd"}
    assert parse_labels("") == {}


@pytest.mark.parametrize(
    "text", ["zone", "zone=", "=a", "zone=a,zone=b", "zo ne=a", "zone=a b", "-zone=a", "zone=" + 64 * "a"]
)
def test_labels_that_cannot_be_are_refused(text: str) -> None:
    with pytest.raises(BadInput, match=r"--labels .*NAME=VALUE"):
        parse_labels(text)


@pytest.mark.parametrize("text", ["=a", "zone=", "!zone=a", "!zone!=a", "zone==a", "zone=a b", "!", "a!b"])
def test_requirements_that_cannot_be_are_refused(text: str) -> None:
    with pytest.raises(BadInput, match=r"spark\.pace\.placement\.labels"):
        parse_requirements(text)


@pytest.mark.parametrize(("text", "which"), [("a=x,a=y", "a=x"), ("a=x,b=y,a!=x", "a!=x"), ("!a,a=x", "!a")])
def test_what_no_worker_can_have_at_once_is_refused(text: str, which: str) -> None:
    with pytest.raises(BadInput, match=f": .*{which}"):
        parse_requirements(text)
    assert len(parse_requirements("a=x,a!=y,a,b!=x,!c")) == 5
