"""Opens the quotas of a worker whose agent is stuck: one call of the supervisor, in a process of its own."""

from __future__ import annotations

import sys

from controller.agent.site import make_runtime
from controller.options import AgentOptions


def main() -> None:
    options = AgentOptions.from_json(sys.stdin.buffer.read())
    cluster_id = (options.home / "agents" / options.worker_id / "cluster_id").read_text().strip()
    runtime = make_runtime(options, cluster_id)
    for key, seen in runtime.observe().items():
        if seen.running:
            runtime.set_quota(key, options.cores)
    runtime.close()


if __name__ == "__main__":
    main()
