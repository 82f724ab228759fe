"""Explanations of searches and of texts: they agree with the hits, point at the words, and say truly why one moved."""

import json

import numpy as np
import pytest

import rerank_plugin as rp
from rerank_plugin.ranking import pipeline
from rerank_plugin.ranking.explanation import compared_place, explain, sentence
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
        explanation = searcher.explain(QUERY, hit.docid)
        contributions = sum(word.contribution for word in explanation.document_words) + sum(
            part.contribution for part in explanation.features
        )
        assert abs(explanation.base + contributions - hit.score) == pytest.approx(explanation.error, abs=1e-9)
        assert explanation.error <= (1e-5 if explanation.exact else 1e-5 + 0.01 * abs(hit.score - explanation.base))
        assert explanation.exact == (searcher.reranker.name != "delta") and explanation.adds_up == "document_words"
        assert (explanation.rank, explanation.first_stage_rank, explanation.score) == (
            hit.rank,
            hit.first_stage_rank,
            hit.score,
        )
        assert (explanation.title, explanation.abstract, explanation.metadata or None) == stored[hit.docid][1:]
        for word in explanation.document_words:
            assert getattr(explanation, word.field)[word.start : word.end] == word.text != ""
        for word in explanation.query_words:
            assert QUERY[word.start : word.end] == word.text
        json.dumps(explanation.as_json(), allow_nan=False)
        assert explanation.as_json().keys() == CONTRACT and explanation.as_json()["query"] == {"text": QUERY}
        if explanation.matrix:
            assert {len(row) for row in explanation.matrix} == {len(explanation.document_words)}
            assert len(explanation.matrix) == len(explanation.query_words)


def test_bm25_by_hand(index):
    """Two words of the title, of which one stands there twice; what other words add is nothing."""
    documents = len(index)
    with rp.Searcher(index, reranker="bm25-title") as searcher:
        explanation = searcher.explain("heart aspirin heart", "7")  # Aspirin, aspirin and again aspirin
        frequency = sum("aspirin" in index.forward.titles[row].lower() for row in range(documents))
        norm = 2.0 * (0.25 + 0.75 * 5 / index.forward.mean_lengths["title"])
        weight = np.log(1 + (documents - frequency + 0.5) / (frequency + 0.5))
        added = weight * 3 * 3.0 / (3 + norm)
    assert [word.contribution for word in explanation.query_words] == pytest.approx([0, added, 0])
    contributions = [(word.text, word.contribution) for word in explanation.document_words if word.contribution]
    assert contributions == [(word, pytest.approx(added / 3)) for word in ("Aspirin", "aspirin", "aspirin")]
    assert [word.closest for word in explanation.document_words][:3] == [1, 1, None]


def test_rerankers_that_do_not_tell_and_the_first_stage(index):
    with rp.Searcher(index, reranker=ByLength()) as searcher:
        docid = searcher.search(QUERY, k=1)[0].docid
        explanation = searcher.explain(QUERY, docid)
        assert explanation.adds_up is None and explanation.base == explanation.score and explanation.error == 0
        assert "by-length does not say" in explanation.sentence
        assert {word.contribution for word in explanation.document_words} == {None}
        assert {word.text.lower() for word in explanation.document_words if word.closest is not None} <= set(
            QUERY.split()
        )
    with rp.Searcher(index) as bm25:
        assert bm25.explain(QUERY, docid).sentence.startswith("bm25 has it at ")


@pytest.mark.parametrize("docid", ["nowhere", "MED-200", 7, None])
def test_what_is_no_candidate_has_no_explanation(index, docid):
    with rp.Searcher(index, reranker="bm25-title") as searcher, pytest.raises(rp.InputError, match="none of the"):
        searcher.explain("zika", docid)


def test_without_the_stored_text_the_words_of_the_index_are_shown(index):
    candidates = LuceneConfig().open(index).search(rp.Query("q", "anti TNF-α"), 10)
    ranking = pipeline.rank(rp.Query("q", "anti TNF-α"), candidates, None)
    another_document = rp.Document("200", "Another title", "and another text")
    for document in (None, another_document):
        place = candidates.ids.index("200")
        explanation = explain(ranking, place, None, "bm25", document)
        assert explanation.title == "tnfalpha blockade" and explanation.abstract.startswith(
            "anti tnfalpha antibodies in crohn"
        )
        assert all(
            getattr(explanation, word.field)[word.start : word.end] == word.text for word in explanation.document_words
        )


def test_texts_are_explained_as_documents_of_an_index(index, documents):
    about_stroke = [document for document in documents if "stroke" in document.abstract.lower()][:3]
    texts = [{"title": document.title, "text": document.abstract} for document in about_stroke]
    scores = np.linspace(4, 2, len(about_stroke))
    in_index, of_texts = rp.Reranker.load("delta", index), rp.Reranker.load("delta", statistics=index)
    ids = [document.id for document in about_stroke]
    for place, document in enumerate(about_stroke):
        of_document = in_index.explain("stroke after migraine", ids, document.id, first_stage_scores=scores)
        of_text = of_texts.explain("stroke after migraine", texts, place, first_stage_scores=scores)
        assert of_document.title == of_text.title == document.title and of_document.rank == of_text.rank
        assert [word.contribution for word in of_document.document_words] == pytest.approx(
            [word.contribution for word in of_text.document_words], abs=1e-4
        )
        assert [part.contribution for part in of_document.features] == pytest.approx(
            [part.contribution for part in of_text.features], abs=1e-4
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
    assert compared_place(np.array(order), place) == rival


def test_the_sentence_names_the_largest_differences(index):
    """Recomputed from the parts of the two documents: what is named is what differs most, in the direction moved."""
    query = "aspirin for heart failure"
    with rp.Searcher(index, reranker="bm25-title") as searcher:
        hits = searcher.search(query, k=6)
        moved = {hit.docid: hit for hit in hits if hit.rank != hit.first_stage_rank}
        assert moved
        for hit in moved.values():
            explanation = searcher.explain(query, hit.docid)
            up = hit.rank < hit.first_stage_rank
            assert explanation.sentence.startswith(
                f"Moved {'up' if up else 'down'} from {hit.first_stage_rank} to {hit.rank}."
            )
            rival = next((other for other in hits if f"Compared with {other.docid}, " in explanation.sentence), None)
            if rival is None:
                assert (
                    "Compared with" in explanation.sentence
                    or "has the same score, and of equal" in explanation.sentence
                )
                continue
            assert (rival.first_stage_rank < hit.first_stage_rank) == up == (rival.rank > hit.rank)
            other = searcher.explain(query, rival.docid)
            differences = [
                one.contribution - two.contribution for one, two in zip(explanation.query_words, other.query_words)
            ]
            largest = int(np.argmax(differences) if up else np.argmin(differences))
            reasons = explanation.sentence.partition(" most by ")[2]
            assert reasons.startswith(f"'{explanation.query_words[largest].text}' ({differences[largest]:+.2g}")
            assert sentence(explanation, other, "bm25") == explanation.sentence
