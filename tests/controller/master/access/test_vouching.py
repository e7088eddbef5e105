"""The user and groups that a driver may have: the decision from known facts, and a driver in a real container with the host's
network."""

from __future__ import annotations

import os
import socket

import docker
import pytest
from msgspec import structs

from controller.home import User
from controller.machine.proc import boot_id
from controller.machine.process import Process
from controller.master.access.peer import Address, DriverSeen, Facts, find_driver, find_peer
from controller.master.access.vouching import vouched
from controller.runtime.docker.image import ensure_executor_image
from stage_model.errors import Denied
from tests.fakes.cluster import registration

NOBODY = Facts("10.0.0.9")
LOCAL = Facts("127.0.0.1", peer_uid=1000, in_sight=True, namespace="ours")
DRIVER = DriverSeen(7, 1000, frozenset({1000, 27}), nested=False, connected=True)
ROOT, ROOTS = {"uid": 0, "gid": 0}, DRIVER._replace(uid=0, groups=frozenset({0}))
SEEN = structs.replace(registration(uid=1000, gid=1000, pid=7), pid_namespace="theirs")


@pytest.mark.parametrize(
    ("facts", "said", "why"),
    [
        (NOBODY, {}, "uid 1000.* or with a user's own token"),
        (NOBODY, ROOT, "uid 0.* or as another user, with a user's own token"),
        (Facts("x", peer_uid=1001), {}, "1001"),
        (Facts("x", peer_uid=1000), {}, "gid 1000"),
        (Facts("x", peer_uid=1000, groups=frozenset({5})), {}, r"gid 1000 of uid 1000.* \[5\]"),
        (LOCAL, {}, "process 7"),
        (Facts("x", peer_uid=1000, in_sight=True, driver=DRIVER._replace(uid=0)), {}, "process 7"),
        (Facts("x", peer_uid=1000, in_sight=True, driver=DRIVER._replace(connected=False)), {}, "process 7"),
        (Facts("x", peer_uid=1000, in_sight=True, driver=DRIVER), {"gid": 999}, "gid 999"),
        # the user database gives no group to a process that has not got it
        (Facts("x", peer_uid=1000, driver=DRIVER, groups=frozenset({999})), {"gid": 999}, "gid 999"),
        (Facts("x", peer_uid=0, groups=frozenset({0})), ROOT, "root"),
        (Facts("x", peer_uid=0, driver=ROOTS._replace(nested=True)), ROOT, "root"),
        (Facts("x", user=User(1001, 1001)), {}, "token, 1001"),
        (Facts("x", user=User(1001, 1001), peer_uid=1000), {}, "token, 1001"),
        (Facts("x", user=User(0, 0)), ROOT, "root"),
    ],
)
def test_a_user_without_a_voucher_is_refused(facts: Facts, said: dict[str, int], why: str) -> None:
    with pytest.raises(Denied, match=why):
        vouched(structs.replace(SEEN, **said), facts)


@pytest.mark.parametrize(
    ("facts", "said"),
    [
        (Facts("x", peer_uid=1000, in_sight=True, driver=DRIVER, namespace="ours"), {}),
        (Facts("x", peer_uid=1000, in_sight=True, driver=DRIVER, namespace="ours"), {"gid": 27}),
        (Facts("x", peer_uid=1000, in_sight=True, driver=DRIVER._replace(connected=None), namespace="ours"), {}),
        (Facts("x", peer_uid=1000, driver=DRIVER._replace(pid=70_007, nested=True), namespace="ours"), {}),
        (Facts("x", peer_uid=1000, groups=frozenset({1000})), {}),
        (Facts("x", user=User(1000, 1000)), {}),
        (Facts("x", user=User(1000, 5), groups=frozenset({1000})), {}),
        (Facts("x", peer_uid=0, driver=ROOTS, namespace="ours"), ROOT),
    ],
)
def test_who_is_vouched_for_keeps_uid_and_gid_and_is_watched_where_it_is_seen(facts: Facts, said: dict[str, int]) -> None:
    asked = structs.replace(SEEN, **said)
    got = vouched(asked, facts)
    assert (got.uid, got.gid) == (asked.uid, asked.gid)
    assert (got.pid, got.pid_namespace) == ((facts.driver.pid, "ours") if facts.driver else (7, "theirs"))


SAYS = (
    "exec 3<>/dev/tcp/127.0.0.1/$0; read -r stat </proc/$$/stat; "
    'echo "$stat|$(readlink /proc/self/ns/pid)" >&3; read -r _ <&3'
)
"""A driver's part: it connects, names its process and waits."""


@pytest.fixture
def client(docker_engine: docker.DockerClient) -> docker.APIClient:
    return docker_engine.api


@pytest.mark.docker
def test_a_driver_in_a_container_is_seen_with_its_number_here(client: docker.APIClient) -> None:
    image = ensure_executor_image(client, None)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(120)
        created = client.create_container(
            image,
            entrypoint=["/bin/bash", "-c", SAYS, str(listener.getsockname()[1])],
            user="1234:100",
            host_config=client.create_host_config(network_mode="host"),
        )["Id"]
        try:
            client.start(created)
            connection, _ = listener.accept()
            with connection:
                stat, _, namespace = connection.makefile().readline().strip().partition("|")
                peer = find_peer(Address(*connection.getpeername()), Address(*connection.getsockname()))
                assert peer is not None
                assert peer.uid == 1234
                inner = int(stat.split()[0])
                claimed = Process(inner, int(stat.split()[21]), boot_id(), namespace)
                assert not claimed.is_numbered_here()
                inode = peer.inode if os.geteuid() == 0 else None
                seen = find_driver(claimed, 1234, inode)
                assert seen is not None
                assert seen.pid == client.inspect_container(created)["State"]["Pid"] != inner
                assert (seen.uid, 100 in seen.groups, seen.nested) == (1234, True, True)
                assert seen.connected is (True if os.geteuid() == 0 else None)
                assert find_driver(claimed, 1235, inode) is None
                assert find_driver(structs.replace(claimed, start_ticks=claimed.start_ticks + 1), 1234, inode) is None
        finally:
            client.remove_container(created, force=True)
