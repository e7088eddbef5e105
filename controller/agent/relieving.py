"""The relief of a worker's machine from period to period: which applications give memory, cores or executors now.

A shell around `controller.agent.core.relief`. Others carry the decision out each period: `resizing` the budgets, the core's
`step` the cores, the loop the ends of executors. Not covered: how the machine is read (`machine_room`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from controller.agent.core.relief import Gives, Machine, Relief, Resident


class Relieving:
    """The relief now. `look` reads the machine; `note` takes a line for the master."""

    def __init__(self, look: Callable[[], Machine], note: Callable[[str], None]) -> None:
        self._look, self._note = look, note
        self._relief = Relief()
        self._residents: dict[str, Resident] = {}
        self.floored = self.slowed = self.ended = frozenset[str]()
        """Applications that get only their floor of off-heap memory, only their floor of cores, and no executors here now."""

    @property
    def why(self) -> str:
        """The newest shortage, as a clause."""
        return self._relief.why

    @property
    def steps_taken(self) -> int:
        return len(self._relief.taken)

    def relieve(self, residents: Mapping[str, Resident], now_s: float) -> None:
        """Look at the machine and decide who gives what."""
        before = self._relief
        # an application whose executors were ended may not come back, even while none of its executors is known here
        self._residents = here = {name: self._residents[name] for name in self.ended} | dict(residents)
        self._relief = now = before.after(self._look(), here, now_s)
        self.floored, self.slowed, self.ended = (now.givers(gives, here) for gives in Gives)
        if now.why and not before.why:
            self._note(f"under pressure: {now.why}; executors of lower priority make room, if there are any")
        if before.why and not now.why:
            self._note("no longer under pressure: executors have again what they ask for")
