"""KTRel against numbers worked out by hand. What holds for every model is in ``tests/conformance``."""

import math

import numpy as np
import pytest
import torch

from rerank_plugin.base.errors import InputError
from rerank_plugin.inputs.builder import Inputs
from rerank_plugin.models.ktrel.config import KtrelConfig, KtrelWConfig
from rerank_plugin.models.ktrel.model import Ktrel
from rerank_plugin.rerankers.neural import NeuralReranker
from tests import small
from tests.models import encodable

# Rows whose mean is 0 and whose variance is 1, so that a normalization leaves them as they are (but for epsilon).
A, B, C = [1.0, 1.0, -1.0, -1.0], [1.0, -1.0, 1.0, -1.0], [1.0, -1.0, -1.0, 1.0]
FOUR = torch.tensor([C, A, B])  # UNK, and words 1 and 2


def silent(model):
    """Attention and feed-forward network add nothing, and the normalizations are the neutral ones."""
    with torch.no_grad():
        for part in (model.words, model.concepts):
            if part is not None:
                for name, parameter in part.layer.named_parameters():
                    parameter.fill_(1.0 if name in ("norm1.weight", "norm2.weight") else 0.0)
    return model.eval()


def sequence(*ids, padding=0):
    """Ids and mask of one sequence, [1, L]; what is padded is word 0."""
    return torch.tensor([[*ids, *[0] * padding]]), torch.tensor([[True] * len(ids) + [False] * padding])


def test_golden_equation_1():
    """Words: query A, document A + 2 B = (3,-1,1,-3): cosine 4 / (2 sqrt(20)) = 1 / sqrt(5).
    Concepts: query A, document A + B = (2,0,0,-2): cosine 4 / (2 sqrt(8)) = 1 / sqrt(2). With a = 3 and b = -2."""
    config = KtrelConfig("both", heads=2, feed_forward=3, concepts=3, concept_dimension=4)
    model = silent(Ktrel(config, FOUR, FOUR))
    with torch.no_grad():
        model.a.fill_(3)
        model.b.fill_(-2)
        words = (*sequence(2, 1, 2, padding=1), *sequence(1, padding=2), torch.zeros(1, 0), None, None, None)
        scores = model(Inputs(*words, *sequence(1, 2, padding=2), *sequence(1)))
    assert scores.tolist() == pytest.approx([3 / math.sqrt(5) - 2 / math.sqrt(2)], abs=1e-6)


def test_golden_attention():
    """Queries and keys of zero attend to all alike; values and output as they are: each item plus the mean of all.

    For A, A, B the mean is (2A + B) / 3, so A becomes (5A + B) / 3, normalized (6,4,-4,-6) / sqrt(26), and B
    (2A + 4B) / 3, normalized (6,-2,2,-6) / sqrt(20). A pad of C would turn up in the third number's balance.
    """
    model = silent(Ktrel(KtrelWConfig(heads=2, feed_forward=3), FOUR))
    with torch.no_grad():
        model.words.layer.self_attn.in_proj_weight[8:].copy_(torch.eye(4))
        model.words.layer.self_attn.out_proj.weight.copy_(torch.eye(4))
        found = model.encode_documents(*sequence(1, 1, 2, padding=3))[0].numpy()
    total = 2 * np.array([6, 4, -4, -6]) / math.sqrt(26) + np.array([6, -2, 2, -6]) / math.sqrt(20)
    np.testing.assert_allclose(found, total / np.linalg.norm(total), atol=1e-5)


def test_opposite_words_and_empty_sequences_have_no_direction():
    model = silent(Ktrel(KtrelWConfig(heads=1), torch.tensor([A, A, [-1.0, -1.0, 1.0, 1.0]])))
    with torch.no_grad():
        assert model.encode_documents(*sequence(1, 2)).abs().max() < 1e-5
        empty = model.encode_documents(*sequence(padding=3))
    assert empty.tolist() == [[0.0] * 4]


def test_a_layer_that_starts_as_the_normalizations_alone():
    """Each item is centred and brought to one variance, whatever else the layer's weights are."""
    vectors = small.word_vectors(list("abcdefgh"), 6, 1)
    config = KtrelWConfig(heads=2, identity_start=True)
    model = Ktrel(config, torch.from_numpy(vectors.matrix)).eval()
    rows = vectors.matrix[[3, 1, 5]].astype(np.float64)
    centred = rows - rows.mean(axis=1, keepdims=True)
    total = (centred / np.sqrt((centred**2).mean(axis=1, keepdims=True))).sum(axis=0)
    with torch.no_grad():
        found = model.encode_documents(*sequence(3, 1, 5))[0].numpy()
    np.testing.assert_allclose(found, total / np.linalg.norm(total), atol=1e-3)  # the normalizations' epsilon


def test_embeddings_that_start_with_length_1():
    vectors = small.word_vectors(list("abc"), 6, 1)
    start = torch.from_numpy(vectors.matrix)
    plain, unit = (Ktrel(KtrelWConfig(unit_vectors=one), start).words.embeddings for one in (False, True))
    assert torch.equal(plain, start) and not torch.allclose(plain, unit)
    np.testing.assert_allclose(unit.detach().norm(dim=1), 1, rtol=1e-6)
    np.testing.assert_allclose((unit * start.norm(dim=1, keepdim=True)).detach(), start, rtol=1e-5)


@pytest.mark.parametrize("parts", ["concepts", "both"])
def test_concepts_that_nobody_gives_are_missed(index, vectors, parts):
    model = encodable.ktrel(vectors, parts=parts, concepts=4, concept_dimension=4)
    with pytest.raises(
        InputError, match=f"the index holds no concepts: build {index.folder} with a knowledge base.*ktrel-w"
    ):
        NeuralReranker(model, vectors.vocabulary, index)
    ids, mask = sequence(1, 2)
    with pytest.raises(InputError, match="the index holds no concepts.*ktrel-w"):
        model(Inputs(ids, mask, ids, mask, torch.zeros(1, 0)))
    model.concept_vocabulary = None
    with pytest.raises(ValueError, match="concept_vocabulary"):
        NeuralReranker(model, vectors.vocabulary, index)


def test_parts_have_parameters_of_their_own(vectors):
    """KTRel-W and KTRel-C are what their name says; embeddings are trained, in copies of what they start from."""
    words = encodable.ktrel(vectors)
    concepts = encodable.ktrel(vectors, parts="concepts", concepts=4, concept_dimension=5)
    both = encodable.ktrel(vectors, parts="both", concepts=4, concept_dimension=5)
    of_words, of_concepts, of_both = (set(model.state_dict()) for model in (words, concepts, both))
    assert of_words | of_concepts == of_both and not of_words & of_concepts
    assert {"a", "words.embeddings"} <= of_words and {"b", "concepts.embeddings"} <= of_concepts
    assert (words.encoding_size, concepts.encoding_size, both.encoding_size) == (6, 5, 11)
    before = vectors.matrix.copy()
    with torch.no_grad():
        words.words.embeddings.add_(1)
    np.testing.assert_array_equal(vectors.matrix, before)


def test_shapes_that_do_not_fit():
    with pytest.raises(InputError, match="4 attention heads do not divide the 6 dimensions"):
        Ktrel(KtrelWConfig(heads=4), torch.zeros(3, 6))
    with pytest.raises(InputError, match=r"\[2, 3\], expected \[5, 4\]"):
        Ktrel(KtrelConfig("both", 1, concepts=5, concept_dimension=4), torch.zeros(3, 6), torch.zeros(2, 3))
