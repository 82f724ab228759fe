"""``python -m rerank_plugin.train`` as it is run, with candidates from runs, so without Java."""

import json
import shutil

import numpy as np
import pytest

from rerank_plugin import train
from rerank_plugin.base.errors import InputError
from rerank_plugin.base.records import Query
from rerank_plugin.inputs.lexical_features import LEX3
from rerank_plugin.models.checkpoint import Checkpoint
from rerank_plugin.rerankers.neural import NeuralReranker
from rerank_plugin.text import word_vectors
from rerank_plugin.training.session import TrainingSet, sampled_queries
from tests.training import learnable
from tests.training.commanded import resumed, run, validation_killed, weights_of


def test_a_checkpoint_is_trained_and_described(inputs, corpus, tmp_path, capsys):
    """The measures in the checkpoint and on stdout are those that its scores give."""
    run(inputs, tmp_path / "made", "--lexical-features lex3 --learning-rate 0.1 --seed 7")
    assert [path.name for path in tmp_path.iterdir()] == ["made"]
    config = Checkpoint.open(tmp_path / "made").description
    assert config["config"]["lexical_features"] == list(LEX3) and config["config"]["filters"] == 6
    assert (config["seed"], config["training"]["epochs"], config["training"]["learning_rate"]) == (7, 3, 0.1)
    log = [json.loads(line) for line in (tmp_path / "made" / "log.jsonl").read_text().splitlines()]
    best = max(log, key=lambda entry: entry["AP"])
    assert len(log) == 3 and config["measures"]["AP"] == best["AP"] and config["measures"]["epoch"] == best["epoch"]
    assert (tmp_path / "made" / "log.png").read_bytes().startswith(b"\x89PNG\r\n\x1a\n")
    output = capsys.readouterr().out
    assert f"best epoch {best['epoch']} of 3" in output and f"AP {best['AP']:.4f}" in output
    model, vocabulary = (opened := Checkpoint.open(tmp_path / "made")).module(), opened.vocabulary
    assert model.feature_mean.any() and (model.feature_scale != 1).all()
    reranker = NeuralReranker(model, vocabulary, corpus)
    reached = learnable.mean_average_precision(corpus, reranker, learnable.TOPICS[learnable.TRAINED :])
    assert reached == pytest.approx(best["AP"], abs=1e-6)


@pytest.fixture(scope="module")
def first(inputs, tmp_path_factory):
    """A checkpoint to fine-tune."""
    made = tmp_path_factory.mktemp("first") / "made"
    run(inputs, made, "--epochs 1 --lexical-features lex3")
    return made


def test_any_hyper_parameter_by_name(inputs, tmp_path):
    run(inputs, tmp_path / "made", "--epochs 1 --set slope=0.125 differences=false", "hidden=[4, 3]")
    config = Checkpoint.open(tmp_path / "made").description["config"]
    assert (config["slope"], config["hidden"], config["differences"]) == (0.125, [4, 3], False)
    assert Checkpoint.open(tmp_path / "made").module().layers[1].weight.shape == (3, 4)


@pytest.mark.parametrize(
    "how",
    [
        "--optimizer adagrad",
        "--loss bce --weights log --optimizer adadelta",
        "--loss bce --weights log --optimizer adam",
        "--sampling groups --optimizer sgd",
    ],
)
def test_resuming_a_killed_training(inputs, tmp_path, monkeypatch, how):
    """Killed in the second validation; the resumed training gives the checkpoint of one that was never killed."""
    run(inputs, tmp_path / "whole", how)
    resumed(monkeypatch, lambda *given: run(inputs, *given), tmp_path / "parts", how)
    assert weights_of(tmp_path / "whole") == weights_of(tmp_path / "parts")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["parts", "whole"]


