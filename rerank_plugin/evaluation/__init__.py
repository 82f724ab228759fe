"""Measures, significance tests and reports; fused runs, and the tuning of their weights."""
