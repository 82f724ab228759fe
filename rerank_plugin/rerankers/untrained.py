"""The untrained baselines of [D18] 4.3.1 and [D17] 5.1: bags of words, and the uninformed order.

================================================  ====================================================================
name                                              score
================================================  ====================================================================
``bm25-title``, ``bm25-abstract``, ``bm25-text``  Okapi BM25 of the field, k1 = 2.0, b = 0.75
``qld-title``                                     UQLM: log-likelihood of the query under the title's unigram model
``docid``                                         0 for all documents: the tie rule, decreasing document id, is the
                                                  uninformed ranker of the papers' tables
================================================  ====================================================================

Words are those of the forward index: as in the papers' lexical features, and unlike in the first stage, they are not
stemmed. BM25 is the lexical feature of that name (:mod:`rerank_plugin.inputs.lexical_features`).

The unigram model of a title d mixes the title with all titles by Dirichlet smoothing (Zhai and Lafferty, A Study of
Smoothing Methods for Language Models Applied to Information Retrieval, TOIS 2004). The score is the sum over the
query's words w, repeats included, of ln((tf(w, d) + mu p(w)) / (|d| + mu)), where p(w) is w's share of all titles'
words.

Where the papers are silent:

* mu is 1000, as in Pyserini and in the first stage. For titles it hardly matters: on the dev set of NFCorpus, nDCG@20
  varies by 0.005 for mu from 13, the mean length of a title, to 3000. ``TitleLikelihood(index, mu)`` takes other
  values.
* A word that is in no title has p(w) = 0 and would make every score infinite: it is left out. If no query word is in
  a title, all candidates score 0 and rank by the tie rule.
* Among titles without a query word, shorter titles score higher, and empty titles highest. This is a property of the
  model.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from rerank_plugin.base.errors import InputError
from rerank_plugin.base.records import Query
from rerank_plugin.files.arrays import ranges
from rerank_plugin.indexes.candidates import Candidates
from rerank_plugin.indexes.forward import ForwardIndex, IndexQuery
from rerank_plugin.indexes.segment import chunks
from rerank_plugin.indexes.text_index import TextIndex
from rerank_plugin.inputs.matches import WordMatches
from rerank_plugin.kernels.compiling import njit
from rerank_plugin.models.attribution import Attribution, of_cells
from rerank_plugin.rerankers.scorer import Scorer

DIRICHLET_MU = 1000.0
SAME_WORD = "same word"  # the name of a matrix of ones and zeros


class FieldBM25(Scorer):
    """Ranks by the BM25 of one field: title, abstract or text."""

    def __init__(self, index: ForwardIndex, field: str):
        self.name, self.index, self.field = f"bm25-{field}", index, field

    def score(self, query: Query, candidates: Candidates) -> np.ndarray:
        """BM25, float32 [C]."""
        matches = WordMatches(self.index.query(query.text), candidates, titles_only=self.field == "title")
        return matches.bm25(self.field).astype(np.float32)

    def attribute(self, query: Query, candidates: Candidates, place: int) -> Attribution:
        """Exact, since BM25 is a sum over the query's words; see :func:`_attribution`."""
        words, document = self.index.query(query.text), _one_candidate(candidates, place)
        contributions = [WordMatches(word, document).bm25(self.field)[0] for word in _word_by_word(words)]
        return _attribution(words, document, self.field, 0.0, contributions)


class TitleLikelihood(Scorer):
    """Ranks by the likelihood of the query under a title's smoothed unigram model.

    Args:
        index: the forward index of the candidates.
        mu: the Dirichlet smoothing parameter, positive.

    Attributes:
        frequency: occurrences of each term of the collection in all titles, int64 [V].
    """

    name = "qld-title"

    def __init__(self, index: ForwardIndex, mu: float = DIRICHLET_MU):
        if not 0 < mu < np.inf:
            raise InputError(f"mu of Dirichlet smoothing is {mu}; it must be a positive number")
        self.index, self.mu = index, mu
        # Texts in memory are scored with the statistics of an index, which holds the titles.
        collection = index.statistics.index if isinstance(index, TextIndex) else index
        if collection is None:
            raise InputError(f"{self.name} reads the titles of a collection: name an index as statistics")
        self.collection = collection
        self.frequency = title_frequency(collection)
        self.words = int(self.frequency.sum())

    def score(self, query: Query, candidates: Candidates) -> np.ndarray:
        """Log-likelihoods, float32 [C]."""
        matches = WordMatches(self.index.query(query.text), candidates, titles_only=True)
        return self._likelihoods(matches, matches.counts[:, 0]).astype(np.float32)

    def _likelihoods(self, matches: WordMatches, counts: np.ndarray) -> np.ndarray:
        """Log-likelihoods, float64 [C], from counts of the query's words in the titles, int32 [C, m]."""
        terms = self.collection.terms.find(matches.terms)  # [m]
        frequency = np.where(terms >= 0, self.frequency[terms], 0)  # [m]
        pseudo_counts = self.mu * frequency / max(self.words, 1)
        lengths = matches.candidates.title_lengths + self.mu
        return _log_likelihoods(counts, matches.repeats, pseudo_counts, lengths)

    def attribute(self, query: Query, candidates: Candidates, place: int) -> Attribution:
        """Exact; the base is the score of a title of the same length without a query word."""
        words, document = self.index.query(query.text), _one_candidate(candidates, place)
        base, contributions = 0.0, []
        for word in _word_by_word(words):
            matches = WordMatches(word, document, titles_only=True)
            counts = matches.counts[:, 0]
            absent = float(self._likelihoods(matches, np.zeros_like(counts))[0])
            base += absent
            contributions.append(float(self._likelihoods(matches, counts)[0]) - absent)
        return _attribution(words, document, "title", base, contributions)


