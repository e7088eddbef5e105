"""Everything that parses what others wrote, by name. Whatever a target raises besides its own errors is a finding."""

from __future__ import annotations

from tests.fuzz import disk, people, runs, services

TARGETS = {target.name: target for target in (*services.TARGETS, *disk.TARGETS, *runs.TARGETS, *people.TARGETS)}
