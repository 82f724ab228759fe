"""The ranked documents on a terminal, and in formats of other programs."""

import sys

import pytest

import rerank_plugin as rp
from rerank_plugin.corpora import documents
from rerank_plugin.search import main as search
from tests.corpora.test_exports import RECORDS


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("listing") / "index"
    rp.build_index([record._replace(title=f"Statins {record.title}") for record in RECORDS], folder)
    return folder


@pytest.mark.parametrize("columns, indent", [(80, 6), (105, 40)])
def test_a_list_fits_the_terminal(folder, capsys, monkeypatch, columns, indent):
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("COLUMNS", str(columns))
    search(["--index", str(folder), "--query", "statins früh", "--show", "1"])
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= columns and len(lines[-1]) - len(lines[-1].lstrip()) == indent
    text = "RETRACTED: Statins Früh: “A & B” 50% of x_1 (Müller-Voss KA et al.; J Test, 2019-03-14)"
    assert " ".join(" ".join(lines).split()).endswith(f"31000001 {text}")


@pytest.mark.parametrize("format", ["ris", "nbib", "csv", "json"])
def test_the_whole_ranking_is_exported(folder, tmp_path, format, capsys):
    output = tmp_path / f"a.{format}"
    command = ["--index", str(folder), "--query", "statins", "--format", format]
    search([*command, "--output", str(output)])
    assert sorted(document.id for document in documents(str(output))) == [record.id for record in RECORDS]
    search(command)
    assert capsys.readouterr().out == output.read_text()
    search([*command, "--output", str(output), "--overwrite", "--offset", "1", "--show", "1", "--sort", "date"])
    assert [document.id for document in documents(str(output))] == ["31000002"]  # of 2021, 2020 and 2019


@pytest.mark.parametrize(
    "more, message",
    [
        ("--query statins --output a.ris", "--output with --query needs --format: ris, nbib"),
        ("--query statins --offset -1", "--offset must be at least 0"),
        ("--queries sample:test --output a.run --format ris", "--format, --offset and --sort are for --query"),
    ],
)
def test_what_the_command_refuses(folder, refused, more, message):
    assert message in refused(f"search --index {folder} {more}")


def test_only_a_list_of_documents_is_replaced(folder, refused, tmp_path):
    (tmp_path / "a.ris").write_text("TY  - BOOK\nER  - \n")
    command = f"search --index {folder} --query statins --format ris --output {tmp_path}/a.ris --overwrite"
    assert "is not a list of documents" in refused(command)
