"""A real Prometheus scrapes a real master with the files that are deployed, and answers what the dashboard asks."""

from __future__ import annotations

import http.client
import json
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
import yaml

from controller.machine.http import to_master
from controller.master.metric_table import METRICS
from experiments.harness.live_cluster import free_port
from tests.integration.conftest import ROOT
from tests.integration.local_cluster import LocalCluster, eventually

pytestmark = [pytest.mark.slow, pytest.mark.prometheus]

DEPLOY = ROOT / "deploy"
ANSWER_S = 30.0


@dataclass(frozen=True, slots=True)
class Prometheus:
    port: int
    process: subprocess.Popen[bytes]
    log: Path

    def ask(self, path: str, **query: str) -> Any:
        """Return the answer's data, None while Prometheus still starts."""
        assert self.process.poll() is None, self.log.read_text()
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=ANSWER_S)
        try:
            connection.request("GET", f"/api/v1/{path}?{urlencode(query)}")
            answered = connection.getresponse()
            text = answered.read()
        except ConnectionRefusedError:
            return None
        finally:
            connection.close()
        if answered.status == http.HTTPStatus.SERVICE_UNAVAILABLE:
            return None
        answer = json.loads(text)
        assert answer["status"] == "success", answer
        return answer["data"]

    def series(self, query: str) -> list[dict[str, Any]]:
        """Return the series that exist at this moment."""
        return list((self.ask("query", query=query) or {"result": []})["result"])


def token_file(cluster: LocalCluster) -> Path:
    return Path(cluster.command("token", "--metrics").stdout.strip())


@contextmanager
def scraping(cluster: LocalCluster, programs: Path, place: Path) -> Iterator[Prometheus]:
    """Run Prometheus as docs/metrics.md says: the deployed files, with the token and the CA next to them. Only the target and
    the intervals are others."""
    copied = shutil.copytree(DEPLOY / "prometheus", place / "prometheus")
    shutil.copy(token_file(cluster), copied / "metrics.token")
    shutil.copy(cluster.home.ca_file, copied / "ca.pem")
    config = yaml.safe_load((copied / "prometheus.yml").read_text())
    known = cluster.cluster()
    config["global"] = {"scrape_interval": "2s", "evaluation_interval": "1s"}  # a scrape may take as long as its interval
    config["scrape_configs"][0]["static_configs"] = [{"targets": [f"{known.host}:{known.port}"]}]
    (copied / "prometheus.yml").write_text(yaml.safe_dump(config))
    port, log = free_port(), place / "prometheus.log"
    words = {
        "config.file": copied / "prometheus.yml",
        "storage.tsdb.path": place / "data",
        "web.listen-address": f"127.0.0.1:{port}",
    }
    with log.open("wb") as out:
        process = subprocess.Popen(
            [programs / "prometheus", *(f"--{name}={value}" for name, value in words.items())],
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
            cwd=place,
        )
    try:
        yield Prometheus(port, process, log)
    finally:
        process.terminate()
        try:
            process.wait(ANSWER_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def dashboard() -> dict[str, str]:
    """Return the queries of the dashboard's panels, by the legend, with the variables chosen as they are at first."""
    panels = json.loads((DEPLOY / "grafana" / "sparkpace.json").read_text())["panels"]
    return {
        f"{panel['title']}, {target['legendFormat']}": target["expr"]
        .replace("$application", ".*")
        .replace("$__rate_interval", "1m")
        for panel in panels
        for target in panel["targets"]
    }


def test_promtool_finds_nothing_wrong_with_what_a_master_serves(process_cluster: LocalCluster, prometheus: Path) -> None:
    token = token_file(process_cluster).read_text().strip()
    with closing(to_master(process_cluster.cluster().url, process_cluster.home.ca_file, ANSWER_S)) as connection:
        served = connection.ask("GET", "/metrics", None, {"Authorization": f"Bearer {token}"})
    text = served.body
    assert served.status == 200, text
    assert {line.split()[2] for line in text.decode().splitlines() if line.startswith("# TYPE ")} == {
        metric.shown for metric in METRICS
    }
    done = subprocess.run([prometheus / "promtool", "check", "metrics"], input=text, capture_output=True, check=False)
    assert (done.returncode, done.stdout + done.stderr) == (0, b"")


@pytest.mark.spark
def test_a_prometheus_answers_what_the_dashboard_asks(
    process_cluster: LocalCluster, prometheus: Path, stop_file: Path, tmp_path: Path
) -> None:
    job = process_cluster.submit("--name", "scraped", "--deadline", "1h", "rounds.py", str(stop_file))
    one = process_cluster.running("scraped", executors=1).application_id
    with scraping(process_cluster, prometheus, tmp_path) as watching:
        (cores,) = eventually(lambda: watching.series("sparkpace_worker_cores"), "a scrape")
        (worker,) = process_cluster.client().workers()
        assert (cores["metric"]["worker"], float(cores["value"][1])) == (worker.worker_id, worker.cores)

        # a first run has no forecast
        unanswered = {legend: query for legend, query in dashboard().items() if not legend.endswith(": forecast")}
        assert len(unanswered) == len(dashboard()) - 1

        def all_are_answered() -> bool:
            for legend in [legend for legend, query in unanswered.items() if watching.series(query)]:
                del unanswered[legend]
            return not unanswered

        eventually(all_are_answered, f"answers to {unanswered}")
        query = next(query for legend, query in dashboard().items() if legend.endswith(": deadline"))
        (deadline,) = eventually(lambda: watching.series(query), "the deadline")
        assert (deadline["metric"]["application"], deadline["metric"]["name"]) == (one, "scraped")
        assert 0 < float(deadline["value"][1]) < 3600

        def rules() -> set[tuple[str, str]]:
            return {(rule["health"], rule["state"]) for group in watching.ask("rules")["groups"] for rule in group["rules"]}

        # a scrape that a busy machine held up leaves an alert waiting for a moment
        eventually(lambda: rules() == {("ok", "inactive")}, "rules that work and find nothing")
        stop_file.touch()
        job.finish().ok()
        eventually(lambda: not watching.series(f'sparkpace_application_info{{application="{one}"}}'), "the series' end")
