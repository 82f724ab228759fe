"""The forward index against plain Python: of texts in batches, of the shared documents, and of many documents."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rerank_plugin.corpora import Document
from rerank_plugin.indexes.forward import idf
from rerank_plugin.indexes.segment import FIELDS, SegmentWriter
from rerank_plugin.text.tokenizer import tokenize
from tests import small


def test_idf_by_hand():
    """ln(1 + (10 - df + 0.5) / (df + 0.5)) for df 0, 1, 10: ln 22, ln(1 + 9.5 / 1.5), ln(1 + 0.5 / 10.5)."""
    assert idf(np.array([0, 1, 10]), 10).tolist() == pytest.approx([3.091042, 1.992430, 0.046520], abs=1e-6)


words = st.sampled_from("aspirin Heart heart β-catenin IL-2 0.05 12 the p53".split())
texts = st.lists(words, max_size=6).map(" ".join)


@settings(max_examples=40)
@given(st.lists(st.tuples(texts, texts), min_size=1, max_size=6))
def test_words_and_statistics_are_those_of_plain_python(tmp_path_factory, documents):
    folder = tmp_path_factory.mktemp("forward") / "forward"
    ids = [f"d{number}" for number in range(len(documents))]
    writer = SegmentWriter(folder / "segments" / "000001")
    for at in range(0, len(ids), 2):  # in batches
        writer.extend([Document(id, *texts) for id, texts in zip(ids[at : at + 2], documents[at : at + 2])])
    writer.close()
    index = small.open_segment(folder)

    parts = [(tokenize(title), tokenize(abstract)) for title, abstract in documents]
    fields = {"title": [t for t, _ in parts], "abstract": [a for _, a in parts], "text": [t + a for t, a in parts]}
    assert index.title_lengths.tolist() == [len(text) for text in fields["title"]]
    assert [index.terms.take(index.document_tokens(row)) for row in range(len(ids))] == fields["text"]
    known = sorted({word for text in fields["text"] for word in text})
    assert sorted(index.terms.take(np.arange(index.vocabulary_size))) == known
    term_ids = index.terms.find(known)
    weights = [float(idf(sum(word in text for text in fields["text"]), len(parts))) for word in known]
    np.testing.assert_allclose(index.term_weights[term_ids], weights)
    for field in FIELDS:
        frequency = index.document_frequency[field]
        assert [int(frequency[id]) for id in term_ids] == [sum(w in text for text in fields[field]) for w in known]
        assert index.unique_terms[field].tolist() == [len(set(text)) for text in fields[field]]
        total = sum(map(len, fields[field]))
        assert index.segments[0].token_counts()[field] == total and index.mean_lengths[field] == total / len(parts)


def test_rows_are_the_documents_in_their_order(index, documents):
    forward = index.forward
    ids = [document.id for document in documents]
    assert len(forward) == len(documents)
    assert forward.rows(ids).tolist() == list(range(len(ids)))
    assert forward.ids.take(np.arange(len(ids))) == ids
    assert forward.rows(["", "nobody", "MED-1000", "x.11", " 1", "É"]).tolist() == [-1] * 6
    assert forward.titles.take(np.arange(len(ids))) == [" ".join(document.title.split()) for document in documents]
    assert not len(forward.document_tokens(13))  # "!!!" and "—"
    for row, document in enumerate(documents):
        assert forward.terms.take(forward.document_tokens(row)) == tokenize(f"{document.title} {document.abstract}")


def test_a_query_has_the_terms_of_the_index(index):
    forward = index.forward
    query = forward.query("Aspirin for xylitol, 1999 TNF-α")
    assert query.terms == ["aspirin", "for", "xylitol", "<19xx>", "tnfalpha"]
    known = [forward.terms[id] if id >= 0 else None for id in query.ids]
    assert known == ["aspirin", None, None, "<19xx>", "tnfalpha"]  # the documents have no "for" and no "xylitol"
    assert forward.query("").terms == [] and forward.query(" !").ids.shape == (0,)


def test_a_collection_larger_than_the_chunks_of_the_statistics(tmp_path):
    """Statistics go over 10,000 documents at a time: 20,001 documents have two borders and a chunk of one."""
    count = 20_001
    forward = small.build_index(
        tmp_path / "forward",
        [(str(number), f"all w{number % 7}", f"all d{number}" if number % 2 else "") for number in range(count)],
    )
    everywhere, seventh, own, last = forward.terms.find(["all", "w3", "d9999", "d19999"]).tolist()
    frequency = {field: forward.document_frequency[field] for field in FIELDS}
    assert [frequency[field][everywhere] for field in FIELDS] == [count, count // 2, count]
    assert [frequency[field][seventh] for field in FIELDS] == [len(range(3, count, 7)), 0, len(range(3, count, 7))]
    assert [frequency["abstract"][id] for id in (own, last)] == [1, 1]
    assert forward.unique_terms["text"].tolist() == [3 if number % 2 else 2 for number in range(count)]
    assert forward.unique_terms["title"].tolist() == [2] * count
    assert forward.mean_lengths["abstract"] == 2 * (count // 2) / count
