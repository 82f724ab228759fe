"""``python -m experiments.updates_under_load``: updates an index while a service over it answers queries.

A service is started over the index. Queries are sent at a fixed rate, whether or not earlier ones are answered, a third
of them to BM25 and a reranker, a third to the hybrid, and a third to the hybrid and the encoder's reranker. Meanwhile
commands update the index in a process of their own, and the service reloads after each, or watches it. Every answer is
compared, document by document and score by score, with what the library finds in each generation: it has to be the
answer of one that the service may have had open then. An answer that was late, which the service says, has to be the
first stage's.
"""

from __future__ import annotations

import json
import secrets
import signal
import subprocess
import sys
import time
from argparse import Namespace
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import contextmanager
from itertools import count
from multiprocessing import get_context
from pathlib import Path
from random import Random
from threading import Event, Thread
from typing import NamedTuple
from urllib.error import HTTPError
from urllib.parse import urlencode
from urllib.request import Request, urlopen

import numpy as np

from rerank_plugin import InputError, Searcher
from rerank_plugin import options as commandline
from rerank_plugin.corpora import QUERIES, accepted, queries
from rerank_plugin.files.outputs import scratch_folder

MODES = {"delta": ("delta", "bm25"), "hybrid": ("none", "hybrid"), "ktrel": ("ktrel", "hybrid")}  # with first stages
NO_RERANKER = "none"
LATE = {mode: f"{mode}, late" for mode, (reranker, _) in MODES.items() if reranker != NO_RERANKER}
HITS, DEPTH = 10, 500
LONGEST = 1200  # seconds that a client waits
PAUSE = 5.0  # seconds before the first update, and after the last one

Hits = list[tuple[str, float]]


class Answer(NamedTuple):
    """A request and its answer: what was asked, when, what came back (None for a failure), and why it failed.

    Its mode is of `MODES`; of `LATE`, if the deadline passed and it is the ranking of the first stage.
    """

    mode: str
    text: str
    sent: float
    done: float
    hits: Hits | None
    error: str = ""


class Period(NamedTuple):
    """A stretch of time, of an update or of a reload."""

    name: str
    started: float
    done: float


class Client:
    """Asks a service."""

    def __init__(self, address: str, token: str):
        self.address, self.headers = address, {"Authorization": f"Bearer {token}"}

    def ask(self, mode: str, text: str) -> Answer:
        reranker, stage = MODES[mode]
        asked = {"query": text, "hits": HITS, "depth": DEPTH, "reranker": reranker, "first_stage": stage}
        started = time.monotonic()
        try:
            request = Request(f"{self.address}/v1/index/search?{urlencode(asked)}", headers=self.headers)
            with urlopen(request, timeout=LONGEST) as response:
                answer = json.load(response)
        except HTTPError as error:
            return Answer(mode, text, started, time.monotonic(), None, f"{error.code}: {json.load(error)['error']}")
        except OSError as error:
            return Answer(mode, text, started, time.monotonic(), None, str(error))
        hits = [(one["docid"], float(np.float32(one["score"]))) for one in answer["candidates"]]
        late = reranker != NO_RERANKER and not answer["reranked"]
        return Answer(LATE[mode] if late else mode, text, started, time.monotonic(), hits)

    def reload(self) -> None:
        with urlopen(Request(f"{self.address}/admin/reload", b"", self.headers), timeout=LONGEST):
            pass


def expected(folder: Path, texts: Sequence[str]) -> dict[tuple[str, str], Hits]:
    """What the library finds in the current generation of an index, by mode and text."""
    found = {}
    first_stages = {late: (NO_RERANKER, MODES[mode][1]) for mode, late in LATE.items()}
    for mode, (reranker, stage) in (MODES | first_stages).items():
        named = None if reranker == NO_RERANKER else reranker
        with Searcher(folder, named, first_stage=stage, depth=DEPTH) as searcher:
            for text in texts:
                hits = searcher.search(text, HITS)
                found[mode, text] = [(hit.docid, float(np.float32(hit.score))) for hit in hits]
    return found


