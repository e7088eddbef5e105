"""What travels between bridge, master, agents and commands, and in which version. See docs/protocol.md."""
