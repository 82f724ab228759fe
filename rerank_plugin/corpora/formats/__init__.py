"""Modules of formats, which end with their registration."""
