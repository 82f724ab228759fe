"""``python -m experiments.dense_engines``: the store of vectors against indexes of Faiss, over the same documents.

All of them hold the vectors of one encoder, each in 8-bit codes of its own, and find the best 1,000 documents of a
query. Recall is measured against the exact products in single precision. A Faiss index reads as few lists or candidates
as give it the recall of the store's default search. Its `hybrid` is the one of the store with another dense part, so
both leave out the matches of single words, which only the store's has by default.

Each step writes into the folder --work and is not repeated: `build` takes long; `tune`; `time`, on an idle machine;
`update`, which adds and deletes 1%; and `quality`, the hybrid of judged queries. Times of `build` and `update` are CPU
seconds without those of encoding.
"""

from __future__ import annotations

import json
import random
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from resource import RUSAGE_CHILDREN, RUSAGE_SELF, getrusage
from typing import Any

import numpy as np

import rerank_plugin as rp
from rerank_plugin import options as commandline
from rerank_plugin.base.terminal import progress
from rerank_plugin.corpora import QUERIES, accepted, queries_and_judgments
from rerank_plugin.encoding.faiss_export import ExportConfig, export_faiss
from rerank_plugin.encoding.index_encoder import IndexEncoder
from rerank_plugin.files.tables import markdown
from rerank_plugin.indexes.faiss_folder import INDEX
from rerank_plugin.indexes.layout import ADAPTED, ENCODINGS, derived_folder
from rerank_plugin.indexes.lucene_reader import StoredTexts
from rerank_plugin.indexes.vector_store import ENCODER
from rerank_plugin.retrieval.dense import DenseConfig, DenseStage, QueryEncoder
from rerank_plugin.retrieval.faiss import FaissConfig, FaissStage
from rerank_plugin.retrieval.hybrid import WEIGHTS, HybridConfig

STEPS = ("build", "tune", "time", "update", "quality")
OWN, OWN_ALL = "our store", "our store, all vectors"
FACTORIES = {"IVF,SQ8": "IVF{},SQ8", "HNSW,SQ8": "HNSW32,SQ8", "flat SQ8": "SQ8"}
ENGINES = (OWN, OWN_ALL, *FACTORIES)
DEPTH, BATCH, CHUNK = 1000, 64, 1 << 13
SHARE = 0.01  # of the documents, added and deleted
TRAINING = 20  # documents of each list that IVF is trained on, as the store's centroids are
LEAST = 10_000  # documents that codes are trained on, where lists are few
CLOSE = 0.0005  # recall below that of the store which counts as equal
MEASURES = ["nDCG@10", "AP", "R@1000"]