def test_an_existing_checkpoint_is_kept_unless_told(inputs, first, tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "precious").write_text("x")
    with pytest.raises(InputError, match="mine is not a trained checkpoint"):
        run(inputs, tmp_path / "mine", "--overwrite")
    assert (tmp_path / "mine" / "precious").exists()
    shutil.copytree(first, tmp_path / "made")
    with pytest.raises(InputError, match="made exists already"):
        run(inputs, tmp_path / "made", "--epochs 1")
    run(inputs, tmp_path / "made", "--overwrite --epochs 1 --seed 7")
    assert Checkpoint.open(tmp_path / "made").description["seed"] == 7


def test_word_vectors_that_cannot_be_used_are_named(inputs, tmp_path):
    """NaN would otherwise end as a NaN loss; and the words of another tokenizer do not match the index's."""
    words = learnable.vectors()
    word_vectors.save(words, tmp_path / "foreign", {"tokenizer": {"name": "spaces", "version": 1}})
    words.matrix[3] = np.nan
    word_vectors.save(words, tmp_path / "broken", {})
    for name, message in (("broken", "broken"), ("foreign", "tokeniz")):
        with pytest.raises(InputError, match=message):
            run(inputs, tmp_path / "made", f"--words {tmp_path / name} --epochs 1")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("--validation {inputs}/train.tsv,{inputs}/train.qrels", "8 queries are both for training and for validation"),
        ("--model oracle", "oracle"),
        ("--set width=2", "width 2"),
        ("--lexical-features bm25_footnote", "bm25_footnote"),
        ("--device abacus", "abacus"),
        ("--precision bfloat16", "is for cross-encoders"),
        ("--precision float16", "unknown precision of a training"),
        ("--measures no-such-measure", "no-such-measure"),
        ("--words no-such-folder", "no-such-folder"),
        ("--set slope", "NAME=VALUE"),
        ("--set slop=0.1", "slop.*known.*slope"),
        ("--set slope=steep", "slope is 'steep'"),
        ("--set filters=3", "filters is given twice"),
    ],
)
def test_wrong_options(inputs, tmp_path, options, message):
    with pytest.raises(InputError, match=message):
        run(inputs, tmp_path / "made", options.format(inputs=inputs))
    assert not any(tmp_path.iterdir())


def test_selecting_features(inputs, tmp_path, capsys):
    """Trains with each feature alone, then with the best and each other; the last model is the checkpoint."""
    names, short = ["overlap_text", "bm25_title", "jaccard_abstract"], "--epochs 1 --pairs-per-query 4"
    run(inputs, tmp_path / "made", f"--select-lexical-features 2 --lexical-features {' '.join(names)} {short}")
    chosen = Checkpoint.open(tmp_path / "made").description["config"]["lexical_features"]
    assert len(set(chosen)) == 2 and set(chosen) < set(names)
    output = capsys.readouterr().out
    assert f"{tmp_path / 'made'}: {' '.join(chosen)}" in output
    assert (tmp_path / "made" / "selection.md").read_text() in output
    assert [path.name for path in tmp_path.iterdir()] == ["made"]
    run(inputs, tmp_path / "direct", f"--lexical-features {' '.join(chosen)} {short}")
    assert weights_of(tmp_path / "made") == weights_of(tmp_path / "direct")


def test_an_interrupted_selection_is_resumed(inputs, tmp_path, monkeypatch):
    select = "--select-lexical-features 1 --lexical-features overlap_text bm25_title --epochs 1"
    run(inputs, tmp_path / "whole", select)
    with validation_killed(monkeypatch):
        run(inputs, tmp_path / "parts", select)
    with pytest.raises(InputError, match="holds an interrupted selection: resume or overwrite it"):
        run(inputs, tmp_path / "parts", select)
    run(inputs, tmp_path / "parts", select, "--resume")
    assert weights_of(tmp_path / "whole") == weights_of(tmp_path / "parts")


