"""Similarities of words against numbers by hand and a plain twin; the distinct words of candidates against sets."""

import math
import tempfile
from pathlib import Path

import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from rerank_plugin.inputs.builder import InputBuilder, Inputs
from rerank_plugin.inputs.interactions import (
    ComparedVectors,
    candidate_words,
    cosine_matrix,
    same_words,
    similarity_table,
)
from rerank_plugin.kernels.compiling import njit
from rerank_plugin.kernels.intrinsics import prefetch_row
from rerank_plugin.kernels.parallel import Workspace
from rerank_plugin.text.vocabulary import Vocabulary
from tests import guarded, small

KNOWN = ["w0", "w1", "w2", "w3", "w4", "w5", "m0"]  # m0 is a word of the model that no document holds
OTHERS = ["x0", "x1"]  # words of the index only
WORDS = [*KNOWN[:-1], *OTHERS]
QUERY_WORDS = [*KNOWN, *OTHERS, "n0"]  # n0 is nowhere

documents_strategy = st.lists(st.lists(st.sampled_from(WORDS), max_size=12), min_size=1, max_size=8)


def build_index(folder, documents):
    """Documents as lists of words; the first half of each is its title."""
    return small.build_index(
        Path(folder) / "forward",
        [
            (f"d{number}", " ".join(words[: len(words) // 2]), " ".join(words[len(words) // 2 :]))
            for number, words in enumerate(documents)
        ],
    )


def unit(vector):
    length = math.sqrt(sum(float(x) ** 2 for x in vector))
    return [float(x) / length if length > 0 else 0.0 for x in vector]


def similarity(vectors, word, other_word):
    """Of two words by their spelling, as the module's docstring has it; ``vectors``: word to list of numbers."""
    if word == other_word:
        return 1.0
    if word not in vectors or other_word not in vectors:
        return 0.0
    return sum(a * b for a, b in zip(unit(vectors[word]), unit(vectors[other_word])))


def plain_similarities(vectors, documents, query, width, slots, anywhere):
    """[B, M, N] from spellings alone. A query word that is nowhere in the index is not even itself."""
    similarities = np.zeros((len(documents), slots, width))
    for b, document in enumerate(documents):
        for m, word in enumerate(query[:slots]):
            for n, document_word in enumerate(document[:width]):
                assert word in anywhere or word != document_word
                similarities[b, m, n] = similarity(vectors, word, document_word)
    return similarities


class Example:
    """An index, word vectors and a query, for both ways to similarities."""

    def __init__(self, folder, documents, query, width, slots, seed=0, dimension=5):
        random = np.random.default_rng(seed)
        self.documents, self.query, self.width, self.slots = documents, query, width, slots
        self.matrix = random.normal(size=(len(KNOWN) + 1, dimension)).astype(np.float32)
        self.matrix[2] = 0  # w1 has no direction
        self.matrix[4] = self.matrix[1]  # w3 and w0 are different words with the same vector
        self.matrix[5] = -3 * self.matrix[1]
        self.vectors = {word: self.matrix[place + 1] for place, word in enumerate(KNOWN)}
        self.index = build_index(folder, documents)
        self.builder = InputBuilder(self.index, Vocabulary(KNOWN), width, slots, ())
        self.terms = self.index.query(" ".join(query))
        self.words = self.builder.query(self.terms)
        self.anywhere = {word for document in documents for word in document}

    def inputs(self, candidates):
        return self.builder.build(self.terms, self.words, candidates)

    def plain(self, rows):
        return plain_similarities(
            self.vectors, [self.documents[row] for row in rows], self.query, self.width, self.slots, self.anywhere
        )

    def fused(self, candidates, workspace, threads=1):
        """The similarity table spread out as [C, M, N]."""
        words = candidate_words(self.builder, candidates, workspace)
        table = similarity_table(ComparedVectors(self.matrix), self.words, words, workspace, threads)
        assert table.shape == (len(words.terms), min(len(self.query), self.slots)) and table.dtype == np.float32
        matrices = np.zeros((len(candidates), self.slots, self.width), np.float32)
        for row, length in enumerate(words.lengths):
            matrices[row, : table.shape[1], :length] = table[words.places[row, :length]].T
        return matrices


@given(
    documents=documents_strategy,
    query=st.lists(st.sampled_from(QUERY_WORDS), max_size=6),
    width=st.integers(1, 14),
    slots=st.integers(1, 7),
    threads=st.sampled_from([1, 2]),
    data=st.data(),
)
def test_both_ways_give_what_the_plain_one_gives(documents, query, width, slots, threads, data):
    """Unknown words, words without direction, different words with one vector, repeated query words and rows; no words
    in the query, in the candidates or in the whole index."""
    with tempfile.TemporaryDirectory() as folder:
        example = Example(folder, documents, query, width, slots)
        rows = data.draw(st.lists(st.integers(0, len(documents) - 1), min_size=1, max_size=10))
        candidates = small.candidates(example.index, rows)
        expected = example.plain(rows)
        inputs = example.inputs(candidates)
        cosines = cosine_matrix(torch.from_numpy(example.matrix), inputs).numpy()
        assert cosines.shape == expected.shape
        np.testing.assert_allclose(cosines, expected, atol=2e-6)
        np.testing.assert_allclose(example.fused(candidates, Workspace(), threads), expected, atol=2e-6)
        same = np.array(
            [
                [
                    [m < len(query) and n < len(words) and query[m] == words[n] for n in range(width)]
                    for m in range(slots)
                ]
                for words in (documents[row] for row in rows)
            ]
        )
        np.testing.assert_array_equal(same_words(inputs).numpy(), same)


def test_golden_similarities():
    """cos((3,4), (4,3)) = 24/25. Query: a, an unknown word, one that is nowhere, a zero vector, padding."""
    vectors = torch.tensor([[9.0, 1.0], [3.0, 4.0], [4.0, 3.0], [0.0, 0.0]])
    inputs = Inputs(
        documents=torch.tensor([[1, 2, 0, 0, 3, 1]]),
        document_mask=torch.tensor([[True] * 5 + [False]]),
        queries=torch.tensor([[1, 0, 0, 3, 1]]),
        query_mask=torch.tensor([[True] * 4 + [False]]),
        features=torch.zeros(1, 0),
        document_terms=torch.tensor([[10, 11, 12, 13, 14, -1]]),
        query_terms=torch.tensor([[10, 12, -1, 14, -1]]),
    )
    expected = [
        [1, 0.96, 0, 0, 0, 0],
        [0, 0, 1, 0, 0, 0],  # the first unknown word is the query's; the second is another one
        [0, 0, 0, 0, 0, 0],
        [0, 0, 0, 0, 1, 0],  # without direction, but the same word
        [0, 0, 0, 0, 0, 0],
    ]
    np.testing.assert_allclose(cosine_matrix(vectors, inputs)[0].numpy(), expected, atol=1e-7)
    assert same_words(inputs)[0].numpy().tolist() == [[value == 1 for value in row] for row in expected]


def test_padding_is_not_the_same_as_padding():
    """Ids of -1 on both sides, and a query word that is nowhere: masks decide, not values."""
    inputs = Inputs(
        documents=torch.zeros(1, 3, dtype=torch.int64),
        document_mask=torch.tensor([[True, False, False]]),
        queries=torch.zeros(1, 3, dtype=torch.int64),
        query_mask=torch.tensor([[True, True, False]]),
        features=torch.zeros(1, 0),
        document_terms=torch.tensor([[4, 4, -1]]),
        query_terms=torch.tensor([[-1, 4, 4]]),
    )
    expected = [[[False] * 3, [True, False, False], [False] * 3]]
    assert same_words(inputs).tolist() == expected
    assert cosine_matrix(torch.ones(2, 4), inputs).bool().tolist() == expected


@settings(max_examples=50)
@given(documents=documents_strategy, width=st.integers(1, 14), data=st.data())
def test_distinct_words_of_candidates(documents, width, data):
    """Order of first occurrence, every place, and what lies behind N words left out; twice over one workspace."""
    with tempfile.TemporaryDirectory() as folder:
        index = build_index(folder, documents)
        builder = InputBuilder(index, Vocabulary(KNOWN), width, 3, ())
        term_of = {word: index.terms.find([word])[0] for document in documents for word in document}
        workspace = Workspace()
        for _ in range(2):
            rows = data.draw(st.lists(st.integers(0, len(documents) - 1), max_size=10))
            words = candidate_words(builder, small.candidates(index, rows), workspace)
            heads = [documents[row][:width] for row in rows]
            distinct = list(dict.fromkeys(word for head in heads for word in head))
            assert words.terms.tolist() == [term_of[word] for word in distinct]
            assert words.ids.tolist() == [KNOWN.index(word) + 1 if word in KNOWN else 0 for word in distinct]
            assert words.lengths.tolist() == [len(head) for head in heads]
            assert words.places.shape == (len(rows), width)
            for places, head in zip(words.places, heads):
                assert places[: len(head)].tolist() == [distinct.index(word) for word in head]
            dtypes = [array.dtype for array in (words.terms, words.ids, words.places, words.lengths)]
            assert dtypes == [np.int32] * 4


def large_example(folder, query=("w5", "x1", "w2", "w5", "n0", "w0"), extra=300):
    """More distinct words than one part of a split has: 300 unknown ones beside the known."""
    random = np.random.default_rng(3)
    words = [*WORDS * 10, *(f"y{number}" for number in range(extra))]
    documents = [list(random.choice(words, random.integers(0, 40))) for _ in range(60)]
    return Example(folder, documents, list(query), 25, 5, dimension=37)


def test_threads_and_earlier_queries_change_no_bit(tmp_path):
    example = large_example(tmp_path)
    candidates = small.candidates(example.index)
    expected = example.fused(candidates, Workspace())
    assert len(np.unique(expected)) > 5
    np.testing.assert_allclose(expected, example.plain(range(60)), atol=2e-6)
    for threads in (2, 3, 7):
        workspace = Workspace()
        for rows in (range(60), [7], range(59, -1, -1), [], [1, 1]):
            matrices = example.fused(small.candidates(example.index, list(rows)), workspace, threads)
            assert matrices.tobytes() == expected[list(rows)].tobytes()


def test_garbage_in_the_workspace_is_never_read(tmp_path, monkeypatch):
    """``Workspace.array`` promises arrays with any content: here NaN and -1, in them and around them."""
    example = large_example(tmp_path)
    candidates = small.candidates(example.index)
    expected = example.fused(candidates, Workspace(), 2)
    poison = guarded.Poisoned()
    monkeypatch.setattr(Workspace, "array", lambda *arguments: poison.array(*arguments))
    assert example.fused(candidates, Workspace(), 2).tobytes() == expected.tobytes()
    assert len(poison.given) >= 3 and not poison.overrun()


def test_asking_for_memory_that_is_not_there_does_no_harm():
    fetch = njit(lambda matrix, row: prefetch_row(matrix, row))
    matrix = np.zeros((2, 40), np.float32)
    for row in (0, 1, 2, -1, 10**12, -(10**12)):
        fetch(matrix, row)
    assert not matrix.any()
