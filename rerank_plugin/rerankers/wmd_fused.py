"""Word Mover's Distance ([D18] 4.3.2) as it is served: the same distances as the plain path of ``wmd``, compiled.

Two things make it fast. The distance of a title word and a query word is computed once, however many titles hold the
word. And problems as small as a title and a query (some 12 by 4 words) are solved where they stand: a call of a general
solver takes longer than the solving.

The solver is the network simplex method (Ahuja, Magnanti and Orlin, Network Flows, ch. 11) on a tree of some 16 nodes:
it takes in one arc that makes the transport cheaper, and lets another go, until there is none. A word's mass is its
count over the words of its text; times both texts' words the masses are integers, and flows are exact.

Letters in shapes: C candidates, N title words, U distinct words, n distinct words of one title, m of the query,
V vocabulary, D dimension.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from rerank_plugin.indexes.candidates import Candidates
from rerank_plugin.indexes.forward import ForwardIndex
from rerank_plugin.kernels.arithmetic import REASSOCIATE
from rerank_plugin.kernels.parallel import Workspace, crew, split
from rerank_plugin.kernels.prefetch import AHEAD, prefetch_row
from rerank_plugin.kernels.word_loops import distinct_words, plain
from rerank_plugin.rerankers.least_distances import least_distances

# Of the largest cost: an arc that would save less is left out. Far above what is lost in adding up potentials.
TOLERANCE = 1e-11


class FusedDistances:
    """Distances of a query and the titles of its candidates.

    Args:
        index: the forward index of the candidates.
        word_ids: the vector of each term of the index, int32 [V of the index]; 0 where the term is left out.
        vectors: float32 [V, D].
        threads: over which words and titles are split.
    """

    def __init__(self, index: ForwardIndex, word_ids: np.ndarray, vectors: np.ndarray, threads: int):
        self.index, self.word_ids, self.vectors, self.threads = index, word_ids, np.ascontiguousarray(vectors), threads
        self.workspace = Workspace()

    def distances(
        self, query_ids: np.ndarray, query_counts: np.ndarray, candidates: Candidates, exact_top: int | None = None
    ) -> np.ndarray:
        """Word Mover's Distances, float64 [C]; infinite for a title without known words.

        Args:
            query_ids: distinct vectors of the query, int64 [m]. query_counts: how often each occurs, int64 [m].
            exact_top: from the rank after this one on they may be lower bounds; by default all are exact.
        """
        count, lengths = len(candidates), candidates.title_lengths.astype(np.int32)
        places = self.workspace.array("places", (count, int(lengths.max(initial=0))), np.int32)
        terms = self.workspace.array("terms", (min(int(lengths.sum()), self.index.vocabulary_size),), np.int32)
        marks = self.workspace.zeros("marks", self.index.vocabulary_size, np.int32)
        number = distinct_words(plain(self.index.tokens), candidates.starts, lengths, marks, places, terms)
        ids, query_vectors = self.word_ids[terms[:number]], self.vectors[query_ids]  # [U], [m, D]
        table = self.workspace.array("costs", (number, len(query_ids)), np.float64)
        lower = np.empty(count)

        def words(start: int, stop: int) -> None:
            _word_distances(self.vectors, ids, query_vectors, table, start, stop)

        def bounds(start: int, stop: int) -> None:
            _title_bounds(places, lengths, ids, table, query_counts, lower, start, stop)

        def exact(titles: np.ndarray, smallest: int = 8) -> np.ndarray:
            solved = np.empty(len(titles))

            def solve_part(start: int, stop: int) -> None:
                _title_distances(titles, places, lengths, ids, table, query_counts, solved, start, stop)

            split(solve_part, len(titles), self.threads, smallest)
            return solved

        with crew(self.threads):
            split(words, number, self.threads, smallest=256)
            if exact_top is None:
                return exact(np.arange(count), smallest=64)
            split(bounds, count, self.threads)
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
    """A transportation problem of at most N sources and of m sinks, and room for solving it.

    Sources and sinks are nodes: source i of n is node i, sink j is node n + j.

    Attributes:
        costs: of sending one unit, float64 [N, m].
        supplies: int64 [N], positive. demands: int64 [m], positive, with the same sum.
        parents: the tree of the arcs in use, by the next node on the way to the root, int64 [N + m]; -1 for the root.
        flows: what is sent between a node and its parent, int64 [N + m].
        potentials: float64 [N + m]; those of the two ends of an arc of the tree add up to its cost.
        best, second: the two cheapest sinks of a source among those that are open, int64 [N]; -1 for none.
        regrets: what the second costs more than the best, float64 [N]; infinite where there is no second.
        marks: int8 [N + m].
    """

    costs: np.ndarray
    supplies: np.ndarray
    demands: np.ndarray
    parents: np.ndarray
    flows: np.ndarray
    potentials: np.ndarray
    best: np.ndarray
    second: np.ndarray
    regrets: np.ndarray
    marks: np.ndarray


@njit(nogil=True, cache=True)
def new_problem(sources, sinks):
    """Room for problems of that size, with any content."""
    nodes = sources + sinks
    return Problem(
        np.empty((sources, sinks)), np.empty(sources, np.int64), np.empty(sinks, np.int64),
        np.empty(nodes, np.int64), np.empty(nodes, np.int64), np.empty(nodes),
        np.empty(sources, np.int64), np.empty(sources, np.int64), np.empty(sources), np.empty(nodes, np.int8),
    )  # fmt: skip


@njit(nogil=True, cache=True)
def solve(problem, sources):
    """The least cost of sending all supplies of the first ``sources`` sources; supplies and demands are used up."""
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
    """Add a little to every supply and all of that to the last demand.

    After this no part of the supplies adds up to a part of the demands, so every arc of a tree sends something, every
    new tree is cheaper, and none comes twice. The tree that is best is the best one without the little, too.
    """
    for source in range(sources):
        problem.supplies[source] = problem.supplies[source] * scale + 1
    for sink in range(len(problem.demands)):
        problem.demands[sink] *= scale
    problem.demands[len(problem.demands) - 1] += sources


@njit(nogil=True, inline="always")
def _first_tree(problem, sources):
    """Send to the cheapest open sinks, always from the source that would pay most for its second best.

    Each sending closes its source or its sink: the child of the other, which closes later.
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
    """Look for the two cheapest open sinks of a source; -1 where there is none."""
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
    """The source's arc that would save most for each unit, and its cost less what the unit costs now."""
    best, gain = 0, np.inf
    own = problem.potentials[source]
    for sink in range(len(problem.demands)):
        reduced = problem.costs[source, sink] - own - problem.potentials[sources + sink]
        if reduced < gain:
            best, gain = sink, reduced
    return best, gain