def test_fine_tuning_starts_from_the_weights_of_a_checkpoint(inputs, first, tmp_path):
    still = "--learning-rate 1e-30 --l2-convolution 0 --l2-feed-forward 0 --epochs 1"
    run(inputs, tmp_path / "made", f"--start-from {first} --lexical-features lex3 {still}")
    before, after = (Checkpoint.open(folder).module().state_dict() for folder in (first, tmp_path / "made"))
    assert all((before[name] == after[name]).all() for name in before)
    assert Checkpoint.open(tmp_path / "made").description["training"]["start_from"] == str(first)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("--lexical-features bm25_title", "other lexical features"),
        ("--set hidden=[4]", "does not fit"),
        ("--model knrm", "holds the model 'delta'"),
        ("--words {folder}/words", "other word vectors"),
    ],
)
def test_a_checkpoint_to_start_from_must_fit(inputs, first, tmp_path, options, message):
    words = learnable.vectors()
    words.matrix[1] += 1
    word_vectors.save(words, tmp_path / "words", {})
    features = [] if "knrm" in options else ["--lexical-features lex3"]
    with pytest.raises(InputError, match=message):
        run(inputs, tmp_path / "made", f"--start-from {first}", *features, options.format(folder=tmp_path))


@pytest.mark.parametrize(
    ("options", "expected", "measures"),
    [
        ("", "hinge sqrt balanced 256 adagrad 0.01 5", "nDCG@20 AP"),
        ("--measures RR", "hinge sqrt balanced 256 adagrad 0.01 5", "RR"),
        ("--model sevmos", "bce sqrt balanced 256 adadelta 1.0 5", "nDCG@20 AP"),
        ("--model sevmos --loss hinge --weights none", "hinge none balanced 256 adadelta 1.0 5", "nDCG@20 AP"),
        ("--loss bce --optimizer adam", "bce none balanced 256 adam 0.001 5", "nDCG@20 AP"),
        # [P] 2.2: mini-batches of 32 triples by groups; what is given wins, field by field.
        *((f"--model {model}", "hinge none groups 32 adam 0.001 30", "ERR@20 nDCG@20")
          for model in ("pacrr", "drmm", "duet", "matchpyramid", "knrm", "conv-knrm")),
        ("--model knrm --sampling balanced --optimizer sgd", "hinge none balanced 32 sgd 0.01 30", "ERR@20 nDCG@20"),
        # A classifier knows no groups of pairs, and the weights of one loss say nothing of the other's.
        ("--model pacrr --loss bce", "bce none balanced 32 adam 0.001 30", "ERR@20 nDCG@20"),
        ("--model delta-classifier --loss hinge", "hinge sqrt balanced 256 adadelta 1.0 5", "nDCG@20 AP"),
        *((f"--model {model}", "hinge none batch 20 adam 0.001 5", "AP nDCG@10") for model in ("ktrel", "ktrel-w")),
    ],
)  # fmt: skip
def test_a_model_is_trained_as_its_paper_says(options, expected, measures):
    arguments = f"--index i --train t --validation v --words w --output o {options}".split()
    task = train._task(train.arguments().parse_args(arguments))
    settings = (getattr(task.training, name) for name in "loss weights sampling batch_size optimizer".split())
    learning_rate, patience = task.training.learning_rate, task.training.patience
    assert " ".join(map(str, (*settings, learning_rate, patience))) == expected
    assert task.measures == measures.split()


def test_groups_without_pairs_are_refused(inputs, tmp_path):
    """All relevant documents are highly relevant: [P]'s groups have no pair, and no epoch may pretend to train."""
    (tmp_path / "high.qrels").write_text((inputs / "train.qrels").read_text().replace(" 1\n", " 2\n"))
    message = "8 training queries give no example for the loss hinge with the sampling groups"
    with pytest.raises(InputError, match=message):
        run(inputs, tmp_path / "made", f"--train {inputs / 'train.tsv'},{tmp_path / 'high.qrels'} --sampling groups")
    assert not (tmp_path / "made").exists()


