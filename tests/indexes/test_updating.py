"""Adding, deleting and merging against new indexes of the same documents, beside readers, and after a kill anywhere."""

import gc
import json
import os
import re
import resource
import shutil
import signal
import sys
import time
from argparse import Namespace
from contextlib import closing, contextmanager, suppress
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

import rerank_plugin as rp
from rerank_plugin import index as index_command
from rerank_plugin.base.errors import InputError
from rerank_plugin.base.filters import Filter
from rerank_plugin.base.records import Query
from rerank_plugin.corpora import Document, Problems
from rerank_plugin.files.outputs import OutputLockedError
from rerank_plugin.indexes import derived, lucene_reader, updating
from rerank_plugin.indexes.building import build_beside, build_index
from rerank_plugin.indexes.commits import next_commit
from rerank_plugin.indexes.index_folder import Index, forward_checksum
from rerank_plugin.indexes.layout import ADAPTED, DERIVED, commit_file, derived_folder
from rerank_plugin.indexes.segment import FIELDS
from rerank_plugin.indexes.vector_store_writer import Pieces
from rerank_plugin.indexes.verification import verify
from rerank_plugin.inputs.lexical_features import LEXICAL_NAMES, lexical_features
from rerank_plugin.knowledge.annotation import Annotator, AnnotatorConfig
from rerank_plugin.rerankers.lexical import title_frequency
from rerank_plugin.rerankers.neural import NeuralReranker
from rerank_plugin.retrieval.encoding import IndexEncoder
from rerank_plugin.retrieval.lucene import LuceneConfig
from rerank_plugin.retrieval.updates import add_documents, merge_index
from tests import annotated, small
from tests.indexes import encoded
from tests.indexes.alike import search_alike
from tests.processes import start

WORDS = "aspirin heart stroke women risk cancer attack migraine diet smoke".split()
QUERIES = ["aspirin heart attack", "risk of stroke in women", "cancer diet smoke", "migraine"]
EXPLORE = (Phase.explicit, Phase.reuse, Phase.generate)
VECTORS = small.word_vectors(WORDS[:8], 12, seed=1)


def document(number, version=0, journal=None):
    random = np.random.default_rng([number, version])
    title, abstract = (" ".join(random.choice(WORDS, size)) for size in random.integers(1, 9, 2))
    metadata = {"journal": journal, "date": f"20{version:02d}"} if journal else None
    return Document(f"{'aZé'[number % 3]}{number}", title, f"{abstract} own{number}v{version}", metadata)


def build(folder, documents, **options):
    build_index(iter(documents), folder, "tests", Problems(), threads=1, **options)
    return Index(folder)


def add(folder, *documents):
    return add_documents(folder, iter(documents), "tests", Problems(), threads=1)


def by_id(index):
    """Of each document what the forward index says of it, with words for numbers."""
    forward = index.forward
    found = {}
    for row in forward.live_rows.tolist():
        words = forward.terms.take(forward.document_tokens(row))
        lengths = [int(forward.unique_terms[field][row]) for field in FIELDS]
        found[forward.ids[row]] = (
            words,
            int(forward.title_lengths[row]),
            forward.titles[row],
            forward.published[row],
            lengths,
        )
    return found


def frequencies(index):
    """The terms of some document, with their document frequencies."""
    forward = index.forward
    terms = forward.terms.take(np.arange(forward.vocabulary_size))
    counts = np.stack([forward.document_frequency[field][: len(terms)] for field in FIELDS], axis=1).tolist()
    return {term: count for term, count in zip(terms, counts) if any(count)}


def titles(index):
    forward, counts = index.forward, title_frequency(index.forward)
    return {forward.terms[term]: int(counts[term]) for term in np.flatnonzero(counts)}


def same(index, fresh):
    """Check that nothing of an index but its rows and its terms of no document differs from a new one."""
    assert len(index) == len(fresh) == len(index.forward.live_rows) and by_id(index) == by_id(fresh)
    assert frequencies(index) == frequencies(fresh) and titles(index) == titles(fresh)
    for name in ("documents", "fields", "tokenizer"):
        assert index.description[name] == fresh.description[name], name
    assert index.description["lucene"]["metadata"] == fresh.description["lucene"]["metadata"]
    ids = sorted(by_id(fresh))
    for text in [*QUERIES, "own3v0 own4v1"]:
        scores = []
        for one in (index, fresh):
            candidates = small.candidates(one.forward, one.forward.rows(ids))
            assert candidates.ids == ids
            known = one.forward.query(text)
            features = lexical_features(LEXICAL_NAMES, known, candidates)
            delta = NeuralReranker(small.delta(VECTORS), VECTORS.vocabulary, one.forward)
            scores.append((known.ids >= 0, features, delta.score(Query("q", text), candidates)))
        for found, expected in zip(*scores):
            np.testing.assert_array_equal(found, expected)
        found, expected = (one.first_stage(LuceneConfig()).search(Query("q", text), 100) for one in (index, fresh))
        assert sorted(found.ids) == sorted(expected.ids)
    for one in (index, fresh):
        if one.description["lucene"]["metadata"]:
            journals = one.fitting(Filter.of({"journal": "J1"}))
            matching = {one.forward.ids[row] for row in np.flatnonzero(journals)}
            assert matching == {id for id, values in by_id(fresh).items() if values[3].endswith("\tJ1")}
    with rp.Searcher(index) as searcher:
        for id in ids[::7]:
            assert searcher.doc(id).id() == id and searcher.doc(id).get("title") == fresh_title(fresh, id)


