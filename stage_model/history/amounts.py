"""The amounts that a stage, or a part of it, read and wrote: the six counts of which everything else is made.

Not covered: what follows for a stage's work (`stage_model.forecast.nominal`).
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
        """Return the amounts with what this task read and wrote; below 0, which only a broken driver reports, counts as 0."""
        read_records, read_bytes = max(0, task.shuffle_read_records), max(0, task.shuffle_read_bytes)
        input_records, input_bytes = max(0, task.input_records), max(0, task.input_bytes)
        return Amounts(
            self.records + input_records + read_records,
            self.input_records + input_records,
            self.written_records + max(0, task.shuffle_write_records),
            self.bytes + input_bytes + read_bytes,
            self.input_bytes + input_bytes,
            self.written_bytes + max(0, task.shuffle_write_bytes),
        )

    def read(self, in_bytes: bool) -> int:
        return self.bytes if in_bytes else self.records

    def input(self, in_bytes: bool) -> int:
        return self.input_bytes if in_bytes else self.input_records

    def written(self, in_bytes: bool) -> int:
        return self.written_bytes if in_bytes else self.written_records


NOTHING = Amounts()
