"""KTRel with random weights, and small indexes that keep its encodings."""

import torch

from rerank_plugin.indexes.index_folder import forward_checksum
from rerank_plugin.inputs.concept_reader import ConceptVocabulary
from rerank_plugin.models.ktrel.config import KtrelConfig
from rerank_plugin.models.ktrel.model import Ktrel
from tests import small


def build_index(folder, documents=small.DOCUMENTS):
    """A forward index in an index folder that says what it holds."""
    index = small.build_index(folder, documents)
    index.checksum = forward_checksum(small.describe(index))
    return index


def ktrel(vectors, seed=0, concept_vectors=None, concept_ids=None, **hyper_parameters):
    """KTRel, of words where nothing else is said: attention is not flat and normalizations are not the neutral ones."""
    torch.default_generator.manual_seed(seed)
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
