"""The check of a driver's identity: pure. Its executors run as the uid and gid that it names, so somebody must vouch for
them.

For a driver on the master's host the kernel does: the other end of its connection is a socket of that uid, and its process
has that gid. A user's own token, which an admin makes, vouches for a driver that the kernel here cannot see. The submit token
by itself vouches for no one, and only the kernel is believed about root. What the kernel shows:
`controller.master.access.peer`.
"""

from __future__ import annotations

from msgspec import structs

from controller.home import User
from controller.master.access.peer import Facts
from controller.wire.driver import NOBODY_UID, Registration
from stage_model.errors import Denied


def vouched(said: Registration, facts: Facts) -> Registration:
    """Return `said`, with the driver's process as it is numbered here where it is seen. Raise `Denied` for a user that no one
    vouches for."""
    if said.attached:
        return _attached(said, facts)
    check_vouched("driver", said.pid, (said.uid, said.gid), facts)
    driver = facts.driver
    return said if driver is None else structs.replace(said, pid=driver.pid, pid_namespace=facts.namespace)


def check_vouched(who: str, pid: int, named: tuple[int, int], facts: Facts) -> None:
    """Raise `Denied` where no one vouches for the uid and gid that a process names, which is `who` in the sentence: a driver,
    or the submitter of a driver that a worker hosts."""
    (uid, gid), driver = named, facts.driver
    if facts.user is not None:
        if uid != facts.user.uid:
            raise Denied(f"uid {uid} is not that of the token, {facts.user.uid}; submit as the token's user")
    elif facts.peer_uid is None:
        other = "as another user, " if uid == 0 else ""  # root cannot have a token
        raise Denied(
            f"no one vouches for uid {uid}: the {who}'s connection comes from {facts.address}, where this master cannot see "
            f"whose it is; submit on the master's host, or {other}with a user's own token (`sparkpace token --user NAME`)"
        )
    elif uid != facts.peer_uid:
        raise Denied(f"uid {uid} is not that of the {who}'s connection, {facts.peer_uid}; register with the {who}'s own uid")
    if facts.in_sight and (driver is None or driver.uid != uid or driver.connected is False):
        raise Denied(f"process {pid} is not this {who} of uid {uid}; register with the {who}'s own process and uid")
    if uid == 0 and (driver is None or driver.nested):
        raise Denied(
            "a driver says that it is root and is no process of this host's own (in a container, root is not the host's); "
            "submit as another user, or as root outside of containers"
        )
    groups = driver.groups if driver is not None else facts.groups
    if facts.user is not None:
        groups |= {facts.user.gid}
    if gid not in groups:
        raise Denied(f"no one vouches for gid {gid} of uid {uid}, whose groups are {sorted(groups) or 'unknown'}")


def _attached(said: Registration, facts: Facts) -> Registration:
    """Return what an attached application said, as far as it is believed. Nothing is started for it, so its user only says
    for whom it counts: its token's, else its connection's. Its process is believed where it is seen; else silence shows that
    it has ended."""
    uid = counted_for(facts.user, facts.peer_uid)
    driver = facts.driver if facts.driver is not None and facts.driver.uid == uid else None
    said = structs.replace(said, uid=uid)
    if driver is None:
        return structs.replace(said, boot_id="")
    return structs.replace(said, pid=driver.pid, pid_namespace=facts.namespace)


def counted_for(user: User | None, peer_uid: int | None) -> int:
    """Return the uid that a call counts for by its token, else by its connection; `NOBODY_UID` if there is neither."""
    if user is not None:
        return user.uid
    return NOBODY_UID if peer_uid is None else peer_uid
