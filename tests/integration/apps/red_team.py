"""A hostile job: its tasks try what PLAN (a JSON file) names and print what came of it. `red_team.py PLAN ATTACK...`; if the
plan has `until`, again and again until that file appears.

Every attack runs in a task, as whatever the executor runs as, with what is mounted there.
"""

import contextlib
import hashlib
import json
import os
import socket
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from pyspark.sql import SparkSession

plan = json.loads(Path(sys.argv[1]).read_text())
MIB = b"\0" * (1 << 20)


def content(path):
    try:
        return Path(path).read_bytes()
    except OSError:
        return b""


def read():
    """Return the files of this machine that hold one of the secrets, or a database; and environments of other programs that
    hold one."""
    sizes = {secret["size"] for secret in plan["secrets"]}
    digests = {secret["sha256"] for secret in plan["secrets"]}
    found = []
    for place, folders, files in os.walk("/"):
        folders[:] = [name for name in folders if f"{place}/{name}" not in ("//proc", "//sys", "//dev")]
        for name in files:
            path = Path(place, name)
            try:
                size = path.stat().st_size
                with path.open("rb") as file:
                    head = file.read(16)
            except OSError:
                continue
            whole = hashlib.sha256(content(path)).hexdigest() if size in sizes else ""
            if whole in digests or head.startswith(b"SQLite format 3"):
                found.append(str(path))
    for process in Path("/proc").glob("[0-9]*"):
        words = content(process / "environ") + content(process / "cmdline")
        if any(text.encode() in words for text in plan["texts"]):
            found.append(str(process))
    return sorted(found)


def call():
    """Call each of the addresses, by TCP or as a socket in the file system; return the addresses that answer. The host
    "gateway" is this network's."""
    routes = [line.split() for line in Path("/proc/net/route").read_text().splitlines()[1:]]
    gateways = [socket.inet_ntoa(bytes.fromhex(words[2])[::-1]) for words in routes if words[1] == "00000000"]

    def answers(host, port):
        for address in gateways if host == "gateway" else [host]:
            with contextlib.suppress(OSError), socket.create_connection((address, port), timeout=3):
                return True
        return False

    def connects(path):
        with socket.socket(socket.AF_UNIX) as probe:
            try:
                probe.connect(path)
            except OSError:
                return False
            return True

    # at once, because each call that is dropped takes its whole time-out
    with ThreadPoolExecutor(len(plan["addresses"])) as calls:
        answered = list(calls.map(lambda address: answers(*address), plan["addresses"].values()))
    named = dict(zip(plan["addresses"], answered, strict=True))
    return {**named, **{path: connects(path) for path in plan["sockets"]}}


def fill(folder):
    """Fill a file in `folder` with at most `most_mb` MiB; return how many could be written and why no more; the file goes."""
    path = Path(folder, "red-team")
    written, why = 0, ""
    try:
        with path.open("wb", buffering=0) as file:
            while written < plan["most_mb"]:
                written += file.write(MIB) >> 20
    except OSError as error:
        why = os.strerror(error.errno)
    with contextlib.suppress(OSError):
        path.unlink()
    return {"mb": written, "why": why}


def fork():
    """Count the processes that could run at the same time, at most `most_processes`, and say why no more."""
    children, why = [], ""
    read_end, write_end = os.pipe()
    try:
        while len(children) < plan["most_processes"]:
            child = os.fork()
            if child == 0:
                os.close(write_end)
                os.read(read_end, 1)  # until the parent closes its end
                os._exit(0)
            children.append(child)
    except OSError as error:
        why = os.strerror(error.errno)
    os.close(write_end)
    for child in children:
        os.waitpid(child, 0)
    return {"processes": len(children), "why": why}


def shout():
    """Write to the executor's own standard output and error, MiB each."""
    for _ in range(plan["log_mb"]):
        os.write(1, MIB)
        os.write(2, MIB)
    return plan["log_mb"]


def forge():
    """Put false progress in place for `forge_s` seconds, several times in each period of an agent: stages that do not exist,
    impossible numbers, no JSON, too much, a link, a pipe. Return how often each was put in place."""
    path = Path(os.environ["SPARKPACE_CONTROL_DIR"], "progress.json")
    true = json.loads(path.read_text())
    zero = dict.fromkeys(("stage", "attempt", "running", "done", "failed", "records_done", "records_running", "cpu_ns"), 0)
    put = dict.fromkeys(("stages", "numbers", "words", "large", "link", "pipe"), 0)
    until = time.monotonic() + plan["forge_s"]
    while time.monotonic() < until:
        for kind in put:
            new = path.with_name("forged")
            new.unlink(missing_ok=True)
            first = put["stages"] * 400
            if kind == "stages":
                stages = [zero | {"stage": first + n, "running": 1, "done": 1 << 40} for n in range(400)]
                new.write_text(json.dumps(true | {"stages": stages}))
            elif kind == "numbers":
                new.write_text(json.dumps(true | {"stages": [zero | {"done": -1, "cpu_ns": 10**400}]}))
            elif kind == "words":
                new.write_text("[" * 60_000)
            elif kind == "large":
                new.write_bytes(MIB * 8)
            elif kind == "link":
                new.symlink_to("/etc/passwd")
            else:
                os.mkfifo(new)
            new.rename(path)
            put[kind] += 1
            time.sleep(0.05)
    return put


def swallow():
    """Take memory until something ends the process."""
    held = []
    while True:
        held.append(bytearray(os.urandom(1 << 20) * 16))


ATTACKS = {
    "read": read,
    "call": call,
    "tmp": lambda: fill("/tmp"),
    "root": lambda: fill("/"),
    "var": lambda: fill("/var/tmp"),
    "fork": fork,
    "shout": shout,
    "forge": forge,
    "swallow": swallow,
}
sc = SparkSession.builder.getOrCreate().sparkContext
own = (sc.getConf().get("spark.driver.host"), int(sc.getConf().get("spark.driver.port")))
plan.setdefault("addresses", {})["its own driver"] = own
while True:
    seen = {name: sc.parallelize([name], 1).map(lambda name: ATTACKS[name]()).first() for name in sys.argv[2:]}
    if not plan.get("until") or Path(plan["until"]).exists():
        break
print(json.dumps({"seen": seen}))
