"""The forward index of the shared documents, built beside a real Lucene index, against plain Python."""

import math
from collections import Counter

import numpy as np
import pytest

from rerank_plugin.files.string_table import hash_strings
from rerank_plugin.indexes.forward import FIELDS, ForwardIndex, ForwardIndexWriter, idf
from rerank_plugin.text.tokenizer import tokenize


@pytest.fixture(scope="module")
def plain(documents):
    """{field: tokens of each document}, in the order of the documents."""
    titles = [tokenize(document.title) for document in documents]
    abstracts = [tokenize(document.abstract) for document in documents]
    return {"title": titles, "abstract": abstracts, "text": [one + other for one, other in zip(titles, abstracts)]}


def document_frequency(texts):
    return Counter(word for text in texts for word in set(text))


def test_rows_are_the_documents_in_their_order(index, documents):
    forward = index.forward
    ids = [document.id for document in documents]
    assert len(forward) == len(documents)
    assert forward.rows(ids).tolist() == list(range(len(ids)))
    assert forward.ids.take(np.arange(len(ids))) == ids
    assert forward.rows(["", "nobody", "MED-1000", "x.11", " 1", "É"]).tolist() == [-1] * 6
    assert forward.titles.take(np.arange(len(ids))) == [" ".join(document.title.split()) for document in documents]
    assert [sorted(ids, key=lambda id: id.encode())[rank] for rank in forward.id_ranks] == ids


def test_every_document_keeps_its_words(index, plain):
    forward = index.forward
    for row, words in enumerate(plain["text"]):
        assert forward.terms.take(forward.document_tokens(row)) == words
        assert forward.title_lengths[row] == len(plain["title"][row])
    assert not len(forward.document_tokens(13))  # "!!!" and "—"
    assert len(forward.tokens) == sum(map(len, plain["text"]))


def test_terms_are_the_words_each_once(index, plain):
    forward = index.forward
    everything = {word for words in plain["text"] for word in words}
    assert forward.vocabulary_size == len(everything)
    assert set(forward.terms.take(np.arange(forward.vocabulary_size))) == everything
    query = forward.query("Aspirin for xylitol, 1999 TNF-α")
    assert query.terms == ["aspirin", "for", "xylitol", "<19xx>", "tnfalpha"]
    assert query.ids[2] == -1 and (np.delete(query.ids, 2) >= 0).sum() == sum(
        word in everything for word in query.terms
    )
    for word, id in zip(query.terms, query.ids):
        assert id == -1 or forward.terms[id] == word
    assert forward.query("").terms == [] and forward.query(" !").ids.shape == (0,)


@pytest.mark.parametrize("field", FIELDS)
def test_statistics(index, plain, field):
    forward, texts = index.forward, plain[field]
    counted = document_frequency(texts)
    weights = {
        word: math.log(1 + (len(texts) - df + 0.5) / (df + 0.5))
        for word, df in document_frequency(plain["text"]).items()
    }
    terms = forward.terms.take(np.arange(forward.vocabulary_size))
    assert forward.document_frequency[field].tolist() == [counted[term] for term in terms]
    assert forward.unique_terms[field].tolist() == [len(set(text)) for text in texts]
    mass = [sum(weights[word] for word in set(text)) for text in texts]
    np.testing.assert_allclose(forward.idf_mass[field], mass, rtol=1e-6)
    assert forward.mean_lengths[field] == pytest.approx(sum(map(len, texts)) / len(texts), rel=1e-12)
    assert index.description["fields"][field]["tokens"] == sum(map(len, texts))


def test_idf_by_hand():
    """ln(1 + (10 - df + 0.5) / (df + 0.5)) for df 0, 1, 10: ln 22, ln(1 + 9.5 / 1.5), ln(1 + 0.5 / 10.5)."""
    assert idf(np.array([0, 1, 10]), 10).tolist() == pytest.approx([3.091042, 1.992430, 0.046520], abs=1e-6)


def test_a_collection_larger_than_the_chunks_of_the_statistics(tmp_path):
    """Statistics go over 10,000 documents at a time: 20,001 documents have two borders and a chunk of one."""
    count = 20_001
    ids = [str(number) for number in range(count)]
    titles = [f"all w{number % 7}" for number in range(count)]
    abstracts = [f"all d{number}" if number % 2 else "" for number in range(count)]
    writer = ForwardIndexWriter(tmp_path / "forward")
    writer.extend(ids, titles, abstracts, hash_strings(ids))
    writer.close_streams()
    statistics = writer.finish(np.arange(count))
    forward = ForwardIndex(tmp_path / "forward", {field: one.mean_length for field, one in statistics.items()})

    everywhere, seventh, own, last = forward.terms.find(["all", "w3", "d9999", "d19999"]).tolist()
    frequency = {field: forward.document_frequency[field] for field in FIELDS}
    assert [frequency[field][everywhere] for field in FIELDS] == [count, count // 2, count]
    assert [frequency[field][seventh] for field in FIELDS] == [len(range(3, count, 7)), 0, len(range(3, count, 7))]
    assert [frequency["abstract"][id] for id in (own, last)] == [1, 1]
    assert forward.unique_terms["text"].tolist() == [3 if number % 2 else 2 for number in range(count)]
    assert forward.unique_terms["title"].tolist() == [2] * count
    common, rare = idf(np.array([count, 1]), count)
    weights = idf(np.array([len(range(start, count, 7)) for start in range(7)]), count)
    expected = [common + weights[number % 7] + (rare if number % 2 else 0) for number in range(count)]
    np.testing.assert_allclose(forward.idf_mass["text"], expected, rtol=1e-6)
    assert statistics["text"].tokens == 2 * count + 2 * (count // 2)
    assert statistics["abstract"].mean_length == 2 * (count // 2) / count
