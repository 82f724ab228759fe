"""Weights of every registered model: no part is idle, training moves all paths, and a checkpoint is the model."""

from dataclasses import fields

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from rerank_plugin import rerankers
from rerank_plugin.base.errors import InputError
from rerank_plugin.base.records import Query
from rerank_plugin.inputs.builder import Inputs
from rerank_plugin.inputs.lexical_features import VECTOR_NAMES
from rerank_plugin.models.base import ShapedConfig
from rerank_plugin.models.checkpoint import Checkpoint, build_config, save_checkpoint
from rerank_plugin.models.encoded_path import EncodedDocuments
from rerank_plugin.models.register import entry_of, names
from rerank_plugin.rerankers import RerankerOptions
from rerank_plugin.text.word_vectors import compact
from rerank_plugin.training.trainer import scored
from tests import small
from tests.conformance.models import (
    CASES,
    QUERIES,
    Case,
    assert_same,
    configured,
    every_case,
    every_path,
    has_word_vectors,
    inputs_of,
    make,
    make_own,
    new,
    opened,
    paths_of,
    scores_of,
)  # fmt: skip
from tests.devices import DEVICE
from tests.sealing import unsealed

RATES = (0.02, 0.003, 0.01, 0.1)  # learning rates, by one of which every model learns
KEY_BIAS = "attention.self.key.bias"  # what is added to all keys of a head alike changes no attention


@every_case
def test_every_parameter_has_a_gradient(case, index, vectors):
    model = make(case, vectors)
    scores = model(inputs_of(opened(model, "module", index, vectors)))  # [B]
    (scores * torch.linspace(-1, 2, len(scores))).sum().backward()
    idle = [name for name, one in model.named_parameters() if one.grad is None or not one.grad.abs().max() > 1e-9]
    assert list(model.parameters()) and not [name for name in idle if not name.endswith(KEY_BIAS)]
    assert all(torch.isfinite(one.grad).all() for one in model.parameters())


@pytest.mark.parametrize("case", [case for case in CASES if case.sizes.get("trained_words")], ids=str)
def test_gradients_of_trained_words_are_equal_to_the_bit(case, index, vectors):
    """Threads add up what many words give to a vector, always in one order; training reads only a batch's words."""
    model, threads, found = make(case, vectors), torch.get_num_threads(), []
    inputs = Inputs.joined([inputs_of(opened(model, "module", index, vectors))] * 40)
    torch.set_num_threads(4)
    try:
        for _ in range(4):
            for scores in (model(inputs), scored(model, inputs)):  # [B]
                total = (scores * torch.linspace(-1, 2, len(scores))).sum()
                found.append(torch.autograd.grad(total, model.vectors)[0])
    finally:
        torch.set_num_threads(threads)
    assert [one.is_sparse for one in found] == [False, True] * 4
    plain, in_training = found[::2], [one.to_dense() for one in found[1::2]]
    assert all(torch.equal(one, some[0]) for some in (plain, in_training) for one in some)
    torch.testing.assert_close(in_training[0], plain[0])


@every_path
def test_every_parameter_moves_the_scores(case, path, index, vectors):
    """Also those of a fast path, which has to be told. Stored encodings are used with their own weights only."""
    model = make(case, vectors)
    one = opened(model, path, index, vectors)
    before, idle = scores_of(one), []
    stored = isinstance(one.fast, EncodedDocuments)
    for name, parameter in model.named_parameters():
        kept = parameter.detach().clone()
        with torch.no_grad():
            parameter.add_(torch.randn_like(parameter))
        one.refresh()
        if np.abs(scores_of(one) - before).max() < 1e-6:
            idle.append(name)
        assert not (stored and one.fast), name
        with torch.no_grad():
            parameter.copy_(kept)
    assert not [name for name in idle if not name.endswith(KEY_BIAS)]
    one.refresh()
    assert scores_of(one).tolist() == before.tolist()
    assert isinstance(one.fast, EncodedDocuments) == stored


@every_case
def test_training_lowers_the_loss(case, index, vectors):
    """Documents that say 'heart' over those that do not, from the weights a model begins with; all paths follow."""
    assert any(learns(case, rate, index, vectors) for rate in RATES)


def learns(case, rate, index, vectors):
    """Whether 50 steps lower the loss, to 0.6 of what it was; what they do to the weights is checked."""
    without_dropout = {one.name: 0.0 for one in fields(entry_of(case.model).load("config")) if "dropout" in one.name}
    model, query = new(case, vectors, 3, **without_dropout), Query("q", "heart attack risk")
    paths = [opened(model, path, index, vectors, threads=1) for path in paths_of(case.model)]
    before, inputs = scores_of(paths[-1], query), inputs_of(paths[0], query)
    says = torch.tensor(["heart" in f"{title} {abstract}".lower() for _, title, abstract in small.DOCUMENTS])
    optimizer, losses = torch.optim.Adam(model.parameters(), rate), []
    start = {name: parameter.detach().clone() for name, parameter in model.named_parameters()}
    model.train()
    for _ in range(50):
        scores = model(inputs)
        loss = (1 - scores[says][:, None] + scores[~says][None, :]).clamp_min(0).mean()
        optimizer.zero_grad()
        loss.backward()
        assert all(parameter.grad.isfinite().all() for parameter in model.parameters())
        optimizer.step()
        losses.append(loss.item())
    if losses[-1] >= 0.6 * losses[0]:
        return False
    still = [name for name, parameter in model.named_parameters() if (parameter == start[name]).all()]
    assert not [name for name in still if not name.endswith(KEY_BIAS)]
    model.eval()
    expected = scores_of(paths[0], query)
    assert np.abs(expected - before).max() > 0.1
    for one in paths[1:]:  # which a forward pass in training mode refreshed
        assert_same(scores_of(one, query), expected, 1e-5)
    return True


