"""The hybrid first stage: the two stages and the weights it says, by one name, over a real Lucene index."""

import shutil

import numpy as np
import pytest

from rerank_plugin.base.errors import InputError
from rerank_plugin.base.records import Query
from rerank_plugin.encoding.index_encoder import IndexEncoder, write_judged
from rerank_plugin.indexes.candidates import Candidates
from rerank_plugin.indexes.index_folder import Index
from rerank_plugin.indexes.vector_store_writer import ListsConfig
from rerank_plugin.retrieval import hybrid
from rerank_plugin.retrieval.dense import QueryEncoder
from rerank_plugin.retrieval.fusion import min_max
from rerank_plugin.retrieval.neighbours import NeighboursConfig
from rerank_plugin.retrieval.register import configure

QUERY = Query("q", "heart attack in women with diabetes")


@pytest.fixture(scope="module")
def encoded(index_folder, tmp_path_factory):
    index = Index(shutil.copytree(index_folder, tmp_path_factory.mktemp("hybrid") / "index"))
    IndexEncoder(index.forward, "ktrel").encode()
    return index


def all_vectors(dense):
    """The vectors that the codes of all documents stand for, float64 [R, E]."""
    return dense.store.decode(np.arange(len(dense.store))).astype(np.float64)


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


def fused_with_words(encoded, lists, weights, query):
    """Scores of all documents, float64: lists of words, and inner products with a query, by their weights."""
    total = weights[-1] * min_max(all_vectors(configure("dense:ktrel").open(encoded)) @ query)
    for found, weight in zip(lists, weights):
        total[found.rows] += weight * min_max(found.first_stage_scores)
    return total


@pytest.mark.parametrize(
    "name, weight, regularized", [("hybrid", None, 300), ("hybrid+rm3", None, 500), ("hybrid+rm3", 0.8, 500)]
)
def test_scores_are_fused_after_feedback_and_regularized(encoded, name, weight, regularized):
    """From the stored vectors, in double precision: fuse, expand, move the query, fuse, regularize."""
    dense = configure("dense:ktrel").open(encoded)
    query = dense.encoder.encode(QUERY.text).astype(np.float64)
    bm25 = configure("bm25").open(encoded)
    lists, weights = [bm25.search(QUERY, 1000)], (0.2, 0.8) if weight else (0.65, 0.35)
    if name == "hybrid+rm3":
        first = fused_with_words(encoded, lists, weights, query).astype(np.float32)
        best = np.argsort(-first)[:7]
        feedback = Candidates(encoded.forward, best, first[best])
        lists.append(bm25.search_near(QUERY, feedback, terms=30, even=2, depth=1000))
        weights = (0.08, 0.12, 0.8) if weight else (0.3, 0.45, 0.25)
    best = np.argsort(-fused_with_words(encoded, lists, weights, query))[:5]
    vectors = all_vectors(dense)
    moved = query + 0.5 * vectors[best].mean(axis=0)
    expected = fused_with_words(encoded, lists, weights, moved)
    expected = plainly_regularized(expected, vectors, regularized)
    stage = configure(name, {"hybrid_weight": weight}).open(encoded)
    found = stage.search(QUERY, 20)
    assert stage.name == name and len(found) == 20
    assert found.first_stage_scores == pytest.approx(expected[found.rows], abs=1e-5)
    assert expected[found.rows].min() >= np.sort(expected)[-20] - 1e-5


@pytest.mark.parametrize(
    "encoder, weight, weights",
    [("ktrel", None, (0.35, 0.25)), ("minilm", None, (0.5, 0.35)), ("minilm", 0.2, (0.2, 0.2))],
)
def test_every_encoder_has_the_weight_it_deserves(encoder, weight, weights):
    assert configure("hybrid", {"hybrid_encoder": encoder, "hybrid_weight": weight}).weights() == weights
    assert configure("hybrid", {"hybrid_encoder": "some/folder"}).weights() == (0.35, 0.25)


@pytest.mark.parametrize("name", ["hybrid", "hybrid+rm3"])
def test_a_query_without_words_for_one_part_or_both(encoded, name):
    stage = configure(name).open(encoded)
    assert len(stage.search(Query("q", "the of"), 20)) == 20  # Lucene reads no such words
    assert len(stage.search(Query("q", "?!"), 20)) == 0


