"""Cross-encoders over tiny encoders with random weights, compared with transformers on the same texts."""

import logging
import os
import pickle
import shutil

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from rerank_plugin import rerankers
from rerank_plugin.base.errors import InputError
from rerank_plugin.base.records import Query
from rerank_plugin.models import transformers_folder
from rerank_plugin.models.checkpoint import Checkpoint, save_checkpoint
from rerank_plugin.models.cross_encoder import model as cross_encoder
from rerank_plugin.models.cross_encoder.model import CrossEncoder, CrossEncoderConfig
from rerank_plugin.models.register import entry_of
from rerank_plugin.rerankers.neural import NeuralReranker
from rerank_plugin.text.tokenizer import tokenizer
from rerank_plugin.text.vocabulary import Vocabulary
from tests import small
from tests.conformance.models import inputs_of
from tests.models import tiny_encoders
from tests.models.conftest import Trap, change_json

QUERY = Query("q", "aspirin heart attack risk in women")
QUERIES = [QUERY, Query("one", "cancer"), Query("nowhere", "xyz heart"), Query("two", "smoke old women")]
LONG = " ".join(["heart attack in old women who smoke"] * 20)  # beyond any tiny encoder
DOCUMENTS = [*small.DOCUMENTS, ("long", "Long", LONG)]
EMPTY = 4


@pytest.fixture(scope="module")
def index(tmp_path_factory):
    return small.build_index(tmp_path_factory.mktemp("cross") / "forward", DOCUMENTS)


@pytest.fixture(scope="module")
def words(index):
    return index.terms.take(np.arange(len(index.terms)))


@pytest.fixture(scope="module")
def folders(tmp_path_factory, words):
    """Encoder folders: of BERT with a head and without, and of RoBERTa with and without blanks before texts."""
    at = tmp_path_factory.mktemp("encoders")
    texts = [f"{title} {abstract}".lower() for _, title, abstract in DOCUMENTS]
    return {
        "bert": tiny_encoders.bert(at / "bert", words, head=True),
        "two": tiny_encoders.bert(at / "two", words, head=True, labels=2),
        "three": tiny_encoders.bert(at / "three", words, head=True, labels=3),
        "short": tiny_encoders.bert(at / "short", words, head=True, positions=4),
        "cased": tiny_encoders.bert(at / "cased", words, head=True, cased=True),
        "bare": tiny_encoders.bert(at / "bare", words),
        "deberta": tiny_encoders.deberta(at / "deberta", words),
        "roberta": tiny_encoders.roberta(at / "roberta", texts),
        "roberta-blank": tiny_encoders.roberta(at / "roberta-blank", texts, prefix_space=True),
    }


@pytest.fixture
def copied(folders, tmp_path):
    """Copies an encoder folder, which a test then damages."""
    return lambda name: shutil.copytree(folders[name], tmp_path / "copied")


def plain_scores(folder, index, query, head=None):
    """transformers as its documentation shows it, on lower-case texts without punctuation.

    With ``head``, a linear layer over the last layer's [CLS], of an encoder that has none.
    """
    from transformers import AutoModel, AutoModelForSequenceClassification, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = (AutoModel if head else AutoModelForSequenceClassification).from_pretrained(folder).eval()
    scores = []
    for row in range(len(index)):
        text = " ".join(index.terms.take(index.document_tokens(row)))
        encoded = tokenizer([query], [text], truncation="only_second", max_length=64, return_tensors="pt")
        with torch.inference_mode():
            output = model(**encoded)
            scores.append((head(output.last_hidden_state[0, 0]) if head else output.logits[0])[-1].item())
    return np.array(scores, np.float32)


def build(folder, **values):
    return CrossEncoder(CrossEncoderConfig(encoder=str(folder), **values))


def check_refused(folder, message, **values):
    with pytest.raises(InputError, match=message):
        build(folder, **values)


def headed(folder, **values):
    """A bare encoder with a random head whose weights are large enough to separate documents."""
    torch.manual_seed(3)
    model = build(folder, **values)
    with torch.no_grad():
        model.head.weight.normal_(0, 1)
        model.head.bias.normal_(0, 1)
    return model.eval()


def scores_of(reranker, query=QUERY):
    return reranker.score(query, small.candidates(reranker.builder.index))


@pytest.mark.parametrize("name", ["bert", "two", "cased", "bare", "deberta", "roberta", "roberta-blank"])
def test_the_scores_of_transformers_itself(name, folders, index):
    """Also for texts that are cut, and for the empty one."""
    model = headed(folders[name]) if name == "bare" else build(folders[name]).eval()
    reranker = NeuralReranker(model, Vocabulary([]), index)
    for query in QUERIES:
        expected = plain_scores(folders[name], index, query.text, model.head if name == "bare" else None)
        assert np.ptp(expected) > 0.1
        np.testing.assert_allclose(scores_of(reranker, query), expected, rtol=0, atol=1e-5)


