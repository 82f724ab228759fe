"""Checkpoints: what is written, and what is said of one that cannot be loaded. Every model's: ``tests/conformance``."""

import os
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
from rerank_plugin.models.checkpoints import build_config, load_checkpoint, load_stored, read_config, save_checkpoint
from rerank_plugin.models.delta.model import DeltaConfig
from rerank_plugin.rerankers.neural import NeuralReranker
from rerank_plugin.text.tokenizer import SETTINGS
from rerank_plugin.text.vocabulary import Vocabulary
from rerank_plugin.text.word_vectors import WordVectors
from tests import small
from tests.models.conftest import change_json

SIZES = dict(filters=4, lexical_features=LEX3, document_words=20)
FILES = ["config.json", "model.safetensors", "vocab.txt", "embeddings.safetensors"]


@pytest.fixture
def model(vectors):
    return small.delta(vectors, seed=7, **SIZES)


@pytest.fixture
def folder(tmp_path, model, vectors):
    path = tmp_path / "made" / "delta4lex3"
    save_checkpoint(path, model, vectors, {"seed": 7, "measures": {"AP": 0.25}})
    return path


def check_refused(folder, *said):
    """It cannot be loaded, with the module or without; the one line that is said holds ``said``."""
    for load in (load_checkpoint, load_stored):
        with pytest.raises(InputError) as raised:
            load(folder, read_config(folder))
        assert "\n" not in str(raised.value) and all(part in str(raised.value) for part in said), str(raised.value)


def change_hyper_parameters(folder, **values):
    change_json(folder / "config.json", config={**read_config(folder)["config"], **values})


def change_weights(folder, **tensors):
    """Set tensors of the weights by name, ``__`` for a dot; None takes one away."""
    weights = {**load_file(folder / "model.safetensors")}
    weights |= {name.replace("__", "."): tensor for name, tensor in tensors.items()}
    save_file({name: one for name, one in weights.items() if one is not None}, folder / "model.safetensors")


def test_files_and_description(folder):
    assert set(FILES) <= {path.name for path in folder.iterdir()}
    assert [path.name for path in folder.parent.iterdir()] == ["delta4lex3"]
    config = read_config(folder)
    assert config["model"] == "delta" and config["tokenizer"] == SETTINGS
    assert config["words"] == len(small.KNOWN_WORDS) + 1 and config["dimension"] == 6
    assert config["seed"] == 7 and config["measures"] == {"AP": 0.25}
    assert config["versions"]["torch"] == torch.__version__
    assert config["config"]["lexical_features"] == list(LEX3)


@pytest.mark.parametrize(
    "more", [{}, {"hidden": (5, 3)}, {"differences": False}, {"delta_features": False, "width": 5}]
)
def test_what_is_loaded_scores_as_what_was_saved(tmp_path, vectors, index, more):
    """To the bit, with the module and without."""
    model, query = small.delta(vectors, seed=7, **SIZES, **more), Query("q", "aspirin heart xylitol women")
    save_checkpoint(tmp_path / "c", model, vectors, {})
    loaded = [load(tmp_path / "c", read_config(tmp_path / "c")) for load in (load_checkpoint, load_stored)]
    assert all(vocabulary.words == vectors.vocabulary.words for _, vocabulary in loaded)
    rerankers = [NeuralReranker(*one, index) for one in ((model, vectors.vocabulary), *loaded)]
    scores = [one.score(query, small.candidates(index)) for one in rerankers]
    assert len({one.tobytes() for one in scores}) == 1 and len(set(scores[0].tolist())) > 5


def test_subnormal_weights_become_zero(folder):
    """What is no number stays, to be found when it scores."""
    bias = torch.tensor([1e-42, -1.1e-38, 1.2e-38, torch.nan])
    change_weights(folder, convolutions__0__bias=bias)
    for one, _ in (load_checkpoint(folder), load_stored(folder, read_config(folder))):
        np.testing.assert_array_equal(one.arrays()["convolutions.0.bias"], [0, 0, *bias[2:].tolist()])


