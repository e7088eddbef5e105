"""Pictures of one run, the paper's Fig. 3, and of one application's cores against its end.

A run: progress against set-point, allocated and used cores, stage borders, deadline and end. Left axis: progress and
set-point of each stage (0 to 1). Right axis: cores, summed over the executors. Needs matplotlib (extra `plots`). Not covered:
several runs in one picture (`controller.runs.plot_runs`), the files (`controller.runs.run_folder`), the curve's figures
(`stage_model.forecast.curve`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from controller.runs.run_folder import read_samples, read_stages, read_summary
from controller.wire.course import StageCourse
from controller.wire.worker import Sample
from stage_model.errors import BadInput, Unavailable
from stage_model.forecast.curve import Curve
from stage_model.units import format_distance, format_duration

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MOST_LABELS = 25
"""Largest number of stages with names: more names would cover each other; the borders stay."""
TICK_S = 0.2
"""Seconds that a tick lasts: its samples carry times closer than this, and executors are summed per tick."""
LOST_S = 5.0
"""Seconds without a sample after which an executor no longer counts."""

# Two pairs that stay apart for colour-blind eyes and in grey print: blue and violet are progress, orange is cores.
PROGRESS, SET_POINT, ALLOCATED = "#08519c", "#54278f", "#d94801"
USED, BORDER, DEADLINE = "#fdae6b", "#bdbdbd", "#cb181d"


@dataclass(frozen=True, slots=True)
class Curves:
    """The lines of the picture. Per tick: cores over all executors. Stage after stage: its progress; nan ends a stage's
    line."""

    time_s: tuple[float, ...]
    allocated: tuple[float, ...]
    used: tuple[float, ...]
    progress_time_s: tuple[float, ...]
    progress: tuple[float, ...]
    set_point: tuple[float, ...]


def plot_run(run_dir: Path, out: Path) -> None:
    """Draw the run recorded in `run_dir` into `out`; the name's ending gives the kind (png, svg, pdf).

    Raises `BadInput` for a folder without samples or an unknown ending, `Unavailable` without matplotlib.
    """
    summary = read_summary(run_dir)
    samples = read_samples(run_dir)
    if not samples:
        raise BadInput(f"{run_dir} holds no samples, so there is nothing to draw; name the folder of a run with tasks.")
    figure = new_figure(height=5)
    left = figure.add_subplot()
    _draw(left, summary, curves(samples), read_stages(run_dir))
    save(figure, out)


def plot_curve(found: Curve, out: Path, *, deadline_s: float | None = None, cores: float | None = None) -> None:
    """Draw when an application would end with each number of cores, with the interval of its runs, into `out`; with a
    deadline in seconds and the cores that it takes, where there are any.

    Raises `BadInput` when `out` is no picture or cannot be written, `Unavailable` without matplotlib.
    """
    figure = new_figure(height=5)
    axis = figure.add_subplot()
    counts = [point.cores for point in found.points]
    spread = [(p.cores, p.least_s, p.most_s) for p in found.points if p.least_s is not None and p.most_s is not None]
    if spread:
        at, least, most = zip(*spread, strict=True)
        axis.fill_between(
            at, least, most, color=PROGRESS, alpha=0.2, linewidth=0, label=f"least and most of {found.runs} runs"
        )
    axis.plot(counts, [point.end_s for point in found.points], color=PROGRESS, marker="o", linewidth=1.6, label="end")
    if deadline_s is not None:
        axis.axhline(deadline_s, color=DEADLINE, linewidth=1.6, linestyle=(0, (5, 3)), label="deadline")
    if cores is not None:
        axis.axvline(cores, color=ALLOCATED, linewidth=1.3, label="cores that it takes")
    axis.set_xlim(0, max(counts) * 1.02)
    axis.set_ylim(bottom=0)
    axis.set_xlabel("cores")
    axis.set_ylabel("seconds from submission to the end")
    axis.set_title(found.profile, fontsize=11, loc="left")
    figure.legend(loc="outside lower center", ncols=4, frameon=False, fontsize=9)
    save(figure, out)


def new_figure(*, height: float) -> Figure:
    """Return an empty figure for `save`: Agg's canvas, so no display is looked for and pyplot's state stays untouched. Raise
    `Unavailable` without matplotlib."""
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError as problem:
        raise Unavailable(
            f"a picture needs matplotlib, which is not installed ({problem}); "
            "install it next to sparkpace (of pipx: pipx inject sparkpace matplotlib)"
        ) from problem
    figure = Figure(figsize=(11, height), dpi=130, layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def save(figure: Figure, out: Path) -> None:
    """Write the figure; the ending of `out` gives the kind. Raise `BadInput` if it is no kind of picture, or cannot be
    written."""
    try:
        figure.savefig(out)
    except (OSError, ValueError) as problem:
        why = problem.strerror if isinstance(problem, OSError) else problem
        raise BadInput(
            f"{out} cannot be written ({why}); give a name that ends in .png, .svg or .pdf, where you may write"
        ) from problem


def curves(samples: Sequence[Sample]) -> Curves:
    """Sum executors per tick: each counts with its latest sample until it is silent for `LOST_S`.

    Every executor of a stage reports the stage's whole progress; in each tick, the largest report is the newest.
    """
    cores: list[tuple[float, float, float]] = []
    stages: dict[int, list[tuple[float, float, float]]] = {}
    for now_s, tick, alive in ticks(samples):
        used = math.fsum(math.nan if s.usage is None else s.usage for s in alive)
        cores.append((now_s, math.fsum(s.quota for s in alive), used))
        best: dict[int, tuple[float, float, float]] = {}
        for sample in tick:
            if sample.stage is not None and sample.progress is not None:
                planned = math.nan if sample.set_point is None else sample.set_point
                row = (now_s, sample.progress, planned)
                if sample.stage not in best or row[1] > best[sample.stage][1]:
                    best[sample.stage] = row
        for stage, row in best.items():
            stages.setdefault(stage, []).append(row)
    plan = [row for _, rows in sorted(stages.items()) for row in (*rows, (rows[-1][0], math.nan, math.nan))]
    return Curves(*columns(cores, 3), *columns(plan, 3))


def columns(rows: Sequence[tuple[float, ...]], count: int) -> Iterator[tuple[float, ...]]:
    """Return the `count` columns of these rows, also where there are no rows."""
    return (tuple(row[column] for row in rows) for column in range(count))


def ticks(samples: Iterable[Sample]) -> Iterator[tuple[float, list[Sample], list[Sample]]]:
    """Yield for each tick its time, its samples, and the latest of every executor that was not silent for `LOST_S`."""
    together: dict[int, list[Sample]] = {}
    for sample in samples:
        together.setdefault(round(sample.time_s / TICK_S), []).append(sample)
    latest: dict[str, Sample] = {}
    for tick in sorted(together):
        now_s = max(sample.time_s for sample in together[tick])
        latest.update((sample.executor_id, sample) for sample in together[tick])
        yield now_s, together[tick], [sample for sample in latest.values() if now_s - sample.time_s <= LOST_S]


def title(summary: dict[str, Any]) -> str:
    """Return one line: the run's name, its law, and how far from the deadline it ended."""
    parts = [str(summary.get("name") or summary.get("app_id") or "run")]
    if summary.get("law"):
        parts.append(f"law {summary['law']}")
    deadline_s, end_s, error_pct = (number(summary.get(key)) for key in ("deadline_s", "end_s", "error_pct"))
    if deadline_s is not None:
        parts.append(f"deadline {format_duration(deadline_s)}")
    if end_s is not None:
        parts.append(f"end {format_duration(end_s)}")
    if error_pct is not None:
        parts.append(format_distance(error_pct))
    return " · ".join(parts)


