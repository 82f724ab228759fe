"""The parts of searches of an index of shards: what each shard, the coordinator and Ray take for a query.

Shards are opened in this process and asked one after the other, so that none waits for another's core. Times are those
of the processor, whatever else the machine does: :mod:`~experiments.cluster_simulation` adds the waiting.
Each query is searched once before it is measured, so words, pages and kernels are those of a running service.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from rerank_plugin import Index, InputError, Query, Searcher
from rerank_plugin.base.memory import MEGABYTE
from rerank_plugin.base.terminal import progress
from rerank_plugin.cluster.channel import packed, unpacked
from rerank_plugin.cluster.config import ClusterConfig
from rerank_plugin.cluster.index import OpenShards, Question, RemoteIndex
from rerank_plugin.cluster.shard import ScoredPart, Shard
from rerank_plugin.files.outputs import FileKind, beginning, replacing
from rerank_plugin.indexes.layout import ENCODINGS, SHARDS
from rerank_plugin.indexes.locations import open_index
from rerank_plugin.indexes.sharding import Commit
from rerank_plugin.indexes.vector_store import VECTOR_STORE

PARTS = FileKind("a file of measured parts", lambda path: beginning(path).startswith(b'{"parts": '))
VERSION = 1
HITS = 10  # of each search
WARM = 3  # times that each query is searched on Ray before searches are measured
STORED = (".fdt", ".tvd")  # ends of Lucene's files that only documents are read from, not searches


@dataclass(frozen=True)
class Round:
    """A question to several shards at once, and the coordinator's work before it. Times are seconds of a processor.

    Attributes:
        coordinator: what it computes before the question, with the question's bytes and the answers'.
        method: of `Shard`; the first of several.
        seconds: of each shard that was asked.
        rows: documents that each was asked about; empty if all shards get the same question, of their whole index.
        sent, received: bytes of a question and of an answer, in the mean of the shards.
    """

    coordinator: float
    method: str
    seconds: list[float]
    rows: list[int]
    sent: float
    received: float


@dataclass(frozen=True)
class Search:
    """The rounds of a query, and the coordinator's seconds after the last."""

    rounds: list[Round]
    after: float

    @property
    def coordinator(self) -> float:
        """Seconds of the coordinator."""
        return sum(each.coordinator for each in self.rounds) + self.after

    @property
    def shards(self) -> float:
        """Seconds of all shards together."""
        return sum(sum(each.seconds) for each in self.rounds)

    @property
    def questions(self) -> int:
        """Questions to all shards together."""
        return sum(len(each.seconds) for each in self.rounds)


@dataclass(frozen=True)
class MeasuredIndex:
    """An index whose searches were measured.

    Attributes:
        lists, probes: inverted lists of its vectors, and how many are read; 0 without vectors.
        searched_bytes: of all files of the shards that searches read, without stored texts.
        pipelines: by name, the searches of the same queries in the same order.
    """

    name: str
    documents: int
    shards: int
    lists: int
    probes: int
    searched_bytes: int
    pipelines: dict[str, list[Search]]


@dataclass(frozen=True)
class Transport:
    """What processes on Ray compute beyond the parts: transport, waking up, and caches that others have used since.

    Attributes:
        round_seconds, question_seconds: of the coordinator, for a round and for each question in it.
        answer_seconds: of a shard, for an answer.
        memory_mb: of the process of a shard, without mapped files.
        heap: of its Java.
    """

    round_seconds: float
    question_seconds: float
    answer_seconds: float
    memory_mb: float
    heap: str


