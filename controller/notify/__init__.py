"""Notifications of a web hook of the operator's about events of applications."""
