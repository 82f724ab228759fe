"""The hybrid first stage: the two stages and the weights it says, by one name, over a real Lucene index."""

import shutil

import numpy as np
import pytest

from rerank_plugin.files.errors import InputError
from rerank_plugin.files.records import Query
from rerank_plugin.indexes.index_folder import Index
from rerank_plugin.retrieval.encoding import IndexEncoder
from rerank_plugin.retrieval.fusion import min_max
from rerank_plugin.retrieval.register import configure

QUERY = Query("q", "heart attack in women with diabetes")


@pytest.fixture(scope="module")
def encoded(index_folder, tmp_path_factory):
    folder = tmp_path_factory.mktemp("hybrid") / "index"
    shutil.copytree(index_folder, folder)
    IndexEncoder(Index(folder).forward, "ktrel").encode()
    return Index(folder)


@pytest.mark.parametrize("name, lexical", [("hybrid", "bm25"), ("hybrid+rm3", "bm25+rm3")])
def test_scores_are_the_weighted_scores_of_both_stages_after_feedback(encoded, name, lexical):
    """From the stored vectors, in double precision: fuse, move the query towards the best five, fuse again."""
    words = configure(lexical).open(encoded).search(QUERY, 1000)
    dense = configure("dense:ktrel").open(encoded)
    vectors, query = dense.vectors.astype(np.float64), dense.encoder.encode(QUERY.text).astype(np.float64)

    def fused(query):
        scores = np.zeros(len(encoded))
        scores[words.rows] += 0.65 * min_max(words.first_stage_scores)
        return scores + 0.35 * min_max(vectors @ query)

    best = np.argsort(-fused(query))[:5]
    expected = fused(query + 0.5 * vectors[best].mean(axis=0))
    stage = configure(name).open(encoded)
    found = stage.search(QUERY, 20)
    assert stage.name == name and len(found) == 20
    assert found.first_stage_scores == pytest.approx(expected[found.rows], abs=1e-5)
    assert expected[found.rows].min() >= np.sort(expected)[-20] - 1e-5


def test_an_index_without_encodings_says_how_to_make_them(index):
    with pytest.raises(InputError, match="index --encode ktrel --index"):
        configure("hybrid").open(index)
