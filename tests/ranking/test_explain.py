"""Explanations of searches and of texts: they agree with the hits, point at the words, and say truly why one moved."""

import json

import numpy as np
import pytest

import rerank_plugin as rp
from rerank_plugin.ranking import pipeline
from rerank_plugin.ranking.explain import explain
from rerank_plugin.ranking.movement import rival_of, sentence
from rerank_plugin.retrieval.lucene import LuceneConfig
from tests.ranking.scorers import ByLength

QUERY = "aspirin for heart failure in women"
CONTRACT = {
    "query", "docid", "reranker", "title", "abstract", "rank", "score", "first_stage_rank", "first_stage_score",
    "sentence", "base", "exact", "error", "adds_up", "query_words", "document_words", "features", "matrix",
    "matrix_name", "pooled", "unread", "metadata",
}  # fmt: skip


@pytest.fixture(scope="module", params=["delta", "ktrel", "bm25-title", "bm25-abstract", "qld-title", "docid"])
def searcher(request, index):
    with rp.Searcher(index, reranker=request.param) as opened:
        yield opened


def test_the_parts_add_up_to_the_score_of_the_hit(searcher, documents):
    stored = {document.id: document for document in documents}
    for hit in searcher.search(QUERY, k=6):
        found = searcher.explain(QUERY, hit.docid)
        added = sum(word.contribution for word in found.document_words) + sum(
            one.contribution for one in found.features
        )
        assert abs(found.base + added - hit.score) == pytest.approx(found.error, abs=1e-9)
        assert found.error <= (1e-5 if found.exact else 1e-5 + 0.01 * abs(hit.score - found.base))
        assert found.exact == (searcher.reranker.name != "delta") and found.adds_up == "document_words"
        assert (found.rank, found.first_stage_rank, found.score) == (hit.rank, hit.first_stage_rank, hit.score)
        assert (found.title, found.abstract, found.metadata or None) == stored[hit.docid][1:]
        for word in found.document_words:
            assert getattr(found, word.field)[word.start : word.end] == word.text != ""
        for word in found.query_words:
            assert QUERY[word.start : word.end] == word.text
        json.dumps(found.as_json(), allow_nan=False)
        assert found.as_json().keys() == CONTRACT and found.as_json()["query"] == {"text": QUERY}
        if found.matrix:
            assert {len(row) for row in found.matrix} == {len(found.document_words)}
            assert len(found.matrix) == len(found.query_words)


def test_bm25_by_hand(index):
    """Two words of the title, of which one stands there twice; what other words add is nothing."""
    documents = len(index)
    with rp.Searcher(index, reranker="bm25-title") as searcher:
        found = searcher.explain("heart aspirin heart", "7")  # Aspirin, aspirin and again aspirin
        frequency = sum("aspirin" in index.forward.titles[row].lower() for row in range(documents))
        norm = 2.0 * (0.25 + 0.75 * 5 / index.forward.mean_lengths["title"])
        weight = np.log(1 + (documents - frequency + 0.5) / (frequency + 0.5))
        added = weight * 3 * 3.0 / (3 + norm)
    assert [word.contribution for word in found.query_words] == pytest.approx([0, added, 0])
    contributions = [(word.text, word.contribution) for word in found.document_words if word.contribution]
    assert contributions == [(word, pytest.approx(added / 3)) for word in ("Aspirin", "aspirin", "aspirin")]
    assert [word.closest for word in found.document_words][:3] == [1, 1, None]


def test_rerankers_that_do_not_tell_and_the_first_stage(index):
    with rp.Searcher(index, reranker=ByLength()) as searcher:
        docid = searcher.search(QUERY, k=1)[0].docid
        found = searcher.explain(QUERY, docid)
        assert found.adds_up is None and found.base == found.score and found.error == 0
        assert "by-length does not say" in found.sentence
        assert {word.contribution for word in found.document_words} == {None}
        assert {word.text.lower() for word in found.document_words if word.closest is not None} <= set(QUERY.split())
    with rp.Searcher(index) as bm25:
        assert bm25.explain(QUERY, docid).sentence.startswith("bm25 has it at ")


