"""Haystack: a retriever and a ranker as components of its pipelines (extra ``haystack``).

Their arguments are names, so that pipelines can be saved. They open the index and load the model when a pipeline warms
up. The score of a document is the reranker's relevance between 0 and 1; without a reranker, the first-stage score.
"""

from __future__ import annotations

import os
from dataclasses import replace
from datetime import date
from itertools import groupby
from pathlib import Path
from typing import Any

from rerank_plugin.base.errors import InputError
from rerank_plugin.base.extras import naming_extras
from rerank_plugin.base.filters import FILTERS, LISTS, Filter, years
from rerank_plugin.base.settings import DEPTH
from rerank_plugin.integrations.documents import FIRST_STAGE_SCORE, rerank, retrieve
from rerank_plugin.ranking.reranker import Reranker
from rerank_plugin.ranking.searcher import Searcher

with naming_extras():
    from haystack import Document, component

FIELD_OF = {metadata: field for field, metadata in FILTERS.items()}
NEGATED = {"!=": "==", "not in": "in"}
ORDERS = (">", ">=", "<", "<=")
LAST_YEAR = 9999


@component
class HaystackRetriever:
    """Retrieves the documents that a `Searcher` finds.

    Args:
        index: the folder of an index.
        reranker: as for `Reranker.load`; None to keep the first stage's order.
        first_stage: as for `Searcher`: ``bm25``, ``bm25+rm3``, ``hybrid``, ...
        depth: number of candidates to retrieve for a query.
        top_k: largest number of documents to return for a query.
        filters: filters in Haystack's form on the fields of `Filter`, such as ``meta.type``, that a `Filter` can
            express; None for all documents.
    """

    def __init__(
        self,
        index: str | Path,
        reranker: str | Path | list[str | Path] | None = None,
        first_stage: str = "bm25",
        depth: int = DEPTH,
        top_k: int = 10,
        filters: dict[str, Any] | None = None,
    ):
        self.index, self.reranker, self.first_stage = _named(index), _named(reranker), first_stage
        self.depth, self.top_k, self.filters = depth, top_k, filters
        self._searcher: Searcher | None = None

    def warm_up(self) -> None:
        """Open the index and load the reranker."""
        self._open()

    def _open(self) -> Searcher:
        if self._searcher is None:
            self._searcher = Searcher(self.index, self.reranker, self.first_stage, self.depth)
        return self._searcher

    @component.output_types(documents=list[Document])
    def run(
        self, query: str, top_k: int | None = None, filters: dict[str, Any] | None = None
    ) -> dict[str, list[Document]]:
        """The documents of a query under ``documents``, by decreasing score.

        ``top_k`` and ``filters`` override those of the component.
        """
        filters = self.filters if filters is None else filters
        selected = _selected(filters) if filters else {}
        if not all(selected.values()):  # no value of a field fits all conditions
            return {"documents": []}
        document_filter = {field: _as_texts(values) for field, values in selected.items()}
        retrieved = retrieve(self._open(), query, self.top_k if top_k is None else top_k, document_filter)
        return {
            "documents": [
                Document(
                    id=hit.docid,
                    content=text,
                    meta=metadata | {FIRST_STAGE_SCORE: hit.first_stage_score},
                    score=hit.score if relevance is None else relevance,
                )
                for hit, relevance, text, metadata in retrieved
            ]
        }


def _selected(condition: dict[str, Any], negated: bool = False) -> dict[str, set[Any]]:
    """The values that documents may have in each field, all of which they must match; years are numbers.

    Raises:
        InputError: the condition is invalid, or selects what no `Filter` does.
    """
    if not isinstance(condition, dict):
        raise InputError(f"the filter {condition!r} is no condition: expected a dictionary with an operator")
    operator, conditions = condition.get("operator"), condition.get("conditions")
    if operator not in ("AND", "OR", "NOT"):
        return _compared(condition, negated)
    if not isinstance(conditions, list) or not conditions:
        raise InputError(f"the filter {condition} has no conditions: expected a list of one or more")
    if operator == "NOT":
        return _selected({"operator": "AND", "conditions": conditions}, not negated)
    parts = [_selected(part, negated) for part in conditions]
    selected = parts[0]
    for part in parts[1:]:
        if (operator == "OR") != negated:
            if len(selected) > 1 or selected.keys() != part.keys():
                raise InputError(f"the filter {condition}: alternatives have to be values of one field")
            selected = {field: values | part[field] for field, values in selected.items()}
        elif several := [field for field in selected.keys() & part.keys() if FILTERS[field] in LISTS]:
            raise InputError(f"the filter {condition} has two conditions on {several[0]}: expected one")
        else:
            selected |= {field: values & selected.get(field, values) for field, values in part.items()}
    return selected


