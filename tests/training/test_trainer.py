"""The trainer: learning, repeating, resuming, stopping, and what it writes."""

import json
import math
import shutil

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from rerank_plugin.base.errors import InputError
from rerank_plugin.inputs.lexical_features import LEX3
from rerank_plugin.training import trainer
from rerank_plugin.training.pairs import draw_pairs
from rerank_plugin.training.trainer import TrainingConfig
from tests import small
from tests.training import learnable
from tests.training.learnable import Problem, same, weights

STATISTICS = torch.tensor([0.3, 0.2, 0.4]), torch.tensor([0.5, 0.25, 2.0])  # means and deviations of LEX3


def scripted(values):
    """A validation that gives measures from a list; the first of two decides."""
    remaining = iter(values)
    return lambda: {"AP": next(remaining), "decoy": 0.0}


@pytest.fixture
def problem(corpus, tmp_path):
    """Makes a problem whose state is in a folder of the test's."""
    return lambda folder="made", **how: Problem(corpus, tmp_path / folder, **how)


def test_it_learns(problem):
    """On topics that were never trained on; a random order gives a mean average precision of about 0.1."""
    learner = problem(start=1, epochs=8, patience=8, learning_rate=0.1)
    assert learner.held_out()["AP"] < 0.4
    learner.trained()
    losses = [entry["loss"] for entry in learner.trainer.history]
    assert len(losses) == 8 and losses[-1] < 0.5 * losses[0]
    assert learner.trainer.best == max(measures["AP"] for measures, _ in learner.saved.values()) >= 0.75


def test_validation_sees_no_dropout(problem):
    modes = []
    learner = problem(epochs=2, validate=lambda: modes.append(learner.model.training) or {"AP": 0.0})
    learner.trained()
    assert modes == [False, False]


def test_same_seed_same_weights(problem):
    how = {"epochs": 2, "pairs_per_query": 6}
    drawn = []  # after an epoch, the dropout of a seed and an epoch goes on with numbers of its own
    how["validate"] = lambda: drawn.append(torch.rand(1).item()) or {"AP": 0.0}
    first = problem("first", seed=5, **how).trained()
    torch.rand(7), np.random.rand(7)  # the global generators play no part
    again, other = (problem(str(seed), seed=seed, **how).trained() for seed in (5, 6))
    assert drawn[:2] == drawn[2:4] and len(set(drawn)) == 4
    assert same(weights(first.model), weights(again.model))
    assert not same(weights(first.model), weights(other.model))


def test_the_first_loss_is_that_of_search_scores(problem, corpus):
    """Without dropout and with steps too small to matter, the loss is the hinge of the scores that search gives."""
    learner = problem(
        epochs=1, dropout=0.0, learning_rate=1e-30, l2_convolution=0, l2_feed_forward=0, features=LEX3,
        pairs_per_query=7, batch_size=16,
    )  # fmt: skip
    learner.model.set_feature_statistics(*STATISTICS)
    drawn = draw_pairs(learner.pools, 7, np.random.default_rng([5, 1]))
    scores = []
    for query, pool in zip(learnable.queries(learnable.TOPICS), learner.pools):
        assert query.id == pool.query_id
        scores.append(learner.reranker.score(query, small.candidates(corpus, pool.rows)))
    expected = [
        math.sqrt(learner.pools[p].relevance[b] - learner.pools[p].relevance[w])
        * max(0.0, 1 - float(scores[p][b]) + float(scores[p][w]))
        for p, b, w in zip(drawn.pool, *drawn.places)
    ]
    assert len(expected) == 7 * learnable.TRAINED and len(expected) % 16  # the last batch is smaller
    assert learner.trained().trainer.history[0]["loss"] == pytest.approx(np.mean(expected), rel=1e-5)


class Killed(Exception):
    pass


@pytest.mark.parametrize("stopped_after", [1, 4])
def test_resumed_equals_uninterrupted(problem, stopped_after):
    """Killed in the validation of the next epoch: its steps are lost, and done again bit for bit.

    Only how long to train may be another. The kill may come when the tensors of an epoch are written and their
    description is not.
    """

    def kill():
        if len(killed.trainer.history) == stopped_after:
            raise Killed
        return killed.held_out()

    long, short = ({"features": LEX3, "epochs": epochs, "patience": epochs} for epochs in (5, stopped_after + 1))
    whole, killed, resumed = problem("1", **long), problem("2", validate=kill, **short), problem("2", start=77, **long)
    for learner in (whole, killed):
        learner.model.set_feature_statistics(*STATISTICS)
    whole.trained()
    with pytest.raises(Killed):
        killed.trained()
    (killed.folder / f"{stopped_after + 1}.state.safetensors").write_bytes(b"half")
    assert resumed.trainer.resume() is True
    assert len(resumed.trainer.history) == stopped_after
    resumed.trained()
    assert same(weights(resumed.model), weights(whole.model))
    for number, state in whole.trainer.optimizer.state_dict()["state"].items():
        assert same(resumed.trainer.optimizer.state_dict()["state"][number], state)
    for learner in (whole, resumed):
        for entry in learner.trainer.history:
            del entry["training_seconds"], entry["validation_seconds"]
    assert whole.trainer.history == resumed.trainer.history
    assert {**killed.saved, **resumed.saved}.keys() == whole.saved.keys()


