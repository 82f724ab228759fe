"""Checkpoints: what is saved is what is loaded, and nothing else is loaded."""

import json
import pickle
import shutil

import numpy as np
import pytest
import torch
from safetensors.numpy import save_file as save_arrays
from safetensors.torch import load_file, save_file

from rerank_plugin.features.lexical_features import LEX3
from rerank_plugin.files.errors import InputError
from rerank_plugin.files.records import Query
from rerank_plugin.models.checkpoints import build_config, load_checkpoint, model_classes, read_config, save_checkpoint
from rerank_plugin.models.delta.model import DeltaConfig
from rerank_plugin.rerankers.neural import NeuralReranker
from rerank_plugin.text.tokenizer import SETTINGS
from rerank_plugin.text.vocabulary import Vocabulary
from rerank_plugin.text.word_vectors import WordVectors
from tests import small
from tests.models.conftest import index, one_thread, vectors  # noqa: F401

SIZES = dict(filters=4, lexical_features=LEX3, document_words=20)


@pytest.fixture
def model(vectors):
    return small.delta(vectors, seed=7, **SIZES)


@pytest.fixture
def folder(tmp_path, model, vectors):
    path = tmp_path / "made" / "delta4lex3"
    save_checkpoint(path, model, vectors, {"seed": 7, "measures": {"AP": 0.25}})
    return path


def refusal(folder):
    """What is said of a checkpoint that cannot be loaded: one line."""
    with pytest.raises(InputError) as raised:
        load_checkpoint(folder)
    assert "\n" not in str(raised.value)
    return str(raised.value)


def change_config(folder, **values):
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, **values}))


def change_hyper_parameters(folder, **values):
    change_config(folder, config={**read_config(folder)["config"], **values})


def change_weights(folder, change):
    weights = load_file(folder / "model.safetensors")
    change(weights)
    save_file(weights, folder / "model.safetensors")


def test_files_and_description(folder):
    assert {"config.json", "model.safetensors", "vocab.txt", "embeddings.safetensors"} <= {
        path.name for path in folder.iterdir()
    }
    assert [path.name for path in folder.parent.iterdir()] == ["delta4lex3"]
    config = read_config(folder)
    assert config["model"] == "delta" and config["tokenizer"] == SETTINGS
    assert config["words"] == len(small.KNOWN_WORDS) + 1 and config["dimension"] == 6
    assert config["seed"] == 7 and config["measures"] == {"AP": 0.25}
    assert config["versions"]["torch"] == torch.__version__
    assert config["config"]["lexical_features"] == list(LEX3)


def test_round_trip(folder, model, vectors, index):
    loaded, vocabulary = load_checkpoint(folder)
    assert loaded.config == model.config and not loaded.training
    assert vocabulary.words == vectors.vocabulary.words
    for name, tensor in model.state_dict().items():
        assert torch.equal(loaded.state_dict()[name], tensor), name
    assert loaded.feature_mean.tolist() == model.feature_mean.tolist() != [0, 0, 0]
    for text in ("heart attack", "aspirin xylitol women"):
        scores = [
            NeuralReranker(one, words, index).score(Query("q", text), small.candidates(index))
            for one, words in ((model, vectors.vocabulary), (loaded, vocabulary))
        ]
        assert scores[0].tobytes() == scores[1].tobytes()


def test_saving_leaves_the_model_in_its_mode(tmp_path, model, vectors):
    model.train()
    save_checkpoint(tmp_path / "c", model, vectors, {})
    assert model.training and not load_checkpoint(tmp_path / "c")[0].training


def test_saving_replaces(folder, vectors):
    (folder / "concepts.txt").write_text("of an older checkpoint")
    save_checkpoint(folder, small.delta(vectors, seed=8, filters=3), vectors, {})
    assert load_checkpoint(folder)[0].config.filters == 3
    assert not (folder / "concepts.txt").exists()


def test_saving_replaces_nothing_of_the_users(folder, vectors):
    (folder / "notes.txt").write_text("mine")
    with pytest.raises(InputError, match="notes.txt"):
        save_checkpoint(folder, small.delta(vectors, seed=8, filters=3), vectors, {})
    assert load_checkpoint(folder)[0].config.filters != 3 and (folder / "notes.txt").read_text() == "mine"


def test_a_checkpoint_stays_when_writing_another_fails(folder, model, vectors):
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    with pytest.raises(TypeError):
        save_checkpoint(folder, small.delta(vectors, seed=9), vectors, {"measures": object()})
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before
    assert load_checkpoint(folder)[0].config == model.config


