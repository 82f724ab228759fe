"""The fast path of Word Mover's Distance ([D18] 4.3.2): the same distances as the plain path of ``wmd``, compiled.

It computes the distance of a title word and a query word once for all titles. It solves the small problems (some 12 by
4 words) inline, because the call of a general solver takes longer than solving them.

The solver is the network simplex method (Ahuja, Magnanti and Orlin, Network Flows, ch. 11) on a tree of some 16 nodes:
each pivot adds an arc with a negative reduced cost and removes another, until no such arc is left. The mass of a word
is its count divided by the length of its text; multiplied by both lengths, masses are integers and flows exact.

Letters in shapes: C candidates, N title words, U distinct words, n distinct words of one title, m of the query,
V vocabulary, D dimension.
"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import numpy as np

from rerank_plugin.indexes.candidates import Candidates
from rerank_plugin.indexes.forward import ForwardIndex
from rerank_plugin.indexes.term_ids import TermIds
from rerank_plugin.kernels.arithmetic import REASSOCIATE
from rerank_plugin.kernels.compiling import njit
from rerank_plugin.kernels.intrinsics import AHEAD, prefetch_row
from rerank_plugin.kernels.parallel import Workspace, crew, split
from rerank_plugin.kernels.word_loops import distinct_words
from rerank_plugin.rerankers.least_distances import least_distances

# Of the largest cost: an arc that would save less is left out. Far above what is lost in adding up potentials.
TOLERANCE = 1e-11


class FusedDistances:
    """Distances of a query and the titles of its candidates.

    Args:
        index: the forward index of the candidates.
        word_ids: the vector of each term of the index; 0 where the term is left out.
        vectors: float32 [V, D].
        threads: how many threads share the words and titles.
    """

    def __init__(self, index: ForwardIndex, word_ids: TermIds, vectors: np.ndarray, threads: int):
        self.index, self.word_ids, self.vectors, self.threads = index, word_ids, np.ascontiguousarray(vectors), threads
        self.workspace = Workspace()

    def distances(
        self, query_ids: np.ndarray, query_counts: np.ndarray, candidates: Candidates, exact_top: int | None = None
    ) -> np.ndarray:
        """Word Mover's Distances, float64 [C]; infinite for a title without known words.

        Args:
            query_ids: distinct vectors of the query, int64 [m]. query_counts: how often each occurs, int64 [m].
            exact_top: distances beyond this rank may be lower bounds; by default all are exact.
        """
        count, lengths = len(candidates), candidates.title_lengths.astype(np.int32)
        places = self.workspace.array("places", (count, int(lengths.max(initial=0))), np.int32)
        terms = self.workspace.array("terms", (min(int(lengths.sum()), self.index.vocabulary_size),), np.int32)
        marks = self.workspace.zeros("marks", self.index.vocabulary_size, np.int32)
        number = distinct_words(self.index.tokens, candidates.starts, lengths, marks, places, terms)
        ids, query_vectors = self.word_ids.array[terms[:number]], self.vectors[query_ids]  # [U], [m, D]
        table = self.workspace.array("costs", (number, len(query_ids)), np.float64)
        problem = places, lengths, ids, table, query_counts

        def exact(titles: np.ndarray, smallest: int = 8) -> np.ndarray:
            solved = np.empty(len(titles))
            split(partial(_title_distances, titles, *problem, solved), len(titles), self.threads, smallest)
            return solved

        with crew(self.threads):
            split(partial(_word_distances, self.vectors, ids, query_vectors, table), number, self.threads, smallest=256)
            if exact_top is None:
                return exact(np.arange(count), smallest=64)
            lower = np.empty(count)
            split(partial(_title_bounds, *problem, lower), count, self.threads)
            return least_distances(lower, exact, exact_top)


@njit(nogil=True, cache=True, fastmath=REASSOCIATE)
def _word_distances(vectors, ids, query_vectors, table, start, stop):
    """Euclidean distances of distinct words start..stop and the query's words: rows of ``table``, float64 [U, m]."""
    for word in range(start, stop):
        if word + AHEAD < stop:
            prefetch_row(vectors, ids[word + AHEAD])
        if ids[word] == 0:
            continue
        row = vectors[ids[word]]
        for place in range(len(query_vectors)):
            total = 0.0
            for i in range(len(row)):
                difference = np.float64(row[i]) - np.float64(query_vectors[place, i])
                total += difference * difference
            table[word, place] = np.sqrt(total)


