"""Options of `sparkpace up`, `master` and `agent`: one row for each."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import click

from controller.asks.amounts import parse_size_or_part
from controller.asks.local_limit import DEFAULT, parse_local_limit
from controller.cli.checks import (
    check_address,
    check_memory_mb,
    check_namespace,
    checked_folders,
    parse_lost_after,
    parse_notify,
    parse_period,
    parse_tmp_limit,
    parse_worker_id,
)
from controller.cli.common import CountRange, NamedPath, NumberRange, Parsed
from controller.cli.service_option import ServiceOption
from controller.cli.user_tables import LIMITS_HELP, OPTION, checked_users, parse_user_limits
from controller.cli.worker_words import USUAL_HELP, WORKER_HELP, parse_type, parse_worker
from controller.machine.addresses import LOOPBACK, is_local
from controller.machine.tls import address_of
from controller.master.providers import NODE_IMAGE, check_program
from controller.master.topology_file import checked_topology
from controller.runtime.networks import DEFAULT_POOL, parse_pool
from controller.runtime.table import RUNTIMES
from master_memory.split import POLICIES as MEMORY_POLICIES
from placement.labels import parse_labels
from placement.policies import POLICIES
from placement.resources import SCALE, parse_advertised
from placement.scores import parse_weights
from stage_model.errors import BadInput
from stage_model.laws import LAWS
from stage_model.settings import CORE_QUANTUM, QuotaSettings
from stage_model.units import parse_duration, parse_memory_mb

_RUNTIME_HELP = "What runs the executors, or paces those of another cluster manager."


def _memory_mb(text: str, *, option: str) -> int:
    return check_memory_mb(parse_memory_mb(text, option=option), f"{option} {text}")


def _mountable(paths: tuple[Path, ...]) -> tuple[Path, ...]:
    return checked_folders(paths, option="--allow-mount") or (Path.home(),)


def _driver_host(given: str, *, option: str) -> str:
    if not is_local(given):
        raise BadInput(f"{option} {given[:80]!r} is not an address of this machine; give an IPv4 address that it has")
    return given


AGENT = (
    ServiceOption("worker-id", "This worker's name, unique in the cluster.", parse=parse_worker_id, required=True, up=False),
    ServiceOption("cores", "Cores for executors.", kind=NumberRange("cores", CORE_QUANTUM), required=True, up=False),
    ServiceOption(
        "memory", "Memory for executors, as 8g or 8192 (MiB).", field="memory_mb", parse=_memory_mb, required=True, up=False
    ),
    ServiceOption("runtime", _RUNTIME_HELP, kind=click.Choice(list(RUNTIMES)), required=True, up=False),
    ServiceOption("period", "Control period, 200ms to 60s.", field="period_s", parse=parse_period, default="1s"),
    ServiceOption(
        "floor",
        "Cores that every executor keeps, in steps of 0.05.",
        kind=NumberRange("cores", CORE_QUANTUM, 1.0, CORE_QUANTUM),
        default=QuotaSettings().floor,
    ),
    ServiceOption(
        "tmp-limit",
        "Size of each container's in-memory /tmp, 16m or more.",
        field="tmp_mb",
        parse=parse_tmp_limit,
        default="256m",
    ),
    ServiceOption(
        "local-limit",
        "Limit of an application's files on a worker's host: a size, a part of the free space, or none.",
        kind=Parsed(parse_local_limit),
        default=DEFAULT,
    ),
    ServiceOption(
        "least-free-memory",
        "Squeeze low priorities while the machine has less free memory than this: a size, a part of it, or none.",
        kind=Parsed(partial(parse_size_or_part, option="--least-free-memory")),
        default="5%",
        everywhere=False,
    ),
    ServiceOption(
        "least-free-disk",
        "Squeeze low priorities while the disk of the local directory has less free than this: a size, a part, or none.",
        kind=Parsed(partial(parse_size_or_part, option="--least-free-disk")),
        default="1g",
        everywhere=False,
    ),
    ServiceOption(
        "master", "The master's URL, https://HOST:PORT.", field="master_url", kind=Parsed(address_of), required=True, up=False
    ),
    ServiceOption(
        "allow-mount",
        "Folder below which jobs may --mount paths (repeat) [default: your home].",
        field="allow_mounts",
        kind=NamedPath(),
        multiple=True,
        read=_mountable,
    ),
    ServiceOption("image", "Executor image for jobs that name none."),
    ServiceOption(
        "host",
        "Address of this worker's executors [default: loopback if the master is on loopback, else this machine's].",
        parse=check_address,
        up=False,
    ),
    ServiceOption(
        "resources",
        "Other resources in whole pieces, as gpu=1,ssd=2.",
        kind=Parsed(parse_advertised),
        read=lambda text: {name: units // SCALE for name, units in parse_advertised(text).items()},
        default="",
        up=False,
    ),
    ServiceOption(
        "network",
        "Network of containers: one for each application, open or closed to the outside, or the host's.",
        kind=click.Choice(["open", "closed", "host"]),
        default="open",
    ),
    ServiceOption(
        "network-pool",
        "Address pool for the networks of applications; append :26 for networks of /26 instead of /28.",
        kind=Parsed(parse_pool),
        default=DEFAULT_POOL,
    ),
    ServiceOption(
        "shared", "With --runtime adopt: leave room in --cores for other work on this machine.", flag=True, everywhere=False
    ),
    ServiceOption(
        "signals",
        "With --runtime adopt: pace by stopping and continuing processes where control groups cannot be used.",
        flag=True,
        everywhere=False,
    ),
    ServiceOption(
        "nodes",
        "With --runtime kubernetes: number of nodes; each has --cores for executors.",
        kind=CountRange(1, 10_000),
        default=1,
        everywhere=True,
    ),
    ServiceOption(
        "namespace",
        "With --runtime kubernetes: namespace of the pods to pace [default: all].",
        parse=check_namespace,
        everywhere=True,
    ),
    ServiceOption("labels", "Labels that jobs may ask for, as zone=a,disk=ssd.", parse=parse_labels, default="", up=False),
)
"""Options of `agent`; their keys are fields of `AgentOptions`."""

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
    ServiceOption("notify-missing", "With --notify: post also that a job which comes daily did not come.", flag=True),
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


def _provider_folders(paths: tuple[Path, ...]) -> tuple[Path, ...]:
    return checked_folders(paths, option="--provider-folder")


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
        read=_provider_folders,
    ),
    ServiceOption("grow", "Most started workers at a time.", kind=CountRange(0), default=4),
    ServiceOption(
        "grow-up-to", 'Limit of all started workers together, as "cores=2 memory=8g resources=gpu=1".', parse=parse_type
    ),
    ServiceOption("idle", "Release a started worker after this time without work.", parse=parse_duration, default="5min"),
    ServiceOption("usual-worker", USUAL_HELP, parse=parse_type),
    ServiceOption(
        "utilisation",
        "With --usual-worker: part of the workers that should have work.",
        kind=NumberRange("a part", 0.05, 1.0),
        default=0.8,
    ),
    ServiceOption("agent-options", "Further options of started agents, quoted as for a shell.", default=""),
)
"""Further options of `master`, about workers that it starts."""

UP = (
    ServiceOption("workers", "Number of workers.", kind=CountRange(1, 64), default=2),
    ServiceOption("worker", WORKER_HELP, field="each", parse=partial(parse_worker, worker_id="w1"), multiple=True),
    ServiceOption("runtime", _RUNTIME_HELP, kind=click.Choice(["auto", *RUNTIMES]), default="auto"),
    ServiceOption(
        "cores",
        "Cores for executors, all workers together [default: the machine's less 0.3].",
        kind=NumberRange("cores", CORE_QUANTUM),
    ),
    ServiceOption(
        "memory", "Memory for executors, all workers together, as 8g [default: 80% of the machine's].", parse=parse_memory_mb
    ),
    ServiceOption("host", "Address that the master listens on.", parse=check_address, default=LOOPBACK),
    ServiceOption("port", "Port of the master; 0: any free port.", kind=CountRange(0, 65535), default=7070),
    ServiceOption(
        "driver-host",
        "This machine's address where drivers listen [default: the engine's bridge, or loopback].",
        parse=_driver_host,
    ),
)
"""Options of `up` about the cluster as a whole."""