def test_golden_sequence(folders, index):
    """[CLS] query [SEP] document [SEP] with types and mask; the document is cut so that 10 pieces hold all."""
    model = headed(folders["bare"])
    reranker = NeuralReranker(model, Vocabulary([]), index)
    model.longest = 10
    ids, mask, types = model.sequences(inputs_of(reranker, Query("q", "aspirin heart"), [0, EMPTY]))
    query = model.pieces.encode("aspirin heart", add_special_tokens=False).tokens
    document = model.pieces.encode("aspirin for heart attack daily aspirin", add_special_tokens=False).tokens
    prefix, room = ["[CLS]", *query, "[SEP]"], 8 - len(query)
    assert [model.pieces.id_to_token(id) for id in ids[0]] == [*prefix, *document[: room - 1], "[SEP]"]
    assert [model.pieces.id_to_token(id) for id in ids[1]] == [*prefix, "[SEP]", *["[PAD]"] * (room - 1)]
    assert types[0].tolist() == [0] * len(prefix) + [1] * room
    assert mask.sum(dim=1).tolist() == [10, len(prefix) + 1]


def test_what_is_read_at_most(folders, index, caplog):
    """A query has at most half of the sequence. RoBERTa's positions begin after its padding id; batches are small."""
    reranker = rerankers.load(f"bert:{folders['roberta']}", index)
    assert (reranker.model.longest, reranker.builder.query_words, reranker.batch_size) == (64, 30, 32)
    reranker = rerankers.load(f"bert:{folders['bert']}", index)
    with caplog.at_level(logging.WARNING):
        scores = scores_of(reranker, Query("q", "heart " * 40))
    assert "is cut" in caplog.text and np.isfinite(scores).all()
    np.testing.assert_array_equal(scores, scores_of(reranker, Query("q", "heart " * 30)))


def test_cased_encoders_are_told(folders, index, caplog):
    cross_encoder._warn_cased.cache_clear()
    with caplog.at_level(logging.WARNING):
        rerankers.load(f"bert:{folders['bert']}", index)
        assert "lower case" not in caplog.text
        rerankers.load(f"bert:{folders['cased']}", index)
        rerankers.load(f"bert:{folders['cased']}", index)
    assert caplog.text.count("lower case only") == 1


# ----------------------------------------------------------------------------------------------- training's parameters


@pytest.mark.parametrize(
    ("folder", "layers", "expected"),
    [
        ("bare", 0, ("head",)),
        ("bare", 1, ("encoder.encoder.layer.1.", "head")),
        ("bare", 2, ("encoder.encoder.layer.", "head")),
        ("bare", None, ("",)),
        # Modules that read the last layer are trained with it.
        ("bert", 1, ("encoder.bert.encoder.layer.1.", "encoder.bert.pooler.", "encoder.classifier.")),
    ],
)
def test_what_is_trained(folders, folder, layers, expected):
    for name, parameter in build(folders[folder], trainable_layers=layers).named_parameters():
        assert parameter.requires_grad == name.startswith(expected), name


def test_dropout_where_it_is_trained_only(folders):
    model = headed(folders["bare"], trainable_layers=1).train()
    layers = model.encoder.encoder.layer
    assert not layers[0].training and not model.encoder.embeddings.dropout.training
    assert layers[1].training and layers[1].output.dropout.training and model.dropout.training
    assert not any(module.training for module in model.eval().modules())
    assert all(module.training for module in headed(folders["bare"], trainable_layers=None).train().modules())


# ------------------------------------------------------------------------------------------------------- checkpoints


@pytest.mark.parametrize("name", ["bare", "bert", "roberta"])
def test_a_checkpoint_stands_alone(name, folders, index, tmp_path):
    """It does not need the folder of its encoder."""
    source, folder = shutil.copytree(folders[name], tmp_path / "source"), tmp_path / "checkpoint"
    model = build(source).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.05)
    expected = scores_of(NeuralReranker(model, Vocabulary([]), index))
    save_checkpoint(folder, model, None, {"seed": 3})
    shutil.rmtree(source)
    assert {path.name for path in folder.iterdir()} == {"config.json", "model.safetensors", "encoder"}
    assert not list(folder.rglob("*.bin")) and not list(folder.rglob("*.pt"))
    assert "words" not in Checkpoint.open(folder).description
    actual = scores_of(rerankers.load(str(folder), index))
    np.testing.assert_allclose(actual, expected, rtol=1e-6, atol=1e-7)
    shutil.rmtree(folder / "encoder")
    with pytest.raises(InputError, match="encoder.config.json is missing"):
        Checkpoint.open(folder).module()


