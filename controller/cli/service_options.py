"""Options of `sparkpace up` and `agent`: one row for each. The options of `master` are in `master_options`."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import click

from controller.asks.amounts import parse_size_or_part
from controller.asks.local_limit import DEFAULT, parse_local_limit
from controller.cli.checks import (
    check_address,
    check_namespace,
    checked_folders,
    parse_period,
    parse_tmp_limit,
    parse_worker_id,
    parse_worker_memory,
)
from controller.cli.common import CountRange, NamedPath, NumberRange, Parsed
from controller.cli.service_option import ServiceOption
from controller.cli.worker_words import WORKER_HELP, parse_worker
from controller.machine.addresses import LOOPBACK, is_local
from controller.machine.tls import address_of
from controller.runtime.networks import DEFAULT_POOL, parse_pool
from controller.runtime.table import RUNTIMES
from placement.labels import parse_labels
from placement.resources import SCALE, parse_advertised
from stage_model.errors import BadInput
from stage_model.settings import CORE_QUANTUM, QuotaSettings
from stage_model.units import parse_memory_mb

_RUNTIME_HELP = "What runs the executors, or paces those of another cluster manager."


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
        "memory",
        "Memory for executors, as 8g or 8192 (MiB).",
        field="memory_mb",
        parse=parse_worker_memory,
        required=True,
        up=False,
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
        "disk-mb",
        "MB/s that the local directory's disk gives the executors of each worker: rates for low priorities when all is used.",
        kind=NumberRange("MB/s", 1, 100_000),
        starting=True,
    ),
    ServiceOption(
        "net-mbit",
        "Mbit/s that the network gives the executors of each worker in each direction: rates for low priorities, too.",
        kind=NumberRange("Mbit/s", 1, 1_000_000),
        starting=True,
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
    ServiceOption("host-drivers", "Run drivers of `submit --deploy-mode cluster` as processes next to the agent.", flag=True),
    ServiceOption("labels", "Labels that jobs may ask for, as zone=a,disk=ssd.", parse=parse_labels, default="", up=False),
)
"""Options of `agent`; their keys are fields of `AgentOptions`."""

UP = (
    ServiceOption("workers", "Number of workers.", kind=CountRange(1, 64), default=2),
    ServiceOption("worker", WORKER_HELP, field="each", parse=parse_worker, multiple=True),
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
