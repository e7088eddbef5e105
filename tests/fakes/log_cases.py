"""Made-up event logs of every kind, with what follows from each by simple arithmetic."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from tests.fakes import log_changes as changes
from tests.fakes.log_changes import Change, Files
from tests.fakes.made_logs import MadeExecutor, MadeJob, MadeStage, Threads, decoded, encoded, made_log

MAPS, REDUCES = MadeStage(8, 10_000), MadeStage(8, 10_000, parents=(0,))
SKIPPED = MadeStage(4, 10_000, skipped=True)
TWO_STAGES = [[MadeJob((MAPS, REDUCES))]]
"""A program that takes 51 s on four cores: ten of start-up, twenty for each stage, and one at the end."""
FOUR = [MadeExecutor(4)]
DATABRICKS = "no SparkListenerApplicationEnd, as Databricks writes none; it is taken to have ended with its last job"


@dataclass(frozen=True)
class Case:
    """A made-up program, what is changed in its log, and what follows from it.

    `ends`: seconds by cores, its own first. `works`: core-seconds of each stage. `phrases`: a part of each sentence. `key`:
    of the profile that it teaches.
    """

    threads: Threads
    ends: dict[int, float] = field(default_factory=dict)
    works: tuple[float, ...] = ()
    executors: Sequence[MadeExecutor] = field(default_factory=lambda: FOUR)
    change: Change = changes.unchanged
    phrases: tuple[str, ...] = ()
    options: dict[str, Any] = field(default_factory=dict)
    files: Files = changes.one_file
    key: str = "made@program.py"

    def lines(self, sizes: int = 1) -> list[bytes]:
        """Return the lines of the log, of a cluster `sizes` times as large."""
        executors = [replace(one, cores=sizes * one.cores) for one in self.executors]
        return encoded(self.change(decoded(made_log(self.threads, executors, **self.options))))

    def write(self, folder: Path, sizes: int = 1) -> Path:
        """Write the log into the folder, and return the path to give for it."""
        for name, content in self.files(self.lines(sizes)).items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(content)
        return folder / "log" if self.files in {changes.one_file, changes.cut_off, changes.garbled} else folder


CASES = {
    "plain": Case(TWO_STAGES, {4: 51, 2: 91, 1: 171}, (80, 80)),
    "one executor of each core": Case(TWO_STAGES, {4: 51, 2: 91}, (80, 80), executors=[MadeExecutor(1)] * 4),
    # maps are done until 30 s, four reducers until 40 s, four maps again until 50 s, and the other reducers until 60 s
    "retried": Case(
        [[MadeJob((MAPS, MadeStage(8, 10_000, parents=(0,), lost=(4, 4))))]],
        {4: 61, 2: 111, 1: 211},
        (120, 80),
        phrases=("more than one attempt",),
    ),
    "no CPU time": Case(TWO_STAGES, {4: 51, 2: 91}, (80, 80), options={"with_cpu": False}, phrases=("Executor CPU Time",)),
    "CPU times of 0": Case(
        TWO_STAGES,
        {4: 51, 2: 91},
        (80, 80),
        change=changes.metrics_changed(Executor_CPU_Time=0),
        phrases=("Executor CPU Time",),
    ),
    # 40 core-seconds for each stage, and ten seconds in which its tasks wait
    "half of the time computed": Case(
        [[MadeJob((MadeStage(8, 10_000, cpu=0.5), MadeStage(8, 10_000, parents=(0,), cpu=0.5)))]], {4: 51, 2: 71}, (40, 40)
    ),
    "some ends of tasks lost": Case(
        TWO_STAGES, {4: 51, 2: 91}, (80, 80), change=changes.without_ends(3, stage=1), phrases=("fewer ends of tasks",)
    ),
    "an end of a stage lost": Case(
        TWO_STAGES, {4: 51}, (80, 80), change=changes.without_end_of_stage, phrases=("without an end",)
    ),
    "an end of a task that is there twice": Case(TWO_STAGES, {4: 51, 2: 91}, (80, 80), change=changes.twice_ended),
    # two cores for 40 s, then eight for ten
    "grown": Case(
        [[MadeJob((MadeStage(16, 10_000),))]],
        {8: 31, 4: 51, 2: 91},
        (160,),
        executors=[MadeExecutor(2), MadeExecutor(6, comes_ms=50_000)],
        phrases=("2 to 8 cores",),
    ),
    # eight cores for 20 s, and after a pause of 30 s two for 80 s
    "shrunk": Case(
        [[MadeJob((MadeStage(16, 10_000),)), MadeJob((MadeStage(16, 10_000),), pause_ms=30_000)]],
        {8: 81, 4: 121, 2: 201},
        (160, 160),
        executors=[MadeExecutor(2), MadeExecutor(6, leaves_ms=35_000)],
        phrases=("2 to 8 cores",),
    ),
    # at 22 s an executor dies with two tasks, which begin again at 30 s; the loss is in the plan, too
    "lost an executor": Case(
        [[MadeJob((MadeStage(8, 10_000),))]],
        {4: 41},
        (80,),
        executors=[MadeExecutor(2), MadeExecutor(2, dies_ms=22_000)],
        phrases=("2 to 4 cores",),
    ),
    "an executor that comes in the first tasks' time": Case(
        [[MadeJob((MadeStage(8, 10_000),))]], {4: 33}, (80,), executors=[MadeExecutor(2), MadeExecutor(2, comes_ms=12_000)]
    ),
    # first four tasks of one job, then four of the other
    "threads": Case([[MadeJob((MadeStage(4, 10_000),))], [MadeJob((MadeStage(4, 10_000),))]], {4: 31, 2: 51}, (40, 40)),
    # the second job of the first thread waits for the rest of the other thread's, which was there before
    "threads that pause": Case(
        [[MadeJob((MadeStage(4, 10_000),)), MadeJob((MadeStage(4, 10_000),), pause_ms=5_000)], [MadeJob((MAPS,))]],
        {4: 51},
        (40, 80, 40),
    ),
    "many short jobs": Case([[MadeJob((MadeStage(4, 100),), pause_ms=300)] * 30], {4: 23, 2: 26}, (0.4,) * 30),
    "many tasks": Case([[MadeJob((MadeStage(800, 500),))]], {4: 111, 1: 411}, (400,)),
    "branches": Case(
        [[MadeJob((MadeStage(4, 10_000), MadeStage(4, 10_000), MadeStage(2, 5_000, parents=(0, 1))))]],
        {4: 36, 2: 56},
        (40, 40, 10),
    ),
    # on one slot each the two short stages follow each other while the long one runs
    "a chain during a long stage": Case(
        [[MadeJob((MadeStage(1, 10_000), MadeStage(1, 5_000), MadeStage(1, 10_000, parents=(1,))))]], {4: 26}, (10, 5, 10)
    ),
    "a job that failed": Case(
        [[MadeJob((MadeStage(1, 1_000),), fails=True), MadeJob((MAPS, REDUCES))]], {4: 52, 2: 92}, (0, 80, 80)
    ),
    "tasks of two cores": Case(TWO_STAGES, {2: 91}, (80, 80), options={"task_cpus": 2}),
    "old and known": Case(TWO_STAGES, {4: 51}, (80, 80), options={"version": "2.3.4"}),
    # ---------------------------------------------------------- ways to run Spark, and what vendors write
    "Databricks": Case(TWO_STAGES, {4: 50, 2: 90}, (80, 80), change=changes.of_databricks, phrases=(DATABRICKS,)),
    "Databricks in parts": Case(
        TWO_STAGES, {4: 50, 2: 90}, (80, 80), change=changes.of_databricks, phrases=(DATABRICKS,), files=changes.by_the_hour
    ),
    "rolling and packed": Case(TWO_STAGES, {4: 51, 2: 91}, (80, 80), files=changes.rolling),
    "YARN's cluster mode": Case(
        TWO_STAGES,
        {4: 51, 2: 91},
        (80, 80),
        change=changes.started_by(
            "org.apache.spark.deploy.yarn.ApplicationMaster --class org.apache.spark.deploy.PythonRunner "
            "--primary-py-file program.py --arg 7 --properties-file /made/spark.properties"
        ),
    ),
    "a dated name": Case(
        TWO_STAGES,
        {4: 51, 2: 91},
        (80, 80),
        change=changes.changed("ApplicationStart", App_Name="load-2026-11-26"),
        key="load-2026-11-26@program.py",
    ),
    # its own start is at 4 s; the call of spark-submit was the first attempt's
    "the second attempt of an application": Case(
        TWO_STAGES, {4: 47, 2: 87}, (80, 80), change=changes.changed("ApplicationStart", App_Attempt_ID="2")
    ),
    "a vendor's release": Case(TWO_STAGES, {4: 51, 2: 91}, (80, 80), options={"version": "3.3.0-amzn-0"}),
    "tasks in the driver": Case(TWO_STAGES, {4: 51, 2: 91}, (80, 80), change=changes.in_the_driver),
    "events that tell nothing of the work": Case(TWO_STAGES, {4: 51, 2: 91}, (80, 80), change=changes.among_others),
    "without its start": Case(
        TWO_STAGES,
        {4: 41, 2: 81},
        (80, 80),
        change=changes.without("ApplicationStart"),
        phrases=("no SparkListenerApplicationStart; its name is not known, and its time counts from its first job",),
        key="@program.py",
    ),
    "without its settings": Case(
        TWO_STAGES,
        {4: 47, 2: 87},
        (80, 80),
        change=changes.without("EnvironmentUpdate"),
        phrases=("no SparkListenerEnvironmentUpdate; its main file and when it was submitted are not known",),
        key="made",
    ),
    # ---------------------------------------------------------- shapes of jobs
    "few single tasks far apart": Case(
        [[MadeJob((MadeStage(1, 1_000),), pause_ms=100_000)] * 3], {4: 314, 1: 314}, (1, 1, 1)
    ),
    "fewer long tasks than cores": Case([[MadeJob((MadeStage(2, 100_000),))]], {4: 111, 2: 111, 1: 211}, (200,)),
    "one task after many": Case([[MadeJob((MAPS, MadeStage(1, 5_000, parents=(0,))))]], {4: 36, 2: 56}, (80, 5)),
    "hundreds of tiny tasks after few": Case([[MadeJob((MAPS, MadeStage(200, 20, parents=(0,))))]], {4: 32, 2: 53}, (80, 4)),
    # of eight tasks the last one begins at 20 s, and lasts four times as long as the others
    "a task that takes much longer": Case([[MadeJob((MadeStage(8, 10_000, long_ms=40_000),))]], {4: 61}, (110,)),
    # each stage computes for 0.4 s on four cores, and for 0.8 s on two
    "tasks that wait for a device": Case(
        [[MadeJob((MadeStage(8, 10_000, cpu=0.02), MadeStage(8, 10_000, parents=(0,), cpu=0.02)))]],
        {4: 51, 2: 51.8},
        (1.6, 1.6),
    ),
    "tasks with Python workers": Case(
        [[MadeJob((MadeStage(8, 10_000, cpu=0.1, operator="ArrowEvalPython"), REDUCES))]], {4: 51, 2: 91}, (80, 80)
    ),
    "stages that were skipped": Case(
        [[MadeJob((MAPS, REDUCES)), MadeJob((MadeStage(8, 10_000, skipped=True), REDUCES))]], {4: 71, 2: 131}, (80, 80, 80)
    ),
    "ten jobs of one query at once": Case(
        [[MadeJob((MadeStage(4, 1_000),))]] * 10, {4: 21, 2: 31}, (4,) * 10, change=changes.in_one_query
    ),
    # both maps are done at 40 s, and only the result's stage is not skipped
    "an adaptive query": Case(
        [
            [
                MadeJob((MadeStage(4, 10_000),)),
                MadeJob((SKIPPED, SKIPPED, MadeStage(4, 10_000, parents=(0, 1))), pause_ms=10_000),
            ],
            [MadeJob((MadeStage(4, 10_000),))],
        ],
        {4: 41},
        (40, 40, 40),
        change=changes.in_one_query,
    ),
    # on four slots the first wave is the short one's task and three of the long one's; the last ends at 32 s
    "a short job and a long one at once": Case([[MadeJob((MadeStage(1, 2_000),))], [MadeJob((MAPS,))]], {4: 33}, (2, 80)),
    "micro-batches": Case(
        [[MadeJob((MadeStage(4, 1_000), MadeStage(4, 1_000, parents=(0,))), pause_ms=2_000)] * 5],
        {4: 31, 2: 41},
        (4, 4) * 5,
        change=changes.in_micro_batches,
    ),
    # ---------------------------------------------------------- tasks that were tried again
    # two of the first four tasks fail at 20 s, so the third wave is theirs
    "tasks that failed once": Case([[MadeJob((MadeStage(8, 10_000, failing=2),))]], {4: 41}, (80,)),
    # two tasks fail on the broken executor at 20 s; the other one does the six that are left by 50 s
    "an executor that was excluded": Case(
        [[MadeJob((MadeStage(8, 10_000),))]], {4: 51}, (80,), executors=[MadeExecutor(2), MadeExecutor(2, broken=True)]
    ),
    "a speculative copy that was killed": Case(TWO_STAGES, {4: 51, 2: 91}, (80, 80), change=changes.with_killed_copy),
    # at 25 s an executor dies with two tasks and the output of two more: two slots do these four from 30 s to 50 s
    "tasks done again for their lost output": Case(
        [[MadeJob((MadeStage(8, 10_000), MadeStage(2, 10_000, parents=(0,))))]],
        {4: 61},
        (100, 20),
        executors=[MadeExecutor(2), MadeExecutor(2, dies_ms=25_000, with_output=True)],
        phrases=("did tasks again", "2 to 4 cores"),
    ),
    # ---------------------------------------------------------- executors
    "executors of unlike sizes": Case(
        TWO_STAGES, {8: 31, 4: 51}, (80, 80), executors=[MadeExecutor(1), MadeExecutor(2), MadeExecutor(5)]
    ),
    # five tasks and then three, in the time in which four cores do the eight
    "an executor that never came": Case(
        TWO_STAGES,
        {4: 51, 2: 91},
        (80, 80),
        executors=[MadeExecutor(4), MadeExecutor(1)],
        change=changes.without_executor("2", "ExecutorAdded"),
        phrases=("1 executor ",),
    ),
    # each job has two cores, and two more from 15 s after its start on: two tasks, two, two at 15 s, and two
    "executors that come and go with each job": Case(
        [[MadeJob((MAPS,)), MadeJob((MAPS,), pause_ms=20_000)]],
        {4: 71, 2: 111},
        (80, 80),
        executors=[MadeExecutor(2), *(MadeExecutor(2, comes_ms=ms, leaves_ms=ms + 5_000) for ms in (25_000, 75_000))],
        phrases=("2 to 4 cores",),
    ),
    "executors that left before the end": Case(TWO_STAGES, {4: 51, 2: 91}, (80, 80), change=changes.left_at_the_end),
    # four tasks on the two cores that a stage without a profile has, then eight on the four of its own
    "a stage with executors of its own": Case(
        [[MadeJob((MadeStage(4, 10_000), MadeStage(8, 10_000, parents=(0,), profile=1)))]],
        {6: 51},
        (40, 80),
        executors=[MadeExecutor(2), MadeExecutor(4, profile=1)],
    ),
}
"""Logs of every kind that a plan follows from."""

REFUSED = {
    "of Spark 2.2": (Case(TWO_STAGES, options={"version": "2.2.1"}), "2.2.1"),
    "without its first line": (Case(TWO_STAGES, change=changes.without("LogStart")), "SparkListenerLogStart"),
    "without times of submission": (Case(TWO_STAGES, change=changes.without_submission_times), "Submission Time"),
    "without run times": (Case(TWO_STAGES, change=changes.metrics_changed(Executor_Run_Time=None)), "no task"),
    "without executors": (Case(TWO_STAGES, change=changes.without("ExecutorAdded")), "no executor"),
    "without jobs": (Case([]), "(it has no job)"),
    "without an end": (Case(TWO_STAGES, change=changes.without("ApplicationEnd")), "no SparkListenerApplicationEnd;"),
    "cut off within a line": (Case(TWO_STAGES, files=changes.cut_off), "no SparkListenerApplicationEnd, line"),
    "with a broken line": (Case(TWO_STAGES, files=changes.garbled), "corrupt: line"),
    "of a job that never ended": (Case(TWO_STAGES, change=changes.without("JobEnd")), "(1 job "),
    "that ended before its last job": (Case(TWO_STAGES, change=changes.before_its_jobs), "(1 job "),
    "of a last job that failed": (Case([[MadeJob((MAPS,)), MadeJob((MadeStage(1, 1_000),), fails=True)]]), "(1 job failed)"),
}
"""Logs of every kind from which nothing follows, each with a part of the reason."""