@njit(nogil=True, inline="always")
def _take_arc(problem, sources, source, sink, gain):
    """Send as much as can be along an arc that is not in the tree; the arc that is emptied by this leaves the tree."""
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
    """The node where the ways of two nodes to the root meet."""
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
    """The node with the smallest flow to its parent among the first, third, ... node on the way; -1 on no way."""
    smallest, shrinks = -1, True
    while node != join:
        if shrinks and (smallest < 0 or problem.flows[node] < problem.flows[smallest]):
            smallest = node
        shrinks = not shrinks
        node = problem.parents[node]
    return smallest


@njit(nogil=True, inline="always")
def _change_flows(problem, node, join, amount):
    """Send less on the first, third, ... arc on the way from a node and more on the others."""
    amount = -amount
    while node != join:
        problem.flows[node] += amount
        amount = -amount
        node = problem.parents[node]


@njit(nogil=True, inline="always")
def _shift_potentials(problem, sources, first, gain):
    """Add ``gain`` to the potentials of the nodes below and at ``first`` that are on its side, and take it from others.

    So the arcs among them keep their costs, and the one above them gets its own.
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
    """Cost of the flows, with what was added to the supplies taken out of them."""
    total = 0.0
    for node in range(sources + len(problem.demands)):
        if problem.parents[node] >= 0:
            total += (problem.flows[node] + sources) // scale * _cost(problem, sources, node)
    return total
