"""Measures, significance tests and reports; fusion of runs, and the tuning of its weights."""
