"""KTRel against numbers worked out by hand and against its plain twin."""

import math

import numpy as np
import pytest
import torch

from rerank_plugin import rerankers
from rerank_plugin.features.inputs import Inputs
from rerank_plugin.files.errors import InputError
from rerank_plugin.files.records import Query
from rerank_plugin.models import checkpoints
from rerank_plugin.models.ktrel.model import Ktrel, KtrelConfig, KtrelWConfig
from rerank_plugin.rerankers.neural import NeuralReranker
from rerank_plugin.training.losses import pairwise_hinge
from tests import small
from tests.models import encodable, plain_ktrel

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
        queries = model.encode_queries(*sequence(1, padding=2), *sequence(1))
        documents = model.encode_documents(*sequence(2, 1, 2, padding=1), *sequence(1, 2, padding=2))
    assert queries.shape == documents.shape == (1, 8) and model.encoding_size == 8
    expected = 3 / math.sqrt(5) - 2 / math.sqrt(2)
    assert (queries * documents).sum().item() == pytest.approx(expected, abs=1e-6)
    assert model.score_encodings(queries, documents).tolist() == pytest.approx([expected], abs=1e-6)


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


def test_golden_feed_forward():
    """One inner unit reads the first two numbers: 2 for A, 0 for B and, by ReLU, for what is negative.

    It adds (1,-1,0,0) times itself: A becomes (3,-1,-1,-1), of mean 0 and variance 3; B stays.
    """
    model = silent(Ktrel(KtrelWConfig(heads=1, feed_forward=1), FOUR))
    with torch.no_grad():
        model.words.layer.linear1.weight.copy_(torch.tensor([[1.0, 1.0, 0.0, 0.0]]))
        model.words.layer.linear2.weight.copy_(torch.tensor([[1.0], [-1.0], [0.0], [0.0]]))
        found = model.encode_documents(*sequence(1, 2))[0].numpy()
    total = np.array([3, -1, -1, -1]) / math.sqrt(3) + np.array(B)
    np.testing.assert_allclose(found, total / np.linalg.norm(total), atol=1e-5)


def test_opposite_words_and_empty_sequences_have_no_direction():
    model = silent(Ktrel(KtrelWConfig(heads=1), torch.tensor([A, A, [-1.0, -1.0, 1.0, 1.0]])))
    with torch.no_grad():
        assert model.encode_documents(*sequence(1, 2)).abs().max() < 1e-5
        empty = model.encode_documents(*sequence(padding=3))
    assert empty.tolist() == [[0.0] * 4]


CONFIGURATIONS = [
    # parts, heads (0 for no layer), feed_forward, D of words, D of concepts, L
    ("words", 1, 1, 1, 1, 1),
    ("words", 2, 7, 6, 2, 9),
    ("concepts", 3, 5, 3, 6, 7),
    ("both", 2, 4, 8, 4, 12),
    ("both", 5, 20, 10, 5, 5),
    ("both", 0, 1, 7, 3, 9),
]


@pytest.mark.parametrize("configuration", CONFIGURATIONS, ids=str)
@pytest.mark.parametrize("seed", [0, 1])
def test_agrees_with_the_plain_one(configuration, seed):
    """Padded ids are any words at all, only the mask says what counts; there are empty, full and one-word sequences."""
    parts, heads, feed_forward, dimension, concept_dimension, longest = configuration
    random = np.random.default_rng([seed, heads, feed_forward])
    vectors = small.word_vectors(list("abcdefgh"), dimension, seed)
    concepts = torch.from_numpy(random.normal(size=(6, concept_dimension)).astype(np.float32))
    model = encodable.ktrel(
        vectors, seed, None if parts == "words" else concepts, parts=parts, heads=max(heads, 1),
        layers=int(heads > 0), feed_forward=feed_forward,
        concepts=0 if parts == "words" else 6, concept_dimension=concept_dimension,
    )  # fmt: skip

    def sequences(count):
        lengths = random.integers(0, longest + 1, 8)
        lengths[:3] = [0, 1, longest]
        random.shuffle(lengths)
        return (
            torch.from_numpy(random.integers(0, count, (8, longest))),
            torch.from_numpy(np.arange(longest) < lengths[:, None]),
        )

    words, query_words, concept_ids, query_concepts = sequences(9), sequences(9), sequences(6), sequences(6)
    with torch.no_grad():
        queries = model.encode_queries(*query_words, *query_concepts)
        documents = model.encode_documents(*words, *concept_ids)
        scores = model.score_encodings(queries, documents).numpy()
    expected = []
    for row in range(8):
        read = []
        for part, factor, query, document in (
            (model.words, "a", query_words, words),
            (model.concepts, "b", query_concepts, concept_ids),
        ):
            if part is not None:
                table = part.embeddings.detach().numpy()
                rows = [table[ids[row][mask[row]].numpy()] for ids, mask in (query, document)]
                read.append((getattr(model, factor).item(), *rows, plain_ktrel.layer_of(part.layer), heads))
        expected.append(plain_ktrel.score(read))
    if dimension > 1:  # one number is normalized to nothing but its bias
        assert np.ptp(expected) > 0.1
    np.testing.assert_allclose(scores, expected, rtol=0, atol=1e-5 * max(1, np.abs(expected).max()))


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


