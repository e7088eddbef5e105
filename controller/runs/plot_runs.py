"""Pictures of several jobs in rows, one below the other, all with the same axes.

Runs over one time axis, the paper's Fig. 4, whose time counts from the earliest submission: a row shows granted cores
(filled), demanded cores (line), arrival, deadline and end. Where the line is above the area the run was squeezed; debt, where
there was any, has an axis of its own. A night of several applications over the time of day: a row shows the cores that the
executors held (filled) and the fewest with which the job ends by the deadline (line).

Needs matplotlib (extra `plots`). Not covered: one run in detail (`controller.runs.plot`), the figures of a night
(`stage_model.forecast.night`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, tzinfo
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from controller.runs.plot import ALLOCATED, DEADLINE, PROGRESS, columns, new_figure, number, save, ticks
from controller.runs.run_folder import read_samples, read_summary
from controller.wire.worker import Sample
from stage_model.errors import BadInput
from stage_model.forecast.night import LATEST_S, Night, NightJob
from stage_model.units import format_duration, priority_name

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Okabe and Ito's colours: they stay apart for colour-blind eyes. Orange-red is left to the deadlines.
COLOURS = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#8c6d31")
ARRIVAL, DEMANDED, DEBT = "#636363", "#252525", "#54278f"
ROW_INCHES, FRAME_INCHES = 1.7, 1.2
JOB_INCHES, EDGE_INCHES = 1.1, 1.4
MOST_JOBS = 40
"""Number of rows of a picture of a night that people can still read."""


@dataclass(frozen=True, slots=True)
class CoreCurve:
    """Curves of a run, per tick: seconds since the run's own submission; over all its executors cores granted and demanded,
    and core-seconds of debt."""

    time_s: tuple[float, ...]
    granted: tuple[float, ...]
    demanded: tuple[float, ...]
    debt: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Row:
    """A run as drawn. Times are seconds on the common axis."""

    label: str
    arrival_s: float
    deadline_s: float | None
    end_s: float | None
    curve: CoreCurve

    @property
    def last_s(self) -> float:
        return max(self.arrival_s + self.curve.time_s[-1], self.deadline_s or 0.0, self.end_s or 0.0)


def plot_runs(run_dirs: Sequence[Path], out: Path) -> None:
    """Draw the runs recorded in `run_dirs` into `out`, one below the other in the order of their arrival.

    Raises `BadInput` for a run without samples or time of submission, or an unknown ending, `Unavailable` without matplotlib.
    """
    rows = common_axis([(path, read_summary(path), read_samples(path)) for path in run_dirs])
    figure = new_figure(height=FRAME_INCHES + ROW_INCHES * len(rows))
    drawn = [partial(_draw, row=row, colour=COLOURS[place % len(COLOURS)]) for place, row in enumerate(rows)]
    axes = _draw_rows(figure, drawn, "cores (all executors)")
    axes[0].set_ylim(0, max(max(*row.curve.granted, *row.curve.demanded, 0.1) for row in rows) * 1.12)
    axes[0].set_xlim(0, max(row.last_s for row in rows) * 1.02)
    axes[-1].set_xlabel("seconds since the first submission")
    save(figure, out)


def plot_night(found: Night, out: Path, zone: tzinfo) -> None:
    """Draw the night into `out`, the first `MOST_JOBS` jobs in the order of their start, with times of that zone.

    Raises `BadInput` when `out` is no picture or cannot be written, `Unavailable` without matplotlib.
    """
    jobs = found.jobs[:MOST_JOBS]
    figure = new_figure(height=EDGE_INCHES + JOB_INCHES * len(jobs))
    axes = _draw_rows(figure, [partial(_draw_job, job=job, deadline_s=found.deadline_s, zone=zone) for job in jobs], "cores")
    most = max(max(job.held.most_cores, job.fewest_held or 0.0) for job in jobs)
    axes[0].set_ylim(0, 1.12 * max(most, 0.1))
    if len(found.jobs) > len(jobs):
        figure.suptitle(f"the first {len(jobs)} of {len(found.jobs)} jobs", fontsize=10)
    save(figure, out)


def _draw_rows(figure: Figure, drawn: Sequence[Callable[[Axes], dict[str, Any]]], label: str) -> list[Axes]:
    """Draw rows, each of which returns its lines for the legend; return their axes."""
    axes: list[Axes] = list(figure.subplots(len(drawn), 1, sharex=True, sharey=True, squeeze=False)[:, 0])
    handles: dict[str, Any] = {}
    for axis, draw in zip(axes, drawn, strict=True):
        handles.update(draw(axis))
    figure.supylabel(label, fontsize=10)
    figure.legend(
        list(handles.values()), list(handles), loc="outside lower center", ncols=len(handles), frameon=False, fontsize=9
    )
    return axes


def common_axis(runs: Sequence[tuple[Path, dict[str, Any], Sequence[Sample]]]) -> list[Row]:
    """Return the rows in order of arrival. Raise `BadInput` for a run that cannot be placed."""
    submitted: list[float] = []
    for path, summary, samples in runs:
        if not samples:
            raise BadInput(f"{path} holds no samples, so there is nothing to draw; name the folder of a run with tasks.")
        epoch_s = number(summary.get("submitted_epoch_s"))
        if epoch_s is None:
            raise BadInput(f"{path} does not say when it was submitted; name runs whose summary has submitted_epoch_s.")
        submitted.append(epoch_s)
    first_s = min(submitted, default=0.0)
    rows = []
    for (_, summary, samples), epoch_s in zip(runs, submitted, strict=True):
        curve = core_curve(samples)
        arrival_s = epoch_s - first_s
        deadline_s, end_s = number(summary.get("deadline_s")), number(summary.get("end_s"))
        rows.append(
            Row(
                label=_label(summary, arrival_s, deadline_s, end_s),
                arrival_s=arrival_s,
                deadline_s=None if deadline_s is None else arrival_s + deadline_s,
                end_s=None if end_s is None else arrival_s + end_s,
                curve=curve,
            )
        )
    return sorted(rows, key=lambda row: row.arrival_s)


def core_curve(samples: Sequence[Sample]) -> CoreCurve:
    """Sum grants, demands and debts of the executors per tick. A grant holds from its tick on."""
    rows = [
        (
            now_s,
            math.fsum(s.grant for s in alive),
            math.fsum(s.demand for s in alive),
            math.fsum(s.debt_core_s for s in alive),
        )
        for now_s, _, alive in ticks(samples)
    ]
    return CoreCurve(*columns(rows, 4))


def _label(summary: dict[str, Any], arrival_s: float, deadline_s: float | None, end_s: float | None) -> str:
    """Return one line: the run's name, its pipeline, its priority, its arrival, and how far from its deadline it ended."""
    priority = summary.get("priority")
    parts = [str(summary.get("name") or summary.get("app_id") or "run")]
    pipeline = summary.get("pipeline")
    if isinstance(pipeline, dict):
        parts.append(f"in {pipeline.get('name')}")
    if isinstance(priority, int):
        parts.append(f"priority {priority_name(priority)}")
    parts.append(f"arrives at {format_duration(arrival_s)}")
    if end_s is not None and deadline_s is not None:
        error_s = end_s - deadline_s
        side = "late" if error_s > 0 else "early"
        parts.append(f"ends after {format_duration(end_s)}, {format_duration(abs(error_s))} {side}")
    elif end_s is not None:
        parts.append(f"ends after {format_duration(end_s)}")
    return " · ".join(parts)