class Engines:
    """An index, and what was measured of each engine over its vectors, in the file ``engines.json``."""

    def __init__(self, index: Path, work: Path, queries: str, most: int, seed: int):
        self.index, self.work, self.seed = rp.Index(index), work, seed
        self.judged = queries_and_judgments(queries)
        drawn = random.Random(seed).sample(self.judged[0], min(most, len(self.judged[0])))
        adapted = derived_folder(self.index, ADAPTED)
        self.encoder: str | Path = adapted if adapted.is_dir() else ENCODER
        self.opened: dict[str, FaissStage] = {}
        self.file = work / "engines.json"
        self.measured = self.read()
        encoder = QueryEncoder(self.index.forward, self.encoder)
        encoded = [encoder.encode(query.text) for query in drawn]
        self.queries = np.stack([vector for vector in encoded if vector is not None])  # [Q, E]

    @contextmanager
    def of(self, step: str, engine: str) -> Iterator[dict[str, Any]]:
        """What is measured of an engine in a step; it is written when the block ends."""
        found: dict[str, Any] = {}
        yield found
        self.measured = self.read()  # another process may measure other engines
        self.measured.setdefault(engine, {})[step] = found
        self.file.write_text(json.dumps(self.measured, indent=1))

    def read(self) -> dict[str, Any]:
        return json.loads(self.file.read_text()) if self.file.exists() else {}

    def missing(self, step: str, engine: str) -> bool:
        return step not in self.measured.get(engine, {})

    def rows(self) -> np.ndarray:
        return self.index.forward.live_rows

    # build

    def encode(self) -> None:
        """Encode all documents once, for the time it takes and the exact best documents of the queries."""
        encode = IndexEncoder(self.index.forward, self.encoder).encoder().encode
        batches = [self.rows()[start : start + CHUNK] for start in range(0, len(self.rows()), CHUNK)]
        seconds, best = 0.0, np.zeros((len(self.queries), 0))
        rows = best.astype(np.int64)
        for batch in progress(batches, "encoding", "batches"):
            vectors, took = timed_cpu(lambda: encode(batch))  # noqa: B023 (called at once)
            seconds += took
            scores = np.concatenate([best, self.queries @ vectors.T], axis=1)
            among = np.concatenate([rows, np.broadcast_to(batch, (len(rows), len(batch)))], axis=1)
            order = np.argsort(-scores, axis=1, kind="stable")[:, :DEPTH]
            best, rows = np.take_along_axis(scores, order, 1), np.take_along_axis(among, order, 1)
        np.save(self.work / "best.npy", rows)
        with self.of("build", "encoding") as found:
            found["seconds"] = seconds

    def build(self, engine: str) -> None:
        encoding, forward = self.measured["encoding"]["build"]["seconds"], self.index.forward
        with self.of("build", engine) as found:
            if engine in (OWN, OWN_ALL):
                _, seconds = timed_cpu(lambda: IndexEncoder(forward, self.encoder).encode(overwrite=True))
                self.__dict__.pop("own", None)  # it was of the files before
                spaces = self.own.store.spaces
                found["bytes"] = spaces.padded + 4 * len(spaces.widths) + 8  # docs/dense-retrieval.md
            else:
                config = ExportConfig(FACTORIES[engine].format(self.own.store.inverted_lists), float32=True)
                config = replace(config, training=max(LEAST, TRAINING * self.own.store.inverted_lists))
                folder = self.work / engine
                _, seconds = timed_cpu(
                    lambda: export_faiss(self.index, str(self.encoder), folder, config, overwrite=True)
                )
                found["bytes"] = (folder / INDEX).stat().st_size / len(self.rows())
            found["seconds"] = seconds - encoding

    # search

    @cached_property
    def own(self) -> DenseStage:
        return DenseConfig(str(self.encoder)).open(self.index)

    def faiss(self, engine: str) -> FaissStage:
        if engine not in self.opened:
            config = FaissConfig(folder=str(self.work / engine), query_encoder=str(self.encoder))
            self.opened[engine] = config.open(self.index)
        return self.opened[engine]

    def searcher(self, engine: str, reach: int | None) -> Callable[[np.ndarray, int], list[np.ndarray]]:
        """A search of queries float32 [Q, E], on some threads, that gives the rows int64 [k] of each."""
        if engine in (OWN, OWN_ALL):
            store = self.own.store

            def search(queries: np.ndarray, threads: int) -> list[np.ndarray]:
                store.threads = threads
                return [rows for rows, _ in store.search_many(queries, DEPTH, probes=reach)]

            return search
        import faiss

        stage = self.faiss(engine)
        index = faiss.downcast_index(stage.faiss.index)
        set_reach(index, reach)

        def search_faiss(queries: np.ndarray, threads: int) -> list[np.ndarray]:
            faiss.omp_set_num_threads(threads)
            if isinstance(index, faiss.IndexIVF):
                index.parallel_mode = int(len(queries) < threads)  # 1: one query's lists are shared by the threads
            return [stage.rows[found[found >= 0]] for found in index.search(queries, DEPTH)[1]]

        return search_faiss

    def recall(self, engine: str, reach: int | None) -> float:
        exact, search = np.load(self.work / "best.npy"), self.searcher(engine, reach)
        found = [search(query[None], 1)[0] for query in self.queries]
        return float(np.mean([len(np.intersect1d(*pair)) / len(pair[1]) for pair in zip(found, exact)]))

    def tune(self, engine: str) -> None:
        lists, least = self.own.store.inverted_lists, 1
        reach: int | None = {OWN: self.own.store.probes, OWN_ALL: lists, "flat SQ8": None}.get(engine, 0)
        if reach == 0:
            target, most = self.measured[OWN]["tune"]["recall"] - CLOSE, lists
            if engine == "HNSW,SQ8":
                least, most = DEPTH, 16 * DEPTH
            while least < most - most // 100:  # to 1%
                reach = (least + most) // 2
                least, most = (least, reach) if self.recall(engine, reach) >= target else (reach + 1, most)
            reach = most
        with self.of("tune", engine) as found:
            found |= {"reach": reach, "recall": self.recall(engine, reach)}

    def time(self, engine: str) -> None:
        search = self.searcher(engine, self.measured[engine]["tune"]["reach"])
        with self.of("time", engine) as found:
            for threads in (1, 2):
                alone = []
                for query in self.queries[:BATCH]:
                    search(query[None], threads)
                    started = time.perf_counter()
                    search(query[None], threads)
                    alone.append(time.perf_counter() - started)
                found[f"alone, {threads}"] = 1e3 * float(np.median(alone))
            started = time.perf_counter()
            search(self.queries[:BATCH], 2)
            found["together, 2"] = 1e3 * (time.perf_counter() - started) / len(self.queries[:BATCH])

    # 1%

    def update(self, engine: str) -> None:
        some = self.rows()[:: round(1 / SHARE)]
        with self.of("update", engine) as found:
            if engine not in (OWN, OWN_ALL):
                import faiss

                index = faiss.read_index(str(self.work / engine / INDEX))
                vectors = IndexEncoder(self.index.forward, self.encoder).encoder().encode(some)
                _, found["add"] = timed_cpu(lambda: index.add(np.ascontiguousarray(vectors, np.float32)))
                try:
                    _, found["delete"] = timed_cpu(lambda: index.remove_ids(some))
                except RuntimeError:
                    found["delete"] = None
                _, found["write"] = timed_cpu(lambda: faiss.write_index(index, str(self.work / "changed")))
                (self.work / "changed").unlink()
                return
            texts = StoredTexts(self.index)
            added = [document._replace(id=f"new-{document.id}") for row in some if (document := texts.document(row))]
            texts.close()
            deleted = self.index.forward.ids.take(some)
            IndexEncoder(self.index.forward, self.encoder)  # libraries are loaded once, and not counted
            encoded, plain = {}, {}
            for seconds, left_out in ((encoded, ()), (plain, (ENCODINGS, ADAPTED))):
                folder = self.work / "copy"
                shutil.copytree(self.index.folder, folder, ignore=shutil.ignore_patterns(*left_out))
                _, seconds["add"] = timed_cpu(lambda: rp.update_index(folder, add=added).close())  # noqa: B023
                _, seconds["delete"] = timed_cpu(lambda: rp.update_index(folder, delete=deleted).close())  # noqa: B023
                shutil.rmtree(folder)
            encoding = self.measured["encoding"]["build"]["seconds"] * len(added) / len(self.rows())
            found |= {"add": encoded["add"] - plain["add"] - encoding, "delete": encoded["delete"] - plain["delete"]}
            found |= {"whole add": encoded["add"], "whole delete": encoded["delete"]}

    # quality

    def quality(self, engine: str) -> None:
        reach = self.measured[engine]["tune"]["reach"]
        config = HybridConfig(encoder=str(self.encoder), weight=WEIGHTS[ADAPTED][0])
        if engine in FACTORIES:
            reading = {"HNSW,SQ8": "ef_search", "IVF,SQ8": "nprobe"}.get(engine)
            config = replace(config, encoder=f"faiss:{self.work / engine}", query_encoder=str(self.encoder))
            config = replace(config, **({reading: reach} if reading else {}))
        else:
            config = replace(config, nprobe=reach)
        queries, judgments = self.judged
        ranked = rp.rank_many(self.index, queries, first_stage=config, depth=DEPTH)
        with self.of("quality", engine) as found:
            runs = rp.evaluate_runs(judgments, {engine: ranked}, MEASURES)["runs"]
            found |= {measure: runs[engine][measure] for measure in MEASURES}

    def table(self) -> str:
        rows = [["", "reads", "recall@1000", "ms, 1 thread", "2 threads", "of 64, 2 threads", "bytes", "build, s",
                 "add 1%, s", "delete 1%, s", "write, s", *MEASURES]]  # fmt: skip
        for engine in ENGINES:
            values = self.measured.get(engine, {})
            numbers = [
                *((step, key, form) for step, key, form in (
                    ("tune", "reach", ",.0f"), ("tune", "recall", ".4f"), ("time", "alone, 1", ".1f"),
                    ("time", "alone, 2", ".1f"), ("time", "together, 2", ".1f"), ("build", "bytes", ".0f"),
                    ("build", "seconds", ".0f"), ("update", "add", ".2f"), ("update", "delete", ".2f"),
                    ("update", "write", ".2f"))),
                *(("quality", measure, ".4f") for measure in MEASURES),
            ]  # fmt: skip
            cells = [values.get(step, {}).get(key) for step, key, _ in numbers]
            formats = [form for *_, form in numbers]
            rows.append([engine, *("" if cell is None else f"{cell:{form}}" for cell, form in zip(cells, formats))])
        return markdown(rows)


