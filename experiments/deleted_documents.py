"""``python -m experiments.deleted_documents``: what deleted documents change in BM25's scores until an index is merged.

Until then Lucene counts them in document frequencies, mean length and number of documents. Random documents are
deleted, and the runs before and after the merge compared.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

import rerank_plugin as rp
from rerank_plugin import RankedList
from rerank_plugin import options as commandline
from rerank_plugin.corpora import CORPUS, accepted
from rerank_plugin.files.outputs import scratch_folder

SHARES = (0.05, 0.1, 0.2, 0.5)


def compared(before: dict[str, RankedList], after: dict[str, RankedList], top: int = 10) -> tuple[float, float, float]:
    """The mean and the largest relative difference of scores of a query's best documents, as shares; and the share of
    queries whose best documents are others, or in another order.
    """
    differences, changed = [], []
    for query, ranked in after.items():
        scores = dict(zip(before[query].doc_ids, before[query].scores))
        for id, score in list(zip(ranked.doc_ids, ranked.scores))[:top]:
            if id in scores:
                differences.append(abs(scores[id] / score - 1))
        changed.append(list(before[query].doc_ids[:top]) != list(ranked.doc_ids[:top]))
    return float(np.mean(differences)), max(differences), float(np.mean(changed))


def main(argv: list[str] | None = None) -> None:
    parser = commandline.parser("deleted_documents", __doc__.split("\n\n", 1)[1])
    parser.prog = "python -m experiments.deleted_documents"
    parser.add_argument("--corpora", nargs="+", required=True, metavar="C", help=f"with queries: {accepted(CORPUS)}")
    parser.add_argument("--split", default="test", help="of the queries")
    options = commandline.parse(parser, argv)
    print(
        "| corpus | deleted | nDCG@10 before the merge | after | mean difference of scores | largest | changed top 10 |"
    )
    print("| --- | ---: | ---: | ---: | ---: | ---: | ---: |")
    for corpus in options.corpora:
        queries = f"{corpus}:{options.split}"
        for share in SHARES:
            with scratch_folder() as folder:
                index = rp.build_index(corpus, folder / "index")
                random = np.random.default_rng(options.seed)
                rows = random.choice(len(index), round(share * len(index)), replace=False)
                index = rp.update_index(index, delete=index.forward.ids.take(np.sort(rows)))
                before = rp.rank_many(index, queries)
                after = rp.rank_many(rp.update_index(index, merge=True), queries)
            runs = rp.evaluate_runs(queries, {"before": before, "after": after}, ["nDCG@10"])["runs"]
            values = [f"{runs[name]['nDCG@10']:.4f}" for name in ("before", "after")]
            mean, largest, changed = compared(before, after)
            cells = [Path(corpus).name, f"{share:.0%}", *values, f"{mean:.2%}", f"{largest:.1%}", f"{changed:.0%}"]
            print(f"| {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    commandline.run(main)