def fresh_title(index, id):
    return index.forward.titles[int(index.forward.rows([id])[0])]


def equal_files(index, fresh):
    """Check that the files of a merged forward index are, byte by byte, those of a new one."""
    ((folder,), (expected,)) = ([segment.folder for segment in one.forward.segments] for one in (index, fresh))
    names = sorted(path.name for path in expected.iterdir())
    assert sorted(path.name for path in folder.iterdir()) == names
    for name in names:
        assert (folder / name).read_bytes() == (expected / name).read_bytes(), name
    for one in (index, fresh):  # the whole has nothing of its own
        own = (one.folder / f"commits/{one.number:06d}").glob("*")
        assert {path.name for path in own} <= {"lucene_rows.npy"}


def only_its_files(index):
    """Check that the folder holds nothing but the files of the current commit, and what is derived from it."""
    found = {path.relative_to(index.folder).as_posix() for path in index.folder.rglob("*") if path.is_file()}
    own = [derived_folder(index, name).relative_to(index.folder).as_posix() for name in DERIVED]
    found = {name for name in found if not name.startswith(tuple(f"{one}/" for one in own))}
    assert found == {*index.description["files"], commit_file(index.number), "index.json", "lucene/write.lock"}


steps = st.lists(
    st.one_of(
        st.tuples(st.just("add"), st.lists(st.tuples(st.integers(0, 39), st.integers(0, 3)), min_size=1, max_size=6)),
        st.tuples(st.just("delete"), st.lists(st.integers(0, 39), min_size=1, max_size=8)),
        st.tuples(st.just("merge"), st.booleans()),
    ),
    min_size=1,
    max_size=5,
)


