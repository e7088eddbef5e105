"""Records of what was seen: Spark's events, event logs, runs, stages' signatures, and the profiles that runs leave."""
