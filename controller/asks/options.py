"""Options of the two services, as they get them: `service_options` and `master_options` in `controller.cli` declare them."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # the supervisor reads this module and carries nothing more
    from controller.asks.receiver import Receiver
    from controller.asks.user_limits import UserLimits
    from placement.growth import Limits, WorkerType


@dataclass(frozen=True, slots=True)
class GrowthOptions:
    """Options of growth. `provider` is "docker" or "command", `program` is for "command"; `image` is the agents' for
    "docker", and `folders` are the folders of this host that they see in addition to the usual ones; `agent_options` are
    further words for agents."""

    provider: str
    program: Path | None
    image: str
    folders: tuple[Path, ...]
    limits: Limits
    usual: WorkerType | None
    utilisation: float
    agent_options: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class MasterOptions:
    """Options of `sparkpace master` (`controller.cli.master_options.MASTER`). Tokens and state lie in `home` (see
    `controller.home`)."""

    home: Path
    host: str
    names: tuple[str, ...]
    """Further names of the master: its certificate is good for them, too."""
    port: int
    keep_runs: int
    """Run folders kept; older ones are removed when a run ends."""
    law: str
    """Law of applications that name none."""
    memory_policy: str
    """Policy that divides a worker's off-heap memory (`master_memory.split.POLICIES`)."""
    placement: str
    """Policy of applications that name none (`placement.policies.POLICIES`)."""
    placement_weights: str
    """Weights of placement's scores, as `placement.scores.parse_weights` reads them."""
    topology: Path | None
    """File of networks with their hosts, racks and switches (`placement.topology`); read again when it changes."""
    lost_after_s: float
    """Seconds without a report after which a worker is lost."""
    growth: GrowthOptions | None
    """Provider that starts workers for executors that fit nowhere; None: no provider does."""
    notify: Receiver | None
    """Web hook for deadlines at risk, ends and refusals; None: no web hook."""
    notify_missing: bool
    """True if the web hook also gets notifications of jobs that usually come by now and did not."""
    users: tuple[UserLimits, ...]
    """Limits of users, one for each."""
    observe: bool
    """True if every application is only watched."""


@dataclass(frozen=True, slots=True)
class AgentOptions:
    """Options of `sparkpace agent` (`controller.cli.service_options.AGENT`). `runtime` is a row of
    `controller.runtime.table`: "auto" was decided by the command line."""

    home: Path
    worker_id: str
    cores: float
    memory_mb: int
    runtime: str
    period_s: float
    floor: float
    """Cores below which no executor is squeezed."""
    master_url: str
    allow_mounts: tuple[Path, ...]
    """Roots below which applications may ask for mounts (absolute)."""
    image: str | None
    """Executor image for applications that name none; None: the runtime's own."""
    tmp_mb: int
    """Size of /tmp in each container."""
    local_limit: str
    """Limit of the files that an application keeps here (`controller.asks.local_limit`)."""
    least_free_memory: str
    """Free memory of the machine below which executors of lower priority are squeezed (`controller.asks.amounts`)."""
    least_free_disk: str
    """Free space of the local directory's disk below which executors of lower priority are squeezed, too."""
    disk_mb: float | None
    """MB per second that the device of the local directory reads and writes; None: no rates for it."""
    net_mbit: float | None
    """Mbit per second that its executors can receive, and send; None: no rates for that."""
    host: str | None
    """Address of its executors; None: loopback with a loopback master, else the way out towards the master."""
    resources: dict[str, int]
    """Whole pieces that the worker has besides cores and memory."""
    labels: dict[str, str]
    network: str
    """Network of executors in containers: "open" or "closed" (one for each application), or "host"."""
    network_pool: str
    """Addresses for those networks (`networks.parse_pool`)."""
    shared: bool
    """True if others work on this machine: cores that they use are not for executors."""
    signals: bool
    """True if adopted executors that cannot be paced otherwise may be stopped and continued."""
    nodes: int
    """Machines that its executors are on; each has `cores` for them."""
    namespace: str | None
    """Namespace of Kubernetes; None: all namespaces."""
    host_drivers: bool
    """True if the agent runs drivers of `submit --deploy-mode cluster`."""

    def to_json(self) -> bytes:
        """Write the options for the agent's other processes, by the standard library's JSON, because the supervisor carries
        nothing more."""
        return json.dumps(asdict(self), default=str).encode()

    @staticmethod
    def from_json(data: bytes | str) -> AgentOptions:
        values = json.loads(data)
        values["home"] = Path(values["home"])
        values["allow_mounts"] = tuple(map(Path, values["allow_mounts"]))
        return AgentOptions(**values)