@settings(max_examples=5, phases=EXPLORE)  # each example takes seconds: a smaller one would take minutes
@given(steps, st.integers(1, 30))
def test_any_updates_give_the_index_of_the_documents_that_are_left(tmp_path_factory, steps, first):
    """By every stage and model, with encoders and centroids that stay as they are until they are adapted anew."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(updating, "MOST", 3)  # small segments are merged soon
        _check_updates(tmp_path_factory.mktemp("updates"), steps, first, patch)


def _check_updates(folder, steps, first, patch):
    other = encoded.encoders(folder, WORDS, patch).other
    journal = lambda number: f"J{number % 2}" if number % 3 else None  # noqa: E731
    left = {one.id: one for one in (document(number, journal=journal(number)) for number in range(first))}
    index = build(folder / "index", left.values())
    encoded.encode(index, other, left)
    index.close()
    judged, deleted, first_ids = {*left}, False, [*left]
    for kind, values in steps:
        if kind == "add":
            documents = [document(number, version, journal(number)) for number, version in dict(values).items()]
            expected = len(documents), len({one.id for one in documents} & left.keys())
            report = add(folder / "index", *documents)
            assert (report.added, report.deleted) == expected
            for one in documents:
                deleted |= left.pop(one.id, None) is not None
                left[one.id] = one
        elif kind == "delete":
            ids = [id for id in dict.fromkeys(document(number).id for number in values) if id in left][: len(left) - 1]
            if not ids:
                continue
            assert updating.delete(folder / "index", ids).deleted == len(ids)
            for id in ids:
                del left[id]
            deleted = True
        else:
            merge_index(folder / "index", adapt=values)
            judged &= {*left}
            deleted = False
        index = Index(folder / "index")
        assert verify(index) and len(index) == len(left)
        index.close()
    fresh, index = build(folder / "fresh", left.values()), Index(folder / "index")
    same(index, fresh)
    if not deleted:
        search_alike(index, fresh, [next(iter(left.values())).title])
    encoded.encode_alike(index, fresh, other)
    encoded.judge(fresh, other, first_ids, judged & {*left})
    encoded.encoded_alike(index, fresh, other, QUERIES[:2], hybrid=not deleted)
    updating.merge(folder / "index")
    index.close()
    del index
    gc.collect()
    index = Index(folder / "index")
    verify(index)
    equal_files(index, fresh)
    same(index, fresh)
    for name in ("bm25", "qld", "bm25+rm3"):
        search_alike(index, fresh, [one.title for one in left.values()][:4], name)
    encoded.equal_arrays(index, fresh)
    encoded.encoded_alike(index, fresh, other, QUERIES[2:], hybrid=True)
    merge_index(folder / "index", adapt=True)
    anew = build(folder / "anew", left.values())
    encoded.encode(anew, other, first_ids, judged & {*left})
    index = Index(folder / "index")
    assert verify(index)
    if min(first, len(left)) >= 3:  # of fewer documents the lists of the other encoder are fewer
        encoded.equal_arrays(index, anew)
    encoded.encoded_alike(index, anew, other, QUERIES[:2], hybrid=True)


def test_a_deleted_and_a_replaced_document_are_gone_for_every_stage(tmp_path):
    """And terms of them alone are terms of no document."""
    documents = [document(number) for number in range(30)]
    build(tmp_path / "index", documents)
    assert updating.delete(tmp_path / "index", [documents[4].id, documents[4].id, documents[7].id]).deleted == 2
    add(tmp_path / "index", document(9, version=1))
    index = Index(tmp_path / "index")
    forward = index.forward
    assert forward.rows([documents[4].id, documents[9].id, documents[7].id]).tolist() == [-1, 30, -1]
    assert forward.query("own4v0 own9v0 own9v1 own5v0").ids.tolist()[:2] == [-1, -1]
    assert (forward.query("own9v1 own5v0").ids >= 0).all()
    everything = index.first_stage(rp_first_stage("all")).search(Query("q", "x"), 5)
    assert sorted(everything.ids) == sorted({one.id for one in documents} - {documents[4].id, documents[7].id})
    assert forward.titles[int(forward.rows([documents[9].id])[0])] == document(9, version=1).title
    with rp.Searcher(index) as searcher:
        assert searcher.num_docs == 28 and searcher.doc(documents[4].id) is None
        assert all(hit.docid not in (documents[4].id, documents[7].id) for hit in searcher.search(" ".join(WORDS), 40))
        numbers = [searcher.doc(number) for number in range(len(forward.lucene_rows))]
        assert sum(one is not None for one in numbers) == 28


def rp_first_stage(name):
    from rerank_plugin.retrieval.register import configure

    return configure(name)


def test_vectors_of_deleted_documents_are_not_found(tmp_path):
    """Neither by a query, nor as similar, nor as relevant for a judged query."""
    from rerank_plugin.retrieval.dense import DenseConfig, QueryEncoder
    from rerank_plugin.retrieval.neighbours import NeighboursConfig, write_judged

    index = build(tmp_path / "index", [document(number) for number in range(40)])
    IndexEncoder(index.forward, "ktrel").encode()
    query, text = Query("q", "aspirin and heart attack"), "aspirin heart"
    found = DenseConfig("ktrel").open(index).search(query, 40)
    judged = [("here", [Query("j", text)], {"j": dict.fromkeys(found.ids[:6], 1)})]
    write_judged(index.forward, QueryEncoder(index.forward, "ktrel"), judged)
    gone = found.ids[1:4]
    updating.delete(tmp_path / "index", gone)
    index = Index(tmp_path / "index")
    assert verify(index)
    left = DenseConfig("ktrel").open(index).search(query, 40)
    assert left.ids == [id for id in found.ids if id not in gone]
    near = NeighboursConfig("ktrel", documents=0).open(index).search(query, 40)
    assert sorted(near.ids) == sorted({*found.ids[:6]} - {*gone})
    with rp.Searcher(index) as searcher:
        assert {hit.docid for hit in searcher.similar(left.ids[0], 40)} == {*left.ids[1:]}


def test_concepts_are_those_of_the_same_annotator(tmp_path):
    documents = [Document(*one) for one in small.DOCUMENTS if one[1] or one[2]]
    base = annotated.knowledge_base(tmp_path / "kb")
    annotator = Annotator(base, AnnotatorConfig(candidates=3), threads=1)
    build(tmp_path / "index", documents[:5], annotator=annotator)
    add(tmp_path / "index", *documents[4:])
    updating.delete(tmp_path / "index", [documents[1].id])
    left = [*documents[:1], *documents[2:4], *documents[4:]]
    fresh, index = build(tmp_path / "fresh", left, annotator=annotator), Index(tmp_path / "index")
    verify(index)
    assert index.description["concepts"] == fresh.description["concepts"] > 0
    for one in (index, fresh):
        rows = one.forward.rows([document.id for document in left])
        flat = small.candidates(one.forward, rows).flat_concepts()
        assert flat.ids.tolist() == [id for texts in left for id in annotator.concepts([f"{texts[1]}\n{texts[2]}"])[0]]
    updating.merge(tmp_path / "index")
    equal_files(Index(tmp_path / "index"), fresh)


def test_readers_keep_their_commit_until_they_are_closed(tmp_path):
    folder = tmp_path / "index"
    build(folder, [document(number) for number in range(20)]).close()
    unopened, searcher = Index(folder), rp.Searcher(folder)
    before = searcher.search(QUERIES[0], 20)
    for number in range(4):
        add(folder, document(number, version=1), document(100 + number))
        updating.delete(folder, [document(10 + number).id])
        if number % 2:
            updating.merge(folder)
        assert searcher.search(QUERIES[0], 20) == before
        assert searcher.doc(document(3).id).get("title") == document(3).title
    # Parts that were not opened before the updates are of the old commit, too.
    assert len(unopened) == 20 and unopened.first_stage(LuceneConfig()).search(Query("q", "own0v0"), 5).ids == ["a0"]
    reader = unopened.open_lucene()
    assert reader.numDocs() == 20
    reader.close()
    assert len(list((folder / "commits").glob("*.json"))) > 1
    searcher.close()
    unopened.close()
    updating.delete(folder, [document(100).id])
    only_its_files(Index(folder))


HOLDER = """
import sys, time
from rerank_plugin import Index

