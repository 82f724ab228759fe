"""Documents, updates and kills, and comparisons of an index that was updated with a new one."""

import os
import sys
from contextlib import closing, contextmanager
from threading import Lock

import numpy as np
from hypothesis import Phase

import rerank_plugin as rp
from rerank_plugin.base.filters import Filter
from rerank_plugin.base.records import Query
from rerank_plugin.cluster.index import OpenShards, RemoteIndex
from rerank_plugin.cluster.shard import Shard
from rerank_plugin.corpora import Document, Problems
from rerank_plugin.encoding.updates import add_documents
from rerank_plugin.indexes.building import build_single
from rerank_plugin.indexes.index_folder import Index
from rerank_plugin.indexes.layout import DERIVED, commit_file
from rerank_plugin.indexes.segment import FIELDS
from rerank_plugin.inputs.lexical_features import LEXICAL_NAMES, lexical_features
from rerank_plugin.ranking.cascade import Stage
from rerank_plugin.ranking.pipeline import Pipeline
from rerank_plugin.rerankers.neural import NeuralReranker
from rerank_plugin.rerankers.untrained import title_frequency
from rerank_plugin.retrieval.lucene import LuceneConfig
from rerank_plugin.retrieval.register import configure
from tests import small

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
    build_single(iter(documents), folder, "tests", Problems(), **options)
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


def only_its_files(folder):
    """Check that the folder holds nothing but the files of the current commit, and what is derived from it."""
    whole = Index(folder)
    expected = {"index.json", commit_file(whole.number), *whole.description["files"]}
    found = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}
    derived = tuple(f"{kind}/{whole.number:06d}/" for kind in DERIVED)
    found = {name for name in found if not name.endswith("lucene/write.lock") and not name.startswith(derived)}
    assert found == expected
    whole.close()


def journal(number):
    return f"J{number % 2}" if number % 3 else None


def journaled(number, version=0):
    return document(number, version, journal(number))


class Killed(BaseException):
    """Ends an update where a kill would."""


class Kill:
    """Raises at the n-th change of a file, and at every later one: nothing tidies up after a kill."""

    def __init__(self):
        self.left = None
        sys.addaudithook(self.audit)

    def audit(self, event, arguments):
        path = str(arguments[0]) if arguments else ""
        if self.left is None or "__pycache__" in path or path.endswith("/sound"):  # compiled or compared meanwhile
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


class InProcess(OpenShards):
    """The shards of an index in this process, which answer as those of a cluster do."""

    def __init__(self, folders, commit):
        self.folders, self.commit, self.lock = folders, commit, Lock()
        self.restart()

    def restart(self):
        self.shards = [Shard(folder, self.commit) for folder in self.folders]

    def ask(self, questions):
        with self.lock:
            return {number: self.shards[number].ask(*question) for number, question in questions.items()}

    def load(self, question):
        return self.ask(dict.fromkeys(range(len(self.shards)), question))

    def close(self):
        for shard in self.shards:
            shard.close()


def ranked(index, stage, rerankers=()):
    pipeline = Pipeline(index, configure(stage), 30, tuple(map(Stage.parse, rerankers))).open()
    rankings = pipeline.rank_all([Query(str(n), text) for n, text in enumerate(QUERIES)], together=2)
    return [(ranking.doc_ids, ranking.ranked_scores.tolist()) for ranking in rankings]


def shard_answers(folder, stages):
    """What stages find where each shard answers for itself."""
    with closing(RemoteIndex(folder, InProcess)) as remote:
        return [ranked(remote, stage) for stage in stages]
