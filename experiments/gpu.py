"""``python -m experiments.gpu``: tests and times of a GPU, written as experiments/results/gpu.md (``make gpu``).

It needs torch, numpy, numba, safetensors and pytest, and neither Java nor the network: collections are generated from a
seed. ``--index``, ``--queries`` and ``--run`` add rows of real texts, whose candidates the run names.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from experiments.gpu_engines import clustered, engine_table, milliseconds
from rerank_plugin import InputError, __version__
from rerank_plugin import options as commandline
from rerank_plugin.benchmark import machine
from rerank_plugin.files.outputs import FileKind, beginning, check_free, replacing
from rerank_plugin.models.register import checkpoint_folder

TITLE = "# On a GPU"
KIND = FileKind("a page of this command", lambda path: beginning(path).startswith(TITLE.encode()))
PAGE = """{title}

`--device cuda` scores on a GPU: models that compare words, from the words of the index, which stay there; models of
stored encodings, from their vectors; and the dense part of `hybrid`, which searches all vectors there. The code is
`rerank_plugin/models/device_path.py`; `--device cpu:0` runs the same on a CPU, to compare. This page
was written by `make gpu`, with the tests of the device paths on {device}.

{machine}; rerank-plugin {version}.

{tests}

## Scoring 500 candidates

Milliseconds of a query: alone (median and p99), and in batches of 64 queries. They are those of the whole scoring, with
the copies to the GPU and back. The factor is to the model's module on the same GPU, which builds its inputs on the CPU.

| model | collection | alone, ms | p99 | aim | of 64, ms | aim | module alone, ms | largest difference |
|---|---|---:|---:|---:|---:|---:|---:|---:|
{scoring}

## Searching all vectors

Codes of 8 bits, held as float16, of {vectors} generated documents; the best 1,064 documents, scored again on the CPU.

| vectors | one query, ms | aim | of 64, ms | product and selection on the GPU alone, ms | GPU memory, MB |
|---|---:|---:|---:|---:|---:|
{dense}

`--dense-engine` of `search` chooses another engine. The same vectors, generated in clusters; recall is that of the
documents that `torch` finds, which compares all.

{engines}

## Encoding

