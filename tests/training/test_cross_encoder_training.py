"""Training of cross-encoders on the learnable problem: changed weights, learning, and the command."""

import shutil

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from rerank_plugin import rerankers, train
from rerank_plugin.base.errors import InputError
from rerank_plugin.models.base import RerankerOptions
from rerank_plugin.models.checkpoint import Checkpoint
from rerank_plugin.models.cross_encoder.model import CrossEncoder, CrossEncoderConfig
from rerank_plugin.rerankers.neural import NeuralReranker
from rerank_plugin.text.vocabulary import Vocabulary
from rerank_plugin.training.pairs import make_pools
from rerank_plugin.training.trainer import Trainer, TrainingConfig
from tests import small
from tests.models import tiny_encoders
from tests.training import learnable
from tests.training.commanded import held_out, last_of_each, resumed, split, weights_of

WORDS = learnable.TOPICS + learnable.FILLERS


@pytest.fixture(scope="module")
def encoder(tmp_path_factory):
    return tiny_encoders.bert(tmp_path_factory.mktemp("encoder") / "tiny", WORDS)


def trained(encoder, index, folder, layers, **training):
    """A trainer over a fresh model, and the model."""
    torch.manual_seed(0)
    model = CrossEncoder(CrossEncoderConfig(encoder=str(encoder), trainable_layers=layers, dropout=0.0))
    reranker = NeuralReranker(model, Vocabulary([]), index)
    queries = learnable.queries(learnable.TOPICS)
    pools = make_pools(
        queries, learnable.judgments(), {q.id: small.candidates(index) for q in queries}, reranker.builder
    )
    config = TrainingConfig(**{"batch_size": 16, "optimizer": "adam", "weights": "none", "seed": 1, **training})
    trainer = Trainer(model, reranker.builder, pools, config, lambda: {"AP": 0.0}, lambda *measures: None, folder)
    return trainer, model


@pytest.mark.parametrize("layers", [0, 1, None])
def test_only_trainable_weights_change(encoder, corpus, tmp_path, layers):
    trainer, model = trained(encoder, corpus, tmp_path, layers, epochs=1, learning_rate=0.01)
    before = learnable.weights(model)
    trainer.train()
    changed = {name for name, tensor in model.state_dict().items() if not torch.equal(tensor, before[name])}
    parts = {0: ("head.",), 1: ("head.", "encoder.encoder.layer.1."), None: ("",)}[layers]
    expected = {name for name in before if name.startswith(parts)}
    # A constant added to all scores does not change a pair's loss, nor one added to all keys the attention.
    idle = ("head.bias", "layer.1.output.LayerNorm.bias", "attention.self.key.bias")
    assert changed <= expected and all(name.endswith(idle) for name in expected - changed)
    optimized = sum(len(group["params"]) for group in trainer.optimizer.param_groups)
    assert optimized == len(expected)


def test_the_last_layer_learns(encoder, corpus, tmp_path):
    """The loss of two epochs, whose pairs differ by chance, is well below that of the first two."""
    trainer, _ = trained(encoder, corpus, tmp_path, 1, epochs=7, patience=7, learning_rate=0.01)
    trainer.train()
    losses = [entry["loss"] for entry in trainer.history]
    assert sum(losses[-2:]) < 0.8 * sum(losses[:2]), losses


def test_half_precision_rounds_products_and_neither_weights_nor_scores(encoder, corpus, tmp_path):
    """The losses are close to those of single precision and not the same; scores are no coarser than these."""
    losses = {}
    for precision in ("float32", "bfloat16"):
        trainer, model = trained(encoder, corpus, tmp_path / precision, None, epochs=1, precision=precision)
        trainer.train()
        losses[precision] = trainer.history[0]["loss"]
        assert {weight.dtype for weight in model.parameters()} == {torch.float32}
    assert losses["bfloat16"] == pytest.approx(losses["float32"], rel=0.02) and len({*losses.values()}) == 2
    with_head = tiny_encoders.bert(tmp_path / "tiny", WORDS, head=True)
    for either in (model, rerankers.load(f"bert:{with_head}", corpus).model):
        scores = scores_of(either, corpus, precision="bfloat16")
        coarse = torch.from_numpy(scores).to(torch.bfloat16).float().numpy()
        assert len(np.unique(coarse)) < len(np.unique(scores)) == len(np.unique(scores_of(either, corpus)))


