"""A virtual cluster under a virtual clock: tasks are a fluid, laws, arbiter and planner are the production code.

`jobs` says what runs, `engine` runs it, a *control* says which executors there are and what quota each has: `pacing` (the
production agents and planner), `schedulers` (the baselines), `trials` puts one application under one law and measures it,
`calibrate` builds a job from a recorded run. Results of it are simulated, and reports say so.
"""
