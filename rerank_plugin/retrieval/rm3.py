"""RM3 ([K] 4.3) as Anserini computes it, from the stored texts of the feedback documents instead of term vectors.

Term vectors take a quarter of the time of indexing. Analyzing the texts of a few documents again takes milliseconds
and gives the expanded query the same terms with the same weights, to the last bit of their single precision.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

import numpy as np

from rerank_plugin.base.errors import InputError
from rerank_plugin.indexes.lucene_reader import CONTENTS, clauses, stored_text
from rerank_plugin.java.jvm import java_class

COMMON = np.float32(0.1)  # share of the documents above which a term of their contents expands no query
TERM = re.compile("[a-z0-9]{2,20}")  # what expands a query
SMALL = np.float32(0.001)  # a norm of a document without such terms
KNOWN = 1 << 16  # terms that are remembered to be common or not


class RelevanceModel:
    """Expands queries to a field of an index. It is thread-safe.

    Args:
        reader: of Lucene's index, with its stored fields.
        analyzer: Lucene's, of the field.
        read: how a text reaches the analyzer.
    """

    def __init__(self, reader: Any, analyzer: Any, read: Callable[[str], str], field: str):
        self.reader, self.analyzer, self.read, self.field = reader, analyzer, read, field
        self.documents, self.common = reader.numDocs(), dict[str, bool]()

    def query(self, tokens: Any, numbers: Sequence[int], scores: np.ndarray, terms: int, weight: float) -> Any:
        """The expanded Lucene query.

        Args:
            tokens: of the original query, a Java list.
            numbers: Lucene's, of the feedback documents. scores: theirs, float32 [n].
            terms: the most terms of the expansion. weight: of the original query, 0 to 1.

        Raises:
            InputError: the index does not store the texts of the field, in ``raw`` as a JSON object.
        """
        vectors = [self._pruned(self._counts(number), terms) for number in numbers]
        feature_vector = java_class("io.anserini.util.FeatureVector")
        model = feature_vector()
        for term, value in relevance_model(vectors, scores).items():
            model.addFeatureValue(term, float(value))
        model.pruneToSize(terms)
        model.scaleToUnitL1Norm()
        model = feature_vector.interpolate(feature_vector.fromTerms(tokens).scaleToUnitL1Norm(), model, weight)
        package = "org.apache.lucene"
        lucene_term, term_query = java_class(f"{package}.index.Term"), java_class(f"{package}.search.TermQuery")
        boosted = java_class(f"{package}.search.BoostQuery")
        weighted = ((term, model.getValue(term)) for term in model.getFeatures().toArray())
        return clauses(
            *((boosted(term_query(lucene_term(self.field, term)), value), "SHOULD") for term, value in weighted)
        )

    def _counts(self, number: int) -> Counter[str]:
        """The frequencies of a document's terms."""
        text, raw = None, stored_text(self.reader, number)[0]
        with suppress(ValueError, AttributeError, RecursionError):  # other tools store raw in other formats
            text = json.loads(raw or "").get(self.field)
        if not isinstance(text, str):
            raise InputError(
                f"RM3 reads Lucene's term vectors (-storeDocvectors), or the texts of the field '{self.field}' in raw, "
                "a JSON object: the index has neither"
            )
        tokens = java_class("io.anserini.analysis.AnalyzerUtils").analyze(self.analyzer, self.read(text))
        return Counter(tokens.toArray())

    def _pruned(self, counts: Counter[str], terms: int) -> dict[str, int]:
        """The most frequent terms of a document that may expand a query; of equally frequent ones the first by name."""
        pruned: dict[str, int] = {}
        for term, count in sorted(counts.items(), key=lambda item: (-item[1], item[0])):
            if TERM.fullmatch(term) and not self._is_common(term):
                pruned[term] = count
                if len(pruned) == terms:
                    break
        return pruned

    def _is_common(self, term: str) -> bool:
        if (known := self.common.get(term)) is None:
            frequency = self.reader.docFreq(java_class("org.apache.lucene.index.Term")(CONTENTS, term))
            known = bool(np.float32(frequency) / np.float32(self.documents) > COMMON)
            if len(self.common) < KNOWN:
                self.common[term] = known
        return known


def relevance_model(vectors: Sequence[Mapping[str, int]], scores: np.ndarray) -> dict[str, np.float32]:
    """The weights of terms: their shares of the documents' terms, by the documents' scores, float32 [n]."""
    norms = [np.float32(sum(vector.values())) for vector in vectors]
    model: dict[str, np.float32] = {}
    for vector, norm, score in zip(vectors, norms, np.asarray(scores, np.float32)):
        if norm > SMALL:
            for term, count in vector.items():
                model[term] = model.get(term, np.float32(0)) + np.float32(count) / norm * score
    return model
