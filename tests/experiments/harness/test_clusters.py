"""The times at which the clusters of an experiment are up; they are stand-ins that note their start and end."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from experiments.harness import clusters
from experiments.harness.clusters import running
from experiments.harness.result_folder import Asked, AskedCluster


class NotingCluster:
    seen: list[str] = []

    def __init__(self, folder: Path, name: str = "") -> None:
        self.folder, self.name = folder, name

    @contextmanager
    def running(self, up: Sequence[str]) -> Iterator[NotingCluster]:
        self.seen.append(f"up {' '.join(up)} in home {self.name!r}")
        yield self
        self.seen.append(f"down {' '.join(up)}")


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Provide what the clusters of the test note."""
    found: list[str] = []
    monkeypatch.setattr(clusters, "LocalCluster", NotingCluster)
    monkeypatch.setattr(NotingCluster, "seen", found)
    return found


def asked(**wanted: AskedCluster) -> Asked:
    return Asked(spec="s", scenario="s", title="t", quick=False, seed=1, cluster=(), settings={}, clusters=wanted)


def test_a_cluster_that_is_to_be_alone_is_up_only_for_its_own_steps(tmp_path: Path, seen: list[str]) -> None:
    what = asked(full=AskedCluster(("full",), alone=True), half=AskedCluster(("half",), alone=True))
    with running(tmp_path, what) as found:
        assert seen == []
        assert found["full"] is found["full"]
        found["half"]
        assert seen == ["up full in home ''", "down full", "up half in home ''"]
        assert found.none().folder == tmp_path
        assert seen[3:] == ["down half"]
        found["full"]
    assert seen[4:] == ["up full in home ''", "down full"]


def test_other_clusters_are_up_all_the_time_each_with_a_home_of_its_own(tmp_path: Path, seen: list[str]) -> None:
    with running(tmp_path, asked(a=AskedCluster(("a",)), b=AskedCluster(("b",)))) as found:
        assert seen == ["up a in home 'a'", "up b in home 'b'"]
        found.none()
        assert len(seen) == 2
    assert seen[2:] == ["down b", "down a"]
