"""Where executors run: one interface (`base.Runtime`), three implementations (docker, process, fake).

Not here: who decides what should run and how fast (`controller.agent`).
"""
