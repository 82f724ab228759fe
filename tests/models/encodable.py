"""Models that encode documents, with random weights, and small indexes that keep encodings."""

import torch

from rerank_plugin.features.concept_vocabulary import ConceptVocabulary
from rerank_plugin.indexes.index_folder import forward_checksum
from rerank_plugin.models.document_encodings import encode_index
from rerank_plugin.models.ktrel.model import Ktrel, KtrelConfig
from rerank_plugin.models.sevmos.model import SevMos, SevMosConfig
from rerank_plugin.rerankers import RerankerOptions
from rerank_plugin.rerankers.neural import NeuralReranker
from tests import small


def build_index(folder, documents=small.DOCUMENTS):
    """A forward index in an index folder that says what it holds."""
    index = small.build_index(folder, documents)
    index.checksum = forward_checksum(small.describe(index))
    return index


def sevmos(vectors, seed=0, **hyper_parameters):
    """SevMos whose scores vary: larger weights, positive biases (or ReLU would kill half of a small network)."""
    torch.manual_seed(seed)
    model = SevMos(SevMosConfig(**{"lexical_features": (), **hyper_parameters}), torch.from_numpy(vectors.matrix))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(0.2, 0.4)
    features = len(model.config.lexical_features)
    model.set_feature_statistics(torch.linspace(0.1, 0.7, features), torch.linspace(0.5, 2.0, features))
    return model.eval()


def ktrel(vectors, seed=0, concept_vectors=None, concept_ids=None, **hyper_parameters):
    """KTRel, of words where nothing else is said: attention is not flat and normalizations are not the neutral ones."""
    torch.manual_seed(seed)
    config = KtrelConfig(**{"parts": "words", "heads": 1, "feed_forward": 7, **hyper_parameters})
    concept_ids = concept_ids or [f"C{number}" for number in range(config.concepts)]
    vocabulary = ConceptVocabulary(concept_ids) if config.concepts else None
    model = Ktrel(config, torch.from_numpy(vectors.matrix), concept_vectors, vocabulary)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "layer" in name:
                mean = 1.0 if "norm" in name and name.endswith("weight") else 0.0
                parameter.normal_(mean, 0.1 if name.endswith("bias") else 0.4)
            elif name in ("a", "b"):
                parameter.normal_(1.5, 0.5)
    return model.eval()


def module_reranker(model, vectors, index, **options):
    """The module itself as a reranker."""
    return NeuralReranker(model, vectors.vocabulary, index, RerankerOptions(fast=False, **options))


def encoded_reranker(model, vectors, index, dtype="float32", **options):
    """A reranker over encodings that are made for it."""
    one = NeuralReranker(model, vectors.vocabulary, index, RerankerOptions(**options))
    encode_index(model, one.builder, batch_size=3, dtype=dtype, overwrite=True)
    return one
