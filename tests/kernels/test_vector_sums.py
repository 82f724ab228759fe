"""Sums of word vectors against KTRel's own module."""

import numpy as np
import pytest
import torch

from rerank_plugin.kernels.vector_sums import VectorSums, as_bytes
from rerank_plugin.models.document_encoder import encode_rows
from rerank_plugin.models.ktrel.model import Ktrel, KtrelConfig
from rerank_plugin.text.word_vectors import compact
from tests import small


@pytest.fixture(scope="module")
def index(tmp_path_factory):
    return small.build_index(tmp_path_factory.mktemp("sums") / "index")


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize(
    ("spaces", "words", "whole"), [((1.0,), 200, True), ((1.0, 0.5), 200, False), ((2.0, 1.0), 3, True)]
)
def test_encodings_are_those_of_the_module(index, spaces, words, whole, threads):
    vectors = small.word_vectors(small.KNOWN_WORDS, 22, seed=3)
    vectors = compact(vectors) if whole else vectors
    config = KtrelConfig(parts="words", layers=0, space_weights=spaces, document_words=words)
    model = Ktrel(config, torch.from_numpy(vectors.matrix)).eval()
    builder, rows = model.input_builder(index, vectors.vocabulary), np.array([9, 0, 4, 3, 6, 6])
    sums = VectorSums(vectors.matrix, builder.model_ids, model.words.lengths, words)
    assert sums.numbers.dtype == (np.int8 if whole else np.float32)
    found = sums.encode(*index.words(rows), threads)
    assert found == pytest.approx(encode_rows(model, builder, rows), abs=1e-6)
    assert found.dtype == np.float32 and not found[2].any() and found[0].any()  # the third has no words
    assert sums.encode(*index.words(rows[:0])).shape == (0, 22)


def test_only_scaled_bytes_are_taken_as_bytes():
    vectors = small.word_vectors(small.KNOWN_WORDS, 9, seed=1)
    assert as_bytes(vectors.matrix) is None
    small_ones = compact(vectors)
    numbers, scales = as_bytes(small_ones.matrix)
    assert numbers * scales[:, None] == pytest.approx(small_ones.matrix, rel=1e-6)
    assert np.array_equal(as_bytes(np.zeros((2, 3), np.float32))[0], np.zeros((2, 3)))
