"""What must not change a score of any registered model, on any path, and what must."""

import logging

import numpy as np
import pytest
import torch

from rerank_plugin.base.errors import InputError
from rerank_plugin.base.records import Query
from rerank_plugin.inputs.builder import Inputs
from rerank_plugin.models.encoded_path import EncodedDocuments
from rerank_plugin.models.ranking_model import EncodingModel
from rerank_plugin.models.register import entry_of
from tests import small
from tests.conformance import twins
from tests.conformance.models import (
    CASES,
    EMPTY,
    ENCODERS,
    EVERY,
    ONE_WORD,
    QUERIES,
    UNKNOWN_WORDS,
    WORD_VECTORS,
    assert_same,
    each_path,
    every_case,
    every_path,
    grown,
    has_word_vectors,
    inputs_of,
    make,
    make_own,
    opened,
    paths_of,
    rounding,
    scores_of,
)  # fmt: skip

every_reranker = each_path(EVERY + ENCODERS)
READS_QUERY_IN_ORDER = {"bert", "biobert", "conv-knrm", "duet", "encoder", "matchpyramid", "pacrr", "sevmos"}


TWINS = [case for case in CASES if entry_of(case.model).load("module").name in twins.TWINS]


@pytest.mark.parametrize("case", TWINS, ids=str)
def test_the_plain_twin_gives_the_same_from_texts(case, index, vectors):
    """By every path, also where texts are cut. The twin reads texts, word vectors and weights, and nothing else.

    Stored encodings are compared with the module elsewhere, over the vectors that their codes stand for.
    """
    few = [0, 3, EMPTY, ONE_WORD, UNKNOWN_WORDS, 8]
    for cut, some, rows in (
        ({}, [0, 3], range(len(small.DOCUMENTS))),
        ({"document_words": 5, "query_words": 3}, [0, 2, 4, 5], few),
        ({"document_words": 1}, [0], few),
    ):
        model = make_own(case, vectors, **cut)
        names = ["module"] if isinstance(model, EncodingModel) else paths_of(case.model)
        paths = [opened(model, path, index, vectors) for path in names]
        for query in [QUERIES[place] for place in some]:
            if not paths[0].can_read(paths[0].builder.query(index.query(query.text))):
                continue  # of words, to a model of concepts
            expected = twins.scores(model, index, vectors, query, small.DOCUMENTS, rows)
            for one in paths:
                assert_same(scores_of(one, query, rows), expected, 1e-5)
        assert cut or np.ptp(expected) > 0.01


@every_path
def test_more_padding(case, path, index, vectors):
    """From a model with room for the longest text alone to models with more room and the same weights."""
    read = inputs_of(opened(make(case, vectors, document_words=60, query_words=20), "module", index, vectors))
    longest, words = int(read.document_mask.sum(dim=1).max()), int(read.query_mask.sum(dim=1).max())
    tight = make(case, vectors, document_words=longest, query_words=words)
    expected = scores_of(opened(tight, "module", index, vectors))
    assert np.ptp(expected) > 0.01
    for more, more_words in ((0, 0), (1, 1), (47, 9), (200, 33)):
        room = {"document_words": longest + more, "query_words": words + more_words}
        if more > 1 and tight.config.concepts:
            room |= {"document_concepts": 200, "query_concepts": 64}
        wider = grown(tight, case, vectors, **room)
        assert_same(scores_of(opened(wider, path, index, vectors)), expected, rounding(case, path))


@every_case
def test_what_stands_in_padding_means_nothing(case, index, vectors):
    """Of the module itself: padded places hold words, terms, concepts and weights that would matter, and a full row
    keeps the others from being cut. 700 more pads change nothing either."""
    model = make(case, vectors)
    if model.any_width and not case.model.startswith("duet"):
        model = make(case, vectors, document_words=720)
    one = opened(model, "module", index, vectors)
    inputs = inputs_of(one)
    changed = {
        "documents": inputs.documents.masked_fill(~inputs.document_mask, 3),
        "document_terms": inputs.document_terms.masked_fill(~inputs.document_mask, int(inputs.query_terms[0, 1])),
        "queries": inputs.queries.masked_fill(~inputs.query_mask, 4),
        "query_terms": inputs.query_terms.masked_fill(~inputs.query_mask, int(inputs.query_terms[0, 0])),
        "query_idf": inputs.query_idf.masked_fill(~inputs.query_mask, 7.0),
    }
    if model.config.concepts:
        changed["document_concepts"] = inputs.document_concepts.masked_fill(~inputs.document_concept_mask, 3)
        changed["query_concepts"] = inputs.query_concepts.masked_fill(~inputs.query_concept_mask, 3)
    misled = inputs._replace(**changed)
    masks = {
        name: torch.ones_like(mask[:1])
        for name, mask in misled._asdict().items()
        if name.endswith("mask") and mask is not None
    }
    full = Inputs.joined([misled, misled.take(slice(0, 1))._replace(**masks)])
    with torch.inference_mode():
        expected = scores_of(one)
        assert_same(model(misled).numpy(), expected)
        assert_same(model(full).numpy()[:-1], expected)


