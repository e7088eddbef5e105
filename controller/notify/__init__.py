"""Tells a web hook of the operator's what happens to applications."""