def test_saving_leaves_the_model_in_its_mode(tmp_path, model, vectors):
    save_checkpoint(tmp_path / "c", model.train(), vectors, {})
    assert model.training and not load_checkpoint(tmp_path / "c")[0].training


def test_saving_replaces_a_checkpoint_and_nothing_of_the_users(folder, vectors):
    (folder / "concepts.txt").write_text("of an older checkpoint")
    save_checkpoint(folder, small.delta(vectors, seed=8, filters=3), vectors, {})
    assert load_checkpoint(folder)[0].config.filters == 3 and not (folder / "concepts.txt").exists()
    (folder / "notes.txt").write_text("mine")
    with pytest.raises(InputError, match="notes.txt"):
        save_checkpoint(folder, small.delta(vectors, seed=8, filters=5), vectors, {})
    assert load_checkpoint(folder)[0].config.filters == 3 and (folder / "notes.txt").read_text() == "mine"


def test_writing_that_fails_leaves_what_was_there(folder, tmp_path, model, vectors):
    """A checkpoint, or nothing; and what a failure left is not in the way."""
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    for place in (folder, tmp_path / "new"):
        with pytest.raises(TypeError):
            save_checkpoint(place, small.delta(vectors, seed=9), vectors, {"measures": object()})
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before
    assert not (tmp_path / "new").exists()
    save_checkpoint(tmp_path / "new", model, vectors, {})
    assert sorted(path.name for path in tmp_path.iterdir()) == ["made", "new"]
    load_checkpoint(tmp_path / "new")


@pytest.mark.parametrize("name", FILES)
def test_missing_file(folder, name):
    (folder / name).unlink()
    check_refused(folder, name)


def test_no_folder_or_a_file(tmp_path):
    check_refused(tmp_path / "nowhere", "nowhere")
    (tmp_path / "file").write_text("text")
    check_refused(tmp_path / "file", "file")


ZEROS = torch.zeros(99)
WEIGHTS = [
    ({"layers__1__bias": None}, ["missing layers.1.bias"]),
    ({"layers__9__bias": ZEROS}, ["unexpected layers.9.bias"]),
    ({"layers__0__bias": torch.zeros(7, dtype=torch.int64)}, ["layers.0.bias"]),  # would be taken without a word
    (
        {"feature_mean": None, "extra": torch.zeros(1), "layers__0__bias": ZEROS},
        ["feature_mean", "extra", "layers.0.bias"],
    ),
    *(
        ({"convolutions__1__weight": torch.zeros(shape)}, ["convolutions.1.weight", str(list(shape)), "[4, 4, 3]"])
        for shape in [(4, 4, 5), (4, 4), (4, 4, 3, 1), (0,), ()]
    ),
]


@pytest.mark.parametrize(("tensors", "said"), WEIGHTS, ids=lambda value: " ".join(value))
def test_weights_that_do_not_fit(folder, tensors, said):
    change_weights(folder, **tensors)
    check_refused(folder, "model.safetensors", *said)


def test_hyper_parameters_of_another_model(folder):
    change_hyper_parameters(folder, filters=5)
    check_refused(folder, "model.safetensors", "convolutions.0.weight")


def test_vocabulary_and_vectors_of_another_checkpoint(folder, tmp_path, vectors):
    fewer = WordVectors(Vocabulary(small.KNOWN_WORDS[:5]), vectors.matrix[:6])
    save_checkpoint(tmp_path / "other", small.delta(fewer, **SIZES), fewer, {})
    shutil.copy(tmp_path / "other" / "vocab.txt", folder / "vocab.txt")
    check_refused(folder, "vocab.txt", "embeddings.safetensors")
    shutil.copy(tmp_path / "other" / "embeddings.safetensors", folder / "embeddings.safetensors")
    check_refused(folder, str(folder), f"{len(small.KNOWN_WORDS) + 1} words", "6 of 6")


