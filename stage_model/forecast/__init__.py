"""Forecasts: estimates from profiles, matching with the run, schedules in virtual time, promises."""
