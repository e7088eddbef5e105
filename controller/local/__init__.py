"""A cluster of this machine: its services are started, looked at, healed and ended."""
