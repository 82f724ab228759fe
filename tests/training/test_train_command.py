"""``python -m rerank_plugin.train`` as it is run, with candidates from runs, so without Java."""

import json

import numpy as np
import pytest

from rerank_plugin import train
from rerank_plugin.features.lexical_features import LEX3
from rerank_plugin.files.errors import InputError
from rerank_plugin.files.records import Query
from rerank_plugin.models.checkpoints import load_checkpoint, read_config
from rerank_plugin.rerankers.neural import NeuralReranker
from rerank_plugin.text import word_vectors
from rerank_plugin.training.session import TrainingSet, some_queries
from tests.training import learnable
from tests.training.commanded import always, run, validation_killed


def test_a_checkpoint_is_trained_and_described(inputs, tmp_path, capsys):
    """The measures in the checkpoint and on stdout are those that its scores give."""
    run(inputs, tmp_path / "made", "--lexical-features", "lex3", "--learning-rate", "0.1", "--seed", "7")
    assert [path.name for path in tmp_path.iterdir()] == ["made"]
    config = read_config(tmp_path / "made")
    assert config["config"]["lexical_features"] == list(LEX3) and config["config"]["filters"] == 6
    assert (config["seed"], config["training"]["epochs"], config["training"]["learning_rate"]) == (7, 3, 0.1)
    log = [json.loads(line) for line in (tmp_path / "made" / "log.jsonl").read_text().splitlines()]
    best = max(log, key=lambda entry: entry["AP"])
    assert len(log) == 3 and config["measures"]["AP"] == best["AP"] and config["measures"]["epoch"] == best["epoch"]
    assert (tmp_path / "made" / "log.png").read_bytes().startswith(b"\x89PNG\r\n\x1a\n")
    said = capsys.readouterr().out
    assert f"best epoch {best['epoch']} of 3" in said and f"AP {best['AP']:.4f}" in said
    model, vocabulary = load_checkpoint(tmp_path / "made")
    assert model.feature_mean.any() and (model.feature_scale != 1).all()
    reached = learnable.mean_average_precision(
        inputs[1], NeuralReranker(model, vocabulary, inputs[1]), learnable.TOPICS[learnable.TRAINED :]
    )
    assert reached == pytest.approx(best["AP"], abs=1e-6)


def test_any_hyper_parameter_by_name(inputs, tmp_path):
    run(inputs, tmp_path / "made", "--epochs", "1", "--set", "slope=0.125", "hidden=[4, 3]", "differences=false")
    config = read_config(tmp_path / "made")["config"]
    assert (config["slope"], config["hidden"], config["differences"]) == (0.125, [4, 3], False)
    assert load_checkpoint(tmp_path / "made")[0].layers[1].weight.shape == (3, 4)


def test_the_seed_decides(inputs, tmp_path):
    for name, seed in [("first", 1), ("again", 1), ("other", 2)]:
        run(inputs, tmp_path / name, "--seed", str(seed), "--epochs", "1")
    contents = [(tmp_path / name / "model.safetensors").read_bytes() for name in ("first", "again", "other")]
    assert contents[0] == contents[1] != contents[2]


def test_resuming_a_killed_training(inputs, tmp_path, monkeypatch):
    """Killed in the second validation; the resumed training gives the checkpoint of one that was never killed."""
    run(inputs, tmp_path / "whole")
    with validation_killed(monkeypatch):
        run(inputs, tmp_path / "parts")
    assert not (tmp_path / "parts").exists()
    run(inputs, tmp_path / "parts", "--resume")
    files = [(tmp_path / name / "model.safetensors").read_bytes() for name in ("whole", "parts")]
    assert files[0] == files[1]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["parts", "whole"]


def test_an_existing_checkpoint_is_kept_unless_told(inputs, tmp_path):
    (tmp_path / "made").mkdir()
    (tmp_path / "made" / "precious").write_text("x")
    with pytest.raises(InputError, match="made is not a trained checkpoint"):
        run(inputs, tmp_path / "made")
    with pytest.raises(InputError, match="made is not a trained checkpoint"):
        run(inputs, tmp_path / "made", "--overwrite")
    assert (tmp_path / "made" / "precious").exists()
    run(inputs, tmp_path / "other", "--epochs", "1")
    with pytest.raises(InputError, match="other exists already"):
        run(inputs, tmp_path / "other", "--epochs", "1")
    run(inputs, tmp_path / "other", "--overwrite", "--epochs", "1", "--seed", "7")
    assert read_config(tmp_path / "other")["seed"] == 7


