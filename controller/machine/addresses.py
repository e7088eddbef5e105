"""The addresses of this machine, as the network namespace of this process has them, and a socket at one of them."""

from __future__ import annotations

import socket
from ipaddress import IPv4Address, ip_address
from urllib.parse import urlsplit

from stage_model.errors import Unavailable

LOOPBACK = "127.0.0.1"


def is_loopback(host: str) -> bool:
    """Return True if `host` is an address, or the name, at which a machine reaches only itself."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def is_local(address: str) -> bool:
    """Return True if `address` is an IPv4 address (no name) of this machine."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.bind((str(IPv4Address(address)), 0))
        except (OSError, ValueError):
            return False
    return address != "0.0.0.0"


def address_towards(url: str) -> str:
    """Return the address of this machine on its way out towards the host of a URL, which may be a loopback. Raise `OSError`
    where no way leads there."""
    host = urlsplit(url).hostname or LOOPBACK
    if is_loopback(host):
        return LOOPBACK
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect((host, 9))
        return str(probe.getsockname()[0])


def on_this_machine(host: str) -> bool:
    """Return True if a name or an address is this machine's, or if no answer can be found now."""
    try:
        found = {str(one[4][0]) for one in socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)}
    except OSError:
        return True
    return "::1" in found or any(map(is_local, found))


def resolves(host: str) -> bool:
    """Return True if the name means an address to this machine, or is an address."""
    try:
        socket.getaddrinfo(host, None)
    except (OSError, ValueError):  # ValueError: a name that no resolver takes
        return False
    return True


def bound_socket(host: str, port: int) -> socket.socket:
    """Return a TCP socket there, for port 0 at a port that is free now; it does not listen yet. Raise `Unavailable`."""
    found = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM)
    found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        found.bind((host, port))
    except OSError as error:
        found.close()
        raise Unavailable(
            f"nothing can listen on --host {host} with --port {port} ({error.strerror}); give an address of this "
            "machine and a free port"
        ) from error
    return found


def check_port(host: str, port: int) -> int:
    """Return the port to use: `port` itself, or a free port for 0. Raise `Unavailable` when it is taken."""
    with bound_socket(host, port) as probe:
        return int(probe.getsockname()[1])


def url_of(host: str, port: int) -> str:
    """Return the URL at which processes of this machine reach a service that listens there."""
    host = LOOPBACK if host in ("0.0.0.0", "::") else host
    return f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}"
