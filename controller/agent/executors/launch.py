"""The step from the master's `ExecutorSpec` to a `Launch` on this worker: fills placeholders, checks mounts.

A token holder can register any path, so the agent decides. Each path is opened once, with the submitter's rights on files,
and held: all checks look at the held file, and the bind shows it. Paths that the user asked for must lie in allowed roots;
Spark and a Python environment are always read-only, and so is the bridge jar, of which the agent's own copy is shown. Secrets
in any of these are masked (`controller.agent.executors.masks`).
"""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from ipaddress import IPv4Address
from pathlib import Path

import msgspec

from controller.agent.executors.masks import ShowReason, Wanted, masked
from controller.agent.executors.opened_paths import groups_of_user, open_as, own_copy
from controller.agent.executors.secret_places import find_secrets
from controller.agent.site import Site
from controller.machine.addresses import is_local
from controller.runtime.base import OWN_ADDRESS, Bind, ExecutorKey, Launch, OwnNetwork
from controller.runtime.held import HeldPath
from controller.runtime.shown_paths import SYSTEM_ROOTS, WHOLE, no_mount_name
from controller.wire.driver import PythonEnvironment
from controller.wire.worker import ExecutorSpec, Mount
from stage_model.errors import RuntimeFailed, RuntimeRefused

log = logging.getLogger("sparkpace.agent")

RESOURCES_FILE = "resources.json"
"""Name of the file with the executor's pieces of resources, for Spark, among the executor's orders."""
CREDENTIALS_FILE = "credentials"
"""Name of the file, also there, with which the executor proves itself to its driver; only its user may read it."""


def make_launch(spec: ExecutorSpec, site: Site, java: str, cores: float, memory_mb: int) -> Launch:
    """Make the executor's launch. `memory_mb` is the container's limit. Raise `RuntimeRefused` for a path that is not allowed
    or not what it claims to be."""
    _check_words(spec)
    key = ExecutorKey(spec.application_id, spec.executor_id)
    names = {
        "{local}": str(site.local_dir(key)),
        "{logs}": str(site.log_dir(key)),
        "{control}": str(site.control_dir(key)),
        "{orders}": str(site.orders_dir(key)),
        "{host}": OWN_ADDRESS if site.own_networks else site.host,
        "{credentials}": str(site.orders_dir(key) / CREDENTIALS_FILE),
        "{resources}": str(site.orders_dir(key) / RESOURCES_FILE),
    }

    def fill(text: str) -> str:
        for name, value in names.items():
            text = text.replace(name, value)
        return text

    own = [(site.local_dir(key), True), (site.log_dir(key), True)]
    if _has_orders(spec):
        own.append((site.orders_dir(key), False))
    # each path once: a path that is named twice means the same both times
    opened = cache(partial(open_as, spec))
    wanted = [Wanted(path, path.resolve(), ShowReason.OWN, writable) for path, writable in own]
    shown = [mount for mount in spec.mounts if site.mounts or _reason(mount, spec) is ShowReason.NEEDED]
    wanted += [_mount_wanted(mount, spec, site, opened) for mount in shown]
    binds = _masked([*wanted, *_python_wanted(spec, opened)], spec, site)
    environment = {name: fill(value) for name, value in spec.environment.items()}
    return Launch(
        key=key,
        argv=[java, *map(fill, spec.java_args)],
        environment=environment,
        binds=binds,
        working_dir=site.executor_dir(key),
        log_dir=site.log_dir(key),
        memory_bytes=memory_mb << 20,
        cores=cores,
        uid=spec.uid,
        gid=spec.gid,
        groups=groups_of_user(spec.uid, spec.gid),
        umask=spec.umask,
        image=spec.image,
        network=_network(spec, site),
    )


