"""The scan: its free choice meets the data on each pair of hosts once."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

from experiments.harness.experiment import read_spec
from experiments.harness.recorded import Data
from experiments.scenarios import make_scenario
from experiments.scenarios.scan import Scan
from tests.fakes.recorded import job_record, step_record

WORDS = ("scan.py", "hosted-800-h4+h5")
SHUFFLED = (("scan.py", "hosted-800-h2+h3"), WORDS)


def test_each_repetition_of_the_free_scan_has_its_data_elsewhere() -> None:
    scenario = Scan(words=WORDS, ways={"pinned": ("a",), "free": ()}, shuffled=SHUFFLED, repetitions=1)
    assert scenario.steps() == ["pinned-0", "free-0", "free-1"]
    orders = [order for step in scenario.steps() for order in scenario.orders(step, Data())]
    assert [order.words[-1] for order in orders] == ["hosted-800-h4+h5", "hosted-800-h2+h3", "hosted-800-h4+h5"]
    found = [step_record(f"free-{n}", job_record("scan", f"f{n}", end_s=40.0 + n)) for n in (0, 1)]
    tables = scenario.tables(Data({step.step: step for step in found}))
    assert "| free-0 | 1 | h2+h3 | w1, w2 | 40.0 |" in tables
    assert "| free-1 | 1 | h4+h5 | w1, w2 | 41.0 |" in tables


def test_without_other_places_each_repetition_is_the_same() -> None:
    scenario = Scan(words=WORDS, ways={"pinned": (), "free": ()}, repetitions=2)
    assert scenario.steps() == ["pinned-0", "free-0", "pinned-1", "free-1"]
    assert {order.words for step in scenario.steps() for order in scenario.orders(step, Data())} == {WORDS}


def test_the_spec_has_the_data_on_every_pair_of_the_hosts_that_take_executors() -> None:
    _, spec = read_spec("scan")
    scenario: Any = make_scenario("scan", spec.settings, 1, Path("x"))
    described = [word.split() for word in spec.cluster.up if word.startswith("cores=")]
    hosts = [words[2].removeprefix("host=") for words in described if words[0] == "cores=0.4"]
    pairs = {"+".join(pair) for pair in itertools.combinations(hosts, 2)}
    assert len(pairs) == 6
    assert {words[-1].rpartition("-")[2] for words in scenario.shuffled} == pairs
