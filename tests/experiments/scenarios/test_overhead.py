"""The cost of control: conditions and tables on made-up data, and a tiny cluster's master measured for real."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
from msgspec import structs

from experiments.bench.overhead.crowd import PassRow, TurnsRow
from experiments.bench.overhead.crowded_agent import Spent
from experiments.bench.overhead.quotas import QuotaRow
from experiments.harness.recorded import Data, RowStep
from experiments.scenarios.overhead import AgentLoad, Decide, Master, Overhead, Quota

SMALL = Overhead(
    master=Master(applications=6, workers=8, kinds=2, few=2, passes=1, turns=4),
    agent=AgentLoad(executors=100, seconds=60),
    decide=Decide(executors=3, steps=2),
    quota=Quota(containers=100, busy=2),
)


def pass_row(changed: int, told_ms: float, planned_ms: float) -> PassRow:
    return PassRow(
        applications=1000,
        workers=1000,
        executors=4000,
        changed=changed,
        concerned=min(1000, 4 * changed or 1000),
        told_ms=told_ms,
        planned_ms=planned_ms,
        cpu_ms=told_ms + planned_ms,
    )


def made_up(slower: float = 1.0) -> Data:
    """Make data in which everything takes its limit less a bit, times `slower`."""
    spent = Spent(executors=100, seconds=60.0, cpu_s=1.7 * slower, writes=120, stage_events=6, rss_mb=70.0)
    each_ms = tuple(0.48 * slower * n for n in range(1, 101))  # p99: 47.52 ms
    thrice_ms = tuple(3 * ms for ms in each_ms)
    large, small = pass_row(1000, 400 * slower, 500 * slower), pass_row(10, 9 * slower, 10 * slower)
    profiled = structs.replace(pass_row(1000, 5000.0, 5000.0), where={"controller/master/core/planning.py": 0.25})
    found: dict[str, list[Any]] = {
        "decide-0": [{"executors": 100, "steps_ms": [0.9 * slower] * 10}],
        "quota-idle-0": [
            QuotaRow(containers=100, busy=0, each_ms=each_ms, together_s=0.27 * slower, cpu_ms=0.6, docker_py_cpu_ms=1.4)
        ],
        "quota-loaded-0": [
            QuotaRow(
                containers=100,
                busy=2,
                each_ms=thrice_ms,
                together_s=0.27 * slower,
                told_s=1.8 * slower,
                cpu_ms=0.6,
                docker_py_cpu_ms=1.4,
            )
        ],
        "agent-0": [spent],
        "agent-woken-0": [spent],
        # the profiled one is slow and no condition's
        "master-0": [large, small, pass_row(0, 0.0, 800.0), profiled],
        "queue-0": [TurnsRow(running=1000, waiting=1000, workers=1000, ended=5, cpu_ms=[90.0 * slower] * 10)],
        "agent-profiled": [{"controller/agent/loop.py": 0.4, "Python and its library": 0.3}],
    }
    steps = [
        RowStep(step=name, session=1, took_s=1.0, rows=tuple(map(msgspec.to_builtins, rows))) for name, rows in found.items()
    ]
    return Data(rows={step.step: step for step in steps})


def test_every_goal_is_a_condition_with_its_limit() -> None:
    conditions = SMALL.conditions(made_up())
    assert [(c.name, c.holds) for c in conditions] == [
        ("every step was run", True),
        ("a planning pass, 1000 applications on 1000 workers, 1000 changed, p99", True),
        ("a planning pass, 1000 applications on 1000 workers, 10 changed, p99", True),
        ("the periodic pass, 1000 applications waiting and 1000 running, CPU, p99", True),
        ("an agent with 100 executors at a period of 1 s", True),
        ("a decide step for 100 executors, p99", True),
        ("a quota in the kernel, 100 containers, 0 more busy, p99", True),
        # of the first, when the engine's record had them was not measured: no goal
        ("all quotas in force, 100 containers, 0 more busy", True),
        ("a quota in the kernel, 100 containers, 2 more busy, p99", True),
        ("all quotas in force, 100 containers, 2 more busy", True),
        ("all quotas in the engine's record, 100 containers, 2 more busy", True),
    ]
    # 1.7 s of CPU in a minute
    assert conditions[4].detail == "2.833 % of a core, limit 3, n=1"
    assert conditions[6].detail == "47.520 ms, limit 50, n=100"
    assert conditions[7].detail == "0.270 s, limit 0.3, n=1"


def test_of_several_repetitions_the_worst_agent_counts_and_each_goal_is_one() -> None:
    data = made_up()
    worse = structs.replace(data.rows["agent-0"], step="agent-1", rows=made_up(slower=1.05).rows["agent-0"].rows)
    conditions = SMALL.conditions(Data(rows={**data.rows, "agent-1": worse}))
    [detail] = [c.detail for c in conditions if c.name.startswith("an agent")]
    # 1.05 times 2.833
    assert detail == "2.975 % of a core, limit 3, n=2"


def test_a_quarter_more_of_everything_is_too_much() -> None:
    assert not any(condition.holds for condition in SMALL.conditions(made_up(slower=1.25))[1:])


def test_a_decide_step_of_fewer_executors_must_be_shorter() -> None:
    step = RowStep(step="decide-0", session=1, took_s=1.0, rows=({"executors": 50, "steps_ms": [0.6]},))
    [condition] = SMALL.conditions(Data(rows={"decide-0": step}))[1:]
    assert not condition.holds
    # 0.6 ms of 50 executors are 1.2 ms of 100
    assert condition.detail == "1.200 ms, limit 1, n=1"


def test_the_tables_tell_all_of_it() -> None:
    text = SMALL.tables(made_up())
    assert "| 1000 | 1000 | 4000 | 1000 | 1000 | 1 | 400.0 | 500.0 | 900.0 | 900.0 | 900.0 |" in text
    assert "| 1000 | 1000 | 4000 | 10 | 40 | 1 | 9.0 | 10.0 | 19.0 | 19.0 | 19.0 |" in text
    assert "| 1000 | 1000 | 1000 | 10 | 90.0 | 90.0 | 90.0 |" in text
    assert "| 100 | 60 | 2.83 | 2.0 | 0.1 | 70 |" in text
    assert "| 100 | 2 | 100 | 72.7 | 142.6 | 144.0 | 0.27 | 1.80 | 0.60 | 1.40 |" in text
    assert "| controller/agent/loop.py | 40.0% |" in text
    assert "| controller/master/core/planning.py | 25.0% |" in text
    assert SMALL.tables(Data()) == ""


def test_a_tiny_master_is_measured_and_only_the_workers_concerned_are_planned(tmp_path: Path) -> None:
    rows = [msgspec.convert(row, type=PassRow) for row in SMALL.measure("master-0", tmp_path)]
    assert (rows[0].changed, rows[1].changed) == (6, 0)
    assert {row.executors for row in rows} == {24}
    few = rows[2:-1]
    assert len(few) == 10
    # two applications have executors on four workers each, of eight
    assert all(row.changed == 2 and 4 <= row.concerned <= 8 for row in few)
    assert all(row.planned_ms > 0 for row in rows)
    where = rows[-1].where
    assert "controller/master/core/planning.py" in where
    assert 0 < sum(where.values()) <= 1.001
    assert not any(row.where for row in rows[:-1])


def test_a_tiny_queue_is_measured_with_all_of_its_applications_waiting(tmp_path: Path) -> None:
    [row] = SMALL.measure("queue-0", tmp_path)
    assert (row["running"], row["waiting"], row["ended"]) == (6, 6, 2)
    assert len(row["cpu_ms"]) == 4


def test_a_decide_step_is_measured(tmp_path: Path) -> None:
    [row] = SMALL.measure("decide-0", tmp_path)
    assert row["executors"] == 3
    assert len(row["steps_ms"]) == 2