def _network(spec: ExecutorSpec, site: Site) -> OwnNetwork | None:
    """Return the executor's own network, None for the host's. Raise `RuntimeRefused` when executors in one could not reach
    this driver, or cannot have one."""
    if not site.own_networks:
        if spec.closed:
            raise RuntimeRefused(
                f"{spec.application_id} asks for a closed network, but executors here have the host's; submit without "
                "--network closed, or start the cluster with runtime docker and --network open"
            )
        return None
    if spec.driver is not None and not spec.driver.is_this_boot():
        raise RuntimeRefused(
            f"the driver of {spec.application_id} runs on another machine, which does not reach their network here; "
            "start the agent with --network host"
        )
    remedy = "run `sparkpace conf -o FILE` and pass --properties-file FILE, or start the cluster with --network host"
    named = f"spark.driver.host {spec.driver_host!r:.80}"
    try:
        address = IPv4Address(spec.driver_address or "")
    except ValueError:
        raise RuntimeRefused(f"{named} means no IPv4 address to the driver; {remedy}") from None
    if address.is_loopback or not is_local(str(address)):
        what = "the loopback address" if address.is_loopback else "no address of this machine"
        raise RuntimeRefused(f"{named} is {address}, {what}: executors in a network of their own do not reach it; {remedy}")
    return OwnNetwork(str(address), spec.driver_ports, closed=site.closed or spec.closed)


def _check_words(spec: ExecutorSpec) -> None:
    """Raise `RuntimeRefused` for values that no kernel takes: they would fail at each try, deep inside a runtime."""
    for name, value in spec.environment.items():
        if not name or "=" in name or "\0" in name + value:
            raise RuntimeRefused(
                f"environment variable {name[:80]!r} cannot be set; use names without '=' and no NUL character"
            )
    if any("\0" in word for word in spec.java_args):
        raise RuntimeRefused("an option of the executor's JVM holds a NUL character; remove it")
    for what, number in (("uid", spec.uid), ("gid", spec.gid)):
        if not 0 <= number < 1 << 31:
            raise RuntimeRefused(f"{what} {number} is out of range (0 to {(1 << 31) - 1})")


def make_directories(spec: ExecutorSpec, site: Site, credentials: bytes | None = None) -> None:
    """Make the executor's directories, owned by the submitter and closed to others. Raise `OSError`, and `RuntimeFailed`
    where the `credentials` that it needs are not known yet."""
    if spec.authenticated and credentials is None:
        raise RuntimeFailed("its driver has not given this master its executors' credentials yet")
    key = ExecutorKey(spec.application_id, spec.executor_id)
    _make_beneath(site.local_root, site.control_dir(key), spec, owned_from=1)
    _make_beneath(site.run_root, site.log_dir(key), spec, owned_from=3)
    if _has_orders(spec):
        orders = make_orders_dir(site, key)
        if spec.resources:
            (orders / RESOURCES_FILE).write_bytes(resource_file(spec.resources))
            (orders / RESOURCES_FILE).chmod(0o644)
        if credentials is not None:
            _write_credentials(orders / CREDENTIALS_FILE, credentials, spec)


def resource_file(resources: Mapping[str, Sequence[str]]) -> bytes:
    """Write an executor's resources and their addresses in Spark's own form (ResourceUtils.parseAllocatedFromJsonFile)."""
    return msgspec.json.encode(
        [
            {"id": {"componentName": "spark.executor", "resourceName": name}, "addresses": addresses}
            for name, addresses in sorted(resources.items())
        ]
    )


def _write_credentials(path: Path, credentials: bytes, spec: ExecutorSpec) -> None:
    """Write the file so that only the submitter can ever read it; the agent owns the folder. Raise `OSError`."""
    path.unlink(missing_ok=True)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o400)
    with os.fdopen(descriptor, "wb") as file:
        file.write(credentials)
        if os.geteuid() == 0:
            os.fchown(descriptor, spec.uid, spec.gid)


def _has_orders(spec: ExecutorSpec) -> bool:
    return spec.off_heap_floor_mb is not None or bool(spec.resources) or spec.authenticated


def make_orders_dir(site: Site, key: ExecutorKey) -> Path:
    """Make the directory of the executor's orders: the agent's own, and readable for the executor's user. Raise `OSError`."""
    directory = site.orders_dir(key)
    directory.mkdir(parents=True, exist_ok=True)
    directory.chmod(0o755)
    return directory


