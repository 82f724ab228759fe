"""``python -m experiments.cluster_under_load``: a cluster loses processes, gains documents and loses a node under load.

Several nodes of Ray are started on this machine, and a service over an index of shards, with two processes for each.
Queries are sent at a fixed rate, as in :mod:`experiments.updates_under_load`. Meanwhile, one after the other: a process
of a shard is killed, then both of a shard; documents are added, while another process is killed; they are deleted and
merged away; a node leaves; and the service itself is killed and started again. Every answer is compared with what the
library finds in a single index of the same documents. A run of many queries is written before and after all that.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import secrets
import signal
import subprocess
import sys
import time
from argparse import Namespace
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import get_context
from pathlib import Path
from threading import Event, Thread
from typing import Any

import numpy as np

from experiments.updates_under_load import Answer, Client, Period, Stops, expected, fault, latencies, send, update
from rerank_plugin import InputError
from rerank_plugin import options as commandline
from rerank_plugin.base.errors import kind_and_message
from rerank_plugin.corpora import QUERIES, accepted, queries
from rerank_plugin.files.outputs import scratch_folder

PAUSE = 5.0  # seconds between two events
LONGEST = 120.0  # seconds until a process answers again, at most
STORE = 80_000_000  # bytes of a node's store of objects
AGAIN = re.compile(r"shard (\d+) of \d+(?:, replica (\d+))? answers again after ([\d.]+) s")
REFUSED = re.compile(r"(503|429): .*(shard|more requests than it can answer)")


class Service:
    """The service over an index of shards, in a process of its own; its log has the times of recoveries."""

    def __init__(self, folder: Path, address: str, options: Sequence[str], scratch: Path):
        self.log, token = scratch / "log", secrets.token_hex(16)
        (scratch / "token").write_text(token)
        line = ["serve", "--index", f"index={folder}", "--reranker", "delta", "--reranker", "ktrel"]
        line += ["--cluster", address, *options]
        self.command = [sys.executable, "-m", "rerank_plugin", *line, "--token-file", str(scratch / "token")]
        self.process = self.start("0")
        self.client = Client(self.address, token)

    def start(self, port: str) -> subprocess.Popen:
        """Start it, and wait until it listens; ``port`` is 0 for a free one."""
        with self.log.open("a") as log:
            self.process = subprocess.Popen(
                [*self.command, "--port", port], stdout=subprocess.PIPE, stderr=log, text=True
            )
        assert self.process.stdout is not None, "it is a pipe"
        if not (address := self.process.stdout.readline().strip()):
            raise InputError(f"the service ended:\n{self.log.read_text()[-2000:]}")
        self.address = address
        return self.process

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def restart(self) -> None:
        self.start(self.client.address.rpartition(":")[2])

    def recoveries(self) -> list[float]:
        """Seconds that processes did not answer, in the order in which they answered again."""
        return [float(found[3]) for found in AGAIN.finditer(self.log.read_text())]

    def errors(self) -> list[str]:
        return [line for line in self.log.read_text().splitlines() if "Traceback" in line or "Error" in line]


def shard_processes(nodes: Sequence[Any]) -> list[int]:
    """The processes of shards on some nodes of a cluster on this machine."""
    raylets = [raylet.process.pid for node in nodes for raylet in node.all_processes["raylet"]]
    return [pid for raylet in raylets for pid in _descendants(raylet) if b"ShardActor" in _read(pid, "cmdline")]


def _descendants(pid: int) -> Iterator[int]:
    for child in _read(pid, f"task/{pid}/children").split():
        yield int(child)
        yield from _descendants(int(child))


def _read(pid: int, name: str) -> bytes:
    """What the system says of a process; empty if it has ended."""
    try:
        return Path(f"/proc/{pid}/{name}").read_bytes()
    except OSError:
        return b""


def shard_of(pid: int) -> bytes:
    """The number of the shard that a process reads, as its folder has it."""
    return Counter(re.findall(rb"/shards/(\d+)/", _read(pid, "maps"))).most_common(1)[0][0]


def megabytes(pids: Sequence[int]) -> list[int]:
    """The memory that each process has for itself, in MB."""
    private = [re.findall(rb"Private_\w+: +(\d+) kB", _read(pid, "smaps_rollup")) for pid in pids]
    return sorted(round(sum(map(int, kilobytes)) / 1000) for kilobytes in private)


def contents(folder: Path) -> dict[str, str]:
    """A checksum of every file of a folder."""
    files = (path for path in sorted(folder.rglob("*")) if path.is_file())
    return {str(path.relative_to(folder)): hashlib.md5(path.read_bytes()).hexdigest() for path in files}


def written_run(index: Path, where: Sequence[str], options: Namespace, output: Path) -> bytes:
    """The run that the search command writes."""
    line = ["--queries", options.queries, "--reranker", "delta", "--output", str(output)]
    command = [sys.executable, "-m", "rerank_plugin", "search", "--index", str(index), *line, *where]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return output.read_bytes()


def wait_for(done: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + LONGEST
    while not done():
        if time.monotonic() > deadline:
            raise TimeoutError(f"{what} took more than {LONGEST:g} s")
        time.sleep(0.05)


class Scenario:
    """What happens to a service and its cluster, one event after the other, each a :class:`Period`."""

    def __init__(self, options: Namespace, nodes: Any, service: Service, library: ProcessPoolExecutor):
        self.options, self.nodes, self.service, self.library = options, nodes, service, library
        self.texts = [query.text for query in queries(options.queries)][: options.distinct]
        self.results = [self.expected()]
        self.periods: list[Period] = []
        self.recovered: dict[str, list[float]] = {}
        self.memory: dict[str, list[int]] = {}

    def expected(self) -> dict:
        return self.library.submit(expected, self.options.single, self.texts).result()

    def processes(self) -> list[int]:
        return shard_processes([self.nodes.head_node, *self.nodes.worker_nodes])

    @contextmanager
    def period(self, name: str, recoveries: int = 0) -> Iterator[None]:
        """An event, which ends when some processes answer again."""
        before, started = len(self.service.recoveries()), time.monotonic()
        yield
        wait_for(lambda: len(self.service.recoveries()) >= before + recoveries, name)
        self.periods.append(Period(name, started, time.monotonic()))
        if recoveries:
            self.recovered[name] = self.service.recoveries()[before:]
        time.sleep(PAUSE)

    def run(self) -> None:
        time.sleep(PAUSE)
        with self.period("one process killed", 1):
            os.kill(self.processes()[0], signal.SIGKILL)
        with self.period("both processes of a shard killed", 2):
            running = self.processes()
            first = shard_of(running[-1])
            for pid in [pid for pid in running if shard_of(pid) == first]:
                os.kill(pid, signal.SIGKILL)
        with self.period("added, and a process killed", 1):
            thread = Thread(target=self.update, args=(f"add={self.options.add}",))
            thread.start()
            time.sleep(1)
            os.kill(self.processes()[1], signal.SIGKILL)
            thread.join()
        self.reload()
        with self.period("deleted and merged"):
            self.update(f"delete={self.options.delete}", "merge")
        self.reload()
        if len(self.nodes.worker_nodes) > 1:
            node = max(self.nodes.worker_nodes, key=lambda node: len(shard_processes([node])))
            with self.period("a node left", len(shard_processes([node]))):
                self.nodes.remove_node(node)
        self.coordinator()

    def update(self, *specs: str) -> None:
        for folder in (self.options.index, self.options.single):
            for spec in specs:
                update(folder, spec, Stops(0))

    def reload(self) -> None:
        self.results.append(self.expected())
        self.memory["before a reload"] = megabytes(self.processes())
        opened, most = Event(), self.memory.setdefault("during a reload", [])

        def watch() -> None:
            while not opened.wait(0.5):
                most[:] = max(most, megabytes(self.processes()), key=sum)

        watching = Thread(target=watch)
        watching.start()
        started = time.monotonic()
        self.service.client.reload()
        self.periods.append(Period("reload", started, time.monotonic()))
        opened.set()
        watching.join()
        time.sleep(PAUSE)
        self.memory["after a reload"] = megabytes(self.processes())

    def coordinator(self) -> None:
        """Kill the service, whose processes have to end, and start it again."""
        processes = self.processes()
        before = contents(self.options.index)
        with self.period("service killed and started again"):
            self.service.kill()
            started = time.monotonic()
            wait_for(lambda: not any(_read(pid, "cmdline") for pid in processes), "the end of the shards")
            self.recovered["end of the shards' processes"] = [time.monotonic() - started]
            self.service.restart()
            self.recovered["service started again"] = [time.monotonic() - started]
        if contents(self.options.index) != before:
            raise AssertionError("the index has changed")


def counts(answers: Sequence[Answer], periods: Sequence[Period], results: Sequence[dict]) -> dict[str, Any]:
    """How many answers were right, refused, without a service, and wrong; and of those that were not right, some."""
    down = [one for one in periods if one.name.startswith("service killed")]
    kinds: dict[str, list[str]] = {"right": [], "refused": [], "no service": [], "wrong": []}
    for answer in answers:
        said = fault(answer, periods, results)
        kind = "right" if not said else "wrong"
        if answer.hits is None and REFUSED.match(said):
            kind = "refused"
        elif answer.hits is None and any(one.started <= answer.done and answer.sent <= one.done for one in down):
            kind = "no service"
        kinds[kind].append(said)
    examples = {kind: Counter(said).most_common(10) for kind, said in kinds.items() if kind != "right" and said}
    return {"sent": len(answers), **{kind: len(said) for kind, said in kinds.items()}, "said": examples}


def run(options: Namespace) -> dict:
    """Run the scenario; the measurements."""
    from ray.cluster_utils import Cluster

    os.environ.setdefault("RAY_AUTH_MODE", "disabled")  # a token would be written into the user's home
    node = {"num_cpus": 1, "object_store_memory": STORE}
    nodes = Cluster(initialize_head=True, head_node_args=node | {"include_dashboard": False})
    answers, ended, stopped = list[Answer](), Event(), ""
    cluster = ["--cluster", nodes.address, "--shard-heap", options.shard_heap]
    try:
        for _ in range(1, options.nodes):
            nodes.add_node(**node)
        with scratch_folder() as scratch, ProcessPoolExecutor(1, get_context("spawn")) as library:
            single = written_run(options.single, [], options, scratch / "single")
            before = written_run(options.index, cluster, options, scratch / "before")
            more = ["--replicas", str(options.replicas), "--shard-heap", options.shard_heap]
            service = Service(options.index, nodes.address, more, scratch)
            try:
                scenario = Scenario(options, nodes, service, library)
                sender = Thread(
                    target=lambda: answers.extend(send(service.client, scenario.texts, options.rate, ended))
                )
                sender.start()
                try:
                    scenario.run()
                except Exception as error:  # what was measured until then is told
                    stopped = kind_and_message(error)
                finally:
                    ended.set()
                    sender.join()
            finally:
                service.process.terminate()
                service.process.wait()
                print(service.log.read_text()[-5000:], file=sys.stderr)
            after = written_run(options.index, cluster, options, scratch / "after")
            log_errors = service.errors()
    finally:
        nodes.shutdown()
    return {
        "stopped": stopped,
        **counts(answers, scenario.periods, scenario.results),
        "rate": len(answers) / (max(answer.sent for answer in answers) - min(answer.sent for answer in answers)),
        "run": {"lines": before.count(b"\n"), "as a single index": before == single, "the same after": after == before},
        "changed": [
            sum(one[key] != other[key] for key in other) / len(other)
            for one, other in zip(scenario.results, scenario.results[1:])
        ],
        "recoveries": {name: np.round(seconds, 1).tolist() for name, seconds in scenario.recovered.items()},
        "latencies": latencies([answer for answer in answers if answer.hits is not None], scenario.periods),
        "events": [[period.name, round(period.done - period.started, 2)] for period in scenario.periods],
        "megabytes": scenario.memory,
        "errors in the log": log_errors,
    }


def main(argv: list[str] | None = None) -> None:
    parser = commandline.parser("cluster_under_load", __doc__.split("\n\n", 1)[1])
    parser.prog = "python -m experiments.cluster_under_load"
    add = parser.add_argument
    add("--index", type=Path, required=True, help="index of shards with encodings by ktrel; a copy, as it is updated")
    add("--single", type=Path, required=True, help="a single index of the same documents; a copy, too")
    add("--queries", required=True, help=f"queries of the run, and to send: {accepted(QUERIES)}")
    add("--distinct", type=int, default=25, help="so many of them are sent")
    add("--rate", type=float, default=20.0, help="queries a second")
    add("--nodes", type=int, default=3, help="nodes of Ray, of which one leaves")
    add("--replicas", type=int, default=2, help="processes of each shard")
    add("--shard-heap", default="256m", help="Java's heap in each")
    add("--add", required=True, metavar="CORPUS", help="documents to add")
    add("--delete", required=True, metavar="IDS", help="their ids, to delete them again")
    options = commandline.parse(parser, argv)
    parser.check_counts(options, "distinct", "nodes", "replicas")
    print(json.dumps(run(options), indent=1))


if __name__ == "__main__":
    commandline.run(main)
