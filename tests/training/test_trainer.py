"""The trainer: learning, repeating, resuming, stopping, and what it writes."""

import json
import math
import shutil

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from rerank_plugin.features.lexical_features import LEX3
from rerank_plugin.files.errors import InputError
from rerank_plugin.training.pairs import draw_pairs
from rerank_plugin.training.trainer import Trainer, TrainingConfig
from tests import small
from tests.training import learnable
from tests.training.learnable import Problem, same, weights

STATISTICS = torch.tensor([0.3, 0.2, 0.4]), torch.tensor([0.5, 0.25, 2.0])  # means and deviations of LEX3


def scripted(values):
    """A validation that gives measures from a list; the first of two decides."""
    remaining = iter(values)
    return lambda: {"AP": next(remaining), "decoy": 0.0}


@pytest.mark.parametrize("start", [1, 2])
def test_it_learns(corpus, tmp_path, start):
    """On topics that were never trained on; a random order gives a mean average precision of about 0.1."""
    problem = Problem(corpus, tmp_path, start=start, epochs=8, patience=8, learning_rate=0.1)
    before = problem.held_out()["AP"]
    problem.trainer.train()
    losses = [entry["loss"] for entry in problem.trainer.history]
    assert len(losses) == 8
    assert before < 0.4
    assert problem.trainer.best >= 0.75
    assert losses[-1] < 0.5 * losses[0]
    assert problem.trainer.best == max(measures["AP"] for measures, _ in problem.saved.values())


def test_best_weights_are_those_that_were_validated(corpus, tmp_path):
    """What was saved for the best epoch, put into a fresh model, reaches the measure that was logged for it."""
    problem = Problem(corpus, tmp_path, epochs=4)
    problem.trainer.train()
    epoch = max(problem.saved)
    measures, saved = problem.saved[epoch]
    fresh = Problem(corpus, tmp_path / "fresh", start=99)
    fresh.model.load_state_dict(saved)
    assert fresh.held_out()["AP"] == measures["AP"] == problem.trainer.best


def test_validation_sees_no_dropout(corpus, tmp_path):
    modes = []
    problem = Problem(corpus, tmp_path, epochs=2, validate=lambda: modes.append(problem.model.training) or {"AP": 0.0})
    problem.trainer.train()
    assert modes == [False, False]


def test_same_seed_same_weights(corpus, tmp_path):
    def train(name, seed):
        problem = Problem(corpus, tmp_path / name, epochs=2, pairs_per_query=6, seed=seed)
        problem.trainer.train()
        return weights(problem.model)

    first = train("first", 5)
    torch.rand(7), np.random.rand(7)  # the global generators play no part
    assert same(first, train("again", 5))
    assert not same(first, train("other", 6))


def test_the_first_loss_is_that_of_search_scores(corpus, tmp_path):
    """Without dropout and with steps too small to matter, the loss is the hinge of the scores that search gives."""
    problem = Problem(
        corpus, tmp_path, epochs=1, dropout=0.0, learning_rate=1e-30, l2_convolution=0, l2_feed_forward=0,
        features=LEX3, pairs_per_query=7, batch_size=16,
    )  # fmt: skip
    problem.model.set_feature_statistics(*STATISTICS)
    drawn = draw_pairs(problem.pools, 7, np.random.default_rng([5, 1]))
    scores = []
    for query, pool in zip(learnable.queries(learnable.TOPICS), problem.pools):
        assert query.id == pool.query_id
        scores.append(problem.reranker.score(query, small.candidates(corpus, pool.rows)))
    expected = [
        math.sqrt(problem.pools[p].relevance[b] - problem.pools[p].relevance[w])
        * max(0.0, 1 - float(scores[p][b]) + float(scores[p][w]))
        for p, b, w in zip(drawn.pool, *drawn.places)
    ]
    assert len(expected) == 7 * learnable.TRAINED and len(expected) % 16  # the last batch is smaller
    problem.trainer.train()
    assert problem.trainer.history[0]["loss"] == pytest.approx(np.mean(expected), rel=1e-5)


