"""A first stage of another package, installed: in a search, fused, and in a training; and one that cannot be used."""

import json
import re

import pytest

from rerank_plugin import search, train
from rerank_plugin.base.errors import InputError
from rerank_plugin.files.runs import read_run
from rerank_plugin.retrieval.register import FIRST_STAGES, FirstStageEntry, configure, known_forms
from tests.training.commanded import always
from tests.training.conftest import inputs  # noqa: F401

SOURCE = '''
"""The newest documents: the last rows of the index."""

from dataclasses import dataclass, field

import numpy as np

from rerank_plugin.indexes.candidates import Candidates
from rerank_plugin.retrieval.register import FirstStageEntry


@dataclass(frozen=True)
class NewestConfig:
    name: str = field(default="newest", init=False)
    most: str

    def open(self, index):
        return Newest(index.forward, int(self.most))


class Newest:
    name = "newest"

    def __init__(self, forward, most):
        self.forward, self.most = forward, most

    def search(self, query, depth):
        rows = np.arange(len(self.forward))[::-1][: min(depth, self.most)]
        return Candidates(self.forward, rows, rows.astype(np.float32))


ENTRY = FirstStageEntry("newest", NewestConfig, "the newest documents", "most")
NO_ENTRY = "newest"
'''


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """A distribution as pip leaves it: a module and its dist-info, whose entry points may be given."""

    def install(entry_points="newest = newest_stage:ENTRY"):
        (tmp_path / "newest_stage.py").write_text(SOURCE)
        information = tmp_path / "newest_stage-1.0.dist-info"
        information.mkdir()
        (information / "METADATA").write_text("Metadata-Version: 2.1\nName: newest-stage\nVersion: 1.0\n")
        (information / "entry_points.txt").write_text(f"[rerank_plugin.first_stages]\n{entry_points}\n")
        monkeypatch.syspath_prepend(tmp_path)

    return install


@pytest.fixture
def queries(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "q.tsv").write_text("q1\tstroke\nq2\tnothing of it\n")


def searched(index_folder, *arguments):
    always = ["--index", str(index_folder), "--queries", "q.tsv", "--output", "out.run", "--overwrite"]
    search.main([*always, *arguments])
    return {query: ranking.doc_ids for query, ranking in read_run("out.run").items()}


def test_it_is_searched_with_and_fused(installed, queries, index_folder, documents, capsys):
    installed()
    newest = [document.id for document in documents[::-1][:3]]
    assert searched(index_folder, "--first-stage", "newest:3") == {"q1": newest, "q2": newest}
    assert open("out.run").readline().split()[-1] == "newest"
    assert searched(index_folder, "--first-stage", "newest:3", "--depth", "2")["q2"] == newest[:2]
    fused = searched(index_folder, "--first-stage", "bm25", "--fuse", "newest:3")
    assert fused["q2"] == newest and {*newest} < {*fused["q1"]}
    with pytest.raises(SystemExit):
        search.main(["--help-all"])
    assert re.search("newest +of another package", capsys.readouterr().out)


def test_it_gives_a_training_its_candidates(installed, inputs, tmp_path):  # noqa: F811
    installed()
    more = f"--validation {inputs}/dev.tsv,{inputs}/dev.qrels --first-stage newest:1000 --epochs 1"
    arguments = always(inputs, tmp_path / "trained", "train", more)
    at = arguments.index("--train-run")
    train.main(arguments[:at] + arguments[at + 2 :])
    described = json.loads((tmp_path / "trained" / "config.json").read_text())
    assert described["training"]["first_stage"] == {"name": "newest", "most": "1000"}


def test_listing_loads_nothing_of_another_package(installed):
    installed("newest = no_such_module:ENTRY")
    assert known_forms()[-1] == "newest"
    with pytest.raises(
        InputError, match="declares the first stage 'newest' as no_such_module:ENTRY, but it cannot be loaded"
    ):
        configure("newest:3")


@pytest.mark.parametrize(
    "entry_points, spec, said",
    [
        ("newest = newest_stage:ENTRY", "newest", "unknown"),
        ("newest = newest_stage:ENTRY", "newest:", "needs most: newest:MOST"),
        ("newest = newest_stage:NO_ENTRY", "newest:3", "newest_stage:NO_ENTRY, but that is not a FirstStageEntry"),
        ("oldest = newest_stage:ENTRY", "oldest:3", "that is the entry of a first stage named 'newest'"),
        ("newest = newest_stage:GONE", "newest:3", "GONE"),
    ],
)
def test_what_cannot_be_configured_is_named(installed, entry_points, spec, said):
    installed(entry_points)
    with pytest.raises(InputError, match=said):
        configure(spec)


def test_what_an_entry_lacks_is_said_when_it_is_made():
    config = configure("bm25")
    for wrong, said in [
        ({"name": "a:b"}, "a word without a colon"),
        ({"config": str}, "no dataclass with open"),
        ({"argument": "checkpoint"}, "lacks the field checkpoint"),
        ({"fixed": {"name": "old"}}, "has another name: 'old'"),
        ({"depth_cuts": "all"}, "cannot cut 'all'"),
    ]:
        with pytest.raises(ValueError, match=said):
            FirstStageEntry(**{"name": "new", "config": type(config), "summary": "", "fixed": {"name": "new"}, **wrong})
    with pytest.raises(InputError, match="the name 'bm25' is taken by another first stage"):
        FIRST_STAGES.add(FirstStageEntry("bm25", type(config), ""))