@njit(nogil=True, cache=True)
def _title_bounds(places, lengths, ids, table, query_counts, found, start, stop):
    """Lower bounds of the distances of the query and titles start..stop, into ``found``, float64 [C].

    Args: those of ``_title_distances``.
    """
    nearest = np.empty(len(query_counts))
    for title in range(start, stop):
        nearest[:] = np.inf
        leaving, title_words = 0.0, 0
        for position in range(lengths[title]):
            word = places[title, position]
            if ids[word] == 0:
                continue
            title_words += 1
            least = np.inf
            for place in range(len(query_counts)):
                cost = table[word, place]
                least = min(least, cost)
                nearest[place] = min(nearest[place], cost)
            leaving += least
        if title_words == 0:
            found[title] = np.inf
            continue
        arriving = 0.0
        for place in range(len(query_counts)):
            arriving += query_counts[place] * nearest[place]
        found[title] = max(leaving / title_words, arriving / query_counts.sum())


@njit(nogil=True, cache=True)
def _title_distances(titles, places, lengths, ids, table, query_counts, found, start, stop):
    """Distances of the query and titles start..stop of ``titles``, into ``found``, float64 [n].

    Args:
        titles: places of candidates, int64 [n].
        places: distinct word at each position, int32 [C, N]. lengths: int32 [C]. ids: int32 [U].
        table: distances of words, float64 [U, m]. query_counts: int64 [m].
    """
    problem = new_problem(places.shape[1], len(query_counts))
    words = np.empty(places.shape[1], np.int64)
    query_words = query_counts.sum()
    for number in range(start, stop):
        title, distinct, title_words = titles[number], 0, 0
        for position in range(lengths[title]):
            word = places[title, position]
            if ids[word] == 0:
                continue
            title_words += 1
            place = 0
            while place < distinct and words[place] != word:
                place += 1
            if place == distinct:
                words[place] = word
                problem.supplies[place] = 0
                problem.costs[place] = table[word]
                distinct += 1
            problem.supplies[place] += query_words
        if title_words == 0:
            found[number] = np.inf
            continue
        for place in range(len(query_counts)):
            problem.demands[place] = query_counts[place] * title_words
        found[number] = solve(problem, distinct) / (title_words * query_words)


class Problem(NamedTuple):
    """A transportation problem of at most N sources and m sinks, with the working arrays of the solver.

    Sources and sinks are nodes: source i of n is node i, sink j is node n + j.
    """

    costs: np.ndarray  # for each unit of flow, float64 [N, m]
    supplies: np.ndarray  # int64 [N], positive
    demands: np.ndarray  # int64 [m], positive, with the same sum
    parents: np.ndarray  # parent of each node in the spanning tree, int64 [N + m]; -1 for the root
    flows: np.ndarray  # flow between a node and its parent, int64 [N + m]
    potentials: np.ndarray  # float64 [N + m]; the cost of a tree arc is the sum of the potentials of its two ends
    best: np.ndarray  # the cheapest open sink of a source, int64 [N]; -1 for none
    second: np.ndarray  # the second cheapest, likewise
    regrets: np.ndarray  # cost of ``second`` minus cost of ``best``, float64 [N]; infinite if there is no second
    marks: np.ndarray  # node labels, int8 [N + m]


