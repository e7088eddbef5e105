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


class _Failing(FakeRuntime):
    """A runtime whose second executor cannot be paced."""

    error: Exception | None

    def set_quota(self, key: ExecutorKey, cores: float) -> bool:
        if key.executor_id == "2" and self.error is not None:
            raise self.error
        return super().set_quota(key, cores)


@pytest.mark.parametrize("error", [RuntimeFailed("the kernel refused"), KeyError("surprise")])
def test_one_that_fails_keeps_nobody_from_the_rest(error: Exception, tmp_path: Path) -> None:
    rig = rigs.FakeRig(tmp_path)
    runtime = _Failing(rig.host, rig.cluster, "w1")
    runtime.error = error
    keys = [ExecutorKey("app-1", str(number)) for number in (1, 2, 3, 4)]
    for key in keys:
        runtime.start(rig.launch(rigs.IDLE, key=key, cores=0.5))
    rig.host.exit(keys[3], 0)
    assert not open_all(runtime, 2.0)
    assert [runtime.observe()[key].quota_cores for key in keys] == [2.0, 0.5, 2.0, None]


@pytest.mark.parametrize(("error", "code"), [(None, 0), (RuntimeFailed("the kernel refused"), 1)])
def test_the_program_says_whether_all_are_open(
    error: Exception | None, code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rig = rigs.FakeRig(tmp_path)
    runtime = _Failing(rig.host, rig.cluster, "w1")
    runtime.error = error
    for number in (1, 2):
        runtime.start(rig.launch(rigs.IDLE, key=ExecutorKey("app-1", str(number)), cores=0.5))
    (tmp_path / "agents/w1").mkdir(parents=True)
    (tmp_path / "agents/w1/cluster_id").write_text(rig.cluster)
    options = agent_options(tmp_path)
    monkeypatch.setattr(open_quotas, "make_runtime", lambda _options, _cluster_id: runtime)
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(options.to_json())))
    assert open_quotas.main() == code
    assert [seen.quota_cores for seen in runtime.observe().values()] == [2.0, 2.0 if error is None else 0.5]
