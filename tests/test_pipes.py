"""Commands that read pipes and stdin, and write to stdout: as a shell joins them."""

import gzip
import shlex
import sys

import pytest

from rerank_plugin.files.runs import read_run
from tests.processes import run

ARTICLES = "".join(
    f"<PubmedArticle><MedlineCitation><PMID>{pmid}</PMID><Article><ArticleTitle>{title}</ArticleTitle></Article>"
    f"</MedlineCitation></PubmedArticle>\n"
    for pmid, title in enumerate(("Aspirin after stroke", "Sleep in adults", "Aspirin and sleep"), 1)
)
PLUGIN = f"{shlex.quote(sys.executable)} -m rerank_plugin"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Packed PubMed XML, queries and judgments, and the run of an index that was built from files."""
    folder = tmp_path_factory.mktemp("pipes")
    (folder / "a.xml.gz").write_bytes(gzip.compress(f"<PubmedArticleSet>{ARTICLES}</PubmedArticleSet>".encode()))
    (folder / "q.tsv").write_text("q1\taspirin\nq2\tsleep\n")
    (folder / "qrels").write_text("q1 0 1 1\nq2 0 2 1\n")
    shell(folder, f"{PLUGIN} index --corpus a.xml.gz --index files")
    shell(folder, f"{PLUGIN} search --index files --queries q.tsv --output files.run")
    return folder


def shell(folder, line, status=0):
    """What a line of bash writes to stdout, or to stderr if it should fail."""
    return run("-c", f"set -o pipefail; {line}", folder=folder, program="bash", status=status)


def test_every_input_may_be_a_pipe_and_the_output_too(folder):
    """PubMed XML is read twice and queries are looked at before they are read; neither loses a line."""
    shell(folder, f"cat a.xml.gz | {PLUGIN} index --corpus - --index piped")
    search = f"{PLUGIN} search --index piped --queries <(gzip -c q.tsv) --output -"
    measured = shell(
        folder, f"{search} | tee piped.run | {PLUGIN} evaluate --qrels <(cat qrels) --format json /dev/stdin"
    )
    assert read_run(folder / "piped.run").keys() == {"q1", "q2"}
    assert (folder / "piped.run").read_bytes() == (folder / "files.run").read_bytes()
    of_files = shell(folder, f"{PLUGIN} evaluate --qrels qrels --format json files.run")
    assert measured.replace("/dev/stdin", "files.run") == of_files
    again = (
        f"{PLUGIN} search --index files --queries - --run <(cat files.run) --reranker bm25-title --output /dev/stdout"
    )
    reranked = shell(folder, f"{again} < q.tsv")
    assert [line.split()[0] for line in reranked.splitlines()] == ["q1", "q1", "q2", "q2"]


@pytest.mark.parametrize(
    "line", ["evaluate --qrels p p", "search --index files --queries p --run p --reranker docid --output r"]
)
def test_a_pipe_given_twice_is_refused_instead_of_waiting_for_ever(folder, line):
    error = shell(folder, f"rm -f p; mkfifo p; cat q.tsv > p & {PLUGIN} {line}", status=2)
    assert error.startswith("error: p") and len(error.splitlines()) == 1


def test_stdin_given_twice_is_refused(folder):
    error = shell(folder, f"{PLUGIN} evaluate --qrels - - < qrels", status=2)
    assert error == "error: -: was read before, and can be read once: give it once, or a file with its content\n"
