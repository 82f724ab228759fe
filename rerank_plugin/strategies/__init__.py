"""Boolean search strategies in the languages of PubMed and Ovid, read as :mod:`rerank_plugin.base.strategy`."""
