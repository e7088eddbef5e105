"""`sparkpace install-service`: units of systemd for the services of a home.

A unit starts its service at each boot and after each end that no user asked for; `sparkpace down` is such a request. With
KillMode=process, the end of an agent does not end its executors, which the next agent adopts.
"""

from __future__ import annotations

import os
import pwd
import re
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import click

from controller.cli.common import home_option
from controller.cli.config import find_config
from controller.home import CONFIG_VARIABLE, Home
from controller.local.cluster import look
from controller.machine.files import write_whole
from controller.start import ours
from stage_model.errors import BadInput, Unavailable

PASSED = (
    *("PATH", "JAVA_HOME", "SPARK_HOME", "PYSPARK_PYTHON", "DOCKER_HOST", "XDG_CACHE_HOME", "LANG", "TZ"),
    "SPARKPACE_BASE_IMAGE",
)
"""Variables that a service gets with the values that they have in this process."""
SYSTEM_UNITS = Path("/etc/systemd/system")
MARK = "# Written by `sparkpace install-service` for the home "
_PLAIN = re.compile(r"[A-Za-z0-9_@+=:,./-]+")
WATCHDOG_S = 60
"""Silence after which a service is started again. A supervisor never waits for more than half of this time."""
SYSTEM = """\
Wants=network-online.target
After=network-online.target time-sync.target docker.service{after}
"""
AGENT = """\
# An executor that takes too much memory ends by itself.
OOMPolicy=continue
TasksMax=infinity
"""
DELEGATED = """\
# Executors' control groups are made in the unit's own, whatever systemd does.
Delegate=yes
DelegateSubgroup=agent
"""
NEXT_TO_UNIT = """\
# This systemd has no DelegateSubgroup=. Without it, a service cannot start again while executors run in groups of its unit.
# So executors' control groups are made next to the unit's own, if the agent may write there.
"""
SUBGROUPS_SINCE = 254
"""Version of systemd that starts a service in a group below its unit's own, which then may have other groups, too."""
ANSWER_S = 10


@dataclass(frozen=True, slots=True)
class Service:
    """A service of a home: the master (no `worker_id`) or an agent. `command` starts it in the foreground; `environment` has
    the variables of this process that it needs."""

    home: Path
    command: tuple[str, ...]
    environment: Mapping[str, str]
    worker_id: str = ""

    @property
    def unit(self) -> str:
        """Name of its unit's file."""
        return f"sparkpace-agent-{self.worker_id}.service" if self.worker_id else "sparkpace-master.service"


@click.command("install-service", epilog="Example: sparkpace install-service --print")
@home_option
@click.option(
    "--system/--user",
    "system",
    default=None,
    help="Units of the system, or of your own service manager [default: of the system for root].",
)
@click.option("--print", "show", is_flag=True, help="Print the units instead of writing them.")
@click.option("--uninstall", is_flag=True, help="Remove the units of this home instead.")
def install_service(home: Home, system: bool | None, show: bool, uninstall: bool) -> None:
    """Write systemd units for this home's services, so that they come back after a failure and a restart of the machine.

    The services are those of `sparkpace up` or `sparkpace join` on this home. Nothing is started or stopped: the commands for
    that are printed. After a change of options, run it again.
    """
    system = os.geteuid() == 0 if system is None else system
    folder = SYSTEM_UNITS if system else _user_units()
    manager = "systemctl" if system else "systemctl --user"
    if uninstall:
        _uninstall(home, folder, manager)
        return
    services, owner = services_of(home), pwd.getpwuid(home.path.stat().st_uid).pw_name
    subgroups = (systemd_version() or SUBGROUPS_SINCE) >= SUBGROUPS_SINCE
    texts = {service.unit: unit_text(service, owner if system else None, subgroups=subgroups) for service in services}
    if show:
        for name, text in texts.items():
            click.echo(f"# {folder / name}\n{text}")
        return
    _write(home, folder, texts)
    click.echo(f"Start them now and at each boot: {manager} daemon-reload && {manager} enable --now {' '.join(texts)}")
    if not system:
        click.echo(f"They start at boot, and not only when you log in, after: loginctl enable-linger {owner}")
    for name, holder in look(home, home.cluster()).holders():
        if holder.process is not None and not name.startswith("the agent's child of "):
            click.echo(
                f"{name[0].upper()}{name[1:]} runs as process {holder.process.pid} now. Its service starts once that has "
                f"ended (kill {holder.process.pid}): executors and jobs go on."
            )


