"""PyTerrier: first stages and rerankers as transformers (extra ``pyterrier``).

Frames have PyTerrier's columns: queries ``qid`` and ``query``; results also ``docno``, ``score`` and ``rank``, which
counts from 0. Other columns stay as they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, is_dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from rerank_plugin.base.errors import InputError
from rerank_plugin.base.extras import naming_extras
from rerank_plugin.indexes.index_folder import Index
from rerank_plugin.indexes.layout import DESCRIPTION
from rerank_plugin.indexes.locations import open_index
from rerank_plugin.java.jvm import anserini_jar
from rerank_plugin.ranking.reranker import Reranker, absolute, as_query, at_least
from rerank_plugin.ranking.searcher import Searcher
from rerank_plugin.ranking.stored_documents import StoredDocuments
from rerank_plugin.retrieval.lucene import RM3, LuceneFirstStage
from rerank_plugin.retrieval.register import configure

with naming_extras():
    import pandas as pd
    import pyterrier as pt

HELP = "https://pyterrier.readthedocs.io/"  # without this URL, drawing a pipeline looks for a page on the network


class Retrieve(pt.Transformer):
    """Retrieves documents of an index: queries in, results out.

    The arguments except ``index`` are parameters that ``pt.GridScan`` and ``set_parameter`` change, and so are the
    settings: each retrieval follows their values.

    Args:
        index: the folder of an index, or an open `Index`.
        first_stage: as for `Searcher`: ``bm25``, ``bm25+rm3``, ``hybrid``, ...
        num_results: largest number of documents to retrieve for a query.
        threads: number of threads for retrieval.
        settings: of the first stage, fields of its configuration: ``k1``, ``b``, ``mu``, ``rm3_terms``, ...

    Raises:
        InputError: as in `Searcher`, or the first stage has no such setting.
    """

    def __init__(
        self,
        index: str | Path | Index,
        first_stage: str = "bm25",
        num_results: int = 1000,
        threads: int = 2,
        **settings: Any,
    ):
        super().__init__()
        self.settings, self.threads = settings, threads
        self.first_stage, self.num_results, self._made_of = first_stage, num_results, absolute(index)
        self._configured = self._configuration()
        self.searcher = Searcher(index, first_stage=self._configured, depth=num_results)

    def __getattr__(self, name: str) -> Any:
        """The value of a setting of the first stage."""
        if not name.startswith("_") and name in _setting_names(config := self._configuration()):
            return getattr(config, name)
        raise AttributeError(f"'{type(self).__name__}' has no attribute '{name}'")

    def __setattr__(self, name: str, value: Any) -> None:
        if "searcher" in self.__dict__ and name in _setting_names(self._configured):
            self.settings[name] = value
        else:
            super().__setattr__(name, value)

    def _configuration(self) -> Any:
        """The configuration of the first stage with the settings."""
        config = configure(self.first_stage) if isinstance(self.first_stage, str) else self.first_stage
        known = _setting_names(config)
        if unknown := [name for name in self.settings if name not in known]:
            raise InputError(f"'{config.name}' has no setting {unknown[0]}; it has: {', '.join(known) or 'none'}")
        return replace(config, **self.settings) if self.settings else config

    def transform(self, inp: pd.DataFrame) -> pd.DataFrame:
        """The results of a frame of queries."""
        pt.validate.query_frame(inp, extra_columns=["query"])
        _check_query_ids(inp)
        if (config := self._configuration()) != self._configured:
            self.searcher.set_first_stage(config)
            self._configured = config
        self.searcher.depth = at_least(self.num_results, "num_results")
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
        return Retrieve(self.searcher.index, self.first_stage, k, self.threads, **self.settings)

    def text_loader(self, fields: str | Sequence[str] = "*", *, verbose: bool = False) -> LoadTexts:
        """`LoadTexts` of this index, for ``pt.text.get_text``."""
        return LoadTexts(self.searcher.index, fields)

    def schematic(self, *, input_columns: list[str] | None = None) -> dict[str, Any]:
        """Label and link of the transformer in a drawn pipeline."""
        return {"label": f"Retrieve {self.first_stage}", "help_url": HELP}

    def __repr__(self) -> str:
        settings = "".join(f", {name}={value!r}" for name, value in self.settings.items())
        folder = str(self.searcher.index.folder)
        return f"Retrieve({folder!r}, {self.first_stage!r}, num_results={self.num_results}{settings})"

    __hash__ = object.__hash__  # PyTerrier's is of the repr, which parameters change

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle and copy it as its arguments: the copy opens the index anew."""
        made = partial(type(self), **self.settings)
        return made, (self._made_of, self.first_stage, self.num_results, self.threads)


