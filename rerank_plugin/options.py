"""What all commands share: common options, logging, progress, and how an error ends the process."""

from __future__ import annotations

import argparse
import os
import signal
import sys
from typing import Callable

from rerank_plugin.files.errors import InputError
from rerank_plugin.files.progress import progress, set_up_logging  # noqa: F401 (commands take them from here)

JUDGED = "judged:"  # a first stage that is no search: the judged documents of a query
WHOLE = "all"  # another one: every document
DENSE = "dense:"  # dense retrieval with the checkpoint that follows
NEIGHBOURS = "neighbours:"  # retrieval by similar judged queries, with the checkpoint that follows


class HelpFormatter(argparse.ArgumentDefaultsHelpFormatter, argparse.RawDescriptionHelpFormatter):
    """Keeps line breaks, and shows the defaults that say something."""

    def _get_help_string(self, action: argparse.Action) -> str | None:
        return action.help if action.default in (None, False, []) else super()._get_help_string(action)


class Parser(argparse.ArgumentParser):
    """Bad usage is one line on stderr and status 2, like any other bad input."""

    def error(self, message: str):
        self.exit(2, f"error: {message} (see {self.prog} --help)\n")


def parser(prog: str, description: str, epilog: str | None = None) -> argparse.ArgumentParser:
    """An argument parser that shows defaults, keeps line breaks and has the options every command takes."""

    built = Parser(
        prog=f"python -m rerank_plugin.{prog}", description=description, epilog=epilog, formatter_class=HelpFormatter
    )
    add_common_options(built)
    return built


def add_common_options(to: argparse.ArgumentParser) -> None:
    common = to.add_argument_group("common options")
    common.add_argument("--seed", type=int, default=42, help="seed of everything random")
    common.add_argument("--verbose", action="store_true", help="log details to stderr")


def add_first_stage_options(to: argparse.ArgumentParser, judged: bool = False) -> None:
    """Options of the first stage; ``judged`` says that the command takes :data:`JUDGED`, too."""
    first = to.add_argument_group("first stage")
    more = f"; {JUDGED}J, the judged documents of each query, all of them, with score 0" if judged else ""
    first.add_argument(
        "--first-stage",
        default="bm25",
        help=f"bm25, qld or bm25+rm3; {DENSE}CHECKPOINT, the best documents by this model's encodings of the index; "
        f"{NEIGHBOURS}CHECKPOINT, what was relevant for similar judged queries (index --judged); "
        f"{WHOLE}, every document with score 0{more}",
    )
    first.add_argument("--field", default="contents", help="contents (title + abstract), title or abstract")
    first.add_argument("--k1", type=float, default=0.9, help="BM25's k1")
    first.add_argument("--b", type=float, default=0.4, help="BM25's b")
    first.add_argument("--mu", type=float, default=1000.0, help="Dirichlet smoothing of qld")
    first.add_argument("--rm3-terms", type=int, default=10, help="expansion terms")
    first.add_argument("--rm3-documents", type=int, default=10, help="feedback documents")
    first.add_argument("--rm3-weight", type=float, default=0.5, help="weight of the original query")
    _add_dense_options(to)
    _add_fusion_options(to)


def _add_dense_options(to: argparse.ArgumentParser) -> None:
    dense = to.add_argument_group("dense retrieval")
    dense.add_argument(
        "--dense-index",
        default="flat",
        help="flat (compares all documents, exact), ivf or hnsw (approximate; built by index --encode ... --ann)",
    )
    dense.add_argument("--nprobe", type=int, default=32, help="groups of documents that ivf reads")
    dense.add_argument("--ef-search", type=int, default=128, help="documents that hnsw keeps in view")
    dense.add_argument(
        "--dense-feedback",
        type=int,
        default=0,
        metavar="N",
        help="search a second time with the query moved towards the N best documents, as RM3 does for BM25 (0)",
    )
    dense.add_argument(
        "--dense-feedback-weight", type=float, default=0.6, help="of those documents; the query's own is 1"
    )
    dense.add_argument("--neighbours", type=int, default=100, help=f"judged queries that {NEIGHBOURS}CHECKPOINT asks")
    dense.add_argument(
        "--neighbour-power", type=float, default=4.0, help="of their cosines; a high one listens to the closest alone"
    )
    dense.add_argument(
        "--dense-device", help="where the vectors are compared: cpu, or cuda with a faiss for GPUs (default: --device)"
    )


