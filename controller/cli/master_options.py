"""Options of `sparkpace master`: one row for each, the combinations that are refused, and the form in which the master takes
them."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from functools import partial
from typing import Any

import click

from controller.asks.options import MasterOptions
from controller.cli.checks import check_address, parse_lost_after, parse_notify
from controller.cli.common import CountRange, NamedPath, Parsed
from controller.cli.growth_options import GROWTH, checked_growth
from controller.cli.service_option import ServiceOption, handed_on, values_of
from controller.cli.user_tables import LIMITS_HELP, OPTION, checked_users, parse_user_limits
from controller.home import Home
from controller.machine.addresses import LOOPBACK
from controller.master.topology_file import checked_topology
from master_memory.split import POLICIES as MEMORY_POLICIES
from placement.policies import POLICIES
from placement.scores import parse_weights
from stage_model.errors import BadInput
from stage_model.laws import LAWS

MASTER = (
    ServiceOption("host", "Address to listen on.", parse=check_address, default=LOOPBACK, up=False),
    ServiceOption("port", "Port to listen on.", kind=CountRange(1, 65535), default=7070, up=False),
    ServiceOption(
        "name", "Further name or address of the master (repeat).", field="names", parse=check_address, multiple=True
    ),
    ServiceOption("keep-runs", "Number of run folders to keep.", kind=CountRange(1), default=100),
    ServiceOption("law", "Control law of jobs that name none.", kind=click.Choice(list(LAWS)), default="forecast"),
    ServiceOption(
        "memory-policy",
        "How a worker's off-heap memory is split among its applications: equally, or by measured use.",
        kind=click.Choice(list(MEMORY_POLICIES)),
        default="equal",
    ),
    ServiceOption(
        "placement",
        "Policy that chooses the worker of an executor, for jobs that name none.",
        kind=click.Choice(list(POLICIES)),
        default="spread",
    ),
    ServiceOption(
        "placement-weights",
        "Weights of the placement scores, as data=4,rack=2,cpu=0.5,gpu=0.5.",
        kind=Parsed(parse_weights),
        default="",
    ),
    ServiceOption(
        "topology", "File that lists networks with their hosts, racks and switches.", kind=NamedPath(), read=checked_topology
    ),
    ServiceOption(
        "lost-after",
        "Give up the executors of a worker after this time without a report, 15s to 1d.",
        field="lost_after_s",
        parse=parse_lost_after,
        default="30s",
    ),
    ServiceOption(
        "notify",
        "URL to which deadlines at risk, ends and refusals are posted, or @FILE with the URL (docs/notify.md).",
        kind=Parsed(parse_notify, at_file=True),
        read=parse_notify,
    ),
    ServiceOption("notify-missing", "With --notify: post also when a daily job was not submitted.", flag=True),
    ServiceOption(
        OPTION,
        LIMITS_HELP,
        field="users",
        parse=parse_user_limits,
        multiple=True,
        read=partial(checked_users, option=f"--{OPTION}"),
    ),
    ServiceOption("observe", "Only watch applications: no quota, memory order or signal is written for them.", flag=True),
)
"""Options of `master`; their keys are fields of `MasterOptions`."""
MASTER_AND_GROWTH = (*MASTER, *GROWTH)
"""All options of `master`."""


def master_options(home: Home, given: Mapping[str, Any]) -> MasterOptions:
    """Return the options of a master from the values that it, or `up`, was given. Raise `BadInput` for a combination that is
    refused."""
    if given["notify_missing"] and given["notify"] is None:
        raise BadInput("--notify-missing has no web hook to post to; give its URL by --notify, too")
    return MasterOptions(home=home.path, growth=checked_growth(given), **values_of(MASTER, given))


def master_words(given: Mapping[str, Any], agent_words: tuple[str, ...]) -> tuple[str, ...]:
    """Return the words by which `up` hands its options on to the master, whose started agents get `agent_words`, too. Raise
    `BadInput`."""
    started = shlex.join((*agent_words, *shlex.split(given["agent_options"])))
    return handed_on(MASTER_AND_GROWTH, {**given, "agent_options": started})