@pytest.mark.parametrize("stopped_after", [1, 2, 4])
def test_resumed_equals_uninterrupted(corpus, tmp_path, stopped_after):
    """Killed in the validation of the next epoch: its steps are lost, and done again bit for bit."""
    whole = Problem(corpus, tmp_path / "whole", epochs=5, patience=5, features=LEX3)
    whole.model.set_feature_statistics(*STATISTICS)
    whole.trainer.train()

    class Killed(Exception):
        pass

    def kill():
        if len(killed.trainer.history) == stopped_after:
            raise Killed
        return killed.held_out()

    killed = Problem(corpus, tmp_path / "parts", epochs=5, patience=5, features=LEX3, validate=kill)
    killed.model.set_feature_statistics(*STATISTICS)
    with pytest.raises(Killed):
        killed.trainer.train()

    resumed = Problem(corpus, tmp_path / "parts", start=77, epochs=5, patience=5, features=LEX3)
    assert resumed.trainer.resume() is True
    assert len(resumed.trainer.history) == stopped_after
    resumed.trainer.train()
    assert same(weights(resumed.model), weights(whole.model))
    for number, state in whole.trainer.optimizer.state_dict()["state"].items():
        assert same(resumed.trainer.optimizer.state_dict()["state"][number], state)
    for one in (whole, resumed):
        for entry in one.trainer.history:
            del entry["training_seconds"], entry["validation_seconds"]
    assert whole.trainer.history == resumed.trainer.history
    assert {**killed.saved, **resumed.saved}.keys() == whole.saved.keys()


def test_more_epochs_by_resuming(corpus, tmp_path):
    whole = Problem(corpus, tmp_path / "whole", epochs=4, patience=9)
    whole.trainer.train()
    Problem(corpus, tmp_path / "parts", epochs=2, patience=1).trainer.train()
    longer = Problem(corpus, tmp_path / "parts", start=3, epochs=4, patience=9)
    assert longer.trainer.resume()
    longer.trainer.train()
    assert same(weights(longer.model), weights(whole.model))


def test_killed_between_writing_tensors_and_description(corpus, tmp_path):
    """The description still names the older tensors, and both are there."""
    problem = Problem(corpus, tmp_path / "parts", epochs=1)
    problem.trainer.train()
    shutil.copytree(tmp_path / "parts", tmp_path / "epoch1")
    whole = Problem(corpus, tmp_path / "parts", epochs=3, patience=3)
    whole.trainer.resume()
    whole.trainer.train()
    for path in (tmp_path / "parts").glob("*.safetensors"):
        shutil.copy(path, (tmp_path / "epoch1") / path.name.replace("3.", "2."))
    resumed = Problem(corpus, tmp_path / "epoch1", start=3, epochs=3, patience=3)
    assert resumed.trainer.resume() and len(resumed.trainer.history) == 1
    resumed.trainer.train()
    assert same(weights(resumed.model), weights(whole.model))


def test_nothing_to_resume(corpus, tmp_path):
    problem = Problem(corpus, tmp_path / "nowhere")
    before = weights(problem.model)
    assert problem.trainer.resume() is False
    assert same(weights(problem.model), before) and problem.trainer.history == []


def test_settings_must_be_the_same(corpus, tmp_path):
    Problem(corpus, tmp_path, epochs=1).trainer.train()
    other = dict(learning_rate=0.04, batch_size=17, l2_convolution=0.5, pairs_per_query=49, dropout=0.3, seed=6)
    for name, value in other.items():
        with pytest.raises(InputError, match="other settings") as raised:
            Problem(corpus, tmp_path, epochs=1, **{name: value}).trainer.resume()
        assert str(tmp_path) in str(raised.value)


def without(name):
    """Leaves a tensor of the state out."""

    def drop(path):
        save_file({one: tensor for one, tensor in load_file(path).items() if one != name}, path)

    return drop


