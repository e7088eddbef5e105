"""The computer that this runs on, and nothing of ours: files, processes, sockets, clocks, certificates."""