def set_reach(index: Any, reach: int | None) -> None:
    """Set the number of lists or candidates that a Faiss index reads."""
    import faiss

    if isinstance(index, faiss.IndexIVF):
        index.nprobe = reach
    elif isinstance(index, faiss.IndexHNSW):
        index.hnsw.efSearch = reach


def timed_cpu(work: Callable[[], Any]) -> tuple[Any, float]:
    """What some work gives, and its CPU seconds, those of child processes included."""

    def used() -> float:
        usages = getrusage(RUSAGE_SELF), getrusage(RUSAGE_CHILDREN)
        return sum(usage.ru_utime + usage.ru_stime for usage in usages)

    before = used()
    return work(), used() - before


def main(argv: list[str] | None = None) -> None:
    parser = commandline.parser("dense_engines", __doc__.split("\n\n", 1)[1])
    parser.prog = "python -m experiments.dense_engines"
    add = parser.add_argument
    add("--index", type=Path, required=True, help="index, encoded by ktrel, whose store is written again")
    add("--queries", required=True, metavar="SPEC", help=f"judged queries: {accepted(QUERIES)}")
    add("--most", type=int, default=100, help="queries that are timed and compared with the exact ones (default: 100)")
    add("--work", type=Path, required=True, help="folder of the Faiss indexes and of what is measured")
    add("--steps", nargs="+", choices=STEPS, default=list(STEPS), help="steps to take (default: all)")
    add("--engines", nargs="+", choices=ENGINES, default=list(ENGINES), help="engines to measure (default: all)")
    options = commandline.parse(parser, argv)
    parser.check_counts(options, "most")
    options.work.mkdir(parents=True, exist_ok=True)
    engines = Engines(options.index, options.work, options.queries, options.most, options.seed)
    if "build" in options.steps and engines.missing("build", "encoding"):
        engines.encode()
    for step in options.steps:
        for engine in options.engines:
            if engines.missing(step, engine):
                getattr(engines, step)(engine)
    print(engines.table(), end="")


if __name__ == "__main__":
    commandline.run(main)