def test_nothing_appears_under_the_name_when_writing_fails(tmp_path, model, vectors):
    with pytest.raises(TypeError):
        save_checkpoint(tmp_path / "new", model, vectors, {"measures": {1, 2}})
    assert not (tmp_path / "new").exists()
    save_checkpoint(tmp_path / "new", model, vectors, {})  # what a failure left is not in the way
    assert [path.name for path in tmp_path.iterdir()] == ["new"]
    load_checkpoint(tmp_path / "new")


@pytest.mark.parametrize("name", ["config.json", "model.safetensors", "vocab.txt", "embeddings.safetensors"])
def test_missing_file(folder, name):
    (folder / name).unlink()
    assert name in refusal(folder)


def test_no_folder_or_a_file(tmp_path):
    assert "nowhere" in refusal(tmp_path / "nowhere")
    (tmp_path / "file").write_text("text")
    assert "file" in refusal(tmp_path / "file")


def test_missing_tensor(folder):
    change_weights(folder, lambda weights: weights.pop("layers.1.bias"))
    said = refusal(folder)
    assert "model.safetensors" in said and "missing layers.1.bias" in said


def test_unexpected_tensor(folder):
    change_weights(folder, lambda weights: weights.update({"layers.9.bias": torch.zeros(1)}))
    said = refusal(folder)
    assert "model.safetensors" in said and "unexpected layers.9.bias" in said


@pytest.mark.parametrize("shape", [(4, 4, 5), (4, 4), (4, 4, 3, 1), (0,), ()])
def test_tensor_of_another_shape(folder, shape):
    change_weights(folder, lambda weights: weights.update({"convolutions.1.weight": torch.zeros(shape)}))
    said = refusal(folder)
    assert "model.safetensors" in said and "convolutions.1.weight" in said
    assert str(list(shape)) in said and "[4, 4, 3]" in said


def test_every_fault_is_named_at_once(folder):
    def change(weights):
        del weights["feature_mean"]
        weights["extra"] = torch.zeros(1)
        weights["layers.0.bias"] = torch.zeros(99)

    change_weights(folder, change)
    said = refusal(folder)
    assert all(name in said for name in ("feature_mean", "extra", "layers.0.bias"))


def test_weights_that_are_no_numbers_of_the_models_kind(folder):
    """Integers would be taken for weights without a word."""
    change_weights(folder, lambda weights: weights.update({"layers.0.bias": torch.zeros(7, dtype=torch.int64)}))
    said = refusal(folder)
    assert "model.safetensors" in said and "layers.0.bias" in said


def test_hyper_parameters_of_another_model(folder):
    change_hyper_parameters(folder, filters=5)
    said = refusal(folder)
    assert "model.safetensors" in said and "convolutions.0.weight" in said


def test_vocabulary_with_another_number_of_words(folder):
    with open(folder / "vocab.txt", "a", encoding="utf-8") as file:
        file.write("onemore\n")
    said = refusal(folder)
    assert "vocab.txt" in said and "embeddings.safetensors" in said


def test_vocabulary_and_vectors_of_another_checkpoint(folder, tmp_path, vectors):
    fewer = WordVectors(Vocabulary(small.KNOWN_WORDS[:5]), vectors.matrix[:6])
    save_checkpoint(tmp_path / "other", small.delta(fewer, **SIZES), fewer, {})
    for name in ("vocab.txt", "embeddings.safetensors"):
        shutil.copy(tmp_path / "other" / name, folder / name)
    said = refusal(folder)
    assert str(folder) in said and f"{len(small.KNOWN_WORDS) + 1} words" in said and "6 of 6" in said


def test_embeddings_of_another_dimension(folder, vectors):
    save_arrays({"embeddings": vectors.matrix[:, :5].copy()}, folder / "embeddings.safetensors")
    said = refusal(folder)
    assert str(folder) in said and "6 dimensions" in said and "of 5" in said


@pytest.mark.parametrize(
    "tensors", [{"vectors": np.zeros((3, 6), np.float32)}, {"embeddings": np.zeros(3, np.float32)}]
)
def test_embeddings_without_a_matrix(folder, tensors):
    save_arrays(tensors, folder / "embeddings.safetensors")
    said = refusal(folder)
    assert "embeddings.safetensors" in said and "'embeddings'" in said


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_embeddings_that_are_not_finite(folder, vectors, value):
    matrix = vectors.matrix.copy()
    matrix[2, 3] = value
    save_arrays({"embeddings": matrix}, folder / "embeddings.safetensors")
    assert str(folder) in refusal(folder)


