"""Features that are computed for all candidates of a query at once."""
