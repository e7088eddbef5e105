"""Executors in containers."""