@njit(nogil=True, cache=True)
def new_problem(sources, sinks):
    """An uninitialized problem of this size."""
    nodes = sources + sinks
    return Problem(
        np.empty((sources, sinks)), np.empty(sources, np.int64), np.empty(sinks, np.int64),
        np.empty(nodes, np.int64), np.empty(nodes, np.int64), np.empty(nodes),
        np.empty(sources, np.int64), np.empty(sources, np.int64), np.empty(sources), np.empty(nodes, np.int8),
    )  # fmt: skip


@njit(nogil=True, cache=True)
def solve(problem, sources):
    """The minimum cost for the first ``sources`` sources; overwrites supplies and demands."""
    scale = 2 * sources + 2
    _perturb(problem, sources, scale)
    _first_tree(problem, sources)
    tolerance = TOLERANCE * problem.costs[:sources].max()
    source, waiting = 0, sources
    while waiting > 0:  # sources whose arcs have not been looked at since the tree changed
        sink, gain = _cheaper_arc(problem, sources, source)
        if gain < -tolerance:
            _take_arc(problem, sources, source, sources + sink, gain)
            waiting = sources + 1
        waiting -= 1
        source = source + 1 if source + 1 < sources else 0
    return _total_cost(problem, sources, scale)


@njit(nogil=True, inline="always")
def _perturb(problem, sources, scale):
    """Perturb supplies and the last demand against degeneracy.

    No subset of the supplies then equals a subset of the demands, so every tree arc has a positive flow, every pivot
    lowers the cost, and no tree recurs. The optimal tree is also optimal for the original problem.
    """
    for source in range(sources):
        problem.supplies[source] = problem.supplies[source] * scale + 1
    for sink in range(len(problem.demands)):
        problem.demands[sink] *= scale
    problem.demands[len(problem.demands) - 1] += sources


@njit(nogil=True, inline="always")
def _first_tree(problem, sources):
    """Build the initial tree: repeatedly, the source with the largest regret sends to its cheapest open sink.

    Each step closes the source or the sink, which becomes the child of the other.
    """
    parents, flows, order = problem.parents, problem.flows, np.empty(sources + len(problem.demands), np.int64)
    for source in range(sources):
        _two_best(problem, source)
    closed = 0
    while True:
        source = -1
        for other in range(sources):
            if problem.supplies[other] > 0 and (source < 0 or problem.regrets[other] > problem.regrets[source]):
                source = other
        if source < 0:
            break
        sink = problem.best[source]
        amount = min(problem.supplies[source], problem.demands[sink])
        problem.supplies[source] -= amount
        problem.demands[sink] -= amount
        child, parent = source, sources + sink
        if problem.supplies[source] > 0:
            child, parent = parent, child
            for other in range(sources):
                if problem.supplies[other] > 0 and (problem.best[other] == sink or problem.second[other] == sink):
                    _two_best(problem, other)
        parents[child], flows[child], order[closed] = parent, amount, child
        closed += 1
    root = parents[order[closed - 1]]
    parents[root], problem.potentials[root] = -1, 0.0
    for place in range(closed - 1, -1, -1):
        node = order[place]
        problem.potentials[node] = _cost(problem, sources, node) - problem.potentials[parents[node]]


@njit(nogil=True, inline="always")
def _two_best(problem, source):
    """Update ``best``, ``second`` and ``regrets`` of a source."""
    best, second, least, next_least = -1, -1, np.inf, np.inf
    for sink in range(len(problem.demands)):
        cost = problem.costs[source, sink]
        if problem.demands[sink] > 0 and cost < next_least:
            if cost < least:
                best, second, least, next_least = sink, best, cost, least
            else:
                second, next_least = sink, cost
    problem.best[source], problem.second[source] = best, second
    problem.regrets[source] = next_least - least


@njit(nogil=True, inline="always")
def _cost(problem, sources, node):
    """Cost of the arc between a node and its parent."""
    parent = problem.parents[node]
    return problem.costs[node, parent - sources] if node < sources else problem.costs[parent, node - sources]


