"""Rerankers found by name, by checkpoint folder, by module and class, and from installed packages."""

import json
from pathlib import Path

import numpy as np
import pytest

import rerank_plugin as rp
from rerank_plugin import rerankers
from rerank_plugin.base.errors import InputError
from rerank_plugin.base.records import Query
from rerank_plugin.models import register
from rerank_plugin.models.checkpoint import Checkpoint, save_checkpoint
from rerank_plugin.rerankers import RerankerOptions
from rerank_plugin.rerankers.neural import NeuralReranker
from rerank_plugin.retrieval.register import configure
from rerank_plugin.text.tokenizer import SETTINGS
from tests import small

QUERY = Query("q1", "heart attack")

ELSEWHERE = '''
import numpy as np

from rerank_plugin.rerankers import Scorer


class TitleLength(Scorer):
    """Long titles first."""

    name = "title-length"

    def __init__(self, index):
        self.index = index

    def score(self, query, candidates):
        return candidates.title_lengths.astype(np.float32)


class NoScore:
    def __init__(self, index):
        pass


def from_entry_point(index, checkpoint, options):
    built = TitleLength(index)
    built.checkpoint, built.options = checkpoint, options
    return built
'''
ENTRY_POINTS = """[rerank_plugin.rerankers]
title-length = elsewhere.rerankers:from_entry_point
bm25-title = elsewhere.rerankers:TitleLength
broken = elsewhere.broken:TitleLength
"""


@pytest.fixture(scope="module")
def installed_elsewhere(tmp_path_factory):
    """An installed distribution of another author: a package and its dist-info."""
    site = tmp_path_factory.mktemp("site")
    files = {
        "elsewhere/__init__.py": "",
        "elsewhere/rerankers.py": ELSEWHERE,
        "elsewhere/broken.py": "import no_such_library\n",
        "elsewhere-1.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: elsewhere\nVersion: 1.0\n",
        "elsewhere-1.0.dist-info/entry_points.txt": ENTRY_POINTS,
    }
    for name, content in files.items():
        (site / name).parent.mkdir(exist_ok=True)
        (site / name).write_text(content)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(site)
        yield


@pytest.fixture
def checkpoint(tmp_path, vectors):
    folder = tmp_path / "delta:1" / "checkpoint"  # a colon in a folder's name is no separator
    save_checkpoint(folder, small.delta(vectors, seed=5), vectors, {})
    return folder


def scores(reranker, index, rows=None):
    return reranker.score(QUERY, small.candidates(index, rows))


def refusal(spec, index):
    with pytest.raises(InputError) as raised:
        rerankers.load(spec, index)
    assert "\n" not in str(raised.value)
    return str(raised.value)


def test_known_names(installed_elsewhere):
    names = rerankers.known_names()
    assert names == sorted(set(names))
    assert {"delta", "title-length", "broken", *rerankers.UNTRAINED, *register.names()} <= set(names)


@pytest.mark.parametrize("spec", ["dalta", "dalta:checkpoints/x", "", "a.b", "nowhere/at/all"])
def test_unknown_names_list_the_known_ones(index, tmp_path, monkeypatch, spec):
    monkeypatch.chdir(tmp_path)
    message = refusal(spec, index)
    assert not spec or f"'{spec}'" in message and all(name in message for name in rerankers.known_names())


def test_checkpoint_by_name_and_alone(index, vectors, checkpoint, monkeypatch):
    expected = scores(NeuralReranker(small.delta(vectors, seed=5), vectors.vocabulary, index), index)
    options = RerankerOptions(batch_size=3)
    for spec in (f"delta:{checkpoint}", str(checkpoint)):
        reranker = rerankers.load(spec, index, options)
        assert (reranker.name, reranker.options) == ("delta", options)
        np.testing.assert_allclose(scores(reranker, index), expected, rtol=0, atol=1e-6)
    monkeypatch.chdir(checkpoint.parent)
    assert rerankers.load("checkpoint", index).name == "delta"


