from __future__ import annotations

from pathlib import Path

from controller.runs.eventlog_files import event_log_lines
from experiments.bench.event_log import repeated
from stage_model.history.eventlog import read_event_log
from stage_model.history.gaps import gaps

LOG = Path(__file__).parents[2] / "data" / "eventlogs" / "spark43.gz"


def test_a_repeated_log_is_a_longer_run_without_gaps() -> None:
    lines = list(event_log_lines(LOG))
    once, twice = (read_event_log(content, "log") for content in (lines, repeated(lines, round(1.5 * sum(map(len, lines))))))
    assert twice.run.complete
    assert gaps(twice.run) == ()
    assert len(twice.run.jobs) == 2 * len(once.run.jobs)
    assert [len(stage.done) for stage in twice.run.attempts.values()] == 2 * [
        len(stage.done) for stage in once.run.attempts.values()
    ]
