"""Options of the services: each is declared once, and what `up` hands on says the same to the service."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path

import click
import pytest

from controller.asks.options import AgentOptions, MasterOptions
from controller.cli.growth_options import checked_growth
from controller.cli.master_options import MASTER, MASTER_AND_GROWTH
from controller.cli.service_option import ServiceOption, handed_on, values_of
from controller.cli.service_options import AGENT, UP
from controller.cli.services import agent, master
from controller.cli.up import up
from controller.cli.worker_words import workers_alike
from stage_model.errors import BadInput
from tests.fakes.refusals import refused

REQUIRED = (
    *("--worker-id", "w1", "--cores", "1", "--memory", "1g", "--runtime", "kubernetes"),
    *("--master", "https://127.0.0.1:1"),
)
SAMPLES = {
    "period": "500ms",
    "floor": "0.25",
    "tmp-limit": "32m",
    "local-limit": "20g",
    "least-free-memory": "300m",
    "least-free-disk": "none",
    "disk-mb": "200",
    "net-mbit": "1000",
    "allow-mount": "data",
    "image": "mine",
    "network-pool": "10.9.0.0/16",
    "nodes": "3",
    "namespace": "jobs",
    "name": "gate.example",
    "keep-runs": "7",
    "lost-after": "45s",
    "placement-weights": "data=4",
    "topology": "racks",
    "notify": "@hook",
    "user-limits": "root cores=2 priority=high",
    "provider-command": "starter",
    "provider-image": "mine",
    "provider-folder": "data",
    "grow": "3",
    "grow-up-to": "cores=2 memory=8g",
    "idle": "2min",
    "usual-worker": "cores=1 memory=2g",
    "utilisation": "0.5",
    "agent-options": "--floor 0.25",
}


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "data").mkdir()
    (tmp_path / "racks").write_text("10.1.0.0/16 rack=r1\n")
    (tmp_path / "hook").write_text("https://hooks.example/x")
    (tmp_path / "hook").chmod(0o600)
    (tmp_path / "starter").touch(0o700)
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SPARKPACE_HOME", str(tmp_path / "home"))
    return tmp_path


def given(command: click.Command, *words: str) -> dict[str, object]:
    """Return what a command would get."""
    with command.make_context(command.name, list(words)) as context:
        return dict(context.params)


def words_of(option: ServiceOption) -> list[str]:
    if option.flag:
        return [f"--{option.name}"]
    value = option.kind.choices[-1] if isinstance(option.kind, click.Choice) else SAMPLES[option.name]
    return [f"--{option.name}", str(value)]


HANDED_ON = [
    pytest.param(service, options, option, id=f"{service.name} {option.name}")
    for service, options in ((agent, AGENT), (master, MASTER_AND_GROWTH))
    for option in options
    if option.up
]


@pytest.mark.parametrize(("service", "options", "option"), HANDED_ON)
def test_a_service_gets_what_up_was_given(
    place: Path,
    monkeypatch: pytest.MonkeyPatch,
    service: click.Command,
    options: tuple[ServiceOption, ...],
    option: ServiceOption,
) -> None:
    to_up, required = given(up, *words_of(option)), REQUIRED if service is agent else ()
    wanted = option.value(to_up)
    words = handed_on(options, to_up)
    monkeypatch.chdir(place / "elsewhere")
    got = values_of(options, given(service, *required, *words))
    assert got[option.key] == wanted != values_of(options, given(service, *required))[option.key]


def test_what_the_services_get_is_what_is_declared(place: Path) -> None:
    assert {one.key for one in AGENT} | {"home"} == {one.name for one in fields(AgentOptions)}
    assert {one.key for one in MASTER} | {"home", "growth"} == {one.name for one in fields(MasterOptions)}
    options = (one for one in (*AGENT, *MASTER_AND_GROWTH) if one.up)
    assert given(up).keys() - {"home"} == {one.key for one in (*UP, *options)}


def test_growth_needs_a_provider(place: Path) -> None:
    assert checked_growth(given(master)) is None
    grown = checked_growth(given(master, "--provider", "docker", "--grow", "2", "--agent-options", "--floor 0.2"))
    assert grown is not None
    assert (grown.provider, grown.limits.workers, grown.agent_options) == ("docker", 2, ("--floor", "0.2"))


def test_workers_share_cores_in_steps_of_a_twentieth_down_to_the_floor() -> None:
    # in binary fractions 0.3 / 3 is less than 0.1, and 0.15 / 0.05 less than 3
    assert [worker.cores for worker in workers_alike(3, 0.3, "1536m", 0.1)] == [0.1, 0.1, 0.1]
    assert [worker.cores for worker in workers_alike(1, 0.15, "512m", 0.05)] == [0.15]
    with refused(BadInput, "--cores", "0.1 to"):
        workers_alike(2, 0.19, "1g", 0.1)