index = Index(sys.argv[1])
print("open", flush=True)
time.sleep(60)
"""


def test_the_commit_of_a_dead_process_goes(tmp_path):
    folder = tmp_path / "index"
    build(folder, [document(number) for number in range(5)]).close()
    holder = start(tmp_path, "-c", HOLDER, folder)
    assert holder.stdout.readline() == "open\n"
    add(folder, document(6))
    assert [path.name for path in sorted((folder / "commits").glob("*.json"))] == ["000001.json", "000002.json"]
    holder.send_signal(signal.SIGKILL)
    holder.wait()
    updating.delete(folder, [document(6).id])
    only_its_files(Index(folder))


def test_one_process_writes_at_a_time(tmp_path):
    folder = tmp_path / "index"
    build(folder, [document(number) for number in range(5)]).close()
    with next_commit(folder), pytest.raises(OutputLockedError, match="is being written by another process"):
        add(folder, document(6))
    assert add(folder, document(6)).documents == 6


def test_a_damaged_segment_is_noticed_by_verification(tmp_path):
    folder = tmp_path / "index"
    build(folder, [document(number) for number in range(20)]).close()
    for number in (3000, 4000):
        add(folder, *(document(one) for one in range(number, number + 6)))
    files = [path for path in folder.rglob("*.npy") if path.relative_to(folder).parts[0] in ("segments", "commits")]
    assert len(files) > 60
    for path in files[::7]:
        content = bytearray(path.read_bytes())
        content[len(content) // 2] ^= 1
        path.write_bytes(content)
        with pytest.raises(InputError, match=f"{path} (does not match its checksum|has changed)"):
            verify(Index(folder))
        content[len(content) // 2] ^= 1
        path.write_bytes(content)
    assert verify(Index(folder))


def test_small_segments_are_merged_and_no_score_changes(tmp_path, caplog):
    """Not those before the first that is small beside the later ones, nor with `--no-merge`."""
    folder, kept = tmp_path / "index", tmp_path / "kept"
    build(folder, [document(number) for number in range(40)]).close()
    shutil.copytree(folder, kept)
    for number in range(50, 57):
        add(folder, document(number), document(number % 3, version=number))
        add_documents(kept, iter([document(number), document(number % 3, version=number)]), "tests", Problems(),
                      threads=1, merge_small=False)  # fmt: skip
    index, unmerged = Index(folder), Index(kept)
    assert [len(segment) for segment in unmerged.forward.segments] == [40, *[2] * 7]
    assert [len(segment) for segment in index.forward.segments] == [40, 14 - 4]  # replaced documents are left out
    assert "the last 7 commits are merged" in caplog.text and verify(index) and verify(unmerged)
    same(index, unmerged)
    search_alike(index, unmerged, QUERIES)
    add(folder, document(100))
    assert [len(segment) for segment in Index(folder).forward.segments] == [40, 10, 1]


@pytest.fixture
def folder(tmp_path):
    build(tmp_path / "index", [document(number) for number in range(8)]).close()
    return tmp_path / "index"


def state(folder):
    return {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize(
    ("update", "message"),
    [
        (lambda folder: updating.delete(folder, ["a0", "nobody"]), "1 of 2 ids to delete are not in .*first 'nobody'"),
        (lambda folder: updating.delete(folder, [document(n).id for n in range(8)]), "no document would be left"),
        (lambda folder: add(folder), "no document to index in tests"),
        (lambda folder: rp.update_index(folder, add=[Document("x", "t", "a", {"colour": "red"})]), "invalid metadata"),
        (lambda folder: rp.update_index(folder, add=[Document("x y", "t", "a")]), "holds white space"),
        (lambda folder: rp.update_index(folder / "nowhere", merge=True), "no index at"),
    ],
)
def test_bad_input_leaves_the_commit(folder, update, message):
    before = state(folder)
    with pytest.raises(InputError, match=message) as raised:
        update(folder)
    assert "\n" not in str(raised.value) and state(folder) == before


def test_a_corpus_without_ids_is_refused_with_the_reason(folder, put, index_command):
    before, corpus = state(folder), put("corpus.jsonl", '{"title": "no id"}\n')
    status, _, err = index_command("--index", folder, "--add", corpus)
    assert status == 2 and "1 missing id: " in err and state(folder) == before


def test_an_index_beside_a_lucene_index_is_refused(folder, tmp_path):
    build_beside(folder / "lucene", tmp_path / "beside")
    before = state(folder), state(tmp_path / "beside")
    for update in (lambda: add(tmp_path / "beside", document(9)), lambda: updating.delete(tmp_path / "beside", ["a0"])):
        with pytest.raises(InputError, match="beside the Lucene index .*--lucene"):
            update()
    assert before == (state(folder), state(tmp_path / "beside"))


@pytest.mark.parametrize("room", [0, 400, 20_000, 100_000])
def test_a_full_disk_leaves_the_commit(folder, room):
    """Files cannot grow beyond a limit; Java and the arrays meet it at different sizes."""
    add(folder, document(20))
    before, index = state(folder), Index(folder)
    documents = [Document(f"n{n}", f"long {n}", " ".join(f"w{n}x{m}" for m in range(300))) for n in range(100)]
    limit = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (room, limit[1]))
    try:
        with pytest.raises(InputError, match="cannot be written|Lucene cannot write") as raised:
            add(folder, *documents)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limit)
        signal.signal(signal.SIGXFSZ, handler)
    assert "\n" not in str(raised.value)
    index.close()
    assert add(folder, *documents).documents == 109 and verify(Index(folder))
    assert before.keys() - state(folder).keys()  # the old commit is gone only now


class Killed(BaseException):
    """Ends an update where a kill would."""


class Kill:
    """Raises at the n-th change of a file, and at every later one: nothing tidies up after a kill."""

    def __init__(self):
        self.left = None
        sys.addaudithook(self.audit)

    def audit(self, event, arguments):
        if self.left is None or (arguments and "__pycache__" in str(arguments[0])):  # compiled meanwhile
            return
        opened = event == "open" and isinstance(arguments[2], int) and arguments[2] & (os.O_WRONLY | os.O_RDWR)
        if opened or event in ("os.rename", "os.remove", "os.truncate", "os.mkdir", "os.rmdir", "shutil.rmtree"):
            self.left -= 1
            if self.left < 0:
                raise Killed

    @contextmanager
    def after(self, changes):
        self.left = changes
        try:
            yield
        finally:
            self.left = None


KILL = Kill()  # an audit hook cannot be removed


def by_encodings(index, other):
    """What the stages that read encodings find."""
    names = ("dense:ktrel", f"dense:{other}", f"neighbours:{other}", "hybrid")
    found = [rp_first_stage(name).open(index).search(Query("q", QUERIES[0]), 9) for name in names]
    return [(one.ids, one.first_stage_scores.tolist()) for one in found]


UPDATES = {
    "add": lambda folder: add(folder, document(2, version=1), document(30), document(31)),
    "delete": lambda folder: updating.delete(folder, [document(1).id, document(20).id]),
    "merge": merge_index,
    "merge and adapt": partial(merge_index, adapt=True),
}


@pytest.mark.parametrize("kind", UPDATES)
def test_a_kill_at_any_change_leaves_the_old_or_the_new_commit(tmp_path, kind, pytestconfig, monkeypatch):
    """And the same command goes on; a reader of the old commit, too, with its encodings.

    Every eleventh change is tried, and all of them with the thorough profile.
    """
    step = 1 if pytestconfig.getoption("--hypothesis-profile") == "thorough" else 11
    other = encoded.encoders(tmp_path, WORDS, monkeypatch).other
    index = build(tmp_path / "start", [document(number) for number in range(12)])
    encoded.encode(index, other, [document(number).id for number in range(8)])
    index.close()
    add(tmp_path / "start", document(20), document(3, version=1))
    update, changes, done = UPDATES[kind], 0, False
    shutil.copytree(tmp_path / "start", tmp_path / "expected")
    update(tmp_path / "expected")
    expected, before = Index(tmp_path / "expected"), Index(tmp_path / "start")
    ends, answers = [[by(one) for one in (before, expected)] for by in (by_id, lambda one: by_encodings(one, other))]
    while not done:
        folder = shutil.copytree(tmp_path / "start", tmp_path / f"{kind}{changes}")
        reader = Index(folder)
        with KILL.after(changes):
            try:
                update(folder)
                done = True
            except Killed:
                pass
        gc.collect()
        index = Index(folder)
        assert verify(index) and by_id(index) in ends
        assert by_encodings(index, other) == answers[index.description["number"] > before.description["number"]]
        switched = by_id(index) == ends[1] and index.description["number"] > before.description["number"]
        assert by_id(reader) == ends[0] and by_encodings(reader, other) == answers[0]
        index.close()
        if changes % 2 or done:
            reader.close()
        if not switched:
            update(folder)
        index = Index(folder)
        assert by_id(index) == ends[1] and frequencies(index) == frequencies(expected) and verify(index)
        search_alike(index, expected, QUERIES[:2])
        assert by_encodings(index, other) == answers[1]
        reader.close()
        index.close()
        updating.delete(folder, [document(5).id])
        only_its_files(Index(folder))
        assert all(len(list((folder / name).iterdir())) == 1 for name in DERIVED)
        shutil.rmtree(folder)
        changes += step
    assert changes > 20


@pytest.mark.parametrize("update", [lambda folder: add(folder, document(5), document(30)), merge_index])
def test_a_commit_is_on_the_disk_before_it_is_named_and_named_before_others_are_removed(tmp_path, monkeypatch, update):
    """So a loss of power leaves the old commit or the new one. A folder that is changed later is synced later."""
    other, folder = encoded.encoders(tmp_path, WORDS, monkeypatch).other, tmp_path / "index"
    index = build(folder, [document(number) for number in range(12)])
    encoded.encode(index, other, [document(0).id])
    index.close()
    add(folder, document(20))
    state = lambda path: (os.stat(path).st_ino, os.stat(path).st_mtime_ns)  # noqa: E731
    synced, steps = {state(path) for path in folder.rglob("*")}, []

    def fsync(descriptor, fsync=os.fsync):
        fsync(descriptor)
        synced.add(state(descriptor))
        if os.path.samestat(os.fstat(descriptor), os.stat(folder)):
            steps.append("folder")

    def replace(source, target, replace=os.replace):
        if os.path.basename(target) == "index.json":
            description = json.loads(open(source, "rb").read())
            own = [commit_file(description["number"]), *description["files"]]
            named = {folder / name for name in own} | {*(folder / "encodings" / "000003").rglob("*")}
            inner = {path for one in named for path in one.parents if folder in path.parents}
            steps.append(
                ("named", sorted(path for path in named | inner if state(path) not in synced), state(source) in synced)
            )
        replace(source, target)

    monkeypatch.setattr(os, "fsync", fsync)
    monkeypatch.setattr(os, "replace", replace)
    monkeypatch.setattr(Path, "unlink", lambda path, unlink=Path.unlink: (steps.append("removed"), unlink(path)))
    update(folder)
    at = steps.index(("named", [], True))
    assert steps[at + 1] == "folder" and "removed" not in steps[:at] and "removed" in steps[at:]
    assert (folder / "encodings/000003").is_dir()


def test_a_kill_while_old_files_are_removed_leaves_a_whole_commit(tmp_path):
    """Nobody has the old one open. A merge, whose documents are those of before, is killed before its last changes."""
    build(tmp_path / "start", [document(number) for number in range(9)]).close()
    add(tmp_path / "start", document(20), document(3, version=1))
    end, rankings = 1000, []
    for changes in (0, *range(1, 40, 3)):
        folder = shutil.copytree(tmp_path / "start", tmp_path / f"index{changes}")
        with KILL.after(end - changes), suppress(Killed):
            merge_index(folder)
            end -= KILL.left  # the first is not killed
        gc.collect()
        index = Index(folder)
        rankings.append(index.first_stage(LuceneConfig()).search(Query("q", QUERIES[0]), 20).ids)
        assert verify(index) and rankings[-1] == rankings[0] and len(rankings[0]) > 3
        index.close()
    add(folder, document(21))
    only_its_files(Index(folder))


def test_an_index_is_opened_while_an_update_removes_the_old_commit(folder, monkeypatch):
    """Lucene finds its file, but not those of its segments, which are removed after it."""
    old, java_class = folder / "lucene" / "segments_1", lucene_reader.java_class
    commit = old.read_bytes()
    updating.delete(folder, [document(1).id])
    merge_index(folder)
    assert not old.exists()

    class Listing:
        """As an update that removes the file as soon as Lucene has read it."""

        def open(self, commit):
            return java_class("org.apache.lucene.index.DirectoryReader").open(commit)

        def listCommits(self, directory):  # noqa: N802
            try:
                return java_class("org.apache.lucene.index.DirectoryReader").listCommits(directory)
            finally:
                old.unlink(missing_ok=True)

    old.write_bytes(commit)
    listing = {"org.apache.lucene.index.DirectoryReader": Listing()}
    monkeypatch.setattr(lucene_reader, "java_class", lambda name: listing.get(name) or java_class(name))
    reader = Index(folder).open_lucene()
    assert reader.numDocs() == 7
    reader.close()


WRITER = """
import sys
from itertools import count
from rerank_plugin import Document, update_index