class Rerank(pt.Transformer):
    """Re-ranks results: by their ``docno`` in an index, or by their columns ``text`` and, if present, ``title``.

    It reads the column ``score`` as first-stage scores. Without this column, as after ``|`` and ``&``, a model that
    reads BM25's scores gets those of the index, as shares of the best score of any document.

    The scores of a listwise reranker (`Reranker.listwise`) depend on the list, so it takes whole lists only: those with
    a ``rank`` from 0 on without gaps, or without scores.

    Args:
        reranker: as for `Reranker.load`; a list for a cascade; or a `Reranker`. A parameter, as ``passages``.
        index: the folder of an index that has the documents, or an open `Index`; None to read texts.
        statistics: for texts, an index whose statistics to score them with; by default those of the checkpoint.
        passages: for texts, whether a text longer than the model's limit gets the score of its best passage.
    """

    def __init__(
        self,
        reranker: str | Path | Sequence[str | Path] | Reranker,
        index: str | Path | Index | None = None,
        statistics: str | Path | Index | None = None,
        passages: bool = False,
    ):
        super().__init__()
        self._index, self._statistics = index, statistics
        self.reranker, self.passages = reranker, passages

    @property
    def reranker(self) -> Reranker:
        """The open reranker; one that is set by its name is loaded."""
        return self._reranker

    @reranker.setter
    def reranker(self, reranker: str | Path | Sequence[str | Path] | Reranker) -> None:
        if not isinstance(reranker, Reranker):
            reranker = Reranker.load(reranker, self._index, statistics=self._statistics)
        self._reranker, self._bm25 = reranker, None

    def transform(self, inp: pd.DataFrame) -> pd.DataFrame:
        """The re-ranked results, query by query.

        Raises:
            InputError: as in `Reranker.rerank`; a row has no qid, a query no text in any row, or a listwise reranker
                gets a part of a list.
        """
        has_index = self.reranker.index is not None
        pt.validate.result_frame(inp, extra_columns=["query"] if has_index else ["query", "text"])
        _check_query_ids(inp)
        inp = inp.reset_index(drop=True)
        ranked = [self._rerank(qid, results) for qid, results in inp.groupby("qid", sort=False)]
        if not ranked:
            return inp.assign(score=pd.Series(dtype=float), rank=pd.Series(dtype="int64"))
        return pd.concat(ranked, ignore_index=True)

    def _rerank(self, qid: Any, results: pd.DataFrame) -> pd.DataFrame:
        """The re-ranked results of one query."""
        query, scores = _query_text(qid, results), results["score"].to_numpy() if "score" in results else None
        if self.reranker.listwise and scores is not None:
            self._check_list(qid, results)
        if self.reranker.index is not None:
            docnos = results["docno"].tolist()
            if scores is None and self.reranker.trained_after is not None:
                docnos, scores = self._with_scores(query, docnos)
            once = results.reset_index().drop_duplicates("docno").set_index("docno")
            hits = self.reranker.rerank(query, docnos, first_stage_scores=scores)
            hits = [hit for hit in hits if hit.docid in once.index]
            places = once["index"].loc[[hit.docid for hit in hits]]
        else:
            texts = results[[name for name in ("title", "text") if name in results]].to_dict("records")
            hits = self.reranker.rerank(query, texts, first_stage_scores=scores, passages=self.passages)
            places = results.index[[hit.index for hit in hits]]
        ranked = results.loc[places].reset_index(drop=True)
        if ranked["query"].isna().any():
            ranked["query"] = ranked["query"].fillna(query)
        return ranked.assign(score=[hit.score for hit in hits], rank=range(len(hits)))

    def _check_list(self, qid: Any, results: pd.DataFrame) -> None:
        ranks = set(results["rank"]) if "rank" in results else set()
        if ranks != {*range(len(ranks))} or not ranks:
            raise InputError(
                f"'{self.reranker.name}' scores a document by its whole list, and ranks are missing from that of the "
                f"query '{qid}', as from batches and from what a cache lacks: re-rank whole lists (pt.model.add_ranks "
                "where rows were left out on purpose), or documents of an index without the column score"
            )

    def _with_scores(self, query: str, docnos: list[str]) -> tuple[list[str], np.ndarray]:
        """The documents with BM25, and behind them the best document of all, to which the model's shares refer."""
        index, name = self.reranker.index, self.reranker.trained_after
        assert index is not None and name is not None
        if self._bm25 is None:
            self._bm25 = index.first_stage(configure(name))
        if not isinstance(self._bm25, LuceneFirstStage) or name == RM3:
            raise InputError(
                f"the results have no score, as after | and &, and '{self.reranker.name}' reads those of {name}, which "
                "cannot be computed here for single documents: combine results by + or ^"
            )
        record = as_query(query)
        rows = index.forward.rows(docnos)
        if (rows < 0).any():  # the reranker refuses them
            return docnos, np.zeros(len(rows), np.float32)
        best = self._bm25.search(record, 1)
        if self.reranker.checkpoint is not None and not np.isin(best.rows, rows).all():  # it would count in a cascade
            rows, docnos = np.append(rows, best.rows), [*docnos, *index.forward.ids.take(best.rows)]
        return docnos, self._bm25.scores_of(record, rows)

    def schematic(self, *, input_columns: list[str] | None = None) -> dict[str, Any]:
        """Label and link of the transformer in a drawn pipeline."""
        return {"label": f"Rerank {self.reranker.name}", "help_url": HELP}

    def __repr__(self) -> str:
        index = "" if self.reranker.index is None else f", {str(self.reranker.index.folder)!r}"
        return f"Rerank({self.reranker.name!r}{index}{', passages=True' if self.passages else ''})"

    __hash__ = object.__hash__  # as of `Retrieve`

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle and copy it with its reranker, which is opened anew."""
        return type(self), (self.reranker, absolute(self._index), absolute(self._statistics), self.passages)


class LoadTexts(pt.Transformer):
    """Adds columns of the stored documents of an index, by ``docno``; ``pt.text.get_text(index)`` makes one.

    Args:
        index: the folder of an index, or an open `Index`.
        fields: ``title``, ``text`` (the abstract), or metadata (``date``, ``journal``, ...) that the index has; one, a
            list, or ``*`` for all.

    Raises:
        InputError: the index has no such field.
    """

    def __init__(self, index: str | Path | Index, fields: str | Sequence[str] = "*"):
        super().__init__()
        self.index, self._made_of = open_index(index), absolute(index)
        known = ("title", "text", *(self.index.description.get("lucene", {}).get("metadata") or ()))
        self.fields = list(known) if fields == "*" else [fields] if isinstance(fields, str) else list(fields)
        if unknown := [name for name in self.fields if name not in known]:
            raise InputError(
                f"{self.index.folder} has no field '{unknown[0]}' of documents; it has: {', '.join(known)}"
            )
        self._documents: StoredDocuments | None = None

    def transform(self, inp: pd.DataFrame) -> pd.DataFrame:
        """The frame with the columns; an `InputError` if a document is not in the index, or is not stored."""
        pt.validate.columns(inp, includes=["docno"])
        values = {docno: self._values(docno) for docno in inp["docno"].unique()}
        columns = {name: [values[docno][name] for docno in inp["docno"]] for name in self.fields}
        return inp.assign(**{name: pd.Series(column, inp.index, dtype=object) for name, column in columns.items()})

    def _values(self, docno: str) -> dict[str, Any]:
        """The fields of a document by name; None where it lacks one."""
        if self._documents is None:
            self._documents = StoredDocuments(self.index)
        row = int(self.index.forward.rows([docno])[0])
        document = None if row < 0 else self._documents.as_indexed(row)
        if document is None:
            problem = "does not store its documents" if row >= 0 else f"has no document '{docno}'"
            raise InputError(f"{self.index.folder} {problem}: load the texts of the index that was searched")
        known = {"title": document.title, "text": document.abstract, **(document.metadata or {})}
        return {name: known.get(name) for name in self.fields}

    def __repr__(self) -> str:
        return f"LoadTexts({str(self.index.folder)!r}, {self.fields!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self._made_of, self.fields)


def _setting_names(config: Any) -> list[str]:
    """The settings of a first stage's configuration."""
    return (
        [field.name for field in fields(config) if field.init and field.name != "name"] if is_dataclass(config) else []
    )