@pytest.mark.parametrize(
    "damage",
    [
        without("optimizer.0.sum"),
        without("model.layers.0.bias"),
        lambda tensors: tensors.write_bytes(tensors.read_bytes()[:-50]),
        lambda tensors: tensors.unlink(),
        lambda tensors: (tensors.parent / "state.json").write_text("{"),
        lambda tensors: (tensors.parent / "state.json").write_text("{}"),
        lambda tensors: (tensors.parent / "state.json").write_text("[]"),
    ],
    ids=["optimizer tensor", "model tensor", "truncated", "no tensors", "half json", "empty json", "other json"],
)
def test_damaged_state(corpus, tmp_path, damage):
    Problem(corpus, tmp_path, epochs=1).trainer.train()
    [tensors] = tmp_path.glob("*.safetensors")
    damage(tensors)
    with pytest.raises(InputError) as raised:
        Problem(corpus, tmp_path, epochs=2).trainer.resume()
    assert str(tmp_path) in str(raised.value) and "\n" not in str(raised.value)


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
def test_early_stopping(corpus, tmp_path, values, patience, epochs_run, saved):
    problem = Problem(
        corpus, tmp_path, epochs=len(values), patience=patience, validate=scripted(values), pairs_per_query=2
    )
    problem.trainer.train()
    assert len(problem.trainer.history) == epochs_run
    assert sorted(problem.saved) == saved
    assert not math.isnan(problem.trainer.best)
    finite = [value for value in values[:epochs_run] if math.isfinite(value)]
    assert problem.trainer.best == max(finite, default=-math.inf)


def test_best_and_patience_outlive_a_resumption(corpus, tmp_path):
    """0.5 was best in epoch 1: after resuming, 0.4 is not saved over it, and one epoch without gain counts already."""
    Problem(corpus, tmp_path, epochs=2, patience=3, validate=scripted([0.5, 0.3]), pairs_per_query=2).trainer.train()
    resumed = Problem(corpus, tmp_path, epochs=9, patience=3, validate=scripted([0.4, 0.45, 0.9]), pairs_per_query=2)
    resumed.trainer.resume()
    assert (resumed.trainer.best, resumed.trainer.epochs_without_gain) == (0.5, 1)
    resumed.trainer.train()
    assert [entry["deciding"] for entry in resumed.trainer.history] == [0.5, 0.3, 0.4, 0.45] and resumed.saved == {}


def test_what_is_saved(corpus, tmp_path):
    problem = Problem(corpus, tmp_path, epochs=1, validate=lambda: {"nDCG@20": 0.25, "AP": 0.5})
    problem.trainer.train()
    [(measures, _)] = problem.saved.values()
    assert measures == {"epoch": 1, "loss": problem.trainer.history[0]["loss"], "nDCG@20": 0.25, "AP": 0.5}
    assert problem.trainer.best == 0.25


def test_an_epoch_that_could_not_be_saved_is_done_again(corpus, tmp_path):
    """The disk was full: the state is still that of the epoch before, so resuming trains and saves this epoch."""

    def full(measures, best):
        raise OSError("no space left")

    with pytest.raises(OSError, match="no space"):
        Problem(corpus, tmp_path, epochs=1, validate=scripted([0.5]), on_save=full).trainer.train()
    again = Problem(corpus, tmp_path, epochs=1, validate=scripted([0.5]))
    again.trainer.resume()
    again.trainer.train()
    assert list(again.saved) == [1]


def test_weight_decay_lands_on_the_right_parameters(corpus, tmp_path):
    """With gradients of zero, Adagrad's first step moves a weight by the learning rate against its sign if and only if
    it has an L2 cost."""
    for convolution, feed_forward in [(0.5, 0), (0, 0.25), (0.5, 0.25), (0, 0)]:
        problem = Problem(
            corpus, tmp_path, l2_convolution=convolution, l2_feed_forward=feed_forward, learning_rate=0.01
        )
        costs = {}
        for group in problem.trainer.optimizer.param_groups:
            for parameter in group["params"]:
                assert id(parameter) not in costs
                costs[id(parameter)] = group["weight_decay"]
                parameter.grad = torch.zeros_like(parameter)
        before = weights(problem.model)
        problem.trainer.optimizer.step()
        for name, parameter in problem.model.named_parameters():
            stage = convolution if name.startswith("convolutions.") else feed_forward
            cost = stage if name.endswith(".weight") else 0
            assert costs[id(parameter)] == cost, name
            expected = before[name] - (0.01 * before[name].sign() if cost else 0)
            torch.testing.assert_close(parameter.detach(), expected, atol=1e-6, rtol=0)


def test_word_vectors_and_feature_statistics_stay(corpus, tmp_path):
    problem = Problem(corpus, tmp_path, epochs=2, features=LEX3)
    problem.model.set_feature_statistics(*STATISTICS)
    problem.trainer.train()
    assert problem.model.vectors.numpy().tobytes() == learnable.vectors().matrix.tobytes()
    assert problem.model.feature_mean.tolist() == pytest.approx([0.3, 0.2, 0.4])
    assert problem.model.feature_scale.tolist() == pytest.approx([2, 4, 0.5])


