"""How much memory a worker has left for executors (MiB): container limits may never add up to more than it offers."""

from __future__ import annotations

from collections.abc import Iterable

from stage_model.errors import BadInput


def free_mb(worker_memory_mb: int, container_limits_mb: Iterable[int]) -> int:
    """What is left beside the containers there are; never negative."""
    return max(0, worker_memory_mb - sum(container_limits_mb))


def check_fits_somewhere(container_mb: int, worker_memories_mb: Iterable[int]) -> None:
    """Raises `BadInput` when an executor is larger than every worker, so that waiting would never end."""
    largest = max(worker_memories_mb, default=None)
    if largest is not None and container_mb > largest:
        raise BadInput(
            f"an executor of this application needs {container_mb} MiB (heap, overhead, off-heap and Python), more than any "
            f"worker has; accepted: at most {largest} MiB (see --executor-memory and spark.executor.memoryOverhead)"
        )