@every_reranker
def test_other_batch_mates_orders_and_repetitions(one, case, path, reference):
    random, expected = np.random.default_rng(0), reference(case)
    for rows in [[EMPTY], [3, 0, 3], random.permutation(len(expected)), [7, 1], [5, 8, 2], *np.arange(10)[:, None]]:
        assert_same(scores_of(one, rows=rows), expected[rows], rounding(case, path))


@every_path
@pytest.mark.parametrize("batch_size", [1, 3])
def test_batch_size(case, path, index, vectors, reference, batch_size):
    one = opened(make(case, vectors), path, index, vectors, batch_size=batch_size)
    assert_same(scores_of(one), reference(case), rounding(case, path))


@every_reranker
def test_two_calls_and_other_queries_between(one, case, path, reference):
    for query in QUERIES:
        scores_of(one, query)
    assert_same(scores_of(one), reference(case), rounding(case, path))
    assert scores_of(one).tolist() == scores_of(one).tolist()


@every_reranker
def test_several_queries_at_once(one):
    """Some have no candidates, and one is left to the first stage, in its place."""
    queries = [*QUERIES[:3], Query("unread", "nowhere"), *QUERIES[3:]]
    rows = [list(range(10)), [3], [5, 1], [9, 0, 4, 2], [], [8], [7, 7]]
    found = one.score_many(queries, [small.candidates(one.builder.index, some) for some in rows])
    for query, some, scores in zip(queries, rows, found):
        assert_same(scores, scores_of(one, query, some))
    assert one.score_many([], []) == []


@every_path
def test_one_word_query(case, path, index, vectors):
    """However many slots are padded."""
    query, tight = Query("q", "aspirin"), make(case, vectors, query_words=1 if has_word_vectors(case.model) else 8)
    expected = scores_of(opened(tight, "module", index, vectors), query)
    assert np.ptp(expected) > 0.003
    for words in (1, 2, 16) if has_word_vectors(case.model) else (8, 16):
        wider = grown(tight, case, vectors, query_words=words)
        assert_same(scores_of(opened(wider, path, index, vectors), query), expected, rounding(case, path))


@every_path
def test_documents_that_are_empty_or_one_word(case, path, index, vectors):
    """Shorter than any n-gram; with and without room behind them."""
    tight = make(case, vectors, document_words=1 if has_word_vectors(case.model) else 8)
    expected = scores_of(opened(tight, "module", index, vectors), rows=[ONE_WORD, EMPTY])
    assert np.isfinite(expected).all()
    for words in (1, 2, 60) if has_word_vectors(case.model) else (8, 60):
        wider = grown(tight, case, vectors, document_words=words)
        found = scores_of(opened(wider, path, index, vectors), rows=[ONE_WORD, EMPTY])
        assert_same(found, expected, rounding(case, path))
        assert_same(scores_of(opened(wider, path, index, vectors), rows=[EMPTY]), expected[1:], rounding(case, path))


@every_reranker
def test_order_of_query_words(one, case):
    found = scores_of(one, Query("q", "aspirin women stroke"))
    turned = scores_of(one, Query("q", "stroke aspirin women"))
    matters = case.model in READS_QUERY_IN_ORDER or "bigram_overlap_text" in one.builder.feature_names
    assert (np.abs(found - turned).max() > 1e-4) == matters


@every_reranker
def test_unknown_words(one, case):
    """Models that match words tell quokka, which is in one document twice, from zyzzyva, which is there once.

    Models of word pieces know those of every word, so they tell them apart whatever the document.
    """
    found, other = (scores_of(one, Query("q", f"{word} heart")) for word in ("quokka", "zyzzyva"))
    matched = one.model.matches_unknown_words or any("title" in name for name in one.builder.feature_names)
    expected = [UNKNOWN_WORDS] * bool(matched) if has_word_vectors(case.model) else list(range(len(found)))
    assert np.flatnonzero(np.abs(found - other) > 1e-6).tolist() == expected


@every_reranker
@pytest.mark.parametrize("text", ["nowhere", "", "?! 糖尿病"])
def test_a_query_that_cannot_be_read_keeps_the_first_stage_which_is_said_once(fresh, text, caplog):
    candidates = small.candidates(fresh.builder.index, [2, 0, 1], np.array([0.5, 3.25, -1.0], np.float32))
    if (
        has_word_vectors(fresh.name) or not text or (fresh.name == "bert" and "糖" in text)
    ):  # others know some piece of it
        with caplog.at_level(logging.WARNING):
            for _ in range(2):
                found = fresh.score(Query("q7", text), candidates)
                assert found.tolist() == [0.5, 3.25, -1.0]
                found[:] = 0  # which is no array of the candidates'
        said = [record.getMessage() for record in caplog.records]
        assert len(said) == 1 and "query q7: the model knows none of its" in said[0]


