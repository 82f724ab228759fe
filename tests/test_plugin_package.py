"""A package of somebody else, installed with pip: its models are searched with, trained, encoded and measured like ours."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import rerank_plugin
from rerank_plugin.files.runs import read_run

ROOT = Path(rerank_plugin.__file__).parents[1]
PACKAGE = Path(__file__).parent / "plugin_package"


def command(site, *arguments, fails=False):
    """Run a command of rerank_plugin beside the package; its stdout, or what it says when it should fail."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(site), str(ROOT)])}
    name, *rest = map(str, arguments)
    done = subprocess.run(
        [sys.executable, "-m", f"rerank_plugin.{name}", *rest], env=environment, capture_output=True, text=True
    )
    assert done.returncode == (2 if fails else 0), done.stderr
    return done.stderr if fails else done.stdout


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """A folder with the installed package, built from a copy, since a build writes beside its sources."""
    import shutil

    folder = tmp_path_factory.mktemp("plugin")
    shutil.copytree(PACKAGE, folder / "source", ignore=shutil.ignore_patterns("__pycache__"))
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-index", "--no-deps"]
    pip += ["--no-build-isolation", "--target", str(folder / "site"), str(folder / "source")]
    done = subprocess.run(pip, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return folder / "site"


@pytest.fixture(scope="module")
def made(site, tmp_path_factory):
    """An index, word vectors, and a checkpoint of each of the package's models."""
    folder = tmp_path_factory.mktemp("made")
    command(site, "index", "--corpus", "sample", "--index", folder / "index")
    command(
        site, "embed", "words", "--corpus", "sample", "--dimension", "16", "--epochs", "1", "--output", folder / "words"
    )
    for model in ("word-overlap", "mean-vectors"):
        command(
            site, "train", "--model", model, "--index", folder / "index", "--words", folder / "words", "--train",
            "sample:train", "--validation", "sample:dev", "--depth", "30", "--output", folder / model,
        )  # fmt: skip
    return folder


def searched(site, made, output, *arguments):
    command(
        site, "search", "--index", made / "index", "--queries", "sample:test", "--depth", "20", "--output", output,
        *arguments,
    )  # fmt: skip
    return read_run(output)


def test_its_names_are_listed_whatever_they_are(site):
    names = command(site, "search", "--list-rerankers").split()
    assert {"word-overlap", "mean-vectors", "title-words", "of-nothing", "misnamed", "delta"} <= set(names)


def test_a_model_is_trained_by_its_own_recipe(made):
    config = json.loads((made / "word-overlap" / "config.json").read_text())
    assert config["model"] == "word-overlap" and "AP" in config["measures"]
    assert (config["training"]["optimizer"], config["training"]["epochs"]) == ("adam", 2)


def test_a_model_is_searched_with_on_both_paths(site, made, tmp_path):
    checkpoint = made / "word-overlap"
    runs = [
        searched(site, made, tmp_path / "plain.run", "--reranker", f"word-overlap:{checkpoint}", "--plain"),
        searched(site, made, tmp_path / "fast.run", "--reranker", f"word-overlap:{checkpoint}"),
        searched(site, made, tmp_path / "folder.run", "--reranker", checkpoint),
    ]
    first_stage = searched(site, made, tmp_path / "bm25.run")
    assert len(runs[0]) > 20 and any(runs[0][query].doc_ids != first_stage[query].doc_ids for query in runs[0])
    for query, plain in runs[0].items():
        for other in runs[1:]:
            assert other[query].scores == pytest.approx(plain.scores, abs=1e-4)


def test_a_model_encodes_an_index_and_retrieves_from_it(site, made, tmp_path):
    command(site, "index", "--encode", made / "mean-vectors", "--index", made / "index")
    dense = f"dense:{made / 'mean-vectors'}"
    found = searched(site, made, tmp_path / "dense.run", "--first-stage", dense)
    again = searched(
        site,
        made,
        tmp_path / "again.run",
        "--first-stage",
        dense,
        "--reranker",
        f"mean-vectors:{made / 'mean-vectors'}",
    )
    assert len(found) > 20
    for query, ranked in found.items():
        assert again[query].scores == pytest.approx(ranked.scores, abs=1e-6)
    searched(site, made, tmp_path / "fused.run", "--fuse", dense)


def test_a_model_is_measured(site, tmp_path):
    command(
        site, "bench", "--quick", "--reranker", "word-overlap", "mean-vectors", "title-words", "--batch", "1",
        "--documents", "500", "--json", tmp_path / "rows.json",
    )  # fmt: skip
    rows = json.loads((tmp_path / "rows.json").read_text())
    assert {(row["reranker"], row["path"]) for row in rows} == {
        ("word-overlap", "plain"), ("word-overlap", "fast"), ("mean-vectors", "plain"), ("mean-vectors", "fast"),
        ("title-words", "plain"),
    }  # fmt: skip


def test_rerankers_that_are_no_models(site, made, tmp_path):
    """A class that takes a checkpoint, by name and by module, and one that takes the index alone."""
    module = "word_overlap.untrained"
    expected = searched(site, made, tmp_path / "a.run", "--reranker", "title-words")
    for number, spec in enumerate((f"{module}:TitleWords", f"{module}:TitleWords:{made}")):
        found = searched(site, made, tmp_path / f"{number}.run", "--reranker", spec)
        assert all(found[query].doc_ids == one.doc_ids for query, one in expected.items())
    found = searched(site, made, tmp_path / "plain.run", "--reranker", f"{module}:Plain")
    assert any(found[query].doc_ids != one.doc_ids for query, one in expected.items())


@pytest.mark.parametrize(
    "spec, said",
    [
        ("of-nothing", "AttributeError"),
        ("misnamed", "a reranker named 'word-overlap'"),
        ("delta", "a reranker named 'word-overlap'"),
        ("word-overlap", "word-overlap:FOLDER"),
        ("word_overlap.untrained:Plain:folder", "takes no checkpoint"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(site, made, spec, said):
    line = command(site, "search", "--index", made / "index", "--query", "aspirin", "--reranker", spec, fails=True)
    assert said in line and line.strip().count("\n") == 0
    if ":" not in spec and spec != "word-overlap":
        assert "the package 'word-overlap'" in line


def test_a_reranker_that_is_no_model_cannot_be_trained(site, made, tmp_path):
    line = command(
        site, "train", "--model", "title-words", "--index", made / "index", "--words", made / "words", "--train",
        "sample:train", "--validation", "sample:dev", "--output", tmp_path / "out", fails=True,
    )  # fmt: skip
    assert "'title-words' of the package 'word-overlap' can rerank, but it is no model" in line
