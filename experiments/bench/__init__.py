"""Measurements that are run by themselves, each a command with one file of figures; `overhead` is a scenario's, too."""
