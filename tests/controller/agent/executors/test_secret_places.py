"""Places of secrets on a machine: real directories, links, homes of others."""

from __future__ import annotations

import hashlib
import json
import os
import pwd
from pathlib import Path

import pytest

from controller.agent.executors import secret_places as places
from controller.agent.executors.masks import Place, Secret
from controller.agent.executors.secret_places import CREDENTIAL_PLACES, find_secrets, homes_near, secret_places


@pytest.fixture
def me(tmp_path: Path) -> Path:
    home = tmp_path / "home/me"
    for folder in (".ssh", ".aws", ".config/gcloud", ".sparkpace/local"):
        (home / folder).mkdir(parents=True)
    (home / ".netrc").write_text("secret")
    return home


def found(*homes: Path, own: bool = True) -> dict[str, tuple[Place, ...]]:
    return {secret.name.name: secret.places for secret in secret_places(dict.fromkeys(homes, own), (), ())}


def test_only_what_exists_is_a_secret_and_the_home_of_sparkpace_is_closed(me: Path) -> None:
    assert secret_places({me: True}, (), ()) == [
        Secret(me / ".sparkpace", (Place(me / ".sparkpace"),), "a home of Sparkpace"),
        Secret(me / ".ssh", (Place(me / ".ssh"),)),
        Secret(me / ".netrc", (Place(me / ".netrc", folder=False),)),
        Secret(me / ".aws", (Place(me / ".aws"),)),
        Secret(me / ".config/gcloud", (Place(me / ".config/gcloud"),)),
    ]


def test_the_usual_credentials_are_among_them() -> None:
    usual = {".aws", ".azure", ".config/gcloud", ".docker", ".git-credentials", ".gnupg", ".kube", ".netrc", ".pgpass"}
    assert usual | {".ssh"} <= {*CREDENTIAL_PLACES}


def test_a_linked_secret_lies_where_the_link_leads(me: Path, tmp_path: Path) -> None:
    (tmp_path / "data/creds").mkdir(parents=True)
    (me / ".aws").rmdir()
    (me / ".aws").symlink_to("../../data/creds")
    assert found(me)[".aws"] == (Place(tmp_path / "data/creds"),)


def test_what_links_in_a_secret_lead_to_is_secret_too(me: Path, tmp_path: Path) -> None:
    (me / "dotfiles").mkdir()
    (me / "dotfiles/id_rsa").write_text("key")
    (me / ".ssh/id_rsa").symlink_to(me / "dotfiles/id_rsa")
    (tmp_path / "scratch").mkdir()
    (me / ".sparkpace/local").rmdir()
    (me / ".sparkpace/local").symlink_to(tmp_path / "scratch")
    assert found(me)[".ssh"] == (Place(me / ".ssh"), Place(me / "dotfiles/id_rsa", folder=False))
    assert found(me)[".sparkpace"] == (Place(me / ".sparkpace"), Place(tmp_path / "scratch"))


def test_links_that_lead_nowhere_or_around_themselves_hide_nothing(me: Path) -> None:
    (me / ".ssh/up").symlink_to(me)
    (me / ".ssh/round").symlink_to(me / ".ssh/round")
    (me / ".ssh/none").symlink_to(me / "none")
    (me / ".kube").symlink_to(me / "none")
    (me / ".docker").symlink_to(me / ".docker")
    assert found(me)[".ssh"] == (Place(me / ".ssh"),)
    assert not {".kube", ".docker"} & found(me).keys()


def test_what_the_links_of_others_lead_to_outside_of_their_home_is_not_theirs_to_hide(me: Path, tmp_path: Path) -> None:
    (tmp_path / "spark").mkdir()
    (me / ".kube").symlink_to(tmp_path / "spark")
    (me / ".ssh/link").symlink_to(tmp_path / "spark")
    assert found(me)[".kube"] == (Place(tmp_path / "spark"),)
    assert ".kube" not in found(me, own=False)
    assert found(me, own=False)[".ssh"] == (Place(me / ".ssh"),)


