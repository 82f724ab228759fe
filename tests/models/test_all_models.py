"""What holds for every model: padding means nothing, and no part is idle.

Whatever is trained gets a gradient and moves the scores on both paths: a gate that is never used, a layer whose
result is dropped, or a fast path that forgets a weight fails here.
"""

from dataclasses import fields

import numpy as np
import pytest
import torch

from rerank_plugin.features.concept_vocabulary import ConceptVocabulary
from rerank_plugin.files.records import Query
from rerank_plugin.models.checkpoints import model_classes
from rerank_plugin.models.register import names
from rerank_plugin.rerankers import RerankerOptions
from rerank_plugin.rerankers.neural import NeuralReranker
from tests import annotated, small

QUERY = Query("q", "aspirin heart attack risk in women")
# Sizes of a model that is quick to test, for hyper-parameters of these names that are whole numbers.
SMALL = {"filters": 4, "heads": 2, "feed_forward": 5, "concepts": 11, "concept_dimension": 4}


@pytest.fixture(scope="module")
def index(tmp_path_factory):
    """Like ``small``'s, with concepts for those that read them."""
    return annotated.build_index(tmp_path_factory.mktemp("all") / "index").forward


def small_sizes(config_class):
    """The sizes of ``SMALL`` that a configuration has; those of concepts only where it reads some."""
    numbers = {one.name for one in fields(config_class) if type(one.default) is int}
    left_out = () if config_class.reads_concepts({}) else ("concepts", "concept_dimension")
    return {name: size for name, size in SMALL.items() if name in numbers and name not in left_out}


def model_of(name, vectors):
    """With weights that kill no ReLU and drive no tanh to its ends."""
    model_class, config_class = model_classes(name)
    torch.manual_seed(5)
    config = config_class(document_words=720, query_words=8, **small_sizes(config_class))
    model = model_class(config, torch.from_numpy(vectors.matrix))
    if config.concepts:
        model.concept_vocabulary = ConceptVocabulary([concept.id for concept in annotated.CONCEPTS])
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.1)
    return model.eval()


# Cross-encoders need an encoder's folder, and have tests like these of their own.
OF_WORDS = [name for name in names() if model_classes(name)[0].has_word_vectors]


@pytest.fixture(params=OF_WORDS)
def model(request, vectors):
    return model_of(request.param, vectors)


def test_700_more_pads(model, index, vectors):
    """Of the module itself, which a reranker gives no more columns than its batch needs. Pads are called 'aspirin'."""
    if not model.any_width:
        pytest.skip("reads one width only")
    builder = NeuralReranker(model, vectors.vocabulary, index).builder
    terms = index.query(QUERY.text)
    padded = builder.build(terms, builder.query(terms), small.candidates(index))
    aspirin = vectors.vocabulary.ids["aspirin"]
    padded = padded._replace(documents=padded.documents.masked_fill(~padded.document_mask, aspirin))  # [B, 720]
    inputs = padded.narrowed(20)
    assert not padded.document_mask[:, 20:].any()
    with torch.inference_mode():
        expected, found = model(inputs), model(padded)  # [B]
    assert expected.max() - expected.min() > 1e-4
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-6)


def test_every_parameter_has_a_gradient(model, index, vectors):
    builder = NeuralReranker(model, vectors.vocabulary, index).builder
    terms = index.query(QUERY.text)
    scores = model(builder.build(terms, builder.query(terms), small.candidates(index)))  # [B]
    (scores * torch.linspace(-1, 2, len(scores))).sum().backward()
    idle = [name for name, one in model.named_parameters() if one.grad is None or not one.grad.abs().max() > 1e-9]
    assert list(model.parameters()) and not idle


@pytest.mark.parametrize("fast", [False, True], ids=["module", "fast"])
def test_every_parameter_moves_the_scores(model, index, vectors, fast):
    one = NeuralReranker(model, vectors.vocabulary, index, RerankerOptions(fast=fast, threads=1))
    before, idle = one.score(QUERY, small.candidates(index)), []
    for name, parameter in model.named_parameters():
        kept = parameter.detach().clone()
        with torch.no_grad():
            parameter.add_(torch.randn_like(parameter))
        one.refresh()
        if np.abs(one.score(QUERY, small.candidates(index)) - before).max() < 1e-6:
            idle.append(name)
        with torch.no_grad():
            parameter.copy_(kept)
    assert not idle
    one.refresh()
    assert one.score(QUERY, small.candidates(index)).tolist() == before.tolist()
