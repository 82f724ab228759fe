"""Checkpoints: their files, and the errors of invalid ones. Checkpoints of every model: ``tests/conformance``."""

import pickle

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from rerank_plugin.base.errors import InputError
from rerank_plugin.base.records import Query
from rerank_plugin.inputs.lexical_features import LEX3
from rerank_plugin.models.checkpoint import Checkpoint, save_checkpoint
from rerank_plugin.models.encoded_path import weights_checksum
from rerank_plugin.rerankers.neural import NeuralReranker
from rerank_plugin.text import word_vectors
from rerank_plugin.text.tokenizer import SETTINGS
from tests import small
from tests.models.conftest import Trap, change_json
from tests.sealing import unsealed

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


def check_refused(folder, *parts):
    """The checkpoint cannot be loaded, with or without the module; the one-line error contains ``parts``."""
    for read in (Checkpoint.module, Checkpoint.read):
        with pytest.raises(InputError) as raised:
            read(Checkpoint.open(folder))
        assert "\n" not in str(raised.value) and all(part in str(raised.value) for part in parts), str(raised.value)


def test_files_and_description(folder):
    assert set(FILES) <= {path.name for path in folder.iterdir()}
    assert [path.name for path in folder.parent.iterdir()] == ["delta4lex3"]
    config = Checkpoint.open(folder).description
    assert config["model"] == "delta" and config["tokenizer"] == SETTINGS
    assert config["words"] == len(small.KNOWN_WORDS) + 1 and config["dimension"] == 6
    assert config["seed"] == 7 and config["measures"] == {"AP": 0.25}
    assert config["versions"]["torch"] == torch.__version__
    assert config["config"]["lexical_features"] == list(LEX3)


@pytest.mark.parametrize(
    "more", [{}, {"hidden": (5, 3)}, {"differences": False}, {"delta_features": False, "width": 5}]
)
def test_what_is_loaded_scores_as_what_was_saved(tmp_path, vectors, index, more):
    """To the bit, with and without the module."""
    model, query = small.delta(vectors, seed=7, **SIZES, **more), Query("q", "aspirin heart xylitol women")
    save_checkpoint(tmp_path / "c", model, vectors, {})
    checkpoint = Checkpoint.open(tmp_path / "c")
    assert checkpoint.vocabulary.words == vectors.vocabulary.words
    models = model, checkpoint.module(), checkpoint.read()
    rerankers = [NeuralReranker(one, checkpoint.vocabulary, index) for one in models]
    scores = [loaded_model.score(query, small.candidates(index)) for loaded_model in rerankers]
    assert len({loaded_model.tobytes() for loaded_model in scores}) == 1 and len(set(scores[0].tolist())) > 5


def test_a_checkpoint_in_use_is_read_once_until_it_changes(folder, vectors):
    first = Checkpoint.open(folder).read()
    assert Checkpoint.open(folder / ".." / folder.name) is first
    save_checkpoint(folder, small.delta(vectors, seed=8, **SIZES), vectors, {})
    changed = Checkpoint.open(folder).read()
    weights = [model.arrays()["convolutions.0.weight"] for model in (first, changed)]
    assert changed is not first and not np.array_equal(*weights)


def test_the_checksum_of_weights_is_that_of_the_module_and_follows_a_change(folder, vectors):
    """It is remembered by the checksums of files, and computed where a description has none."""
    checksums = []
    for change in (lambda: None, lambda: save_checkpoint(folder, small.delta(vectors, seed=8, **SIZES), vectors, {})):
        change()
        checkpoint = Checkpoint.open(folder).read()
        models = checkpoint, checkpoint.module(), checkpoint
        checksums += [{weights_checksum(model, checkpoint.vocabulary) for model in models}]
    checkpoint = Checkpoint.open(unsealed(folder)).read()
    assert checkpoint.seals is None and {weights_checksum(checkpoint, checkpoint.vocabulary)} == checksums[1]
    assert [len(found) for found in checksums] == [1, 1] and checksums[0] != checksums[1]


def test_subnormal_weights_become_zero(folder):
    """NaN stays, and is reported when the model scores."""
    bias = torch.tensor([1e-42, -1.1e-38, 1.2e-38, torch.nan])
    weighted(convolutions__0__bias=bias)(unsealed(folder))
    checkpoint = Checkpoint.open(folder)
    for model in (checkpoint.module(), checkpoint.read()):
        np.testing.assert_array_equal(model.arrays()["convolutions.0.bias"], [0, 0, *bias[2:].tolist()])


def test_saving_leaves_the_model_in_its_mode(tmp_path, model, vectors):
    save_checkpoint(tmp_path / "c", model.train(), vectors, {})
    assert model.training and not Checkpoint.open(tmp_path / "c").module().training


def test_saving_replaces_a_checkpoint_and_nothing_of_the_users(folder, vectors):
    (folder / "concepts.txt").write_text("of an older checkpoint")
    save_checkpoint(folder, small.delta(vectors, seed=8, filters=3), vectors, {})
    assert Checkpoint.open(folder).module().config.filters == 3 and not (folder / "concepts.txt").exists()
    (folder / "notes.txt").write_text("mine")
    with pytest.raises(InputError, match="notes.txt"):
        save_checkpoint(folder, small.delta(vectors, seed=8, filters=5), vectors, {})
    assert Checkpoint.open(folder).module().config.filters == 3 and (folder / "notes.txt").read_text() == "mine"