@every_path
def test_a_long_query_is_cut(case, path, index, vectors):
    one = opened(make(case, vectors, query_words=2), path, index, vectors)
    short, long = (Query("q", text) for text in ("aspirin cancer", "aspirin cancer stroke women diet"))
    whole = scores_of(one, short)
    if has_word_vectors(case.model):
        if not one.builder.feature_names and one.builder.concepts is None:
            assert_same(scores_of(one, long), whole)
        said = [f"{one.name} reads the first 2 of the query's 5 words"] * one.builder.reads_words
        assert (one.unread_words(short), one.unread_words(long)) == ([], said)


@every_reranker
def test_no_candidates(one):
    assert scores_of(one, rows=[]).shape == (0,)


@pytest.fixture(scope="module")
def bare_indexes(tmp_path_factory):
    """One of no documents, and one of documents without words."""
    folder = tmp_path_factory.mktemp("bare")
    return small.build_index(folder / "none", []), small.build_index(
        folder / "wordless", [("a", "", ""), ("b", "?!", "...")]
    )


def needs_an_index_folder(case, path):
    """Models of concepts need an index with concepts, stored encodings a whole one."""
    entry = entry_of(case.model)
    from_encodings = path == "fast" and not entry.load("fast", of_module=True)
    return entry.load("config").reads_concepts(case.sizes) or from_encodings


@each_path([pair for pair in EVERY if not needs_an_index_folder(*pair)])
def test_indexes_without_documents_or_words(case, path, vectors, bare_indexes):
    """Only features and biases count."""
    model = make(case, vectors)
    none, wordless = (opened(model, path, index, vectors) for index in bare_indexes)
    assert scores_of(none).shape == (0,)
    found = scores_of(wordless)
    assert_same(found[:1], found[1:])
    assert_same(found, scores_of(opened(model, "module", bare_indexes[1], vectors)))


@each_path([(case, path) for case, path in EVERY if has_word_vectors(case.model)])
def test_weights_that_are_no_numbers_name_document_and_query(case, path, index, vectors):
    """NaN in the last of any layer's filters or units: no fast path may lose it among those it padded with zeros."""
    model = make(case, vectors)
    one = opened(model, path, index, vectors)
    stored = one.fast_class is EncodedDocuments
    for name, parameter in model.named_parameters():
        kept = parameter.detach().clone()
        with torch.no_grad():
            (parameter if parameter.ndim == 0 or name.endswith(WORD_VECTORS) else parameter[-1]).fill_(float("nan"))
        one.refresh()
        with pytest.raises(InputError, match=r"document MED-14 for query q17 as NaN") as raised:
            small.checked(one, Query("q17", "heart attack risk"), small.candidates(index, [8, 1]))
        assert "\n" not in str(raised.value) and not (stored and one.fast), name
        with torch.no_grad():
            parameter.copy_(kept)


REPORTS = ("conv-knrm", "delta", "delta-classifier", "knrm", "pacrr")  # others may take it for a dissimilar word


@each_path([(case, path) for case, path in EVERY if case.model in REPORTS])
def test_a_word_vector_that_is_no_number_is_reported(case, path, index, vectors):
    broken = vectors._replace(numbers=vectors.matrix.copy())
    broken.matrix[broken.vocabulary.ids["heart"]] = np.nan
    one = opened(make(case, broken), path, index, broken)
    with pytest.raises(InputError, match="document MED-14 for query q17"):
        small.checked(one, Query("q17", "heart risk"), small.candidates(index, [8, 1]))


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@each_path([(case, path) for case, path in EVERY if case.model.startswith("delta")])
def test_one_broken_word_is_not_hidden_by_a_maximum(tmp_path, case, path, value):
    """'broken' has a vector that is no vector. Wherever it stands among 8 words, its document is named."""
    vectors = small.word_vectors(["heart", "attack", "risk", "broken"], dimension=5, seed=1)
    vectors.matrix[vectors.vocabulary.ids["broken"], 2] = value
    documents = [("good", "attack risk attack", ""), ("short", "broken", "")]
    for place in (0, 1, 2, 3, 7):
        said = ["attack", "risk"] * 4
        said[place] = "broken"
        documents.append((f"bad{place}", " ".join(said), ""))
    index = small.build_index(tmp_path / "forward", documents)
    one, query = opened(make(case, vectors), path, index, vectors), Query("q7", "heart risk")
    assert np.isfinite(scores_of(one, query, [0])).all()
    for row in range(1, len(documents)):
        for rows in ([row], [0, row]):
            with pytest.raises(InputError, match=f"document {documents[row][0]} for query q7"):
                small.checked(one, query, small.candidates(index, rows))