@njit(nogil=True, inline="always")
def _cheaper_arc(problem, sources, source):
    """The sink with the smallest reduced cost for a source, and this reduced cost."""
    best, gain = 0, np.inf
    own = problem.potentials[source]
    for sink in range(len(problem.demands)):
        reduced = problem.costs[source, sink] - own - problem.potentials[sources + sink]
        if reduced < gain:
            best, gain = sink, reduced
    return best, gain


@njit(nogil=True, inline="always")
def _take_arc(problem, sources, source, sink, gain):
    """Pivot: add an arc to the tree, send the maximum flow along its cycle, and remove the arc that this empties."""
    parents, flows = problem.parents, problem.flows
    join = _meeting(problem, sources, source, sink)
    one, other = _smallest_flow(problem, source, join), _smallest_flow(problem, sink, join)
    on_source_side = other < 0 or (one >= 0 and flows[one] < flows[other])
    emptied = one if on_source_side else other
    amount = flows[emptied]
    _change_flows(problem, source, join, amount)
    _change_flows(problem, sink, join, amount)
    # What hung on the emptied arc hangs on the new arc now, with the way between the two turned round.
    node, parent = (source, sink) if on_source_side else (sink, source)
    first, flow = node, amount
    while True:
        next_node, next_flow = parents[node], flows[node]
        parents[node], flows[node] = parent, flow
        if node == emptied:
            break
        node, parent, flow = next_node, node, next_flow
    _shift_potentials(problem, sources, first, gain)


@njit(nogil=True, inline="always")
def _meeting(problem, sources, source, sink):
    """The lowest common ancestor of two nodes."""
    problem.marks[: sources + len(problem.demands)] = 0
    node = source
    while node >= 0:
        problem.marks[node] = 1
        node = problem.parents[node]
    node = sink
    while not problem.marks[node]:
        node = problem.parents[node]
    return node


@njit(nogil=True, inline="always")
def _smallest_flow(problem, node, join):
    """The node with the smallest flow among nodes 1, 3, ... of the path to ``join``; -1 if the path is empty."""
    smallest, shrinks = -1, True
    while node != join:
        if shrinks and (smallest < 0 or problem.flows[node] < problem.flows[smallest]):
            smallest = node
        shrinks = not shrinks
        node = problem.parents[node]
    return smallest


@njit(nogil=True, inline="always")
def _change_flows(problem, node, join, amount):
    """Subtract ``amount`` from the flows of arcs 1, 3, ... of the path to ``join``, and add it to the others."""
    amount = -amount
    while node != join:
        problem.flows[node] += amount
        amount = -amount
        node = problem.parents[node]


@njit(nogil=True, inline="always")
def _shift_potentials(problem, sources, first, gain):
    """Update the potentials in the subtree of ``first``: add ``gain`` on its side, subtract it on the other side.

    The sides are sources and sinks. Then the potentials fit the cost of the new arc above ``first``, too.
    """
    parents, marks = problem.parents, problem.marks
    nodes = sources + len(problem.demands)
    marks[:nodes] = 0
    marks[first] = 1
    for node in range(nodes):
        top = node
        while marks[top] == 0 and parents[top] >= 0:
            top = parents[top]
        mark = marks[top] if marks[top] else 2  # 1 below first, 2 elsewhere
        top = node
        while marks[top] == 0:
            marks[top] = mark
            if parents[top] < 0:
                break
            top = parents[top]
        if mark == 1:
            problem.potentials[node] += gain if (node < sources) == (first < sources) else -gain


@njit(nogil=True, inline="always")
def _total_cost(problem, sources, scale):
    """Total cost of the flows without the perturbation."""
    total = 0.0
    for node in range(sources + len(problem.demands)):
        if problem.parents[node] >= 0:
            total += (problem.flows[node] + sources) // scale * _cost(problem, sources, node)
    return total
