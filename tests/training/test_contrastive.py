"""Training against the rest of the batch: the loss by hand, what a batch holds, and that an encoder learns by it."""

import math
from functools import partial

import numpy as np
import pytest
import torch

from rerank_plugin.base.errors import InputError
from rerank_plugin.models.ktrel.config import KtrelWConfig
from rerank_plugin.models.ktrel.model import Ktrel
from rerank_plugin.rerankers.neural import NeuralReranker
from rerank_plugin.training.contrastive import (
    ContrastiveTrainer,
    batches,
    margin_loss,
    ndcg_loss,
    relevances,
    softmax_loss,
    whole_index_batches,
)
from rerank_plugin.training.pairs import make_pools
from rerank_plugin.training.trainer import TrainingConfig
from tests.training import learnable


class Encoder:
    """An encoder, its trainer, and the weights that were the best."""

    def __init__(self, corpus, folder, start=0, model=None, **training):
        words = learnable.vectors()
        torch.manual_seed(start)
        config = KtrelWConfig(heads=2, feed_forward=8, document_words=12, query_words=2, dropout=0.1, **(model or {}))
        self.model = Ktrel(config, torch.from_numpy(words.matrix))
        self.corpus, self.reranker = corpus, NeuralReranker(self.model, words.vocabulary, corpus)
        trained = learnable.queries(learnable.TOPICS[: learnable.TRAINED])
        self.pools = make_pools(trained, learnable.judgments(), {}, self.reranker.builder, "relevant")
        settings = {"epochs": 2, "batch_size": 8, "seed": 5, "loss": "softmax", "optimizer": "adam", **training}
        self.trainer = ContrastiveTrainer(
            self.model, self.reranker.builder, self.pools, TrainingConfig(**settings), self.validate, print, folder
        )

    def trained(self):
        self.trainer.train()
        return self

    def validate(self):
        topics = learnable.TOPICS[: learnable.TRAINED]
        return {"AP": learnable.mean_average_precision(self.corpus, self.reranker, topics)}


@pytest.fixture
def encoder(corpus, tmp_path):
    """Makes an encoder whose state is in a folder of the test's."""
    return lambda folder="made", **how: Encoder(corpus, tmp_path / folder, **how)


def test_softmax_loss_by_hand():
    """Two queries and three documents. Of the first query the softmax is 1/2, 1/4, 1/4 and grades 2 and 1 weigh 2/3 and
    1/3; the second has no relevant document, so it has no loss. Each direction is a mean of its own."""
    ln = math.log
    scores = torch.tensor([[ln(2.0), 0.0, 0.0], [0.0, ln(3.0), 0.0]])
    grades = torch.tensor([[2.0, 1.0, 0.0], [0.0, 0.0, 0.0]])
    of_queries = 2 / 3 * ln(2) + 1 / 3 * ln(4)
    of_documents = (-ln(2 / 3) - ln(1 / 4)) / 2  # the first document's queries are 2/3, 1/3, the second's 1/4, 3/4
    assert softmax_loss(scores * 0.1, grades, 0.1).item() == pytest.approx((of_queries + of_documents) / 2)


def test_margin_loss_by_hand():
    """[K] equation 2. Of the first query the pairs are 2 > 1, 2 > 0 and 1 > 0; the second has no relevant document."""
    scores = torch.tensor([[0.5, 0.2, 0.1], [0.0, 3.0, -3.0]])
    grades = torch.tensor([[2.0, 1.0, 0.0], [0.0, 0.0, 0.0]])
    assert margin_loss(scores, grades).item() == pytest.approx((0.7 + 0.6 + 0.9) / 3)
    weighted = (0.7 + math.sqrt(2) * 0.6 + 0.9) / 3
    assert margin_loss(scores, grades, weighted=True).item() == pytest.approx(weighted)
    assert margin_loss(scores, torch.ones(2, 3)).item() == 0


def plain_softmax_loss(scores, grades, temperature=0.3):
    """Written out query by query, and document by document."""
    means = []
    for scored, graded in ((scores, grades), (scores.T, grades.T)):
        losses = []
        for one, weights in zip(scored.tolist(), graded.tolist()):
            if sum(weights) > 0:
                mass = sum(math.exp(score / temperature) for score in one)
                shares = [math.exp(score / temperature) / mass for score in one]
                losses.append(-sum(w * math.log(share) for w, share in zip(weights, shares)) / sum(weights))
        means.append(sum(losses) / len(losses))
    return sum(means) / 2


