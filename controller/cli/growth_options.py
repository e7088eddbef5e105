"""Options of `sparkpace master` about workers that it starts: one row for each, the combinations that are refused, and the
form in which the master takes them."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from functools import partial
from typing import Any

import click

from controller.asks.options import GrowthOptions
from controller.cli.checks import checked_folders
from controller.cli.common import CountRange, NamedPath, NumberRange
from controller.cli.service_option import ServiceOption, values_of
from controller.cli.worker_words import USUAL_HELP, parse_type
from controller.master.providers import NODE_IMAGE, check_program
from placement.growth import Limits, WorkerType
from stage_model.errors import BadInput
from stage_model.units import parse_duration

OF_EACH = frozenset(("--worker-id", "--cores", "--memory", "--resources", "--labels"))
"""Options of an agent that differ from agent to agent."""

GROWTH = (
    ServiceOption(
        "provider",
        "What starts further workers when an executor fits on none, or a deadline needs more cores.",
        kind=click.Choice(["none", "docker", "command"]),
        default="none",
    ),
    ServiceOption("provider-command", "Program that --provider command runs.", kind=NamedPath(), read=check_program),
    ServiceOption("provider-image", "Image of the agents that --provider docker starts.", default=NODE_IMAGE),
    ServiceOption(
        "provider-folder",
        "Further folder of this host for agents of --provider docker, such as input (repeat).",
        kind=NamedPath(),
        multiple=True,
        read=partial(checked_folders, option="--provider-folder"),
    ),
    ServiceOption("grow", "Largest number of started workers at a time.", kind=CountRange(0), default=4),
    ServiceOption(
        "grow-up-to", 'Limit of all started workers together, as "cores=2 memory=8g resources=gpu=1".', parse=parse_type
    ),
    ServiceOption("idle", "Release a started worker after this time without work.", parse=parse_duration, default="5min"),
    ServiceOption("usual-worker", USUAL_HELP, parse=parse_type),
    ServiceOption(
        "utilisation",
        "With --usual-worker: share of the workers that should have work.",
        kind=NumberRange("a part", 0.05, 1.0),
        default=0.8,
    ),
    ServiceOption("agent-options", "Further options of started agents, quoted as for a shell.", default=""),
)
"""Further options of `master`, about workers that it starts."""


def checked_growth(given: Mapping[str, Any]) -> GrowthOptions | None:
    """Return the options of growth from a command's values, None without a provider. Raise `BadInput`."""
    values = values_of(GROWTH, given)
    provider, program, usual = values["provider"], values["provider_command"], values["usual_worker"]
    limits = _limits(values, given["grow_up_to"])
    try:
        words = tuple(shlex.split(values["agent_options"]))
    except ValueError as error:
        said = f"--agent-options {values['agent_options'][:80]!r} cannot be split into words ({error})"
        raise BadInput(f"{said}; quote the options as for a shell") from error
    if own := sorted(OF_EACH.intersection(word.partition("=")[0] for word in words)):
        raise BadInput(f"--agent-options has {own[0]}, which follows from what a worker is started for; leave it out")
    if usual is not None and (reason := limits.refuses(usual)):
        raise BadInput(f"--usual-worker: {reason}; give a smaller one, or raise --grow-up-to")
    if provider == "command" and program is None:
        raise BadInput("--provider command needs --provider-command; name a program that starts workers")
    if provider == "none" and (usual is not None or program is not None):
        raise BadInput("--usual-worker and --provider-command need --provider; give it as docker or command")
    if provider == "none":
        return None
    return GrowthOptions(
        provider=provider,
        program=program,
        image=values["provider_image"],
        folders=values["provider_folder"],
        limits=limits,
        usual=usual,
        utilisation=values["utilisation"],
        agent_options=words,
    )


def _limits(values: Mapping[str, Any], text: str | None) -> Limits:
    """Return the limits of growth; `text` is the value of --grow-up-to as it was given."""
    most: WorkerType | None = values["grow_up_to"]
    if most is None:
        return Limits(workers=values["grow"], keep_s=values["idle"])
    if most.labels:
        raise BadInput(f"--grow-up-to {(text or '')[:80]!r} has labels; give only cores, memory and resources")
    return Limits(
        workers=values["grow"], keep_s=values["idle"], cores=most.cores, memory_mb=most.memory_mb, pieces=most.pieces
    )
