"""Detectors: one file an ailment; its docstring is its page."""
