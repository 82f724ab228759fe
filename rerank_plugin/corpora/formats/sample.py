"""The bundled collection: a BEIR folder that comes with the package, found by the word ``sample``."""

from rerank_plugin.corpora.register import CORPUS, JUDGMENTS, QUERIES, Format, register

register(
    Format(
        "sample",
        "rerank_plugin.corpora.formats.beir",
        dict.fromkeys((CORPUS, QUERIES, JUDGMENTS), "sample[:split] (the bundled collection)"),
    )
)
