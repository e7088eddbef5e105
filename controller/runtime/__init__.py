"""Where executors run: one interface (`base.Runtime`), one table (`table.RUNTIMES`), and a fake for tests.

Not here: who decides what should run and how fast (`controller.agent`).
"""
