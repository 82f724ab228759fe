"""Forward indexes beside existing Lucene indexes: of Pyserini's command, and with fewer stored fields."""

import json
import re
import runpy
import shutil
import sys

import numpy as np
import pytest

from rerank_plugin.base.errors import InputError
from rerank_plugin.base.filters import Filter
from rerank_plugin.base.records import Query
from rerank_plugin.corpora import Document, Problems
from rerank_plugin.indexes.building import build_beside, build_single
from rerank_plugin.indexes.index_folder import Index
from rerank_plugin.indexes.verification import verify
from rerank_plugin.integrations.documents import retrieve
from rerank_plugin.java.jvm import java_class
from rerank_plugin.ranking.searcher import Searcher
from rerank_plugin.retrieval.lucene import LuceneConfig
from tests.conftest import pyserini_searcher
from tests.indexes.alike import search_alike


def pyserini_index(folder, records, *options):
    """A Lucene index by ``python -m pyserini.index.lucene``, in this process, whose JVM has Anserini's classes."""
    if pyserini_searcher() is None:
        pytest.skip("this Pyserini reads from the network when imported, and there is none")
    (folder / "json").mkdir(parents=True)
    (folder / "json" / "a.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")
    arguments = ["--collection", "JsonCollection", "--input", folder / "json", "--index", folder / "lucene"]
    before, sys.argv = sys.argv, ["lucene", *map(str, [*arguments, "--threads", 1, *options])]
    try:
        runpy.run_module("pyserini.index.lucene", run_name="__main__")
    finally:
        sys.argv = before
    return folder / "lucene"


@pytest.fixture(scope="module")
def pyserini_folder(tmp_path_factory, documents):
    """Pyserini's index of the documents, with the fields of a BEIR collection, that stores ``raw``."""
    records = [
        dict(id=id, contents=f"{title} {abstract}", title=title, text=abstract, year=2015)
        for id, title, abstract, _ in documents
        if id != "50"  # Anserini leaves out documents without words
    ]
    return pyserini_index(
        tmp_path_factory.mktemp("theirs"), records, "--fields", "title", "text", "--storePositions",
        "--storeDocvectors", "--storeRaw",
    )  # fmt: skip


def listing(folder):
    return {path.name: (path.stat().st_mtime_ns, path.read_bytes()) for path in folder.iterdir()}


@pytest.mark.parametrize("name", ["bm25", "bm25+rm3"])
def test_searches_beside_pyserinis_index_equal_those_of_an_own_one(
    index_command, pyserini_folder, documents, tmp_path, name
):
    before = listing(pyserini_folder)
    status, out, err = index_command("--lucene", pyserini_folder, "--index", tmp_path / "beside")
    assert (status, err) == (0, "") and " documents, " in out
    assert listing(pyserini_folder) == before and not (tmp_path / "beside" / "lucene").exists()
    beside = Index(tmp_path / "beside")
    assert verify(beside) == len(beside.description["files"])
    kept = [document for document in documents if beside.forward.rows([document.id])[0] >= 0]
    assert len(kept) == len(beside) >= len(documents) - 2
    build_single(iter(kept), tmp_path / "own", "tests", Problems())
    own = Index(tmp_path / "own")
    order = beside.forward.rows([document.id for document in kept])
    assert beside.forward.titles.take(order) == own.forward.titles.take(np.arange(len(kept)))
    assert beside.forward.published[0] == "2015"
    build_beside(own.lucene_folder, tmp_path / "again")  # which stores no term vectors
    for other in (beside, Index(tmp_path / "again")):
        search_alike(other, own, ["aspirin and the prevention of heart attack", "twins share words", "糖尿病"], name)
    for own_row, row in enumerate(order):
        words = beside.forward.terms.take(beside.forward.document_tokens(row))
        assert words == own.forward.terms.take(own.forward.document_tokens(own_row))
    with pytest.raises(InputError, match="no metadata to filter by; build it with: .*--corpus C"):
        beside.first_stage(LuceneConfig()).search(Query("q", "x", Filter.of({"year": "2015"})), 3)
    with pytest.raises(InputError, match="has no field 'abstract'; it has contents, id, text, title"):
        beside.first_stage(LuceneConfig(field="abstract"))


def test_rm3_needs_term_vectors_or_texts_by_field(tmp_path):
    theirs = pyserini_index(tmp_path, [{"id": "a", "contents": "aspirin and heart attack"}], "--storeContents")
    build_beside(theirs, tmp_path / "index")
    with pytest.raises(InputError, match="RM3 reads .* or the texts of the field 'contents' in raw"):
        Index(tmp_path / "index").first_stage(LuceneConfig("bm25+rm3")).search(Query("q", "aspirin"), 3)


STUDIES = [
    {"id": "a", "contents": "Studies of hypertensive patients treated with diuretics"},
    {"id": "b", "contents": "Vaccinating children prevents infectious diseases"},
    {"id": "c", "contents": "高血压患者的药物治疗研究"},
]


