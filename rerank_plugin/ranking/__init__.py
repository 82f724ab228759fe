"""Ranking: candidates are scored and sorted, for one query or for several runs of the same queries."""
