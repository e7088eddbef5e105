"""Picture of a night of several applications: what each held, and what it would hold with the fewest cores.

One row per job, all with the same axes, over the time of day. A row shows the cores that its executors held (filled) and the
fewest with which it ends by the deadline (line). Needs matplotlib (extra `plots`). Not covered: where the figures come from
(`stage_model.forecast.night`), runs on a cluster of ours (`controller.runs.plot_runs`).
"""

from __future__ import annotations

from datetime import datetime, tzinfo
from pathlib import Path
from typing import TYPE_CHECKING, Any

from controller.runs.plot import ALLOCATED, DEADLINE, PROGRESS, new_figure, save
from stage_model.forecast.night import LATEST_S, Night, NightJob

if TYPE_CHECKING:
    from matplotlib.axes import Axes

JOB_INCHES, EDGE_INCHES = 1.1, 1.4
MOST_JOBS = 40
"""Number of rows of a picture that people can still read."""


def plot_night(found: Night, out: Path, zone: tzinfo) -> None:
    """Draw the night into `out`, the first `MOST_JOBS` jobs in the order of their start, with times of that zone.

    Raises `BadInput` when `out` is no picture or cannot be written, `Unavailable` without matplotlib.
    """
    jobs = found.jobs[:MOST_JOBS]
    figure = new_figure(out, height=EDGE_INCHES + JOB_INCHES * len(jobs))
    axes: list[Axes] = list(figure.subplots(len(jobs), 1, sharex=True, sharey=True, squeeze=False)[:, 0])
    handles: dict[str, Any] = {}
    for axis, job in zip(axes, jobs, strict=True):
        handles.update(_draw_job(axis, job, found.deadline_s, zone))
    most = max(max(job.held.most_cores, job.fewest_held or 0.0) for job in jobs)
    axes[0].set_ylim(0, 1.12 * max(most, 0.1))
    figure.supylabel("cores", fontsize=10)
    if len(found.jobs) > len(jobs):
        figure.suptitle(f"the first {len(jobs)} of {len(found.jobs)} jobs", fontsize=10)
    figure.legend(list(handles.values()), list(handles), loc="outside lower center", ncols=3, frameon=False, fontsize=9)
    save(figure, out)


def _draw_job(axis: Axes, job: NightJob, deadline_s: float, zone: tzinfo) -> dict[str, Any]:
    """Draw one row; return what the legend should name."""

    def moment(epoch_s: float) -> Any:
        return datetime.fromtimestamp(min(epoch_s, LATEST_S), zone)

    steps = [*job.held.steps, (job.held.end_s, 0.0)]
    times, cores = [moment(job.start_s + since_s) for since_s, _ in steps], [cores for _, cores in steps]
    axis.fill_between(times, cores, step="post", color=PROGRESS, alpha=0.35, linewidth=0, label="cores held")
    fewest, end_s = job.fewest_held, job.new_end_s
    if fewest is not None and end_s is not None:
        first_s = min(end_s, job.start_s + job.held.first_s)
        span = [moment(first_s), moment(end_s)]
        axis.plot(span, [fewest, fewest], color=ALLOCATED, linewidth=1.6, label="fewest cores")
    axis.axvline(moment(deadline_s), color=DEADLINE, linewidth=1.6, linestyle=(0, (5, 3)), label="deadline")
    axis.set_title(job.name, fontsize=9.5, loc="left", parse_math=False)  # names of Scala objects have $
    handles, labels = axis.get_legend_handles_labels()
    return dict(zip(labels, handles, strict=True))