@pytest.mark.parametrize(
    "made_with, option, queries",
    [
        (["--stemmer", "krovetz"], ["--analyzer", "krovetz"], {"study": ["a"], "diuretic": ["a"], "disease": ["b"]}),
        (["--stemmer", "none"], ["--analyzer", "none"], {"studies": ["a"], "study": [], "diseases": ["b"]}),
        (["--language", "zh"], ["--language", "zh"], {"血压": ["c"], "压血": [], "diseases": ["b"]}),
        (["--language", "de"], ["--language", "de"], {"studies": ["a"], "vaccinating": ["b"]}),
        (["--pretokenized"], ["--analyzer", "whitespace"], {"Studies": ["a"], "studies": []}),
    ],
)
def test_the_analyzer_of_the_lucene_index(index_command, refused, tmp_path, made_with, option, queries):
    """The wrong analyzer would find nothing, or little, without a word."""
    theirs = pyserini_index(tmp_path, STUDIES, "--storeRaw", "--storeDocvectors", *made_with)
    err = refused(f"index --lucene {theirs} --index index")
    assert re.search(f"{theirs}: of the words of its stored texts [0-9]+% are indexed by the analyzer porter, ", err)
    assert option[1] in re.search(r", and 100% by ([\w ]+): build it with: .* --(analyzer|language) ", err)[1].split()
    assert not (tmp_path / "index").exists()
    assert index_command("--lucene", theirs, "--index", tmp_path / "index", *option)[0] == 0
    with Searcher(tmp_path / "index") as searcher:
        assert {query: [hit.docid for hit in searcher.search(query)] for query in queries} == queries
    with Searcher(tmp_path / "index", first_stage="bm25+rm3") as searcher:
        query = next(iter(queries))
        assert queries[query][0] == searcher.search(query)[0].docid


@pytest.mark.parametrize(
    "options, message",
    [
        ("--language xx", "unknown analyzer or language 'xx'; known: porter, krovetz, none, whitespace, ar, "),
        ("--language de --analyzer krovetz", "--analyzer is for English: give either --analyzer or --language"),
    ],
)
def test_unknown_analyzers(refused, tmp_path, options, message):
    folder = lucene_index(tmp_path / "lucene", [{"id": "a", "contents": "heart"}])
    assert message in refused(f"index --lucene {folder} --index index {options}")
    assert "--language is for an existing Lucene index" in refused("index --corpus sample --index index --language zh")


def test_texts_that_are_not_in_the_lucene_index(index_command, tmp_path, caplog):
    documents = [{"id": "a", "contents": "heart", "body": "entirely different words are stored here"}]
    folder = lucene_index(tmp_path / "lucene", documents)
    assert index_command("--lucene", folder, "--index", tmp_path / "index", "--text-field", "body")[0] == 0
    assert "of the words of its stored texts 0% are indexed by the analyzer porter, and by no other" in caplog.text


def test_an_index_beside_our_own_lucene_index_reads_queries_as_that_does(tmp_path):
    build_single([Document("a", "Sjögren’s syndrome", "TNF-α")], tmp_path / "own", "tests", Problems())
    build_beside(tmp_path / "own" / "lucene", tmp_path / "beside")
    theirs = lucene_index(tmp_path / "lucene", [{"id": "a", "contents": "Sjögren’s syndrome: TNF-α"}])
    build_beside(theirs, tmp_path / "theirs")
    found, queries = {}, ("Sjögren", "Sjo\u0308gren", "Sjogren", "α", "alpha")
    for name in ("own", "beside", "theirs"):
        with Searcher(tmp_path / name) as searcher:
            found[name] = [len(searcher.search(query)) for query in queries]
    assert found == {"own": [1] * 5, "beside": [1] * 5, "theirs": [1, 1, 0, 1, 0]}


def test_named_fields_and_stored_contents(tmp_path):
    records = [{"id": "1", "contents": "Aspirin helps the heart", "headline": "Aspirin", "lead": "It helps."}]
    raw = pyserini_index(tmp_path / "raw", records, "--storeRaw")
    build_beside(raw, tmp_path / "a", "headline", "lead")
    assert [Index(tmp_path / "a").forward.titles[0], len(Index(tmp_path / "a").forward.tokens)] == ["Aspirin", 3]
    build_beside(raw, tmp_path / "b")
    assert [Index(tmp_path / "b").forward.titles[0], len(Index(tmp_path / "b").forward.tokens)] == ["", 4]
    contents = pyserini_index(tmp_path / "contents", records, "--storeContents")
    build_beside(contents, tmp_path / "c")
    assert len(Index(tmp_path / "c").forward.tokens) == 4
    for name, kept in (("a", records[0]), ("c", {"contents": "Aspirin helps the heart"})):
        with Searcher(tmp_path / name) as searcher:
            document = searcher.doc("1")
            ((_, _, text, metadata),) = retrieve(searcher, "heart", 1)
        assert document.fields == (kept if name == "a" else {}) and document.get("lead") == kept.get("lead")
        assert document.contents() == document.get("contents") == "Aspirin helps the heart"
        assert text == ("Aspirin\n" if name == "a" else "") + "Aspirin helps the heart"
        assert metadata.get("lead") == kept.get("lead") and "contents" not in metadata
    neither = pyserini_index(tmp_path / "neither", records)
    with pytest.raises(InputError, match="document 1 has no stored text .neither raw nor contents.: name the fields"):
        build_beside(neither, tmp_path / "d")
    for wrong in ({"text_field": "body"}, {"title_field": "body", "text_field": "lead"}):
        with pytest.raises(InputError, match="raw/lucene: (no document stores 'body'|document 1 has no stored text)"):
            build_beside(raw, tmp_path / "d", **wrong)
    assert not (tmp_path / "d").exists()


