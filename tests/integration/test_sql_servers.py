"""Spark's own servers for SQL, on real Spark: a session's SET gives its queries a deadline, by Connect and by JDBC. Jobs
come after them by `--after APP:up`."""

from __future__ import annotations

import contextlib
import signal
import socket
import sys
from pathlib import Path
from typing import Any

import pytest

from experiments.harness.live_cluster import free_port, spark_home
from tests.integration.local_cluster import Job, LocalCluster, conf_words, eventually

pytestmark = [pytest.mark.slow, pytest.mark.spark]

PYTHON = Path(sys.executable)
HOST = "127.0.0.1"
CONNECT = "org.apache.spark.sql.connect.service.SparkConnectServer"
THRIFT = "org.apache.spark.sql.hive.thriftserver.HiveThriftServer2"


def await_port(server: Job, port: int) -> None:
    def answers() -> bool:
        assert server.process.poll() is None, server.err.read_text(errors="replace")[-6000:]
        with contextlib.suppress(ConnectionRefusedError), socket.create_connection((HOST, port)):
            return True
        return False

    eventually(answers, f"a server at port {port}")


def ended(cluster: LocalCluster, server: Job, name: str) -> dict[str, Any]:
    """End the server; return its record."""
    server.process.send_signal(signal.SIGTERM)
    assert server.process.wait(timeout=300) in {-signal.SIGTERM, 128 + signal.SIGTERM}
    summary = cluster.summary(name)
    assert (summary["outcome"], summary["end_reason"], summary["taught"]) == ("succeeded", "", True)
    return summary


def assert_one_query_had_it(summary: dict[str, Any], deadline_s: float) -> None:
    assert summary["deadline_s"] is None, "it is the query's, not the server's"
    [query] = summary["actions"]
    assert query["deadline_s"] == deadline_s
    assert query["violated"] is (query["end_s"] - query["start_s"] > deadline_s)
    assert summary["tasks_failed"] == 0


def connect_server(cluster: LocalCluster, port: int) -> Job:
    settings = conf_words({"spark.connect.grpc.binding.address": HOST, "spark.connect.grpc.binding.port": port})
    return cluster.submit("--name", "shared", *settings, "--class", CONNECT, "spark-internal")


def test_a_job_of_queries_with_a_deadline_starts_once_its_connect_server_serves_and_follows_it_to_another_port(
    process_cluster: LocalCluster, tmp_path: Path
) -> None:
    ready, port = tmp_path / "ready", free_port()
    user = process_cluster.submit("--name", "asker", "--after", "shared:up", "service_user.py", sys.executable, str(ready))
    eventually(lambda: process_cluster.views("asker"), "the job that waits")
    server = connect_server(process_cluster, port)

    def asked() -> bool:
        assert user.process.poll() is None, user.err.read_text(errors="replace")[-6000:]
        return ready.exists()

    eventually(asked, "the answer of the first server")
    assert_one_query_had_it(ended(process_cluster, server, "shared"), 90.0)
    server = connect_server(process_cluster, 0)
    done = user.finish().ok().answer
    first, second = done["addresses"]
    assert (done["ok"], first) == (True, f"{HOST}:{port}")
    assert second.startswith(f"{HOST}:")
    assert second != first
    ended(process_cluster, server, "shared")


def test_a_query_of_beeline_has_a_deadline(process_cluster: LocalCluster, tmp_path: Path) -> None:
    port = free_port()
    where = ("--hiveconf", f"hive.server2.thrift.port={port}", "--hiveconf", f"hive.server2.thrift.bind.host={HOST}")
    words = ("--properties-file", str(process_cluster.properties()), "--name", "thrift", "--class", THRIFT)
    home = spark_home(PYTHON)
    server = process_cluster.start(
        [str(home / "bin" / "spark-submit"), *words, "spark-internal", *where], {"SPARK_HOME": str(home)}, tmp_path
    )
    await_port(server, port)
    at = f"{HOST}:{port}"
    eventually(lambda: any(view.address == at for view in process_cluster.views("thrift")), "its address at the master")
    query = "select concat('total=', sum(id * 3)) from range(0, 1000000, 1, 4)"
    script = f"{query}; SET spark.pace.deadline=90s; {query}; RESET spark.pace.deadline; {query};"
    beeline = [str(home / "bin" / "beeline"), "-u", f"jdbc:hive2://{HOST}:{port}", "-e", script]
    done = process_cluster.start(beeline, {"SPARK_HOME": str(home)}, tmp_path).finish().ok()
    assert done.out.count(f"total={3 * 999_999 * 1_000_000 // 2}") == 3, done.out
    assert_one_query_had_it(ended(process_cluster, server, "thrift"), 90.0)