def broken(matrix, value):
    matrix[2, 3] = value
    return {"embeddings": matrix}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda matrix: {"embeddings": matrix[:, :5].copy()}, ["6 dimensions", "of 5"]),
        (lambda matrix: {"vectors": matrix}, ["embeddings.safetensors", "'embeddings'"]),
        (lambda matrix: {"embeddings": matrix[0].copy()}, ["embeddings.safetensors", "'embeddings'"]),
        (lambda matrix: broken(matrix, np.nan), []),
        (lambda matrix: broken(matrix, np.inf), []),
    ],
    ids=["other dimension", "other name", "no matrix", "nan", "inf"],
)
def test_embeddings_that_cannot_be_used(folder, vectors, change, said):
    save_arrays(change(vectors.matrix.copy()), folder / "embeddings.safetensors")
    check_refused(folder, str(folder), *said)


@pytest.mark.parametrize("text", ["word\n", "<unk>\nheart\nheart\n", "<unk>\n\nheart\n", "<unk>\ntwo words\n", ""])
def test_damaged_vocabulary(folder, text):
    (folder / "vocab.txt").write_text(text)
    check_refused(folder, str(folder / "vocab.txt"))


@pytest.mark.parametrize("name", ["oracle", "", None, 3, ["delta"], {}])
def test_unknown_model_name(folder, name):
    change_json(folder / "config.json", model=name)
    check_refused(folder, "model", "delta")


WRONG = [
    {"stride": 2}, {"filters": "four"}, {"filters": None}, {"filters": 4.5}, {"convolutions": 3.0},
    {"document_words": 20.5}, {"hidden": 5}, {"hidden": [4.5, 4]}, {"hidden": ["7", "4"]}, {"dropout": "much"},
    {"slope": "steep"}, {"lexical_features": ["no_such_feature"]}, {"lexical_features": [1]}, {"width": 2},
    {"differences": "no"},
]  # fmt: skip


@pytest.mark.parametrize("wrong", WRONG, ids=str)
def test_hyper_parameter_that_is_unknown_or_of_a_wrong_kind(folder, wrong):
    """A file that was edited by hand is refused when it is read, not when it is first used."""
    change_hyper_parameters(folder, **wrong)
    check_refused(folder, str(folder / "config.json"), "feature" if "lexical" in str(wrong) else [*wrong][0])


@pytest.mark.parametrize("settings", [{"name": "d18", "version": 1}, {"name": "spaces"}, None, "d18"])
def test_other_tokenizer_settings(folder, settings):
    change_json(folder / "config.json", tokenizer=settings)
    check_refused(folder, str(folder), "tokenized", str(SETTINGS))


@pytest.mark.parametrize(
    "text",
    [
        b"", b"{", b'{"model": "delta",}', b"[]", b"null", b'"delta"', b'{"model": "delta"}', b'{"config": {}}',
        b'{"model": "delta", "config": []}', b"\xff\xfe\x00",
    ],
)  # fmt: skip
def test_broken_json(folder, text):
    (folder / "config.json").write_bytes(text)
    check_refused(folder, "config.json")


@pytest.mark.parametrize("name", ["model.safetensors", "embeddings.safetensors"])
def test_truncated_tensors_and_pickles(folder, name, tmp_path):
    """A pickle is not run."""

    class Trap:
        def __reduce__(self):
            return (open, (str(tmp_path / "trapped"), "w"))

    size = (folder / name).stat().st_size
    for kept in (0.99, 0.5, 0.02, 0.0):
        os.truncate(folder / name, int(size * kept))
        check_refused(folder, name)
    (folder / name).write_bytes(pickle.dumps(Trap()))
    check_refused(folder, name)
    torch.save(Trap(), folder / name)
    check_refused(folder, name)
    assert not (tmp_path / "trapped").exists()


def test_unknown_hyper_parameters_are_named_and_the_known_ones():
    with pytest.raises(InputError, match="here: unknown hyper-parameters depth, stride; known: .*width"):
        build_config(DeltaConfig, {"stride": 1, "depth": 2}, "here")