def _check_query_ids(inp: pd.DataFrame) -> None:
    if missing := int(inp["qid"].isna().sum()):
        raise InputError(f"{missing} of {len(inp)} rows have no qid: give every row the id of its query")


def _query_text(qid: Any, results: pd.DataFrame) -> str:
    """The text of a query, which ``+`` leaves out in rows of its right side only."""
    texts = results["query"].dropna()
    if not len(texts):
        raise InputError(
            f"the query '{qid}' has no text in any row, as where only the right side of + finds documents: merge the "
            "queries into the results before re-ranking"
        )
    return texts.iloc[0]


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

    def text_loader(self, fields: str | Sequence[str] = "*", *, verbose: bool = False) -> LoadTexts:
        """`LoadTexts` of this index, for ``pt.text.get_text``."""
        return LoadTexts(self._folder, fields)

    @property
    def _folder(self) -> Path:
        assert isinstance(self.path, Path)  # an index is never in memory only
        return self.path


def artifact_metadata(folder: str, files: list[str]) -> dict[str, str] | None:
    """Type and format of a folder with these entries if it is an index, else None."""
    if DESCRIPTION not in files or "commits" not in files:
        return None
    return {"type": IndexArtifact.ARTIFACT_TYPE, "format": IndexArtifact.ARTIFACT_FORMAT}


class LuceneJava(pt.java.JavaInitializer):
    """Adds Lucene to the Java that PyTerrier starts, since a process has only one Java.

    PyTerrier finds it by an entry point of the group ``pyterrier.java.init``.
    """

    def pre_init(self, jnius_config: Any) -> None:
        """Add Anserini's jar, which contains Lucene, to the class path."""
        jnius_config.add_classpath(str(anserini_jar()))