def lucene_index(folder, documents, delete=()):
    """A Lucene index with these stored fields, in one segment, written without Anserini."""
    java = java_class
    directory = java("org.apache.lucene.store.FSDirectory").open(java("java.nio.file.Paths").get(str(folder)))
    analyzer = java("io.anserini.analysis.DefaultEnglishAnalyzer").newDefaultInstance()
    writer = java("org.apache.lucene.index.IndexWriter")(
        directory, java("org.apache.lucene.index.IndexWriterConfig")(analyzer)
    )
    stored = java("org.apache.lucene.document.Field$Store").YES
    for fields in documents:
        document = java("org.apache.lucene.document.Document")()
        for name, value in fields.items():
            kind = "StringField" if name == "id" else "TextField"
            document.add(java(f"org.apache.lucene.document.{kind}")(name, value, stored))
        writer.addDocument(document)
    writer.commit()
    for id in delete:
        writer.deleteDocuments(
            java("org.apache.lucene.search.TermQuery")(java("org.apache.lucene.index.Term")("id", id))
        )
    writer.close()
    return folder


def test_deleted_documents_have_no_row(tmp_path):
    documents = [{"id": id, "contents": f"heart {word}"} for id, word in (("a", "one"), ("b", "two"), ("c", "three"))]
    folder = lucene_index(tmp_path / "lucene", documents, delete=["b"])
    build_beside(folder, tmp_path / "index")
    index = Index(tmp_path / "index")
    assert index.forward.ids.take(np.arange(2)) == ["a", "c"] and len(index) == 2
    assert index.first_stage(LuceneConfig()).search(Query("q", "heart"), 5).ids == ["c", "a"]
    assert index.first_stage(LuceneConfig()).search(Query("q", "two"), 5).ids == []


def test_an_index_without_contents_explains_its_documents(tmp_path):
    folder = lucene_index(tmp_path / "lucene", [{"id": "a", "title": "Heart", "abstract": "Attack!"}])
    build_beside(folder, tmp_path / "index", "title", "abstract")
    with Searcher(tmp_path / "index", first_stage=LuceneConfig(field="title")) as searcher:
        found = searcher.explain("heart", "a")
    assert (found.title, found.abstract) == ("Heart", "Attack!")


@pytest.mark.parametrize(
    "documents, message",
    [
        (
            [{"id": "a", "contents": "x"}, {"contents": "y"}],
            "document number 1 has the id None: every document needs an id",
        ),
        ([{"id": "a b", "contents": "x"}], "document number 0 has the id 'a b'"),
        ([{"id": "a", "contents": "x"}] * 2, "cannot be used: 1 duplicate id: a; ids have to be unique"),
        ([], "no document to index in "),
    ],
)
def test_invalid_lucene_indexes(refused, tmp_path, documents, message):
    folder = lucene_index(tmp_path / "lucene", documents)
    err = refused(f"index --lucene {folder} --index index")
    assert message in err and str(folder) in err
    assert not (tmp_path / "index").exists()


def test_an_index_that_has_changed_or_gone(refused, tmp_path):
    folder = lucene_index(tmp_path / "lucene", [{"id": "a", "contents": "heart"}])
    build_beside(folder, tmp_path / "index")
    lucene_index(folder, [{"id": "b", "contents": "heart"}])
    with pytest.raises(InputError, match=f"{folder} has changed since .*index was built"):
        Index(tmp_path / "index").first_stage(LuceneConfig())
    shutil.rmtree(folder)
    with pytest.raises(InputError, match=f"{folder} cannot be opened as a Lucene index"):
        Index(tmp_path / "index").first_stage(LuceneConfig())
    assert "cannot be opened as a Lucene index" in refused(f"index --lucene {folder} --index other")


def test_a_field_without_an_index_that_has_it(refused):
    err = refused("index --corpus sample --title-field t --index other")
    assert "--title-field is for an existing Lucene index" in err
