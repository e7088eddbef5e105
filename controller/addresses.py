"""Which addresses are this machine's, as the network namespace of this process has them, and a socket at one of them."""

from __future__ import annotations

import socket
from ipaddress import IPv4Address

from stage_model.errors import Unavailable


def is_local(address: str) -> bool:
    """Whether this is an IPv4 address (no name) that this machine has."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.bind((str(IPv4Address(address)), 0))
        except (OSError, ValueError):
            return False
    return address != "0.0.0.0"


def on_this_machine(host: str) -> bool:
    """Whether a name or an address is this machine's; yes where nobody can tell now."""
    try:
        found = {str(one[4][0]) for one in socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)}
    except OSError:
        return True
    return "::1" in found or any(map(is_local, found))


def bound_socket(host: str, port: int) -> socket.socket:
    """A TCP socket there, for 0 at a port that is free now; it does not listen yet. Raises `Unavailable`."""
    found = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM)
    found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        found.bind((host, port))
    except OSError as error:
        found.close()
        raise Unavailable(
            f"nobody can listen on --host {host} with --port {port} ({error.strerror}); accepted: an address of this machine "
            "and a free port"
        ) from error
    return found
