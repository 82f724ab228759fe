"""A learnable problem: relevant documents hold the word of a one-word query twice, all others never.

Delta's features separate them, but a model with random weights does not.
"""

import numpy as np
import torch

from rerank_plugin.base.records import Query
from rerank_plugin.inputs.builder import ModelQuery
from rerank_plugin.models.delta.model import Delta, DeltaConfig
from rerank_plugin.rerankers.neural import NeuralReranker
from rerank_plugin.training.pairs import Pool, make_pools
from rerank_plugin.training.trainer import Trainer, TrainingConfig
from tests import small

TOPICS = "asthma cancer dengue ebola flu gout hepatitis influenza jaundice kuru lupus malaria".split()
FILLERS = "patients study results trial cohort effect dose group clinical data risk care".split()
TRAINED = 8  # the first topics; the others are held out


def documents():
    random = np.random.default_rng(11)

    def fill(count):
        return " ".join(random.choice(FILLERS, count))

    made = []
    for topic in TOPICS:
        made += [(f"{topic}-yes-{i}", f"{topic} {fill(3)}", f"{fill(4)} {topic}") for i in range(3)]
        made += [(f"{topic}-no-{i}", fill(3), f"{fill(5)}") for i in range(3)]
    return made


def build(folder):
    return small.build_index(folder, documents())


def vectors():
    return small.word_vectors(TOPICS + FILLERS, dimension=8, seed=2)


def queries(topics):
    return [Query(f"q-{topic}", topic) for topic in topics]


def judgments():
    return {f"q-{topic}": {f"{topic}-yes-{i}": i + 1 for i in range(3)} for topic in TOPICS}


def pool_of(relevance):
    """The pool of a query whose documents have this relevance."""
    count = len(relevance)
    words = ModelQuery(np.zeros(1, np.int64), np.ones(1, bool), np.zeros(1, np.int64), np.ones(1, np.float32), 1, 0)
    return Pool("q", words, np.arange(count), np.array(relevance, np.float32), np.zeros((count, 0), np.float32))


def write(folder, name, queries, ids):
    """Queries, their judgments, and a run in which each has all documents, as the train command reads them."""
    (folder / f"{name}.tsv").write_text("".join(f"{query.id}\t{query.text}\n" for query in queries))
    judged = [(query.id, id, level) for query in queries for id, level in judgments()[query.id].items()]
    (folder / f"{name}.qrels").write_text("".join(f"{query} 0 {id} {level}\n" for query, id, level in judged))
    ranked = [(query.id, id, rank) for query in queries for rank, id in enumerate(ids, 1)]
    (folder / f"{name}.run").write_text("".join(f"{query} Q0 {id} {n} {1000 - n} bm25\n" for query, id, n in ranked))


def average_precision(query, ranked):
    """Average precision of a ranking of document ids, without the package's measures."""
    relevant = [id in judgments()[query] for id in ranked]
    return sum(sum(relevant[: k + 1]) / (k + 1) for k, is_relevant in enumerate(relevant) if is_relevant) / sum(
        relevant
    )


def mean_average_precision(index, reranker, topics):
    """MAP of the topics' queries over all documents."""
    total = 0.0
    for query in queries(topics):
        ranked = np.argsort(-reranker.score(query, small.candidates(index)), kind="stable")
        total += average_precision(query.id, [index.ids[int(row)] for row in ranked])
    return total / len(topics)


class Problem:
    """A new model with its pools, and the epochs that its trainer saved: {epoch: (measures, weights)}.

    ``start`` is the seed of the initial weights; the seed of the training is in ``training``.
    """

    def __init__(self, index, folder, start=0, validate=None, on_save=None, features=(), dropout=0.2, **training):
        words = vectors()
        torch.manual_seed(start)
        config = DeltaConfig(filters=6, document_words=12, query_words=2, dropout=dropout, lexical_features=features)
        self.model = Delta(config, torch.from_numpy(words.matrix))
        self.index, self.folder, self.saved = index, folder, {}
        self.reranker = NeuralReranker(self.model, words.vocabulary, index)
        trained = queries(TOPICS[:TRAINED])
        candidates = {query.id: small.candidates(index) for query in trained}
        self.pools = make_pools(trained, judgments(), candidates, self.reranker.builder)
        self.training = TrainingConfig(**{"batch_size": 16, "learning_rate": 0.05, "seed": 5, **training})
        self.trainer = Trainer(
            self.model, self.reranker.builder, self.pools, self.training, validate or self.held_out,
            on_save or self.save, folder,
        )  # fmt: skip

    def trained(self):
        self.trainer.train()
        return self

    def held_out(self):
        return {"AP": mean_average_precision(self.index, self.reranker, TOPICS[TRAINED:])}

    def save(self, measures, best):
        if best:
            self.saved[measures["epoch"]] = (measures, weights(self.model))


def weights(model):
    return {name: tensor.clone() for name, tensor in model.state_dict().items()}


def same(first, second):
    return first.keys() == second.keys() and all(torch.equal(first[name], second[name]) for name in first)
