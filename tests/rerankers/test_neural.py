"""What must not change a score, and what the adapter says about queries, weights and devices."""

import logging
import math

import numpy as np
import pytest
import torch

from rerank_plugin.features.inputs import InputBuilder
from rerank_plugin.features.lexical_features import LEX3
from rerank_plugin.files.errors import InputError
from rerank_plugin.files.records import Query
from rerank_plugin.indexes.candidates import Candidates
from rerank_plugin.rerankers import RerankerOptions
from rerank_plugin.rerankers.neural import NeuralReranker
from tests import small
from tests.models import plain_delta

QUERY = Query("q1", "aspirin heart attack xylitol")  # xylitol is in the index, not in the vocabulary: UNK
QUERIES = [
    QUERY,
    Query("q2", "cancer"),
    Query("q3", "Women who smoke, risk of stroke"),
    Query("q4", "migraine zyzzyva"),
]
EMPTY = [row for row, (_, title, abstract) in enumerate(small.DOCUMENTS) if not title + abstract]
TINY = dict(filters=5, dropout=0.5, document_words=30, query_words=7)

with_and_without_features = pytest.mark.parametrize("features", [(), LEX3], ids=["plain", "lex3"])


def reranker(index, vectors, batch_size=1024, **hyper_parameters):
    model = small.delta(vectors, seed=1, **{**TINY, **hyper_parameters})
    return NeuralReranker(model, vectors.vocabulary, index, RerankerOptions(batch_size=batch_size))


def scores_of(index, one, query=QUERY, rows=None):
    return one.score(query, small.candidates(index, rows))


def assert_same(found, expected):
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-6)


@pytest.fixture
def reference(index, vectors):
    """Scores of all documents for QUERY, without and with features; they differ from one another by far over 1e-6."""
    found = {features: scores_of(index, reranker(index, vectors, lexical_features=features)) for features in [(), LEX3]}
    for scores in found.values():
        assert scores.dtype == np.float32 and scores.shape == (len(index),)
        assert np.min(np.diff(np.sort(scores))) > 1e-5
    return found


@with_and_without_features
@pytest.mark.parametrize("query", QUERIES, ids=lambda query: query.id)
def test_the_plain_model_gives_the_same_from_texts(index, vectors, features, query):
    """From the text to the score: words are cut at N, unknown ones are UNK, and nothing else than text is read."""
    one = reranker(index, vectors, lexical_features=features, document_words=5, query_words=3)
    model, lookup = one.model, vectors.vocabulary.lookup
    found = scores_of(index, one, query)
    candidates = small.candidates(index)
    lexical = one.builder.features(index.query(query.text), candidates)
    words = vectors.matrix[lookup(index.query(query.text).terms[:3])]
    for row, (_, title, abstract) in enumerate(small.DOCUMENTS):
        document = vectors.matrix[lookup(index.query(f"{title} {abstract}").terms[:5])]
        expected = plain_delta.score(
            document.tolist(),
            words.tolist(),
            [(layer.weight.tolist(), layer.bias.tolist()) for layer in model.convolutions],
            [(layer.weight.tolist(), layer.bias.tolist()) for layer in model.layers],
            lexical[row],
            model.feature_mean.tolist(),
            (1 / model.feature_scale).tolist(),
        )
        assert found[row] == pytest.approx(expected, abs=1e-5)


@with_and_without_features
def test_more_padding(index, vectors, reference, features):
    """All documents have fewer than 30 words and the query fewer than 7."""
    longest = small.candidates(index).lengths.max()
    assert longest < 30
    for document_words, query_words in [(longest, 4), (31, 7), (30, 12), (200, 40)]:
        one = reranker(
            index, vectors, lexical_features=features, document_words=int(document_words), query_words=query_words
        )
        assert_same(scores_of(index, one), reference[features])


@with_and_without_features
def test_other_batch_mates(index, vectors, reference, features):
    one = reranker(index, vectors, lexical_features=features)
    random = np.random.default_rng(0)
    for _ in range(10):
        rows = random.choice(len(index), random.integers(1, len(index)), replace=False)
        assert_same(scores_of(index, one, rows=rows), reference[features][rows])


@with_and_without_features
def test_batch_of_one(index, vectors, reference, features):
    one = reranker(index, vectors, lexical_features=features)
    for row in range(len(index)):
        found = scores_of(index, one, rows=[row])
        assert found.shape == (1,)
        assert_same(found, reference[features][row : row + 1])


@with_and_without_features
def test_permuted_batch(index, vectors, reference, features):
    rows = np.random.default_rng(1).permutation(len(index))
    one = reranker(index, vectors, lexical_features=features)
    assert_same(scores_of(index, one, rows=rows), reference[features][rows])


@with_and_without_features
def test_a_document_twice_in_a_batch(index, vectors, reference, features):
    one = reranker(index, vectors, lexical_features=features)
    assert_same(scores_of(index, one, rows=[3, 0, 3]), reference[features][[3, 0, 3]])