def _compared(condition: dict[str, Any], negated: bool) -> dict[str, set[Any]]:
    """As `_selected`, of the comparison of one field, which has the name of a filter or of the metadata."""
    operator, value = condition.get("operator"), condition.get("value", "")
    field = str(condition.get("field")).removeprefix("meta.")
    field = FIELD_OF.get(field, field)
    if operator in NEGATED:
        operator, negated = NEGATED[operator], not negated
    if operator in ORDERS and field == "year":
        value = _range(condition)
    elif operator not in ("==", "in") or isinstance(value, list) != (operator == "in"):
        raise InputError(f"the filter {condition}: expected == and a value, in and a list, or an order of years")
    ((_, texts),) = Filter.of({field: value}).values
    domain: set[Any] = {"yes", "no"}
    values: set[Any] = set(texts)
    if field == "year":
        ranges = [years(text) for text in texts]
        if any(len(end) > 4 for ends in ranges for end in ends):
            raise InputError(f"the filter {condition}: expected whole years, as 2015 or 2015-2020")
        domain = set(range(LAST_YEAR + 1))
        values = {year for first, last in ranges for year in range(int(first), int(last) + 1)}
    elif negated and field != "retracted":
        raise InputError(f"the filter {condition}: only years, and retracted articles, can be excluded")
    return {field: domain - values if negated else values}


def _range(condition: dict[str, Any]) -> str:
    """The years of a comparison by order, as for `Filter.of`; of a date, if it begins or ends a year."""
    operator, value = condition["operator"], condition.get("value")
    day = (value.isoformat() if isinstance(value, date) else str(value))[:10]
    year, ends = day[:4], day[4:]
    if not year.isdecimal() or ends not in (
        ("", "-01", "-01-01") if operator in (">=", "<") else ("", "-12", "-12-31")
    ):
        raise InputError(f"the filter {condition}: expected whole years, as >= 2015, >= 2015-01-01 or <= 2015-12-31")
    return {
        ">=": f"{year}-", ">": f"{int(year) + 1:04}-", "<=": f"-{year}", "<": f"-{max(int(year) - 1, 0):04}",
    }[operator]  # fmt: skip


def _as_texts(values: set[Any]) -> list[str]:
    """The values of a field for `Filter.of`: years as ranges."""
    if not all(isinstance(value, int) for value in values):
        return sorted(values)
    runs = groupby(enumerate(sorted(values)), lambda pair: pair[1] - pair[0])
    ranges = [[year for _, year in run] for _, run in runs]
    return [f"{run[0]:04}-{run[-1]:04}" for run in ranges]


def _named(value: Any) -> Any:
    """Paths as texts, so that a pipeline can be saved."""
    if isinstance(value, (list, tuple)):
        return [_named(part) for part in value]
    return os.fspath(value) if isinstance(value, os.PathLike) else value


@component
class HaystackRanker:
    """Re-ranks documents: by their ids if it has an index, otherwise by their texts and titles.

    Args:
        reranker: as for `Reranker.load`.
        index: the folder of an index that has the documents; None to read texts.
        statistics: for texts, an index whose statistics to score them with; by default those of the checkpoint.
        passages: as for `Reranker.rerank`.
        top_k: largest number of documents to return; None for all.
    """

    def __init__(
        self,
        reranker: str | Path | list[str | Path],
        index: str | Path | None = None,
        statistics: str | Path | None = None,
        passages: bool = False,
        top_k: int | None = None,
    ):
        self.reranker, self.index, self.statistics = _named(reranker), _named(index), _named(statistics)
        self.passages, self.top_k = passages, top_k
        self._loaded: Reranker | None = None

    def warm_up(self) -> None:
        """Load the reranker."""
        self._load()

    def _load(self) -> Reranker:
        if self._loaded is None:
            self._loaded = Reranker.load(self.reranker, self.index, statistics=self.statistics)
        return self._loaded

    @component.output_types(documents=list[Document])
    def run(self, query: str, documents: list[Document], top_k: int | None = None) -> dict[str, list[Document]]:
        """The best documents under ``documents``, by decreasing score; ``top_k`` overrides the component's."""
        inputs = [(document.id, document.content, document.meta) for document in documents]
        best = rerank(self._load(), query, inputs, self.top_k if top_k is None else top_k, self.passages)
        return {"documents": [replace(documents[place], score=score) for place, score in best]}