index = sys.argv[1]
for number in count():
    print(number, flush=True)
    update_index(index, add=[Document(f"n{number % 3}", f"version {number}", "added")], merge=number % 3 == 2)
"""


@pytest.mark.parametrize("seed", range(3))
def test_a_kill_within_lucene_leaves_a_whole_commit(folder, seed):
    """At random times, most of which Lucene takes: what is opened then is what the last update but one, or it, left."""
    writer, random = start(folder.parent, "-c", WRITER, folder), np.random.default_rng(seed)
    for _ in range(4):  # the first starts Java
        number = int(writer.stdout.readline())
    time.sleep(random.uniform(0, 0.3))
    writer.send_signal(signal.SIGKILL)
    started = [number, *map(int, writer.communicate()[0].split())][-1]
    index = Index(folder)
    assert verify(index)
    newest = [max(one for one in range(last + 1) if one % 3 == n) for last in (started - 1, started) for n in range(3)]
    versions = [index.forward.titles[row] for row in index.forward.rows(["n0", "n1", "n2"]).tolist()]
    assert versions in [[f"version {one}" for one in some] for some in (newest[:3], newest[3:])]
    found = index.first_stage(LuceneConfig()).search(Query("q", "version added own5v0"), 10)
    assert sorted(found.ids) == sorted(["n0", "n1", "n2", document(5).id])
    index.close()
    assert add(folder, document(9)).documents == 12
    only_its_files(Index(folder))


def test_the_command_says_a_line_for_each_update(folder, put, index_command):
    corpora = [
        put(f"{name}.jsonl", f'{{"_id": "{name}", "title": "{name} one"}}\n{{"_id": "a0", "title": "{name}"}}\n')
        for name in "xy"
    ]
    ids = put("ids.txt", f"{document(1).id}\n\n {document(2).id} \n")
    status, out, err = index_command("--index", folder, "--merge", "--delete", ids, "--add", *corpora)
    assert status == 0, err
    lines = [line.split(": ", 1)[1] for line in out.splitlines()]
    added = [f"2 documents of {corpus} added, 1 of them for older ones" for corpus in corpora]
    assert [line.split(" in ")[0] for line in lines] == ["2 documents deleted", *added, "merged"]
    assert [line.split("; ")[1] for line in lines] == ["6 documents", "7 documents", "8 documents", "8 documents"]
    index = Index(folder)
    assert verify(index) and index.forward.titles[int(index.forward.rows(["a0"])[0])] == "y"
    assert len(index.forward) == 8 and index.description["number"] == 5
    bad = put("bad.txt", f"a0\n{document(3).id}\nnobody\n")
    status, _, err = index_command("--index", folder, "--delete", bad)
    assert status == 2 and f"the first 'nobody' at {bad}:3" in err
    status, _, err = index_command("--index", folder, "--delete", bad, "--add", "nowhere.jsonl")
    assert status == 2 and "nowhere.jsonl" in err
    assert index_command("--index", folder, "--merge", "--corpus", "sample")[0] == 2
    assert index_command("--index", folder, "--add", corpora[0], "--stem", "krovetz")[0] == 2
    assert Index(folder).description["number"] == 5


def test_the_function_updates_and_opens(folder):
    index = rp.update_index(folder, delete=["a0"], add=[document(1, 1), Document("new", "a new one", "")], merge=True)
    assert len(index) == len(index.forward) == 8 and index.description["number"] == 4
    assert rp.update_index(index).commit == index.commit  # nothing to do
    assert all("000004" in name for name in index.description["files"] if "segments/" in name)


@pytest.fixture
def encoded_folder(folder, tmp_path, monkeypatch):
    """The folder of an index of eight documents with encodings, and the other encoder's."""
    other = encoded.encoders(tmp_path, WORDS, monkeypatch).other
    with closing(Index(folder)) as index:
        encoded.encode(index, other)
    return folder, other