def test_nothing_to_resume(problem):
    learner = problem()
    before = weights(learner.model)
    assert learner.trainer.resume() is False
    assert same(weights(learner.model), before) and learner.trainer.history == []


@pytest.fixture(scope="module")
def state(corpus, tmp_path_factory):
    """The folder of a training of one epoch."""
    return Problem(corpus, tmp_path_factory.mktemp("state"), epochs=1).trained().folder


@pytest.mark.parametrize(
    "other",
    [
        {"learning_rate": 0.04}, {"batch_size": 17}, {"l2_convolution": 0.5}, {"pairs_per_query": 49},
        {"dropout": 0.3}, {"seed": 6},
    ],
    ids=str,
)  # fmt: skip
def test_settings_must_be_the_same(corpus, state, other):
    with pytest.raises(InputError, match=f"^{state} .*other settings"):
        Problem(corpus, state, epochs=1, **other).trainer.resume()


def without(name):
    """Removes a tensor from the state."""

    def drop(path):
        save_file({key: tensor for key, tensor in load_file(path).items() if key != name}, path)

    return drop


def described(text):
    return lambda tensors: (tensors.parent / "state.json").write_text(text)


@pytest.mark.parametrize(
    "damage",
    [
        without("optimizer.0.sum"),
        without("model.layers.0.bias"),
        lambda tensors: tensors.write_bytes(tensors.read_bytes()[:-50]),
        lambda tensors: tensors.unlink(),
        described("{"),
        described("{}"),
        described("[]"),
    ],
    ids=["optimizer tensor", "model tensor", "truncated", "no tensors", "half json", "empty json", "other json"],
)
def test_damaged_state(problem, state, tmp_path, damage):
    shutil.copytree(state, tmp_path / "made")
    [tensors] = (tmp_path / "made").glob("*.safetensors")
    damage(tensors)
    with pytest.raises(InputError, match=str(tmp_path)) as raised:
        problem(epochs=2).trainer.resume()
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("values", "patience", "epochs_run", "saved"),
    [
        ([0.1, 0.5, 0.4, 0.3, 0.9], 2, 4, [1, 2]),  # stops before the 0.9
        ([0.1, 0.5, 0.4, 0.6, 0.5], 2, 5, [1, 2, 4]),
        ([0.5, 0.5, 0.5], 2, 3, [1]),  # equal is no gain
        ([0.5, 0.4, 0.5, 0.6], 1, 2, [1]),
        ([-0.5, -0.25, -0.3], 5, 3, [1, 2]),
        ([math.nan, 0.2, math.nan, 0.1], 5, 4, [2]),
        ([0.2, math.nan, math.nan, 0.3], 2, 3, [1]),
        ([0.2, math.inf, 0.3], 5, 3, [1, 3]),
        ([math.nan, math.nan, math.nan, math.nan], 2, 3, []),
        ([0.0, 0.0], 5, 2, [1]),
    ],
)
def test_early_stopping(problem, values, patience, epochs_run, saved):
    learner = problem(epochs=len(values), patience=patience, validate=scripted(values), pairs_per_query=2).trained()
    assert len(learner.trainer.history) == epochs_run
    assert sorted(learner.saved) == saved
    finite = [value for value in values[:epochs_run] if math.isfinite(value)]
    assert learner.trainer.best == max(finite, default=-math.inf)


def test_best_and_patience_outlive_a_resumption(problem):
    """0.5 was best in epoch 1: after resuming, 0.4 is not saved over it, and one epoch without gain counts already."""
    problem(epochs=2, patience=3, validate=scripted([0.5, 0.3]), pairs_per_query=2).trained()
    resumed = problem(epochs=9, patience=3, validate=scripted([0.4, 0.45, 0.9]), pairs_per_query=2)
    resumed.trainer.resume()
    assert (resumed.trainer.best, resumed.trainer.epochs_without_gain) == (0.5, 1)
    resumed.trained()
    assert [entry["deciding"] for entry in resumed.trainer.history] == [0.5, 0.3, 0.4, 0.45] and resumed.saved == {}


def test_an_epoch_that_could_not_be_saved_is_done_again(problem):
    """The disk was full: the state is still that of the epoch before, so resuming trains and saves this epoch."""

    def full(measures, best):
        raise OSError("no space left")

    with pytest.raises(OSError, match="no space"):
        problem(epochs=1, validate=scripted([0.5]), on_save=full).trained()
    again = problem(epochs=1, validate=scripted([0.5]))
    again.trainer.resume()
    assert list(again.trained().saved) == [1]


