"""Calls of machines that join, and of workers that have joined: their identities are kept in the home, as hashes."""

from __future__ import annotations

import asyncio
import logging
import os
from pathlib import Path

from controller.home import HASHED, WORKER_ID, Home
from controller.machine.addresses import resolves
from controller.machine.files import why_unreadable
from controller.machine.greeting import Greeter, is_greeted
from controller.machine.tls import certificate_in
from controller.master.access.join_tokens import JoinTokens
from controller.submit.driver_needs import find_driver_needs
from controller.wire.joining import Authority, JoinCheck, JoinFound, JoinRequest, NewIdentity
from stage_model.errors import BadInput, NotStored, RuntimeFailed, TooMuch, Unavailable

log = logging.getLogger("sparkpace.master")

GREETS_S = 15.0
"""Time for which a port is open for a machine that looks if it reaches this one; it looks at once."""
MOST_LOOKS = 8
"""Most machines that are looked at together; one counts until its port here is closed."""


class JoinCalls:
    """The calls, of a master that listens at `host`. Machines are looked at `MOST_LOOKS` at a time, off the event loop;
    identities are changed one after the other."""

    def __init__(self, home: Home, host: str) -> None:
        self._home, self._host, self._tokens = home, host, JoinTokens(home.join_tokens)
        self._turn = asyncio.Lock()
        self._looks = 0

    def allow(self, bearer: str, now_s: float) -> str:
        """Return the owner for whom a call with a join token counts. Raise `Denied`."""
        return f"join token {self._tokens.check(bearer, now_s)}"

    def authority(self, now_s: float) -> Authority:
        """Return the CA's certificate and the time. Raise `Unavailable`."""
        try:
            return Authority(certificate=certificate_in(self._home.ca_file), wall_s=now_s)
        except (OSError, ValueError) as error:
            why = why_unreadable(error)
            raise Unavailable(f"the master's CA file cannot be read ({why}); start the master again") from error

    async def check(self, said: JoinCheck) -> JoinFound:
        """Look at a machine that wants to join. Raise `BadInput` for a name that no worker can have, `TooMuch`, and
        `Unavailable` where no port can be opened for it."""
        taken, port = _file_of(self._home, said.worker_id).exists(), None
        if self._looks >= MOST_LOOKS:
            raise TooMuch(f"{MOST_LOOKS} machines are joining already; try again in {GREETS_S:g} s")
        self._looks += 1
        try:
            needs = await asyncio.to_thread(find_driver_needs, os.environ)
            if said.port is None:
                return JoinFound(taken=taken, reached=True, needs=needs)
            known = await asyncio.to_thread(resolves, said.host)
            reached = known and await asyncio.to_thread(is_greeted, said.host, said.port, said.greeting)
            port = Greeter(self._host, said.greeting, GREETS_S).port
            return JoinFound(taken=taken, reached=reached, resolves=known, port=port, needs=needs)
        finally:
            if port is None:
                self._looked()
            else:
                asyncio.get_running_loop().call_later(GREETS_S, self._looked)

    def _looked(self) -> None:
        self._looks -= 1

    async def join(self, bearer: str, said: JoinRequest, now_s: float) -> None:
        """Give a worker its identity. Raise `BadInput` for a name that is taken or that no worker can have, `Denied`,
        `NotStored`. After an error the worker has no identity."""
        async with self._turn:
            token_id = await asyncio.to_thread(self._join, bearer, said, now_s)
        log.info("worker %s has an identity by join token %s", said.worker_id, token_id)

    def _join(self, bearer: str, said: JoinRequest, now_s: float) -> str:
        identity = _file_of(self._home, said.worker_id)
        if identity.exists():
            raise BadInput(f"the master knows a worker {said.worker_id} already; give another --worker-id")
        self._tokens.check(bearer, now_s)  # its last use may be gone: then no identity is made, not even for a moment
        try:
            try:
                self._home.write_agent_token(said.worker_id, HASHED + said.digest)
                return self._tokens.use(bearer, now_s, said.worker_id)
            except BaseException:
                identity.unlink(missing_ok=True)
                raise
        except OSError as error:
            raise _not_stored(said.worker_id, error) from error
        except RuntimeFailed as error:
            raise NotStored(f"the identity of {said.worker_id} cannot be stored: {error}") from error

    async def renew(self, worker_id: str, said: NewIdentity) -> None:
        """Take in the next identity of a worker that has joined, or its departure. Raise `BadInput` for a worker of
        this home, and `NotStored`; after an error the last identity is still good."""
        async with self._turn:
            await asyncio.to_thread(self._renew, worker_id, said)
        log.info("worker %s has %s", worker_id, "left" if said.digest is None else "a new identity")

    def _renew(self, worker_id: str, said: NewIdentity) -> None:
        if not (self._home.find_agent_token(worker_id) or "").startswith(HASHED):
            raise BadInput(f"worker {worker_id} is of the master's own home; run `sparkpace renew` there")
        try:
            if said.digest is None:
                _file_of(self._home, worker_id).unlink(missing_ok=True)
            else:
                self._home.write_agent_token(worker_id, HASHED + said.digest)
        except OSError as error:
            raise _not_stored(worker_id, error) from error


def _file_of(home: Home, worker_id: str) -> Path:
    if not WORKER_ID.fullmatch(worker_id):
        raise BadInput(f"worker id {worker_id[:80]!r} is not usable; it must be 1 to 63 of a-z, 0-9, '.', '_', '-'")
    return home.agent_tokens / worker_id


def _not_stored(worker_id: str, error: OSError) -> NotStored:
    return NotStored(f"the identity of {worker_id} cannot be stored ({error.strerror}); make room on the master's disk")
