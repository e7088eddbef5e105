"""Executors of another cluster manager on this machine."""
