"""Word Mover's Distance of query and title ([D18] 4.3.2; Kusner et al., From Word Embeddings to Document Distances,
ICML 2015): a baseline that needs word vectors, but no training.

A text is a bag of words; the mass of a word is its count over the length of the text. The distance of two texts is the
least cost of moving the masses of the first to those of the second, where moving a unit from word to word costs the
Euclidean distance of their vectors: an optimal transport problem, which POT solves exactly. The score is the negated
distance.

Three names: ``wmd-title`` keeps stop-words, as [D18] reports it, and ``wmd-title-nostop`` removes Lucene's English
stop-words from both texts, as [D17] 5.1 does. ``wmd-title-top20`` is ``wmd-title`` with exact ranks and scores for the
first 20 titles only: a lower bound of the distance prunes the others.

The bound is Kusner et al.'s relaxed distance: every word moves to the nearest word of the other text without a
capacity limit, and the larger cost of the two directions counts. Distances are computed in the order of the bounds
until the next bound exceeds the k-th smallest distance. The first k titles and their scores are those of
``wmd-title``; the other titles are ranked by their bounds, in nearly the same order. Kusner et al.'s other bound, the
distance of the mean vectors, is not used. It is not cheaper here, because word distances are computed once for all
titles, and it is too loose for such short texts.

Where the paper is silent:

* Words without a vector are left out, and the masses are those of the remaining text, as in Kusner et al. So no word is
  compared with the vector of UNK.
* Neither text is cut; vectors are not normalized.
* A title with no known word has no distance: it ranks behind all others, with a score below any that a distance can
  give (``floor``). Such titles tie, and a tie goes by decreasing document id, as everywhere.
* For a query with no known word, the candidates keep their first-stage order, with a warning.

Letters in shapes: C candidates, U distinct known words of all titles, n of a title, m of the query.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np

from rerank_plugin.base.errors import InputError
from rerank_plugin.base.extras import naming_extras
from rerank_plugin.base.records import Query
from rerank_plugin.indexes.candidates import Candidates
from rerank_plugin.indexes.forward import ForwardIndex
from rerank_plugin.indexes.term_ids import TermIds
from rerank_plugin.rerankers.scorer import Scorer
from rerank_plugin.text import word_vectors
from rerank_plugin.text.stop_words import STOP_WORDS
from rerank_plugin.text.word_vectors import WordVectors

with naming_extras("Word Mover's Distance"):
    from ot import emd

ROUNDING = 1e-9  # relative; above the rounding errors of bound and distance, below the precision of float32
BATCH_SIZE = 32  # titles that are solved before the k-th smallest distance is updated


class WordMoversDistance(Scorer):
    """Ranks titles by their distance to the query.

    Args:
        index: the forward index of the candidates.
        vectors: the word vectors of the known words.
        stop_words: words to leave out.
        exact_top: number of top titles with exact ranks and scores; the others may be scored by a lower bound of their
            distance. By default all distances are exact.

    Attributes:
        word_ids: the vector id of each term of the index; 0 if the term is left out.
        floor: the score of a title with no known word.
    """

    def __init__(
        self,
        index: ForwardIndex,
        vectors: WordVectors,
        stop_words: frozenset[str] = frozenset(),
        exact_top: int | None = None,
    ):
        if exact_top is not None and exact_top < 1:
            raise InputError(f"exact distances for the first {exact_top} titles: the number must be at least 1")
        index.check_tokenizer(vectors.vocabulary.tokenizer, "the folder of word vectors")
        self.name = "wmd-title" + ("-nostop" if stop_words else "") + (f"-top{exact_top}" if exact_top else "")
        self.index, self.vectors, self.stop_words, self.exact_top = index, vectors, stop_words, exact_top
        self.listwise = exact_top is not None  # the other titles decide which distances are exact
        self.word_ids = TermIds(index, vectors.vocabulary, stop_words, by_hash=False)
        longest = max(
            float(np.linalg.norm(batch.astype(np.float64), axis=1).max()) for batch in vectors.table.batches()
        )
        self.floor = -(3 * longest + 1)  # no distance exceeds twice the longest vector

    def score(self, query: Query, candidates: Candidates) -> np.ndarray:
        """Negated distances, float32 [C]."""
        ids, counts = self.query_words(query.text)
        if not len(ids):
            return self.first_stage_fallback(query, candidates, "none of its words has a vector")
        distances = self.distances(ids, counts, candidates, self.exact_top)
        return np.where(np.isfinite(distances), -distances, self.floor).astype(np.float32)

    def lacking_words(self, query: Query) -> list[str]:
        few = self.vectors.vocabulary.knows_few_words(self.index.tokenizer.tokenize(query.text))
        return [self.name] if few else []

    def query_words(self, text: str) -> tuple[np.ndarray, np.ndarray]:
        """The vector ids of a query's distinct known words, and their counts, int64 [m] each."""
        words = self.index.tokenizer.tokenize(text)
        ids = self.vectors.vocabulary.lookup(word for word in words if word not in self.stop_words)
        return np.unique(np.array([id for id in ids if id], np.int64), return_counts=True)

    def distances(
        self, query_ids: np.ndarray, query_counts: np.ndarray, candidates: Candidates, exact_top: int | None = None
    ) -> np.ndarray:
        """Word Mover's Distances, float64 [C]; infinite for a title without known words.

        With ``exact_top``, distances beyond that rank may be lower bounds.
        """
        problems = self._problems(query_ids, candidates)

        def exact(places: np.ndarray) -> np.ndarray:
            selected = (problems[place] for place in places)
            return np.array([transport_cost(costs, counts, query_counts) for costs, counts in selected])

        if exact_top is None:
            return exact(np.arange(len(problems)))
        bounds = np.array([relaxed_cost(costs, counts, query_counts) for costs, counts in problems])
        return least_distances(bounds, exact, exact_top)

    def _problems(self, query_ids: np.ndarray, candidates: Candidates) -> list[tuple[np.ndarray, np.ndarray]]:
        """The transport problem of each title: word distances float64 [n, m], and counts of the title's words [n]."""
        ids = self.word_ids.array
        titles = []
        for row, length in zip(candidates.rows, candidates.title_lengths):
            words = ids[self.index.document_tokens(row)[:length]]
            titles.append(np.unique(words[words > 0], return_counts=True))
        words = np.unique(np.concatenate([np.zeros(0, ids.dtype), *(words for words, _ in titles)]))  # [U]
        vectors = self.vectors.table.take(words).astype(np.float64)  # [U, D]
        queries = self.vectors.table.take(query_ids)  # [m, D]
        table = np.stack([np.linalg.norm(vectors - query, axis=1) for query in queries], axis=1)  # [U, m]
        return [(table[np.searchsorted(words, distinct)], counts) for distinct, counts in titles]


