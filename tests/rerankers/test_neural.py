"""Neural rerankers: devices, memory, changed weights and modes. Tests of every model: ``tests/conformance``."""

import math

import numpy as np
import pytest
import torch

from rerank_plugin.base.errors import InputError
from rerank_plugin.inputs.builder import InputBuilder
from rerank_plugin.inputs.lexical_features import LEX3
from rerank_plugin.models.delta.model import Delta
from rerank_plugin.rerankers import RerankerOptions
from rerank_plugin.rerankers.neural import NeuralReranker
from tests import small
from tests.conformance.models import Case, assert_same, inputs_of, make, opened, scatter, scores_of

CASE = Case("delta", {"filters": 6, "document_words": 20, "lexical_features": LEX3})


def pair(index, vectors, seed=1, **hyper):
    """A model, its reranker on the fast path, and its reranker on the module."""
    own = vectors._replace(numbers=vectors.matrix.copy())  # the model shares the matrix, and some tests change it
    model = make(CASE, own, seed, **hyper)
    return model, *(opened(model, path, index, vectors, threads=2) for path in ("fast", "module"))


# ---------------------------------------------------------------------------------------------------- changed weights


def load_by_assignment(model):
    donor = scatter(Delta(model.config, model.vectors), 99)
    model.load_state_dict(donor.state_dict(), assign=True)


def replace_the_vectors(model):
    model.vectors = model.vectors.flip(1).clone()


def edit_the_vectors(model):
    model.vectors[1:] *= 2


def new_statistics(model):
    count = len(model.config.lexical_features)
    model.set_feature_statistics(torch.full((count,), -1.0), torch.full((count,), 0.25))


@pytest.mark.parametrize("change", [load_by_assignment, replace_the_vectors, edit_the_vectors, new_statistics])
def test_changed_weights_change_the_fused_scores(index, vectors, change):
    """After a refresh the fast path uses the new weights."""
    model, fused, plain = pair(index, vectors)
    before = scores_of(fused)
    change(model)
    fused.refresh()
    expected = scores_of(plain)
    assert np.abs(expected - before).max() > 1e-3
    assert_same(scores_of(fused), expected, 1e-5)


def test_without_a_change_nothing_is_made_again(index, vectors):
    """The next query reuses the fast path, and a needless refresh does not change scores."""
    _, fused, _ = pair(index, vectors)
    first, path = scores_of(fused).tobytes(), fused.fast
    assert scores_of(fused).tobytes() == first and fused.fast is path
    fused.refresh()
    assert scores_of(fused).tobytes() == first


def test_a_batch_in_training_mode_is_noticed(index, vectors):
    """An optimizer's step follows, and fused optimizers change weights without a version count."""
    model, fused, plain = pair(index, vectors, dropout=0.5)
    seen, inputs = [scores_of(fused)], inputs_of(plain)
    for _ in range(3):
        model.train()(inputs).sum().backward()
        torch.optim.SGD(model.parameters(), lr=0.05, fused=True).step()
        model.eval()
        seen.append(scores_of(fused))
        assert_same(seen[-1], scores_of(plain), 1e-5)
    assert all(np.abs(before - after).max() > 1e-3 for before, after in zip(seen, seen[1:]))


def test_in_training_mode_the_module_scores(index, vectors):
    """With its dropout; a model that is loaded in training mode is set to eval mode."""
    model, _, plain = pair(index, vectors, dropout=0.5)
    still = scores_of(plain)
    fused = opened(model.train(), "fast", index, vectors)
    assert_same(scores_of(fused), still, 1e-5)
    model.train()
    assert np.abs(scores_of(fused) - scores_of(fused)).max() > 1e-3
    model.eval()
    assert_same(scores_of(fused), still, 1e-5)


def test_a_model_made_in_inference_mode(index, vectors):
    with torch.inference_mode():
        _, fused, plain = pair(index, vectors)
    assert_same(scores_of(fused), scores_of(plain), 1e-5)


def test_models_of_one_index_do_not_mix(index, vectors):
    """Rerankers of different sizes take turns."""
    pairs = [pair(index, vectors, seed, filters=filters) for seed, filters in ((1, 6), (2, 40), (3, 6))]
    expected = [scores_of(plain) for _, _, plain in pairs]
    for _ in range(3):
        for (_, fused, _), scores in zip(pairs, expected):
            assert_same(scores_of(fused), scores, 1e-5)


# ------------------------------------------------------------------------------------- precision, devices, and memory


@pytest.mark.parametrize("precision", ["bfloat16", "float16"])
def test_half_precision_is_close_but_not_equal(index, vectors, precision):
    model, fused, _ = pair(index, vectors)
    half = NeuralReranker(model, vectors.vocabulary, index, RerankerOptions(precision=precision))
    expected = scores_of(fused)
    assert half.fast_class is None
    assert 1e-5 < np.abs(scores_of(half) - expected).max() / np.abs(expected).max() < 0.1


