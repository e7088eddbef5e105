"""Which worker gets an executor: pure choices over a snapshot of the workers."""
