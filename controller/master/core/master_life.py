"""One life of the master: what agents obey, and what the master can see of its machine."""

from __future__ import annotations

from dataclasses import dataclass

from controller.master.core.application_record import ApplicationRecord


@dataclass(frozen=True, slots=True)
class MasterLife:
    """A life of the master, which began at `begun_s` (monotonic seconds): the cluster's id and the life's number, the boot of
    its machine, and the namespace of the process numbers that it sees."""

    cluster_id: str
    generation: int
    boot_id: str
    pid_namespace: str
    begun_s: float

    def sees(self, record: ApplicationRecord) -> bool:
        """Return True if the process of the application's driver can be seen from here: it is on this host, in a pid
        namespace that shows here."""
        driver = record.registration.process
        return driver.boot_id == record.boot_id and driver.pid_namespace in ("", self.pid_namespace)
