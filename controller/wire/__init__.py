"""Messages between bridge, master, agents and commands, and their version. See docs/protocol.md."""
