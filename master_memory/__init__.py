"""The memory manager: how a worker's memory is divided (`split`), whether one more executor may join (`room`), and how
running executors get to their share (`resize`). Pure; it is used by `controller.agent.executors.resizing` and, on the master,
by `controller.master.core.needs`."""
