"""How much a stage, or a part of it, read and wrote: the six counts of which everything else is made.

Not covered: what follows for its work (`stage_model.forecast.nominal`).
"""

from __future__ import annotations

from typing import NamedTuple

from stage_model.history.events import TaskEnd


class Amounts(NamedTuple):
    """Records and bytes. `read` is input and shuffle, of which `input` is the input part; `written` is shuffle."""

    records: int = 0
    input_records: int = 0
    written_records: int = 0
    bytes: int = 0
    input_bytes: int = 0
    written_bytes: int = 0

    def plus(self, task: TaskEnd) -> Amounts:
        """With what this task read and wrote."""
        return Amounts(
            self.records + task.input_records + task.shuffle_read_records,
            self.input_records + task.input_records,
            self.written_records + task.shuffle_write_records,
            self.bytes + task.input_bytes + task.shuffle_read_bytes,
            self.input_bytes + task.input_bytes,
            self.written_bytes + task.shuffle_write_bytes,
        )

    def read(self, in_bytes: bool) -> int:
        return self.bytes if in_bytes else self.records

    def input(self, in_bytes: bool) -> int:
        return self.input_bytes if in_bytes else self.input_records

    def written(self, in_bytes: bool) -> int:
        return self.written_bytes if in_bytes else self.written_records


NOTHING = Amounts()