@pytest.mark.parametrize(("convolution", "feed_forward"), [(0.5, 0), (0, 0.25), (0.5, 0.25), (0, 0)])
def test_weight_decay_lands_on_the_right_parameters(problem, convolution, feed_forward):
    """With gradients of zero, Adagrad's first step moves a weight by the learning rate against its sign if and only if
    it has an L2 cost."""
    learner = problem(l2_convolution=convolution, l2_feed_forward=feed_forward, learning_rate=0.01)
    costs = {}
    for group in learner.trainer.optimizer.param_groups:
        for parameter in group["params"]:
            assert id(parameter) not in costs
            costs[id(parameter)] = group["weight_decay"]
            parameter.grad = torch.zeros_like(parameter)
    before = weights(learner.model)
    learner.trainer.optimizer.step()
    for name, parameter in learner.model.named_parameters():
        stage = convolution if name.startswith("convolutions.") else feed_forward
        cost = stage if name.endswith(".weight") else 0
        assert costs[id(parameter)] == cost, name
        expected = before[name] - (0.01 * before[name].sign() if cost else 0)
        torch.testing.assert_close(parameter.detach(), expected, atol=1e-6, rtol=0)


def test_word_vectors_and_feature_statistics_stay(problem):
    learner = problem(epochs=2, features=LEX3)
    learner.model.set_feature_statistics(*STATISTICS)
    learner.trained()
    assert learner.model.vectors.numpy().tobytes() == learnable.vectors().matrix.tobytes()
    assert learner.model.feature_mean.tolist() == pytest.approx([0.3, 0.2, 0.4])
    assert learner.model.feature_scale.tolist() == pytest.approx([2, 4, 0.5])


def test_saved_measures_and_written_files(problem):
    """The log is valid JSON, without NaN, even if a measure is NaN."""
    values = iter([0.5, 0.25, math.nan])
    learner = problem("a/b", epochs=3, patience=3, validate=lambda: {"nDCG@20": next(values), "AP": 0.75}).trained()
    loss = learner.trainer.history[0]["loss"]
    assert [measures for measures, _ in learner.saved.values()] == [
        {"epoch": 1, "loss": loss, "nDCG@20": 0.5, "AP": 0.75}
    ]
    files = {path.name: path for path in learner.folder.iterdir()}
    assert set(files) == {"log.jsonl", "log.png", "state.json", "3.state.safetensors"}
    lines = files["log.jsonl"].read_text().splitlines()
    entries = [json.loads(line, parse_constant=pytest.fail) for line in lines]
    assert entries[:2] == learner.trainer.history[:2]
    assert [entry["epoch"] for entry in entries] == [1, 2, 3]
    assert [entry["deciding"] for entry in entries] == [0.5, 0.25, None]
    assert all(entry["training_seconds"] >= 0 for entry in entries)
    png = files["log.png"].read_bytes()
    assert png.startswith(b"\x89PNG\r\n\x1a\n") and png.endswith(b"IEND\xaeB`\x82")


@pytest.mark.parametrize(("seconds", "plots"), [(1000.0, [3]), (0.0, [1, 2, 3, 3])])
def test_a_plot_takes_little_of_the_time(problem, monkeypatch, seconds, plots):
    """It is drawn at the end, and before only so often."""
    drawn = []
    monkeypatch.setattr(trainer, "PLOT_SECONDS", seconds)
    monkeypatch.setattr(trainer, "plot_history", lambda history, path: drawn.append(len(history)))
    problem(epochs=3).trained()
    assert drawn == plots


def test_a_loss_that_is_not_a_number(problem):
    learner = problem(epochs=1)
    with torch.no_grad():
        learner.model.layers[-1].bias.fill_(math.nan)
    with pytest.raises(InputError, match="loss is nan in epoch 1"):
        learner.trained()
    assert learner.saved == {}


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"patience": 0}, "patience is 0: it must be at least 1"),
        ({"learning_rate": math.nan}, "learning_rate is nan: it must be finite and above 0"),
        ({"l2_convolution": -1e-9}, "l2_convolution is -1e-09: it must be at least 0"),
        ({"loss": "mse"}, "unknown loss 'mse'; known: hinge, bce, margin$"),
        ({"weights": "log"}, "the loss 'hinge' has no weights 'log'; known: sqrt, none$"),
        ({"weights": "batch", "sampling": "batch"}, "the loss 'hinge' has no weights 'batch'"),
        ({"loss": "bce", "weights": "x"}, "the loss 'bce' has no weights 'x'; known: log, sqrt, none$"),
        ({"sampling": "x"}, "the loss 'hinge' has no sampling 'x'; known: balanced, groups$"),
        ({"loss": "bce", "sampling": "groups"}, "the loss 'bce' has no sampling 'groups'; known: balanced$"),
        ({"loss": "softmax", "negatives": "none"}, "unknown negatives 'none'"),
        ({"negatives": "collection"}, "are for the loss softmax"),
        ({"averaging": 1.0}, "at least 0 and below 1"),
        ({"restart": 6, "patience": 5}, "needs a patience of at least as many"),
        ({"ndcg_share": 0.5}, "needs the loss softmax"),
    ],
)
def test_wrong_settings(settings, message):
    with pytest.raises(InputError, match=message):
        TrainingConfig(**settings)
