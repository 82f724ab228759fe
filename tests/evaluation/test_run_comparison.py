"""Two runs query by query, against numbers by hand."""

import pytest

from rerank_plugin.evaluate import main

QRELS = "q1 0 a 2\nq1 0 b 1\nq2 0 a 1\nq3 0 c 1\n"
OLD = "q1 Q0 x 1 9 t\nq1 Q0 b 2 8 t\nq2 Q0 a 1 9 t\nq3 Q0 c 1 1 t\n"
NEW = "q1 Q0 a 1 9 t\nq1 Q0 b 2 8 t\nq2 Q0 a 1 9 t\nq3 Q0 x 1 2 t\nq3 Q0 c 2 1 t\n"
QUERIES = "q1\theart <b> & lung\nq3\tpain\n"
TEXT = """\
measure  old.run  new.run  difference       p  wins  ties  losses
RR          0.8333   0.8333      0.0000  1.0000     1     1       1
P@1         0.6667   0.6667      0.0000  1.0000     1     1       1

Largest gains of new.run, by RR:

q1: 0.5000 to 1.0000 (+0.5000)  heart <b> & lung
    new at 1, grade 2: a
    gone from 1, not judged: x

Largest losses of new.run, by RR:

q3: 1.0000 to 0.5000 (-0.5000)  pain
    new at 1, not judged: x
    rank 1 to 2, grade 1: c
"""


@pytest.fixture
def compared(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    for name, text in (("qrels", QRELS), ("old.run", OLD), ("new.run", NEW), ("q.tsv", QUERIES)):
        (tmp_path / name).write_text(text)

    def run(line):
        main([*f"--qrels qrels --compare old.run new.run --queries q.tsv {line}".split(), "--measures", "RR", "P@1"])
        return capsys.readouterr().out

    return run


def test_wins_losses_and_the_documents_that_moved(compared):
    assert [line.split() for line in compared("").splitlines()] == [line.split() for line in TEXT.splitlines()]


def test_the_page(compared, tmp_path, refused):
    compared("--format html --output c.html")
    page = (tmp_path / "c.html").read_text()
    assert "<h3>q1: heart &lt;b&gt; &amp; lung</h3>" in page and "gone from 1, not judged" in page
    assert page.count("<rect") == 3 and "1 queries gain, 1 are equal, 1 lose" in page
    compared("--format html --output c.html --overwrite")
    (tmp_path / "mine.html").write_text("<p>mine</p>")
    command = "evaluate --qrels qrels --compare old.run new.run --format html --output mine.html --overwrite"
    assert "is not a page of compared runs" in refused(command)


@pytest.mark.parametrize("format", ["table", "markdown", "csv", "json"])
def test_a_report_may_be_replaced(compared, tmp_path, format):
    compared(f"--format {format} --output c.txt")
    before = (tmp_path / "c.txt").read_text()
    compared(f"--format {format} --output c.txt --overwrite")
    assert (tmp_path / "c.txt").read_text() == before


@pytest.mark.parametrize(
    "line, message",
    [
        ("--compare old.run", "--compare takes two runs"),
        ("--compare old.run new.run --per-query", "--compare replaces --baseline, --agreement and --per-query"),
        ("old.run --format html", "--queries, --index and --format html are for --compare"),
    ],
)
def test_what_the_command_refuses(compared, refused, line, message):
    assert message in refused(f"evaluate --qrels qrels {line}")
