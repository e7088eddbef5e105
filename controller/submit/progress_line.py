"""Progress of `submit` while the driver runs: one line that rewrites itself, and notes that come once. On stderr.

The line is for terminals that can rewrite a line; the notes (Spark UI, forecast past the deadline, place and reason of
waiting) always come.
"""

from __future__ import annotations

from rich.console import Console
from rich.live import Live
from rich.text import Text

from controller.wire.command import ApplicationView
from controller.wire.states import ApplicationState
from stage_model.units import format_duration


class ProgressLine:
    """The line and the notes: `show` is called every second, `clear` at the end."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._live = Live(console=console, auto_refresh=False, transient=True, redirect_stdout=False, redirect_stderr=False)
        self._ui_shown = False
        self._late_shown = False
        self._waiting_shown = ""

    def show(self, view: ApplicationView | None) -> None:
        if view is None:
            return
        if view.ui_url and not self._ui_shown:
            self._ui_shown = True
            self._note(f"sparkpace: application {view.application_id}, Spark UI at {view.ui_url}")
        waiting = waiting_note(view)
        if waiting and waiting != self._waiting_shown:
            self._note(waiting)
        self._waiting_shown = waiting
        if not self._late_shown and (warning := late_warning(view)):
            self._late_shown = True
            self._note(warning)
        if not self._live.is_started:
            self._live.start()
            self._console.show_cursor()  # the driver may ask its user something
        self._live.update(Text(describe(view), no_wrap=True, overflow="ellipsis"), refresh=True)

    def clear(self) -> None:
        self._live.stop()

    def _note(self, text: str) -> None:
        self._console.print(Text(text), soft_wrap=True)


def note(console: Console, text: str) -> None:
    console.print(f"sparkpace: {text}", soft_wrap=True, markup=False)


def late_warning(view: ApplicationView) -> str | None:
    """Return a warning when the forecast end has passed the deadline; else None."""
    if view.forecast_end_s is None or view.deadline_s is None or view.forecast_end_s <= view.deadline_s:
        return None
    return (
        f"sparkpace: warning: forecast end {format_duration(view.forecast_end_s)} is past the deadline of "
        f"{format_duration(view.deadline_s)}; the job goes on"
    )


def waiting_note(view: ApplicationView) -> str:
    """Return place and reason of an application that waits for memory; else empty."""
    if view.queue_position is None or view.ended:
        return ""
    return f"sparkpace: waits, place {view.queue_position}: {view.reason}"


def describe(view: ApplicationView) -> str:
    """Return one line of text: time, progress, cores, forecast end against deadline, and the stage, which may be cut off."""
    total = f"/{view.stages_total}" if view.stages_total else ""
    stage = view.stage or ("waiting" if view.state is ApplicationState.WAITING else "driver")
    parts = [
        format_duration(view.elapsed_s),
        *([] if view.progress is None else [f"{view.progress:.0%}"]),
        f"{view.granted_cores:.2f} cores ({view.used_cores:.2f} used)",
    ]
    if view.deadline_s is not None:
        forecast = "" if view.forecast_end_s is None else f"forecast {format_duration(view.forecast_end_s)}, "
        since = None if view.basis is None else view.basis.late_since_s
        late = "" if since is None else f", late since {format_duration(since)}"
        parts.append(f"{forecast}deadline {format_duration(view.deadline_s)}{late}")
    parts.append(f"{view.stages_done}{total} stages done, {stage}")
    return " · ".join(parts)


def ending(view: ApplicationView, *, interrupted: bool = False) -> str:
    """Return the line at the end of a run; a run that did not end by itself was neither early nor late."""
    record = f"; it taught nothing, because {view.untaught.sentence}" if view.untaught is not None else ""
    record += f"; run folder {view.run_dir}" if view.run_dir else ""
    if not view.ended:
        return f"application {view.application_id}: the driver has ended, but the master has not said so{record}"
    ended = f"application {view.application_id} ended at {format_duration(view.elapsed_s)}"
    if interrupted or view.reason:
        return f"{ended}: {'it was interrupted' if interrupted else view.reason}{record}"
    if not view.outcome and not view.finished:
        return f"{ended}, and the master has not said how yet{record}"
    if view.deadline_s is None:
        return f"{ended}, no deadline{record}"
    error_s = view.elapsed_s - view.deadline_s
    side = "late" if error_s > 0 else "early"
    percent = abs(error_s) / view.deadline_s
    why = f": {view.lateness.sentence}" if view.lateness is not None else ""
    based = f"; {view.basis.sentence}" if view.basis is not None else ""
    return (
        f"{ended} of deadline {format_duration(view.deadline_s)} "
        f"({format_duration(abs(error_s))} {side}, {percent:.1%}){why}{based}{record}"
    )


UNPACED = (
    "nothing was paced: the program made no SparkContext, or one with a master of its own; leave out .master(...) there, "
    "which wins over every setting"
)
"""Line at the end of a driver that ended well and of which the master has seen no application. A failed driver's own last
line stays the last."""
