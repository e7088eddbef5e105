"""Runtimes, which run executors: one interface (`base.Runtime`), one table (`table.RUNTIMES`).

Not here: who decides what should run and how fast (`controller.agent`).
"""
