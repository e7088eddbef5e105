"""Options and settings that people may ask for: their names, checks and defaults."""