def _make_beneath(root: Path, directory: Path, spec: ExecutorSpec, *, owned_from: int) -> None:
    """Make `directory`, level by level; from level `owned_from` below `root` on they become the submitter's.

    An application may write between the levels, so each is opened without following links before an agent that is root gives
    it away: a link put there would hand over its target.
    """
    root.mkdir(parents=True, exist_ok=True, mode=0o700)
    here = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for level, name in enumerate(directory.relative_to(root).parts, 1):
            with contextlib.suppress(FileExistsError):
                os.mkdir(name, 0o700, dir_fd=here)
            below = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=here)
            os.close(here)
            here = below
            if os.geteuid() == 0 and level >= owned_from:
                os.fchown(here, spec.uid, spec.gid)
    finally:
        os.close(here)


def _mount_wanted(mount: Mount, spec: ExecutorSpec, site: Site, opened: Callable[[str], HeldPath]) -> Wanted:
    held = _checked(mount, site, opened)
    shown = own_copy(held, spec.uid, spec.gid, site.bridge_root) if mount.bridge else held
    return Wanted(Path(mount.path), held.real, _reason(mount, spec), mount.writable, shown, shown.is_firm(spec.uid))


def _checked(mount: Mount, site: Site, opened: Callable[[str], HeldPath]) -> HeldPath:
    path = Path(mount.path)
    if wrong := no_mount_name(mount.path):
        raise RuntimeRefused(f"mount {mount.path!r} {wrong}")
    held = opened(mount.path)
    if mount.asked:
        if not any(held.real.is_relative_to(root.resolve()) for root in site.allowed_mounts):
            roots = ", ".join(map(str, site.allowed_mounts)) or "none"
            raise RuntimeRefused(f"mount {mount.path!r} is outside the roots this agent allows ({roots}; --allow-mount)")
    elif mount.writable:
        raise RuntimeRefused(f"mount {mount.path!r} is not allowed: only paths asked for with --mount may be writable")
    elif {str(path), str(held.real)} & {*SYSTEM_ROOTS}:
        raise RuntimeRefused(f"mount {mount.path!r} {WHOLE}")
    return held


def _reason(mount: Mount, spec: ExecutorSpec) -> ShowReason:
    if mount.asked:
        return ShowReason.ASKED
    return ShowReason.OPTIONAL if mount.path == spec.working_dir else ShowReason.NEEDED


def _masked(wanted: list[Wanted], spec: ExecutorSpec, site: Site) -> list[Bind]:
    binds = masked(wanted, find_secrets(spec.uid, [shown.real for shown in wanted], site.home))
    for path in {shown.path for shown in wanted} - {bind.path for bind in binds}:
        log.warning("executors of %s do not see %s: it lies where secrets do", spec.application_id, path)
    return binds


def _python_wanted(spec: ExecutorSpec, opened: Callable[[str], HeldPath]) -> list[Wanted]:
    wanted = []
    for path in python_roots(spec.python) if spec.python else ():
        held = opened(str(path))
        wanted.append(Wanted(path, held.real, ShowReason.NEEDED, held=held, firm=held.is_firm(spec.uid)))
    return wanted


def python_binds(spec: ExecutorSpec, site: Site) -> list[Bind]:
    """Return the binds of a program that runs the Python of `spec`. Raise `RuntimeRefused`."""
    return _masked(_python_wanted(spec, partial(open_as, spec)), spec, site)


def python_roots(python: PythonEnvironment) -> list[Path]:
    """Return the directories of the driver's Python environment to show inside; none for a system Python: the image has it.

    Raise `RuntimeRefused` when they are not a Python environment."""
    roots = []
    for prefix in dict.fromkeys((python.prefix, python.base_prefix)):
        path = Path(prefix)
        if str(path) in ("/usr", "/usr/local", "/"):
            continue
        if not path.is_absolute() or ".." in path.parts or not any((path / "bin").glob("python3*")):
            raise RuntimeRefused(f"Python environment {prefix!r} has no bin/python3; name the prefix of a Python")
        roots.append(path)
    return roots
