"""A picture of the cores that executors reserve and use over time: a row for each course, all with the same axes."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from controller.runs.plot import DEADLINE, new_figure, save
from controller.runs.plot_runs import COLOURS, FRAME_INCHES, ROW_INCHES
from experiments.harness.reserved import CoreCourse


def plot_reserved(courses: Mapping[str, CoreCourse], out: Path) -> None:
    """Draw the courses, one below the other; none of them is empty."""
    figure = new_figure(height=FRAME_INCHES + ROW_INCHES * len(courses))
    axes = figure.subplots(len(courses), 1, sharex=True, sharey=True, squeeze=False)[:, 0]
    for axis, (label, course) in zip(axes, courses.items(), strict=True):
        edges = [*(span.from_s for span in course.spans), course.spans[-1].to_s]
        axis.stairs([span.reserved for span in course.spans], edges, fill=True, color=COLOURS[4], label="reserved")
        axis.stairs([span.used for span in course.spans], edges, color=COLOURS[0], linewidth=0.8, label="used")
        axis.axhline(course.capacity, color=DEADLINE, linestyle="--", linewidth=0.9, label="cores of the cluster")
        said = f"{label}: {course.reserved_core_s:.0f} core-s reserved, {course.used_core_s:.0f} used"
        axis.set_title(said, loc="left", fontsize=9)
        axis.grid(visible=True, linewidth=0.4, alpha=0.6)
    axes[0].set_ylim(bottom=0)
    axes[0].set_xlim(left=0)
    axes[-1].set_xlabel("seconds since the first submission")
    figure.supylabel("cores (all executors)", fontsize=10)
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=len(handles), frameon=False, fontsize=9)
    save(figure, out)
