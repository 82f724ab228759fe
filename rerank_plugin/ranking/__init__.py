"""The way of a query: from candidates to scores to an order; several runs re-ranked at once."""
