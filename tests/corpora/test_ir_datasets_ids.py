"""The real ir-datasets library, with data sets registered from local files: nothing is downloaded."""

import uuid
from typing import NamedTuple

import ir_datasets
import pytest

from rerank_plugin.base.errors import InputError
from rerank_plugin.corpora import Document, Problems, Query, documents, judgments, queries, queries_and_judgments
from rerank_plugin.corpora.formats.ir_datasets_ids import _query_text, _title_and_abstract


@pytest.fixture
def registered(tmp_path):
    """Registers parts under a new id, and takes them out of the registry again."""
    names = []

    def register(*parts, under="corpora-test"):
        name = f"{under}/{uuid.uuid4().hex}"
        ir_datasets.registry.register(name, ir_datasets.Dataset(*parts))
        names.append(name)
        return name

    yield register
    for name in names:
        del ir_datasets.registry._registered[name]


def local(path, text=None):
    if text is not None:
        path.write_text(text, encoding="utf-8")
    return ir_datasets.util.LocalDownload(path)


class TitledDoc(NamedTuple):
    doc_id: str
    title: str
    abstract: str


def whole(tmp_path):
    formats = ir_datasets.formats
    return (
        formats.TsvDocs(local(tmp_path / "d.tsv", "d1\tOne\tFirst words\nd2\tTwo\t\nd3\t\t\n"), doc_cls=TitledDoc),
        formats.TsvQueries(local(tmp_path / "q.tsv", "2\tsecond\n1\tfirst\n3\tunjudged\n")),
        formats.TrecQrels(local(tmp_path / "j.txt", "1 0 d1 2\n2 0 d1 1\n2 0 d1 0\n2 0 d2 0\n"), {}),
    )


def test_a_whole_data_set(tmp_path, registered):
    id = registered(*whole(tmp_path))
    problems = Problems()
    assert list(documents(id, problems)) == [Document("d1", "One", "First words"), Document("d2", "Two", "")]
    assert problems.examples == {"empty document": [f"{id} d3"]}
    assert queries(id) == [Query("2", "second"), Query("1", "first"), Query("3", "unjudged")]
    assert judgments(id) == {"1": {"d1": 2}, "2": {"d1": 1, "d2": 0}}  # of two grades, the higher
    assert queries_and_judgments(id) == ([Query("2", "second"), Query("1", "first")], judgments(id))


def test_an_id_joined_with_a_file(tmp_path, registered):
    _, topics, _ = whole(tmp_path)
    id = registered(topics)
    (tmp_path / "mine.txt").write_text("1 0 d9 1\n")
    assert queries_and_judgments(f"{id},{tmp_path / 'mine.txt'}") == ([Query("1", "first")], {"1": {"d9": 1}})


def test_missing_parts_name_the_data_sets_that_have_them(tmp_path, registered):
    docs, topics, qrels = whole(tmp_path)
    id = registered(docs)
    for read, part in ((queries, "queries"), (judgments, "qrels"), (queries_and_judgments, "qrels")):
        with pytest.raises(InputError, match=f"{id}: this ir-datasets data set has no {part}"):
            read(id)
    below = registered(docs, topics, qrels, under=id)
    with pytest.raises(InputError, match=f"has no qrels: use one of {below}"):
        judgments(id)
    with pytest.raises(InputError, match="has no docs"):
        documents(registered(topics, qrels))


def test_a_failed_download_is_a_one_line_error(tmp_path, registered):
    gone = local(tmp_path / "gone.tsv")
    id = registered(ir_datasets.formats.TsvDocs(gone), ir_datasets.formats.TsvQueries(gone))
    for read in (lambda: list(documents(id)), lambda: queries(id)):
        with pytest.raises(InputError, match=f"{id}: ir-datasets cannot provide it .*FileNotFoundError") as error:
            read()
        assert "\n" not in str(error.value)


def test_a_damaged_file_of_a_data_set_is_one_line(tmp_path, registered):
    id = registered(ir_datasets.formats.TsvQueries(local(tmp_path / "q.tsv", "1\tgood\nno tab\n")))
    with pytest.raises(InputError, match=f"{id}: .*expected 2 fields, got 1"):
        queries(id)


def test_the_record_types_of_the_library():
    from ir_datasets import formats
    from ir_datasets.datasets import beir, clinicaltrials, highwire, medline, nfcorpus, pmc, tripclick

    cases = [
        (formats.GenericDoc("1", "words"), ("", "words")),
        (beir.BeirTitleDoc("1", text="words", title="T"), ("T", "words")),
        (nfcorpus.NfCorpusDoc("1", "http://x", "T", "words"), ("T", "words")),
        (medline.MedlineDoc("1", "T", ""), ("T", "")),
        (pmc.PmcDoc("1", "J", "T", "abstract", "full text"), ("T", "abstract")),
        (pmc.PmcDoc("1", "J", "T", "", "full text"), ("T", "full text")),
        (highwire.HighwireDoc("1", "J", "T", (highwire.HighwireSpan(0, 3, "a"), highwire.HighwireSpan(3, 3, "b"))),
         ("T", "a b")),
        (tripclick.TripClickPartialDoc("1", "T", "http://x"), ("T", "")),
        (clinicaltrials.ClinicalTrialsDoc("1", "T", "asthma", "summary", "details", "adults"),
         ("T", "asthma summary details adults")),
    ]  # fmt: skip
    for record, expected in cases:
        assert _title_and_abstract(record) == expected, type(record).__name__
    assert _query_text(medline.TrecGenomicsQuery("1", "title", "need", "context")) == "title"
    assert _query_text(medline.TrecPmQuery("1", "melanoma", "BRAF", "old")) == "melanoma BRAF old"
