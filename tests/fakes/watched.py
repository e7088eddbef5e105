"""Records of runs that were only watched, and the profile that they taught, in a home directory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from controller.runs.profile_store import ProfileStore
from controller.runs.run_folder import append_samples, write_summary
from stage_model.history.profile import profile
from tests.fakes.records import run, stage
from tests.fakes.views import sample


def ended(home: Path, name: str, **changed: Any) -> None:
    """Make the record of a run of 20 s, in which an executor held two cores from 2 s on and used half of them."""
    folder = home / "runs" / name
    folder.mkdir(parents=True)
    plain = {"name": "job", "observed": True, "violated": None, "deadline_s": None, "end_s": 20.0, "profile": "job@app.py"}
    write_summary(folder, plain | {"taught": True, "untaught": None} | changed)
    rows = [sample(second, grant=2.0, usage=1.0, cpu_core_s=second) for second in (2.0, 3.0, 10.0, 20.0)]
    append_samples(folder, rows)


def learned(home: Path, *names: str) -> None:
    """Teach runs of 10, 11, ... core-seconds."""
    runs = [run(name, number, stage("x", work_core_s=10.0 + number)) for number, name in enumerate(names)]
    ProfileStore(home / "profiles").add(profile("job@app.py", runs))
