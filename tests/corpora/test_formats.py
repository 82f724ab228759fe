"""The table of formats: what it says and finds, and a format of another package, installed."""

import pytest

from rerank_plugin.corpora import CORPUS, JUDGMENTS, QUERIES, Document, Query, accepted, documents, judgments, queries
from rerank_plugin.corpora.register import FORMATS, READERS, Format
from rerank_plugin.files.errors import InputError

SOURCE = '''
"""RIS, which reference managers write: documents, and the tags of reading lists as queries and judgments."""

from rerank_plugin.corpora.problems import usable
from rerank_plugin.corpora.register import CORPUS, JUDGMENTS, QUERIES, Format
from rerank_plugin.files.text_files import lines


def records(path):
    record = {}
    for number, line in lines(path):
        key, value = line[:2], line[6:]
        if key == "ER":
            yield f"{path}:{number}", record
            record = {}
        else:
            record[key] = value


def documents(paths, problems, ids_required):
    for path in paths:
        for where, record in records(path):
            document = usable(
                record.get("ID"), record.get("TI", ""), record.get("AB", ""), where, problems, ids_required
            )
            if document is not None:
                yield document


def queries(path):
    for where, record in records(path):
        yield where, record["ID"], record["TI"]


def judgments(path):
    return {record["ID"]: {record["KW"]: 1} for _, record in records(path)}


ENTRY = Format("RIS", __name__, dict.fromkeys((CORPUS, QUERIES, JUDGMENTS), "RIS files"), suffixes=(".ris",))
'''
RIS = "ID  - r1\nTI  - Aspirin\nAB  - It helps.\nKW  - d1\nER  - \nID  - r2\nTI  - Statins\nKW  - d2\nER  - \n"


@pytest.fixture
def installed(tmp_path, monkeypatch):
    (tmp_path / "ris_format.py").write_text(SOURCE)
    information = tmp_path / "ris_format-1.0.dist-info"
    information.mkdir()
    (information / "METADATA").write_text("Metadata-Version: 2.1\nName: ris-format\nVersion: 1.0\n")
    (information / "entry_points.txt").write_text("[rerank_plugin.formats]\nRIS = ris_format:ENTRY\n")
    monkeypatch.syspath_prepend(tmp_path)
    folder = tmp_path / "library"
    folder.mkdir()
    (folder / "a.ris").write_text(RIS)
    return folder


def test_a_format_of_another_package_is_read_wherever_one_is(installed):
    expected = [Document("r1", "Aspirin", "It helps."), Document("r2", "Statins", "")]
    file = str(installed / "a.ris")
    assert list(documents(file)) == list(documents(str(installed))) == expected
    assert queries(file) == [Query("r1", "Aspirin"), Query("r2", "Statins")]
    assert judgments(file) == {"r1": {"d1": 1}, "r2": {"d2": 1}}
    (installed / "b.jsonl").write_text("{}")
    with pytest.raises(InputError, match=r"both JSON lines \(b\.jsonl\) and RIS \(a\.ris\)"):
        documents(str(installed))


def test_help_and_errors_name_it(installed):
    assert "RIS (a format of another package)" in accepted(CORPUS)
    (installed / "a.pdf").write_text("x")
    with pytest.raises(InputError, match=r"documents are read from .*\*\.ris\[\.gz\] \(RIS\)"):
        documents(str(installed / "a.pdf"))


def test_queries_of_a_format_that_cannot_select(installed):
    with pytest.raises(InputError, match="only of a JSON lines file some queries can be selected"):
        queries(f"{installed / 'a.ris'}:split=dev")


def test_our_formats_have_the_readers_that_they_declare():
    for one in FORMATS.ours():
        assert all(callable(getattr(one.reader, READERS[what])) for what in one.gives), one.name


def test_what_is_accepted():
    assert "PubMed XML" in accepted(CORPUS) and "qrels" not in accepted(CORPUS)
    assert "a TREC topics file" in accepted(QUERIES) and "a TREC qrels file" in accepted(JUDGMENTS)
    for what in READERS:
        assert all(form in accepted(what) for form in ("an ir-datasets id (", "a BEIR folder", "sample[:split]"))


def test_a_format_that_cannot_be():
    with pytest.raises(ValueError, match="must give some of: a corpus, queries, judgments"):
        Format("x", "m", {})
    with pytest.raises(ValueError, match="cannot have the suffix 'ris'"):
        Format("x", "m", {CORPUS: "x"}, suffixes=("ris",))