@every_case
def test_dropout_stands_where_it_is_said_and_in_training_only(case, index, vectors):
    """Each rate alone makes two calls in training mode differ; with none of them, and when serving, they are equal.

    The rates of a cross-encoder are those of its encoder's layers, and that of a head that is ours.
    """
    own = not has_word_vectors(case.model)
    rates = [one.name for one in fields(entry_of(case.model).load("config")) if "dropout" in one.name]
    if own:
        rates = [name for name, layer in make(case, vectors).named_modules() if isinstance(layer, torch.nn.Dropout)]
    for rate in [*rates, None]:
        chosen = {name: 0.5 * (name == rate) for name in rates}
        model = make(case, vectors, **({} if own else chosen))
        for name in rates if own else ():
            model.get_submodule(name).p = chosen[name]
        path = paths_of(case.model)[-1]
        one = opened(model, path, index, vectors, threads=1)
        serving = scores_of(one)
        model.train()
        assert (np.abs(scores_of(one) - scores_of(one)).max() > 1e-4) == (rate is not None), rate
        model.eval()
        assert_same(scores_of(one), serving, 1e-5)


@every_case
def test_word_vectors_are_no_weights(case, vectors):
    """Of models that do not train embeddings of their own; and L2 costs are of weights."""
    model = make(case, vectors)
    kept = {name for name, one in model.state_dict().items() if one.shape == vectors.matrix.shape}
    assert kept <= ({"vectors"} if model.config.trained_words else {"words.embeddings"})
    parameters = {id(one): name for name, one in model.named_parameters()}
    costly = {parameters[id(one)] for weights in model.regularized().values() for one in weights}
    if case.model in ("delta", "delta-classifier", "sevmos"):
        assert set(model.regularized()) == {"convolution", "feed_forward"}
        assert costly == {name for name in parameters.values() if not name.endswith("bias")}
    else:
        assert not costly


# -------------------------------------------------------------------------------------------------------- checkpoints


@pytest.fixture
def saved(case, vectors, tmp_path):
    """A folder with the model of a case, and the model; its trained embeddings are not the word vectors."""
    model = make_own(case, vectors, document_words=9, query_words=5)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(1.25)
    save_checkpoint(tmp_path / "saved", model, vectors if model.has_word_vectors else None, {"seed": 3})
    return tmp_path / "saved", model


@every_path
def test_a_checkpoint_is_the_model(case, path, saved, index, vectors):
    folder, model = saved
    expected = scores_of(opened(model, "module", index, vectors))
    device = DEVICE if path == "device" else "cpu"
    kind = Checkpoint if path == "fast" and isinstance(model.config, ShapedConfig) else type(model)
    for spec in (f"{case.model}:{folder}", str(folder)):
        one = rerankers.load(spec, index, RerankerOptions(device, fast=path != "module"))
        loaded = one.model
        assert vars(loaded.config) == vars(model.config) and not loaded.training and type(loaded) is kind
        assert {name: one.tolist() for name, one in loaded.arrays().items()} == {
            name: one.tolist() for name, one in model.arrays().items()
        }
        assert_same(scores_of(one), expected, 1e-5)
    assert np.ptp(expected) > 1e-3


FAST = [case for case in CASES if entry_of(case.model).load("fast") is not None]


@pytest.mark.parametrize("case", [*FAST, Case("delta", {"filters": 5, "lexical_features": VECTOR_NAMES})], ids=str)
def test_a_fast_path_scores_from_quantized_vectors_as_the_module_from_decoded_ones(case, index, vectors, tmp_path):
    quantized = compact(vectors)
    model = make_own(case, quantized)
    save_checkpoint(tmp_path / "saved", model, quantized, {})
    one = rerankers.load(str(tmp_path / "saved"), index)
    assert one.fast_class is entry_of(case.model).load("fast")
    for query in QUERIES:
        expected = scores_of(opened(model, "module", index, vectors), query)
        assert_same(scores_of(one, query), expected)
        assert np.ptp(expected) > 1e-3 or query is not QUERIES[0]


