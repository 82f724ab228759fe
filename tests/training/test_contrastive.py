"""Training against the rest of the batch: the loss by hand, what a batch holds, and that an encoder learns by it."""

import math

import numpy as np
import pytest
import torch

from rerank_plugin.files.errors import InputError
from rerank_plugin.models.ktrel.model import Ktrel, KtrelWConfig
from rerank_plugin.rerankers.neural import NeuralReranker
from rerank_plugin.training.contrastive import (
    ContrastiveTrainer,
    batches,
    margin_loss,
    ndcg_loss,
    relevances,
    softmax_loss,
    whole_batches,
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

    def validate(self):
        topics = learnable.TOPICS[: learnable.TRAINED]
        return {"AP": learnable.mean_average_precision(self.corpus, self.reranker, topics)}


def draws(seed):
    """Random scores and grades up to 2, twenty times."""
    generator = torch.Generator().manual_seed(seed)
    for _ in range(20):
        scores = torch.randn((5, 7), generator=generator, dtype=torch.float64)
        yield scores, torch.randint(0, 3, (5, 7), generator=generator).double()


def test_loss_by_hand():
    """Two queries and three documents. Of the first query the softmax is 1/2, 1/4, 1/4 and grades 2 and 1 weigh 2/3 and
    1/3; the second has no relevant document, so it has no loss. Each direction is a mean of its own."""
    ln = math.log
    scores = torch.tensor([[ln(2.0), 0.0, 0.0], [0.0, ln(3.0), 0.0]])
    grades = torch.tensor([[2.0, 1.0, 0.0], [0.0, 0.0, 0.0]])
    of_queries = 2 / 3 * ln(2) + 1 / 3 * ln(4)
    of_documents = (-ln(2 / 3) - ln(1 / 4)) / 2  # the first document's queries are 2/3, 1/3, the second's 1/4, 3/4
    assert softmax_loss(scores, grades, 1.0).item() == pytest.approx((of_queries + of_documents) / 2)
    assert softmax_loss(scores * 0.1, grades, 0.1).item() == pytest.approx((of_queries + of_documents) / 2)


def plain_loss(scores, grades, temperature):
    """The same written out, query by query and document by document."""
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


def test_loss_against_the_plain_one():
    for scores, grades in draws(3):
        assert softmax_loss(scores, grades, 0.3).item() == pytest.approx(plain_loss(scores, grades, 0.3))


def test_ndcg_loss_of_scores_far_apart_is_that_of_their_ranks():
    """Of the first query two documents are relevant, at ranks 2 and 3; of the second one, at 12; of the third none."""
    scores = -torch.arange(12.0).repeat(3, 1)
    grades = torch.zeros(3, 12)
    grades[0, 1], grades[0, 2], grades[1, 11] = 1, 4, 2
    first = [1 / (1 + math.exp((rank - 10.5) / 2)) for rank in (2, 3, 12)]  # how much a rank is among the first ten
    reached = [first[0] / math.log2(3) + 4 * first[1] / math.log2(4), 2 * first[2] / math.log2(13)]
    ideal = [4 + 1 / math.log2(3), 2]
    expected = 1 - sum(one / most for one, most in zip(reached, ideal)) / 2
    assert ndcg_loss(scores, grades).item() == pytest.approx(expected)


def plain_ndcg_loss(scores, grades):
    """The same written out, document by document, of any scores."""
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


def test_ndcg_loss_against_the_plain_one():
    generator = torch.Generator().manual_seed(5)
    for documents in (4, 15, 30):
        scores = torch.rand((5, documents), generator=generator, dtype=torch.float64) / 5
        grades = torch.randint(0, 3, (5, documents), generator=generator).double()
        grades[2] = 0
        assert ndcg_loss(scores, grades).item() == pytest.approx(plain_ndcg_loss(scores, grades))


def test_margin_loss_by_hand():
    """[K] equation 2. Of the first query the pairs are 2 > 1, 2 > 0 and 1 > 0; the second has no relevant document."""
    scores = torch.tensor([[0.5, 0.2, 0.1], [0.0, 3.0, -3.0]])
    grades = torch.tensor([[2.0, 1.0, 0.0], [0.0, 0.0, 0.0]])
    assert margin_loss(scores, grades).item() == pytest.approx((0.7 + 0.6 + 0.9) / 3)
    weighted = (0.7 + math.sqrt(2) * 0.6 + 0.9) / 3
    assert margin_loss(scores, grades, weighted=True).item() == pytest.approx(weighted)
    assert margin_loss(scores, torch.ones(2, 3)).item() == 0


def test_margin_loss_against_the_plain_one():
    for scores, grades in draws(4):
        losses = [
            max(0.0, 1 - scores[q, i].item() + scores[q, j].item())
            for q in range(5)
            for i in range(7)
            for j in range(7)
            if grades[q, i] > grades[q, j]
        ]
        assert margin_loss(scores, grades).item() == pytest.approx(sum(losses) / len(losses))


def test_batches_hold_every_relevant_document_once_and_all_grades_between_what_is_drawn(corpus, tmp_path):
    encoder = Encoder(corpus, tmp_path)
    known = relevances(encoder.pools)
    expected = {
        (number, row): grade
        for number, pool in enumerate(encoder.pools)
        for row, grade in zip(pool.rows.tolist(), pool.relevance.tolist())
    }
    seen = []
    for batch in batches(known, 5, 2, np.random.default_rng(1)):
        assert len(batch.rows) <= 5 and len(batch.pools) <= 10
        seen += batch.rows.tolist()
        for place, number in enumerate(batch.pools.tolist()):
            for column, row in enumerate(batch.rows.tolist()):
                assert batch.grades[place, column] == expected.get((number, row), 0)
        assert (batch.grades.sum(axis=0) > 0).all()  # each document came with a query
    assert sorted(seen) == sorted({row for _, row in expected})


def test_a_document_of_many_queries_draws_some(corpus, tmp_path):
    encoder = Encoder(corpus, tmp_path)
    row = encoder.pools[0].rows[:1]
    grade = np.ones(1, np.float32)
    known = relevances([pool._replace(rows=row, relevance=grade) for pool in encoder.pools])
    drawn = {tuple(next(batches(known, 4, 3, np.random.default_rng(seed))).pools.tolist()) for seed in range(20)}
    assert {len(one) for one in drawn} == {3} and len(drawn) > 5


def test_whole_batches_hold_every_query_once_and_all_grades(corpus, tmp_path):
    encoder, seen = Encoder(corpus, tmp_path), []
    for batch in whole_batches(encoder.pools, len(corpus), 3, np.random.default_rng(1)):
        assert batch.grades.shape == (len(batch.pools), len(corpus)) and len(batch.pools) <= 3
        for graded, number in zip(batch.grades, batch.pools.tolist()):
            assert graded.sum() == encoder.pools[number].relevance.sum()
            assert (graded[encoder.pools[number].rows] == encoder.pools[number].relevance).all()
        seen += batch.pools.tolist()
    assert sorted(seen) == list(range(len(encoder.pools)))


PAPER = {"loss": "hinge", "weights": "none", "sampling": "batch"}


COLLECTION = {"negatives": "collection", "averaging": 0.3, "model": {"layers": 0, "word_dropout": 0.2, "factor": 1.0}}


RANKS = {**COLLECTION, "ndcg_share": 0.5, "grade_power": 2.0}


@pytest.mark.parametrize("how", [{}, PAPER, COLLECTION, RANKS], ids=["softmax", "margin", "collection", "nDCG"])
def test_learns(corpus, tmp_path, how):
    encoder = Encoder(corpus, tmp_path, epochs=30, patience=30, learning_rate=0.02, **how)
    before = encoder.validate()["AP"]
    encoder.trainer.train()
    assert before < 0.6 and encoder.trainer.best > 0.9
    assert encoder.trainer.history[-1]["loss"] < encoder.trainer.history[0]["loss"]


def test_the_factor_of_a_single_part_is_no_temperature(corpus, tmp_path):
    """Scores are shares of the largest one, so a of KTRel-W does not sharpen the softmax."""
    first, second = Encoder(corpus, tmp_path / "1"), Encoder(corpus, tmp_path / "2")
    with torch.no_grad():
        second.model.a.fill_(7.0)
    for encoder in (first, second):
        encoder.trainer.train()
    assert [e["loss"] for e in first.trainer.history] == pytest.approx([e["loss"] for e in second.trainer.history])


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
def test_resumed_equals_uninterrupted(corpus, tmp_path, start, how):
    whole = Encoder(corpus, tmp_path / "whole", epochs=4, patience=9, **how)
    whole.trainer.train()
    Encoder(corpus, tmp_path / "parts", epochs=2, patience=9, **how).trainer.train()
    resumed = Encoder(corpus, tmp_path / "parts", start=start, epochs=4, patience=9, **how)
    assert resumed.trainer.resume()
    resumed.trainer.train()
    assert [e["AP"] for e in whole.trainer.history] == [e["AP"] for e in resumed.trainer.history]
    assert learnable.same(learnable.weights(whole.model), learnable.weights(resumed.model))
    assert [e["loss"] for e in whole.trainer.history] == [e["loss"] for e in resumed.trainer.history]


@pytest.mark.parametrize("share", [0.0, 0.5])
def test_what_is_validated_is_the_average_mixed_with_the_start(corpus, tmp_path, share):
    """Weights w1, w2, w3 with averaging 0.25 are validated as w1, then 0.25 w1 + 0.75 w2, and so on."""
    plain, averaged = (
        Encoder(corpus, tmp_path / "1", epochs=3),
        Encoder(corpus, tmp_path / "2", epochs=3, averaging=0.25, start_share=share),
    )
    start, seen = plain.model.words.embeddings.detach().clone(), {}
    for encoder in (plain, averaged):
        validated = seen.setdefault(encoder, [])
        encoder.trainer.validate = lambda model=encoder.model, validated=validated: (
            validated.append(model.words.embeddings.detach().clone()) or {"AP": len(validated)}
        )
        encoder.trainer.train()
    first, second, third = seen[plain]
    averages = [first, 0.25 * first + 0.75 * second, 0.0625 * first + 0.1875 * second + 0.75 * third]
    for found, one in zip(seen[averaged], averages, strict=True):
        assert torch.allclose(found, share * start + (1 - share) * one, atol=1e-6)
    assert torch.equal(plain.model.words.embeddings, averaged.model.words.embeddings)


def test_after_a_restart_the_mean_of_the_trainings_is_validated(corpus, tmp_path):
    """The first training ends after two epochs; the second one begins with the same weights, in another order."""
    encoder, seen, began = Encoder(corpus, tmp_path, epochs=5, patience=5, restart=2, averaging=0.25), [], []
    start, embeddings = encoder.model.words.embeddings.detach().clone(), encoder.model.words.embeddings
    encoder.trainer.validate = lambda: seen.append(embeddings.detach().clone()) or {"AP": len(seen)}
    epoch = encoder.trainer._epoch
    encoder.trainer._epoch = lambda number: began.append(embeddings.detach().clone()) or epoch(number)
    after = []
    encoder.trainer._write_state = lambda: after.append(embeddings.detach().clone())  # the weights without averaging
    encoder.trainer.train()
    assert torch.equal(began[0], start) and torch.equal(began[2], start) and torch.equal(began[4], start)
    assert not torch.equal(after[0], after[2])
    first, second = (0.25 * after[at] + 0.75 * after[at + 1] for at in (0, 2))
    expected = [after[0], first, (first + after[2]) / 2, (first + second) / 2, (first + second + after[4]) / 3]
    for found, one in zip(seen, expected, strict=True):
        assert torch.allclose(found, one, atol=1e-6)


def test_words_outside_the_batches_stay(corpus, tmp_path):
    """Sparse gradients: a word that no document and no query holds keeps its vector exactly."""
    encoder = Encoder(corpus, tmp_path)
    vocabulary = encoder.reranker.builder.vocabulary
    unseen = [vocabulary.lookup([topic])[0] for topic in learnable.TOPICS[learnable.TRAINED :]]
    before = encoder.model.words.embeddings.detach().clone()
    encoder.trainer.train()
    changed = (encoder.model.words.embeddings != before).any(dim=1)
    assert not changed[unseen].any() and changed.sum() > 10


def test_a_model_without_encodings_is_refused(corpus, tmp_path):
    problem = learnable.Problem(corpus, tmp_path)
    given = problem.model, problem.reranker.builder, problem.pools, TrainingConfig(loss="softmax")
    with pytest.raises(InputError, match="the loss softmax is for .*encodings.*delta"):
        ContrastiveTrainer(*given, dict, print, tmp_path)
