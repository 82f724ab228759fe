"""Click logs: reading, filters, relevance levels, simulation; weak labels."""