@every_case
def test_checkpoints_are_loaded_strictly(case, saved):
    folder, model = saved
    weights = load_file(unsealed(folder) / "model.safetensors")
    name = max(weights, key=lambda one: weights[one].numel())
    less = {other: tensor for other, tensor in weights.items() if other != name}
    for changed, said in [
        (less, f"missing {name}"),
        ({**weights, "more": torch.zeros(2)}, "unexpected more"),
        ({**weights, name: weights[name].half()}, f"{name} is of type (torch.)?float16, expected (torch.)?float32"),
        ({**weights, name: weights[name][None].clone()}, f"{name} is .*, expected "),
    ]:
        save_file(changed, folder / "model.safetensors")
        for read in [Checkpoint.module, *[Checkpoint.read] * isinstance(model.config, ShapedConfig)]:
            with pytest.raises(InputError, match=f"model.safetensors does not fit the model: {said}"):
                read(Checkpoint.open(folder))


# --------------------------------------------------------------------------------------------------- hyper-parameters

MAY_BE_ZERO = {"layers", "concepts", "trainable_layers", "bins"}
WITH_FEATURES = {"delta", "delta-classifier", "sevmos"}
WRONG = {
    "bert": [
        ({"encoder": ""}, "set encoder to its folder"),
        ({"trainable_layers": -1}, "below 0"),
        ({"trainable_layers": 1.5}, "trainable_layers"),
    ],
    "delta": [
        ({"width": 4}, "width 4"),
        ({"hidden": (5, 0)}, "at least 1"),
        ({"lexical_features": ("bm25_title", "bm25_title")}, "twice"),
        ({"differences": False, "delta_features": False}, "both are off"),
    ],
    "delta-classifier": [({"hidden": (5, 0)}, "at least 1")],
    "encoder": [({"files": ""}, "give its folder, encoder:FOLDER")],
    "drmm": [
        ({"bins": 1}, "1 bins"),
        ({"hidden": (5, 0)}, "at least 1"),
        ({"query_stopwords": "yes"}, "query_stopwords 'yes'; known: keep, remove"),
    ],
    "duet": [
        ({"parts": "global"}, "'global'.*local, distributed, both"),
        ({"hidden": ()}, "hidden layer"),
        ({"hidden": (5, 0)}, "at least 1"),
        ({"pool_width": 5, "pool_stride": 6}, "leaves out"),
    ],
    "ktrel-w": [
        ({"parts": "title"}, "'title'"),
        ({"layers": 2}, "one transformer layer, or none, not 2"),
        ({"parts": "both", "concepts": 0}, "0 concepts"),
        ({"parts": "concepts", "concepts": 0}, "0 concepts"),
        ({"concepts": 3}, "3 concepts"),
    ],
    "matchpyramid": [
        ({"similarity": "dot"}, "unknown similarity 'dot'; known: cosine, indicator"),
        ({"filters": ()}, "filters is empty"),
        ({"filters": (8, 0)}, "at least 1"),
        ({"kernel_rows": 2}, "2 x 3"),
        ({"kernel_columns": -1}, "at least 1"),
        ({"hidden": (5, 0)}, "at least 1"),
    ],
    "pacrr": [
        ({"distillation": "lastk"}, "'lastk'; known: firstk, kwindow"),
        ({"distillation": "kwindow", "distilled_words": 2}, "2 distilled words"),
    ],
    "sevmos": [({"hidden": (5, 0)}, "at least 1"), ({"slope": -0.1}, "slope -0.1")],
}


@pytest.mark.parametrize("name", names())
def test_wrong_hyper_parameters(name):
    """Sizes below 1, dropout outside [0, 1), and lexical features that the model does not read or that are none."""
    config_class = entry_of(name).load("config")
    given = {} if has_word_vectors(name) else {"files" if name == "encoder" else "encoder": "x"}
    if config_class.reads_concepts({}):
        given |= {"concepts": 3, "concept_dimension": 4}
    wrong = list(WRONG.get(name, []))
    for one in fields(config_class):
        if type(one.default) is int and one.name not in MAY_BE_ZERO:
            said = "odd numbers|at least 1|width 0" if one.name.startswith(("kernel", "width")) else "at least 1"
            wrong += [({one.name: 0}, said), ({one.name: -1}, "at least 1|leaves out|width -1")]
        elif "dropout" in one.name:
            wrong += [({one.name: rate}, f"dropout.* {rate}") for rate in (1.0, -0.1, float("nan"))]
    feature, said = (
        ("bm25_footnote", "bm25_footnote") if name in WITH_FEATURES else ("bm25_title", "no lexical features")
    )
    wrong.append(({"lexical_features": (feature,)}, said))
    for values, said in wrong:
        with pytest.raises(InputError, match=f"here: .*({said})"):
            build_config(config_class, {**given, **values}, "here")


@every_case
def test_configurations_survive_json(case):
    """Lists become tuples, and a value that is unknown or of another kind is named."""
    config = configured(case)
    values = {name: list(value) if isinstance(value, tuple) else value for name, value in vars(config).items()}
    assert build_config(type(config), values, "here") == config
    for wrong in ({"no_such_size": 1}, {"document_words": 20.5}, {"query_words": "7"}, {"lexical_features": [1]}):
        with pytest.raises(InputError, match=f"here: .*{[*wrong][0]}"):
            build_config(type(config), {**values, **wrong}, "here")
