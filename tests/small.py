"""A small forward index made without Java, word vectors for it, and models with random weights."""

import numpy as np
import torch

from rerank_plugin.base.records import Document
from rerank_plugin.indexes.candidates import Candidates
from rerank_plugin.indexes.commits import NextCommit
from rerank_plugin.indexes.forward import CommitData, ForwardIndex
from rerank_plugin.indexes.joining import CommitSegment
from rerank_plugin.indexes.segment import Segment, SegmentWriter
from rerank_plugin.models.delta.model import Delta, DeltaConfig
from rerank_plugin.ranking.pipeline import checked_scores
from rerank_plugin.text.vocabulary import Vocabulary
from rerank_plugin.text.word_vectors import WordVectors

# Ids whose byte order is neither the order of the rows nor the order of numbers.
DOCUMENTS = [
    ("9", "Aspirin for heart attack", "Daily aspirin lowers the risk of a second heart attack."),
    ("10", "Diet and cancer", "Red meat raises the risk of colon cancer in women."),
    ("a7", "Aspirin", ""),
    ("100", "", "Heart failure after surgery in old men."),
    ("é", "", ""),
    ("Z", "Migraine headache therapy", "Therapy of migraine with aspirin or rest."),
    ("2", "Xylitol quokka", "Quokka xylitol zyzzyva."),
    ("b", "Cancer cancer cancer", "Cancer."),
    ("MED-14", "Risk of stroke in women", "Stroke risk after heart attack is high in old women who smoke."),
    ("MED-3", "Smoke", "Women who smoke have a higher risk of heart disease and of stroke."),
]
# Without xylitol, quokka and zyzzyva, which are words of the index only.
KNOWN_WORDS = (
    "aspirin for heart attack daily lowers the risk of a second diet and cancer red meat raises colon in women failure "
    "after surgery old men migraine headache therapy with or rest stroke is high who smoke tablets"
).split()


def build_index(folder, documents=DOCUMENTS, annotator=None):
    """A forward index of one segment, in a folder without a description."""
    writer = SegmentWriter(folder / "segments" / "000001", annotator=annotator)
    writer.extend([Document(*one) for one in documents])
    writer.close()
    return open_segment(folder)


def open_segment(folder, **more):
    segment = Segment(folder / "segments" / "000001")
    means = {field: count / max(len(segment), 1) for field, count in segment.token_counts().items()}
    return ForwardIndex(folder, [segment], CommitData(segment.terms, segment.document_frequency, means), **more)


def describe(index, knowledge=None, **more):
    """Write the description that makes the folder of a forward index one that can be opened; returns it."""
    commit = NextCommit(index.folder, knowledge=knowledge)
    commit.lucene, commit.lucene_description = [], more.pop("lucene", {})
    part = CommitSegment(commit.written_segment(0), 0, np.arange(len(index)))
    commit.describe([part], 1, {"tokenizer": index.tokenizer.settings, **more})
    commit.switch()
    return commit.description


def word_vectors(words, dimension, seed):
    matrix = np.random.default_rng(seed).normal(size=(len(words) + 1, dimension)).astype(np.float32)
    return WordVectors(Vocabulary(words), matrix)


def delta(vectors, seed=0, **hyper_parameters):
    """Delta with random weights, biases that matter, and feature statistics that are not the neutral ones."""
    torch.default_generator.manual_seed(seed)
    model = Delta(DeltaConfig(**hyper_parameters), torch.from_numpy(vectors.matrix))
    with torch.no_grad():
        for layer in (*model.convolutions, *model.layers):
            layer.weight.mul_(2)  # so that the leaks do not flatten the scores
    features = len(model.config.lexical_features)
    if features:
        model.set_feature_statistics(torch.linspace(0.1, 0.7, features), torch.linspace(0.5, 2.0, features))
    return model.eval()


def with_16_bits(spaces, query):
    """The query float32 [E] that the 16-bit numbers of a quantized one stand for, float64 [E]."""
    quantized = spaces.quantize_queries(np.asarray(query, np.float32)[None])
    return quantized.numbers[0, spaces.columns] * np.repeat(quantized.scales[0], spaces.widths)


def candidates(index, rows=None, scores=None):
    rows = np.arange(len(index)) if rows is None else np.asarray(rows)
    if scores is None:
        scores = np.linspace(5, 1, len(rows), dtype=np.float32)
    return Candidates(index, rows, scores)


def checked(reranker, query, candidates):
    """Scores as the ranking takes them: an InputError names a document whose score is not finite."""
    return checked_scores([query], [candidates], reranker)[0]