@dataclass(frozen=True)
class Parts:
    """Everything that was measured, on one machine."""

    machine: str
    transport: Transport
    indexes: list[MeasuredIndex]

    def save(self, path: Path, overwrite: bool = False) -> None:
        with replacing(path, PARTS, overwrite) as file:
            file.write(json.dumps({"parts": VERSION, **asdict(self)}, default=float).encode())

    @classmethod
    def load(cls, path: Path) -> Parts:
        """The parts that `save` wrote; an `InputError` if there are none."""
        try:
            found = json.loads(path.read_bytes())
            if found["parts"] != VERSION:
                raise ValueError(f"version {found['parts']}, expected {VERSION}")
            indexes = [
                MeasuredIndex(**{**each, "pipelines": _searches(each["pipelines"])}) for each in found["indexes"]
            ]
            return cls(found["machine"], Transport(**found["transport"]), indexes)
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise InputError(f"{path} is no file of measured parts ({error}): measure them first") from None


def _searches(pipelines: Mapping[str, Any]) -> dict[str, list[Search]]:
    return {
        name: [Search([Round(**each) for each in search["rounds"]], search["after"]) for search in searches]
        for name, searches in pipelines.items()
    }


class TimedShards(OpenShards):
    """Shards in this process, asked one after the other through copies of questions and answers, as over a network.

    Attributes:
        rounds: since the last `restart`.
    """

    def __init__(self, folders: Sequence[Path], commit: Commit):
        self.shards = [Shard(folder, commit) for folder in folders]
        self.restart()

    def restart(self) -> None:
        self.rounds: list[Round] = []
        self.last = time.thread_time()  # when the coordinator began to compute

    def ask(self, questions: Mapping[int, Question]) -> dict[int, Any]:
        if not questions:
            return {}
        coordinator, answers = time.thread_time() - self.last, {}
        seconds, sizes = [], []
        for number, question in questions.items():
            started = time.thread_time()
            asked = packed(question)
            at_shard = time.thread_time()
            answer = packed(self.shards[number].ask(*unpacked(asked)))
            done = time.thread_time()
            answers[number] = unpacked(answer)
            seconds.append(done - at_shard)
            sizes.append((len(asked), len(answer)))
            coordinator += at_shard - started + time.thread_time() - done
        first = next(iter(questions.values()))
        rows = [_rows_asked(question) for question in questions.values()]
        if not any(rows) and len(questions) == len(self.shards):
            rows = []
        method = first[1][0] if first[0] == "several" else first[0]
        self.rounds.append(Round(coordinator, method, seconds, rows, *np.mean(sizes, axis=0).tolist()))
        self.last = time.thread_time()
        return answers

    def load(self, question: Question) -> dict[int, Any]:
        return self.ask(dict.fromkeys(range(len(self.shards)), question))

    def close(self) -> None:
        for shard in self.shards:
            shard.close()


def _rows_asked(question: Question) -> int:
    """The number of documents that a question is about; 0 if it is about the whole shard."""
    about = question[-1] if len(question) > 1 else ()
    if isinstance(about, np.ndarray):
        return len(about)
    return sum(len(part.rows) for part in about if isinstance(part, ScoredPart)) if isinstance(about, list) else 0


def opened_pipeline(index: Index, pipeline: str, depth: int) -> Searcher:
    """``FIRST_STAGE[,RERANKER...]`` over an index, with one thread for its loops."""
    stage, *specs = pipeline.split(",")
    return Searcher(index, specs or None, first_stage=stage, depth=depth)


def measured_index(
    folder: Path, queries: Sequence[Query], pipelines: Sequence[str], depth: int, rounds: int
) -> MeasuredIndex:
    """Measure an index of shards.

    Args:
        pipelines: as in `opened_pipeline`.
        rounds: times that each query is measured.

    Raises:
        InputError: it is no index of shards, or a pipeline cannot be opened on a cluster.
    """
    timed: list[TimedShards] = []

    def connect(folders: Sequence[Path], commit: Commit) -> TimedShards:
        timed.append(TimedShards(folders, commit))
        return timed[0]

    with closing(RemoteIndex(folder, connect)) as index:
        shards = timed[0]
        searches = {}
        for pipeline in pipelines:
            searcher = opened_pipeline(index, pipeline, depth)
            for query in queries:
                searcher.search(query.text, HITS)
            searches[pipeline] = list(_measured(shards, searcher, queries, rounds, pipeline))
        stores = [json.loads(path.read_bytes()) for path in (folder / ENCODINGS).rglob(VECTOR_STORE.description)]
        lists, probes = max(((store["lists"], store["probes"]) for store in stores), default=(0, 0))
        return MeasuredIndex(
            str(folder), len(index), len(shards.shards), lists, probes, searched_bytes(index), searches
        )