def _draw(left: Axes, summary: dict[str, Any], data: Curves, stages: Sequence[StageCourse]) -> None:
    right = left.twinx()
    # Cores lie behind, so that the thin lines of progress stay readable on top of their area.
    left.set_zorder(right.get_zorder() + 1)
    left.patch.set_visible(False)
    deadline_s, end_s = number(summary.get("deadline_s")), number(summary.get("end_s"))
    last_s = max(value for value in (data.time_s[-1], deadline_s, end_s) if value is not None)

    right.fill_between(data.time_s, data.used, step="post", color=USED, alpha=0.55, linewidth=0, label="used cores")
    right.step(data.time_s, data.allocated, where="post", color=ALLOCATED, linewidth=1.3, label="allocated cores")
    right.set_ylabel("cores (all executors)", color=ALLOCATED)
    right.tick_params(axis="y", colors=ALLOCATED)
    # The right axis has the same head room as the left one, where the stages are named.
    right.set_ylim(0, max(*data.allocated, *data.used, 0.1) * 1.15)

    if not all(math.isnan(value) for value in data.set_point):
        left.plot(data.progress_time_s, data.set_point, color=SET_POINT, linewidth=1.4, linestyle="--", label="set-point")
    left.plot(data.progress_time_s, data.progress, color=PROGRESS, linewidth=1.6, label="progress of the stage")
    left.set_ylabel("progress, set-point", color=PROGRESS)
    left.tick_params(axis="y", colors=PROGRESS)
    left.set_ylim(0, 1.15)
    left.set_yticks([0, 0.25, 0.5, 0.75, 1])
    left.set_xlim(0, last_s * 1.02)
    left.set_xlabel("seconds since submission")

    _draw_borders(left, stages)
    if deadline_s is not None:
        left.axvline(deadline_s, color=DEADLINE, linewidth=1.6, linestyle=(0, (5, 3)), label="deadline")
    if end_s is not None:
        left.axvline(end_s, color="black", linewidth=1.6, label="end")
    handles, labels = left.get_legend_handles_labels()
    more_handles, more_labels = right.get_legend_handles_labels()
    left.figure.legend(
        handles + more_handles, labels + more_labels, loc="outside lower center", ncols=6, frameon=False, fontsize=9
    )
    left.set_title(title(summary), fontsize=11, loc="left")


def _draw_borders(left: Axes, stages: Sequence[StageCourse]) -> None:
    """Draw a thin line where a stage attempt began, E0, E1.. above it in the order of their beginning."""
    starts = sorted(stage.start_s for stage in stages)
    for number, start_s in enumerate(starts):
        left.axvline(start_s, color=BORDER, linewidth=0.7, zorder=0.5)
        if len(starts) <= MOST_LABELS:
            # Labels of neighbours that begin together would cover each other: every second one is a line lower.
            left.text(start_s, 1.135 - 0.045 * (number % 2), f" E{number}", fontsize=7.5, color="#636363", va="top")


def number(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None
