"""The opener gives every running executor the worker's cores, whatever becomes of one of them."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from controller.agent import open_quotas
from controller.agent.open_quotas import open_all
from controller.runtime.base import ExecutorKey
from stage_model.errors import RuntimeFailed
from tests.controller.runtime import rigs
from tests.fakes.options import agent_options
from tests.fakes.runtime import FakeRuntime

KEYS = [ExecutorKey("app-1", str(number)) for number in (1, 2, 3, 4)]


@pytest.fixture
def runtime(tmp_path: Path) -> FakeRuntime:
    """Provide a runtime with executors at half a core each, the last one of which has ended."""
    rig = rigs.FakeRig(tmp_path)
    made = FakeRuntime(rig.host, rig.cluster, "w1")
    for key in KEYS:
        made.start(rig.launch(rigs.IDLE, key=key, cores=0.5))
    rig.host.exit(KEYS[3], 0)
    return made


def quotas(runtime: FakeRuntime) -> list[float | None]:
    return [runtime.observe()[key].quota_cores for key in KEYS]


@pytest.mark.parametrize("error", [RuntimeFailed("the kernel refused"), KeyError("surprise")])
def test_one_that_fails_keeps_nobody_from_the_rest(error: Exception, runtime: FakeRuntime) -> None:
    runtime._host.faults["set_quota", KEYS[1]] = error
    assert not open_all(runtime, 2.0)
    assert quotas(runtime) == [2.0, 0.5, 2.0, None]


@pytest.mark.parametrize(("fails", "code"), [(False, 0), (True, 1)])
def test_the_program_says_whether_all_are_open(
    fails: bool, code: int, runtime: FakeRuntime, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if fails:
        runtime._host.faults["set_quota", KEYS[1]] = RuntimeFailed("the kernel refused")
    (tmp_path / "agents/w1").mkdir(parents=True)
    (tmp_path / "agents/w1/cluster_id").write_text(runtime._cluster_id)
    options = agent_options(tmp_path, runtime="docker")  # plain processes get no more than the quotas over this test
    monkeypatch.setattr(open_quotas, "make_runtime", lambda _options, _cluster_id: runtime)
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(options.to_json())))
    assert open_quotas.main() == code
    assert quotas(runtime) == [2.0, 0.5 if fails else 2.0, 2.0, None]
