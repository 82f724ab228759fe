"""Cross-encoders of the usual shapes, as the common alternative to the rerankers that ``bench`` measures.

    python -m experiments cross-encoders --documents 10000 --seconds 3

A cross-encoder reads query, title and abstract of every candidate as one sequence of word pieces. Weights and pieces
are random: speed depends on neither, only on the lengths of the sequences, which follow the collection's texts.

The runtimes are transformers, in float32 and in bfloat16 (autocast), and on a CPU ONNX Runtime in int8 (dynamic
quantization with its default settings). As in sentence-transformers, candidates are sorted by length and padded to the
longest of a batch.
Word-piece tokenization is not timed, in favour of the cross-encoders.
"""

from __future__ import annotations

import importlib.util
import logging
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import numpy as np

from rerank_plugin import InputError
from rerank_plugin import options as commandline
from rerank_plugin.benchmark import collection as collections
from rerank_plugin.benchmark import machine
from rerank_plugin.benchmark.collection import Collection
from rerank_plugin.benchmark.measuring import Case, Meter
from rerank_plugin.benchmark.rows import number
from rerank_plugin.benchmark.scoring import repeats_in_time
from rerank_plugin.files.outputs import scratch_folder
from rerank_plugin.files.tables import markdown
from rerank_plugin.kernels.parallel import available_threads

PIECES = 30_522  # word pieces of BERT's vocabulary
SPECIAL_PIECES = 3  # [CLS] query [SEP] text [SEP]
PIECES_PER_WORD = 1.4  # of English biomedical text in BERT's general vocabulary, roughly
LONGEST = 256  # pieces of a sequence; longer ones are cut
BATCHES = (32, 128)  # candidates at once
INPUTS = ("input_ids", "attention_mask", "token_type_ids")

Scorer = Callable[[np.ndarray, np.ndarray], np.ndarray]


SHAPES = {  # arguments of BertConfig
    "minilm-l6": dict(num_hidden_layers=6, hidden_size=384, num_attention_heads=12, intermediate_size=1536),
    "tinybert-l2": dict(num_hidden_layers=2, hidden_size=128, num_attention_heads=2, intermediate_size=512),
}


TORCH, HALF, ONNX = "PyTorch float32", "PyTorch bfloat16", "ONNX Runtime int8"


class Row(NamedTuple):
    """Times of scoring ``depth`` candidates of a query, scaled from ``timed`` candidates."""

    shape: str
    runtime: str
    at_once: int
    timed: int
    depth: int
    milliseconds: np.ndarray  # of each repetition, float64 [n]

    def cells(self) -> list[str]:
        times = self.milliseconds
        median, p95 = number(float(np.median(times))), number(float(np.percentile(times, 95)))
        sizes = [f"{self.at_once}", f"{self.timed} of {self.depth}", f"{len(times)}"]
        return [self.shape, self.runtime, *sizes, median, p95, number(1000 / float(times.mean()))]


COLUMNS = ["shape", "runtime", "at once", "timed", "repetitions", "median ms", "p95 ms", "queries/s"]


def check_installed() -> None:
    """An `InputError` if an optional library is missing."""
    for module in ("onnx", "onnxruntime", "transformers"):
        if importlib.util.find_spec(module) is None:
            raise InputError(f"measuring cross-encoders needs {module}: pip install onnx onnxruntime transformers")


def rows(collection: Collection, depth: int, meter: Meter, device: str, threads: int, seed: int) -> Iterator[Row]:
    """Rows of every shape, batch size and runtime."""
    for name, shape in SHAPES.items():
        with _scorers(shape, device, threads, seed) as scorers:
            for at_once in BATCHES:
                # All candidates if the time limit allows, otherwise whole batches.
                smallest = min(depth, at_once)
                single = [_case(scorer, collection, depth, smallest, at_once, seed) for scorer in scorers.values()]
                timed = min(depth, smallest * min(repeats_in_time(case, depth, meter) for case in single))
                cases = {
                    runtime: _case(scorer, collection, depth, timed, at_once, seed)
                    for runtime, scorer in scorers.items()
                }
                for runtime, timings in meter.measure(cases).items():
                    yield Row(name, runtime, at_once, timed, depth, 1000 * timings.scaled(depth / timed).seconds)


def _case(scorer: Scorer, collection: Collection, depth: int, timed: int, at_once: int, seed: int) -> Case:
    """Score ``timed`` random candidates of a query."""

    def prepare(call: int):
        random = np.random.default_rng([seed, call & 0xFFFF])
        number = call % len(collection.queries)
        lengths = np.sort(random.choice(sequence_lengths(collection, number, depth), timed))
        batches = [_pieces(lengths[start : start + at_once], random) for start in range(0, timed, at_once)]
        return lambda: sum(len(scorer(*batch)) for batch in batches)

    return prepare


