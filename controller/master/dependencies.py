"""Applications that start after others: found by id or name, held back until those have ended (`placement.dependencies`).

A name means the newest application that has it, or was submitted with it, when it is first found; that one is kept to. One
that nobody has yet is waited for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from controller.master.application import ID, Application, ApplicationRecord
from controller.master.outcome import HowEnded
from placement.dependencies import After, check_acyclic
from stage_model.errors import BadInput
from stage_model.nearest import nearest_names


@dataclass(frozen=True, slots=True)
class Past:
    """An application that ended, of which only this is kept."""

    name: str
    succeeded: bool
    names: tuple[str, ...] = ()


def past_of(record: ApplicationRecord) -> Past:
    """What is kept of it."""
    return Past(record.registration.name, record.outcome is HowEnded.SUCCEEDED, record.names)


FORGOTTEN = Past("its record is gone", succeeded=False)
NEWEST = 100
"""Applications whose ids are compared with one that nobody has: comparing thousands would keep others waiting."""


def check_dependencies(newcomer: Application, applications: Mapping[str, Application], past: Mapping[str, Past]) -> None:
    """Raises `BadInput` for an id that nobody has, or if the newcomer would wait for itself: what it comes after may be
    submitted later, by name."""
    unknown = [after for after in newcomer.options.placement.after if not find_first(after, applications, past, newcomer)]
    for after in unknown:
        if not newcomer.record.outlived and ID.fullmatch(after.application):
            raise BadInput(
                f"spark.pace.after {after}: no such application is known here; "
                f"{nearest_names(after.application, list(applications)[-NEWEST:])}, or give a name"
            )
    waiting = [a for a in applications.values() if a.held_back and not a.ended]
    known = {
        name: [after for after in a.options.placement.after if after.application not in a.record.comes_after]
        for a in waiting
        for name in (*a.record.names, a.id)
    }
    # one of its own name that is there already is an earlier one
    mine = [a for a in newcomer.options.placement.after if a in unknown or a.application not in newcomer.record.names]
    for name in newcomer.record.names:
        check_acyclic(name, mine, known, option="spark.pace.after")


def settle(application: Application, applications: Mapping[str, Application], past: Mapping[str, Past]) -> bool:
    """Says in `held_back` why it may not start yet, empty if it may; True if it never will."""
    application.held_back = ""
    if any(executor.ran for executor in application.executors.values()):
        return False
    for after in application.options.placement.after:
        first_id = application.record.comes_after.get(after.application) or find_first(after, applications, past, application)
        if not first_id and application.record.outlived:
            continue  # it runs already, so what it came after has ended
        if not first_id:
            application.held_back = f"it comes after {after.application!r}, which was not submitted yet"
            continue
        application.record.comes_after[after.application] = first_id
        first = applications.get(first_id)
        if first is not None and not first.finished:
            application.held_back = f"it comes after {first.id} ({first.name}), which has not ended"
        elif after.success and not (first.succeeded if first else past.get(first_id, FORGOTTEN).succeeded):
            name = first.name if first else past.get(first_id, FORGOTTEN).name
            application.held_back = f"it comes after the success of {first_id} ({name}), which did not succeed"
            return True
    return False


def predecessors(application: Application, applications: Mapping[str, Application], past: Mapping[str, Past]) -> list[str]:
    """The ids of what it comes after, as far as they are known by now."""
    found = (
        application.record.comes_after.get(after.application) or find_first(after, applications, past, application)
        for after in application.options.placement.after
    )
    return [first_id for first_id in found if first_id]


def find_first(
    after: After, applications: Mapping[str, Application], past: Mapping[str, Past], waiting: Application | None = None
) -> str:
    """Id of the application with that id, else of the newest with that name but for `waiting`, who asks; empty if there is
    none."""
    if after.application in applications or after.application in past:
        return after.application
    named = [past_id for past_id, one in past.items() if after.application in one.names]
    named += [one.id for one in applications.values() if after.application in one.record.names and one is not waiting]
    return named[-1] if named else ""
