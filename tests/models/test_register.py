"""The register of models: the checks of entries, and their error messages."""

import re
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from rerank_plugin import rerankers
from rerank_plugin.base.errors import InputError
from rerank_plugin.base.records import Query
from rerank_plugin.models import register
from rerank_plugin.models.base import ModelConfig
from rerank_plugin.models.conformance import check_entry
from rerank_plugin.models.delta.fast import FastDelta
from rerank_plugin.models.delta.model import Delta, DeltaConfig
from rerank_plugin.models.fast_paths import FastPath
from rerank_plugin.models.register import MODELS, ModelEntry, entry_of, names
from rerank_plugin.rerankers.neural import NeuralReranker
from rerank_plugin.rerankers.scorer import Scorer, as_scorer
from tests import small

ROOT = Path(register.__file__).parents[2]
QUERY = Query("q", "heart attack")


class Own(Delta):
    name = "own"


class NoScore(FastPath):
    pass


@dataclass
class Changeable(ModelConfig):
    document_words: int = 1
    query_words: int = 1
    lexical_features: tuple[str, ...] = ()


@dataclass(frozen=True)
class WithoutFeatures(ModelConfig):
    document_words: int = 1
    query_words: int = 1


OWN = ModelEntry("own", DeltaConfig, Own, "Delta under another name", fast=FastDelta)


@pytest.fixture
def registered(monkeypatch):
    """Registers entries for one test."""
    names()
    monkeypatch.setattr(MODELS, "entries", dict(MODELS.entries))
    return register.register


def test_every_folder_registers_its_model():
    folders = [path.parent.name for path in (ROOT / "rerank_plugin" / "models").glob("*/__init__.py")]
    modules = {entry.module.split(".")[2] for entry in MODELS.built_in()}
    assert set(folders) == modules


def test_every_entry_is_sound():
    for name in names():
        check_entry(entry_of(name))


def test_the_table_of_the_documentation_has_every_name():
    page = (ROOT / "docs" / "searching.md").read_text("utf-8")
    rows = [line for line in page.splitlines() if line.startswith("| `")]
    documented = {name for row in rows for name in re.findall(r"`([a-z0-9-]+)`", row.split("|")[1])}
    assert set(rerankers.known_names()) <= documented


def test_a_model_that_is_registered_scores_on_its_fast_path(registered, vectors, index):
    registered(OWN)
    model = small.delta(vectors)
    own = Own(model.config, model.vectors)
    own.load_state_dict(model.state_dict())
    reranker = NeuralReranker(own, vectors.vocabulary, index)
    expected = NeuralReranker(model, vectors.vocabulary, index).score(QUERY, small.candidates(index))
    assert reranker.score(QUERY, small.candidates(index)).tolist() == expected.tolist()
    assert isinstance(reranker.fast, FastDelta)


@pytest.mark.parametrize(
    "values, message",
    [
        ({"module": ""}, "lacks module"),
        ({"summary": "", "config": ""}, "lacks config, summary"),
        ({"name": "a:b"}, "colon"),
        ({"fast": 7}, "fast must be a class"),
        ({"recipe": {}}, "recipe must be a Recipe"),
    ],
)
def test_an_entry_that_lacks_something(values, message):
    with pytest.raises(InputError, match=message):
        replace(OWN, **values)


@pytest.mark.parametrize(
    "values, message",
    [
        ({"module": DeltaConfig}, "module is not a subclass of .*RankingModel"),
        ({"module": Delta}, "named 'delta', expected 'own'"),
        ({"config": Changeable}, "not a frozen dataclass"),
        ({"config": WithoutFeatures}, "lacks the fields lexical_features"),
        ({"bench": {"wings": 2}}, "lacks the fields wings"),
        ({"fast": NoScore}, "lacks score"),
        ({"explain": "rerank_plugin.models.delta.model:ROW_PARTS"}, "is not a function"),
        ({"encoder": "rerank_plugin.models.ktrel.fast:KtrelScorer"}, "belong together"),
    ],
)
def test_classes_that_lack_something(values, message):
    with pytest.raises(AssertionError, match=message):
        check_entry(replace(OWN, **values))


@pytest.mark.parametrize("role, error", [("module", "AttributeError"), ("fast", "ModuleNotFoundError")])
def test_a_class_that_cannot_be_loaded(role, error):
    name = "rerank_plugin.models.delta.model:Gone" if role == "module" else "no_such_package:Own"
    with pytest.raises(InputError, match=f"the model 'own': its {role} {name} cannot be loaded: {error}"):
        replace(OWN, **{role: name}).load(role)


def test_a_name_is_taken_once(registered):
    registered(OWN)
    registered(OWN)
    with pytest.raises(InputError, match="'own' is taken"):
        registered(replace(OWN, summary="another"))
    with pytest.raises(InputError, match="only a ModelEntry"):
        registered(Own)


def test_an_unknown_model_names_the_known_ones():
    with pytest.raises(InputError, match="unknown model 'dalta'; known: .*bert, .*sevmos"):
        entry_of("dalta")


def test_what_is_no_scorer_may_have_nothing_but_score():
    class Plain:
        name = "plain"

        def score(self, query, candidates):
            return [1.0]

    class Listwise(Plain):
        listwise = True

    adapter = as_scorer(Plain())
    assert (adapter.name, adapter.listwise, adapter.score_many([1, 2], [3, 4])) == ("plain", False, [[1.0], [1.0]])
    assert as_scorer(adapter) is adapter and isinstance(adapter, Scorer)
    with pytest.raises(InputError, match="listwise.*subclass of .*Scorer"):
        as_scorer(Listwise())
    with pytest.raises(InputError, match="no method score"):
        as_scorer(object())
