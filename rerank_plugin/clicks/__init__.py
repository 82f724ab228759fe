"""Judgments from click logs (readers, filters, relevance, simulation) and from a corpus (weak labels)."""