class Stops(Thread):
    """Stops running processes at random moments, for up to ``longest`` seconds; with 0 none."""

    def __init__(self, longest: float):
        super().__init__(daemon=True)
        self.longest, self.processes, self.count = longest, list[subprocess.Popen](), 0

    def run(self) -> None:
        random = Random(0)
        while self.longest > 0:
            time.sleep(random.uniform(0, self.longest))
            process = random.choice(self.processes)
            process.send_signal(signal.SIGSTOP)  # none is sent to a process that has ended
            try:
                time.sleep(random.uniform(0, self.longest))
            finally:
                process.send_signal(signal.SIGCONT)
            self.count += 1


@contextmanager
def service(folder: Path, stops: Stops, watch: float = 0) -> Iterator[Client]:
    """A client of a service over an index, in a process of its own; it looks for new commits each ``watch`` seconds."""
    with scratch_folder() as scratch:
        token = secrets.token_hex(16)
        (scratch / "token").write_text(token)
        rerankers = [
            word for reranker, _ in MODES.values() if reranker != NO_RERANKER for word in ("--reranker", reranker)
        ]
        line = ["serve", "--index", f"index={folder}", *rerankers, "--port", "0", "--watch", str(watch)]
        command = [sys.executable, "-m", "rerank_plugin", *line, "--token-file", str(scratch / "token")]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            try:
                assert process.stdout is not None, "it is a pipe"
                client = Client(process.stdout.readline().strip(), token)
                stops.processes.append(process)
                yield client
            finally:
                process.terminate()