def test_encoder_folders_and_checkpoints_by_their_names(folders, index, tmp_path):
    """An encoder folder alone is a reranker, and BioBERT has a row of its own."""
    entry = entry_of("biobert")
    bert, checkpoint = folders["bert"], tmp_path / "made"
    save_checkpoint(checkpoint, entry.load("module")(entry.load("config")(encoder=str(folders["bare"]))), None, {})
    for spec, name in [
        (bert, "bert"),
        (f"biobert:{bert}", "biobert"),
        (checkpoint, "biobert"),
        (f"biobert:{checkpoint}", "biobert"),
    ]:
        assert rerankers.load(str(spec), index).name == name
    with pytest.raises(InputError, match="holds the model 'biobert', not 'bert'"):
        rerankers.load(f"bert:{checkpoint}", index)


# ------------------------------------------------------------------------------------------------------------ errors


TRAIN = "train it first .rerank-plugin train --model bert --set encoder=.*bare"


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("bert", "bert:FOLDER"),
        ("bert:{empty}", "config.json"),
        ("bert:{bare}", TRAIN),
        ("{bare}", TRAIN),
        ("bert:{three}", "train it first"),  # of three labels
        ("bert:{short}", "reads 4 pieces: too few for a query and a document"),
    ],
)
def test_what_cannot_rank(folders, index, tmp_path, spec, message):
    with pytest.raises(InputError, match=message):
        rerankers.load(spec.format(**folders, empty=tmp_path), index)


def written(name, text):
    return lambda folder: (folder / name).write_text(text)


def described(**values):
    return lambda folder: change_json(folder / "config.json", **values)


MODEL = ("config.json", "model.safetensors")


def _larger(folder):
    """The tokenizer of another model, with more pieces."""
    words = [f"word{number}" for number in range(300)]
    tiny_encoders.save_bert_tokenizer(folder / "other", words)
    return folder / "other" / "tokenizer.json"


def without_a_part(folder):
    weights = load_file(folder / "model.safetensors")
    del weights["classifier.bias"]
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})


@pytest.mark.parametrize(
    ("harm", "message"),
    [
        (shutil.rmtree, "copied is not an encoder folder: it holds no config.json"),
        (written("config.json", "{"), "cannot read .*config.json"),
        (written("tokenizer.json", "{"), "cannot read the tokenizer of"),
        (written("model.safetensors", "{"), "cannot read the weights of"),
        (lambda folder: (folder / "model.safetensors").unlink(), "holds no model.safetensors$"),
        (without_a_part, "lack 1 tensors.*classifier.bias"),
        (
            lambda folder: [path.unlink() for path in folder.glob("*") if path.name not in MODEL],
            "no files of a tokenizer",
        ),
        (lambda folder: shutil.copy(_larger(folder), folder), "the tokenizer of .* has [0-9]+ pieces, and the model"),
        (described(hidden_size=64), "have other shapes than those of config.json: files of two models are mixed"),
        (lambda folder: os.truncate(folder / "model.safetensors", 999), "cannot read the weights of .*header.*[^\n]$"),
        (described(is_decoder=True), "generates text"),
    ],
)
def test_damaged_folders_and_what_is_no_encoder(copied, harm, message):
    folder = copied("bert")
    harm(folder)
    check_refused(folder, message)


@pytest.mark.parametrize(("name", "kind"), [("bert", "AutoModelForSequenceClassification"), ("bare", "AutoModel")])
def test_weights_in_a_pickle_are_not_read(copied, name, kind):
    """The message is the command that converts them."""
    folder = copied(name)
    trap = Trap(folder / "trapped")
    (folder / "model.safetensors").unlink()
    (folder / "pytorch_model.bin").write_bytes(pickle.dumps(trap))
    check_refused(folder, f"pytorch_model.bin, a pickle.*python -c.*{kind} as M")
    assert not trap.path.exists()


def test_code_of_a_folder_is_not_run(copied, tmp_path):
    folder = copied("bert")
    code = {"AutoConfig": "novel.Config", "AutoModel": "novel.Model"}
    change_json(folder / "config.json", model_type="novel", auto_map=code)
    (folder / "novel.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\nclass Config: pass\nclass Model: pass\n")
    check_refused(folder, "cannot read .*config.json")
    assert not (tmp_path / "ran").exists()


def test_more_layers_than_there_are(folders):
    check_refused(folders["bare"], "trainable_layers 3.*only 2 layers", trainable_layers=3)


def test_stems_cannot_be_read(folders, index):
    stemmed = small.open_segment(index.folder, tokenizer=tokenizer("krovetz"))
    with pytest.raises(InputError, match="holds stems"):
        rerankers.load(f"bert:{folders['bert']}", stemmed)


def test_without_transformers(monkeypatch, folders):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    check_refused(folders["bert"], r"pip install 'rerank_plugin\[cross-encoder\]'")


def test_which_folders_are_transformers(folders, tmp_path):
    assert transformers_folder.is_encoder_folder(folders["bare"]) and not transformers_folder.is_encoder_folder(
        tmp_path
    )
    for text in ("[]", "{", '{"model": "delta", "config": {}}', '{"model": "bert", "model_type": "bert"}'):
        (tmp_path / "config.json").write_text(text)
        assert not transformers_folder.is_encoder_folder(tmp_path)
