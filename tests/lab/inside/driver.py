"""A driver without a JVM: it registers an application, wants executors, and says what it learns of them.

driver.py HOME NUMBER: the home of the cluster, and the number of executors. Each line of its output is a JSON object: the
`application` first, then each executor that has `gone`, with the `reason`, and each of the master's `notices`. SIGTERM ends
the application.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
import threading
import uuid
from contextlib import suppress
from pathlib import Path

from controller.client import MasterClient, submit_client
from controller.home import Home
from controller.machine.process import find_process
from controller.wire.driver import DriverReply, DriverSync, ExecutorWish, Registered, Registration
from stage_model.errors import Unavailable

SYNC_S = 1.0
INSTANCE = str(uuid.uuid4())
STANDIN = Path("/opt/standin")


def registration(wanted: dict[str, ExecutorWish]) -> Registration:
    me = find_process(os.getpid())
    assert me is not None
    return Registration(
        name="standin",
        instance=INSTANCE,
        spark_version="4.3.0",
        user="root",
        uid=os.getuid(),
        gid=os.getgid(),
        pid=me.pid,
        pid_start=me.start_ticks,
        boot_id=me.boot_id,
        host=socket.gethostname(),
        driver_url=f"spark://CoarseGrainedScheduler@{socket.gethostname()}:4040",
        jars_dir=str(STANDIN / "spark" / "jars"),
        bridge_jar=str(STANDIN / "bridge.jar"),
        java_home=str(STANDIN),
        working_dir=str(STANDIN),
        age_s=0.0,
        conf={"spark.executor.memory": "64m", "spark.executor.memoryOverhead": "64m"},
        wanted=wanted,
    )


def say(**what: object) -> None:
    sys.stdout.write(json.dumps(what) + "\n")
    sys.stdout.flush()


def main(home: Home, number: int) -> None:
    ended = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: ended.set())
    wanted = {"0": ExecutorWish(count=number)}
    answer = submit_client(home)._call("/v1/applications", Registered, registration(wanted))
    say(application=answer.application_id)
    client = MasterClient(home.need_cluster().url, home.ca_file, answer.token)
    known: set[str] = set()
    while True:
        last = ended.wait(SYNC_S)
        asked = DriverSync(instance=INSTANCE, wanted={} if last else wanted, ended=last)
        with suppress(Unavailable):  # like a bridge, it asks again
            reply = client._call(f"/v1/applications/{answer.application_id}/sync", DriverReply, asked)
            for notice in reply.notices:
                say(notice=notice)
            for gone in reply.gone:
                if gone.executor_id not in known:
                    say(gone=gone.executor_id, reason=gone.reason)
                    known.add(gone.executor_id)
            if reply.stop is not None:
                say(stop=reply.stop)
                return
        if last:
            return


if __name__ == "__main__":
    main(Home(Path(sys.argv[1])), int(sys.argv[2]))