@pytest.mark.parametrize("damage", [lambda path: path.write_bytes(b""), lambda path: path.unlink()])
def test_an_adapted_encoder_that_cannot_be_read_is_made_again(encoded_folder, damage):
    folder, _ = encoded_folder
    with closing(Index(folder)) as index:
        encoder = IndexEncoder(index.forward, "ktrel")
        before, adapted = encoder.adapted().key, derived_folder(index, ADAPTED)
        damage(adapted / "config.json")
        assert not encoder.is_adapted()
        with pytest.raises(InputError, match=f"config.json.*: make it again with: .* --encode ktrel --index {folder}"):
            index_command.verify(Namespace(index=folder))
        left = sorted(adapted.iterdir())
        with pytest.raises(TypeError):
            encoder.adapted(progress=lambda pieces: None)  # ends it
        assert sorted(adapted.iterdir()) == left and left  # until the new one is there
        assert encoder.adapted().key == before and encoder.is_adapted()


def test_many_added_documents_or_unknown_words_ask_for_an_adaptation(encoded_folder, caplog, monkeypatch):
    """Of the eight documents each has one word that the encoder does not know, of some fifty."""
    folder, _ = encoded_folder
    monkeypatch.setattr(derived, "FEWEST_WORDS", 12)
    monkeypatch.setattr(derived, "MOST_ADDED", 0.25)
    cure = f"rerank-plugin index --index {folder} --merge --adapt"
    add(folder, Document("n1", "aspirin heart", "stroke women"), Document("n2", "cancer", ""))
    assert not caplog.records
    add(folder, Document("n3", "diet", " ".join(f"unheard{number}" for number in range(6))))
    added, unknown = caplog.messages
    assert "3 documents were added since the encoder was adapted to 8" in added and added.endswith(cure)
    assert re.search(r"does not know 50\.0% of the words .* did not know \d\.\d% then: .*--adapt$", unknown)
    caplog.clear()
    assert merge_index(folder).documents == 11  # a merge forgets nothing of this
    add(folder, Document("n4", "diet", ""))
    assert len(caplog.messages) == 2 and "4 documents" in caplog.text
    merge_index(folder, adapt=True)
    caplog.clear()
    add(folder, Document("n5", "diet", ""))
    assert not caplog.records


