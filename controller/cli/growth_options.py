"""The master's options of placement and growth, shared by `master` and `up`, which hands them on as words."""

from __future__ import annotations

import functools
import shlex
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, TypeVar

import click

from controller.cli.checks import checked_folders
from controller.cli.common import CountRange, NamedPath, NumberRange, Parsed, option_words
from controller.cli.worker_words import USUAL_HELP, parse_type
from controller.master.providers import NODE_IMAGE, check_program
from controller.master.topology_file import checked_topology
from placement.growth import Limits
from placement.policies import POLICIES
from placement.scores import parse_weights
from stage_model.errors import BadInput
from stage_model.units import parse_duration

F = TypeVar("F", bound=Callable[..., Any])
OF_EACH = frozenset(("--worker-id", "--cores", "--memory", "--resources", "--labels"))
"""Options of an agent that are not the same for all."""


@dataclass(frozen=True, slots=True)
class MasterPlacement:
    """The options as given, or their defaults; `words` leaves out None. Checked by `check`."""

    placement: str
    placement_weights: str
    topology: Path | None
    provider: str
    provider_command: Path | None
    provider_image: str
    provider_folder: tuple[Path, ...]
    grow: int
    grow_up_to: str | None
    idle: str
    usual_worker: str | None
    utilisation: float
    agent_options: str = ""

    def check(self) -> MasterPlacement:
        """Return the options with absolute paths. Raise `BadInput`."""
        self.limits()
        try:
            words = shlex.split(self.agent_options)
        except ValueError as error:
            said = f"--agent-options {self.agent_options[:80]!r} cannot be split into words ({error})"
            raise BadInput(f"{said}; quote the options as for a shell") from error
        if own := sorted(OF_EACH.intersection(word.partition("=")[0] for word in words)):
            raise BadInput(f"--agent-options has {own[0]}, which follows from what a worker is started for; leave it out")
        if self.usual_worker is not None:
            usual = parse_type(self.usual_worker, option="--usual-worker")
            if reason := self.limits().refuses(usual):
                raise BadInput(f"--usual-worker: {reason}; give a smaller one, or raise --grow-up-to")
        if self.provider == "command" and self.provider_command is None:
            raise BadInput("--provider command needs --provider-command; name a program that starts workers")
        if self.provider == "none" and (self.usual_worker is not None or self.provider_command is not None):
            raise BadInput("--usual-worker and --provider-command need --provider; give it as docker or command")
        return replace(
            self,
            topology=checked_topology(self.topology),
            provider_command=check_program(self.provider_command),
            provider_folder=checked_folders(self.provider_folder, option="--provider-folder"),
        )

    def limits(self) -> Limits:
        """Return the limits of growth. Raise `BadInput`."""
        limits = Limits(workers=self.grow, keep_s=parse_duration(self.idle, option="--idle"))
        if self.grow_up_to is None:
            return limits
        most = parse_type(self.grow_up_to, option="--grow-up-to")
        if most.labels:
            raise BadInput(f"--grow-up-to {self.grow_up_to[:80]!r} has labels; give only cores, memory and resources")
        return replace(limits, cores=most.cores, memory_mb=most.memory_mb, pieces=most.pieces)

    def words(self) -> tuple[str, ...]:
        """Return the options as words for `sparkpace master`."""
        return option_words({field.name.replace("_", "-"): getattr(self, field.name) for field in fields(self)})


OPTIONS = (
    click.option(
        "--placement",
        type=click.Choice(list(POLICIES)),
        default="spread",
        show_default=True,
        help="Policy that chooses the worker of an executor, for jobs that name none.",
    ),
    click.option(
        "--placement-weights",
        type=Parsed(parse_weights),
        default="",
        help="Weights of the placement scores, as data=4,rack=2,cpu=0.5,gpu=0.5.",
    ),
    click.option("--topology", type=NamedPath(), help="File that lists networks with their hosts, racks and switches."),
    click.option(
        "--provider",
        type=click.Choice(["none", "docker", "command"]),
        default="none",
        show_default=True,
        help="What starts further workers when an executor fits on none.",
    ),
    click.option("--provider-command", type=NamedPath(), help="Program that --provider command runs."),
    click.option(
        "--provider-image", default=NODE_IMAGE, show_default=True, help="Image of the agents that --provider docker starts."
    ),
    click.option(
        "--provider-folder",
        type=NamedPath(),
        multiple=True,
        help="Further folder of this host for agents of --provider docker, such as input (repeat).",
    ),
    click.option("--grow", type=CountRange(0), default=4, show_default=True, help="Most started workers at a time."),
    click.option("--grow-up-to", help='Limit of all started workers together, as "cores=2 memory=8g resources=gpu=1".'),
    click.option(
        "--idle",
        type=Parsed(lambda text: parse_duration(text, option="--idle")),
        default="5min",
        show_default=True,
        help="Release a started worker after this time without work.",
    ),
    click.option("--usual-worker", type=Parsed(lambda text: parse_type(text, option="--usual-worker")), help=USUAL_HELP),
    click.option(
        "--utilisation",
        type=NumberRange("a part", 0.05, 1.0),
        default=0.8,
        show_default=True,
        help="With --usual-worker: part of the workers that should have work.",
    ),
    click.option("--agent-options", default="", help="Further options of started agents, quoted as for a shell."),
)


def master_placement_options(function: F) -> F:
    """Give the command one argument, `placing`, a checked `MasterPlacement`."""

    @functools.wraps(function)
    def collected(*args: Any, **given: Any) -> Any:
        mine = {field.name: given.pop(field.name) for field in fields(MasterPlacement)}
        return function(*args, placing=MasterPlacement(**mine).check(), **given)

    wrapped: Any = collected
    for option in reversed(OPTIONS):
        wrapped = option(wrapped)
    return wrapped  # type: ignore[no-any-return]
