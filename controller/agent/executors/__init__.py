"""Executors of one worker: how they start, what they see, what they leave."""
