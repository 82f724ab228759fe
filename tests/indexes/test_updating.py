"""Adding, deleting and merging against new indexes of the same documents, beside readers, and after a kill anywhere."""

import json
import os
import re
import resource
import shutil
import signal
from argparse import Namespace
from contextlib import closing
from pathlib import Path

import pytest

import rerank_plugin as rp
from rerank_plugin import index as index_command
from rerank_plugin.base.errors import InputError
from rerank_plugin.base.records import Query
from rerank_plugin.concepts.annotation import Annotator, AnnotatorConfig
from rerank_plugin.corpora import Document, Problems
from rerank_plugin.encoding.index_encoder import IndexEncoder
from rerank_plugin.encoding.updates import add_documents, merge_index
from rerank_plugin.files.outputs import OutputLockedError
from rerank_plugin.indexes import derived, lucene_reader, lucene_writer, updating
from rerank_plugin.indexes.building import build_beside
from rerank_plugin.indexes.collection_statistics import STATISTICS_FILE
from rerank_plugin.indexes.commits import next_commit
from rerank_plugin.indexes.index_folder import Index, forward_checksum
from rerank_plugin.indexes.layout import ADAPTED, commit_file, derived_folder
from rerank_plugin.indexes.vector_store_writer import Spills
from rerank_plugin.indexes.verification import verify
from tests import annotated, small
from tests.indexes import encoded
from tests.indexes.alike import search_alike
from tests.indexes.updates import (
    QUERIES,
    WORDS,
    add,
    build,
    document,
    equal_files,
    only_its_files,
    same,
)
from tests.processes import start


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
    from rerank_plugin.encoding.index_encoder import write_judged
    from rerank_plugin.retrieval.dense import DenseConfig, QueryEncoder
    from rerank_plugin.retrieval.neighbours import NeighboursConfig

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
    merged = [path.read_bytes() for path in (tmp_path / "index" / "lucene").glob("*.si")]
    assert all(b"BEST_COMPRESSION" in description for description in merged)  # by both of Lucene's writers


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
    only_its_files(folder)


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


def test_lucene_merges_small_segments_and_no_score_changes(tmp_path, monkeypatch):
    """Those with deleted documents, too, which stay and are counted."""
    monkeypatch.setattr(updating, "MOST", 3)
    monkeypatch.setattr(lucene_writer, "MERGED", 3)
    folder, kept = tmp_path / "index", tmp_path / "kept"
    build(folder, [document(number) for number in range(20)]).close()
    shutil.copytree(folder, kept)
    for number in range(50, 56):
        new = [document(number), document(number - 48, version=1), document(number - 1, version=2)]
        add(folder, *new)
        add_documents(kept, iter(new), "tests", Problems(), threads=1, merge_small=False)
        for one in (folder, kept):
            updating.delete(one, [document(number - 40).id])
    index, unmerged = Index(folder), Index(kept)
    readers = [one.open_lucene() for one in (index, unmerged)]
    sizes, before = (list(lucene_reader.segment_sizes(reader).values()) for reader in readers)
    assert before == [20, *[3] * 6] and len(sizes) <= 4 and sum(sizes) == sum(before)
    assert [reader.numDeletedDocs() for reader in readers] == [17, 17]
    assert verify(index)
    search_alike(index, unmerged, QUERIES)


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
        (lambda folder: rp.update_index(folder, add=[Document("x y", "t", "a")]), "has white space"),
        (lambda folder: rp.update_index(folder, add=[Document("\ufeffx", "t", "a")]), "byte order mark"),
        (lambda folder: rp.update_index(folder, add=[Document("x", "t", "a", "Review")]), "metadata are values by"),
        (lambda folder: rp.update_index(folder, delete="a0"), "ids to delete are a list of texts, not 'a0'"),
        (lambda folder: rp.update_index(folder, delete=[0]), "ids to delete are a list of texts"),
        (lambda folder: rp.update_index(folder / "nowhere", merge=True), "no index at"),
    ],
)
def test_bad_input_leaves_the_commit(folder, update, message):
    before = state(folder)
    with pytest.raises(InputError, match=message) as raised:
        update(folder)
    assert "\n" not in str(raised.value) and state(folder) == before


def test_an_update_that_was_ended_after_its_deletions_is_repeated(folder):
    """Also where a corpus that was added since has brought one of the ids back."""
    gone = [document(1).id, document(2).id]
    updating.delete(folder, gone)
    assert updating.delete(folder, gone[::-1]).deleted == 0
    add(folder, document(2))
    assert updating.delete(folder, gone).deleted == 1
    with pytest.raises(InputError, match="1 of 1 ids to delete are not in"):
        updating.delete(folder, gone[:1])


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
        data = (statistics := adapted / STATISTICS_FILE).read_bytes()
        statistics.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
        with pytest.raises(InputError, match=f"{STATISTICS_FILE}.*: make it again with"):
            index_command.verify(Namespace(index=folder))
        statistics.write_bytes(data)
        damage(adapted / "config.json")
        assert not encoder.is_adapted()
        with pytest.raises(InputError, match=f"config.json.*: make it again with: .* --encode ktrel --index {folder}"):
            index_command.verify(Namespace(index=folder))
        left = sorted(adapted.iterdir())
        with pytest.raises(TypeError):
            encoder.adapted(progress=lambda batches: None)  # ends it
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
        patch.setattr(Spills, "remove", lambda self: None)  # killed when its store was complete
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
