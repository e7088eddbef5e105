"""Ended runs with samples, as a master records them."""

from __future__ import annotations

from tests.fakes.cluster import FakeCluster, one_stage_run, report, sample, use

TASKS, TASK_S = 4, 2.0


def ended_run(cluster: FakeCluster, name: str, number: int) -> str:
    """Of one stage of 8 s; each has another deadline, and most use a bit more than the one before."""
    cluster.worker("w1")
    conf = {"spark.pace.deadline": f"{10.4 + 0.27 * (number * 7 % 11):.2f}s", "spark.pace.force": "true"}
    job = cluster.register(name=name, main=f"{name}.py", conf=conf)
    events = one_stage_run(1000, TASKS, int(1000 * TASK_S))
    cluster.driver(job, *events[:-1])
    cpu = 5 + 0.008 * number + 0.2 * (number * 5 % 7)
    used = use(0, cpu, done=TASKS, records=10.0 * TASKS)
    rows = tuple(sample(job, "1", float(at), quota=1.0, usage=cpu / 9, cpu_core_s=cpu * at / 9) for at in range(1, 12))
    cluster.now_s += 9
    cluster.worker("w1", report(job, "1", stages=(used,)), samples=rows, sample_seq=number * len(rows))
    cluster.driver(job, events[-1], first=len(events), ended=True)
    cluster.worker("w1", report(job, "1", "exited", exit_code=0, stages=(used,)))
    cluster.worker("w1")
    cluster.state.tick(cluster.now_s)
    return job
