"""Texts, settings, properties, topologies and arguments of a submission: all that people write."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from controller.asks.job_options import job_options, parse_mounts
from controller.asks.properties import format_properties, parse_properties
from controller.asks.submit_args import split_arguments
from controller.master.core.executor_spec import executor_slots, executor_spec
from controller.master.topology_file import read_topology
from controller.wire import driver
from placement.dependencies import parse_after
from placement.labels import parse_labels, parse_requirements
from placement.resources import parse_advertised, parse_asked
from placement.scores import parse_weights
from stage_model.decoding import UNREADABLE
from stage_model.errors import BadInput
from stage_model.units import parse_cores, parse_deadline, parse_duration, parse_memory_mb, parse_priority
from tests.fakes.cluster import application_record, registration
from tests.fuzz.target import Target, folder

NOW = datetime(2030, 1, 1, tzinfo=UTC)
TEXTS: tuple[tuple[Callable[[str], object], str], ...] = (
    (parse_duration, "1h30m"),
    (lambda text: parse_deadline(text, NOW), "2030-01-31T18:00+01:00"),
    (parse_priority, "high"),
    (parse_memory_mb, "1.5g"),
    (parse_cores, "2.5"),
    (parse_labels, "zone=a,disk=ssd"),
    (parse_requirements, "zone=a,disk!=hdd,gpu,!spot"),
    (parse_advertised, "gpu=2,ssd=1"),
    (parse_asked, "gpu=0.5,ssd=1"),
    (parse_weights, "data=4,rack=1,cpu=0.5"),
    (parse_after, "first,second:success,third:up"),
    (lambda text: parse_mounts(text, Path("/tmp")), "/tmp:ro,.:rw,/usr"),
)


def _text(data: bytes) -> None:
    """Read a text; the first byte says what it is taken for."""
    if data:
        TEXTS[data[0] % len(TEXTS)][0](data[1:].decode(errors="replace"))


def _conf(data: bytes) -> None:
    """Turn the settings of an application, as JSON, into the command line of an executor."""
    conf = msgspec.json.decode(data, type=dict[str, str])
    options = job_options(conf, submitted=NOW, working_dir=Path("/tmp"), default_law="forecast")
    record = application_record(registration(conf=conf), options)
    for profile_id, wish in (("0", driver.ExecutorWish()), ("1", driver.ExecutorWish(cores=3, heap_mb=100))):
        slots = executor_slots(conf, wish, profile_id, 2.5)
        msgspec.json.encode(executor_spec(record, "1", wish, profile_id, slots))


CONF_SEEDS = tuple(
    json.dumps({**{f"spark.pace.{name}": text for name, text in ours.items()}, **sparks}).encode()
    for ours, sparks in (
        ({"deadline": "10min", "priority": "low", "law": "paper", "law.paper.alpha": "0.9", "mounts": "/tmp"}, {}),
        (
            {
                "placement.resources": "gpu=0.5",
                "placement.labels": "zone=a",
                "placement.ports": "80,443",
                "after": "x:success,y:up",
            },
            {"spark.executor.resource.fpga.amount": "2", "spark.executor.cores": "2", "spark.executor.memory": "1g"},
        ),
        ({"pipeline": "nightly", "pipeline.by": "10min"}, {}),
        (
            {
                "placement.group": "g",
                "placement.apart": "a,b",
                "placement.prefer": "h1,h2",
                "locality.wait": "3s",
                "force": "true",
            },
            {"spark.memory.offHeap.enabled": "true", "spark.memory.offHeap.size": "64m", "spark.buffer.pageSize": "1m"},
        ),
        (
            {"arguments": '["a", "b"]', "locality.move": "1s", "placement.policy": "spread", "profile": "p", "image": "i"},
            {
                "spark.executor.memoryOverheadFactor": "0.2",
                "spark.executor.pyspark.memory": "512",
                "spark.memory.offHeap.size": "1",
            },
        ),
        ({}, {"spark.executor.extraJavaOptions": "-Da='b c' {{APP_ID}}", "spark.executor.memoryOverhead": "400"}),
    )
)


def _properties(data: bytes) -> None:
    found = parse_properties(data.decode(errors="replace"))
    assert parse_properties(format_properties(found)) == found, "what was written is read back as something else"
    format_properties(found).encode()


def _topology(data: bytes) -> None:
    with folder() as path:
        file = path / "topology"
        file.write_bytes(data)
        topology = read_topology(file)
        topology.locate("10.1.2.3")
        topology.locate("fe80::1")
        topology.locate(data[:40].decode("latin-1"))


def _arguments(data: bytes) -> None:
    split_arguments(data.decode(errors="surrogateescape").split("\n"))


TARGETS = (
    Target("texts", _text, tuple(bytes([n]) + text.encode() for n, (_, text) in enumerate(TEXTS)), (BadInput,)),
    Target("conf", _conf, CONF_SEEDS, (*UNREADABLE, BadInput)),
    Target("properties", _properties, (b"a=b\nc : d\\\n e\n# x\nk\\=1 \\u00e9\\t", b"spark.a  1\r\nspark.b:2"), ()),
    Target("topology", _topology, (b"10.1.2.0/24 host=h rack=r # c\nfe80::/10 switch=s\n10.1.2.3 rack=q",), (BadInput,)),
    Target(
        "arguments",
        _arguments,
        (b"--deadline\n10s\n--conf\na=b\n--mount=/x:rw\n--verbose\napp.py\n--x", b"--conf=a=b\n-c\nd=e\n--force\nx.jar"),
        (BadInput,),
    ),
)