def test_files(corpus, tmp_path):
    problem = Problem(corpus, tmp_path / "a" / "b", epochs=3, patience=3)
    problem.trainer.train()
    files = {path.name: path for path in problem.folder.iterdir()}
    assert set(files) == {"log.jsonl", "log.png", "state.json", "3.state.safetensors"}
    entries = [json.loads(line) for line in files["log.jsonl"].read_text().splitlines()]
    assert entries == problem.trainer.history
    assert [entry["epoch"] for entry in entries] == [1, 2, 3]
    assert all(entry["AP"] == entry["deciding"] and entry["training_seconds"] >= 0 for entry in entries)
    png = files["log.png"].read_bytes()
    assert png.startswith(b"\x89PNG\r\n\x1a\n") and png.endswith(b"IEND\xaeB`\x82")


def test_the_log_is_json_when_a_measure_is_not_a_number(corpus, tmp_path):
    """JSON knows no NaN and no Infinity; what reads the log need not be Python."""
    Problem(corpus, tmp_path, epochs=1, validate=lambda: {"AP": math.nan}).trainer.train()

    def refuse(constant):
        raise AssertionError(f"{constant} is not JSON")

    [line] = (tmp_path / "log.jsonl").read_text().splitlines()
    assert json.loads(line, parse_constant=refuse)["epoch"] == 1


def test_a_loss_that_is_not_a_number(corpus, tmp_path):
    problem = Problem(corpus, tmp_path, epochs=1)
    with torch.no_grad():
        problem.model.layers[-1].bias.fill_(math.nan)
    with pytest.raises(InputError, match="loss is nan in epoch 1"):
        problem.trainer.train()
    assert problem.saved == {}


def test_nothing_to_learn(corpus, tmp_path):
    problem = Problem(corpus, tmp_path)
    with pytest.raises(InputError, match="nothing to learn"):
        Trainer(problem.model, problem.reranker.builder, [], TrainingConfig(), dict, print, tmp_path)


COUNTS = ("epochs", "patience", "batch_size", "pairs_per_query", "queries_per_document")
ABOVE_ZERO = ("learning_rate", "temperature", "grade_power")
NUMBERS = [
    *((name, value) for name in ABOVE_ZERO for value in (0, -1, math.nan, math.inf)),
    *((name, value) for name in ("l2_convolution", "l2_feed_forward") for value in (-1e-9, math.nan, math.inf)),
]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        *(({name: 0}, "at least 1") for name in COUNTS),
        *(({name: value}, "must be above 0 and L2 costs not below 0") for name, value in NUMBERS),
        ({"loss": "mse"}, "unknown loss 'mse'; known: hinge, bce, margin$"),
        ({"weights": "log"}, "the loss 'hinge' has no weights 'log'; known: sqrt, none$"),
        ({"weights": "batch", "sampling": "batch"}, "the loss 'hinge' has no weights 'batch'"),
        ({"loss": "bce", "weights": "x"}, "the loss 'bce' has no weights 'x'; known: log, sqrt, none$"),
        ({"sampling": "x"}, "the loss 'hinge' has no sampling 'x'; known: balanced, groups$"),
        ({"loss": "bce", "sampling": "groups"}, "the loss 'bce' has no sampling 'groups'; known: balanced$"),
        ({"loss": "softmax", "negatives": "none"}, "unknown negatives 'none'"),
        ({"negatives": "collection"}, "are for the loss softmax"),
        ({"averaging": 1.0}, "at least 0 and below 1"),
        ({"averaging": math.nan}, "at least 0 and below 1"),
        ({"restart": 6, "patience": 5}, "needs a patience of as many"),
        ({"restart": -1}, "needs a patience"),
        ({"start_share": 1.0}, "at least 0 and below 1"),
        ({"loss": "softmax", "ndcg_share": 1.1}, "between 0 and 1, and of the loss softmax"),
        ({"ndcg_share": 0.5}, "between 0 and 1, and of the loss softmax"),
    ],
)
def test_wrong_settings(given, said):
    with pytest.raises(InputError, match=said):
        TrainingConfig(**given)
