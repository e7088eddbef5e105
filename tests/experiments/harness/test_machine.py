"""The machine's CPU from /proc, and what it is."""

from __future__ import annotations

import os
from pathlib import Path

from experiments.harness.machine import CpuTimes, commit, cpu_times


def test_busy_is_all_but_idle_waiting_and_stolen(tmp_path: Path) -> None:
    # user nice system idle iowait irq softirq steal guest guest_nice
    (tmp_path / "stat").write_text("cpu  100 20 30 9999 9999 4 6 50 7 8\ncpu0 1 2 3\n")
    tick = os.sysconf("SC_CLK_TCK")
    assert cpu_times(tmp_path) == CpuTimes(busy=(100 + 20 + 30 + 4 + 6) / tick, steal=50 / tick)
    assert CpuTimes(5, 2).since(CpuTimes(3, 1)) == CpuTimes(2, 1)


def test_the_real_one_only_grows() -> None:
    before = cpu_times()
    assert cpu_times().since(before).busy >= 0


def test_without_a_clone_the_commit_is_unknown(tmp_path: Path) -> None:
    assert commit(tmp_path) == "unknown"
