"""The home directory of one user's cluster: tokens, the running cluster's address, records.

    admin.token, submit.token   0600, made by the first `up`
    agent-tokens/W              0600, the token of worker W's agent, by which it speaks only for W; or only
                                its hash, where W has joined from another machine
    join-tokens/ID              0600, hash and limits of a join token (`controller.master.access.join_tokens`)
    metrics.token        0600, reads metrics and nothing else; there once `token --metrics` has made it
    notify.secret        0600, bearer token of notifications, if the operator has written one
    user-tokens/UID-GID         0600, a user's own token: with it a driver on another machine may be that user
    ca.key, ca.pem              0600, the cluster's CA, and its certificate, made by the first master; clients pin ca.pem
    master.pem                  0600, the master's key and certificate, made at each start
    sparkpace.toml              yours, if there: options of `up`, `master` and `agent` (`controller.cli.config`)
    cluster.json                0600, there from `up` to `down`, whatever dies in between
    cluster.id                  0600, the cluster's id and the master's generation; outlives master.db
    master.lock                 0600, held by the master; agents have theirs (`controller.locks`)
    master.db  runs/  profiles/  local/  logs/  agents/

Covers paths and safe reading; the master writes into `runs/` and `profiles/`.
"""

from __future__ import annotations

import hmac
import os
import re
import secrets
import stat
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from controller.machine.files import write_whole
from controller.machine.process import Process
from controller.machine.tls import address_of
from stage_model.decoding import UNREADABLE
from stage_model.errors import BadInput, Denied, PaceError, Unavailable

VARIABLE = "SPARKPACE_HOME"
MASTER_VARIABLE = "SPARKPACE_MASTER"
"""Variable with the URL of a master that was not started by `up` in this home, for instance on another machine."""
CONFIG_VARIABLE = "SPARKPACE_CONFIG"
"""Variable with a file of options of `up`, `master` and `agent`; empty: no file counts, not even the home's."""
WORKER_ID = re.compile(r"[a-z0-9][a-z0-9_.-]{0,62}")
"""Form of a worker's name, which is a file's, too."""
USER_TOKEN = re.compile(r"([0-9]{1,10})-([0-9]{1,10})")
LARGEST_TOKEN_BYTES = 1024
"""Most bytes of a token's file."""
HASHED = "sha256:"
"""Beginning of a file of `agent-tokens` that has only the token's hash: no token has a colon."""
SHORTEST_SECRET = 16
"""Least characters of a secret that the operator has chosen."""
DRIVERS = "drivers"
"""Name of the folder, in the agent's own, that has the records of the drivers that it hosts."""
ORDERS = "orders"
"""Name of the folder, in the agent's own, that has a folder per executor; an executor sees its own folder read-only."""


class AgentProcess(msgspec.Struct, frozen=True, kw_only=True):
    """An agent's process. `words` start it again: those of `sparkpace`, without --home."""

    worker_id: str
    process: Process
    words: tuple[str, ...] = ()


class User(NamedTuple):
    """A user that executors run as."""

    uid: int
    gid: int


class Cluster(msgspec.Struct, frozen=True, kw_only=True):
    """The content of cluster.json. `options` are those of `up` as given, defaults included; `started` is epoch seconds, for
    people only. `driver_host` is an address of this machine at which executors reach drivers (empty: loopback where the
    master listens there, else what Spark finds)."""

    cluster_id: str
    url: str
    host: str
    port: int
    runtime: str
    driver_host: str = ""
    network: str = "host"
    master: Process
    master_words: tuple[str, ...] = ()
    agents: tuple[AgentProcess, ...] = ()
    options: dict[str, Any] = {}
    started: float = 0.0

    @property
    def spark_master(self) -> str:
        return self.url.replace("https", "sparkpace", 1)


NO_PROCESS = Process(0, 0, "")