@pytest.mark.parametrize("text", ["word\n", "<unk>\nheart\nheart\n", "<unk>\n\nheart\n", "<unk>\ntwo words\n", ""])
def test_damaged_vocabulary(folder, text):
    (folder / "vocab.txt").write_text(text)
    assert str(folder / "vocab.txt") in refusal(folder)


@pytest.mark.parametrize("name", ["oracle", "", None, 3, ["delta"], {}])
def test_unknown_model_name(folder, name):
    change_config(folder, model=name)
    said = refusal(folder)
    assert "model" in said and "delta" in said


def test_unknown_hyper_parameter(folder):
    change_hyper_parameters(folder, stride=2)
    said = refusal(folder)
    assert "config.json" in said and "stride" in said and "filters" in said


@pytest.mark.parametrize(
    "wrong",
    [
        {"filters": "four"},
        {"filters": None},
        {"filters": 4.5},
        {"convolutions": 3.0},
        {"document_words": 20.5},
        {"hidden": 5},
        {"hidden": [4.5, 4]},
        {"hidden": ["7", "4"]},
        {"dropout": "much"},
        {"slope": "steep"},
        {"lexical_features": ["no_such_feature"]},
        {"lexical_features": [1]},
        {"width": 2},
        {"differences": "no"},
    ],
    ids=str,
)
def test_hyper_parameter_of_a_wrong_kind(folder, wrong):
    """A file that was edited by hand is refused when it is read, not when it is first used."""
    change_hyper_parameters(folder, **wrong)
    assert str(folder) in refusal(folder)


@pytest.mark.parametrize("settings", [{"name": "d18", "version": 1}, {"name": "spaces"}, None, "d18"])
def test_other_tokenizer_settings(folder, settings):
    change_config(folder, tokenizer=settings)
    said = refusal(folder)
    assert str(folder) in said and "tokenized" in said and str(SETTINGS) in said


def test_config_without_tokenizer_settings(folder):
    config = read_config(folder)
    del config["tokenizer"]
    (folder / "config.json").write_text(json.dumps(config))
    assert "tokenized" in refusal(folder)


@pytest.mark.parametrize(
    "text",
    [
        "", "{", '{"model": "delta",}', "[]", "null", '"delta"', '{"model": "delta"}', '{"config": {}}',
        '{"model": "delta", "config": []}',
    ],
)  # fmt: skip
def test_broken_json(folder, text):
    (folder / "config.json").write_text(text)
    assert "config.json" in refusal(folder)


def test_config_that_is_no_text(folder):
    (folder / "config.json").write_bytes(b"\xff\xfe\x00")
    assert "config.json" in refusal(folder)


@pytest.mark.parametrize("name", ["model.safetensors", "embeddings.safetensors"])
@pytest.mark.parametrize("kept", [0.0, 0.02, 0.5, 0.99])
def test_truncated_tensors(folder, name, kept):
    content = (folder / name).read_bytes()
    (folder / name).write_bytes(content[: int(len(content) * kept)])
    assert name in refusal(folder)


@pytest.mark.parametrize("name", ["model.safetensors", "embeddings.safetensors"])
def test_a_pickle_is_refused_and_not_run(folder, name, tmp_path):
    class Trap:
        def __reduce__(self):
            return (open, (str(tmp_path / "trapped"), "w"))

    (folder / name).write_bytes(pickle.dumps(Trap()))
    assert name in refusal(folder)
    assert not (tmp_path / "trapped").exists()
    torch.save(Trap(), folder / name)
    assert name in refusal(folder)
    assert not (tmp_path / "trapped").exists()


def test_nan_weights_are_found_when_they_score(folder, index):
    change_weights(folder, lambda weights: weights["layers.0.weight"].fill_(float("nan")))
    loaded, vocabulary = load_checkpoint(folder)
    with pytest.raises(InputError, match="q1"):
        NeuralReranker(loaded, vocabulary, index).score(Query("q1", "heart"), small.candidates(index))


def test_configurations_from_json():
    assert model_classes("delta")[1] is DeltaConfig
    made = build_config(DeltaConfig, {"filters": 8, "hidden": [9, 3], "lexical_features": list(LEX3)}, "here")
    assert made == DeltaConfig(filters=8, hidden=(9, 3), lexical_features=LEX3)
    with pytest.raises(InputError, match="here: unknown hyper-parameters depth, stride; known: .*width"):
        build_config(DeltaConfig, {"stride": 1, "depth": 2}, "here")