@pytest.mark.parametrize("docid", ["nowhere", "MED-200", 7, None])
def test_what_is_no_candidate_has_no_explanation(index, docid):
    with rp.Searcher(index, reranker="bm25-title") as searcher, pytest.raises(rp.InputError, match="none of the"):
        searcher.explain("zika", docid)


def test_without_the_stored_text_the_words_of_the_index_are_shown(index):
    candidates = LuceneConfig().open(index).search(rp.Query("q", "anti TNF-α"), 10)
    ranking = pipeline.rank(rp.Query("q", "anti TNF-α"), candidates, None)
    other = rp.Document("200", "Another title", "and another text")
    for document in (None, other):
        place = candidates.ids.index("200")
        found = explain(ranking, place, None, "bm25", document)
        assert found.title == "tnfalpha blockade" and found.abstract.startswith("anti tnfalpha antibodies in crohn")
        assert all(getattr(found, word.field)[word.start : word.end] == word.text for word in found.document_words)


def test_texts_are_explained_as_documents_of_an_index(index, documents):
    given = [document for document in documents if "stroke" in document.abstract.lower()][:3]
    texts = [{"title": document.title, "text": document.abstract} for document in given]
    scores = np.linspace(4, 2, len(given))
    in_index, of_texts = rp.Reranker.load("delta", index), rp.Reranker.load("delta", statistics=index)
    ids = [document.id for document in given]
    for place, document in enumerate(given):
        one = in_index.explain("stroke after migraine", ids, document.id, first_stage_scores=scores)
        other = of_texts.explain("stroke after migraine", texts, place, first_stage_scores=scores)
        assert one.title == other.title == document.title and one.rank == other.rank
        assert [word.contribution for word in one.document_words] == pytest.approx(
            [word.contribution for word in other.document_words], abs=1e-4
        )
        assert [part.contribution for part in one.features] == pytest.approx(
            [part.contribution for part in other.features], abs=1e-4
        )
    for wrong in (-1, len(texts), "0"):
        with pytest.raises(rp.InputError, match="give a place"):
            of_texts.explain("stroke", texts, wrong)


@pytest.mark.parametrize(
    ("order", "place", "rival"),
    [
        ([0, 1, 2], 1, None),
        ([2, 1, 0], 2, 0),  # overtook 0 and 1, of which 0 was first
        ([2, 0, 1], 0, 2),
        ([3, 2, 0, 1], 1, 3),  # overtaken by 3 and 2, of which 3 is first now
        ([3, 2, 0, 1], 2, 0),
    ],
)
def test_whom_a_document_is_compared_with(order, place, rival):
    assert rival_of(np.array(order), place) == rival


def test_the_sentence_names_the_largest_differences(index):
    """Recomputed from the parts of the two documents: what is named is what differs most, in the direction moved."""
    query = "aspirin for heart failure"
    with rp.Searcher(index, reranker="bm25-title") as searcher:
        hits = searcher.search(query, k=6)
        moved = {hit.docid: hit for hit in hits if hit.rank != hit.first_stage_rank}
        assert moved
        for hit in moved.values():
            found = searcher.explain(query, hit.docid)
            up = hit.rank < hit.first_stage_rank
            assert found.sentence.startswith(
                f"Moved {'up' if up else 'down'} from {hit.first_stage_rank} to {hit.rank}."
            )
            rival = next((other for other in hits if f"Compared with {other.docid}, " in found.sentence), None)
            if rival is None:
                assert "Compared with" in found.sentence or "has the same score, and of equal" in found.sentence
                continue
            assert (rival.first_stage_rank < hit.first_stage_rank) == up == (rival.rank > hit.rank)
            other = searcher.explain(query, rival.docid)
            differences = [
                one.contribution - two.contribution for one, two in zip(found.query_words, other.query_words)
            ]
            largest = int(np.argmax(differences) if up else np.argmin(differences))
            said = found.sentence.partition(" most by ")[2]
            assert said.startswith(f"'{found.query_words[largest].text}' ({differences[largest]:+.2g}")
            assert sentence(found, other, "bm25") == found.sentence
