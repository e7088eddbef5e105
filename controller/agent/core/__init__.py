"""One period of an agent, pure: `step` and what it calls."""
