"""Rates of a real link: what is set, that everything is lifted, and that nothing of others is touched."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from controller.machine import admin_program
from controller.machine.traffic import LINKS, lift_link_rates, limited_links, set_link_rates, why_no_link_rates
from stage_model.errors import RuntimeFailed

IFB = f"sqt{os.getpid()}"
LINK, OTHER = f"sqa{os.getpid()}", f"sqb{os.getpid()}"


@pytest.fixture
def link() -> Iterator[str]:
    """Provide a link whose two ends are on this host."""
    if reason := why_no_link_rates():
        pytest.skip(reason)
    subprocess.run(["ip", "link", "add", LINK, "type", "veth", "peer", "name", OTHER], check=True, timeout=30)
    yield LINK
    lift_link_rates(IFB)
    subprocess.run(["ip", "link", "delete", LINK], check=False, timeout=30, capture_output=True)


def disciplines(link: str) -> list[dict[str, Any]]:
    said = subprocess.run(["tc", "-j", "qdisc", "show", "dev", link], check=True, timeout=30, capture_output=True).stdout
    found: list[dict[str, Any]] = json.loads(said)
    return [one for one in found if one["kind"] not in ("noqueue", "pfifo_fast", "fq_codel")]


def test_both_directions_are_held_and_may_be_changed(link: str) -> None:
    set_link_rates(link, IFB, 1_000_000, 250_000)
    set_link_rates(link, IFB, 2_000_000, 500_000)
    held = {one["kind"]: one for one in disciplines(link)}
    assert held.keys() == {"tbf", "ingress"}
    assert held["tbf"]["options"]["rate"] == 2_000_000, "tc shows bytes"
    assert [one["options"]["rate"] for one in disciplines(IFB)] == [500_000]
    assert limited_links(IFB) == [IFB]


def test_what_another_program_set_is_lifted_by_the_name_of_the_interface(link: str) -> None:
    set_link_rates(link, IFB, 1_000_000, 250_000)
    lift_link_rates(IFB)
    assert disciplines(link) == []
    assert limited_links(IFB) == []
    lift_link_rates(IFB)  # again does no harm


def test_the_interface_of_a_link_that_has_gone_is_removed(link: str) -> None:
    set_link_rates(link, IFB, 1_000_000, 250_000)
    subprocess.run(["ip", "link", "delete", link], check=True, timeout=30)
    lift_link_rates(IFB)
    assert limited_links(IFB) == []


def test_an_interface_made_for_another_link_is_made_again(link: str) -> None:
    set_link_rates(OTHER, IFB, 1_000_000, 250_000)
    set_link_rates(link, IFB, 1_000_000, 250_000)
    assert disciplines(OTHER) == []
    assert {one["kind"] for one in disciplines(link)} == {"tbf", "ingress"}


def test_rates_that_may_be_left_stay_known(link: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    set_link_rates(link, IFB, 1_000_000, 250_000)
    (tmp_path / "tc").write_text("#!/bin/sh\nkill -9 $$\n")
    (tmp_path / "tc").chmod(0o755)
    with monkeypatch.context() as patch:
        patch.setattr(admin_program, "ADMIN_PATH", f"{tmp_path}:{admin_program.ADMIN_PATH}")
        with pytest.raises(RuntimeFailed, match="were not lifted"):
            lift_link_rates(IFB)
    assert limited_links(IFB) == [IFB]


def test_a_link_that_cannot_be_held_leaves_nothing(link: str) -> None:
    with pytest.raises(RuntimeFailed, match="network rates cannot be set"):
        set_link_rates("sqnowhere", IFB, 1_000_000, 250_000)
    assert limited_links(IFB) == []


def test_looking_whether_links_can_be_held_leaves_nothing() -> None:
    before = {path.name for path in LINKS.iterdir()}
    why_no_link_rates()
    assert {path.name for path in LINKS.iterdir()} == before


def test_without_the_programs_or_root_that_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(admin_program, "ADMIN_PATH", str(tmp_path))
    assert why_no_link_rates() == (
        "only root can limit network links" if os.geteuid() else "there is no tc here (Debian: apt install iproute2)"
    )
    (tmp_path / "tc").write_text("#!/bin/sh\n")
    (tmp_path / "ip").write_text("#!/bin/sh\necho 'Error: Unknown device type.' >&2; exit 2\n")
    (tmp_path / "nsenter").write_text("#!/bin/sh\n")
    for name in ("tc", "ip", "nsenter"):
        (tmp_path / name).chmod(0o755)
    if not os.geteuid():
        assert "Unknown device type" in why_no_link_rates()
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert why_no_link_rates() == "only root can limit network links"
