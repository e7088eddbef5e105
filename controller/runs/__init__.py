"""The remains of runs: their folders, event logs, pictures and profiles."""
