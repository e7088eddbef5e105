"""Runtimes, which run executors: one interface (`base.Runtime`), one table (`table.RUNTIMES`).

Not here: the decisions on what should run and how fast (`controller.agent`).
"""
