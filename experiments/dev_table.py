"""What is chosen, and on what: mean nDCG@10 of the systems without judgments on all dev sets, as a table.

    python -m experiments.dev_collections --data data --output runs/dev
    python -m experiments.dev_table --data data --dev runs/dev --work runs/dev-table

The dev queries of NFCorpus and BioASQ, and the collections of :mod:`experiments.dev_collections`. The work folder keeps
the indexes with their encodings; after a change of the encoder or its adaptation, give another.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

import rerank_plugin as rp
from experiments.dev_collections import RULES
from experiments.models import DEPTH, RERANKED, System
from rerank_plugin.corpora import queries_and_judgments
from rerank_plugin.encoding.index_encoder import IndexEncoder
from rerank_plugin.files.tables import markdown
from rerank_plugin.options import run

JUDGED = ("nfcorpus", "bioasq-snippets")
MEASURE = "nDCG@10"
SYSTEMS = [
    System("BM25", "bm25"),
    System("BM25+RM3", "bm25+rm3"),
    System("BM25, then delta", "bm25", "delta"),
    System("hybrid", "hybrid"),
    System("hybrid, then delta", "hybrid", "delta"),
    System("hybrid, then delta+0.5", "hybrid", "delta+0.5"),
]


def opened(corpus: Path, folder: Path) -> rp.Index:
    """The index of a collection, encoded by the adapted encoder; built where it is missing."""
    if not folder.is_dir():
        rp.build_index(str(corpus), folder)
    index = rp.Index(folder)
    encoder = IndexEncoder(index.forward, "ktrel").adapted()
    if encoder.store() is None:
        encoder.encode()
    return index


def measure(data: Path, dev: Path, work: Path) -> dict[str, dict[str, float]]:
    """The measure by system and dev set."""
    corpora = {name: data / name for name in JUDGED} | {name: dev / name for name in RULES}
    values: dict[str, dict[str, float]] = {system.name: {} for system in SYSTEMS}
    for name, corpus in corpora.items():
        index = opened(corpus, work / name)
        queries, judgments = queries_and_judgments(f"{corpus}:dev")
        for system in SYSTEMS:
            depth = RERANKED if system.reranker else DEPTH
            found = rp.rank_many(index, queries, system.reranker, system.first_stage, depth)
            measured = rp.evaluate_runs(judgments, {system.name: found}, [MEASURE])
            values[system.name][name] = measured["runs"][system.name][MEASURE]
    return values


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m experiments.dev_table", description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True, help="folder of the judged collections")
    parser.add_argument("--dev", type=Path, required=True, help="folder that dev_collections wrote")
    parser.add_argument("--work", type=Path, required=True, help="folder that keeps the indexes")
    options = parser.parse_args(argv)
    values = measure(options.data, options.dev, options.work)
    table = [["", *next(iter(values.values())), "mean"]]
    for name, by_set in values.items():
        cells = [*by_set.values(), float(np.mean(list(by_set.values())))]
        table.append([name, *(f"{value:.4f}" for value in cells)])
    print(markdown(table), end="")


if __name__ == "__main__":
    run(main)
