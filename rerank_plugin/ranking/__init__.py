"""Ranking: scores and sorts candidates, of one query or of several runs of the same queries."""
