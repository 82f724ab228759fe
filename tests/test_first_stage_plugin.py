"""A first stage of another package, installed: in a search, fused, and in a training; and one that cannot be used."""

import json
import re
import sys
from dataclasses import make_dataclass
from pathlib import Path

import pytest

from rerank_plugin import search, train
from rerank_plugin.base import register
from rerank_plugin.base.errors import InputError
from rerank_plugin.files.runs import read_run
from rerank_plugin.retrieval.lucene import NAMES, LuceneConfig
from rerank_plugin.retrieval.register import FIRST_STAGES, FirstStageEntry, configure, entry_of, known_forms
from tests.training.commanded import always
from tests.training.conftest import inputs  # noqa: F401

SOURCE = Path(__file__).parent / "plugin_package/word_overlap/newest.py"


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """A distribution as pip leaves it: a module and its dist-info, whose entry points may be given."""

    def install(entry_points="newest = newest_stage:NEWEST"):
        (tmp_path / "newest_stage.py").write_text(f"{SOURCE.read_text()}\nNO_ENTRY = 'newest'\n")
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
    options = f"--validation {inputs}/dev.tsv,{inputs}/dev.qrels --first-stage newest:1000 --epochs 1"
    arguments = always(inputs, tmp_path / "trained", "train", options)
    place = arguments.index("--train-run")
    train.main(arguments[:place] + arguments[place + 2 :])
    described = json.loads((tmp_path / "trained" / "config.json").read_text())
    assert described["training"]["first_stage"] == {"name": "newest", "most": "1000"}


def test_listing_loads_nothing_of_another_package(installed):
    installed("newest = no_such_module:ENTRY")
    assert known_forms()[-1] == "newest"
    with pytest.raises(
        InputError, match="declares the first stage 'newest' as no_such_module:ENTRY, but it cannot be loaded"
    ):
        configure("newest:3")


def test_packages_are_read_once_until_another_is_installed(installed, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    places = [*sys.path]
    assert "newest" not in known_forms()
    installed()
    monkeypatch.setattr(sys, "path", places)
    assert known_forms()[-1] == "newest"
    monkeypatch.setattr(register, "entry_points", None)
    assert configure("newest:3").most == "3"


@pytest.mark.parametrize(
    "entry_points, spec, said",
    [
        ("newest = newest_stage:NEWEST", "newest", "unknown"),
        ("newest = newest_stage:NEWEST", "newest:", "needs most: newest:MOST"),
        ("newest = newest_stage:NO_ENTRY", "newest:3", "newest_stage:NO_ENTRY, but that is not a FirstStageEntry"),
        ("oldest = newest_stage:NEWEST", "oldest:3", "that is the entry of a first stage named 'newest'"),
        ("newest = newest_stage:GONE", "newest:3", "GONE"),
    ],
)
def test_what_cannot_be_configured_is_named(installed, entry_points, spec, said):
    installed(entry_points)
    with pytest.raises(InputError, match=said):
        configure(spec)


def test_what_an_entry_lacks_is_said_when_it_is_made():
    for wrong, message in [
        ({"fixed": {"name": "a:b"}}, "'a:b'; give it a default, a word without a colon"),
        (
            {"config": make_dataclass("Unnamed", [("name", str)], namespace={"open": print})},
            "Unnamed: .* give it a def",
        ),
        ({"config": str}, "a dataclass with open.index., not <class 'str'>"),
        ({"argument": "checkpoint"}, "lacks the field checkpoint"),
        ({"fixed": {"other": 1}}, "lacks the field other"),
        ({"depth_cuts": "all"}, "'bm25': the depth cannot cut 'all'"),
    ]:
        with pytest.raises(ValueError, match=message):
            FirstStageEntry(**{"config": LuceneConfig, "summary": "", **wrong})
    with pytest.raises(InputError, match="the name 'bm25' is taken by another first stage"):
        FIRST_STAGES.add(FirstStageEntry(LuceneConfig, ""))


@pytest.mark.parametrize("spec", [*NAMES, "all", "newest:3"])
def test_a_name_stands_once(installed, index, spec):
    installed()
    config = configure(spec)
    assert entry_of(spec).name == config.name == config.open(index).name == spec.partition(":")[0]
