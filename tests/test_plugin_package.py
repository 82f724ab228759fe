"""Another package, installed with pip: its models and its first stage are used like those of this package."""

import json
import shutil
from pathlib import Path

import pytest

from rerank_plugin.files.runs import read_run
from tests.processes import ROOT, Commands, run

PACKAGE = Path(__file__).parent / "plugin_package"


@pytest.fixture(scope="module")
def command(tmp_path_factory):
    """Runs commands of rerank_plugin beside the package, built from a copy, since a build writes beside its sources."""
    folder = tmp_path_factory.mktemp("plugin")
    shutil.copytree(PACKAGE, folder / "source", ignore=shutil.ignore_patterns("__pycache__"))
    pip = ["pip", "install", "--quiet", "--disable-pip-version-check", "--no-index", "--no-deps"]
    run("-m", *pip, "--no-build-isolation", "--target", folder / "site", folder / "source")
    with Commands(folder, [folder / "site", ROOT]) as process:
        yield process.run


@pytest.fixture(scope="module")
def made(command, tmp_path_factory, sample_index, sample_words):
    """An index, word vectors, and a checkpoint of each of the package's models."""
    folder = tmp_path_factory.mktemp("made")
    shutil.copytree(sample_index, folder / "index")
    shutil.copytree(sample_words, folder / "words")
    for model in ("word-overlap", "mean-vectors"):
        command(
            "train", "--model", model, "--index", folder / "index", "--words", folder / "words", "--train",
            "sample:train", "--validation", "sample:dev", "--depth", "30", "--output", folder / model,
        )  # fmt: skip
    return folder


@pytest.fixture
def searched(command, made, tmp_path):
    """Searches with some arguments into a new run; the run."""

    def search(*arguments):
        output = tmp_path / f"{len(list(tmp_path.iterdir()))}.run"
        queries = ("--index", made / "index", "--queries", "sample:test", "--depth", "20", "--output", output)
        command("search", *queries, *arguments)
        return read_run(output)

    return search


def test_its_names_are_listed_whatever_they_are(command):
    names = command("search", "--list-rerankers").split()
    assert {"word-overlap", "mean-vectors", "title-words", "of-nothing", "misnamed", "delta"} <= set(names)


def test_a_model_is_trained_by_its_own_recipe(made):
    config = json.loads((made / "word-overlap" / "config.json").read_text())
    assert config["model"] == "word-overlap" and "AP" in config["measures"]
    assert (config["training"]["optimizer"], config["training"]["epochs"]) == ("adam", 2)


def test_a_model_is_searched_with_on_both_paths(searched, made):
    checkpoint = made / "word-overlap"
    runs = [
        searched("--reranker", f"word-overlap:{checkpoint}", "--plain"),
        searched("--reranker", f"word-overlap:{checkpoint}"),
        searched("--reranker", checkpoint),
    ]
    first_stage = searched()
    assert len(runs[0]) > 20 and any(runs[0][query].doc_ids != first_stage[query].doc_ids for query in runs[0])
    for query, plain in runs[0].items():
        for other in runs[1:]:
            assert other[query].scores == pytest.approx(plain.scores, abs=1e-4)


def test_a_model_encodes_an_index_and_retrieves_from_it(command, searched, made):
    command("index", "--encode", made / "mean-vectors", "--index", made / "index")
    dense = f"dense:{made / 'mean-vectors'}"
    retrieved = searched("--first-stage", dense)
    reranked = searched("--first-stage", dense, "--reranker", f"mean-vectors:{made / 'mean-vectors'}")
    assert len(retrieved) > 20
    for query, ranked in retrieved.items():
        assert reranked[query].scores == pytest.approx(ranked.scores, abs=1e-6)
    searched("--fuse", dense)


def test_a_first_stage_is_searched_with(searched):
    assert {len(ranked.doc_ids) for ranked in searched("--first-stage", "newest:3").values()} == {3}


def test_a_model_is_measured(command, tmp_path):
    command(
        "bench", "--quick", "--reranker", "word-overlap", "mean-vectors", "title-words", "--batch", "1",
        "--documents", "500", "--json", tmp_path / "rows.json",
    )  # fmt: skip
    rows = json.loads((tmp_path / "rows.json").read_text())
    assert {(row["reranker"], row["path"]) for row in rows} == {
        ("word-overlap", "plain"), ("word-overlap", "fast"), ("mean-vectors", "plain"), ("mean-vectors", "fast"),
        ("title-words", "plain"),
    }  # fmt: skip


def test_rerankers_that_are_no_models(searched, made):
    """A class that takes a checkpoint, by name and by module, and one that takes the index alone."""
    module = "word_overlap.untrained"
    expected = searched("--reranker", "title-words")
    for spec in (f"{module}:TitleWords", f"{module}:TitleWords:{made}"):
        run = searched("--reranker", spec)
        assert all(run[query].doc_ids == ranking.doc_ids for query, ranking in expected.items())
    run = searched("--reranker", f"{module}:Plain")
    assert any(run[query].doc_ids != ranking.doc_ids for query, ranking in expected.items())


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
def test_what_is_wrong_is_said_in_one_line(command, made, spec, said):
    line = command("search", "--index", made / "index", "--query", "aspirin", "--reranker", spec, status=2)
    assert said in line and line.strip().count("\n") == 0
    if ":" not in spec and spec != "word-overlap":
        assert "the package 'word-overlap'" in line


def test_a_reranker_that_is_no_model_cannot_be_trained(command, made, tmp_path):
    line = command(
        "train", "--model", "title-words", "--index", made / "index", "--words", made / "words", "--train",
        "sample:train", "--validation", "sample:dev", "--output", tmp_path / "out", status=2,
    )  # fmt: skip
    assert "'title-words' of the package 'word-overlap' is a reranker, but not a model" in line
