"""Rerankers found by name, by checkpoint folder, by module and class, and from installed packages."""

import json
from pathlib import Path

import numpy as np
import pytest

from rerank_plugin import rerankers
from rerank_plugin.files.errors import InputError
from rerank_plugin.files.records import Query
from rerank_plugin.models import checkpoints, register
from rerank_plugin.rerankers import RerankerOptions
from rerank_plugin.rerankers.neural import NeuralReranker
from rerank_plugin.text.tokenizer import SETTINGS
from tests import small
from tests.processes import ROOT, run

QUERY = Query("q1", "heart attack")

TITLE_LENGTH = '''
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


@pytest.fixture
def checkpoint(tmp_path, vectors):
    folder = tmp_path / "delta:1" / "checkpoint"  # a colon in a folder's name is no separator
    checkpoints.save_checkpoint(folder, small.delta(vectors, seed=5), vectors, {})
    return folder


def write_package(folder, name, source=TITLE_LENGTH):
    package = folder / name
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "rerankers.py").write_text(source)


def test_known_names():
    names = rerankers.known_names()
    assert "delta" in names and names == sorted(set(names)) and {*rerankers.UNTRAINED, *register.names()} <= set(names)


@pytest.mark.parametrize("spec", ["dalta", "dalta:checkpoints/x", "", "a.b", "nowhere/at/all"])
def test_unknown_names_list_the_known_ones(index, tmp_path, monkeypatch, spec):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError) as raised:
        rerankers.load(spec, index)
    if spec:
        assert f"'{spec}'" in str(raised.value) and all(name in str(raised.value) for name in rerankers.known_names())
    assert "\n" not in str(raised.value)


def test_checkpoint_by_name_and_alone(index, vectors, checkpoint, monkeypatch):
    expected = NeuralReranker(small.delta(vectors, seed=5), vectors.vocabulary, index)
    expected = expected.score(QUERY, small.candidates(index))
    options = RerankerOptions(batch_size=3)
    for spec in (f"delta:{checkpoint}", str(checkpoint)):
        one = rerankers.load(spec, index, options)
        assert (one.name, one.options) == ("delta", options)
        np.testing.assert_allclose(one.score(QUERY, small.candidates(index)), expected, rtol=0, atol=1e-6)
    monkeypatch.chdir(checkpoint.parent)
    assert rerankers.load("checkpoint", index).name == "delta"


def test_models_that_do_not_come_along_need_a_checkpoint(index):
    for spec in ("pacrr", "pacrr:"):
        with pytest.raises(InputError, match="checkpoint"):
            rerankers.load(spec, index)


def test_the_model_that_comes_along(index):
    """It is small enough to ship, says what it was trained on, and scores on both paths alike."""
    folder = register.checkpoint_folder("delta")
    assert sum(path.stat().st_size for path in folder.iterdir()) < 20e6
    config = checkpoints.read_config(folder)
    assert config["training"]["train"] == "runs/open:train" and config["config"]["filters"] == 32
    candidates = small.candidates(index)
    scores = {
        spec: rerankers.load(spec, index).score(QUERY, candidates) for spec in ("delta", "delta:", f"delta:{folder}")
    }
    plain = rerankers.load("delta", index, RerankerOptions(fast=False)).score(QUERY, candidates)
    assert len(np.unique(plain)) > 1
    for one in scores.values():
        np.testing.assert_allclose(one, plain, rtol=0, atol=1e-5)
    assert register.entry_of("pacrr").bundled is None
    for given in ("pacrr", "./delta", "../models/delta", Path("delta")):  # a path is a folder, whatever it is called
        assert register.checkpoint_folder(given) == Path(given)


def test_missing_and_foreign_checkpoint_folders(index, tmp_path):
    with pytest.raises(InputError, match="no-such-folder"):
        rerankers.load(f"delta:{tmp_path / 'no-such-folder'}", index)
    (tmp_path / "empty").mkdir()
    for spec in (str(tmp_path / "empty"), f"delta:{tmp_path / 'empty'}"):
        with pytest.raises(InputError, match="config.json"):
            rerankers.load(spec, index)
    (tmp_path / "empty" / "config.json").write_text(
        json.dumps({"model": "oracle", "config": {}, "tokenizer": SETTINGS})
    )
    for spec in (str(tmp_path / "empty"), f"delta:{tmp_path / 'empty'}"):
        with pytest.raises(InputError, match="oracle"):
            rerankers.load(spec, index)


def test_class_from_elsewhere(index, tmp_path, monkeypatch):
    write_package(tmp_path, "elsewhere_class")
    monkeypatch.syspath_prepend(tmp_path)
    one = rerankers.load("elsewhere_class.rerankers:TitleLength", index)
    assert one.name == "title-length" and one.index is index
    assert one.score(QUERY, small.candidates(index, [8, 1, 4])).tolist() == [5, 3, 0]


@pytest.mark.parametrize(
    "spec",
    [
        "elsewhere_faults.rerankers:Missing",
        "elsewhere_faults.missing:TitleLength",
        "no_such_package.rerankers:TitleLength",
        "elsewhere_faults.rerankers:NoScore",
        "elsewhere_faults.broken:TitleLength",
    ],
)
def test_class_from_elsewhere_that_cannot_be_used(index, tmp_path, monkeypatch, spec):
    write_package(tmp_path, "elsewhere_faults")
    (tmp_path / "elsewhere_faults" / "broken.py").write_text("import no_such_library\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(InputError) as raised:
        rerankers.load(spec, index)
    assert f"'{spec}'" in str(raised.value) and "\n" not in str(raised.value)


def install(folder, name, source, entry_points):
    """A distribution as pip would leave it: a package and its dist-info."""
    write_package(folder, name, source)
    information = folder / f"{name}-1.0.dist-info"
    information.mkdir()
    (information / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    lines = "".join(f"{entry} = {name}.rerankers:{target}\n" for entry, target in entry_points.items())
    (information / "entry_points.txt").write_text(f"[rerank_plugin.rerankers]\n{lines}")


SCRIPT = """
import json, sys
from pathlib import Path
from rerank_plugin import rerankers
from rerank_plugin.files.errors import InputError
from rerank_plugin.files.records import Query
from rerank_plugin.indexes.candidates import Candidates
from rerank_plugin.indexes.forward import ForwardIndex
index = ForwardIndex(Path(sys.argv[1]), json.loads(sys.argv[2]))

def told(one):
    scores = one.score(Query("q", "heart"), Candidates(index, [8, 1, 4], [3, 2, 1])).tolist()
    return [one.name, str(one.checkpoint), one.options.batch_size, scores]

found = {"names": rerankers.known_names()}
found["with"] = told(rerankers.load("title-length:some/folder", index, rerankers.RerankerOptions("cpu", 17)))
found["without"] = told(rerankers.load("title-length", index))
found["folder"] = told(rerankers.load(sys.argv[3], index))
try:
    rerankers.load("broken", index)
except InputError as error:
    found["broken"] = str(error)
found["neural"] = len(rerankers.load(sys.argv[4], index).score(Query("q", "heart"), Candidates(index, [8], [3])))
found["java"] = sorted({"pyserini", "jnius"} & set(sys.modules))
print(json.dumps(found))
"""


def test_entry_points_of_other_packages(index, checkpoint, tmp_path):
    """With a checkpoint, without, and by a checkpoint folder alone, which names the model. Of a package that broke, the
    user is told which reranker and why, in one line, and other names keep working. Java is never started."""
    install(tmp_path, "title_length_plugin", TITLE_LENGTH, {"title-length": "from_entry_point"})
    install(tmp_path, "broken_plugin", "import no_such_library\n", {"broken": "from_entry_point"})
    folder = tmp_path / "trained"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps({"model": "title-length", "config": {}}))
    arguments = [index.folder, json.dumps(index.mean_lengths), folder, checkpoint]
    found = json.loads(run("-c", SCRIPT, *arguments, paths=[tmp_path, ROOT]))
    assert {"title-length", "broken", "delta"} <= set(found["names"]) and "title-length" not in rerankers.known_names()
    assert found["with"] == ["title-length", str(Path("some/folder")), 17, [5, 3, 0]]
    assert found["without"] == ["title-length", "None", RerankerOptions().batch_size, [5, 3, 0]]
    assert found["folder"] == ["title-length", str(folder), RerankerOptions().batch_size, [5, 3, 0]]
    assert "broken" in found["broken"] and "no_such_library" in found["broken"] and "\n" not in found["broken"]
    assert (found["neural"], found["java"]) == (1, [])
