"""Versions and deletions of articles of PubMed, added to an index that holds some."""

import json
import re

import pytest

import rerank_plugin as rp
from rerank_plugin.corpora import Problems, documents
from rerank_plugin.encoding.updates import add_documents
from rerank_plugin.indexes.building import build_single
from rerank_plugin.indexes.index_folder import Index
from rerank_plugin.indexes.shard_building import build_shards
from tests.corpora.pubmed import article, deletion, xml

HELD = [article("1", "held v2", version=2), article("2", "held v1"), article("3", "held v1")]
UNKNOWN = '{"id": "4", "title": "held"}'  # no version
TITLES = {"1": "held v2", "2": "held v1", "3": "held v1", "4": "held"}
ANY = "<DeleteCitation><PMID>1</PMID></DeleteCitation>"
SECOND = '<DeleteCitation><PMID Version="2">{}</PMID></DeleteCitation>'.format


@pytest.fixture
def folder(put, tmp_path):
    corpus = [put("held.xml", xml(*HELD)), put("held.jsonl", UNKNOWN)]
    build_single(documents(corpus), tmp_path / "index", "tests", Problems())
    return tmp_path / "index"


def titles(folder):
    index = Index(folder)
    rows = index.forward.live_rows
    return dict(zip(index.forward.ids.take(rows), map(index.forward.titles.__getitem__, rows.tolist())))


@pytest.mark.parametrize(
    "parts, changed, numbers, notes",
    [
        ([article("1", "v1"), article("2", "v1 again")], {"2": "v1 again"}, (1, 1), ["older versions than .*: 1$"]),
        ([article("1", "v3", version=3), article("4", "v1")], {"1": "v3", "4": "v1"}, (2, 2), []),
        ([article("5", "new"), deletion("2")], {"5": "new", "2": None}, (1, 1), ["deleted, .*: 2$"]),
        ([deletion("2", "3", "4")], {"2": None, "3": None, "4": None}, (0, 3), ["3 documents deleted, .*: 2, 3, 4$"]),
        ([deletion("1")], {}, (0, 0), ["1 deletions of documents that the index does not hold"]),  # it has version 2
        ([SECOND(1), SECOND(2), deletion("7")], {"1": None}, (0, 1), ["deleted, .*: 1$", "2 deletions"]),
        ([ANY], {"1": None}, (0, 1), ["deleted, .*: 1$"]),
        ([SECOND(1), article("1", "v1")], {"1": "v1"}, (1, 1), []),  # what was newer is gone
        ([article("2", "v1"), deletion("2"), article("6", "n")], {"2": None, "6": "n"}, (1, 1), ["deleted, .*: 2$"]),
        ([deletion("2"), article("2", "back")], {"2": "back"}, (1, 1), []),
        ([article("1", "v1")], {}, (0, 0), ["older versions than .*: 1$"]),
        ([*HELD[:2], article("9", "new")], {"9": "new"}, (1, 0), ["2 documents left out, which .* as they are"]),
    ],
)  # fmt: skip
def test_versions_and_deletions(folder, put, parts, changed, numbers, notes):
    corpus = put("daily.xml", xml(*parts))
    report = add_documents(folder, documents(corpus, Problems()), corpus, Problems(), threads=1)
    assert titles(folder) == {id: title for id, title in {**TITLES, **changed}.items() if title}
    assert (report.added, report.deleted, report.documents) == (*numbers, len(titles(folder)))
    assert len(report.notes()) == len(notes)
    for note, pattern in zip(report.notes(), notes):
        assert re.search(pattern, note)


def test_the_callers_record_of_what_was_applied(folder, put):
    def recorded():
        return Index(folder).description.get("applied")

    corpus = put("daily.xml", xml(*HELD))
    for record, generation in (({"file": 1}, 2), (None, 2), ({"file": 2}, 3)):
        add_documents(folder, documents(corpus, Problems()), corpus, Problems(), threads=1, applied=record)
        assert Index(folder).description["number"] == generation
    rp.update_index(folder, delete=["1"], merge=True)
    assert recorded() == {"file": 2} and len(Index(folder)) == 3


def test_a_document_without_a_version_replaces_any(folder, put):
    rp.update_index(folder, add=put("more.jsonl", json.dumps({"id": "1", "title": "of JSON"})), threads=1)
    assert titles(folder) == {**TITLES, "1": "of JSON"}


def test_the_command_says_what_was_deleted(folder, put, index_command):
    corpus = put("daily.xml.gz", xml(article("1", "v1"), article("5", "new"), deletion("2", "8")))
    status, out, err = index_command("--index", folder, "--add", corpus)
    assert status == 0, err
    assert out.split(" in 0")[0] == (
        f"{folder}: 1 documents of {corpus} added, 0 of them for older ones, 1 documents deleted, as the corpus says: "
        "2, 1 documents left out, which are older versions than those in the index: 1, 1 deletions of documents that "
        "the index does not hold"
    )
    assert titles(folder) == {"1": "held v2", "3": "held v1", "4": "held", "5": "new"}
    status, _, err = index_command("--index", folder, "--add", put("all.xml", xml(ANY, deletion("3", "4", "5"))))
    assert status == 2 and "no document would be left" in err


def test_an_index_of_shards(put, tmp_path):
    build_shards(documents([put("a.xml", xml(*HELD)), put("b.jsonl", UNKNOWN)]), tmp_path / "i", "tests", Problems(), 2)
    rp.update_index(tmp_path / "i", add=put("1.xml", xml(article("1", "v1"), article("5", "new"), deletion("2"))))
    rp.update_index(tmp_path / "i", add=put("2.xml", xml(deletion("1", "3"))))
    assert titles(tmp_path / "i") == {"1": "held v2", "4": "held", "5": "new"}