def sequence_lengths(collection: Collection, number: int, depth: int) -> np.ndarray:
    """Word pieces of query, title and abstract together, cut to `LONGEST`, int64 [C]."""
    query = len(collection.forward.query(collection.queries[number].text).terms)
    words = query + collection.candidates(number, depth).lengths
    return np.minimum(np.ceil(words * PIECES_PER_WORD).astype(np.int64) + SPECIAL_PIECES, LONGEST)


def _pieces(lengths: np.ndarray, random: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Random pieces and their mask, int64 [B, longest]."""
    mask = np.arange(lengths.max()) < lengths[:, None]
    return np.where(mask, random.integers(1000, PIECES, mask.shape), 0), mask.astype(np.int64)


@contextmanager
def _scorers(shape: dict[str, int], device: str, threads: int, seed: int) -> Iterator[dict[str, Scorer]]:
    """The cross-encoder by runtime: functions of ids and mask, int64 [B, L], to logits [B, 1]."""
    model = _model(shape, seed)
    with scratch_folder() as folder:
        on_cpu = {ONNX: _onnx_scorer(_quantized(model, Path(folder)), threads)} if device == "cpu" else {}
        halves = {TORCH: False, HALF: True}
        yield {
            **{name: _transformers_scorer(model.to(device), device, half) for name, half in halves.items()},
            **on_cpu,
        }


def _model(shape: dict[str, int], seed: int):
    import torch
    from transformers import BertConfig, BertForSequenceClassification

    torch.manual_seed(seed)
    return BertForSequenceClassification(BertConfig(vocab_size=PIECES, num_labels=1, **shape)).eval()


def _transformers_scorer(model, device: str, half: bool) -> Scorer:
    import torch

    @torch.inference_mode()
    def score(ids: np.ndarray, mask: np.ndarray) -> np.ndarray:
        ids, mask = torch.from_numpy(ids).to(device), torch.from_numpy(mask).to(device)
        with torch.autocast(ids.device.type, torch.bfloat16, enabled=half):
            return model(ids, mask, torch.zeros_like(ids)).logits.float().cpu().numpy()

    return score


def _quantized(model, folder: Path) -> Path:
    """Export to ONNX and quantize the weights to int8."""
    import torch
    from onnxruntime.quantization import QuantType, quantize_dynamic

    ids = torch.ones((2, 16), dtype=torch.int64)
    axes = {name: {0: "batch", 1: "pieces"} for name in INPUTS} | {"logits": {0: "batch"}}
    with _quiet():
        torch.onnx.export(
            model, (ids, torch.ones_like(ids), torch.zeros_like(ids)), str(folder / "float.onnx"),
            input_names=list(INPUTS), output_names=["logits"], dynamic_axes=axes, opset_version=17,
            dynamo=False,  # the newer exporter needs onnxscript
        )  # fmt: skip
        quantize_dynamic(folder / "float.onnx", folder / "int8.onnx", weight_type=QuantType.QInt8)
    return folder / "int8.onnx"


def _onnx_scorer(path: Path, threads: int) -> Scorer:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])

    def score(ids: np.ndarray, mask: np.ndarray) -> np.ndarray:
        return session.run(None, dict(zip(INPUTS, (ids, mask, np.zeros_like(ids)))))[0]

    return score


@contextmanager
def _quiet() -> Iterator[None]:
    """Suppress the libraries' advice on the export."""
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(logging.NOTSET)


def arguments():
    parser = commandline.parser("cross-encoders", "Time cross-encoders of MiniLM-L6's and TinyBERT-L2's shapes.")
    parser.prog = "python -m experiments cross-encoders"
    add = parser.add_argument
    add("--documents", type=int, default=10_000, metavar="N", help="size of the generated collection")
    add("--work-folder", type=Path, help="folder that keeps the generated collection (default: a temporary folder)")
    add("--depth", type=int, default=500, metavar="N", help="candidates of each query")
    add("--device", default="cpu", help="torch device")
    add("--threads", type=int, help="threads (default: OMP_NUM_THREADS, or all cores)")
    add("--seconds", type=float, default=5.0, metavar="S", help="approximate seconds for each row")
    add("--repetitions", type=int, default=500, metavar="N", help="largest number of repetitions of a row")
    return parser


def main(argv: list[str] | None = None) -> None:
    parser = arguments()
    options = commandline.parse(parser, argv)
    parser.check_counts(options, "documents", "depth", "threads", "repetitions")
    check_installed()
    if options.depth > options.documents:
        raise InputError(f"the depth {options.depth} exceeds the {options.documents} documents of the collection")
    import torch

    threads = options.threads or available_threads()
    torch.set_num_threads(threads)
    meter = Meter(options.seconds, options.repetitions, options.device)
    with scratch_folder() as scratch:
        folder = options.work_folder or Path(scratch)
        collection = collections.generated(folder, options.documents, options.seed, options.depth, lucene=False)
        measured = rows(collection, options.depth, meter, options.device, threads, options.seed)
        cells = [row.cells() for row in measured]
    print(f"{machine.describe(threads, options.device)}.\n\n{markdown([COLUMNS, *cells], texts=2)}", end="")


if __name__ == "__main__":
    commandline.run(main)
