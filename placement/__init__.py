"""The choice of the worker that gets an executor: pure choices over a snapshot of the workers."""
