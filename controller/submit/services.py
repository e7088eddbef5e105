"""Addresses of the services that a job comes after (`--after APP:up`): in variables of its driver, and in files that follow a
service which comes again elsewhere.

A variable stays as it was when the driver started, so for each there is a file, which `sparkpace submit` replaces whole."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from controller.machine.files import write_whole
from placement.dependencies import After
from stage_model.errors import Unavailable


def address_variables(after: Sequence[After], addresses: Mapping[str, str]) -> dict[str, str]:
    """Return the driver's variables with the addresses ("HOST:PORT"), by words, of the services that it comes after."""
    return {one.variable: addresses.get(one.application, "") for one in after if one.up}


class ServiceFiles:
    """A file in `folder` for each service that a job comes after. Its only line is the newest address of the service, also
    while the service is away. `variables` name the files to the driver; they are empty without services."""

    def __init__(self, folder: Path, after: Sequence[After]) -> None:
        services = [one for one in after if one.up]
        self._files = {one.application: folder / str(number) for number, one in enumerate(services)}
        self._written = dict.fromkeys(self._files, "")
        self.variables = {f"{one.variable}_FILE": str(self._files[one.application]) for one in services}

    def write(self, addresses: Mapping[str, str]) -> None:
        """Take in the addresses of the services that serve now. An address that a full disk does not take is written with a
        later call."""
        for word, file in self._files.items():
            address = addresses.get(word, "")
            if address not in ("", self._written[word]):
                with suppress(OSError):
                    write_whole(file, f"{address}\n".encode(), lasting=False)
                    self._written[word] = address


@contextmanager
def service_files(after: Sequence[After]) -> Iterator[ServiceFiles]:
    """Provide the files while the block runs, in a folder that only this user can read. Raise `Unavailable` where it cannot
    be made."""
    if not any(one.up for one in after):
        yield ServiceFiles(Path(), ())
        return
    try:
        made = tempfile.TemporaryDirectory(prefix="sparkpace-after-", ignore_cleanup_errors=True)
    except OSError as error:
        raise Unavailable(
            f"no temporary folder can be made for the addresses of services ({error.strerror}); make room in TMPDIR or /tmp"
        ) from error
    with made as folder:
        yield ServiceFiles(Path(folder), after)
