"""The first call to a master whose CA is not known here yet: it proves itself by the fingerprint that a join token holds."""

from __future__ import annotations

import hmac
import socket
import time

import msgspec

from controller.asks.join_token import JoinToken
from controller.machine.http import ask_unproven
from controller.machine.tls import address_of, fingerprint
from controller.wire import version
from controller.wire.joining import Authority
from stage_model.decoding import UNREADABLE
from stage_model.errors import Denied, OtherVersion, Unavailable
from stage_model.units import format_duration

ANSWER_S = 10.0
LARGEST_BYTES = 1 << 16
CLOCK_S = 60.0
"""Largest difference of the two clocks. Machines with a time server differ by milliseconds."""


def meet(url: str, token: JoinToken) -> bytes:
    """Return the certificate of the CA of the master at `url`, whose fingerprint the token has. Raise `PaceError` for any
    other server; no secret was sent to it."""
    host, port = address_of(url)
    try:
        answer = ask_unproven(url, "/v1/ca", ANSWER_S, LARGEST_BYTES)
    except socket.gaierror as error:
        raise Unavailable(
            f"the master's name {host!r} does not resolve here ({error.strerror}); give an address in its place, or "
            f"make this machine's resolver know the name"
        ) from error
    except OSError as error:
        raise Unavailable(
            f"no master answers at {url} ({error}); on its machine, start it with `sparkpace up --host ADDRESS` (not on "
            f"loopback), and open the firewall there for this machine at port {port}"
        ) from error
    version.check_header(answer.headers.get(version.HEADER), f"the master at {url}", "this command")
    if answer.status == 404:
        raise OtherVersion(f"the master at {url} is of a release without `sparkpace join`; install this one's release there")
    try:
        found = msgspec.json.decode(answer.body, type=Authority)
    except UNREADABLE as error:
        raise Unavailable(f"what answers at {url} is no Sparkpace master (status {answer.status}); check the URL") from error
    if not hmac.compare_digest(fingerprint(found.certificate), token.fingerprint):
        raise Denied(
            f"what answers at {url} is not the master that the join token is of: its CA has another fingerprint; nothing "
            f"secret was sent to it"
        )
    if fault := clock_fault(found.wall_s, time.time()):
        raise Unavailable(fault)
    return found.certificate


def clock_fault(master_s: float, here_s: float) -> str:
    """Return the fault of clocks that differ, in seconds since the epoch; empty without one."""
    ahead_s = here_s - master_s
    if abs(ahead_s) <= CLOCK_S:
        return ""
    return (
        f"the clock of this machine is {format_duration(abs(ahead_s))} {'ahead of' if ahead_s > 0 else 'behind'} the "
        f"master's; set the one of them that is wrong, and let both follow a time server"
    )
