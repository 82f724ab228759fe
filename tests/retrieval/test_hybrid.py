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


def plainly_regularized(scores, vectors, count=300, neighbours=5, weight=0.3):
    """By the equation of `regularization`, in double precision, over the documents in order of their scores."""
    order = np.argsort(-scores)
    best, found = order[:count], (1 - weight) * scores
    units = vectors[best] / np.maximum(np.linalg.norm(vectors[best], axis=1, keepdims=True), 1e-9)
    for place, row in enumerate(best):
        cosines = units @ units[place]
        cosines[place] = 0
        nearest = np.argsort(-cosines)[:neighbours]
        shares = np.maximum(cosines[nearest], 0) ** 3
        found[row] += weight * shares @ scores[best[nearest]] / max(shares.sum(), 1e-9)
    return found


@pytest.mark.parametrize("name, weights", [("hybrid", {"bm25": 0.65}), ("hybrid+rm3", {"bm25": 0.4, "bm25+rm3": 0.3})])
def test_scores_are_fused_after_feedback_and_regularized(encoded, name, weights):
    """From the stored vectors, in double precision: fuse, move the query towards the best five, fuse, regularize."""
    dense = configure("dense:ktrel").open(encoded)
    vectors, query = dense.vectors.astype(np.float64), dense.encoder.encode(QUERY.text).astype(np.float64)
    of_words = np.zeros(len(encoded))
    for lexical, weight in weights.items():
        found = configure(lexical).open(encoded).search(QUERY, 1000)
        of_words[found.rows] += weight * min_max(found.first_stage_scores)

    def fused(query):
        return of_words + (1 - sum(weights.values())) * min_max(vectors @ query)

    best = np.argsort(-fused(query))[:5]
    expected = plainly_regularized(fused(query + 0.5 * vectors[best].mean(axis=0)), vectors)
    stage = configure(name).open(encoded)
    found = stage.search(QUERY, 20)
    assert stage.name == name and len(found) == 20
    assert found.first_stage_scores == pytest.approx(expected[found.rows], abs=1e-5)
    assert expected[found.rows].min() >= np.sort(expected)[-20] - 1e-5


def test_an_index_without_encodings_says_how_to_make_them(index):
    with pytest.raises(InputError, match="index --encode ktrel --index"):
        configure("hybrid").open(index)