@with_and_without_features
@pytest.mark.parametrize("batch_size", [1, 2, 7, 1024])
def test_batch_size(index, vectors, reference, features, batch_size):
    one = reranker(index, vectors, batch_size, lexical_features=features)
    assert_same(scores_of(index, one), reference[features])
    assert one.batch_size == batch_size


@pytest.mark.parametrize("batch_size", [0, -1])
def test_a_batch_size_below_one_is_refused(index, vectors, batch_size):
    with pytest.raises(InputError, match="batch"):
        reranker(index, vectors, batch_size)


@with_and_without_features
def test_two_calls_and_other_queries_between(index, vectors, reference, features):
    one = reranker(index, vectors, lexical_features=features)
    for query in QUERIES:
        scores_of(index, one, query)
    assert_same(scores_of(index, one), reference[features])


@with_and_without_features
def test_no_dropout_at_search_time(index, vectors, reference, features):
    """Dropout 0.5 moves a model in training mode; the adapter serves it in eval mode, and again after more training."""
    model = small.delta(vectors, seed=1, lexical_features=features, **TINY).train()
    one = NeuralReranker(model, vectors.vocabulary, index)
    assert_same(scores_of(index, one), reference[features])
    model.train()
    assert np.abs(scores_of(index, one) - reference[features]).max() > 1e-4
    model.eval()
    assert_same(scores_of(index, one), reference[features])


@with_and_without_features
def test_one_word_query(index, vectors, features):
    """For a query of one word every document word has the same closest word, however many slots are padded."""
    query = Query("q", "heart")
    for query_words in (1, 2, 7):
        one = reranker(index, vectors, lexical_features=features, query_words=query_words)
        found = scores_of(index, one, query)
        assert found.shape == (len(index),)
        assert_same(found, scores_of(index, reranker(index, vectors, lexical_features=features), query))


def test_repeating_a_query_word_changes_nothing_without_features(index, vectors):
    one = reranker(index, vectors)
    once = scores_of(index, one, Query("q", "heart attack"))
    assert_same(scores_of(index, one, Query("q", "heart attack heart")), once)


def test_order_of_query_words_changes_nothing_without_features(index, vectors):
    one = reranker(index, vectors)
    found = scores_of(index, one, Query("q", "aspirin women stroke"))
    assert_same(scores_of(index, one, Query("q", "stroke aspirin women")), found)


def test_empty_document(index, vectors):
    """It pools to zeros, so without features its score is the same for every query, and finite."""
    one = reranker(index, vectors)
    found = [scores_of(index, one, query, EMPTY) for query in QUERIES]
    assert all(np.isfinite(scores).all() and scores.shape == (1,) for scores in found)
    for scores in found[1:]:
        assert_same(scores, found[0])


def test_document_shorter_than_the_filter(index, vectors):
    """'Aspirin' is one word: a filter of width 5 sees it alone, with or without room for more words."""
    row = [id for id, _, _ in small.DOCUMENTS].index("a7")
    tight = scores_of(index, reranker(index, vectors, width=5, document_words=1), rows=[row])
    roomy = scores_of(index, reranker(index, vectors, width=5, document_words=50), rows=[row])
    assert_same(tight, roomy)


def test_cutting_documents_changes_scores(index, vectors, reference):
    """N is honoured: the first document has 14 words, so 3 of them give another score."""
    cut = scores_of(index, reranker(index, vectors, document_words=3), rows=[0])
    assert abs(cut[0] - reference[()][0]) > 1e-4


def test_no_candidates(index, vectors):
    found = scores_of(index, reranker(index, vectors), rows=[])
    assert found.shape == (0,) and found.dtype == np.float32


@pytest.mark.parametrize("text", ["xylitol quokka", "nowhere", "", "?!", "..."])
def test_a_query_of_unknown_words_keeps_the_first_stage(index, vectors, caplog, text):
    one = reranker(index, vectors, lexical_features=LEX3)
    first_stage = np.array([0.5, 3.25, -1.0], np.float32)
    candidates = small.candidates(index, [2, 0, 1], first_stage)
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            assert one.score(Query("q7", text), candidates).tolist() == first_stage.tolist()
    said = [record.getMessage() for record in caplog.records]
    assert len(said) == 1 and "q7" in said[0]


def test_scores_of_an_unknown_query_are_not_the_candidates_own_array(index, vectors):
    candidates = small.candidates(index)
    before = candidates.first_stage_scores.copy()
    reranker(index, vectors).score(Query("q", "quokka"), candidates)[:] = 0
    assert candidates.first_stage_scores.tolist() == before.tolist()


def test_a_long_query_is_cut_and_said_once(index, vectors, caplog):
    """Words beyond M change no score without features."""
    one = reranker(index, vectors, query_words=2)
    with caplog.at_level(logging.WARNING):
        whole = scores_of(index, one, Query("q8", "heart attack"))
        assert not caplog.records
        for query_id in ("q8", "q9"):
            assert_same(scores_of(index, one, Query(query_id, "heart attack stroke women risk")), whole)
    said = [record.getMessage() for record in caplog.records]
    assert len(said) == 1 and "q8" in said[0] and "3 words" in said[0]
    assert one.queries_cut == 2


