"""Fits the relevance of a checkpoint's scores on candidates of judged queries, and writes it into its config.json.

Trainings fit it themselves; this is for checkpoints without it, such as bundled ones:

    python -m experiments.relevance delta --index indexes/nfcorpus --queries data/nfcorpus:dev
"""

from __future__ import annotations

import argparse
import json

import numpy as np

import rerank_plugin as rp
from rerank_plugin.files.checksums import SEAL, sealed
from rerank_plugin.files.outputs import FileKind, replacing
from rerank_plugin.models.checkpoint import CONFIG_FILE, Checkpoint
from rerank_plugin.models.relevance import RELEVANCE, Relevance
from rerank_plugin.options import run
from rerank_plugin.rerankers import checkpoint_of

CONFIG = FileKind("the config.json of a checkpoint", lambda path: path.name == CONFIG_FILE)


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m experiments.relevance", description=__doc__.splitlines()[0])
    parser.add_argument("reranker", help="as the search command takes it")
    parser.add_argument("--index", required=True)
    parser.add_argument("--queries", required=True)
    parser.add_argument("--depth", type=int, default=100)
    options = parser.parse_args(argv)
    folder = checkpoint_of(options.reranker)
    if folder is None:
        raise rp.InputError(f"{options.reranker} has no checkpoint to write to")
    rankings = rp.rank_many(options.index, options.queries, options.reranker, depth=options.depth)
    fitted = Relevance.fitted(np.concatenate([ranking.scores for ranking in rankings.values()]))
    path = folder / CONFIG_FILE
    description = sealed(Checkpoint.open(folder).description | {RELEVANCE: fitted._asdict()}, SEAL)
    with replacing(path, CONFIG, overwrite=True) as file:
        file.write(json.dumps(description, indent=1, ensure_ascii=False).encode())
    print(f"{path}: {fitted}")


if __name__ == "__main__":
    run(main)
