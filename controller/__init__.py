"""The running system: the master service, the agent of every worker, the runtimes and the `sparkpace` command."""
