"""Cores against end: when an application would end with each number of cores, with the interval of its runs.

Needs matplotlib (extra `plots`). Not covered: where the curve comes from (`stage_model.forecast.curve`).
"""

from __future__ import annotations

from pathlib import Path

from controller.runs.plot import ALLOCATED, DEADLINE, PROGRESS, new_figure, save
from stage_model.forecast.curve import Curve


def plot_curve(found: Curve, out: Path, *, deadline_s: float | None = None, cores: float | None = None) -> None:
    """Draw the curve into `out`, with a deadline in seconds and the cores that it takes, where there are any.

    Raises `BadInput` when `out` is no picture or cannot be written, `Unavailable` without matplotlib.
    """
    figure = new_figure(out, height=5)
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
