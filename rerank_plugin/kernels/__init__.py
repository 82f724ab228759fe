"""Compiled loops that the fast paths share, and the threads they run in."""
