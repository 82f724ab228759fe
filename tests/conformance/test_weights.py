"""Weights of every registered model: all have an effect, training changes all paths, and checkpoints restore them."""

from dataclasses import fields

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from rerank_plugin import rerankers
from rerank_plugin.base.errors import InputError
from rerank_plugin.base.records import Query
from rerank_plugin.models.base import ShapedConfig
from rerank_plugin.models.checkpoints import (
    build_config,
    load_checkpoint,
    load_stored,
    model_classes,
    read_config,
    save_checkpoint,
)
from rerank_plugin.models.encoded_documents import EncodedDocuments
from rerank_plugin.models.reader import StoredModel
from rerank_plugin.models.register import names
from rerank_plugin.rerankers import RerankerOptions
from tests import small
from tests.conformance.models import (
    assert_same,
    configured,
    every_case,
    every_path,
    has_word_vectors,
    inputs_of,
    make,
    new,
    opened,
    paths_of,
    scores_of,
)  # fmt: skip

RATES = {"drmm": 0.01, "knrm": 0.1, "matchpyramid": 0.01, "pacrr": 0.05}  # learning rates that differ from 0.02
KEY_BIAS = "attention.self.key.bias"  # a bias added to all keys of a head does not change attention


@every_case
def test_every_parameter_has_a_gradient(case, index, vectors):
    model = make(case, vectors)
    scores = model(inputs_of(opened(model, "module", index, vectors)))  # [B]
    (scores * torch.linspace(-1, 2, len(scores))).sum().backward()
    idle = [
        name
        for name, parameter in model.named_parameters()
        if parameter.grad is None or not parameter.grad.abs().max() > 1e-9
    ]
    assert list(model.parameters()) and not [name for name in idle if not name.endswith(KEY_BIAS)]
    assert all(torch.isfinite(parameter.grad).all() for parameter in model.parameters())


@every_path
def test_every_parameter_moves_the_scores(case, path, index, vectors):
    """Also on a fast path, after a refresh. Stored encodings are used only with the weights that made them."""
    model = make(case, vectors)
    reranker = opened(model, path, index, vectors)
    before, idle = scores_of(reranker), []
    stored = isinstance(reranker.fast, EncodedDocuments)
    for name, parameter in model.named_parameters():
        saved_values = parameter.detach().clone()
        with torch.no_grad():
            parameter.add_(torch.randn_like(parameter))
        reranker.refresh()
        if np.abs(scores_of(reranker) - before).max() < 1e-6:
            idle.append(name)
        assert not (stored and reranker.fast), name
        with torch.no_grad():
            parameter.copy_(saved_values)
    assert not [name for name in idle if not name.endswith(KEY_BIAS)]
    reranker.refresh()
    assert scores_of(reranker).tolist() == before.tolist()
    assert isinstance(reranker.fast, EncodedDocuments) == stored


@every_case
def test_training_lowers_the_loss(case, index, vectors):
    """Rank documents with 'heart' above the others, from the initial weights; all paths use the trained weights."""
    without_dropout = {field.name: 0.0 for field in fields(model_classes(case.model)[1]) if "dropout" in field.name}
    model, query = new(case, vectors, 3, **without_dropout), Query("q", "heart attack risk")
    paths = [opened(model, path, index, vectors, threads=1) for path in paths_of(case.model)]
    before, inputs = scores_of(paths[-1], query), inputs_of(paths[0], query)
    relevant = torch.tensor(["heart" in f"{title} {abstract}".lower() for _, title, abstract in small.DOCUMENTS])
    rate = 0.003 if not has_word_vectors(case.model) else RATES.get(case.model, 0.02)
    optimizer, losses = torch.optim.Adam(model.parameters(), rate), []
    start = {name: parameter.detach().clone() for name, parameter in model.named_parameters()}
    model.train()
    for _ in range(50):
        scores = model(inputs)
        loss = (1 - scores[relevant][:, None] + scores[~relevant][None, :]).clamp_min(0).mean()
        optimizer.zero_grad()
        loss.backward()
        assert all(parameter.grad.isfinite().all() for parameter in model.parameters())
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.6 * losses[0]
    still = [name for name, parameter in model.named_parameters() if (parameter == start[name]).all()]
    assert not [name for name in still if not name.endswith(KEY_BIAS)]
    model.eval()
    expected = scores_of(paths[0], query)
    assert np.abs(expected - before).max() > 0.1
    for reranker in paths[1:]:  # which a forward pass in training mode refreshed
        assert_same(scores_of(reranker, query), expected, 1e-5)


@every_case
def test_dropout_stands_where_it_is_said_and_in_training_only(case, index, vectors):
    """With any single rate two calls in training mode differ; without dropout, and in eval mode, they are equal.

    A cross-encoder has the rates of its encoder's layers, and of a new head.
    """
    own = not has_word_vectors(case.model)
    rates = [field.name for field in fields(model_classes(case.model)[1]) if "dropout" in field.name]
    if own:
        rates = [name for name, layer in make(case, vectors).named_modules() if isinstance(layer, torch.nn.Dropout)]
    for rate in [*rates, None]:
        chosen = {name: 0.5 * (name == rate) for name in rates}
        model = make(case, vectors, **({} if own else chosen))
        for name in rates if own else ():
            model.get_submodule(name).p = chosen[name]
        path = paths_of(case.model)[-1]
        reranker = opened(model, path, index, vectors, threads=1)
        serving = scores_of(reranker)
        model.train()
        assert (np.abs(scores_of(reranker) - scores_of(reranker)).max() > 1e-4) == (rate is not None), rate
        model.eval()
        assert_same(scores_of(reranker), serving, 1e-5)