def _draw(axis: Axes, row: Row, colour: str) -> dict[str, Any]:
    """Draw one row; return what the legend should name."""
    time_s = [row.arrival_s + seconds for seconds in row.curve.time_s]
    axis.fill_between(time_s, row.curve.granted, step="post", color=colour, alpha=0.55, linewidth=0)
    axis.step(time_s, row.curve.granted, where="post", color=colour, linewidth=1.2, label="granted cores (area)")
    axis.step(time_s, row.curve.demanded, where="post", color=DEMANDED, linewidth=0.8, label="demanded cores")
    axis.axvline(row.arrival_s, color=ARRIVAL, linewidth=1.3, linestyle=":", label="arrival")
    if row.deadline_s is not None:
        axis.axvline(row.deadline_s, color=DEADLINE, linewidth=1.6, linestyle=(0, (5, 3)), label="deadline")
    if row.end_s is not None:
        axis.axvline(row.end_s, color="black", linewidth=1.6, label="end")
    axis.set_title(row.label, fontsize=9.5, loc="left")
    handles, labels = axis.get_legend_handles_labels()
    if any(row.curve.debt):
        right = axis.twinx()
        [line] = right.plot(time_s, row.curve.debt, color=DEBT, linewidth=1.4, linestyle="-.")
        right.set_ylim(0, max(*row.curve.debt, 1.0) * 1.12)
        right.set_ylabel("debt (core-s)", color=DEBT, fontsize=8.5)
        right.tick_params(axis="y", colors=DEBT)
        handles, labels = [*handles, line], [*labels, "debt"]
    return dict(zip(labels, handles, strict=True))


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
