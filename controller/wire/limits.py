"""How much may be in a message that a stranger's job has a hand in, said by types, so that it is refused where it is read.

Numbers of what an application may make the master keep in all its life are here, too; who counts says so. What a body may
weigh is `controller.master.bodies`'; of what is known of a run, `stage_model.history.run`'s.
"""

from __future__ import annotations

from typing import Annotated

import msgspec

Text = Annotated[str, msgspec.Meta(max_length=1000)]
"""A name, an address, a version."""
PathText = Annotated[str, msgspec.Meta(max_length=4096)]
Words = Annotated[dict[str, str], msgspec.Meta(max_length=5000)]
"""Settings or an environment; a body bounds what they weigh."""
InputBytes = Annotated[dict[str, int], msgspec.Meta(max_length=10_000)]
"""By host."""
Ids = Annotated[tuple[Text, ...], msgspec.Meta(max_length=10_000)]
Seconds = Annotated[float, msgspec.Meta(ge=0, le=1e9)]
"""Up to 31 years."""

APPLICATIONS, OF_A_USER = 2000, 500
"""That have not ended."""
EXECUTORS = 10_000
"""Of an application, one after the other."""
NOTICES, NOTICE_LENGTH = 200, 1000
"""Of an application, for its terminal."""
CHANGES = 1000
"""`sparkpace set` on an application."""
NOTES, NOTE_LENGTH = 100, 1000
"""Of an agent in one report, for the master's log."""
STAGES_UNTOLD = 512
"""Stage attempts of an executor of which its driver has told nothing, the last ones: more than run at a time."""
EVENT_BYTES = 1 << 30
"""Of an application in the master's database."""
SAMPLES_BYTES = 256 << 20
"""Of a run's table: three million rows."""
