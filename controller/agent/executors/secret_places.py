"""Secrets that no executor is shown unasked, and their places on this machine: asks the file system and the user database.

Covers the homes of Sparkpace, the container engine's sockets, and the credentials of the submitter, of the agent's user and
of every user whose home is shown. Not covered: secrets in other places or of other names.
"""

from __future__ import annotations

import os
import pwd
import stat
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from controller.agent.executors.masks import Place, Secret
from controller.home import VARIABLE
from stage_model.errors import Unavailable

SPARKPACE_HOME = ".sparkpace"
CREDENTIAL_PLACES = (
    *(".ssh", ".gnupg", ".password-store", ".local/share/keyrings", ".netrc", ".vault-token"),
    *(".aws", ".azure", ".config/gcloud", ".boto", ".s3cfg", ".oci", ".config/rclone"),
    *(".kube", ".docker", ".config/containers", ".terraform.d/credentials.tfrc.json"),
    *(".git-credentials", ".config/git/credentials", ".config/gh"),
    *(".pgpass", ".my.cnf", ".snowsql", ".snowflake", ".databrickscfg"),
    *(".npmrc", ".pypirc", ".m2/settings.xml", ".cargo/credentials.toml", ".cache/huggingface/token"),
)
"""Places of credentials below a home directory (docs/reference/executors.md names them)."""
ENGINE = ("/run/docker.sock", "/run/docker", "/run/containerd", "/run/podman", "/run/crio", "/run/user")
"""Places of container engines; the last has engines and key agents of single users."""
COMMON_HOMES = Path("/home")
"""Folder of which every directory is taken for a home: an agent in a container does not know the host's users."""


def find_secrets(uid: int, shown: Sequence[Path], home: Path, environment: Mapping[str, str] = os.environ) -> list[Secret]:
    """Return the secrets that an executor of `uid` with the real paths `shown` must not see; `home` is this agent's."""
    entries = pwd.getpwall()
    with suppress(KeyError):  # a directory service may answer for a uid without listing it
        entries.append(pwd.getpwuid(uid))
    users = [(entry.pw_uid, Path(entry.pw_dir)) for entry in entries if entry.pw_dir.startswith("/")]
    own = [path for user, path in users if user in (uid, os.geteuid())]
    if environment.get("HOME"):
        own.append(Path(environment["HOME"]))
    homes = {path: path in own for path in (*own, *homes_near(shown, [path for _, path in users]))}
    sparkpace = [home]
    if environment.get(VARIABLE):
        sparkpace.append(Path(environment[VARIABLE]).absolute())
    return secret_places(homes, sparkpace, [*map(Path, ENGINE), *_chosen_engine(environment)])


def _chosen_engine(environment: Mapping[str, str]) -> list[Path]:
    """Return the socket of the engine that a variable or a Docker context names."""
    configuration = Path(environment.get("DOCKER_CONFIG") or Path.home() / ".docker", "config.json")
    if not (environment.get("DOCKER_HOST") or environment.get("DOCKER_CONTEXT") or configuration.exists()):
        return []
    # imported here, because agents of other runtimes need no engine's library
    from controller.runtime.docker.client import engine_place

    with suppress(Unavailable):  # no such context: this agent uses no engine
        kind, _, path = engine_place(environment).url.partition("://")
        if kind in ("unix", "http+unix"):
            return [Path("/" + path.lstrip("/"))]
    return []


def homes_near(shown: Sequence[Path], homes: Sequence[Path]) -> list[Path]:
    """Return those of `homes`, and of the common ones, that hold or lie in one of the real paths `shown`."""
    if any(COMMON_HOMES.is_relative_to(path) for path in shown):
        common = _listed(COMMON_HOMES)
    else:
        common = [COMMON_HOMES / path.parts[len(COMMON_HOMES.parts)] for path in shown if COMMON_HOMES in path.parents]
    really = {home: Path(os.path.realpath(home)) for home in (*homes, *common)}
    return [home for home, real in really.items() if any(real.is_relative_to(p) or p.is_relative_to(real) for p in shown)]


def secret_places(homes: Mapping[Path, bool], sparkpace: Iterable[Path], engine: Iterable[Path]) -> list[Secret]:
    """Return the secrets that exist: credentials below `homes`, the homes of Sparkpace, the places of the engine.

    A home is False if it is of others: targets of their links outside of it are not theirs to hide from this executor."""
    named: list[tuple[Path, str, Path | None]] = [
        *((path, "a home of Sparkpace", None) for path in dict.fromkeys(sparkpace)),
        *((path, "the container engine's", None) for path in engine),
    ]
    for home, own in homes.items():
        within = None if own else Path(os.path.realpath(home))
        named.append((home / SPARKPACE_HOME, "a home of Sparkpace", within))
        named += [(home / name, "", within) for name in CREDENTIAL_PLACES]
    secrets = []
    for path, closed, within in named:
        places = tuple(place for place in _places(path) if within is None or place.path.is_relative_to(within))
        if places:
            secrets.append(Secret(path, places, closed))
    return secrets


def _places(path: Path) -> Iterator[Place]:
    """Yield the real place of `path`, then the targets of the links in that folder; nothing if it does not exist."""
    try:
        path.lstat()  # most places have nothing, which shows at once
    except PermissionError:
        pass
    except OSError:
        return
    real = Path(os.path.realpath(path))
    first = _place(real)
    if first is None:
        return
    yield first
    if first == Place(real, folder=True):
        for entry in _listed(real):
            target = Path(os.path.realpath(entry))
            # a link to a folder around it would hide that folder whole
            if target != entry and not real.is_relative_to(target) and (place := _place(target)):
                yield place


def _place(real: Path) -> Place | None:
    """Return the place of `real`, None if it does not exist. A folder that this agent cannot look into it cannot mask in
    part: the place is then the whole folder."""
    for candidate in (real, *real.parents):
        try:
            return Place(candidate, stat.S_ISDIR(candidate.stat().st_mode))
        except PermissionError:
            continue
        except OSError:
            return None
    return None


def _listed(folder: Path) -> list[Path]:
    """Return the paths in `folder`; nothing if it cannot be read."""
    try:
        return sorted(folder.iterdir())
    except OSError:
        return []
