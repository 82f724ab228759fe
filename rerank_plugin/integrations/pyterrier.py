"""PyTerrier: first stages and rerankers as transformers (extra ``pyterrier``).

Frames have PyTerrier's columns: queries ``qid`` and ``query``; results also ``docno``, ``score`` and ``rank``, which
counts from 0. Other columns stay as they are.
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

HELP = "https://pyterrier.readthedocs.io/"  # without this URL, drawing a pipeline looks for a page on the network


class Retrieve(pt.Transformer):
    """Retrieves documents of an index: queries in, results out.

    Args:
        index: the folder of an index, or an open `Index`.
        first_stage: as for `Searcher`: ``bm25``, ``bm25+rm3``, ``hybrid``, ...
        num_results: largest number of documents to retrieve for a query.
        threads: number of threads for retrieval.
    """

    def __init__(self, index: str | Path | Index, first_stage: str = "bm25", num_results: int = 1000, threads: int = 2):
        super().__init__()
        self.searcher = Searcher(index, first_stage=first_stage, depth=num_results)
        self.first_stage, self.num_results, self.threads = first_stage, num_results, threads

    def transform(self, inp: pd.DataFrame) -> pd.DataFrame:
        """The results of a frame of queries."""
        pt.validate.query_frame(inp, extra_columns=["query"])
        ids = [str(row) for row in range(len(inp))]  # a qid may occur twice
        texts = inp["query"].tolist()
        hits_by_id = self.searcher.batch_search(texts, ids, self.num_results, self.threads) if ids else {}
        row_hits = [(int(row), hit) for row, hits in hits_by_id.items() for hit in hits]
        results = inp.iloc[[row for row, _ in row_hits]].reset_index(drop=True)
        return results.assign(
            docno=[hit.docid for _, hit in row_hits],
            score=pd.Series([hit.score for _, hit in row_hits], dtype=float),
            rank=pd.Series([hit.rank - 1 for _, hit in row_hits], dtype="int64"),
        )

    def fuse_rank_cutoff(self, k: int) -> Retrieve:
        """The transformer that retrieves k results, to compile ``% k``."""
        if k >= self.num_results:
            return self
        return Retrieve(self.searcher.index, self.first_stage, k, self.threads)

    def schematic(self, *, input_columns: list[str] | None = None) -> dict[str, Any]:
        """Label and link of the transformer in a drawn pipeline."""
        return {"label": f"Retrieve {self.first_stage}", "help_url": HELP}


class Rerank(pt.Transformer):
    """Re-ranks results: by their ``docno`` in an index, or by their columns ``text`` and, if present, ``title``.

    It reads the column ``score`` as first-stage scores.

    Args:
        reranker: as for `Reranker.load`; a list for a cascade.
        index: the folder of an index that has the documents, or an open `Index`; None to read texts.
        statistics: for texts, an index whose statistics to score them with; by default those of the checkpoint.
        passages: for texts, whether a text longer than the model's limit gets the score of its best passage.
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
        """The re-ranked results, query by query."""
        has_index = self.reranker.index is not None
        pt.validate.result_frame(inp, extra_columns=["query"] if has_index else ["query", "text"])
        inp = inp.reset_index(drop=True)
        ranked = [self._rerank(results) for _, results in inp.groupby("qid", sort=False)]
        if not ranked:
            return inp.assign(score=pd.Series(dtype=float), rank=pd.Series(dtype="int64"))
        return pd.concat(ranked, ignore_index=True)

    def _rerank(self, results: pd.DataFrame) -> pd.DataFrame:
        """The re-ranked results of one query."""
        query, scores = results["query"].iloc[0], results["score"].to_numpy() if "score" in results else None
        if self.reranker.index is not None:
            hits = self.reranker.rerank(query, results["docno"].tolist(), first_stage_scores=scores)
            once = results.reset_index().drop_duplicates("docno").set_index("docno")
            places = once["index"].loc[[hit.docid for hit in hits]]
        else:
            texts = results[[name for name in ("title", "text") if name in results]].to_dict("records")
            hits = self.reranker.rerank(query, texts, first_stage_scores=scores, passages=self.passages)
            places = results.index[[hit.index for hit in hits]]
        ranked = results.loc[places].reset_index(drop=True)
        return ranked.assign(score=[hit.score for hit in hits], rank=range(len(hits)))

    def schematic(self, *, input_columns: list[str] | None = None) -> dict[str, Any]:
        """Label and link of the transformer in a drawn pipeline."""
        return {"label": f"Rerank {self.reranker.name}", "help_url": HELP}


class IndexArtifact(pt.Artifact):
    """An index folder as an artifact, which PyTerrier loads, packs and shares: ``pt.Artifact.load(folder)``.

    PyTerrier finds it by an entry point of the group ``pyterrier.artifact``.

    Args:
        path: the folder of an index.
    """

    ARTIFACT_TYPE, ARTIFACT_FORMAT = "sparse_index", "rerank_plugin"

    def retriever(self, first_stage: str = "bm25", num_results: int = 1000, threads: int = 2) -> Retrieve:
        """`Retrieve` over this index."""
        return Retrieve(self._folder, first_stage, num_results, threads)

    def reranker(self, reranker: str | Path) -> Rerank:
        """`Rerank` of documents of this index."""
        return Rerank(reranker, self._folder)

    @property
    def _folder(self) -> Path:
        assert isinstance(self.path, Path)  # an index is never in memory only
        return self.path


def artifact_metadata(folder: str, files: list[str]) -> dict[str, str] | None:
    """Type and format of a folder with these entries if it is an index, else None."""
    if DESCRIPTION not in files or "generations" not in files:
        return None
    return {"type": IndexArtifact.ARTIFACT_TYPE, "format": IndexArtifact.ARTIFACT_FORMAT}


class LuceneJava(pt.java.JavaInitializer):
    """Adds Lucene to the Java that PyTerrier starts, since a process has only one Java.

    PyTerrier finds it by an entry point of the group ``pyterrier.java.init``.
    """

    def pre_init(self, jnius_config: Any) -> None:
        """Add Anserini's jar, which contains Lucene, to the class path."""
        jnius_config.add_classpath(str(anserini_jar()))
