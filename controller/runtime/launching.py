"""Parts that the docker and process runtimes share when they start an executor: the log script, the log directory, names."""

from __future__ import annotations

import hashlib
import os
import re

from controller.runtime.base import OWN_ADDRESS, ExecutorKey, Launch, Program
from stage_model.errors import BadInput, RuntimeFailed, RuntimeRefused

LOG_FILE_BYTES = 10 << 20
"""Size of a file of stdout and of stderr: earlier output is kept in one more such file, `.1`, and older output is gone."""
DRAIN_S = 2
"""Time for the output of processes that a program leaves behind: they may keep the output open; the program's last words are
there long before."""
LOG_SCRIPT = f"""\
ulimit -c 0
drain() {{
    (exec cat >/dev/null) & _drain=$!
    sleep 1
    kill -9 $_drain
    wait $_drain
}}
keep() {{
    exec 5>&- 6>&- 7>&- 8>&-
    trap '' TERM
    while :; do
        (ulimit -f {LOG_FILE_BYTES // 512}; exec cat >>"$0/$1")
        case $? in
            0) exit ;;
            1??) mv -f "$0/$1" "$0/$1.1" || drain ;;
            *) drain ;;
        esac
    done
}}
rm -f "$0/.stdout" "$0/.stderr"
if ! mkfifo "$0/.stdout" "$0/.stderr"; then
    echo 'sparkpace: no pipe could be made, so nothing bounds stdout and stderr' >>"$0/stderr"
    exec "$@" >>"$0/stdout" 2>>"$0/stderr" </dev/null
fi
exec 3<>"$0/.stdout" 4<>"$0/.stderr"
exec 5<"$0/.stdout" 6>"$0/.stdout" 7<"$0/.stderr" 8>"$0/.stderr" 3>&- 4>&-
rm -f "$0/.stdout" "$0/.stderr"
_child= _term=
trap '_term=1; [ -z "$_child" ] || kill -TERM $_child' TERM
(exec <&5; keep stdout) & _pumps=$!
(exec <&7; keep stderr) & _pumps="$_pumps $!"
(exec "$@" </dev/null >&6 2>&8 5>&- 6>&- 7>&- 8>&-) & _child=$!
exec 5>&- 6>&- 7>&- 8>&-
[ -z "$_term" ] || kill -TERM $_child
while :; do
    wait $_child; code=$?
    kill -0 $_child || break
done
(trap 'kill $!; wait $!; exit' USR1; sleep {DRAIN_S} & wait $!; kill -9 $_pumps) & timer=$!
wait $_pumps
kill -USR1 $timer; wait $timer
exit $code
"""
"""Script for `/bin/sh -c`, constant: the log directory is $0 and the program with its arguments "$@", so Python quotes
nothing for the shell.

The program writes to two pipes. For each a `cat` appends what comes to a file, as the program's user, until the kernel ends
it at the file's greatest size (SIGXFSZ); then the file is renamed and the next `cat` goes on. So the bound holds at every
moment, needs neither agent nor engine, and needs only /bin/sh and a few of its usual companions in an image. Output that one
`cat` had read is lost in between. Where the disk is full, output is thrown away until there is space. The shell stays to hand
on SIGTERM and to see the pipes emptied, and ends with the program's exit code. Fifos lose their names at once.
"""
ADDRESS_SCRIPT = f"""\
read -r self </etc/hostname
while read -r ip name rest; do [ "$name" != "$self" ] || address=$ip; done </etc/hosts
[ -n "$address" ] || {{ echo "no address of $self is in /etc/hosts" >>"$0/stderr"; exit 78; }}
for word; do shift; [ "$word" != "{OWN_ADDRESS}" ] || word=$address; set -- "$@" "$word"; done
{LOG_SCRIPT}"""
"""Script for a container with a network of its own, where the engine has written the container's address into /etc/hosts. The
script needs only what every shell has: an image need have no other program."""

MIN_CORES = 0.01
MIN_MEMORY_BYTES = 16 << 20
"""Smallest memory limit: no JVM runs in less; engines refuse limits below some MiB."""

OUTPUT_LIMIT = 4096
"""Number of characters of a program's output that are kept."""


def with_umask(script: str, launch: Launch) -> str:
    """Return the script with a line that sets the launch's umask for its program."""
    return script if launch.umask is None else f"umask {launch.umask:04o}\n{script}"


def ensure_log_dir(launch: Launch) -> None:
    """Make the log directory if it is missing, owned by the executor's user. Raise `RuntimeRefused` if that fails."""
    if launch.log_dir.is_dir():
        return
    try:
        launch.log_dir.mkdir(parents=True, mode=0o700, exist_ok=True)
        if os.geteuid() == 0:
            os.chown(launch.log_dir, launch.uid, launch.gid)
    except OSError as error:
        raise RuntimeRefused(
            f"log directory {launch.log_dir} cannot be made ({error.strerror}); it must lie where the agent may write"
        ) from error


def unique_name(cluster_id: str, worker_id: str, key: ExecutorKey) -> str:
    """Return a readable name of letters, digits, dots, dashes; its hash keeps apart what sanitising or clusters would mix."""
    digest = hashlib.sha256("\0".join((cluster_id, worker_id, *key)).encode()).hexdigest()[:8]
    readable = re.sub(r"[^a-zA-Z0-9.-]+", "-", "-".join((worker_id, *key)))[:100]
    return f"sparkpace-{readable}-{digest}"


def checked_cores(cores: float) -> float:
    """Return `cores` if a runtime can set it. Raise `BadInput` for less than `MIN_CORES`, nan and infinity."""
    if not MIN_CORES <= cores < float("inf"):
        raise BadInput(f"quota {cores} is not a number of cores; at least {MIN_CORES} is accepted")
    return cores


def checked_memory(memory_bytes: int) -> int:
    """Return `memory_bytes` if a runtime can set it. Raise `BadInput` for less than `MIN_MEMORY_BYTES`."""
    if memory_bytes < MIN_MEMORY_BYTES:
        raise BadInput(f"memory limit {memory_bytes} is no limit to run in; at least {MIN_MEMORY_BYTES} bytes are accepted")
    return memory_bytes


def in_use(key: ExecutorKey, used_bytes: int, memory_bytes: int) -> RuntimeFailed:
    """Return the error of a memory limit below what is in use."""
    return RuntimeFailed(
        f"executor {key.text} uses {used_bytes} bytes, more than the limit of {memory_bytes} it was to have; try later"
    )


def still_runs(key: ExecutorKey) -> RuntimeFailed:
    """Return the error of `remove` for an executor that has not ended."""
    return RuntimeFailed(f"executor {key.text} still runs and cannot be removed; stop it first")


def does_not_run(program: Program, where: str, reason: str) -> RuntimeRefused:
    """Return the error of a program that cannot run to a good end."""
    return RuntimeRefused(f"{program.argv[0]} does not run {where} ({reason.strip()[-300:]})")
