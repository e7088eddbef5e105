"""The opener gives every running executor the worker's cores, whatever becomes of one of them."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from controller.agent import open_quotas
from controller.runtime.base import ExecutorKey
from stage_model.errors import RuntimeFailed
from tests.controller.runtime import rigs
from tests.fakes.options import agent_options
from tests.fakes.runtime import FakeRuntime

KEYS = [ExecutorKey("app-1", str(number)) for number in (1, 2, 3, 4)]


@pytest.mark.parametrize("error", [None, RuntimeFailed("the kernel refused"), KeyError("surprise")])
def test_a_quota_that_cannot_be_opened_holds_up_no_other_and_the_program_says_whether_all_are_open(
    error: Exception | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rig = rigs.FakeRig(tmp_path)
    runtime = FakeRuntime(rig.host, rig.cluster, "w1")
    for key in KEYS:
        runtime.start(rig.launch(rigs.IDLE, key=key, cores=0.5))
    rig.host.exit(KEYS[3], 0)
    if error is not None:
        rig.host.faults["set_quota", KEYS[1]] = error
    (tmp_path / "agents/w1").mkdir(parents=True)
    (tmp_path / "agents/w1/cluster_id").write_text(rig.cluster)
    options = agent_options(tmp_path, runtime="docker")  # plain processes get no more than the quotas over this test
    monkeypatch.setattr(open_quotas, "make_runtime", lambda _options, _cluster_id: runtime)
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(options.to_json())))
    assert open_quotas.main() == (0 if error is None else 1)
    assert [runtime.observe()[key].quota_cores for key in KEYS] == [2.0, 2.0 if error is None else 0.5, 2.0, None]
