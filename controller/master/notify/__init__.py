"""Notifications for a web hook: the events, and their way there."""
