"""The paper's Figs. 6 and 7: the share of the jobs that had ended by each second, one step curve per scheduler."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path

from controller.runs.plot import new_figure, save
from controller.runs.plot_runs import COLOURS

STYLES = ("-", "--", "-.", ":")


def plot_cdf(curves: Mapping[str, Sequence[float]], out: Path) -> None:
    """Plot the seconds of each curve's jobs; a job that did not end is infinite, so its curve stays below 1."""
    figure = new_figure(height=4.5)
    axis = figure.add_subplot()
    for number, (label, times_s) in enumerate(curves.items()):
        x, y = steps(times_s)
        style = STYLES[number % len(STYLES)]
        colour = COLOURS[number % len(COLOURS)]
        axis.step(x, y, where="post", label=f"{label} (n={len(times_s)})", color=colour, linestyle=style, linewidth=1.6)
    axis.set_ylim(0, 1.02)
    axis.set_xlim(left=0)
    axis.set_xlabel("seconds since arrival")
    axis.set_ylabel("share of the jobs that had ended")
    axis.grid(visible=True, linewidth=0.4, alpha=0.6)
    axis.legend(loc="lower right", frameon=False, fontsize=9)
    save(figure, out)


def steps(times_s: Sequence[float]) -> tuple[list[float], list[float]]:
    """Return where the curve rises, and how high it is from there on."""
    ended = sorted(time_s for time_s in times_s if not math.isinf(time_s))
    return [0.0, *ended], [0.0, *((n + 1) / len(times_s) for n in range(len(ended)))]
