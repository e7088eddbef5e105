"""The runs that a forecast rests on, and the reasons why a run ended late or taught nothing. They are sent as JSON of these
structs (docs/protocol.md)."""

from __future__ import annotations

from controller.wire.message import Message


class Basis(Message, frozen=True, kw_only=True):
    """The basis of a forecast: `runs` complete runs of the profile, of which `same_arguments` had the arguments of this run
    (None: the arguments are not known). `further` is the further work, as a share of the plan, for which time is kept.
    `recognised` is the share of the work seen so far that the profile knows (None: no work was seen). Since `late_since_s`,
    seconds after submission, the forecast with all cores has been past the deadline without a break (None: it is not).
    `sentence` says all of this."""

    runs: int = 0
    same_arguments: int | None = None
    further: float = 0.0
    recognised: float | None = None
    late_since_s: float | None = None
    sentence: str = ""


class Lateness(Message, frozen=True, kw_only=True):
    """The `reason` why a run ended `late_s` seconds after its deadline: "deadline_too_short", "squeezed", "more_work",
    "waited", "forecast_wrong" or "no_forecast". The reason explains `explained_s` of these seconds; `sentence` puts it
    in words.

    `planned_s` is the end that was forecast with all `cores` (deadline_too_short); `by` names the applications that had the
    cores, the one with most of them first, and `core_s` are the core-seconds withheld and not given back (squeezed); `core_s`
    is the work, `more` its excess over the plan, as a share (more_work); until `kept_until_s` the forecast kept the deadline
    (forecast_wrong; None: until the deadline)."""

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


class Untaught(Message, frozen=True, kw_only=True):
    """The `reason` why a run taught its profile nothing: "not_well", "events_missing", "no_job" or "profile"; `sentence` is a
    clause that puts it in words."""

    reason: str
    sentence: str
