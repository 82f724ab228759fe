"""The device engine, run on the CPU with the same code. The scores of every model: ``tests/conformance``."""

import shutil
from copy import deepcopy

import numpy as np
import pytest
import torch

from rerank_plugin import rerankers
from rerank_plugin.base.records import Query
from rerank_plugin.indexes.collection_statistics import CollectionStatistics
from rerank_plugin.indexes.text_index import TextIndex
from rerank_plugin.inputs.lexical_features import LEX3, NAMES
from rerank_plugin.models import device_path
from rerank_plugin.rerankers import RerankerOptions
from rerank_plugin.rerankers.neural import NeuralReranker
from tests import small
from tests.conformance.models import QUERIES as WORDS
from tests.conformance.models import opened
from tests.devices import DEVICE

QUERIES = [
    Query("q0", "aspirin heart attack xylitol"),
    Query("q1", "cancer"),
    Query("q2", "Women who smoke, risk of stroke"),
    Query("q3", "migraine zyzzyva"),
    Query("q4", "aspirin aspirin for the heart in old women who smoke"),
]
ROWS = [[0], range(10), [3, 4, 8], [4], [9, 8, 7, 6, 5, 4, 3, 2, 1, 0]]


def both(index, vectors, filters=32, **options):
    """Rerankers of the same model: the plain module, and the device path on the CPU."""
    model = small.delta(vectors, seed=1, lexical_features=LEX3, document_words=9, filters=filters)
    return pair(model, index, vectors, **options)


def pair(model, index, vectors, **options):
    """The module on the CPU, and a copy on the device path."""
    return opened(model, "module", index, vectors), opened(deepcopy(model), "device", index, vectors, **options)


def scores(reranker, index, queries=QUERIES, rows=ROWS):
    return np.concatenate(reranker.score_many(queries, [small.candidates(index, query_rows) for query_rows in rows]))


def assert_close(actual, expected, tolerance=1e-5):
    assert np.ptp(expected) > 0.01
    assert np.abs(actual - expected).max() <= tolerance * np.abs(expected).max()


@pytest.mark.parametrize("batch_size", [1, 3, 10, 25, 1000])
def test_batches_change_nothing(index, vectors, batch_size):
    """Queries with different numbers of candidates, alone and in joint batches, whole and in spans."""
    plain, device = both(index, vectors, batch_size=batch_size)
    assert_close(scores(device, index), scores(plain, index))


def test_words_that_are_the_query_words_have_distance_zero(index, vectors):
    """|d|^2 + |q|^2 - 2 d.q would leave a distance of about 1e-3 of the norm in single precision."""
    plain, device = both(index, vectors._replace(numbers=vectors.matrix * 1e3))
    assert_close(scores(device, index), scores(plain, index))


def test_out_of_memory_halves_the_batch_for_good(index, vectors, monkeypatch):
    """A path that runs out of memory beyond seven documents."""
    plain, reranker = both(index, vectors, batch_size=64)
    expected, sizes = scores(plain, index), []
    device = reranker.fast_class(reranker.model, reranker.builder, reranker.options)
    reranker.fast, reranker.prepared, original = device, True, device._score

    def short_of_memory(spans):
        sizes.append(sum(part.stop - part.start for *_, part in spans))
        if sizes[-1] > 7:
            raise torch.OutOfMemoryError("out of memory")
        return original(spans)

    monkeypatch.setattr(device, "_score", short_of_memory)
    assert_close(scores(reranker, index), expected)
    assert device.batch_size == 4 and max(sizes[-5:]) <= 4
    sizes.clear()
    assert_close(scores(reranker, index), expected)
    assert max(sizes) <= 4
    device.batch_size = 1
    monkeypatch.setattr(device, "_score", lambda *_: (_ for _ in ()).throw(torch.OutOfMemoryError("none")))
    with pytest.raises(torch.OutOfMemoryError):
        scores(reranker, index)


@pytest.mark.parametrize("document_words", [9, 50])
def test_every_feature(index, vectors, document_words):
    """All features of [D18], of first-stage scores and of word vectors, whatever number of words the model reads."""
    model = small.delta(vectors, seed=2, lexical_features=NAMES, document_words=document_words, query_words=5)
    plain, device = pair(model, index, vectors)
    assert_close(scores(device, index), scores(plain, index))
    assert_close(scores(device, index, WORDS, [range(10)] * len(WORDS)), scores(plain, index, WORDS, [range(10)] * 6))


