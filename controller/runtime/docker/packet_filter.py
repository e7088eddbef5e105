"""Setting and removing of the packet rules of application networks with iptables, where this process may. The rules:
`controller.runtime.networks`.

Each program takes some 5 ms; a lock that another process holds is waited for a while. Only IPv4, because the networks have
nothing else.
"""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path

from controller.machine.admin_program import first_words, has_program, run_program_of_root
from controller.runtime.networks import Chain, both, restore_text
from stage_model.errors import RuntimeFailed

LOCK_S, TIMEOUT_S = "5", 15.0
"""Seconds that iptables waits for its own lock, and seconds that we wait for iptables."""
MOST_JUMPS = 16
"""Largest number of jumps to one chain: each agent that set the same rules at the same moment may have added one."""
INTERFACES = Path("/sys/class/net")
BEYOND = (
    "so only authentication keeps executors from what listens on this machine, such as other drivers; for packet rules an "
    "agent needs runtime docker, --network open or closed, root and iptables"
)


def why_not() -> str:
    """Return the reason why this process cannot set packet rules; empty where it can."""
    if not has_program("iptables"):
        return "there is no iptables here"
    try:
        done = _run(["iptables", "-w", LOCK_S, "-n", "-L", "INPUT", "1"])
    except RuntimeFailed as error:
        return str(error)
    return "" if done.returncode == 0 else f"iptables says {first_words(done)!r}"


def visible(interface: str) -> bool:
    """Return True if the host's side of a network is in this process's network namespace, so that rules here hold for it."""
    return (INTERFACES / interface).exists()


def ensure(chains: Sequence[Chain]) -> None:
    """Set exactly these rules, whatever was there; the chains are never without them. Raise `RuntimeFailed`."""
    _done(["iptables-restore", "--noflush", "--wait", LOCK_S], restore_text(chains))
    for chain in chains:
        if not any(_takes("-C", at, *chain.jump) or _takes("-I", at, *chain.jump) for at in chain.parents):
            raise RuntimeFailed(f"iptables refuses to send packets to the rules {chain.name}; try later")


def remove(name: str) -> None:
    """Remove the two chains of a network (`NetworkNames.chain`) and what leads there. Raise `RuntimeFailed`."""
    for chain in both(name):
        for parent in chain.parents:
            for _ in range(MOST_JUMPS):
                if not _takes("-D", parent, *chain.jump):
                    break
        if _takes("-F", chain.name):
            _done(["iptables", "-w", LOCK_S, "-X", chain.name])


def remove_all(prefix: str) -> None:
    """Remove all chains whose names begin with `prefix`, like `remove`."""
    made = (line.split() for line in _done(["iptables", "-w", LOCK_S, "-S"]).splitlines())
    names = [words[1] for words in made if words[0] == "-N" and words[1].startswith(prefix)]
    for name in sorted({name.rpartition("-")[0] for name in names}):
        remove(name)


def _takes(*words: str) -> bool:
    """Return True if iptables does what these words ask for, or finds it."""
    return _run(["iptables", "-w", LOCK_S, *words]).returncode == 0


def _done(words: Sequence[str], text: str = "") -> str:
    done = _run(words, text)
    if done.returncode != 0:
        raise RuntimeFailed(f"packet rules cannot be set now ({words[0]} says {first_words(done)!r}); try later")
    return done.stdout


def _run(words: Sequence[str], text: str = "") -> subprocess.CompletedProcess[str]:
    try:
        return run_program_of_root(words, TIMEOUT_S, text)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise RuntimeFailed(f"packet rules cannot be set now ({error}); try later") from error
