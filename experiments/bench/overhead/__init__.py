"""The cost of control itself: measured on the production's code in this process, or on its processes and containers."""
