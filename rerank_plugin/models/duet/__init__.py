"""Duet: the module and its fast path."""