class Home:
    """One home directory; nothing is made before `create`. `local` has scratch directories of executors and of the driver's
    side. `master_url` is that of a master which was not started here, for a home without a cluster of its own."""

    def __init__(self, path: Path, master_url: str | None = None) -> None:
        self.path, self.master_url = path, master_url
        self.admin_token_file = path / "admin.token"
        self.submit_token_file = path / "submit.token"
        self.metrics_token_file = path / "metrics.token"
        self.notify_secret_file = path / "notify.secret"
        self.ca_key_file = path / "ca.key"
        self.ca_file = path / "ca.pem"
        self.master_certificate = path / "master.pem"
        self.agent_tokens = path / "agent-tokens"
        self.join_tokens = path / "join-tokens"
        self.user_tokens = path / "user-tokens"
        self.config_file = path / "sparkpace.toml"
        self.cluster_file = path / "cluster.json"
        self.identity_file = path / "cluster.id"
        self.master_lock = path / "master.lock"
        self.database = path / "master.db"
        self.runs = path / "runs"
        self.profiles = path / "profiles"
        self.local = path / "local"
        self.logs = path / "logs"

    def agent(self, worker_id: str) -> Path:
        return self.path / "agents" / worker_id

    def agent_lock(self, worker_id: str) -> Path:
        """Return the lock file that the supervisor holds."""
        return self.agent(worker_id) / "agent.lock"

    def child_lock(self, worker_id: str) -> Path:
        """Return the lock file that the supervisor's child holds; it is there, held or not, until nothing is left of the
        worker's executors."""
        return self.agent(worker_id) / "child.lock"

    def workers(self) -> tuple[str, ...]:
        """Return the ids of all workers that ever had an agent here."""
        return tuple(sorted(path.name for path in (self.path / "agents").glob("*/")))

    def create(self) -> None:
        """Make the directory (0700), its folders and, once, the tokens. Raise `BadInput` if others may change it."""
        self.create_folders()
        for token in (self.admin_token_file, self.submit_token_file):
            make_token(token)

    def create_folders(self) -> None:
        """Make the directory (0700) and its folders; the home of a worker elsewhere has no tokens but its own. Raise
        `BadInput` if others may change it."""
        try:
            self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise BadInput(f"home {self.path} cannot be made ({error.strerror}); name another with --home") from error
        found = self.path.stat()
        if found.st_uid != os.geteuid():
            raise BadInput(f"home {self.path} belongs to another user; name one of your own with --home")
        if found.st_mode & 0o022:
            raise BadInput(
                f"home {self.path} has mode {stat.S_IMODE(found.st_mode):04o}, so others may change what is in it; "
                f"run chmod 700 on it once nothing in it is another's, or name another with --home"
            )
        for folder in (self.runs, self.profiles, self.local, self.logs):
            folder.mkdir(mode=0o700, exist_ok=True)

    def admin_token(self) -> str:
        return read_token(self.admin_token_file)

    def submit_token(self) -> str:
        return read_token(self.submit_token_file)

    def agent_token(self, worker_id: str) -> str:
        """Return the token of that worker's agent. Raise as `read_token` does."""
        return read_token(self.agent_tokens / worker_id, f"sparkpace token {worker_id}")

    def make_agent_token(self, worker_id: str) -> Path:
        """Return the file with the token of that worker's agent, which is made if it is missing. Raise `OSError`."""
        return make_token(self.agent_tokens / worker_id)

    def write_agent_token(self, worker_id: str, content: str) -> Path:
        """Write the token of that worker's agent, or its hash; return its file. Raise `OSError`."""
        self.agent_tokens.mkdir(mode=0o700, exist_ok=True)
        write_whole(self.agent_tokens / worker_id, f"{content}\n".encode())
        return self.agent_tokens / worker_id

    def user_token_file(self, user: User) -> Path:
        return self.user_tokens / f"{user.uid}-{user.gid}"

    def find_metrics_token(self) -> str | None:
        """Return the token that reads metrics; None without one, or where its file cannot be used. As long as the file is
        there, the token is good."""
        try:
            return read_token(self.metrics_token_file, "sparkpace token --metrics")
        except PaceError:
            return None

    def notify_secret(self) -> str | None:
        """Return the bearer token of notifications; None without its file. Raise as `read_token` does, and `Denied` for a
        short one."""
        if not self.notify_secret_file.exists():
            return None
        secret = read_token(self.notify_secret_file, "sparkpace up --notify URL")
        if len(secret) < SHORTEST_SECRET:
            raise Denied(
                f"the secret in {self.notify_secret_file} has {len(secret)} character(s), so it can be guessed; write "
                f"{SHORTEST_SECRET} or more, or remove the file"
            )
        return secret

    def check_tokens(self) -> None:
        """Raise `Unavailable` where others may change the directory; raise as `read_token` does for a token or secret of the
        master's and its agents' that is there and cannot be used."""
        mode = stat.S_IMODE(self.path.stat().st_mode)
        if mode & 0o022:
            raise Unavailable(f"{self.path} has mode {mode:04o}, so others may change it; run chmod 700 on it")
        own = (self.admin_token_file, self.submit_token_file, self.metrics_token_file)
        for file in (*own, *self.agent_tokens.glob("*")):
            if file.exists():
                read_token(file)
        self.notify_secret()

    def find_user(self, token: str) -> User | None:
        """Return the user with that token; None if no user has it. As long as its file is there, the token is good."""
        found = None
        for file in sorted(self.user_tokens.glob("*")) if self.user_tokens.is_dir() else ():
            named = USER_TOKEN.fullmatch(file.name)
            with suppress(PaceError):
                # all tokens are compared, so the time taken reveals nothing
                if named and hmac.compare_digest(read_token(file).encode(), token.encode()):
                    found = User(*map(int, named.groups()))
        return found

    def find_agent_token(self, worker_id: str) -> str | None:
        """Return the content of the file of that worker's agent, its token or the hash of it; None without a file that can be
        used. `worker_id` may be any text, because callers send it."""
        try:
            return self.agent_token(worker_id) if WORKER_ID.fullmatch(worker_id) else None
        except PaceError:
            return None

    def cluster(self) -> Cluster | None:
        """Return the cluster that was started here; None without one. It may have died: ask
        `controller.local.cluster.look`."""
        try:
            text = self.cluster_file.read_bytes()
        except FileNotFoundError:
            return None
        try:
            return msgspec.json.decode(text, type=Cluster)
        except UNREADABLE as error:
            raise BadInput(
                f"{self.cluster_file} is damaged ({error}); remove it after ending the cluster's processes"
            ) from error

    def need_cluster(self) -> Cluster:
        """Return the cluster here, or the known facts of a master elsewhere. Raise `Unavailable` without either, `BadInput`
        for a URL that is not valid."""
        cluster = self.cluster()
        if cluster is not None:
            return cluster
        if self.master_url is None:
            raise Unavailable(
                f"no local cluster in {self.path}; start one with `sparkpace up`, or set {MASTER_VARIABLE} to the URL of "
                "one elsewhere"
            )
        host, port = address_of(self.master_url)
        return Cluster(cluster_id="", url=self.master_url, host=host, port=port, runtime="", master=NO_PROCESS)

    def write_cluster(self, cluster: Cluster) -> None:
        write_whole(self.cluster_file, msgspec.json.format(msgspec.json.encode(cluster)) + b"\n")

    def forget_cluster(self) -> None:
        self.cluster_file.unlink(missing_ok=True)