def train_ktrel(inputs, output, *more):
    run(inputs, output, "--model ktrel-w --set heads=2 feed_forward=8 --batch-size 8", *more)
    return Checkpoint.open(output).description["training"]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ("--loss softmax --temperature 0.2",
         dict(documents="relevant", temperature=0.2, optimizer="adam", loss="softmax")),
        ("--seed 42", dict(documents="relevant", sampling="batch", loss="hinge", weights="none")),  # [K]'s
        ("--sampling balanced", dict(documents="collection", sampling="balanced", loss="hinge")),
    ],
)  # fmt: skip
def test_an_encoder(inputs, tmp_path, options, expected):
    """Batches are made of relevant documents, and pairs drawn from the whole collection."""
    training = train_ktrel(inputs, tmp_path / "c", options)
    assert {name: training[name] for name in expected} == expected
    assert "AP" in Checkpoint.open(tmp_path / "c").description["measures"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("--loss softmax --training-documents judged", "--training-documents .*the loss softmax"),
        ("--loss softmax --weights none", "--weights .*the loss softmax"),
        ("--loss softmax --sampling balanced", "--sampling .*the loss softmax"),
        ("--loss softmax --pairs-per-query 3", "--pairs-per-query .*the loss softmax"),
        ("--pairs-per-query 3", "--pairs-per-query .*the sampling batch"),
        ("--temperature 0.2", "--temperature .*--loss softmax"),
        ("--sampling groups --queries-per-document 2", "--queries-per-document .*--sampling batch"),
    ],
)
def test_options_without_effect_are_refused(inputs, tmp_path, options, message):
    with pytest.raises(InputError, match=f"{message}.*leave it out"):
        train_ktrel(inputs, tmp_path / "c", options)


def test_other_texts_of_the_same_queries(inputs, tmp_path):
    """Both texts of a query train under its id; --train-queries keeps some of all texts."""
    lines = (inputs / "train.tsv").read_text().splitlines()
    (tmp_path / "longer.tsv").write_text("".join(f"{line} patients\n" for line in lines))
    short, longer = f"{inputs}/train.tsv,{inputs}/train.qrels", f"{tmp_path}/longer.tsv,{inputs}/train.qrels"
    both = f"--train {short} --train {longer}"
    assert train_ktrel(inputs, tmp_path / "both", both)["train"] == [short, longer]
    train_ktrel(inputs, tmp_path / "short", f"--train {short}")
    sampled = train_ktrel(inputs, tmp_path / "sampled", f"{both} --train-queries 5")
    assert sampled["queries_at_most"] == 5
    checkpoints = (Checkpoint.open(tmp_path / name) for name in ("both", "short", "sampled"))
    assert len({checkpoint.description["measures"]["loss"] for checkpoint in checkpoints}) == 3


def test_larger_samples_contain_smaller_ones():
    sets = [TrainingSet([Query(f"{name}{i}", "") for i in range(6)], {}) for name in "ab"]
    samples = [{query.id for sample in sampled_queries(sets, n, 3) for query in sample.queries} for n in range(13)]
    assert [len(sample) for sample in samples] == list(range(13))
    assert all(sample <= larger for sample, larger in zip(samples, samples[1:]))
    assert sampled_queries(sets, None, 3) == sets and {id[0] for id in samples[6]} == {"a", "b"}


@pytest.mark.parametrize(
    "more, message",
    [
        ("--train a --train b --train-run r --validation v", "--train-run has the candidates of one --train"),
        ("--train a --train b --folds 3", "--folds takes all queries of one --train"),
        ("--train a --train-queries 9 --folds 3", "--folds takes all queries of one --train"),
        ("--train a --train-queries 0 --validation v", "--train-queries must be at least 1"),
        ("--train a --folds 3 --validation x:dev", "not allowed with argument"),
        ("--train a", "one of the arguments --validation --folds is required"),
        ("--train a --folds 3 --validation-run x.run", "not --validation-run"),
        ("--train a --folds 3 --select-lexical-features 2", "needs --validation instead of --folds"),
        ("--train a --validation x:dev --fold-validation 2", "--fold-validation needs --folds"),
        ("--train a --folds 3 --fold-validation 1.5", "--fold-validation: invalid"),
        ("--train a --folds 3 --fold-validation 0", "--fold-validation: invalid"),
    ],
)
def test_wrong_usage(capsys, more, message):
    with pytest.raises(SystemExit) as stopped:
        train.main(f"--index i --words w --output o {more}".split())
    assert stopped.value.code == 2 and message in capsys.readouterr().err
