"""Limits of messages that a stranger's job may shape, as types, so that larger messages are refused on reading.

Limits of the data that an application may make the master keep in all its life are here, too; the code that counts refers to
them. The size of a body is limited by `controller.master.access.bodies`, the knowledge of a run by `stage_model.history.run`.
"""

from __future__ import annotations

from typing import Annotated

import msgspec

Text = Annotated[str, msgspec.Meta(max_length=1000)]
"""A name, an address, a version."""
PathText = Annotated[str, msgspec.Meta(max_length=4096)]
Words = Annotated[dict[str, str], msgspec.Meta(max_length=5000)]
"""Settings or an environment; the limit of the body bounds their size."""
InputBytes = Annotated[dict[str, int], msgspec.Meta(max_length=10_000)]
"""Bytes of input by host."""
Ids = Annotated[tuple[Text, ...], msgspec.Meta(max_length=10_000)]
Seconds = Annotated[float, msgspec.Meta(ge=0, le=1e9)]
"""Seconds, up to 31 years."""

APPLICATIONS, OF_A_USER = 2000, 500
"""Most applications that have not ended, of all users and of one."""
DRIVERS, DRIVERS_OF_A_USER = 1000, 100
"""Most hosted drivers that have not ended, of all users and of one."""
EXECUTORS = 10_000
"""Most executors of an application, one after the other."""
NOTICES, NOTICE_LENGTH = 200, 1000
"""Most notices of an application, for its terminal, and characters of each."""
CHANGES = 1000
"""Most changes of an application by `sparkpace set`."""
NOTES, NOTE_LENGTH = 100, 1000
"""Most notes of an agent in one report, for the master's log, and characters of each."""
STAGES_UNREPORTED = 512
"""Stage attempts of an executor that its driver has not reported, the last ones: more than run at a time."""
STAGES_READ = 10_000
"""Most stage attempts of an application of which readings are kept, the first ones: 2 kB each."""
EVENT_BYTES = 1 << 30
"""Most bytes of an application's events in the master's database."""
SAMPLES_BYTES = 256 << 20
"""Most bytes of a run's table: three million rows."""
LOG_BYTES = 256 << 10
"""Most bytes of the end of an executor's standard output, or error, that its agent sends."""
LOGS = 4
"""Most executors whose logs are read from one worker at a time."""
