"""Facts about the sender of a registration, gathered from the kernel and the user database; `vouching` decides by them."""

from __future__ import annotations

from controller.home import User
from controller.machine.proc import pid_namespace
from controller.master.access.peer import Address, find_driver, find_peer, user_groups
from controller.master.access.vouching import Facts
from controller.wire.driver import Registration


def facts_about(said: Registration, user: User | None, ends: tuple[Address, Address] | None) -> Facts:
    """Return the facts that the kernel and the user database have about the sender of a registration."""
    peer = find_peer(*ends) if ends else None
    here = said.process.is_this_boot()
    inode = peer.inode if peer else None
    return Facts(
        address=ends[0].host if ends else "nowhere",
        user=user,
        peer_uid=peer.uid if peer else None,
        in_sight=here and said.process.is_numbered_here(),
        driver=find_driver(said.process, said.uid, inode) if here else None,
        groups=user_groups(said.uid),
        namespace=pid_namespace(),
    )
