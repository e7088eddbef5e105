"""Workloads, scenarios and reports: a spec in, a result folder out. Not part of the wheel."""
