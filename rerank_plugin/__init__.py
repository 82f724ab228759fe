"""Neural re-ranking for Pyserini/Lucene over PubMed-style literature.

The commands are ``python -m rerank_plugin.index``, ``.search``, ``.train``, ``.evaluate`` and ``.embed``.
Nothing heavy is imported here: start-up time is felt on the command line.
"""

__version__ = "0.1.0"
