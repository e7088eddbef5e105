"""The zone of this machine: that of TZ, else that of its clock."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, tzinfo
from pathlib import Path

import pytest

from controller.machine import local_zone as module
from controller.machine.local_zone import local_zone

WINTER, SUMMER = datetime(2030, 1, 31, tzinfo=UTC), datetime(2030, 7, 31, tzinfo=UTC)
ZONES = Path("/usr/share/zoneinfo")


def offset(zone: tzinfo, at: datetime) -> timedelta | None:
    return at.astimezone(zone).utcoffset()


@pytest.mark.parametrize("name", ["Europe/Berlin", ":Europe/Berlin"])
def test_a_named_zone_has_rules_of_summer_time(name: str) -> None:
    zone = local_zone({"TZ": name})
    assert (offset(zone, WINTER), offset(zone, SUMMER)) == (timedelta(hours=1), timedelta(hours=2))


@pytest.mark.skipif(not (ZONES / "Europe/Berlin").exists(), reason="the rules of time zones are not installed here")
def test_without_a_name_it_is_the_machines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LOCALTIME", ZONES / "Europe/Berlin")
    assert offset(local_zone({}), SUMMER) == timedelta(hours=2)
    assert offset(local_zone({"TZ": ""}), SUMMER) == timedelta(hours=2)


@pytest.mark.skipif(not (ZONES / "Europe/Berlin").exists(), reason="the rules of time zones are not installed here")
@pytest.mark.parametrize("colon", ["", ":"])
def test_a_file_of_rules_may_be_named(colon: str) -> None:
    zone = local_zone({"TZ": f"{colon}{ZONES}/Europe/Berlin"})
    assert (offset(zone, WINTER), offset(zone, SUMMER)) == (timedelta(hours=1), timedelta(hours=2))


@pytest.mark.parametrize(
    "name", ["CET-1CEST,M3.5.0,M10.5.0/3", "No/Such", "Europe", "../../etc/passwd", "/etc/passwd", "/no/such/file", "/"]
)
def test_a_zone_that_cannot_be_read_is_the_offset_of_now(name: str) -> None:
    assert offset(local_zone({"TZ": name}), SUMMER) == datetime.now().astimezone().utcoffset()


def test_no_file_of_the_machines_zone_is_the_offset_of_now(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(module, "LOCALTIME", tmp_path / "none")
    assert offset(local_zone({}), SUMMER) == datetime.now().astimezone().utcoffset()