def test_the_engines_socket_is_closed(tmp_path: Path) -> None:
    (tmp_path / "docker.sock").touch()
    (tmp_path / "link.sock").symlink_to("docker.sock")
    (secret,) = secret_places({}, (), [tmp_path / "link.sock", tmp_path / "none.sock"])
    assert secret == Secret(tmp_path / "link.sock", (Place(tmp_path / "docker.sock", False),), "the container engine's")


@pytest.mark.skipif(os.geteuid() == 0, reason="root looks into everything")
def test_what_the_agent_cannot_look_into_is_hidden_whole(me: Path) -> None:
    me.chmod(0)
    try:
        assert found(me)[".ssh"] == (Place(me),)
    finally:
        me.chmod(0o700)


def test_homes_are_looked_at_where_they_are_shown_or_lie_around_it(tmp_path: Path) -> None:
    mine, other, far = tmp_path / "home/me", tmp_path / "home/other", tmp_path / "far"
    homes = [mine, other, far]
    assert homes_near([tmp_path / "home"], homes) == [mine, other]
    assert homes_near([mine / "project"], homes) == [mine]
    assert homes_near([tmp_path / "data"], homes) == []


def test_every_directory_among_common_homes_is_a_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(places, "COMMON_HOMES", tmp_path / "home")
    for name in ("a", "b"):
        (tmp_path / "home" / name).mkdir(parents=True)
    assert homes_near([tmp_path], []) == [tmp_path / "home/a", tmp_path / "home/b"]
    assert homes_near([tmp_path / "home/a/project"], []) == [tmp_path / "home/a"]


def test_of_this_machine_the_agents_home_its_users_and_the_engine_it_talks_to_are_known(me: Path, tmp_path: Path) -> None:
    for name in ("ours", "theirs"):
        (tmp_path / name).mkdir()
    (tmp_path / "engine.sock").touch()
    said = {"SPARKPACE_HOME": str(tmp_path / "theirs"), "DOCKER_HOST": f"unix://{tmp_path}/engine.sock", "HOME": str(me)}
    got = {secret.name: secret.closed for secret in find_secrets(os.getuid(), [tmp_path], tmp_path / "ours", said)}
    assert got[tmp_path / "ours"] == got[tmp_path / "theirs"] == got[me / ".sparkpace"] == "a home of Sparkpace"
    assert got[tmp_path / "engine.sock"] == "the container engine's"
    assert got[me / ".aws"] == ""


def test_the_socket_of_a_docker_context_is_the_engines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "engine.sock").touch()
    meta = tmp_path / "docker/contexts/meta" / hashlib.sha256(b"mine").hexdigest()
    meta.mkdir(parents=True)
    endpoint = {"docker": {"Host": f"unix://{tmp_path}/engine.sock", "SkipTLSVerify": False}}
    (meta / "meta.json").write_text(json.dumps({"Name": "mine", "Metadata": {}, "Endpoints": endpoint}))
    (tmp_path / "docker/config.json").write_text('{"currentContext": "mine"}')
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path / "docker"))
    found = find_secrets(os.getuid(), [], tmp_path / "none", {"DOCKER_CONFIG": str(tmp_path / "docker")})
    assert {secret.name: secret.closed for secret in found}[tmp_path / "engine.sock"] == "the container engine's"


def test_the_submitters_home_is_that_of_the_user_database(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "someone/.ssh").mkdir(parents=True)
    entry = pwd.struct_passwd(("someone", "x", 12345, 12345, "", str(tmp_path / "someone"), "/bin/sh"))
    monkeypatch.setattr(pwd, "getpwuid", lambda uid: {12345: entry}[uid])
    names = {secret.name for secret in find_secrets(12345, [], tmp_path / "none", {})}
    assert tmp_path / "someone/.ssh" in names
    assert tmp_path / "someone/.ssh" not in {secret.name for secret in find_secrets(54321, [], tmp_path / "none", {})}
