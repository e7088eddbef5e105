"""Messages between a machine that joins and the master, sent as JSON of these structs. See docs/protocol.md."""

from __future__ import annotations

from typing import Annotated

import msgspec

from controller.wire.driver import Port
from controller.wire.limits import PathText, Text
from controller.wire.message import Message

Digest = Annotated[str, msgspec.Meta(pattern=r"^[0-9a-f]{64}\Z")]
"""SHA-256 of a secret, in hexadecimal digits."""
Greeting = Annotated[str, msgspec.Meta(pattern=r"^[0-9A-Za-z_-]{16,64}\Z")]
"""Words by which the two ends of a connection recognise each other."""


class Authority(Message, frozen=True, kw_only=True):
    """GET /v1/ca (no token): the certificate of the CA, in DER, for a machine that knows its fingerprint, and the master's
    wall clock, because a certificate can be checked only by a clock that is nearly right."""

    certificate: Annotated[bytes, msgspec.Meta(max_length=1 << 14)]
    wall_s: float


class DriverNeeds(Message, frozen=True, kw_only=True):
    """The programs and files that drivers on the master's machine will name to executors, as far as the master knows: they
    must be at the same paths on the machine of a worker. `spark` and `java` are folders, `jar` is the bridge's, `python` the
    program of Python workers and `version` its version, as in "3.11". Empty: not known."""

    spark: PathText = ""
    jar: PathText = ""
    java: PathText = ""
    python: PathText = ""
    version: Text = ""


class JoinCheck(Message, frozen=True, kw_only=True):
    """POST /v1/join/check (scope join): a look at a machine that wants to join as `worker_id`. `host` is the address of its
    executors, where it says `greeting` at `port` meanwhile (None: its executors are other cluster managers')."""

    worker_id: Text
    host: Text
    port: Port | None = None
    greeting: Greeting


class JoinFound(Message, frozen=True, kw_only=True):
    """The answer to a look. `taken`: there is a worker of that name. `resolves`: the master's machine knows the name that is
    the executors' address. `reached`: it reaches that address. `port`: for some seconds the master says the greeting
    there, too, as a driver would listen (None: not asked)."""

    taken: bool
    reached: bool
    resolves: bool = True
    port: Port | None = None
    needs: DriverNeeds = DriverNeeds()


class JoinRequest(Message, frozen=True, kw_only=True):
    """POST /v1/join (scope join): the token by which the worker will prove itself has this hash. Only the worker has it."""

    worker_id: Text
    digest: Digest


class NewIdentity(Message, frozen=True, kw_only=True):
    """POST /v1/workers/ID/identity (scope worker, for a worker that has joined): the hash of the worker's next token.
    From then on the master accepts only that token. None: the worker leaves."""

    digest: Digest | None = None
