"""Compares two indexes of the same documents."""

import numpy as np

from rerank_plugin.base.records import Query
from rerank_plugin.retrieval.lucene import LuceneConfig


def search_alike(first, second, texts, name="bm25", depth=30):
    """Check that both return the same hits with the same scores for each text, and at least one hit."""
    stages = [index.first_stage(LuceneConfig(name)) for index in (first, second)]
    for text in texts:
        found, expected = (stage.search(Query("q", text), depth) for stage in stages)
        assert found.ids == expected.ids and len(found)
        np.testing.assert_array_equal(found.first_stage_scores, expected.first_stage_scores)
