"""The runs that a forecast rests on, and why a run ended late. As JSON of these structs. See docs/protocol.md."""

from __future__ import annotations

from controller.wire.message import Message


class Basis(Message, frozen=True, kw_only=True):
    """`runs` complete runs of the profile have taught, of which `same_arguments` had the arguments of this one (None: they
    are not known). `further` is the share of the plan that is kept for work beyond it. `recognised` is the share of the work
    seen so far that the profile knows (None: none was seen). Since `late_since_s`, seconds after submission, the forecast
    with all cores has been past the deadline without a break (None: it is not). `sentence` says all of it."""

    runs: int = 0
    same_arguments: int | None = None
    further: float = 0.0
    recognised: float | None = None
    late_since_s: float | None = None
    sentence: str = ""


class Lateness(Message, frozen=True, kw_only=True):
    """The `reason` why a run ended `late_s` seconds after its deadline: "deadline_too_short", "squeezed", "more_work",
    "waited", "forecast_wrong" or "no_forecast". It explains `explained_s` of them; the `sentence` says it.

    `planned_s` is the end that was forecast with all `cores` (deadline_too_short); `by` names the applications that had the
    cores, the one with most of them first, and `core_s` is what they withheld (squeezed); `core_s` is the work, `more` how
    much more that is than planned, as a share (more_work); `kept_until_s` is when the forecast last kept the deadline
    (forecast_wrong; None: to the end)."""

    reason: str
    late_s: float
    explained_s: float
    planned_s: float | None = None
    cores: float | None = None
    by: tuple[str, ...] = ()
    core_s: float | None = None
    more: float | None = None
    kept_until_s: float | None = None
    sentence: str
