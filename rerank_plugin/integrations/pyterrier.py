"""PyTerrier: first stages and rerankers as transformers of its pipelines (extra ``pyterrier``).

Frames have PyTerrier's columns: ``qid`` and ``query`` of queries, and of results also ``docno``, ``score`` and
``rank``, which counts from 0. Other columns stay as they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rerank_plugin.base.extras import naming_extras
from rerank_plugin.indexes.index_folder import DESCRIPTION, Index
from rerank_plugin.java.jvm import anserini_jar
from rerank_plugin.ranking.reranker import Reranker
from rerank_plugin.ranking.searcher import Searcher

with naming_extras():
    import pandas as pd
    import pyterrier as pt

HELP = "https://pyterrier.readthedocs.io/"  # a transformer without a page of its own is looked for on the network


class Retrieve(pt.Transformer):
    """Retrieves documents of an index: queries in, ranked documents out.

    Args:
        index: the folder of an index, or an open `Index`.
        first_stage: what `Searcher` takes, such as ``bm25``, ``bm25+rm3`` or ``hybrid``.
        num_results: how many documents of a query, at most.
        threads: that retrieve.
    """

    def __init__(self, index: str | Path | Index, first_stage: str = "bm25", num_results: int = 1000, threads: int = 2):
        super().__init__()
        self.searcher = Searcher(index, first_stage=first_stage, depth=num_results)
        self.first_stage, self.num_results, self.threads = first_stage, num_results, threads

    def transform(self, inp: pd.DataFrame) -> pd.DataFrame:
        """The results of a frame of queries."""
        pt.validate.query_frame(inp, extra_columns=["query"])
        ids = [str(place) for place in range(len(inp))]  # the same query may be asked twice
        texts = inp["query"].tolist()
        found = self.searcher.batch_search(texts, ids, self.num_results, self.threads) if ids else {}
        rows = [(int(place), hit) for place, hits in found.items() for hit in hits]
        result = inp.iloc[[place for place, _ in rows]].reset_index(drop=True)
        return result.assign(
            docno=[hit.docid for _, hit in rows],
            score=pd.Series([hit.score for _, hit in rows], dtype=float),
            rank=pd.Series([hit.rank - 1 for _, hit in rows], dtype="int64"),
        )

    def fuse_rank_cutoff(self, k: int) -> Retrieve:
        """The transformer with a lower number of results, for ``% k``."""
        if k >= self.num_results:
            return self
        return Retrieve(self.searcher.index, self.first_stage, k, self.threads)

    def schematic(self, *, input_columns: list[str] | None = None) -> dict[str, Any]:
        """What a drawn pipeline shows."""
        return {"label": f"Retrieve {self.first_stage}", "help_url": HELP}


class Rerank(pt.Transformer):
    """Re-ranks results: by their ``docno`` in an index, or by their ``text`` (and ``title``, where that is a column).

    The scores of the results are the first-stage scores.

    Args:
        reranker: what `Reranker.load` takes, also a list for several in a row.
        index: the folder of an index that has the documents, or an open `Index`; None to read texts.
        statistics: for texts, an index whose statistics they are scored by; by default those of the checkpoint.
        passages: for texts, whether one that is longer than the model reads is scored by its best passage.
    """

    def __init__(
        self,
        reranker: str | Path | Sequence[str | Path],
        index: str | Path | Index | None = None,
        statistics: str | Path | Index | None = None,
        passages: bool = False,
    ):
        super().__init__()
        self.reranker = Reranker.load(reranker, index, statistics=statistics)
        self.passages = passages

    def transform(self, inp: pd.DataFrame) -> pd.DataFrame:
        """The results in their new order, query by query."""
        of_index = self.reranker.index is not None
        pt.validate.result_frame(inp, extra_columns=["query"] if of_index else ["query", "text"])
        inp = inp.reset_index(drop=True)
        ranked = [self._ranked(results) for _, results in inp.groupby("qid", sort=False)]
        if not ranked:
            return inp.assign(score=pd.Series(dtype=float), rank=pd.Series(dtype="int64"))
        return pd.concat(ranked, ignore_index=True)

    def _ranked(self, results: pd.DataFrame) -> pd.DataFrame:
        """The results of one query."""
        query, scores = results["query"].iloc[0], results["score"].to_numpy() if "score" in results else None
        if self.reranker.index is not None:
            hits = self.reranker.rerank(query, results["docno"].tolist(), first_stage_scores=scores)
            places = results.reset_index().set_index("docno")["index"].loc[[hit.docid for hit in hits]]
        else:
            texts = results[[name for name in ("title", "text") if name in results]].to_dict("records")
            hits = self.reranker.rerank(query, texts, first_stage_scores=scores, passages=self.passages)
            places = results.index[[hit.index for hit in hits]]
        ranked = results.loc[places].reset_index(drop=True)
        return ranked.assign(score=[hit.score for hit in hits], rank=range(len(hits)))

    def schematic(self, *, input_columns: list[str] | None = None) -> dict[str, Any]:
        """What a drawn pipeline shows."""
        return {"label": f"Rerank {self.reranker.name}", "help_url": HELP}


class IndexArtifact(pt.Artifact):
    """The folder of an index as an artifact, which PyTerrier loads, packs and shares: ``pt.Artifact.load(folder)``.

    An entry point of the group ``pyterrier.artifact`` names it.

    Args:
        path: the folder of an index.
    """

    ARTIFACT_TYPE, ARTIFACT_FORMAT = "sparse_index", "rerank_plugin"

    def retriever(self, first_stage: str = "bm25", num_results: int = 1000, threads: int = 2) -> Retrieve:
        """`Retrieve` over this index."""
        return Retrieve(self.path, first_stage, num_results, threads)

    def reranker(self, reranker: str | Path) -> Rerank:
        """`Rerank` of documents of this index."""
        return Rerank(reranker, self.path)


def artifact_metadata(folder: str, files: list[str]) -> dict[str, str] | None:
    """Type and format of a folder with these files and folders, if it is an index; else None."""
    if DESCRIPTION not in files or "segments" not in files:
        return None
    return {"type": IndexArtifact.ARTIFACT_TYPE, "format": IndexArtifact.ARTIFACT_FORMAT}


class LuceneJava(pt.java.JavaInitializer):
    """Adds Lucene to the Java that PyTerrier starts: a process has only one.

    An entry point of the group ``pyterrier.java.init`` names it, so it works where PyTerrier starts Java first.
    """

    def pre_init(self, jnius_config: Any) -> None:
        """Add Anserini's jar, which holds Lucene, to the class path."""
        jnius_config.add_classpath(str(anserini_jar()))
