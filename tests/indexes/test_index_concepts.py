"""Indexes that are built with a knowledge base: the bundled one, over the documents of the tests, with real Lucene."""

import json
import shutil

import numpy as np
import pytest

from rerank_plugin.base.errors import InputError
from rerank_plugin.base.records import Query
from rerank_plugin.concepts.annotation import Annotator
from rerank_plugin.concepts.knowledge_base import KnowledgeBase
from rerank_plugin.corpora import Document, Problems
from rerank_plugin.files.checksums import sealed
from rerank_plugin.indexes.building import build_single
from rerank_plugin.indexes.index_folder import Index
from rerank_plugin.indexes.verification import verify
from rerank_plugin.knowledge import sample_source
from rerank_plugin.knowledge.compiling import compile_knowledge
from rerank_plugin.retrieval.lucene import LuceneConfig


@pytest.fixture(scope="module")
def knowledge(tmp_path_factory):
    folder = tmp_path_factory.mktemp("kb") / "sample"
    compile_knowledge(sample_source.source(), folder, "sample")
    return KnowledgeBase(folder)


@pytest.fixture(scope="module")
def annotator(knowledge):
    return Annotator(knowledge, threads=2)


@pytest.fixture(scope="module")
def folder(tmp_path_factory, documents, annotator):
    """The documents, after as many of no concern that they are in the second batch, and one of them twice."""
    folder = tmp_path_factory.mktemp("annotated") / "index"
    more = (Document(f"d{number}", "nothing", "of concern") for number in range(990))
    build_single([*more, *documents, Document("1", "stroke", "")], folder, "tests", Problems(), annotator=annotator)
    return folder


def test_every_document_has_the_concepts_of_its_text(folder, documents, annotator):
    index = Index(folder)
    forward, knowledge = index.forward, index.knowledge
    assert len(forward) == 990 + len(documents)
    assert (forward.segments[0].concepts.dtype, forward.segments[0].concept_offsets.dtype) == (np.uint32, np.uint64)
    found = []
    for document in documents:
        row = int(forward.rows([document.id])[0])
        start, stop = (int(forward.segments[0].concept_offsets[place]) for place in (row, row + 1))
        mentions = annotator.annotate(f"{document.title}\n{document.abstract}")
        expected = [concept for mention in mentions for concept in mention.concepts]
        assert forward.segments[0].concepts[start:stop].tolist() == expected
        found += knowledge.names.take(forward.segments[0].concepts[start:stop])
    assert {"stroke", "aspirin"} <= set(found) and len(found) > 30
    assert int(forward.segments[0].concept_offsets[990]) == 0 and int(forward.segments[0].concept_offsets[-1]) == len(
        forward.segments[0].concepts
    )


def test_no_mention_reaches_from_a_title_into_its_abstract(annotator, tmp_path):
    build_single([Document("1", "heart", "attack")], tmp_path / "index", "tests", Problems(), annotator=annotator)
    assert len(Index(tmp_path / "index").forward.segments[0].concepts) == 0
    assert len(annotator.concepts(["heart attack"])[0]) > 0


def test_the_index_needs_no_other_folder(folder, knowledge, annotator, tmp_path):
    """It has the knowledge base and the settings, and is as good elsewhere."""
    index = Index(shutil.copytree(folder, tmp_path / "elsewhere"))
    verify(index)
    assert index.description["knowledge"] == annotator.settings
    assert index.description["concepts"] == len(index.forward.segments[0].concepts)
    beside = {f"segments/000001/{name}.npy" for name in ("concepts", "concept_offsets")}
    assert beside | {"knowledge/knowledge.json", "knowledge/ids.bytes.npy"} <= set(index.description["files"])
    assert index.knowledge.folder == tmp_path / "elsewhere" / "knowledge"
    assert index.knowledge.checksum == knowledge.checksum
    text = "Does aspirin prevent a heart attack?"
    found = index.forward.knowledge.query(text)
    assert found.tolist() == annotator.concepts([text])[0].tolist() and len(found) >= 2
    assert index.forward.query(text).text == text


def test_a_query_is_annotated_once(folder, monkeypatch):
    knowledge, calls = Index(folder).forward.knowledge, []
    annotate = knowledge.annotator.concepts
    monkeypatch.setattr(knowledge.annotator, "concepts", lambda texts: calls.append(texts) or annotate(texts))
    for text in ("stroke", "aspirin", "stroke", "stroke"):
        found = knowledge.query(text)
        with pytest.raises(ValueError, match="read-only"):
            found[0] = 0
    assert calls == [["stroke"], ["aspirin"]]


def test_an_index_without_concepts_finds_the_same(folder, index):
    assert index.knowledge is None
    assert (index.forward.knowledge, index.forward.segments[0].concepts) == (None, None)
    for text in ("stroke", "breast cancer"):  # of other statistics, so with other scores
        found, plain = (
            each.first_stage(LuceneConfig()).search(Query("q", text), 10) for each in (Index(folder), index)
        )
        assert found.ids == plain.ids and len(found) > 1


def test_invalid_settings_and_those_of_another_program(folder, tmp_path):
    copy = shutil.copytree(folder, tmp_path / "copy")
    description = json.loads((copy / "index.json").read_text())

    def write(settings):
        (copy / "index.json").write_text(json.dumps(sealed({**description, "knowledge": settings})))

    write([])
    with pytest.raises(InputError, match="index.json.*knowledge"):
        Index(copy)
    write({**description["knowledge"], "rules": 99})
    annotation = copy / "knowledge" / "annotation"
    kept = {path.name: path.read_bytes() for path in annotation.iterdir()}
    assert kept and not any("annotation/" in name for name in description["files"])
    with pytest.raises(InputError, match=r"rules 99, here \d+\); rebuild the index"):
        Index(copy).forward.knowledge.query("stroke")
    assert kept == {path.name: path.read_bytes() for path in annotation.iterdir()}
    write(description["knowledge"])
    expected = Index(folder).forward.knowledge.query("stroke").tolist()
    shutil.rmtree(annotation)  # what the annotator keeps is made again
    for _ in range(2):
        assert verify(Index(copy))
        assert Index(copy).forward.knowledge.query("stroke").tolist() == expected != []


def test_the_command(index_command, knowledge, tmp_path):
    (tmp_path / "corpus.jsonl").write_text('{"_id": "1", "title": "Stroke", "text": "Aspirin after a stroke."}\n')
    status, out, _ = index_command(
        "--corpus", tmp_path / "corpus.jsonl", "--knowledge", knowledge.folder, "--index", tmp_path / "index"
    )
    assert status == 0 and "3 concepts, " in out
    names = Index(tmp_path / "index").knowledge.names
    assert names.take(Index(tmp_path / "index").forward.segments[0].concepts) == ["stroke", "aspirin", "stroke"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("--corpus sample --knowledge nowhere", "nowhere"),
        ("--verify --knowledge kb", "--knowledge is for building an index"),
        ("--encode c --knowledge kb", "--knowledge is for building an index"),
    ],
)
def test_invalid_options(refused, tmp_path, arguments, message):
    assert message in refused(f"index {arguments} --index index")
    assert not list(tmp_path.iterdir())
