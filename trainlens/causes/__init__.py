"""Causes: one file a symptom; each cause is a test on the run's own data."""
