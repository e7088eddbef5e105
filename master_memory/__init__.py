"""The memory manager: how a worker's memory for executors is accounted and who must wait for it. Pure."""