class DocumentId(Scorer):
    """Scores every document 0, so that documents rank by decreasing id, the order of ties."""

    name = "docid"

    def __init__(self, index: ForwardIndex | None = None):
        """The index is not used."""

    def score(self, query: Query, candidates: Candidates) -> np.ndarray:
        """Zeros, float32 [C]."""
        return np.zeros(len(candidates), np.float32)

    def attribute(self, query: Query, candidates: Candidates, place: int) -> Attribution:
        """All contributions are 0."""
        words = candidates.index.query(query.text)
        return _attribution(words, _one_candidate(candidates, place), "text", 0.0, [0.0] * len(words.ids))


def _one_candidate(candidates: Candidates, place: int) -> Candidates:
    return candidates.take(np.array([place]))


def _word_by_word(words: IndexQuery) -> list[IndexQuery]:
    """A one-word query for each word of a query."""
    return [IndexQuery([term], words.ids[place : place + 1]) for place, term in enumerate(words.terms)]


def same_words(words: IndexQuery, document: Candidates, field: str) -> np.ndarray:
    """Where a query word equals a word of one document's field, bool [M, N]; N are the words of the whole document."""
    title, tokens = int(document.title_lengths[0]), document.index.document_tokens(int(document.rows[0]))
    first, last = {"title": (0, title), "abstract": (title, len(tokens)), "text": (0, len(tokens))}[field]
    places = np.arange(len(tokens))
    same = words.ids[:, None] == tokens.astype(np.int64)  # [M, N]; the id of a query word in no document is -1
    return same & (first <= places) & (places < last)


def _attribution(
    words: IndexQuery, document: Candidates, field: str, base: float, contributions: Sequence[float]
) -> Attribution:
    """The attribution of contributions of query words, float [M], in equal shares to their occurrences in a field."""
    same = same_words(words, document, field)  # [M, N]
    cells = same * (np.array(contributions, np.float64) / np.maximum(same.sum(axis=1), 1))[:, None]  # [M, N]
    matrix = same.astype(np.float64)
    return of_cells(base, cells, known=words.ids >= 0, matrix=matrix, matrix_name=SAME_WORD, exact=True)


def title_frequency(index: ForwardIndex, chunk: int = 100_000) -> np.ndarray:
    """How often each term occurs in all titles, int64 [V]; reads all titles once, ``chunk`` documents at a time."""
    frequency = np.zeros(max(index.vocabulary_size, 1), np.int64)
    for rows in chunks(index.live_rows, chunk):
        tokens, starts, _ = index.words(rows)
        frequency += np.bincount(tokens[ranges(starts, index.title_lengths[rows])], minlength=len(frequency))
    return frequency


@njit(nogil=True, cache=True)
def _log_likelihoods(counts, repeats, pseudo_counts, lengths):
    """Sums over the query's words of ln((count + pseudo-count) / length), float64 [C].

    Summed in the words' order: numpy's order would depend on the number of candidates.

    Args:
        counts: int32 [C, m]. repeats: occurrences of each word in the query, float64 [m].
        pseudo_counts: float64 [m]; a word with 0 is left out. lengths: smoothed, float64 [C].
    """
    sums = np.zeros(len(counts))
    for candidate in range(len(counts)):
        for word in range(len(repeats)):
            if pseudo_counts[word] > 0:
                likelihood = (counts[candidate, word] + pseudo_counts[word]) / lengths[candidate]
                sums[candidate] += repeats[word] * np.log(likelihood)
    return sums
