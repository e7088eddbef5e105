"""Callers of the master: who may call, and how much at once."""
