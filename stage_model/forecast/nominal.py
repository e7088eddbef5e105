"""The work of each stage in this run: the amount that the stage reads, over its nominal rate (document 004, section 2). Pure.

The nominal rate is what the profile says: records read per core-second. So the work of a stage is its profiled work times its
*share*: what it reads in this run / what it read in the profile's. A stage reads what its parents wrote, as soon as they
have, and until then as much as their own shares predict; of input, what its tasks have read so far. Bytes stand for
records that are batches of Python objects, and for records that are not known; the number of tasks stands for both where a
stage reads nothing. Not covered: how work grows with what is read, from several runs (`scaling`); CPU that a run shows
besides (`match`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median

from stage_model.forecast.estimate import StageEstimate
from stage_model.history.stage_run import StageRun

MORE = 1.1
"""A stage that has read more than this many times what its known parents have written has other parents, too."""


def of_this_run(stages: Sequence[StageEstimate], seen: Mapping[int, StageRun]) -> list[StageEstimate]:
    """Return the stages as large as they are in this run. They are in order, so parents come before their children; `seen`
    are those that were submitted, by their place."""
    found: list[StageEstimate] = []
    for stage, share in zip(stages, _shares(stages, seen), strict=True):
        found.append(stage.times(share).after(found))
    return found


def _shares(stages: Sequence[StageEstimate], seen: Mapping[int, StageRun]) -> list[float]:
    found: list[float] = []
    actual = expected = 0.0  # of all input that was looked at so far
    for stage in stages:
        run = seen.get(stage.index)
        whole, part = stage.amounts.read(stage.in_bytes), stage.amounts.input(stage.in_bytes)
        by_tasks = _by_tasks(stage, run)
        if not whole:
            share = by_tasks
        else:
            of_input = by_tasks
            if of_input == 1 and expected:  # as many tasks may each read more
                of_input = actual / expected
            fed = None if part == whole else _fed(stage, stages, found, seen)
            share = ((whole - part) * (1.0 if fed is None else fed) + part * of_input) / whole
            if run is not None and (part or run.teaches):
                share = _reads(stage, run, share, fed) / whole
        if part and run is not None:
            actual, expected = actual + share * part, expected + part
        found.append(share)
    return found


def _by_tasks(stage: StageEstimate, run: StageRun | None) -> float:
    """Return the tasks of this run / those of the profile's; 1 on other slots, where the same may be cut into more tasks."""
    if run is None or not stage.tasks or not run.slots or run.slots != stage.slots:
        return 1.0
    return run.info.tasks / stage.tasks


def _fed(
    stage: StageEstimate, stages: Sequence[StageEstimate], found: Sequence[float], seen: Mapping[int, StageRun]
) -> float | None:
    """Return what the stage's parents write for it in this run / what they wrote in the profile's; None where that is not
    known."""
    wrote = writes = 0.0
    for parent in stage.parents:
        wrote += stages[parent].amounts.written(stage.in_bytes)
        writes += _writes(stages[parent], seen.get(parent), found[parent], stage.in_bytes)
    return writes / wrote if wrote else None


def _reads(stage: StageEstimate, run: StageRun, expected: float, fed: float | None) -> float:
    """Return the amount that a stage reads. It was `expected` to be this share of the profile's, and what its parents write
    is the share `fed` of what they wrote then (None: not known). While tasks are to end, the input is likely to lie in the
    same tasks as what the parents wrote."""
    in_bytes = stage.in_bytes
    whole, then = stage.amounts.read(in_bytes), stage.amounts.input(in_bytes)
    of_parents, shown = whole - then, run.shown.input(in_bytes)
    part = (run.shown.read(in_bytes) - shown) / of_parents if of_parents > 0 else 0.0
    if of_parents <= 0 or fed is None or run.shown_tasks >= run.info.tasks or part > MORE * fed:
        return _whole(run.shown.read(in_bytes), run, expected * whole)
    return of_parents * fed + _likely(shown, run, expected * whole - of_parents * fed, then, fed, part)


def _writes(stage: StageEstimate, run: StageRun | None, share: float, in_bytes: bool) -> float:
    """Return the amount that a stage writes, in bytes or in records, if it reads this `share` of what it read in the
    profile's run."""
    then, read = stage.amounts.written(in_bytes), stage.amounts.read(stage.in_bytes)
    if run is None:
        return share * then
    part = run.shown.read(stage.in_bytes) / read if read else 0.0
    return _likely(run.shown.written(in_bytes), run, share * then, then, share if read else 0.0, part)


def _likely(shown: float, run: StageRun, expected: float, then: float, share: float, part: float) -> float:
    """Return an amount of a whole stage, of which the ended tasks had `shown`. It was `then` in the profile's run, and is
    `expected` in this one. The stage reads this `share` of what it read in the profile's run, and its ended tasks have read
    this `part` of that; both are 0 where the amount does not follow from it.

    While tasks are to end, the first partitions may be the large ones, and an amount need not grow with what is read. So it
    is the median of three: what was expected, what follows from the number of tasks that ended, and what follows from what
    these read. The ratio to what was read counts one task as expected with those that ended."""
    tasks, by_tasks = run.info.tasks, _whole(shown, run, expected)
    one = expected / tasks if tasks else 0.0
    if one <= 0 or share <= 0 or part > MORE * share or not 0 < run.shown_tasks < tasks:
        return by_tasks
    by_reads = shown + max(0.0, share - part) * then * (shown + one) / (part * then + one)
    return median((expected, by_tasks, by_reads))


def _whole(shown: float, run: StageRun, expected: float) -> float:
    """Return the amount of a whole stage, whose ended tasks had `shown`: the other tasks have the average of these, where
    what was `expected` counts as one of them."""
    tasks, ended = run.info.tasks, run.shown_tasks
    if not tasks or ended > tasks:
        return expected
    return shown + (tasks - ended) * (expected / tasks + shown) / (1 + ended)