def services_of(home: Home) -> list[Service]:
    """Return the services of a home. Raise `Unavailable` without any."""
    passed = {name: os.environ[name] for name in PASSED if name in os.environ}
    cluster = home.cluster()
    if cluster is not None:
        passed[CONFIG_VARIABLE] = ""  # the words hold all options
        words = {"": cluster.master_words, **{agent.worker_id: agent.words for agent in cluster.agents}}
    else:
        found = find_config(None, home, {})
        table = found[1].get("agent", {}) if found is not None else {}
        if "worker-id" not in table:
            raise Unavailable(
                f"home {home.path} has no cluster and has not joined one; run `sparkpace up` or `sparkpace join` first"
            )
        words = {str(table["worker-id"]): ("agent",)}
    return [
        Service(home.path, ours("controller.cli.main", *said, "--home", str(home.path)), passed, worker_id)
        for worker_id, said in words.items()
    ]


def systemd_version() -> int | None:
    """Return the version of this machine's systemd; None where it does not answer."""
    try:
        said = subprocess.run(("systemctl", "--version"), capture_output=True, text=True, timeout=ANSWER_S, check=True).stdout
    except (OSError, subprocess.SubprocessError):
        return None
    found = re.match(r"systemd (\d+)", said)
    return int(found[1]) if found else None


def _user_units() -> Path:
    return Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config") / "systemd" / "user"


def _write(home: Home, folder: Path, texts: dict[str, str]) -> None:
    """Write all units; where the unit of another home is in the way, write none. Raise `BadInput` and `Unavailable`."""
    for name in texts:
        if (folder / name).exists() and not is_of((folder / name).read_text(), home.path):
            raise BadInput(f"{folder / name} is not of home {home.path}; remove it, or name that --home")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in texts.items():
            write_whole(folder / name, text.encode())
            (folder / name).chmod(0o644)
            click.echo(f"Wrote {folder / name}.")
    except OSError as error:
        raise Unavailable(
            f"units cannot be written to {folder} ({error.strerror}); run as root, or give --user for units of your own"
        ) from error


def _uninstall(home: Home, folder: Path, manager: str) -> None:
    found = [file for file in sorted(folder.glob("sparkpace-*.service")) if is_of(file.read_text(), home.path)]
    if not found:
        click.echo(f"No units of {home.path} are in {folder}.")
        return
    names = " ".join(file.name for file in found)
    for file in found:
        file.unlink()
        click.echo(f"Removed {file}.")
    click.echo(f"So that they do not start again: {manager} disable {names}; {manager} daemon-reload")
    click.echo("Services that run go on; `sparkpace down` ends them.")


def unit_text(service: Service, user: str | None, *, subgroups: bool = True) -> str:
    """Return the text of a unit that runs the service as that user; None: a unit of the user's own service manager.
    `subgroups`: systemd knows DelegateSubgroup=."""
    about = f"agent of {service.worker_id}" if service.worker_id else "master"
    after = " sparkpace-master.service" if service.worker_id else ""
    lines = [
        f"{MARK}{service.home}",
        "[Unit]",
        f"Description=Sparkpace {about}",
        "StartLimitIntervalSec=0",
        f"RequiresMountsFor={quoted(str(service.home), of_command=False)}",
        *([] if user is None else SYSTEM.format(after=after).splitlines()),
        "",
        "[Service]",
        "Type=notify",
        *([] if user is None else [f"User={user}"]),
        f"ExecStart={' '.join(map(quoted, service.command))}",
        *(f"Environment={quoted(f'{name}={value}', of_command=False)}" for name, value in service.environment.items()),
        f"WatchdogSec={WATCHDOG_S}",
        "Restart=on-failure",
        "RestartSec=5",
        "TimeoutStopSec=60",
        "KillMode=process",
        "LimitNOFILE=524288",
        *(f"{AGENT}{DELEGATED if subgroups else NEXT_TO_UNIT}".splitlines() if service.worker_id else []),
        "",
        "[Install]",
        f"WantedBy={'default' if user is None else 'multi-user'}.target",
    ]
    return "\n".join(lines) + "\n"


def is_of(text: str, home: Path) -> bool:
    """Return True if the text is that of a unit of this home."""
    return text.partition("\n")[0] == f"{MARK}{home}"


def quoted(word: str, *, of_command: bool = True) -> str:
    """Return a word as systemd reads it from a unit (systemd.syntax(7)); in a command, a dollar sign begins a variable."""
    word = word.replace("%", "%%")
    if of_command:
        word = word.replace("$", "$$")
    if _PLAIN.fullmatch(word):
        return word
    escaped = "".join(_escaped(letter) for letter in word)
    return f'"{escaped}"'


def _escaped(letter: str) -> str:
    if letter in '"\\':
        return f"\\{letter}"
    return letter if letter.isprintable() else "".join(f"\\x{byte:02x}" for byte in letter.encode(errors="surrogateescape"))