def test_writing_that_fails_leaves_what_was_there(folder, tmp_path, model, vectors):
    """The old checkpoint stays, or none appears; leftovers of a failure do not prevent the next attempt."""
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    for place in (folder, tmp_path / "new"):
        with pytest.raises(TypeError):
            save_checkpoint(place, small.delta(vectors, seed=9), vectors, {"measures": object()})
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before
    assert not (tmp_path / "new").exists()
    save_checkpoint(tmp_path / "new", model, vectors, {})
    assert sorted(path.name for path in tmp_path.iterdir()) == ["made", "new"]
    Checkpoint.open(tmp_path / "new").module()


def test_no_folder_or_a_file(tmp_path):
    check_refused(tmp_path / "nowhere", "nowhere")
    (tmp_path / "file").write_text("text")
    check_refused(tmp_path / "file", "file")


def lost(name):
    return lambda folder: (folder / name).unlink()


def written(name, content):
    return lambda folder: (folder / name).write_bytes(content)


def described(**values):
    return lambda folder: change_json(folder / "config.json", **values)


def sized(**values):
    """Change hyper-parameters."""
    return lambda folder: described(config={**Checkpoint.open(folder).description["config"], **values})(folder)


def weighted(**tensors):
    """Set tensors of the weights by name, ``__`` for a dot; None removes a tensor."""

    def change(folder):
        weights = load_file(folder / "model.safetensors")
        weights |= {name.replace("__", "."): tensor for name, tensor in tensors.items()}
        save_file(
            {name: tensor for name, tensor in weights.items() if tensor is not None}, folder / "model.safetensors"
        )

    return change


def of_words(words, dimension):
    """Write other word vectors."""
    return lambda folder: word_vectors.write(small.word_vectors(words, dimension, seed=3), folder, {})


ZEROS, WIDE = torch.zeros(99), "convolutions.1.weight"
DAMAGE = [
    *((lost(name), name) for name in FILES),
    (weighted(layers__1__bias=None), "model.safetensors", "missing layers.1.bias"),
    (weighted(layers__9__bias=ZEROS), "model.safetensors", "unexpected layers.9.bias"),
    # torch would load it without an error.
    (weighted(layers__0__bias=torch.zeros(7, dtype=torch.int64)), "model.safetensors", "layers.0.bias"),
    (weighted(feature_mean=None, more=torch.zeros(1), layers__0__bias=ZEROS), "feature_mean", "more", "layers.0.bias"),
    *(
        (weighted(convolutions__1__weight=torch.zeros(shape)), WIDE, str(list(shape)), "[4, 4, 3]")
        for shape in [(4, 4, 5), (4, 4), (4, 4, 3, 1), ()]
    ),
    (sized(filters=5), "model.safetensors", "convolutions.0.weight"),
    (of_words(small.KNOWN_WORDS[:5], 6), f"{len(small.KNOWN_WORDS) + 1} words of 6", "6 of 6"),
    (of_words(small.KNOWN_WORDS, 5), "6 dimensions", "of 5"),
    (written("vocab.txt", b"word\n"), "vocab.txt"),
    *((described(tokenizer=other), "tokenized", str(SETTINGS)) for other in [{"name": "d18", "version": 1}, None]),
    *((described(model=name), "model", "delta") for name in ["oracle", "", 3, ["delta"]]),
    # A file that was edited by hand is refused when it is read, not when it is first used.
    (sized(stride=1, depth=2), "config.json: unknown hyper-parameters depth, stride; known: ", "width"),
    (sized(lexical_features=["no_such_feature"]), "config.json", "feature"),
    *(
        (sized(**wrong), "config.json", *wrong)
        for wrong in [
            {"filters": None}, {"filters": True}, {"convolutions": 3.0}, {"width": 2}, {"hidden": 5},
            {"hidden": [4.5, 4]}, {"hidden": ["7", "4"]}, {"slope": "steep"}, {"differences": "no"},
        ]
    ),
]  # fmt: skip


@pytest.mark.parametrize("damage", DAMAGE, ids=lambda damage: " ".join(damage[1:]))
def test_what_does_not_fit_is_refused(folder, damage):
    harm, *parts = damage
    harm(unsealed(folder))
    check_refused(folder, *parts)


def test_a_checkpoint_of_an_earlier_version_is_read(folder):
    expected = Checkpoint.open(folder).module()
    found = Checkpoint.open(unsealed(folder)).module()
    assert all(torch.equal(tensor, found.state_dict()[name]) for name, tensor in expected.state_dict().items())


@pytest.mark.parametrize("name", ["model.safetensors", "embeddings.safetensors"])
def test_a_pickle_is_not_run(folder, name, tmp_path):
    trap = Trap(tmp_path / "trapped")
    path = unsealed(folder) / name
    path.write_bytes(pickle.dumps(trap))
    check_refused(folder, name)
    torch.save(trap, path)
    check_refused(folder, name)
    assert not trap.path.exists()
