"""The register of formats, and an installed format of another package."""

from pathlib import Path

import pytest

from rerank_plugin.base.errors import InputError
from rerank_plugin.corpora import CORPUS, JUDGMENTS, QUERIES, Document, Query, accepted, documents, judgments, queries
from rerank_plugin.corpora.register import FORMATS, READERS, Format

SOURCE = '''
"""Cards: an id, a title, an abstract and the id of a relevant document, separated by bars."""

from rerank_plugin.corpora.records import Record, usable_documents
from rerank_plugin.corpora.register import CORPUS, JUDGMENTS, QUERIES, Format
from rerank_plugin.files.text_files import lines


def cards(path):
    for number, line in lines(path):
        yield f"{path}:{number}", *line.split("|")


def documents(paths, problems, ids_required):
    records = ((where, Record(id, title, text)) for path in paths for where, id, title, text, _ in cards(path))
    return usable_documents(records, problems, ids_required)


def queries(path):
    return [(where, id, title) for where, id, title, *_ in cards(path)]


def judgments(path):
    return {id: {relevant: 1} for _, id, *_, relevant in cards(path)}


ENTRY = Format("cards", __name__, dict.fromkeys((CORPUS, QUERIES, JUDGMENTS), "cards"), suffixes=(".card",))
'''


@pytest.fixture
def file(put, tmp_path, monkeypatch):
    """A file in a format that is installed."""
    put("cards.py", SOURCE)
    put("cards-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: cards\nVersion: 1.0\n")
    put("cards-1.0.dist-info/entry_points.txt", "[rerank_plugin.formats]\ncards = cards:ENTRY\n")
    monkeypatch.syspath_prepend(tmp_path)
    return put("library/a.card", "r1|Aspirin|It helps.|d1\nr2|Statins||d2\n")


def test_a_format_of_another_package_is_read_everywhere(file, put):
    folder = str(Path(file).parent)
    expected = [Document("r1", "Aspirin", "It helps."), Document("r2", "Statins", "")]
    assert list(documents(file)) == list(documents(folder)) == expected
    assert queries(file) == [Query("r1", "Aspirin"), Query("r2", "Statins")]
    assert judgments(file) == {"r1": {"d1": 1}, "r2": {"d2": 1}}
    put("library/b.jsonl", '{"id": "b", "text": "Words"}')
    put("library/c.card", '{"id":"c"}|A card, not JSON||d1\n')
    assert [document.id for document in documents(folder)] == ["r1", "r2", '{"id":"c"}', "b"]
    with pytest.raises(InputError, match="a.card: queries can be selected in a JSON lines file only"):
        queries(f"{file}:split=dev")


def test_help_and_errors_name_it(file, put):
    assert "cards (a format of another package)" in accepted(CORPUS)
    with pytest.raises(InputError, match=r"documents are read from .*\*\.card\[\.gz\] \(cards\)"):
        documents(put("a.pdf", "x"))


def test_our_formats_have_the_readers_that_they_declare():
    for format in FORMATS.built_in():
        assert all(callable(getattr(format.reader, READERS[kind])) for kind in format.gives), format.name


def test_accepted_forms():
    assert "PubMed XML" in accepted(CORPUS) and "qrels" not in accepted(CORPUS)
    assert "a TREC topics file" in accepted(QUERIES) and "a TREC qrels file" in accepted(JUDGMENTS)
    for kind in READERS:
        assert all(form in accepted(kind) for form in ("an ir-datasets id (", "a BEIR folder", "sample[:split]"))


def test_an_invalid_format():
    with pytest.raises(ValueError, match="must give some of: a corpus, queries, judgments"):
        Format("x", "m", {})
    with pytest.raises(ValueError, match="cannot have the suffix 'ris'"):
        Format("x", "m", {CORPUS: "x"}, suffixes=("ris",))
