"""Real jobs on real Spark that look for tokens and credentials in what is mounted, from wherever they are submitted.

The home of Sparkpace is given by a link, and it lies deeper than the link does. Not covered: the process runtime, which
hides nothing.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from controller.home import Home
from tests.integration.engine import Engine
from tests.integration.local_cluster import APPS, LocalCluster, eventually

pytestmark = [pytest.mark.slow, pytest.mark.spark, pytest.mark.docker, pytest.mark.timeout(600)]


@dataclass(frozen=True, slots=True)
class Place:
    """A user's home directory `me` with secrets in it; `secrets` are their files, `disk` holds the home of Sparkpace."""

    cluster: LocalCluster
    me: Path
    disk: Path
    secrets: tuple[Path, ...]

    def look(self, cwd: Path, folder: Path, *options: str) -> Any:
        """Return what the tasks of a job that is submitted from `cwd` see in `folder`."""
        (cwd / "other.txt").write_text("ordinary")
        digests = [hashlib.sha256(path.read_bytes()).hexdigest() for path in self.secrets]
        words = (*options, "--num-executors", "1", str(APPS / "look.py"), str(folder), str(cwd / "other.txt"), *digests)
        job = self.cluster.start(self.cluster.sparkpace().command(("submit", *words)), cwd=cwd)
        first, second = job.finish().ok().answer["seen"]
        assert first == second
        return first


@pytest.fixture(scope="module")
def place(docker_engine: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    root = tmp_path_factory.mktemp("secrets")
    me, disk = root / "users/me", root / "users/me/mnt/big/disk"
    for folder in (disk / "home", me / "shown", me / ".aws", me / ".ssh", me / "dotfiles", root / "far/kube"):
        folder.mkdir(parents=True)
    (me / ".sparkpace").symlink_to("mnt/big/disk/home")
    (me / ".kube").symlink_to(root / "far/kube")
    (me / ".ssh/id_rsa").symlink_to("../dotfiles/id_rsa")
    secrets = [me / ".aws/credentials", me / ".netrc", me / "dotfiles/id_rsa", root / "far/kube/config"]
    for path in secrets:
        path.write_text(f"secret {path}")
        path.chmod(0o600)
    cluster = LocalCluster(Home(me / ".sparkpace"), "docker")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOME", str(me))
        try:
            cluster.up("--workers", "1", "--allow-mount", str(me))
            tokens = (disk / "home/admin.token", disk / "home/submit.token")
            engine = Engine(docker_engine, cluster.cluster().cluster_id)
            yield Place(cluster, me, disk, (*secrets, *tokens))
        finally:
            cluster.down()
    assert engine.containers() == []
    eventually(lambda: not cluster.left(), "the end of the cluster's processes")


@pytest.mark.parametrize("where", ["users/me", "users/me/mnt/big/disk", "."], ids=["home", "parent", "links"])
def test_a_task_finds_no_token_database_or_credential_in_the_directory_of_submission(place: Place, where: str) -> None:
    """The home directory, the folder around the home of Sparkpace, the one around all that links lead to."""
    cwd = (place.me.parent.parent / where).resolve()
    assert place.look(cwd, cwd) == {"found": [], "other": "ordinary"}


def test_credentials_that_were_asked_for_are_shown_and_no_others(place: Place) -> None:
    asked = place.me / ".aws"
    assert place.look(place.me, place.me, "--mount", str(asked)) == {
        "found": [str(asked / "credentials")],
        "other": "ordinary",
    }