def relaxed_cost(costs: np.ndarray, supplies: np.ndarray, demands: np.ndarray) -> float:
    """Kusner et al.'s relaxed distance, a lower bound of :func:`transport_cost`."""
    if not len(supplies):
        return np.inf
    leaving, arriving = costs.min(axis=1) @ supplies, costs.min(axis=0) @ demands
    return float(max(leaving / supplies.sum(), arriving / demands.sum()))


def transport_cost(costs: np.ndarray, supplies: np.ndarray, demands: np.ndarray) -> float:
    """The optimal transport cost between two distributions; infinite without supplies.

    Args:
        costs: costs of moving a unit, float64 [n, m].
        supplies: counts, int64 [n]. demands: counts, int64 [m]. Both are divided by their sums.
    """
    if not len(supplies):
        return np.inf
    masses = supplies / supplies.sum(), demands / demands.sum()
    return float((emd(*masses, costs, check_marginals=False, center_dual=False) * costs).sum())


def least_distances(bounds: np.ndarray, exact: Callable[[np.ndarray], np.ndarray], count: int) -> np.ndarray:
    """Distances, float64 [C]: exact for the ``count`` smallest and for all ties with them; the others may be bounds.

    Two distances tie if they are equal as float32, the dtype of scores.

    Args:
        bounds: lower bounds of the distances, up to rounding, float64 [C].
        exact: a function from positions of titles, int64 [n], to their exact distances, float64 [n].
    """
    distances = bounds * (1 - ROUNDING)
    order = np.argsort(distances, kind="stable")
    limits = distances[order].astype(np.float32)
    done, stop = 0, min(count, len(order))
    while done < stop:
        distances[order[done:stop]] = exact(order[done:stop])
        done = stop
        worst = np.partition(distances[order[:done]], count - 1)[count - 1] if done >= count else np.inf
        stop = min(int(np.searchsorted(limits, np.float32(worst), side="right")), done + BATCH_SIZE)
    return distances


def from_word_vectors(
    index: ForwardIndex,
    checkpoint: Path | None,
    remove_stop_words: bool = False,
    exact_top: int | None = None,
) -> WordMoversDistance:
    """The reranker of a folder with word vectors, which may be a model's checkpoint.

    Raises:
        InputError: no folder was given, or the folder holds no word vectors.
    """
    if checkpoint is None:
        raise InputError("this reranker needs word vectors: give it as NAME:FOLDER (rerank-plugin embed writes one)")
    stop_words = STOP_WORDS if remove_stop_words else frozenset()
    return WordMoversDistance(index, word_vectors.load(checkpoint), stop_words, exact_top)