def test_the_model_that_comes_along(index):
    """It is small enough to ship, describes its training data, and scores equally on both paths."""
    folder = register.checkpoint_folder("delta")
    assert sum(path.stat().st_size for path in folder.iterdir()) < 20e6
    config = Checkpoint.open(folder).description
    assert config["training"]["train"] == "runs/open:train" and config["config"]["filters"] == 32
    plain = scores(rerankers.load("delta", index, RerankerOptions(fast=False)), index)
    assert len(np.unique(plain)) > 1
    for spec in ("delta", "delta:", f"delta:{folder}"):
        np.testing.assert_allclose(scores(rerankers.load(spec, index), index), plain, rtol=0, atol=1e-5)
    for spec in ("pacrr", "./delta", "../models/delta", Path("delta")):  # a Path is always a folder
        assert register.checkpoint_folder(spec) == Path(spec)


def test_the_nearest_name_is_suggested(index):
    assert "unknown reranker 'delt': did you mean 'delta'? Known: " in refusal("delt", index)
    assert "'delta+1.0': did you mean 'delta'?" in (error := refusal("delta+1.0", index)) and "below 1" in error
    with pytest.raises(InputError, match="unknown first stage 'dence:x': did you mean 'dense'[?] Known: all, bm25, "):
        configure("dence:x")


@pytest.mark.parametrize(
    ("spec", "needed"), [("pacrr", "a trained checkpoint"), ("pacrr:", "a trained"), ("bert", "the folder of a model")]
)
def test_models_that_do_not_come_along_need_a_checkpoint(index, spec, needed):
    assert f"needs {needed}" in refusal(spec, index) and register.entry_of("pacrr").bundled is None
    with pytest.raises(InputError, match=f"has no bundled weights and needs {needed}"):
        rp.Reranker.load(spec)


@pytest.mark.parametrize(
    "config, message",
    [(None, "config.json"), ({"model": "oracle", "config": {}, "tokenizer": SETTINGS}, "oracle")],
    ids=["empty", "foreign"],
)
def test_folders_that_are_no_checkpoints(index, tmp_path, config, message):
    assert "no-such-folder" in refusal(f"delta:{tmp_path / 'no-such-folder'}", index)
    if config is not None:
        (tmp_path / "config.json").write_text(json.dumps(config))
    for spec in (str(tmp_path), f"delta:{tmp_path}"):
        assert message in refusal(spec, index)


def test_class_from_elsewhere(index, installed_elsewhere):
    reranker = rerankers.load("elsewhere.rerankers:TitleLength", index)
    assert reranker.name == "title-length" and reranker.index is index
    assert scores(reranker, index, [8, 1, 4]).tolist() == [5, 3, 0]


def test_entry_points_of_other_packages(index, installed_elsewhere, tmp_path):
    """With a checkpoint, without, and by a checkpoint folder alone, whose config names the model."""
    (tmp_path / "config.json").write_text(json.dumps({"model": "title-length", "config": {}}))
    for spec, folder in (("title-length:some/folder", "some/folder"), ("title-length", None), (tmp_path, tmp_path)):
        reranker = rerankers.load(str(spec), index, RerankerOptions(batch_size=17))
        assert (reranker.checkpoint, reranker.options.batch_size) == (folder and Path(folder), 17)
        assert scores(reranker, index, [8, 1, 4]).tolist() == [5, 3, 0]


@pytest.mark.parametrize(
    "spec, message",
    [
        ("elsewhere.rerankers:Missing", "Missing"),
        ("elsewhere.missing:TitleLength", "elsewhere.missing"),
        ("no_such_package.rerankers:TitleLength", "no_such_package"),
        ("elsewhere.rerankers:NoScore", "no method score"),
        ("elsewhere.broken:TitleLength", "no_such_library"),
        ("broken", "no_such_library"),
        ("bm25-title", "the name is taken"),
    ],
)
def test_what_of_elsewhere_cannot_be_used(index, installed_elsewhere, spec, message):
    assert f"'{spec}'" in refusal(spec, index) and message in refusal(spec, index)
