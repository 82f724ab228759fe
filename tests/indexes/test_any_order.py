"""Updates, kills and readers in any order, of a single index and of one of shards, against a new index of what is left.

After each step the index is whole, holds exactly the documents that are left, and an index that is open keeps the
documents and rankings of its commit. A kill is a fault at a change of a file; what follows goes on with what it left.
"""

import gc
import shutil
import signal
import time
from contextlib import closing, suppress

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule, run_state_machine_as_test

from rerank_plugin.corpora import Problems
from rerank_plugin.encoding.updates import merge_index
from rerank_plugin.indexes import lucene_writer, updating
from rerank_plugin.indexes.index_folder import Index
from rerank_plugin.indexes.layout import DERIVED
from rerank_plugin.indexes.shard_building import build_shards
from rerank_plugin.indexes.verification import verify
from tests.indexes import encoded
from tests.indexes.alike import search_alike
from tests.indexes.updates import (
    EXPLORE,
    KILL,
    QUERIES,
    WORDS,
    Killed,
    add,
    build,
    by_id,
    equal_files,
    journaled,
    only_its_files,
    ranked,
    same,
    shard_answers,
)  # fmt: skip
from tests.processes import start

FIRST, SHARDS, STAGES = 7, 3, ("bm25", "hybrid")
NUMBERS = st.integers(0, 17)
KILLS = st.one_of(st.none(), st.integers(0, 120))  # changes of files before it


@pytest.fixture(scope="module")
def started(tmp_path_factory):
    """A single index and one of shards, encoded by two encoders, of which one is given."""
    folder, documents = tmp_path_factory.mktemp("started"), list(map(journaled, range(FIRST)))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(updating, "MOST", 3)  # small segments are merged soon
        patch.setattr(lucene_writer, "MERGED", 2)
        other = encoded.encoders(folder, WORDS, patch).other
        build(folder / "single", documents).close()
        build_shards(iter(documents), folder / "sharded", "tests", Problems(), SHARDS)
        for name in ("single", "sharded"):
            with closing(Index(folder / name)) as index:
                encoded.encode(index, other, [one.id for one in documents])
        yield folder, other


class AnyOrder(RuleBasedStateMachine):
    """``left`` has the documents that the index holds, by id, in the order in which they were added."""

    started = folder = other = None  # of the test

    @initialize(name=st.sampled_from(["single", "sharded"]))
    def build(self, name):
        self.index, self.name, self.reader, self.deleted = self.folder / "index", name, None, False
        shutil.rmtree(self.index, ignore_errors=True)
        shutil.copytree(self.started / name, self.index)
        self.left = {one.id: one for one in map(journaled, range(FIRST))}

    def update(self, change, left, kill, merges=False):
        """Change the index to one of the documents ``left``, or to what a kill leaves: that or what was there."""
        before = Index(self.index)
        number = before.number
        if self.reader is None:
            self.reader = before
            self.answers = self.reader_answers()
        else:
            before.close()
        if kill is None:
            change(self.index)
        else:
            with KILL.after(kill), suppress(Killed):
                change(self.index)
            gc.collect()
        with closing(Index(self.index)) as index:
            assert verify(index)
            if index.number > number:
                gone = any(left.get(id) is not one for id, one in self.left.items())
                self.left, self.deleted = left, not merges and (self.deleted or gone)
            else:
                assert kill is not None or left == self.left
            assert {id: words[2] for id, words in by_id(index).items()} == {
                id: " ".join(one.title.split()) for id, one in self.left.items()
            }

    @rule(documents=st.dictionaries(NUMBERS, st.integers(0, 3), min_size=1, max_size=5), kill=KILLS)
    def add(self, documents, kill):
        """Documents that are there are replaced."""
        new = {one.id: one for one in (journaled(*pair) for pair in documents.items())}
        left = {id: one for id, one in self.left.items() if id not in new} | new
        self.update(lambda folder: add(folder, *new.values()), left, kill)

    @precondition(lambda self: len(self.left) > 1)
    @rule(numbers=st.sets(NUMBERS, min_size=1, max_size=5), kill=KILLS)
    def delete(self, numbers, kill):
        ids = list(self.left)
        gone = {ids[number % len(ids)] for number in numbers} - {ids[-1]} or {ids[0]}
        left = {id: one for id, one in self.left.items() if id not in gone}
        self.update(lambda folder: updating.delete(folder, sorted(gone)), left, kill)

    @rule(adapt=st.booleans(), kill=KILLS)
    def merge(self, adapt, kill):
        self.update(lambda folder: merge_index(folder, adapt), self.left, kill, merges=True)

    def reader_answers(self):
        return by_id(self.reader), [ranked(self.reader, stage) for stage in STAGES]

    @precondition(lambda self: self.reader is not None)
    @rule()
    def reopen(self):
        """The commit of an open index stays as it was, whatever came after it."""
        self.reader.release()
        assert self.reader_answers() == self.answers
        self.reader.close()
        self.reader = None

    def teardown(self):
        """Compare with a new index of the documents that are left, before and after a merge."""
        if self.reader is not None:
            self.reopen()
        fresh = build(self.folder / "fresh", self.left.values(), overwrite=True)
        texts = [one.title for one in self.left.values()][:4]
        with closing(Index(self.index)) as index:
            same(index, fresh)
            if not self.deleted:
                search_alike(index, fresh, texts)
            encoded.encode_alike(index, fresh, self.other)
        merge_index(self.index)
        with closing(Index(self.index)) as index:
            for name in ("bm25", "bm25+rm3"):
                search_alike(index, fresh, texts, name)
            encoded.equal_arrays(index, fresh)
            if self.name == "single":
                equal_files(index, fresh)
            else:
                assert shard_answers(self.index, STAGES) == [ranked(fresh, stage) for stage in STAGES]
        fresh.close()
        gc.collect()
        add(self.index, journaled(30))
        only_its_files(self.index)
        assert all(len(list((self.index / name).glob("*"))) <= 1 for name in DERIVED)  # judged queries may all be gone


@pytest.mark.usefixtures("started")
def test_updates_kills_and_readers_in_any_order(started, tmp_path):
    AnyOrder.started, AnyOrder.other, AnyOrder.folder = *started, tmp_path
    run_state_machine_as_test(
        AnyOrder, settings=settings(max_examples=4, stateful_step_count=7, phases=EXPLORE, deadline=None)
    )


WRITER = """
import sys
from itertools import count
from rerank_plugin import Document, update_index

index = sys.argv[1]
for number in count():
    print(number, flush=True)
    update_index(index, add=[Document(f"n{n}", f"version {number}", "added") for n in range(6)], merge=number % 2)
"""


@pytest.mark.parametrize("name", ["single", "sharded"])
def test_a_killed_process_leaves_a_whole_commit(started, tmp_path, name):
    """At a random time, most of which Lucene takes: the last update but one, or the last."""
    folder = shutil.copytree(started[0] / name, tmp_path / name)
    writer = start(tmp_path, "-c", WRITER, folder)
    for _ in range(3):  # the first starts Java
        number = int(writer.stdout.readline())
    time.sleep(np.random.default_rng().uniform(0, 0.5))
    writer.send_signal(signal.SIGKILL)
    last = [number, *map(int, writer.communicate()[0].split())][-1]
    with closing(Index(folder)) as index:
        assert verify(index)
        [version] = {index.forward.titles[row] for row in index.forward.rows([f"n{n}" for n in range(6)]).tolist()}
        assert version in (f"version {last - 1}", f"version {last}")
        assert len(ranked(index, "bm25")) == len(QUERIES)
    add(folder, journaled(30))
    only_its_files(folder)