{encoding}
"""
AIMS = {  # milliseconds: alone, of 64
    "delta": (0.5, 0.1), "pacrr": (1, 0.2), "knrm": (1, 0.2), "drmm": (1, 0.2),
    "ktrel-w": (0.1, None),
}  # fmt: skip
BATCH = 64
FOUND = 1064  # documents of a search: a depth of 1,000 and some more
TESTS = ["tests/models/test_device_path.py", "tests/indexes/test_device_vectors.py", "tests/conformance"]


def main(argv: list[str] | None = None) -> None:
    parser = commandline.parser("gpu", __doc__.split("\n\n", 1)[1])
    parser.prog = "python -m experiments.gpu"
    add = parser.add_argument
    add("--device", default="cuda", help="torch device")
    add("--output", type=Path, required=True, help="page to write")
    add("--index", type=Path, help="index of real texts")
    add("--queries", help="its queries")
    add("--run", type=Path, help="run with their candidates")
    add("--quick", action="store_true", help="small sizes, to try the command on a CPU")
    add("--no-tests", action="store_true", help="leave out the tests")
    add("--overwrite", action="store_true", help="replace an existing page")
    options = commandline.parse(parser, argv)
    check_free(options.output, KIND, options.overwrite)
    sizes = [200, 500] if options.quick else [200_000, 1_000_000]
    with TemporaryDirectory() as work:
        values = {
            "title": TITLE,
            "device": options.device,
            "machine": described(options.device),
            "version": __version__,
            "scoring": "\n".join(scoring_rows(options, Path(work))),
            "vectors": " and ".join(f"{size:,}" for size in sizes),
            "dense": "\n".join(dense_row(options.device, size) for size in sizes),
            "engines": engine_table(options.device, [500, 2500] if options.quick else [1_000_000, 10_000_000]),
            "encoding": encoding(options, Path(work)),
        }
    print(values, file=sys.stderr)  # before the tests, which take longest
    values["tests"] = "Tests were left out." if options.no_tests else tests(options.device)
    with replacing(options.output, KIND, options.overwrite) as file:
        file.write(PAGE.format(**values).encode())
    print(PAGE.format(**values))


def described(device: str) -> str:
    import torch

    try:
        torch.zeros(1, device=device)
    except (RuntimeError, AssertionError) as error:
        raise InputError(f"cannot use the device '{device}': {str(error).splitlines()[0]}") from None
    from rerank_plugin.kernels.parallel import available_threads

    return machine.describe(available_threads(), device)


def tests(device: str) -> str:
    """Run the tests of device paths, and describe their outcome."""
    environment = os.environ | {"RERANK_PLUGIN_TEST_DEVICE": device}
    workers = ["-n", "8"] if find_spec("xdist") else []
    command = [sys.executable, "-m", "pytest", "-q", "--fast", *workers, "-k", "device", *TESTS]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    print(done.stdout[-6000:], done.stderr[-2000:], file=sys.stderr)
    return f"`{' '.join(command[1:])}`: {done.stdout.strip().splitlines()[-1].strip('= ')}."


def bench(work: Path, *arguments: str) -> list[dict[str, Any]]:
    """The rows of the benchmark with these arguments."""
    rows = work / "rows.json"
    command = [sys.executable, "-m", "rerank_plugin", "bench", *arguments, "--json", str(rows), "--overwrite"]
    started = time.monotonic()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    print(f"{' '.join(command[1:])}: {time.monotonic() - started:.0f} s", file=sys.stderr)
    return json.loads(rows.read_text())


def scoring_rows(options: Any, work: Path) -> list[str]:
    """A row for each model on a generated collection, and on the real one."""
    batch = 4 if options.quick else BATCH
    models = ["delta", "pacrr", "knrm", "drmm", "matchpyramid", "ktrel-w"]
    sizes = ["--documents", "300", "--depth", "50"] if options.quick else ["--documents", "10000", "--depth", "500"]
    time_limit = "0.05" if options.quick else "1"
    common = ["--device", options.device, "--batch", "1", str(batch), "--seconds", time_limit]
    measured = bench(work, *common, *sizes, "--work-folder", str(work), "--reranker", *models)
    rows = [scoring_row(name, name, "generated", batch, measured) for name in models]
    windows = kwindow(work, int(sizes[1]))
    measured = bench(work, *common, *sizes, "--work-folder", str(work), "--reranker", f"pacrr:{windows}")
    rows.append(scoring_row("pacrr (kwindow)", "pacrr", "generated", batch, measured))
    if not options.index:
        return rows
    own = ["--index", str(options.index), "--queries", options.queries, "--run", str(options.run)]
    measured = bench(work, *common, *own, "--reranker", f"delta:{checkpoint_folder('delta')}")
    rows.append(scoring_row("delta (bundled)", "delta", "real abstracts", batch, measured))
    return rows


def kwindow(work: Path, documents: int) -> Path:
    """A checkpoint of PACRR-kwindow with random weights, for a generated collection."""
    import torch

    from rerank_plugin.benchmark.collection import generated
    from rerank_plugin.benchmark.measured_rerankers import random_vectors
    from rerank_plugin.models.checkpoint import save_checkpoint
    from rerank_plugin.models.pacrr.model import Pacrr, PacrrConfig

    vectors = random_vectors(generated(work, documents, 42, 50, lucene=False).forward, 42)
    torch.manual_seed(42)
    model = Pacrr(PacrrConfig("kwindow"), torch.from_numpy(vectors.matrix))
    save_checkpoint(work / "kwindow", model, vectors, {"made_by": "at random"})
    return work / "kwindow"


def scoring_row(name: str, aim: str, collection: str, batch: int, measured: list[dict[str, Any]]) -> str:
    def of(path: str, batch: int) -> dict[str, Any]:
        found = (row for row in measured if row["path"] == path and row["batch"] == batch)
        return next(row for row in found if row["reranker"].startswith(name.split()[0]) or len(measured) == 4)

    alone, together, module = of("fast", 1), of("fast", batch), of("plain", 1)
    aims = AIMS.get(aim, (None, None))
    cells = [
        name, collection, f"{alone['median_ms']:.2f}", f"{alone['p99_ms']:.2f}", aims[0] or "",
        f"{together['median_ms'] / batch:.3f}", aims[1] or "", f"{module['median_ms']:.1f}",
        f"{alone['largest_difference']:.0e}",
    ]  # fmt: skip
    return "| " + " | ".join(map(str, cells)) + " |"


def dense_row(device: str, documents: int, width: int = 256) -> str:
    """Times of searching generated vectors on the device, whose documents are compared with those of the CPU."""
    import torch

    from rerank_plugin.indexes.device_vectors import DeviceVectors

    store = clustered(documents, width)
    queries = store.decode(np.arange(min(BATCH, documents)))
    on_device = DeviceVectors(store, device)
    found = min(FOUND, documents)
    for query in queries[:3]:
        expected, scores = store.search(query, found)
        actual, others = on_device.search(query, found)
        assert expected.tolist() == actual.tolist() and scores.tobytes() == others.tobytes()
    quantized = store.quantize(queries[:1])
    memory = torch.cuda.max_memory_allocated() / 2**20 if device.startswith("cuda") else 0
    with torch.inference_mode():
        alone = milliseconds(lambda: on_device.search(queries[0], found), device)
        together = milliseconds(lambda: on_device.search_many(queries, found), device)
        product = milliseconds(lambda: on_device._products(quantized).T.topk(found, dim=1, sorted=False), device)
    cells = [f"{documents:,} x {width}", f"{alone:.2f}", 0.5 if documents == 1_000_000 else "",
             f"{together / BATCH:.3f}", f"{product:.3f}", f"{memory:.0f}"]  # fmt: skip
    return "| " + " | ".join(map(str, cells)) + " |"


def encoding(options: Any, work: Path) -> str:
    """How fast a model with a layer encodes the documents of a generated collection."""
    from rerank_plugin import rerankers
    from rerank_plugin.benchmark.collection import generated
    from rerank_plugin.benchmark.measured_rerankers import random_weights
    from rerank_plugin.models.document_encoder import encode_rows
    from rerank_plugin.rerankers.neural import NeuralReranker

    documents = 300 if options.quick else 10_000
    collection = generated(work, documents, 42, 50, lucene=False)
    checkpoint = random_weights("ktrel-w", collection.forward, work / "weights", 42)
    reranker = rerankers.load(f"ktrel-w:{checkpoint}", collection.forward, rerankers.RerankerOptions(options.device))
    assert isinstance(reranker, NeuralReranker)
    rates = []
    for _ in range(2):
        started = time.perf_counter()
        encode_rows(reranker.module, reranker.builder, np.arange(documents), device=options.device)  # type: ignore[arg-type]
        rates.append(documents / (time.perf_counter() - started))
    return (
        f"KTRel-w with random weights (a transformer layer) encodes {rates[1]:,.0f} documents a second, of "
        f"{documents:,} "
        "generated ones. The bundled encoder, a sum of word vectors, is compiled for the CPU, whatever the device."
    )


if __name__ == "__main__":
    commandline.run(main)
