"""A virtual cluster under a virtual clock: tasks are a fluid, laws, arbiter and planner are the production code.

`jobs` has the work, `engine` runs it, a *control* decides on the executors and the quota of each: `pacing` (the production
agents and planner), `schedulers` (the baselines), `trials` puts one application under one law and measures it, `calibrate`
builds a job from a recorded run. Results are simulated, and reports say so.
"""