def test_a_model_that_is_gone_leaves_its_encodings_behind(encoded_folder, caplog):
    folder, other = encoded_folder
    other.rename(other.with_name("moved"))
    add(folder, document(20))
    [warning] = [message for message in caplog.messages if "were added since" not in message]
    assert "new documents cannot be encoded" in warning and f"--encode {other} --index" in warning
    index = Index(folder)
    assert verify(index) and len(list(derived_folder(index, "encodings").iterdir())) == 1
    assert len(rp_first_stage("dense:ktrel").open(index).search(Query("q", "aspirin heart"), 20)) > 0
    other.with_name("moved").rename(other)
    with pytest.raises(InputError, match="holds no encodings by .*; encode it with"):
        rp_first_stage(f"dense:{other}").open(index)


@pytest.mark.parametrize("update", [lambda folder: add(folder, document(20)), merge_index])
@pytest.mark.parametrize("name", ["000001/codes", "centroids"])
def test_no_update_gives_damaged_encodings_new_checksums(encoded_folder, caplog, update, name):
    folder, other = encoded_folder
    add(folder, document(2, version=1))
    [store] = (path.parent for path in derived_folder(Index(folder), "encodings").glob("*/encodings.json")
               if json.loads(path.read_bytes())["checkpoint"] == str(other))  # fmt: skip
    content = bytearray((store / f"{name}.npy").read_bytes())
    content[-1] ^= 1
    (store / f"{name}.npy").unlink()  # a link to that of the commit before
    (store / f"{name}.npy").write_bytes(content)
    with pytest.raises(InputError, match=f"{name}.npy (does not match its checksum|has changed)"):
        verify(Index(folder))
    update(folder)
    assert f"left behind: {store / name}.npy has changed, expected " in caplog.text
    assert verify(Index(folder)) and len(list(derived_folder(Index(folder), "encodings").iterdir())) == 1