@pytest.mark.parametrize("device", ["abacus", "cuda:99", ""])
def test_unknown_device(index, vectors, device):
    with pytest.raises(InputError) as raised:
        NeuralReranker(make(CASE, vectors), vectors.vocabulary, index, RerankerOptions(device))
    assert f"'{device}'" in str(raised.value) and "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"batch_size": 0}, "batch_size is 0"),
        ({"batch_size": -1}, "batch_size is -1"),
        ({"threads": 0}, "threads 0"),
        ({"precision": "int4"}, "int4"),
    ],
)
def test_options_that_are_none(wrong, message):
    with pytest.raises(InputError, match=message):
        RerankerOptions(**wrong)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("features", [(), LEX3], ids=["plain", "lex3"])
def test_gpu_scores_are_the_cpus(index, vectors, features):
    expected = scores_of(pair(index, vectors, lexical_features=features)[1])
    model = make(CASE, vectors, lexical_features=features)
    reranker = NeuralReranker(model, vectors.vocabulary, index, RerankerOptions("cuda"))
    np.testing.assert_allclose(scores_of(reranker), expected, rtol=1e-4, atol=1e-4)


def test_out_of_memory_halves_the_batch_for_good(index, vectors):
    """A real model that runs out of memory beyond three documents."""
    model, fused, reranker = pair(index, vectors)
    original_forward, sizes, expected = model.forward, [], scores_of(fused)

    def short_of_memory(inputs):
        sizes.append(len(inputs.documents))
        if len(inputs.documents) > 3:
            raise torch.OutOfMemoryError("out of memory")
        return original_forward(inputs)

    model.forward = short_of_memory
    assert_same(scores_of(reranker), expected, 1e-5)
    assert reranker.batch_size == 2 and max(sizes[-5:]) == 2
    sizes.clear()
    assert_same(scores_of(reranker), expected, 1e-5)
    assert sizes == [2] * 5


def test_a_batch_is_as_wide_as_its_longest_document(index, vectors, monkeypatch):
    """Sorted by length, so that short documents are not padded to the longest of all."""
    model = make(CASE, vectors, document_words=9)
    reranker, widths, original_forward = opened(model, "module", index, vectors, batch_size=2), [], model.forward

    def watched(inputs):
        widths.append(inputs.documents.shape[1])
        assert max(int(inputs.document_mask.sum(dim=1).max()), 1) == inputs.documents.shape[1]
        return original_forward(inputs)

    monkeypatch.setattr(model, "forward", watched)
    scores_of(reranker)
    assert widths == sorted(widths, reverse=True) and widths[0] == 9 and widths[-1] == 1  # "Aspirin", and the empty one


def test_builder_maps_words_and_masks(index, vectors):
    """The golden ids of one short document, one cut document of unknown words, one empty document, and a query."""
    known, builder = vectors.vocabulary.ids, InputBuilder(index, vectors.vocabulary, 4, 3, ())
    term = dict(zip(index.terms.take(range(len(index.terms))), range(len(index.terms))))
    read = [["aspirin"], ["xylitol", "quokka", "quokka", "xylitol"], [], ["aspirin", "for", "heart", "attack"]]
    ids, mask, terms, *concepts = builder.documents(small.candidates(index, [2, 6, 4, 0]))
    assert concepts == [None, None]
    for row, words in enumerate(read):
        pads = 4 - len(words)
        assert ids[row].tolist() == [known.get(word, 0) for word in words] + [0] * pads
        assert terms[row].tolist() == [term[word] for word in words] + [-1] * pads
        assert mask[row].tolist() == [True] * len(words) + [False] * pads
    query = builder.query(index.query("heart nowhere risk women red"))
    assert query.ids.tolist() == [known["heart"], 0, known["risk"]] and query.mask.tolist() == [True] * 3
    assert (query.known, query.cut) == (2, 2)
    assert query.terms.tolist() == [term["heart"], -1, term["risk"]]
    # heart and risk are in 4 of the 10 documents each; a word that is nowhere has df 0
    heart, nowhere = math.log(1 + 6.5 / 4.5), math.log(1 + 10.5 / 0.5)
    assert query.idf.tolist() == pytest.approx([heart, nowhere, heart])
    short = builder.query(index.query("quokka"))
    assert short.terms.tolist() == [term["quokka"], -1, -1] and short.idf[1:].tolist() == [0, 0]
    assert (short.mask.tolist(), short.known, short.cut) == ([True, False, False], 0, 0)