@every_case
def test_word_vectors_are_no_weights(case, vectors):
    """Unless the model trains embeddings; and L2 costs apply to weights, not to biases."""
    model = make(case, vectors)
    vector_shaped = {name for name, tensor in model.state_dict().items() if tensor.shape == vectors.matrix.shape}
    assert vector_shaped <= {"words.embeddings"}
    parameters = {id(tensor): name for name, tensor in model.named_parameters()}
    costly = {parameters[id(tensor)] for weights in model.regularized().values() for tensor in weights}
    if case.model in ("delta", "delta-classifier", "sevmos"):
        assert set(model.regularized()) == {"convolution", "feed_forward"}
        assert costly == {name for name in parameters.values() if not name.endswith("bias")}
    else:
        assert not costly


# -------------------------------------------------------------------------------------------------------- checkpoints


@pytest.fixture
def saved(case, vectors, tmp_path):
    """A folder with the model of a case, and the model; its embeddings differ from the word vectors."""
    model = make(case, vectors, document_words=9, query_words=5)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(1.25)
    save_checkpoint(tmp_path / "saved", model, vectors if model.has_word_vectors else None, {"seed": 3})
    return tmp_path / "saved", model


@every_path
def test_a_checkpoint_is_the_model(case, path, saved, index, vectors):
    folder, model = saved
    expected = scores_of(opened(model, "module", index, vectors))
    device = "cpu:0" if path == "device" else "cpu"
    kind = StoredModel if path == "fast" and isinstance(model.config, ShapedConfig) else type(model)
    for spec in (f"{case.model}:{folder}", str(folder)):
        reranker = rerankers.load(spec, index, RerankerOptions(device, fast=path != "module"))
        loaded = reranker.model
        assert vars(loaded.config) == vars(model.config) and not loaded.training and type(loaded) is kind
        assert {name: array.tolist() for name, array in loaded.arrays().items()} == {
            name: array.tolist() for name, array in model.arrays().items()
        }
        assert_same(scores_of(reranker), expected, 1e-5)
    assert np.ptp(expected) > 1e-3


@every_case
def test_checkpoints_are_loaded_strictly(case, saved):
    folder, model = saved
    weights = load_file(folder / "model.safetensors")
    name = max(weights, key=lambda key: weights[key].numel())
    less = {key: tensor for key, tensor in weights.items() if key != name}
    for changed, message in [
        (less, f"missing {name}"),
        ({**weights, "more": torch.zeros(2)}, "unexpected more"),
        ({**weights, name: weights[name].half()}, f"{name} is of type (torch.)?float16, expected (torch.)?float32"),
        ({**weights, name: weights[name][None].clone()}, f"{name} is .*, expected "),
    ]:
        save_file(changed, folder / "model.safetensors")
        for load in [load_checkpoint, *[load_stored] * isinstance(model.config, ShapedConfig)]:
            with pytest.raises(InputError, match=f"model.safetensors does not fit the model: {message}"):
                load(folder, read_config(folder))


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
    """Sizes below 1, dropout outside [0, 1), and lexical features that are unknown or that the model does not read."""
    config_class = model_classes(name)[1]
    arguments = {} if has_word_vectors(name) else {"files" if name == "encoder" else "encoder": "x"}
    if config_class.reads_concepts({}):
        arguments |= {"concepts": 3, "concept_dimension": 4}
    wrong = list(WRONG.get(name, []))
    for field in fields(config_class):
        if type(field.default) is int and field.name not in MAY_BE_ZERO:
            message = "odd numbers|at least 1|width 0" if field.name.startswith(("kernel", "width")) else "at least 1"
            wrong += [({field.name: 0}, message), ({field.name: -1}, "at least 1|leaves out|width -1")]
        elif "dropout" in field.name:
            wrong += [({field.name: rate}, f"dropout.* {rate}") for rate in (1.0, -0.1, float("nan"))]
    feature, message = (
        ("bm25_footnote", "bm25_footnote") if name in WITH_FEATURES else ("bm25_title", "no lexical features")
    )
    wrong.append(({"lexical_features": (feature,)}, message))
    for values, message in wrong:
        with pytest.raises(InputError, match=f"here: .*({message})"):
            build_config(config_class, {**arguments, **values}, "here")


@every_case
def test_configurations_survive_json(case):
    """Lists become tuples, and the error names a value that is unknown or of the wrong type."""
    config = configured(case)
    values = {name: list(value) if isinstance(value, tuple) else value for name, value in vars(config).items()}
    assert build_config(type(config), values, "here") == config
    for wrong in ({"no_such_size": 1}, {"document_words": 20.5}, {"query_words": "7"}, {"lexical_features": [1]}):
        with pytest.raises(InputError, match=f"here: .*{[*wrong][0]}"):
            build_config(type(config), {**values, **wrong}, "here")