def test_what_a_killed_encoding_left_is_no_damage_and_a_pipe_is(encoded_folder):
    folder, _ = encoded_folder
    [store, _] = derived_folder(Index(folder), "encodings").iterdir()
    left = store.with_name(f".{store.name}.rerank_plugin-0123abcd")
    left.mkdir()
    (left / "codes.npy").write_bytes(b"half")
    files = verify(Index(folder))
    (left / "codes.npy").unlink()
    left.rmdir()
    assert verify(Index(folder)) == files
    for path in (store / "encodings.json", folder / "segments" / "000001" / "tokens.npy", folder / "index.json"):
        path.rename(path.with_suffix(".kept"))
        os.mkfifo(path)
        with pytest.raises(InputError, match=f"{path.name} .*[Nn]ot a regular file|encodings.* cannot be read .*Not a"):
            verify(Index(folder))
        path.with_suffix(".kept").replace(path)


def test_an_adaptation_needs_encodings_by_the_bundled_encoder(folder, index_command):
    before = state(folder)
    status, _, err = index_command("--index", folder, "--merge", "--adapt")
    assert status == 2 and "holds no encodings by ktrel to adapt" in err and f"--encode ktrel --index {folder}" in err
    assert index_command("--index", folder, "--adapt")[0] == 2
    with pytest.raises(InputError, match="give merge, too"):
        rp.update_index(folder, adapt=True)
    assert state(folder) == before


def test_an_encoding_of_another_commit_is_refused(encoded_folder):
    folder, other = encoded_folder
    index = Index(folder)
    updating.delete(folder, ["a0"])
    encoder = IndexEncoder(index.forward, other)
    with pytest.raises(InputError, match="was updated since it was opened"):
        encoder.encode(overwrite=True)
    with next_commit(folder), pytest.raises(OutputLockedError, match="is being written by another process"):
        IndexEncoder(Index(folder).forward, other).encode(overwrite=True)


def test_the_command_adapts_and_ends_an_encoding_that_was_killed(encoded_folder, index_command, monkeypatch):
    folder, _ = encoded_folder
    add(folder, document(20), document(2, version=1))
    status, out, err = index_command("--index", folder, "--merge", "--adapt")
    assert status == 0 and "merged, and the encoder adapted anew in" in out, err
    status, _, err = index_command("--index", folder, "--encode", "ktrel")
    assert status == 2 and "exist already" in err
    with monkeypatch.context() as patch:
        patch.setattr(Pieces, "remove", lambda self: None)  # killed when its store was complete
        assert index_command("--index", folder, "--encode", "ktrel", "--overwrite")[0] == 0
    assert list(folder.glob("encodings/*/*.pieces"))
    status, out, err = index_command("--index", folder, "--encode", "ktrel")
    assert status == 2 and "exist already" in err
    assert not list(folder.glob("encodings/*/*.pieces")) and verify(Index(folder))


def test_an_index_described_without_samples_of_its_files_stays_the_same():
    """Version 0.3.0 described no samples."""
    before = {"bytes": 1 << 21, "blake2b": "0", "head": "1", "tail": "2"}
    older, updated, changed = (
        {"segments": [{"path": "segments/000001"}], "files": {"segments/000001/tokens.npy": file}}
        for file in (before, {**before, "sample": "3"}, {**before, "head": "4"})
    )
    assert forward_checksum(older) == forward_checksum(updated) != forward_checksum(changed)