def _add_fusion_options(to: argparse.ArgumentParser) -> None:
    fusion = to.add_argument_group("fusion of first stages")
    fusion.add_argument(
        "--fuse",
        action="append",
        default=[],
        metavar="STAGE",
        help=f"fuse --first-stage with this one (bm25, qld, bm25+rm3, {DENSE}CHECKPOINT or {NEIGHBOURS}CHECKPOINT); may be "
        "repeated",
    )
    fusion.add_argument(
        "--fusion", default="rrf", help="rrf (reciprocal ranks) or linear (scores, brought to [0, 1] query by query)"
    )
    fusion.add_argument(
        "--fusion-weight",
        type=float,
        nargs="+",
        metavar="W",
        help="weights of --first-stage and of each --fuse; of two, the first one's share is enough (default: equal)",
    )
    fusion.add_argument("--fusion-k", type=float, default=60.0, help="k of rrf")
    fusion.add_argument("--fusion-depth", type=int, default=1000, help="documents taken of each stage; 0 for all")


def first_stage_config(options: argparse.Namespace):
    """The configuration of a command's first stage: a frozen dataclass with a ``name``, which
    :meth:`~rerank_plugin.indexes.index_folder.Index.first_stage` opens.

    Raises:
        InputError: an unknown stage, or options that none can have.
    """
    if options.first_stage.startswith(JUDGED):
        raise InputError(
            f"--first-stage {options.first_stage}: only search takes judged documents as candidates; write its run "
            "(search --first-stage judged:J --output RUN) and name that where this command takes a run"
        )
    if not options.fuse:
        if options.fusion_weight:
            raise InputError("--fusion-weight is for several stages: name the others with --fuse")
        return _stage_config(options.first_stage, options)
    from rerank_plugin.retrieval.fusion import FusionConfig

    names = [options.first_stage, *options.fuse]
    if WHOLE in names or any(name.startswith(JUDGED) for name in names):
        raise InputError(f"--fuse takes searches: {WHOLE} and {JUDGED}J rank nothing that could be fused")
    stages = tuple(_stage_config(name, options) for name in names)
    weights = tuple(options.fusion_weight or ())
    return FusionConfig(stages, options.fusion, weights, options.fusion_k, options.fusion_depth)


def _stage_config(name: str, options: argparse.Namespace):
    """The configuration of one stage."""
    if name == WHOLE:
        from rerank_plugin.retrieval.whole import WholeConfig

        return WholeConfig()
    if name.startswith(DENSE):
        from rerank_plugin.retrieval.dense import DenseConfig

        device = options.dense_device or getattr(options, "device", "cpu")
        how = (options.dense_index, options.nprobe, options.ef_search, device)
        feedback = (options.dense_feedback, options.dense_feedback_weight)
        return DenseConfig(name.removeprefix(DENSE), *how, *feedback)
    if name.startswith(NEIGHBOURS):
        from rerank_plugin.retrieval.neighbours import NeighboursConfig

        return NeighboursConfig(name.removeprefix(NEIGHBOURS), options.neighbours, options.neighbour_power)
    from rerank_plugin.retrieval.lucene import FIRST_STAGES, FirstStageConfig

    if name not in FIRST_STAGES:
        known = ", ".join((*FIRST_STAGES, f"{DENSE}CHECKPOINT", f"{NEIGHBOURS}CHECKPOINT", WHOLE))
        raise InputError(f"unknown first stage '{name}'; known: {known}")
    return FirstStageConfig(
        name,
        options.field,
        options.k1,
        options.b,
        options.mu,
        options.rm3_terms,
        options.rm3_documents,
        options.rm3_weight,
    )


def run(main: Callable[[list[str] | None], None], argv: list[str] | None = None) -> None:
    """Run a command's ``main`` and exit: 0 on success, 2 with one line on stderr on bad input, 128 + N on a signal.

    SIGTERM (docker stop, batch systems) and SIGHUP (a terminal that closes; unless it is ignored, as under nohup) end a
    command as Ctrl-C does: what it began is tidied up.
    """
    signal.signal(signal.SIGTERM, _end)
    if signal.getsignal(signal.SIGHUP) != signal.SIG_IGN:
        signal.signal(signal.SIGHUP, _end)
    try:
        main(argv)
    except InputError as error:
        print(f"error: {' '.join(str(error).split())}", file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt as interrupt:
        number = interrupt.args[0] if interrupt.args else signal.SIGINT
        print("interrupted", file=sys.stderr)
        sys.exit(128 + number)
    except BrokenPipeError:  # the reader of a pipe (head, less) has gone: not our failure, but nothing more to say
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)


def _end(number: int, frame) -> None:
    """A signal's handler that ends the process as Ctrl-C does."""
    raise KeyboardInterrupt(number)