def plain_ndcg_loss(scores, grades):
    """Written out document by document."""
    losses = []
    for one, graded in zip(scores.tolist(), grades.tolist()):
        if not any(graded):
            continue
        reached = 0.0
        for place, grade in enumerate(graded):
            others = [score for other, score in enumerate(one) if other != place]
            rank = 1 + sum(1 / (1 + math.exp((one[place] - score) / 0.03)) for score in others)
            reached += grade / math.log2(1 + rank) / (1 + math.exp((rank - 10.5) / 2))
        best = sorted(graded, reverse=True)[:10]
        losses.append(1 - reached / sum(grade / math.log2(place + 2) for place, grade in enumerate(best)))
    return sum(losses) / len(losses)


def plain_margin_loss(scores, grades):
    """Written out pair by pair."""
    losses = [
        max(0.0, 1 - score + other)
        for one, graded in zip(scores.tolist(), grades.tolist())
        for score, grade in zip(one, graded)
        for other, lower in zip(one, graded)
        if grade > lower
    ]
    return sum(losses) / len(losses)


@pytest.mark.parametrize(
    ("loss", "plain", "spread"),
    [
        (partial(softmax_loss, temperature=0.3), plain_softmax_loss, 1),
        (ndcg_loss, plain_ndcg_loss, 0.05),  # so that some ranks are not whole numbers
        (margin_loss, plain_margin_loss, 1),
    ],
    ids=["softmax", "nDCG", "margin"],
)
@pytest.mark.parametrize("documents", [4, 15, 30])
def test_losses_are_the_plain_ones(loss, plain, spread, documents):
    """Of random scores and grades; one query has no relevant document."""
    generator = torch.Generator().manual_seed(documents)
    for _ in range(10):
        scores = spread * torch.randn((5, documents), generator=generator, dtype=torch.float64)
        grades = torch.randint(0, 3, (5, documents), generator=generator).double()
        grades[2] = 0
        assert loss(scores, grades).item() == pytest.approx(plain(scores, grades))


def test_batches_hold_every_relevant_document_once_and_all_their_grades(encoder):
    pools = encoder().pools
    expected = {
        (number, row): grade
        for number, pool in enumerate(pools)
        for row, grade in zip(pool.rows.tolist(), pool.relevance.tolist())
    }
    seen = []
    for batch in batches(relevances(pools), 5, 2, np.random.default_rng(1)):
        assert len(batch.rows) <= 5 and len(batch.pools) <= 10
        seen += batch.rows.tolist()
        for place, number in enumerate(batch.pools.tolist()):
            for column, row in enumerate(batch.rows.tolist()):
                assert batch.grades[place, column] == expected.get((number, row), 0)
        assert (batch.grades.sum(axis=0) > 0).all()  # each document came with a query
    assert sorted(seen) == sorted({row for _, row in expected})


def test_a_document_of_many_queries_draws_some(encoder):
    pools = encoder().pools
    relevant = relevances([pool._replace(rows=pools[0].rows[:1], relevance=np.ones(1, np.float32)) for pool in pools])
    drawn = {tuple(next(batches(relevant, 4, 3, np.random.default_rng(seed))).pools.tolist()) for seed in range(20)}
    assert {len(numbers) for numbers in drawn} == {3} and len(drawn) > 5


def test_whole_batches_hold_every_query_once_and_all_grades(encoder, corpus):
    pools, seen = encoder().pools, []
    for batch in whole_index_batches(pools, np.arange(len(corpus)), 3, np.random.default_rng(1)):
        assert batch.grades.shape == (len(batch.pools), len(corpus)) and len(batch.pools) <= 3
        for graded, number in zip(batch.grades, batch.pools.tolist()):
            expected = np.zeros(len(corpus))
            expected[pools[number].rows] = pools[number].relevance
            assert (graded == expected).all()
        seen += batch.pools.tolist()
    assert sorted(seen) == list(range(len(pools)))


PAPER = {"loss": "hinge", "weights": "none", "sampling": "batch"}
COLLECTION = {"negatives": "collection", "averaging": 0.3, "model": {"layers": 0, "word_dropout": 0.2, "factor": 1.0}}
RANKS = {**COLLECTION, "ndcg_share": 0.5, "grade_power": 2.0}


@pytest.mark.parametrize("how", [{}, PAPER, COLLECTION, RANKS], ids=["softmax", "margin", "collection", "nDCG"])
def test_learns(encoder, how):
    learner = encoder(epochs=30, patience=30, learning_rate=0.02, **how)
    assert learner.validate()["AP"] < 0.6
    learner.trained()
    assert learner.trainer.best > 0.9
    assert learner.trainer.history[-1]["loss"] < learner.trainer.history[0]["loss"]


