"""Knowledge about applications and their stages: profiles, deadlines, forecasts and the control laws.

Pure: no files, sockets, environment, clocks or random numbers in here; `now` is an argument. Shells are in `controller/`.
"""