def send(client: Client, texts: Sequence[str], rate: float, ended: Event) -> list[Answer]:
    """Send queries at a rate until the event is set; the answers. What a stopped process missed is not sent later."""
    futures: list[Future[Answer]] = []
    with ThreadPoolExecutor(64) as threads:
        following, modes = time.monotonic(), list(MODES)
        for number in count():
            time.sleep(max(0.0, following - time.monotonic()))
            if ended.is_set():
                break
            following = max(following, time.monotonic() - 1) + 1 / rate
            text = texts[number // len(modes) % len(texts)]
            futures.append(threads.submit(client.ask, modes[number % len(modes)], text))
    return [future.result() for future in futures]


def update(folder: Path, spec: str, stops: Stops) -> None:
    """Run the command of an update: ``add=CORPUS``, ``delete=IDS``, ``merge`` or ``merge+adapt``."""
    kind, _, value = spec.partition("=")
    line = ["--merge", "--adapt"] if kind == "merge+adapt" else [f"--{kind}", *([value] if value else [])]
    command = [sys.executable, "-m", "rerank_plugin", "index", "--index", str(folder), *line]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as process:
        stops.processes.append(process)
        if process.wait():
            raise InputError(f"{spec}: the update ended with {process.returncode}")
    stops.processes.remove(process)


def fault(answer: Answer, periods: Sequence[Period], results: Sequence[dict[tuple[str, str], Hits]]) -> str:
    """What is wrong with an answer; empty if nothing is.

    Args:
        periods: of the updates, and the reloads that followed. results: of each generation, the first included.
    """
    if answer.hits is None:
        return answer.error
    reloads = [period for period in periods if period.name == "reload"]
    first = sum(period.done <= answer.sent for period in reloads)  # what was reloaded before was open
    last = sum(period.started <= answer.done for period in reloads)
    if any(results[number][answer.mode, answer.text] == answer.hits for number in range(first, last + 1)):
        return ""
    others = [number for number, result in enumerate(results) if result[answer.mode, answer.text] == answer.hits]
    right = results[last][answer.mode, answer.text]
    places = [place for place, (hit, other) in enumerate(zip(answer.hits, right)) if hit != other]
    shown = [(*answer.hits[place], *right[place]) for place in places[:3]]
    return (
        f"{answer.mode} '{answer.text}' at {answer.sent - periods[0].started:.1f} s: not the answer of the generations "
        f"{first} to {last}, but of {others or 'none'}; places {places}: {shown}"
    )


def run(options: Namespace) -> dict:
    """Update the index under load; the measurements."""
    texts = [query.text for query in queries(options.queries)][: options.distinct]
    folder, periods, ended, stops = options.index, list[Period](), Event(), Stops(options.stop)
    with service(folder, stops, options.watch) as client, ProcessPoolExecutor(1, get_context("spawn")) as library:
        results, answers = [library.submit(expected, folder, texts).result()], list[Answer]()
        sender = Thread(target=lambda: answers.extend(send(client, texts, options.rate, ended)))
        sender.start()
        stops.start()
        try:
            time.sleep(PAUSE)
            for spec in options.updates:
                started = time.monotonic()
                update(folder, spec, stops)
                updated = time.monotonic()
                results.append(library.submit(expected, folder, texts).result())
                compared = time.monotonic()
                if options.watch:
                    compared = started  # a commit may have been opened before the command ended
                    time.sleep(max(0.0, updated + options.watch + PAUSE - time.monotonic()))
                else:
                    client.reload()
                periods.append(Period(spec.partition("=")[0], started, updated))
                periods.append(Period("reload", compared, time.monotonic()))
            time.sleep(PAUSE)
        finally:
            ended.set()
            sender.join()
    faults = [(answer.hits is None, text) for answer in answers if (text := fault(answer, periods, results))]
    return {
        "sent": len(answers),
        "failed": sum(answer.hits is None for answer in answers),
        "late": sum(answer.mode in LATE.values() for answer in answers),
        "stops": stops.count,
        "wrong": len(faults) - sum(answer.hits is None for answer in answers),
        "faults": [text for _, text in sorted(faults)[:40]],  # wrong answers first
        "rate": len(answers) / (max(answer.sent for answer in answers) - min(answer.sent for answer in answers)),
        "changed": [
            sum(before[key] != after[key] for key in after) / len(after) for before, after in zip(results, results[1:])
        ],
        "latencies": latencies(answers, periods),
        "updates": [[period.name, round(period.done - period.started, 2)] for period in periods],
    }


def latencies(answers: Sequence[Answer], periods: Sequence[Period]) -> dict[str, dict[str, list]]:
    """The number of answers, and median, 99th percentile and largest latency in ms, by what went on and by mode."""
    by_name: dict[str, dict[str, list[float]]] = {}
    for answer in answers:
        names = {one.name for one in periods if one.started <= answer.sent < one.done} or {"neither"}
        for name in names:
            by_name.setdefault(name, {}).setdefault(answer.mode, []).append(1000 * (answer.done - answer.sent))
    return {
        name: {
            mode: [len(values), *(round(float(value), 1) for value in (*np.percentile(values, [50, 99]), max(values)))]
            for mode, values in of_mode.items()
        }
        for name, of_mode in by_name.items()
    }


def main(argv: list[str] | None = None) -> None:
    parser = commandline.parser("updates_under_load", __doc__.split("\n\n", 1)[1])
    parser.prog = "python -m experiments.updates_under_load"
    add = parser.add_argument
    add("--index", type=Path, required=True, help="index with encodings by ktrel; a copy, as it is updated")
    add("--queries", required=True, help=f"queries to send: {accepted(QUERIES)}")
    add("--distinct", type=int, default=25, help="of them so many")
    add("--rate", type=float, default=20.0, help="queries a second")
    updates = "in this order: add=CORPUS, delete=IDS, merge, merge+adapt"
    add("--updates", nargs="+", required=True, metavar="UPDATE", help=updates)
    add("--watch", type=float, default=0.0, metavar="SECONDS", help="let the service look for new commits so often, "
        "and take at most 5 seconds more (default: it is told to reload)")  # fmt: skip
    add("--stop", type=float, default=0.0, metavar="SECONDS", help="stop the service and the updates now and then, "
        "each time for up to so many seconds (default: not)")  # fmt: skip
    options = commandline.parse(parser, argv)
    parser.check_counts(options, "distinct")
    print(json.dumps(run(options), indent=1))


if __name__ == "__main__":
    commandline.run(main)