def test_the_encoder_says_where_it_knows_few_words(encoded):
    """Two unknown words, one that no document has, and one that BM25 finds."""
    for text, models in (("Nebenwirkungen der Statine", ["ktrel"]), ("Bluthochdruck", ["ktrel"]), ("heart", [])):
        for name in ("hybrid", "hybrid+rm3", "dense:ktrel"):
            assert configure(name).open(encoded).lacking_words(Query("q", text)) == models


def test_judged_queries_for_the_bundled_encoder_listen_to_the_hybrid(encoded):
    judged = [Query("one", "women and heart disease"), Query("two", "insulin in children")]
    relevant = {"one": dict.fromkeys(encoded.forward.ids.take([1, 2, 3]), 1), "two": {encoded.forward.ids[9]: 1}}
    write_judged(encoded.forward, QueryEncoder(encoded.forward, "ktrel"), [("here", judged, relevant)])
    found = [
        NeighboursConfig("ktrel", rankings=rankings).open(encoded).search(QUERY, 10)
        for rankings in ((), ("hybrid",), ("dense:ktrel",))
    ]
    own, hybrid, dense = [list(zip(one.ids, one.first_stage_scores.tolist())) for one in found]
    assert own == hybrid != dense and own


@pytest.mark.parametrize(
    "option, said",
    [("weight", "at least 0 and at most 1"), ("feedback", "at least 0"), ("feedback_weight", "at least 0")],
)
def test_wrong_options(option, said):
    for wrong in [-1] + [1.5] * (option == "weight"):
        with pytest.raises(InputError, match=said):
            configure("hybrid", {f"hybrid_{option}": wrong})


def test_an_index_without_encodings_says_how_to_make_them(index):
    with pytest.raises(InputError, match="index --encode ktrel --index"):
        configure("hybrid").open(index)


def test_lists_are_searched_like_the_whole_collection(encoded, tmp_path, monkeypatch):
    """An exhaustive search is the oracle: by all lists the hybrid is the same, and by few BM25's candidates keep their
    score by the encoder."""
    copy = Index(shutil.copytree(encoded.folder, tmp_path / "index"))
    IndexEncoder(copy.forward, "ktrel").encode(overwrite=True, lists=ListsConfig(8, probes=8, floor=0))
    oracle, stage = (configure("hybrid").open(index) for index in (encoded, copy))
    expected = oracle.search(QUERY, 40)
    hits = stage.search(QUERY, 40)
    assert hits.rows.tolist() == expected.rows.tolist()
    assert hits.first_stage_scores.tolist() == expected.first_stage_scores.tolist()
    stage.dense.probes = 1
    monkeypatch.setattr(hybrid, "FUSION_DEPTH", 4)  # fewer than a list holds
    query, words = stage.dense.read(QUERY), stage.words.search(QUERY, 4)
    near = stage.dense.nearest(query, 4, candidates=words.rows)
    alone, best = stage.dense.nearest(query, 4), oracle.dense.nearest(query, 40)
    scores = dict(zip(best.rows.tolist(), best.first_stage_scores.tolist()))
    union = sorted({*alone.rows.tolist(), *words.rows.tolist()}, key=lambda row: -scores[row])
    assert near.rows.tolist() == union[:4] and near.first_stage_scores.tolist() == [scores[row] for row in union[:4]]
    assert len(stage.search(QUERY, 4)) == 4


def test_a_search_may_expand_words_as_another_hybrid_would(encoded):
    query = Query("q", "heart-attack")
    stage, fresh = configure("hybrid").open(encoded), configure("hybrid", {"expand": "phrases"}).open(encoded)
    expanded, expected = stage.configured(expand="phrases").search(query, 20), fresh.search(query, 20)
    assert np.array_equal(expanded.rows, expected.rows)
    assert np.array_equal(expanded.first_stage_scores, expected.first_stage_scores)
    assert not np.array_equal(stage.search(query, 20).first_stage_scores, expected.first_stage_scores)