def find_home(option: Path | None, environment: Mapping[str, str]) -> Home:
    """Return the home of `--home`, else SPARKPACE_HOME, else ~/.sparkpace; always absolute. Its master elsewhere is that of
    SPARKPACE_MASTER."""
    chosen = option or Path(environment.get(VARIABLE) or Path.home() / ".sparkpace")
    return Home(chosen.expanduser().absolute(), environment.get(MASTER_VARIABLE) or None)


def make_token(path: Path) -> Path:
    """Return the file of a token, which is made if it is missing. Raise `OSError`."""
    path.parent.mkdir(mode=0o700, exist_ok=True)
    if not path.exists():
        write_whole(path, f"{secrets.token_urlsafe(32)}\n".encode())
    return path


def read_token(path: Path, maker: str = "sparkpace up") -> str:
    """Return the token in `path`, which `maker` makes; white space around it does not count. Raise `Denied` for a file that
    others may read, that belongs to another user, is no plain file, is empty, or has no token in it; `Unavailable` when it is
    missing."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        raise Unavailable(f"there is no token file {path}; `{maker}` makes it") from None
    except OSError as error:
        raise Denied(f"token file {path} cannot be opened ({error.strerror}); it must be your own file") from error
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode) or status.st_uid != os.geteuid():
            raise Denied(f"token file {path} is not a plain file that belongs to you; replace it by one")
        if status.st_mode & 0o077:
            raise Denied(
                f"token file {path} has mode {stat.S_IMODE(status.st_mode):04o}, so others may use it; run chmod 600 on it"
            )
        if status.st_size > LARGEST_TOKEN_BYTES:
            raise Denied(
                f"token file {path} has {status.st_size} bytes, more than {LARGEST_TOKEN_BYTES}; write a token into it"
            )
        token = os.read(descriptor, LARGEST_TOKEN_BYTES).decode("ascii", errors="replace").strip()
    finally:
        os.close(descriptor)
    if not token:
        raise Denied(f"token file {path} is empty; remove it and run `{maker}`, which makes a new one")
    if not (token.isascii() and token.isprintable()):
        raise Denied(f"token file {path} has characters that are not printable ASCII; write one line of ASCII into it")
    return token
