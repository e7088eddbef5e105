"""Files that are deployed with a master to watch it: alerts, the scrape and the dashboard speak of metrics that exist."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from controller.master.metric_table import METRICS

DEPLOY = Path(__file__).resolve().parents[1] / "deploy"
PROMETHEUS = DEPLOY / "prometheus"
DASHBOARD = DEPLOY / "grafana" / "sparkpace.json"
NAME = re.compile(r"\bsparkpace_\w+")


def read(name: str) -> dict[str, Any]:
    read: dict[str, Any] = yaml.safe_load((PROMETHEUS / name).read_text())
    return read


def alerts() -> list[dict[str, Any]]:
    return [rule for group in read("rules.yml")["groups"] for rule in group["rules"]]


def dashboard() -> dict[str, Any]:
    read: dict[str, Any] = json.loads(DASHBOARD.read_text())
    return read


def tried() -> Iterator[dict[str, Any]]:
    for test in read("rules_test.yml")["tests"]:
        yield from test["alert_rule_test"]


@pytest.mark.parametrize(
    "text", [PROMETHEUS / "rules.yml", PROMETHEUS / "rules_test.yml", DASHBOARD], ids=lambda file: file.name
)
def test_every_metric_that_is_named_is_served(text: Path) -> None:
    named = set(NAME.findall(text.read_text()))
    assert named
    assert sorted(named - {series for metric in METRICS for series in metric.series}) == []


def test_the_job_that_alerts_name_is_that_of_the_scrape() -> None:
    (scrape,) = read("prometheus.yml")["scrape_configs"]
    named = {job for rule in alerts() for job in re.findall(r'job="(\w+)"', rule["expr"])}
    assert named == {scrape["job_name"]}


def test_the_token_and_the_ca_are_files_and_nothing_else_is_trusted() -> None:
    (scrape,) = read("prometheus.yml")["scrape_configs"]
    assert scrape["scheme"] == "https"
    assert scrape["authorization"] == {"credentials_file": "metrics.token"}
    assert scrape["tls_config"] == {"ca_file": "ca.pem"}


def test_every_alert_is_tried_firing_and_not_firing() -> None:
    names = {rule["alert"] for rule in alerts()}
    assert {one["alertname"] for one in tried() if one["exp_alerts"]} == names
    assert {one["alertname"] for one in tried() if not one["exp_alerts"]} == names


def test_panels_are_distinguished_and_ask_the_source_that_is_chosen() -> None:
    shown = dashboard()
    panels = shown["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    variables = {one["name"] for one in shown["templating"]["list"]}
    used = set(re.findall(r"\$\{?([a-z]\w*)", DASHBOARD.read_text()))
    assert used == variables
    for panel in panels:
        assert panel["targets"], panel["title"]
        assert all(target["datasource"] == panel["datasource"] for target in panel["targets"])


@pytest.mark.prometheus
@pytest.mark.parametrize(
    "words", [("check", "rules", "rules.yml"), ("test", "rules", "rules_test.yml"), ("check", "config", "prometheus.yml")]
)
def test_promtool_finds_nothing_wrong(words: tuple[str, ...], prometheus: Path, tmp_path: Path) -> None:
    copied = shutil.copytree(PROMETHEUS, tmp_path / "prometheus")
    for name in ("metrics.token", "ca.pem"):
        (copied / name).touch()  # it looks whether they are there
    done = subprocess.run([prometheus / "promtool", *words], cwd=copied, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "SUCCESS" in done.stdout
