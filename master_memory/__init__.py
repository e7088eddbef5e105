"""The memory manager: how a worker's memory is divided (`split`), whether one more executor may join (`room`), which
application comes first (`queue`), and how running executors get to their share (`resize`). Pure; its shells are
`controller.agent.executors.resizing` and, on the master, `controller.master.needs` and `controller.master.queue`."""
