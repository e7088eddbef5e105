"""Units of systemd for the services of a home, as text. Pure.

A unit starts its service at each boot and after each end that was not asked for; `sparkpace down` asks for it. By
KillMode=process the end of an agent does not end its executors, which the next one adopts.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

MARK = "# Written by `sparkpace install-service` for the home "
_PLAIN = re.compile(r"[A-Za-z0-9_@+=:,./-]+")
WATCHDOG_S = 60
"""Silence after which a service is started again. The longest that a supervisor waits for anything is half of it."""
SYSTEM = """\
Wants=network-online.target
After=network-online.target time-sync.target docker.service{after}
"""
AGENT = """\
# Executors' control groups are made in the unit's own, whatever systemd does.
Delegate=yes
DelegateSubgroup=agent
# An executor that takes too much memory ends by itself.
OOMPolicy=continue
TasksMax=infinity
"""


@dataclass(frozen=True, slots=True)
class Service:
    """A service of a home: the master (no `worker_id`) or an agent. `command` starts it in the foreground; `environment` is
    what it needs of ours."""

    home: Path
    command: tuple[str, ...]
    environment: Mapping[str, str]
    worker_id: str = ""

    @property
    def unit(self) -> str:
        """Name of its unit's file."""
        return f"sparkpace-agent-{self.worker_id}.service" if self.worker_id else "sparkpace-master.service"

    @property
    def about(self) -> str:
        return f"agent of {self.worker_id}" if self.worker_id else "master"


def unit_text(service: Service, user: str | None) -> str:
    """Return the text of a unit that runs the service as that user; None: a unit of the user's own service manager."""
    after = " sparkpace-master.service" if service.worker_id else ""
    lines = [
        f"{MARK}{service.home}",
        "[Unit]",
        f"Description=Sparkpace {service.about}",
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
        *(AGENT.splitlines() if service.worker_id else []),
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
