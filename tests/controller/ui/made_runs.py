"""Ended runs with samples, as a master records them."""

from __future__ import annotations

from tests.fakes.cluster import FakeCluster, one_stage_run, report, sample, use

TASKS, TASK_S = 4, 2.0
STARTUP_S = 1.0


def ended_run(
    cluster: FakeCluster, name: str, number: int, *, observe: bool = False, stage: str = "collect at /x/app.py:1"
) -> str:
    """Run a job of one stage of 8 to 10 s to its end; each has another deadline and needs more or less than the one
    before. `observe`: it is only watched. `stage` is the name of its stage."""
    acknowledged = cluster.worker("w1").samples_acknowledged
    conf = {"spark.pace.deadline": f"{11.4 + 0.27 * (number * 7 % 11):.2f}s", "spark.pace.force": "true"}
    conf |= {"spark.pace.observe": "true"} if observe else {}
    job = cluster.register(name=name, main=f"{name}.py", conf=conf)
    task_s = TASK_S + 0.08 * (number * 5 % 7) + 0.001 * number
    events = one_stage_run(1000, TASKS, int(1000 * task_s), stage)
    cluster.driver(job, *events[:-1])
    took_s = STARTUP_S + TASKS * task_s
    cpu = 0.9 * TASKS * task_s
    used = use(0, cpu, done=TASKS, records=10.0 * TASKS)
    rows = tuple(
        sample(job, "1", float(at), quota=1.0, usage=cpu / took_s, cpu_core_s=cpu * at / took_s) for at in range(1, 15)
    )
    cluster.now_s += took_s
    cluster.worker("w1", report(job, "1", stages=(used,)), samples=rows, sample_seq=acknowledged)
    cluster.driver(job, events[-1], first=len(events), ended=True)
    cluster.worker("w1", report(job, "1", "exited", exit_code=0, stages=(used,)))
    cluster.worker("w1")
    cluster.tick()
    return job