def test_embedding_dropout_is_for_training_alone():
    vectors = small.word_vectors(list("abcdefgh"), 6, 1)
    model = Ktrel(KtrelWConfig(layers=0, embedding_dropout=0.5), torch.from_numpy(vectors.matrix))
    first, second = (model.encode_documents(*sequence(1, 2, 3)) for _ in range(2))
    assert not torch.equal(first, second)
    first, second = (model.eval().encode_documents(*sequence(1, 2, 3)) for _ in range(2))
    assert torch.equal(first, second)


def test_forward_is_the_inner_product_of_the_word_encodings(vectors):
    model = encodable.ktrel(vectors, heads=2)
    random = np.random.default_rng(0)
    ids, query_ids = (torch.from_numpy(random.integers(0, len(vectors.matrix), (4, n))) for n in (9, 3))
    mask, query_mask = ids >= 3, query_ids >= 0
    with torch.no_grad():
        found = model(Inputs(ids, mask, query_ids, query_mask, torch.zeros(4, 0)))
        words, query = model.words(ids, mask), model.words(query_ids, query_mask)
    torch.testing.assert_close(found, model.a * (words * query).sum(dim=1))
    torch.testing.assert_close(found, model.a * torch.nn.functional.cosine_similarity(words, query))


@pytest.mark.parametrize("parts", ["concepts", "both"])
def test_concepts_that_nobody_gives_are_missed(index, vectors, parts):
    model = encodable.ktrel(vectors, parts=parts, concepts=4, concept_dimension=4)
    with pytest.raises(InputError, match=f"the index holds no concepts: build {index.folder.parent}.*ktrel-w"):
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


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"parts": "title"}, "'title'"),
        ({"heads": 0}, "at least 1"),
        ({"feed_forward": 0}, "at least 1"),
        ({"document_words": 0}, "at least 1"),
        ({"query_words": 0}, "at least 1"),
        ({"document_concepts": 0}, "at least 1"),
        ({"query_concepts": 0}, "at least 1"),
        ({"dropout": 1.0}, "dropout 1.0"),
        ({"embedding_dropout": -0.1}, "dropout -0.1"),
        ({"layers": 2}, "one transformer layer, or none, not 2"),
        ({"parts": "both"}, "0 concepts"),
        ({"parts": "concepts"}, "0 concepts"),
        ({"concepts": 3}, "3 concepts"),
        ({"lexical_features": ("bm25_title",)}, "no lexical features"),
    ],
)
def test_wrong_hyper_parameters(wrong, said):
    with pytest.raises(InputError, match=said):
        KtrelWConfig(**wrong)


def test_shapes_that_do_not_fit():
    with pytest.raises(InputError, match="4 attention heads do not divide the 6 dimensions"):
        Ktrel(KtrelWConfig(heads=4), torch.zeros(3, 6))
    with pytest.raises(InputError, match=r"\[2, 3\], expected \[5, 4\]"):
        Ktrel(KtrelConfig("both", 1, concepts=5, concept_dimension=4), torch.zeros(3, 6), torch.zeros(2, 3))


def test_a_saved_model_scores_the_same(index, vectors, tmp_path):
    """The checkpoint's embeddings are the trained ones, not the word vectors that lie beside them."""
    model = encodable.ktrel(vectors, heads=3)
    with torch.no_grad():
        model.words.embeddings.mul_(-1.5)
    checkpoints.save_checkpoint(tmp_path / "c", model, vectors, {})
    query, candidates = Query("q", "women who smoke, risk of stroke"), small.candidates(index)
    expected = encodable.module_reranker(model, vectors, index).score(query, candidates)
    one = rerankers.load(f"ktrel:{tmp_path / 'c'}", index)
    found = one.score(query, candidates)
    assert np.ptp(expected) > 0.1
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-6)
    np.testing.assert_array_equal(one.model.words.embeddings.detach().numpy(), vectors.matrix * np.float32(-1.5))


def test_training_lowers_the_loss(index, vectors):
    """Every document with 'risk' should win over every one without, by the paper's loss and optimizer."""
    torch.manual_seed(0)
    model = Ktrel(KtrelWConfig(heads=2, feed_forward=10, dropout=0.0), torch.from_numpy(vectors.matrix))
    one = encodable.module_reranker(model, vectors, index)
    terms, candidates = index.query("risk of stroke"), small.candidates(index)
    inputs = one.builder.build(terms, one.builder.query(terms), candidates)
    wanted = (inputs.document_terms == terms.ids[0]).any(dim=1)
    assert 2 < wanted.sum() < 8
    start = {name: parameter.detach().clone() for name, parameter in model.named_parameters()}
    optimizer = torch.optim.Adam(model.parameters(), 0.01)
    losses = []
    for _ in range(40):
        scores = model.train()(inputs)
        better, worse = torch.cartesian_prod(scores[wanted], scores[~wanted]).T
        loss = pairwise_hinge(better, worse, torch.ones_like(better))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0] / 4
    assert all((parameter != start[name]).any() for name, parameter in model.named_parameters())