def test_batches_are_divided_into_parts(index, vectors, monkeypatch):
    """Parts of documents of similar length, and of few cells."""
    plain, device = both(index, vectors)
    expected = scores(plain, index)
    for name, value in (("LONG", 1), ("DOCUMENTS_STEP", 1), ("WORDS_STEP", 1), ("CELLS", 40)):
        monkeypatch.setattr(device_path, name, value)
    assert_close(scores(device, index), expected)


def test_words_that_do_not_stay_on_the_device(index, vectors, monkeypatch):
    monkeypatch.setattr(device_path, "resident_tokens", lambda *_: None)
    plain, device = both(index, vectors)
    assert_close(scores(device, index), scores(plain, index))


def test_texts_without_an_index(index, vectors):
    model = small.delta(vectors, seed=1, lexical_features=(*LEX3, "vector_cosine"), document_words=9)
    texts = TextIndex(CollectionStatistics.of_index(index))
    plain, device = (
        NeuralReranker(deepcopy(model), vectors.vocabulary, texts, RerankerOptions(name)) for name in ("cpu", DEVICE)
    )
    assert (plain.fast_class, device.fast_class) == (plain.entry.load("fast"), plain.entry.load("device"))
    for titles in (["Aspirin and the heart", "Women who smoke"], ["Red meat", "", "A heart attack, aspirin, stroke"]):
        texts.hold(titles, ["Low doses of aspirin prevent heart attacks."] * len(titles))
        rows = [range(len(titles))] * len(QUERIES)
        found = scores(device, texts, QUERIES, rows)
        assert_close(found, scores(plain, texts, QUERIES, rows))
        alone = []
        for title in titles:
            texts.hold([title], ["Low doses of aspirin prevent heart attacks."])
            alone.append(scores(device, texts, QUERIES, [[0]] * len(QUERIES)))
        assert_close(np.stack(alone, axis=1).ravel(), found)


def test_a_word_that_a_document_repeats_counts_in_its_field(index, vectors):
    """More often than single precision counts words of two fields in one number."""
    model = small.delta(vectors, seed=1, lexical_features=NAMES, document_words=9)
    texts = TextIndex(CollectionStatistics.of_index(index))
    plain, device = (
        NeuralReranker(deepcopy(model), vectors.vocabulary, texts, RerankerOptions(name)) for name in ("cpu", DEVICE)
    )
    many = "aspirin " * 4097
    texts.hold(["Aspirin", many, "Heart", many], [many, "Heart attacks.", many, many])
    assert_close(scores(device, texts, QUERIES, [range(4)] * 5), scores(plain, texts, QUERIES, [range(4)] * 5))


# Two words of each query are almost equally far from a word of the bundled vectors: the order of the sums decides which
# is closer in single precision.
NEAR_TIES = {
    "Reducing Arsenic in Chicken and Rice": "pantotrophus",
    "Colon Cancer Prevention: Is it the Fiber or the Phytates?": "leukophereses",
    "Does Antioxidant Intake Matter for Stroke and Heart Disease?": "ulk1",
    "Is buying organic worth it? A review of the science in new DVD": "experienced leukophereses",
    "Food Manufacturers Get to Decide if Their Own Additives Are Safe": "warning",
    "Meat Industry Wins Right to Sell Tainted Meat": "confusing",
    "Are Multivitamins Just a Waste of Money?": "f4",
    "The Vitamin Everyone on a Plant-Based Diet Needs": "atopic",
}


def test_near_ties_are_decided_alike(index):
    """The closest query word by the module, the fast path on the CPU, and the device engine."""
    options = RerankerOptions(fast=False), RerankerOptions(), RerankerOptions(DEVICE)
    texts = TextIndex(CollectionStatistics.of_index(index))
    texts.hold(list(NEAR_TIES.values()), [""] * len(NEAR_TIES))
    found = [
        np.stack([scorer.score(Query("q", text), small.candidates(texts)) for text in NEAR_TIES])
        for scorer in (rerankers.load("delta", texts, one) for one in options)
    ]
    for actual in found[1:]:
        assert_close(actual, found[0])


def test_half_precision_changes_scores_a_little(index, vectors):
    plain, device = both(index, vectors, precision="bfloat16")
    actual, expected = scores(device, index), scores(plain, index)
    assert_close(actual, expected, tolerance=0.1)
    assert np.abs(actual - expected).max() > 1e-4 * np.abs(expected).max()


@pytest.mark.skipif(shutil.which("g++") is None, reason="torch.compile needs a C++ compiler on the CPU")
def test_compiled(index, vectors):
    plain, device = both(index, vectors, filters=4, compile=True)
    actual, expected = (
        np.concatenate([scores(one, index, [query], [range(10)]) for query in QUERIES[:2]]) for one in (device, plain)
    )
    assert_close(actual, expected)