def losses_of(encoder):
    return [entry["loss"] for entry in encoder.trainer.history]


def test_the_factor_of_a_single_part_is_no_temperature(encoder):
    """Scores are shares of the largest one, so a of KTRel-W does not sharpen the softmax."""
    first, second = encoder("1"), encoder("2")
    with torch.no_grad():
        second.model.a.fill_(7.0)
    assert losses_of(first.trained()) == pytest.approx(losses_of(second.trained()))


@pytest.mark.parametrize(
    ("start", "how"),
    [
        (1, {}),
        (1, COLLECTION),
        # The weights that these start from are not in the state: they are made again.
        (0, {"start_share": 0.4}),
        (0, {"restart": 2, "averaging": 0.3}),
        (0, {"restart": 1}),
    ],
    ids=str,
)
def test_resumed_equals_uninterrupted(encoder, start, how):
    whole = encoder("whole", epochs=4, patience=9, **how).trained()
    encoder("parts", epochs=2, patience=9, **how).trained()
    resumed = encoder("parts", start=start, epochs=4, patience=9, **how)
    assert resumed.trainer.resume()
    resumed.trained()
    assert [entry["AP"] for entry in whole.trainer.history] == [entry["AP"] for entry in resumed.trainer.history]
    assert learnable.same(learnable.weights(whole.model), learnable.weights(resumed.model))
    assert losses_of(whole) == losses_of(resumed)


def noting(embeddings, noted):
    """A validation that records a copy of the word vectors, with a better measure in each epoch."""
    return lambda: noted.append(embeddings.detach().clone()) or {"AP": len(noted)}


@pytest.mark.parametrize("share", [0.0, 0.5])
def test_the_average_is_interpolated_with_the_start_and_validated(encoder, share):
    """Weights w1, w2, w3 with averaging 0.25 are validated as w1, then 0.25 w1 + 0.75 w2, and so on."""
    plain, averaged = encoder("1", epochs=3), encoder("2", epochs=3, averaging=0.25, start_share=share)
    words = plain.model.words.embeddings
    start, weights, validated = words.detach().clone(), [], []
    plain.trainer.validate = noting(words, weights)
    averaged.trainer.validate = noting(averaged.model.words.embeddings, validated)
    plain.trained(), averaged.trained()
    first, second, third = weights
    averages = [first, 0.25 * first + 0.75 * second, 0.0625 * first + 0.1875 * second + 0.75 * third]
    for loaded, average in zip(validated, averages, strict=True):
        assert torch.allclose(loaded, share * start + (1 - share) * average, atol=1e-6)
    assert torch.equal(words, averaged.model.words.embeddings)


def test_after_a_restart_the_mean_of_the_trainings_is_validated(encoder):
    """The first training ends after two epochs; the second one begins with the same weights, in another order."""
    learner, validated, began, after = encoder(epochs=5, patience=5, restart=2, averaging=0.25), [], [], []
    words, epoch = learner.model.words.embeddings, learner.trainer._epoch
    start = words.detach().clone()
    learner.trainer.validate = noting(words, validated)
    learner.trainer._epoch = lambda number: noting(words, began)() and epoch(number)
    learner.trainer._write_state = noting(words, after)  # the weights without averaging
    learner.trained()
    assert all(torch.equal(began[at], start) for at in (0, 2, 4))
    assert not torch.equal(after[0], after[2])
    first, second = (0.25 * after[at] + 0.75 * after[at + 1] for at in (0, 2))
    expected = [after[0], first, (first + after[2]) / 2, (first + second) / 2, (first + second + after[4]) / 3]
    for loaded, mean in zip(validated, expected, strict=True):
        assert torch.allclose(loaded, mean, atol=1e-6)


def test_words_outside_the_batches_stay(encoder):
    """Sparse gradients: a word that no document and no query holds keeps its vector exactly."""
    learner = encoder()
    words, vocabulary = learner.model.words.embeddings, learner.reranker.builder.vocabulary
    unseen = [vocabulary.lookup([topic])[0] for topic in learnable.TOPICS[learnable.TRAINED :]]
    before = words.detach().clone()
    learner.trained()
    changed = (words != before).any(dim=1)
    assert not changed[unseen].any() and changed.sum() > 10


def test_a_model_without_encodings_is_refused(corpus, tmp_path):
    problem = learnable.Problem(corpus, tmp_path)
    given = problem.model, problem.reranker.builder, problem.pools, TrainingConfig(loss="softmax")
    with pytest.raises(InputError, match="the loss softmax is for .*encodings.*delta"):
        ContrastiveTrainer(*given, dict, print, tmp_path)