def test_training_and_validation_must_not_share_queries(inputs, tmp_path):
    with pytest.raises(InputError, match="8 queries are both for training and for validation"):
        run(inputs, tmp_path / "made", validation="train", validation_run="train.run")
    assert not any(tmp_path.iterdir())


def test_nan_word_vectors_are_named(inputs, tmp_path):
    """They would otherwise end as a loss that is no number."""
    words = learnable.vectors()
    words.matrix[3] = np.nan
    word_vectors.save(words, tmp_path / "broken", {})
    with pytest.raises(InputError, match="broken"):
        run(inputs, tmp_path / "made", "--words", str(tmp_path / "broken"), "--epochs", "1")


def test_word_vectors_of_another_tokenizer(inputs, tmp_path):
    """Their words are not the index's: the folder says how its texts were tokenized, and that must be how they are."""
    word_vectors.save(learnable.vectors(), tmp_path / "words", {"tokenizer": {"name": "spaces", "version": 1}})
    with pytest.raises(InputError, match="tokeniz"):
        run(inputs, tmp_path / "made", "--words", str(tmp_path / "words"), "--epochs", "1")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--model", "oracle"], "oracle"),
        (["--width", "2"], "width 2"),
        (["--lexical-features", "bm25_footnote"], "bm25_footnote"),
        (["--device", "abacus"], "abacus"),
        (["--patience", "0"], "patience"),
        (["--measures", "no-such-measure"], "no-such-measure"),
        (["--words", "no-such-folder"], "no-such-folder"),
        (["--learning-rate", "nan"], "learning rate"),
        (["--set", "slope"], "NAME=VALUE"),
        (["--set", "slop=0.1"], "slop.*known.*slope"),
        (["--set", "slope=steep"], "slope is 'steep'"),
        (["--set", "filters=3"], "filters is given twice"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_wrong_options(inputs, tmp_path, options, said):
    with pytest.raises(InputError, match=said):
        run(inputs, tmp_path / "made", *options)
    assert not any(tmp_path.iterdir())


def test_selecting_features(inputs, tmp_path, capsys):
    """Every feature is trained with alone, then the others beside the best; the last model is the checkpoint."""
    names = ["overlap_text", "bm25_title", "jaccard_abstract"]
    select = ["--select-lexical-features", "2", "--lexical-features", *names, "--epochs", "1", "--pairs-per-query", "4"]
    run(inputs, tmp_path / "made", *select)
    chosen = read_config(tmp_path / "made")["config"]["lexical_features"]
    assert len(set(chosen)) == 2 and set(chosen) < set(names)
    said = capsys.readouterr().out
    assert f"{tmp_path / 'made'}: {' '.join(chosen)}" in said
    assert (tmp_path / "made" / "selection.md").read_text() in said
    assert [path.name for path in tmp_path.iterdir()] == ["made"]
    run(inputs, tmp_path / "direct", "--lexical-features", *chosen, "--epochs", "1", "--pairs-per-query", "4")
    files = [(tmp_path / name / "model.safetensors").read_bytes() for name in ("made", "direct")]
    assert files[0] == files[1]


def test_an_interrupted_selection_is_gone_on_with(inputs, tmp_path, monkeypatch):
    select = ["--select-lexical-features", "1", "--lexical-features", "overlap_text", "bm25_title", "--epochs", "1"]
    run(inputs, tmp_path / "whole", *select)
    with validation_killed(monkeypatch):
        run(inputs, tmp_path / "parts", *select)
    with pytest.raises(InputError, match="resume or overwrite it"):
        run(inputs, tmp_path / "parts", *select)
    run(inputs, tmp_path / "parts", *select, "--resume")
    files = [(tmp_path / name / "model.safetensors").read_bytes() for name in ("whole", "parts")]
    assert files[0] == files[1]


def test_fine_tuning_starts_from_the_weights_of_a_checkpoint(inputs, tmp_path):
    run(inputs, tmp_path / "first", "--epochs", "1", "--lexical-features", "lex3")
    still = ["--learning-rate", "1e-30", "--l2-convolution", "0", "--l2-feed-forward", "0", "--epochs", "1"]
    run(inputs, tmp_path / "second", "--start-from", str(tmp_path / "first"), "--lexical-features", "lex3", *still)
    first, second = (load_checkpoint(tmp_path / name)[0].state_dict() for name in ("first", "second"))
    assert all((first[name] == second[name]).all() for name in first)
    assert read_config(tmp_path / "second")["training"]["start_from"] == str(tmp_path / "first")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--lexical-features", "bm25_title"], "other lexical features"),
        (["--set", "hidden=[4]"], "does not fit"),
        (["--model", "knrm"], "holds the model 'delta'"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_a_checkpoint_to_start_from_must_fit(inputs, tmp_path, options, said):
    run(inputs, tmp_path / "first", "--epochs", "1")
    if options[0] == "--model":  # knrm has no filters
        options = [*options, "--start-from", str(tmp_path / "first"), "--output", str(tmp_path / "made")]
        folder, _ = inputs
        both = [f"{folder / one}.tsv,{folder / one}.qrels" for one in ("train", "dev")]
        runs = [str(folder / f"{one}.run") for one in ("train", "dev")]
        with pytest.raises(InputError, match=said):
            train.main(
                ["--index", str(folder / "index"), "--words", str(folder / "words"), "--train", both[0],
                 "--validation", both[1], "--train-run", runs[0], "--validation-run", runs[1], *options]
            )  # fmt: skip
        return
    with pytest.raises(InputError, match=said):
        run(inputs, tmp_path / "made", "--start-from", str(tmp_path / "first"), *options)


def test_word_vectors_of_the_start_must_be_the_same(inputs, tmp_path):
    run(inputs, tmp_path / "first", "--epochs", "1")
    words = learnable.vectors()
    words.matrix[1] += 1
    word_vectors.save(words, tmp_path / "words", {})
    with pytest.raises(InputError, match="other word vectors"):
        run(inputs, tmp_path / "made", "--start-from", str(tmp_path / "first"), "--words", str(tmp_path / "words"))


def options(*given):
    always = ["--index", "i", "--train", "t", "--validation", "v", "--words", "w", "--output", "o"]
    return train.arguments().parse_args([*always, *given])


def test_a_model_is_trained_as_its_paper_says():
    def settings(*given):
        config = train.training_config(options(*given))
        return config.loss, config.weights, config.optimizer, config.learning_rate

    assert settings() == ("hinge", "sqrt", "adagrad", 0.01)
    assert settings("--model", "sevmos") == ("bce", "sqrt", "adadelta", 1.0)
    assert settings("--model", "sevmos", "--loss", "hinge", "--weights", "none") == ("hinge", "none", "adadelta", 1.0)
    assert settings("--loss", "bce", "--optimizer", "adam") == ("bce", "none", "adam", 0.001)


@pytest.mark.parametrize("model", ["pacrr", "drmm", "duet", "matchpyramid", "knrm", "conv-knrm"])
def test_the_recipe_of_pacrr(model):
    """[P] 2.2: mini-batches of 32 triples by groups, all alike; ERR@20 decides. What is given wins, field by field."""
    config = train.training_config(options("--model", model))
    assert (config.loss, config.weights, config.sampling, config.batch_size) == ("hinge", "none", "groups", 32)
    assert (config.optimizer, config.learning_rate, config.patience) == ("adam", 0.001, 30)
    config = train.training_config(options("--model", model, "--sampling", "balanced", "--optimizer", "sgd"))
    assert (config.sampling, config.weights) == ("balanced", "none")
    assert (config.optimizer, config.learning_rate) == ("sgd", 0.01)


def test_a_recipe_does_not_leak_into_another_loss():
    """A classifier knows no groups of pairs, and the weights of one loss say nothing of the other's."""
    config = train.training_config(options("--model", "pacrr", "--loss", "bce"))
    assert (config.loss, config.weights, config.sampling, config.batch_size) == ("bce", "none", "balanced", 32)
    config = train.training_config(options("--model", "delta-classifier", "--loss", "hinge"))
    assert (config.loss, config.weights, config.sampling) == ("hinge", "sqrt", "balanced")
    with pytest.raises(InputError, match="the loss 'bce' has no sampling 'groups'; known: balanced"):
        train.training_config(options("--model", "pacrr", "--loss", "bce", "--sampling", "groups"))
    with pytest.raises(InputError, match="'hinge' has no sampling 'grouped'; known: balanced, groups"):
        train.training_config(options("--sampling", "grouped"))


def test_the_validation_measures_of_a_recipe():
    from rerank_plugin.training.recipes import measures

    assert measures("pacrr") == measures("conv-knrm") == ("ERR@20", "nDCG@20")
    assert measures("delta") == measures("sevmos") == ("nDCG@20", "AP")
    assert measures("ktrel") == measures("ktrel-w") == measures("ktrel-c") == ("AP", "nDCG@10")


@pytest.mark.parametrize(("given", "expected"), [([], ["ERR@20", "nDCG@20"]), (["--measures", "RR"], ["RR"])])
def test_measures_that_are_given_win(inputs, tmp_path, given, expected):
    folder, _ = inputs
    of = {name: f"{folder / name}.tsv,{folder / name}.qrels" for name in ("train", "dev")}
    train.main(
        [
            "--model", "knrm", "--index", str(folder / "index"), "--words", str(folder / "words"),
            "--train", of["train"], "--train-run", str(folder / "train.run"),
            "--validation", of["dev"], "--validation-run", str(folder / "dev.run"),
            "--epochs", "1", "--output", str(tmp_path / "made"), *given,
        ]
    )  # fmt: skip
    assert list(read_config(tmp_path / "made")["measures"]) == ["epoch", "loss", *expected]


def test_groups_without_pairs_are_said(inputs, tmp_path):
    """All relevant documents are highly relevant: [P]'s groups have no pair, and no epoch may pretend to train."""
    folder, _ = inputs
    high = (folder / "train.qrels").read_text().replace(" 1\n", " 2\n")
    (tmp_path / "high.qrels").write_text(high)
    given = ["--train", f"{folder / 'train.tsv'},{tmp_path / 'high.qrels'}", "--sampling", "groups"]
    with pytest.raises(
        InputError, match="8 training queries give no example for the loss hinge with the sampling groups"
    ):
        run(inputs, tmp_path / "made", *given)
    assert not (tmp_path / "made").exists()


CLASSIFIER = ["--loss", "bce", "--weights", "log"]


@pytest.mark.parametrize(
    "how",
    [
        [*CLASSIFIER, "--optimizer", "adadelta"],
        [*CLASSIFIER, "--optimizer", "adam"],
        ["--sampling", "groups", "--optimizer", "sgd"],
    ],
    ids=" ".join,
)
def test_it_resumes_to_the_same_weights(inputs, tmp_path, how, monkeypatch):
    run(inputs, tmp_path / "whole", *how)
    with validation_killed(monkeypatch):
        run(inputs, tmp_path / "parts", *how)
    run(inputs, tmp_path / "parts", *how, "--resume")
    files = [(tmp_path / name / "model.safetensors").read_bytes() for name in ("whole", "parts")]
    assert files[0] == files[1]


KTREL = ("--model", "ktrel-w", "--set", "heads=2", "feed_forward=8", "--batch-size", "8")


def without_filters(options):
    """KTRel has none."""
    at = options.index("--filters")
    return options[:at] + options[at + 2 :]


def train_ktrel(inputs, output, *more, runs=True):
    folder, _ = inputs
    options = without_filters(always(inputs, output, "train", *more, *KTREL))
    if not runs:
        at = options.index("--train-run")
        options = options[:at] + options[at + 2 :]
    held_out = ["--validation", f"{folder}/dev.tsv,{folder}/dev.qrels", "--validation-run", f"{folder}/dev.run"]
    train.main([*options, *held_out])
    return read_config(output)


def test_an_encoder_with_softmax(inputs, tmp_path):
    config = train_ktrel(inputs, tmp_path / "c", "--loss", "softmax", "--temperature", "0.2")
    assert config["training"]["documents"] == "relevant" and config["training"]["temperature"] == 0.2
    assert config["training"]["optimizer"] == "adam" and "AP" in config["measures"]


@pytest.mark.parametrize(
    ("options", "option"),
    [
        (["--loss", "softmax", "--training-documents", "judged"], "--training-documents .*the loss softmax"),
        (["--loss", "softmax", "--weights", "none"], "--weights .*the loss softmax"),
        (["--loss", "softmax", "--sampling", "balanced"], "--sampling .*the loss softmax"),
        (["--loss", "softmax", "--pairs-per-query", "3"], "--pairs-per-query .*the loss softmax"),
        (["--pairs-per-query", "3"], "--pairs-per-query .*the sampling batch"),
        (["--temperature", "0.2"], "--temperature"),
        (["--sampling", "groups", "--queries-per-document", "2"], "--queries-per-document"),
    ],
)
def test_options_without_effect_are_refused(inputs, tmp_path, options, option):
    with pytest.raises(InputError, match=f"{option}.*leave it out"):
        train_ktrel(inputs, tmp_path / "c", *options)


def test_the_paper_s_loss_by_batches(inputs, tmp_path):
    config = train_ktrel(inputs, tmp_path / "c")
    assert config["training"]["documents"] == "relevant" and config["training"]["sampling"] == "batch"
    assert config["training"]["loss"] == "hinge" and config["training"]["weights"] == "none"


def test_ktrel_by_pairs_is_trained_on_the_whole_collection(inputs, tmp_path):
    config = train_ktrel(inputs, tmp_path / "c", "--sampling", "balanced")
    assert config["training"]["documents"] == "collection" and config["training"]["loss"] == "hinge"


def test_other_texts_of_the_same_queries(inputs, tmp_path):
    """Both texts of a query train under its id; --train-queries keeps some of all texts."""
    folder, _ = inputs
    lines = (folder / "train.tsv").read_text().splitlines()
    (tmp_path / "longer.tsv").write_text("".join(f"{line} patients\n" for line in lines))
    both = [
        "--train",
        f"{folder}/train.tsv,{folder}/train.qrels",
        "--train",
        f"{tmp_path}/longer.tsv,{folder}/train.qrels",
    ]
    config = train_ktrel(inputs, tmp_path / "both", *both, runs=False)
    assert config["training"]["train"] == both[1::2]
    one = train_ktrel(inputs, tmp_path / "one", *both[:2], runs=False)
    some = train_ktrel(inputs, tmp_path / "some", *both, "--train-queries", "5", runs=False)
    assert some["training"]["queries_at_most"] == 5
    assert len({one["measures"]["loss"], config["measures"]["loss"], some["measures"]["loss"]}) == 3


def test_some_queries_are_those_of_more():
    sets = [TrainingSet([Query(f"{name}{i}", "") for i in range(6)], {}) for name in "ab"]
    chosen = [[query.id for one in some_queries(sets, count, 3) for query in one.queries] for count in range(13)]
    assert all(len(one) == count and set(one) <= set(more) for count, (one, more) in enumerate(zip(chosen, chosen[1:])))
    assert some_queries(sets, None, 3) == sets and {id[0] for id in chosen[6]} == {"a", "b"}


@pytest.mark.parametrize(
    "more, said",
    [
        (
            ["--train", "a", "--train", "b", "--train-run", "r", "--validation", "v"],
            "--train-run gives the candidates of one",
        ),
        (["--train", "a", "--train", "b", "--folds", "3"], "--folds takes all queries of one --train"),
        (["--train", "a", "--train-queries", "9", "--folds", "3"], "--folds takes all queries of one --train"),
        (["--train", "a", "--train-queries", "0", "--validation", "v"], "at least 1"),
    ],
)
def test_options_of_several_trainings_sets_that_contradict(capsys, more, said):
    with pytest.raises(SystemExit):
        train.main(["--index", "i", "--words", "w", "--output", "o", *more])
    assert said in capsys.readouterr().err