def _measured(
    shards: TimedShards, searcher: Searcher, queries: Sequence[Query], rounds: int, name: str
) -> Iterator[Search]:
    repeated = [query for _ in range(rounds) for query in queries]
    for query in progress(repeated, f"measuring {name}", "queries", total=len(repeated)):
        shards.restart()
        searcher.search(query.text, HITS)
        yield Search(list(shards.rounds), time.thread_time() - shards.last)


def searched_bytes(index: RemoteIndex) -> int:
    """The bytes of the files of all shards that searches read."""
    files = (path for folder in (SHARDS, ENCODINGS) for path in (index.folder / folder).rglob("*"))
    return sum(path.stat().st_size for path in files if path.is_file() and path.suffix not in STORED)


def warmed(index: Index, pipeline: str, queries: Sequence[Query], depth: int) -> Searcher:
    """An open pipeline after enough searches that Java has compiled its methods."""
    searcher = opened_pipeline(index, pipeline, depth)
    for query in (query for _ in range(WARM) for query in queries):
        searcher.search(query.text, HITS)
    return searcher


def measured_transport(
    measured: Sequence[MeasuredIndex], queries: Sequence[Query], depth: int, config: ClusterConfig
) -> Transport:
    """Search indexes on Ray, and compare the CPU time of all processes with the measured parts.

    Args:
        measured: the parts of the same queries.

    Raises:
        InputError: as `open_index`.
    """
    import ray
    from scipy.optimize import nnls

    per_search, own, answers, beyond, memory = [], [], [], [], 0.0
    for each in measured:
        with closing(open_index(config.url(each.name))) as index:
            assert isinstance(index, RemoteIndex)
            actors = [replicas[0] for replicas in index.answering.actors]  # type: ignore[attr-defined]

            def of_shards(ask: Callable[[Any], float], actors: Sequence[Any] = actors) -> np.ndarray:
                return np.array(ray.get([actor.__ray_call__.remote(ask) for actor in actors]))

            for pipeline, searches in each.pipelines.items():
                searcher = warmed(index, pipeline, queries, depth)
                before, shards_before = time.process_time(), of_shards(lambda _: time.process_time())
                for query in queries:
                    searcher.search(query.text, HITS)
                coordinator = (time.process_time() - before) / len(queries)
                shards = (of_shards(lambda _: time.process_time()) - shards_before).sum() / len(queries)
                questions = np.mean([search.questions for search in searches])
                per_search.append([np.mean([len(search.rounds) for search in searches]), questions])
                own.append(max(coordinator - np.mean([search.coordinator for search in searches]), 0.0))
                answers.append(questions)
                beyond.append(max(shards - np.mean([search.shards for search in searches]), 0.0))
            memory = max(memory, of_shards(lambda _: anonymous_bytes()).max() / MEGABYTE)
    of_round, of_question = nnls(np.array(per_search), np.array(own))[0]
    return Transport(float(of_round), float(of_question), float(np.sum(beyond) / np.sum(answers)), memory, config.heap)


def anonymous_bytes() -> int:
    """Memory of this process without mapped files; 0 where the system does not tell."""
    with suppress(OSError, StopIteration), open("/proc/self/status", encoding="utf-8") as file:
        return next(int(line.split()[1]) << 10 for line in file if line.startswith("RssAnon:"))
    return 0
