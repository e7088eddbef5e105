"""What the two services are started with. Parsed and checked by the command line, handed over whole."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # the supervisor reads this module and carries nothing more
    from controller.notify.receiver import Receiver
    from placement.growth import Limits, WorkerType


@dataclass(frozen=True, slots=True)
class GrowthOptions:
    """`provider` is "docker" or "command", `program` that of the latter, `image` the agent's of the former and `folders`
    what it sees of this host beside the usual; `agent_options` are further words for agents."""

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
    """`sparkpace master`. Tokens and state lie in `home` (see `controller.home`)."""

    home: Path
    host: str = "127.0.0.1"
    names: tuple[str, ...] = ()
    """Further ones under which it is reached: its certificate is good for them, too."""
    port: int = 7070
    keep_runs: int = 100
    """Run folders kept; older ones are removed when a run ends."""
    law: str = "forecast"
    """Law of applications that name none."""
    memory_policy: str = "equal"
    """How a worker's off-heap memory is divided (`master_memory.split.POLICIES`)."""
    placement: str = "spread"
    """Policy of applications that name none (`placement.policies.POLICIES`)."""
    placement_weights: str = ""
    """Of placement's scores, as `placement.scores.parse_weights` reads them."""
    topology: Path | None = None
    """File of networks with their hosts, racks and switches (`placement.topology`); read again when it changes."""
    growth: GrowthOptions | None = None
    """Who starts workers for what fits nowhere; None: nobody."""
    notify: Receiver | None = None
    """The web hook that is told of deadlines at risk, ends and refusals; None: there is none."""


@dataclass(frozen=True, slots=True)
class AgentOptions:
    """`sparkpace agent`. `runtime` is a row of `controller.runtime.table`: "auto" was decided by the command line."""

    home: Path
    worker_id: str
    cores: float
    memory_mb: int
    runtime: str
    period_s: float
    floor: float
    """Cores below which no executor is squeezed."""
    master_url: str
    allow_mounts: tuple[Path, ...] = ()
    """Roots below which applications may ask for mounts (absolute)."""
    image: str | None = None
    """Executor image for applications that name none; None: the runtime's own."""
    tmp_mb: int = 256
    """Of /tmp in each container."""
    local_limit: str = "none"
    """Of the files that an application keeps here (`controller.local_limit`)."""
    host: str | None = None
    """Address of its executors; None: loopback with a loopback master, else the way out towards the master."""
    resources: dict[str, int] = field(default_factory=dict)
    """Whole pieces that it has besides cores and memory."""
    labels: dict[str, str] = field(default_factory=dict)
    network: str = "host"
    """Of executors in containers: "open" or "closed" (one for each application), or "host"."""
    network_pool: str = ""
    """Where those come from (`networks.parse_pool`); empty: the usual pool."""
    shared: bool = False
    """Others work on this machine: what they use is not for executors."""
    signals: bool = False
    """Adopted executors that cannot be paced otherwise may be stopped and continued."""
    nodes: int = 1
    """Machines that its executors are on; each has `cores` for them."""
    namespace: str | None = None
    """Of Kubernetes; None: all."""

    @property
    def own_networks(self) -> bool:
        return self.runtime == "docker" and self.network != "host"

    def to_json(self) -> bytes:
        """For the agent's other processes; the standard library's JSON, as the supervisor carries nothing more."""
        return json.dumps(asdict(self), default=str).encode()

    @staticmethod
    def from_json(data: bytes | str) -> AgentOptions:
        """The reverse."""
        values = json.loads(data)
        values["home"] = Path(values["home"])
        values["allow_mounts"] = tuple(map(Path, values["allow_mounts"]))
        return AgentOptions(**values)
