"""Access to the master: who may call it, and how much at once."""