def made(inputs, encoder, output, *more):
    """Train a checkpoint by the command."""
    options = (
        f"--model bert --index {inputs}/index --train {inputs}/train.tsv,{inputs}/train.qrels --epochs 2 --measures AP "
        f"--train-run {inputs}/train.run --pairs-per-query 4 --learning-rate 0.01 --output {output}"
    )
    validation = "" if "--folds 2" in more else held_out(inputs)
    parts = f"--set encoder={encoder}" if encoder else ""
    train.main(last_of_each(split([options, *filter(None, [validation, parts]), *more])))
    return output


def scores_of(model, index, **options):
    reranker = NeuralReranker(model, Vocabulary([]), index, RerankerOptions(**options))
    return reranker.score(learnable.queries(["gout"])[0], small.candidates(index))


def test_a_checkpoint_is_trained_without_words(encoder, inputs, corpus, tmp_path):
    """It needs the encoder's folder no more, holds no word vectors, and scores as its validation measured it."""
    source = shutil.copytree(encoder, tmp_path / "source")
    made(inputs, source, tmp_path / "made", "--keep-epochs")
    shutil.rmtree(source)
    names = {path.name for path in (tmp_path / "made").iterdir()}
    assert names == {
        "config.json", "model.safetensors", "encoder", "epochs", "log.jsonl", "log.png", "statistics.safetensors",
    }  # fmt: skip
    config = Checkpoint.open(tmp_path / "made").description
    assert config["config"]["trainable_layers"] == 1 and config["training"]["learning_rate"] == 0.01
    assert (config["training"]["optimizer"], config["training"]["batch_size"]) == ("adam", 16)
    before = load_file(encoder / "model.safetensors")
    after = load_file(tmp_path / "made" / "model.safetensors")
    frozen = [name for name in before if "layer.1." not in name and "pooler" not in name]
    assert len(frozen) > 15 and all(torch.equal(before[name], after[f"encoder.{name}"]) for name in frozen)
    reranker = rerankers.load(f"bert:{tmp_path / 'made'}", corpus)
    reached = learnable.mean_average_precision(corpus, reranker, learnable.TOPICS[learnable.TRAINED :])
    assert reached == pytest.approx(config["measures"]["AP"], abs=1e-6)
    assert Checkpoint.open(tmp_path / "made" / "epochs" / "02").module().config == reranker.model.config


def test_seed_and_resuming(encoder, inputs, tmp_path, monkeypatch):
    made(inputs, encoder, tmp_path / "whole")
    resumed(monkeypatch, lambda *given: made(inputs, encoder, *given), tmp_path / "parts")
    made(inputs, encoder, tmp_path / "other", "--seed 7")
    whole, parts, other = (weights_of(tmp_path / name) for name in ("whole", "parts", "other"))
    assert whole == parts != other


STILL = "--learning-rate 1e-9 --epochs 1"


def test_fine_tuning_starts_from_a_checkpoint(encoder, inputs, corpus, tmp_path):
    first = made(inputs, encoder, tmp_path / "first")
    second = made(inputs, encoder, tmp_path / "second", f"{STILL} --start-from {first}")
    np.testing.assert_allclose(
        *(scores_of(Checkpoint.open(folder).module(), corpus) for folder in (first, second)), atol=1e-5
    )


def test_a_cross_encoder_keeps_its_head(inputs, corpus, tmp_path):
    """Its training starts from the head's weights."""
    with_head = tiny_encoders.bert(tmp_path / "tiny", WORDS, head=True)
    after = made(inputs, with_head, tmp_path / "made", STILL)
    models = [rerankers.load(f"bert:{folder}", corpus).model for folder in (with_head, after)]
    np.testing.assert_allclose(*(scores_of(model, corpus) for model in models), atol=1e-5)
    assert not any(name.startswith("head.") for name in load_file(after / "model.safetensors"))


def test_cross_validation(encoder, inputs, corpus, tmp_path):
    folds = sorted(made(inputs, encoder, tmp_path / "folds", "--folds 2", "--epochs 1").glob("fold-*"))
    assert [rerankers.load(str(fold), corpus).name for fold in folds] == ["bert", "bert"]


def test_words_are_not_read(encoder, inputs, tmp_path, capsys):
    made(inputs, encoder, tmp_path / "made", "--words no-such-folder --epochs 1")
    assert "no-such-folder is not read" in capsys.readouterr().err


def test_other_models_still_need_words_and_this_one_its_encoder(inputs, tmp_path):
    for more, message in ((["--model delta"], "'delta' needs word vectors: give"), ([], "set encoder to its")):
        with pytest.raises(InputError, match=message):
            made(inputs, None, tmp_path / "made", *more)
    assert not any(tmp_path.iterdir())