def test_nan_weights_name_document_and_query(index, vectors):
    one = reranker(index, vectors)
    with torch.no_grad():
        one.model.layers[-1].bias.fill_(float("nan"))
    with pytest.raises(InputError) as raised:
        one.score(Query("q17", "heart"), small.candidates(index, [8, 1]))
    assert "MED-14" in str(raised.value) and "q17" in str(raised.value) and "\n" not in str(raised.value)


def test_infinite_scores_name_the_first_document_that_has_one(index, vectors):
    """A vector of 1e30 for 'migraine' overflows the distance in the one document that says it."""
    broken = vectors._replace(matrix=vectors.matrix.copy())
    broken.matrix[vectors.vocabulary.ids["migraine"]] = 1e30
    one = reranker(index, broken)
    with pytest.raises(InputError, match="document Z for query q1"):
        scores_of(index, one)


@pytest.mark.parametrize("device", ["abacus", "cuda:99", ""])
def test_unknown_device(index, vectors, device):
    with pytest.raises(InputError) as raised:
        NeuralReranker(small.delta(vectors), vectors.vocabulary, index, RerankerOptions(device))
    assert f"'{device}'" in str(raised.value) and "\n" not in str(raised.value)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@with_and_without_features
def test_gpu_scores_are_the_cpus(index, vectors, features):
    on_cpu = scores_of(index, reranker(index, vectors, lexical_features=features))
    model = small.delta(vectors, seed=1, **{**TINY, "lexical_features": features})
    one = NeuralReranker(model, vectors.vocabulary, index, RerankerOptions("cuda"))
    np.testing.assert_allclose(scores_of(index, one), on_cpu, rtol=1e-4, atol=1e-4)


def test_out_of_memory_halves_the_batch_for_good(index, vectors, reference, caplog):
    """A real model whose memory ends at three documents."""
    one = NeuralReranker(small.delta(vectors, seed=1, **TINY), vectors.vocabulary, index, RerankerOptions(fast=False))
    whole, sizes = one.model.forward, []

    def short_of_memory(inputs):
        sizes.append(len(inputs.documents))
        if len(inputs.documents) > 3:
            raise torch.OutOfMemoryError("out of memory")
        return whole(inputs)

    one.model.forward = short_of_memory
    assert_same(scores_of(index, one), reference[()])
    assert one.batch_size == 2 and max(sizes[-5:]) == 2
    sizes.clear()
    assert_same(scores_of(index, one), reference[()])
    assert sizes == [2] * 5


def test_an_index_of_empty_documents(tmp_path, vectors):
    empty = small.build_index(tmp_path / "forward", [("a", "", ""), ("b", "", "")])
    found = scores_of(empty, reranker(empty, vectors, lexical_features=LEX3))
    assert np.isfinite(found).all() and found[0] == found[1]


def test_builder_maps_words_and_masks(index, vectors):
    """The golden ids of one short document, one cut document, one empty document and a query."""
    vocabulary = vectors.vocabulary
    builder = InputBuilder(index, vocabulary, 4, 3, ())
    rows = [2, 6, 4, 0]
    ids, mask, terms, *concepts = builder.documents(Candidates(index, np.array(rows), np.zeros(4, np.float32)))
    assert concepts == [None, None]
    word = vocabulary.ids
    assert ids.tolist() == [
        [word["aspirin"], 0, 0, 0],
        [0, 0, 0, 0],  # xylitol quokka quokka xylitol: UNK
        [0, 0, 0, 0],
        [word["aspirin"], word["for"], word["heart"], word["attack"]],
    ]
    assert mask.tolist() == [[True, False, False, False], [True] * 4, [False] * 4, [True] * 4]
    term = dict(zip(index.terms.take(range(len(index.terms))), range(len(index.terms))))
    assert terms.tolist() == [
        [term["aspirin"], -1, -1, -1],
        [term["xylitol"], term["quokka"], term["quokka"], term["xylitol"]],
        [-1] * 4,
        [term["aspirin"], term["for"], term["heart"], term["attack"]],
    ]
    query = builder.query(index.query("heart nowhere risk women red"))
    assert query.ids.tolist() == [word["heart"], 0, word["risk"]] and query.mask.tolist() == [True] * 3
    assert (query.known, query.cut) == (2, 2)
    assert query.terms.tolist() == [term["heart"], -1, term["risk"]]
    # heart and risk are in 4 of the 10 documents each; a word that is nowhere has df 0
    assert query.idf.tolist() == pytest.approx(
        [math.log(1 + 6.5 / 4.5), math.log(1 + 10.5 / 0.5), math.log(1 + 6.5 / 4.5)]
    )
    short = builder.query(index.query("quokka"))
    assert short.terms.tolist() == [term["quokka"], -1, -1] and short.idf[1:].tolist() == [0, 0]
    assert (short.mask.tolist(), short.known, short.cut) == ([True, False, False], 0, 0)
