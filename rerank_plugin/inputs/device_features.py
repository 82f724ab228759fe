"""The features of candidates on a torch device: those of :mod:`rerank_plugin.inputs.lexical_features` and
:mod:`rerank_plugin.inputs.vector_features`, by the same definitions.

In shapes Q are queries, n documents, N words of a document, M words of a query, U its distinct words, and V words of
the model's vocabulary.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from rerank_plugin.indexes.device_tokens import DeviceTokens
from rerank_plugin.indexes.forward import IndexQuery, idf
from rerank_plugin.inputs.builder import InputBuilder
from rerank_plugin.inputs.lexical_features import COSINE, FIRST_STAGE, FIRST_STAGE_SHARE, LISTWISE, VECTOR_NAMES
from rerank_plugin.inputs.matches import BM25_B, BM25_K1, SHARE_B, SHARE_K1
from rerank_plugin.inputs.vector_features import SMALLEST, TEXT_WORDS
from rerank_plugin.kernels import word_loops

NO_WORD = -2  # fills up the words of short queries; `PADDING` fills up documents
EXACT = 1 << 12  # more words than a document has whose words single precision counts in two fields at once
EXACT_IN_DOUBLE = 1 << 26  # the same of double precision
STEP = 8  # distinct words and bigrams of a query are filled up to a multiple, so that few shapes occur
CHUNK = 4096  # documents whose vectors are summed at once


class DeviceFeatures:
    """Computes a model's features on a device.

    Args:
        builder: names the features.
        vectors: the model's word vectors, float32 [V, D], row 0 for words without one; on the device.
    """

    def __init__(self, builder: InputBuilder, vectors: Tensor):
        self.builder, self.names = builder, builder.feature_names
        own = {*LISTWISE, *VECTOR_NAMES}
        self.measured = [tuple(name.rsplit("_", 1)) for name in self.names if name not in own]
        self.reads_vectors = not {*VECTOR_NAMES}.isdisjoint(self.names)
        if self.reads_vectors:
            self.units = functional.normalize(vectors, dim=1)  # [V, D]
            self.norms = vectors.norm(dim=1)  # [V]
            self.norms[0] = 0
        self._of_index: dict[str, Tensor] | None = None

    def width(self, longest: int) -> int:
        """The number of a document's words that the features read, of at most ``longest``."""
        return longest if self.measured else min(longest, TEXT_WORDS * self.reads_vectors)

    def of_queries(self, tasks: Sequence[Any]) -> dict[str, np.ndarray]:
        """What the measures read of the queries of tasks, [Q, ...] each."""
        if not self.measured:
            return {}
        queries = [self._distinct(self.builder.without_left_out(task.terms)) for task in tasks]
        most = [max(len(lists[part]) for lists in queries) for part in (0, 2)]
        words, bigrams = (max(1, -(-count // STEP)) * STEP for count in most)
        distinct, repeats = np.full((len(tasks), words), NO_WORD), np.zeros((len(tasks), words))
        pairs = np.full((len(tasks), bigrams, 2), NO_WORD)
        for place, (ids, counts, places) in enumerate(queries):
            distinct[place, : len(ids)], repeats[place, : len(ids)] = ids, counts
            if places:
                pairs[place, : len(places)] = distinct[place, places]
        index = self.builder.index
        known, asked = distinct >= 0, repeats > 0  # [Q, U] each

        def weights(field: str) -> np.ndarray:
            """The IDF of the distinct words, float64 [Q, U]."""
            frequency = np.asarray(index.document_frequency[field])
            counts = np.where(known, frequency[np.where(known, distinct, 0)], 0).astype(np.int64)
            return idf(counts.ravel(), index.documents).reshape(counts.shape) * asked

        arrays = {"distinct": distinct, "weights idf": weights("text"), "bigrams": pairs}
        for field in {field for measure, field in self.measured if measure in ("bm25", "bm25_share")}:
            arrays[f"weights {field}"] = weights(field) * repeats
        sizes = [asked.sum(axis=1), [len(places) for _, _, places in queries], arrays["weights idf"].sum(axis=1)]
        return arrays | {"counted": np.array(sizes, np.float64).T}

    def _distinct(self, query: IndexQuery) -> tuple[list[int], list[int], list[tuple[int, int]]]:
        """Term ids of the distinct words of a query, how often each occurs, and the places of distinct bigrams."""
        # Terms, not ids, are the keys: all words that no document contains have the id -1.
        ids, counts = dict(zip(query.terms, query.ids.tolist())), Counter(query.terms)
        pairs: list[tuple[int, int]] = []
        if any(measure == "bigram_overlap" for measure, _ in self.measured):
            place = {term: number for number, term in enumerate(ids)}
            pairs = sorted({(place[first], place[second]) for first, second in zip(query.terms, query.terms[1:])})
        return [id if id >= 0 else NO_WORD for id in ids.values()], [counts[term] for term in ids], pairs

    def of_candidates(self, task: Any) -> dict[str, np.ndarray]:
        """The features of first-stage scores, float64 [C] each."""
        scores = task.candidates.first_stage_scores
        highest = scores.max(initial=0)
        shares = scores / highest if highest > 0 else np.zeros(len(scores))
        columns = {FIRST_STAGE: scores, FIRST_STAGE_SHARE: shares}
        return {name: columns[name].astype(np.float64) for name in self.names if name in columns}

    def of_documents(self, tokens: DeviceTokens, model_ids: Tensor) -> dict[str, Tensor]:
        """What does not depend on the query, float64 or float32 [R] each; computed once for an index."""
        if tokens.rows is None and self._of_index is not None:
            return self._of_index
        found: dict[str, Tensor] = {}
        rows = np.arange(len(self.builder.index)) if tokens.rows is None else tokens.rows
        for measure, field in self.measured:
            if measure == "jaccard":
                unique = np.array(self.builder.index.unique_terms[field][rows], np.float64)
                found[f"unique {field}"] = torch.from_numpy(unique).to(tokens.device)
            if measure == "idf_jaccard":
                found[f"mass {field}"] = torch.from_numpy(self._masses(rows, field)).to(tokens.device)
        if COSINE in self.names:
            found["text length"] = self._text_lengths(tokens, model_ids, len(rows))
        if tokens.rows is None:
            self._of_index = found
        return found

    def _masses(self, rows: np.ndarray, field: str) -> np.ndarray:
        """The sum of the weights of the distinct words in a field, float64 [R]."""
        index = self.builder.index
        tokens, starts, lengths = index.words(rows)
        stops, borders = starts + lengths, starts + index.title_lengths[rows]
        first, last = {"title": (starts, borders), "abstract": (borders, stops), "text": (starts, stops)}[field]
        marks = np.zeros(len(index.term_weights), np.int32)
        return word_loops.distinct_weights(tokens, first, last - first, index.term_weights, marks)

    def _text_lengths(self, tokens: DeviceTokens, model_ids: Tensor, count: int) -> Tensor:
        """The lengths of the sums of the documents' vectors, float32 [R]."""
        lengths = torch.zeros(count, device=tokens.device)
        vectors = self.units * self.norms[:, None]  # [V, D]
        for rows in torch.arange(count, device=tokens.device).split(CHUNK):
            terms = tokens.terms(rows, TEXT_WORDS)  # [n, N]
            ids = torch.where(terms >= 0, model_ids[terms.clamp_min(0)].long(), 0)  # [n, N]; word 0 has norm 0
            sums = functional.embedding_bag(ids, vectors, mode="sum")  # [n, D]
            lengths[rows] = sums.norm(dim=1)
        return lengths

    def tables(self, queries: Tensor, mask: Tensor) -> Tensor | None:
        """Cosines of the vocabulary and the words of queries, float32 [V, Q, M], for the vector features.

        queries: the model's ids, int64 [Q, M]. mask: bool [Q, M].
        """
        if not self.reads_vectors:
            return None
        flat = queries.flatten()  # [Q M]
        cosines = self.units @ self.units[flat].T  # [V, Q M]
        same = torch.arange(len(self.units), device=flat.device)[:, None] == flat  # [V, Q M]
        cosines = torch.where(same, 1.0, cosines) * (flat > 0)
        cosines[0] = 0
        return cosines.view(-1, *queries.shape) * mask

    def __call__(self, batch: Any, table: Tensor | None, first: int, last: int, terms: Tensor, ids: Tensor) -> Tensor:
        """The features of documents first..last of a batch, float32 [n, F], in the order of the names.

        Args:
            batch: a :class:`rerank_plugin.models.device_path.Batch`.
            table: as of :meth:`tables`.
            terms: words of the documents as terms of the index, int64 [n, N], else `PADDING`.
            ids: as the model's ids, int64 [n, N], 0 where padded.
        """
        documents = slice(first, last)
        query = batch.query[documents]  # [n]
        columns: dict[str, Tensor] = {
            name: batch.arrays[name][documents] for name in (FIRST_STAGE, FIRST_STAGE_SHARE) if name in self.names
        }
        if self.measured:
            columns |= self._measures(batch, documents, query, terms)
        if table is not None:
            columns |= self._vector_features(batch, table, documents, query, terms[:, :TEXT_WORDS], ids[:, :TEXT_WORDS])
        if not columns:
            return terms.new_zeros((len(terms), 0), dtype=torch.float32)
        return torch.stack([columns[name].float() for name in self.names], dim=1)

    def _measures(self, batch: Any, documents: slice, query: Tensor, terms: Tensor) -> dict[str, Tensor]:
        """The measures of [D18] 4.2.2, float64 [n] each."""
        rows, static, arrays = batch.places[documents], batch.static, batch.arrays
        lengths, titles = batch.tokens.lengths(rows), batch.tokens.title_lengths[rows.clamp_min(0)].long()  # [n] each
        position = torch.arange(terms.shape[1], device=terms.device)  # [N]
        in_title = position < titles[:, None]  # [n, N]
        equal = terms[:, None, :] == arrays["distinct"][query][:, :, None]  # [n, U, N]
        # One sum counts both: a word of the title counts once and a word of the abstract so often that no title has it.
        short = terms.shape[1] < EXACT
        factor, kind = (EXACT, torch.float32) if short else (EXACT_IN_DOUBLE, torch.float64)
        sums = (equal * torch.where(in_title, 1.0, float(factor)).to(kind)[:, None, :]).sum(dim=2)  # [n, U]
        counts = {"abstract": (sums / factor).floor()}
        counts["title"] = sums - factor * counts["abstract"]  # [n, U] each
        counts["text"] = counts["title"] + counts["abstract"]
        field_lengths = {"text": lengths, "title": titles, "abstract": lengths - titles}
        weights, (words, pairs, weight) = arrays["weights idf"][query], arrays["counted"][query].unbind(dim=1)
        found = {}
        for measure, field in self.measured:
            present = counts[field] > 0  # [n, U]
            common, mass = present.sum(dim=1), (present * weights).sum(dim=1)  # [n] each
            if measure == "overlap":
                value = common / words.clamp_min(1)
            elif measure == "idf_overlap":
                value = mass / torch.where(weight > 0, weight, 1.0)
            elif measure == "jaccard":
                union = words + static[f"unique {field}"][rows.clamp_min(0)] - common
                value = common / union.clamp_min(1)
            elif measure == "idf_jaccard":
                union = weight + static[f"mass {field}"][rows.clamp_min(0)] - mass
                value = torch.where(union > 0, mass / union, 0.0)
            elif measure in ("bm25", "bm25_share"):
                k1, b = (BM25_K1, BM25_B) if measure == "bm25" else (SHARE_K1, SHARE_B)
                mean = self.builder.index.mean_lengths[field] or 1.0
                norms = k1 * (1 - b + b * field_lengths[field].double() / mean)  # [n]
                share = counts[field] * (k1 + 1) / (counts[field] + norms[:, None])  # [n, U]
                word_weights = arrays[f"weights {field}"][query]  # [n, U]
                value = (share * word_weights).sum(dim=1)
                if measure == "bm25_share":
                    most = (k1 + 1) * word_weights.sum(dim=1)  # [n]
                    value = value / torch.where(most > 0, most, 1.0)
            elif measure == "bigram_overlap":
                value = self._bigrams(arrays["bigrams"][query], terms, in_title, field) / pairs.clamp_min(1)
            else:
                raise NotImplementedError(f"{measure} is not computed on a device")
            found[f"{measure}_{field}"] = value
        return found

    def _bigrams(self, bigrams: Tensor, terms: Tensor, in_title: Tensor, field: str) -> Tensor:
        """The number of a query's bigrams, int64 [n, b, 2], in a field, int64 [n]."""
        before, behind = terms[:, :-1, None], terms[:, 1:, None]  # [n, N - 1, 1] each
        found = (before == bigrams[:, None, :, 0]) & (behind == bigrams[:, None, :, 1])  # [n, N - 1, b]
        if field != "text":  # a bigram across the border is in neither
            inside = in_title[:, 1:] if field == "title" else ~in_title[:, :-1]
            found = found & inside[:, :, None]
        return found.any(dim=1).sum(dim=1)

    def _vector_features(
        self, batch: Any, table: Tensor, documents: slice, query: Tensor, terms: Tensor, ids: Tensor
    ) -> dict[str, Tensor]:
        queries, mask = batch.queries[query], batch.query_mask[query]  # [n, M] each
        norms = self.norms[queries] * mask  # [n, M]
        present = terms >= 0  # [n, N]
        found = {}
        if COSINE in self.names:
            query_norms = self.norms[batch.queries] * batch.query_mask  # [Q, M]
            total = (self.units[batch.queries] * query_norms[:, :, None]).sum(dim=1)  # [Q, D]
            weights = query_norms / total.norm(dim=1, keepdim=True).clamp_min(SMALLEST)  # [Q, M]
            products = self.norms[:, None] * (table * weights).sum(dim=2)  # [V, Q]
            sums = (products[ids, query[:, None]] * present).sum(dim=1)  # [n]
            found[COSINE] = sums / batch.static["text length"][batch.places[documents].clamp_min(0)].clamp_min(SMALLEST)
        for name in {*self.names} & {*VECTOR_NAMES} - {COSINE}:
            similarities = table[ids, query[:, None]]  # [n, N, M]
            wanted = torch.where(batch.query_terms[query] >= 0, batch.query_terms[query], NO_WORD)  # [n, M]
            similarities = torch.where(terms[:, :, None] == wanted[:, None, :], 1.0, similarities)
            highest = similarities.masked_fill(~present[:, :, None], -1.0).amax(dim=1)  # [n, M]
            highest = torch.where(present.any(dim=1, keepdim=True), highest, 0.0)
            squares = norms.square()  # [n, M]
            found[name] = (highest * squares).sum(dim=1) / squares.sum(dim=1).clamp_min(SMALLEST)
        return found
