"""How well an annotator finds gold mentions: precision, recall and F1 in four ways.

* ``mention``: the span is exactly the gold one, and the best candidate is (one of) its concepts;
* ``candidates``: the same, but any of the K candidates may be the concept;
* ``overlap``: the spans overlap, and the best candidate is the concept;
* ``document``: which concepts a text has, by the best candidates, counted once a text.

The annotator marks all concepts of the knowledge base, the gold annotations only those of the corpus's subject. So
scores are computed twice: over all found mentions (where precision is of little meaning), and only over those of the
gold's kind, by MeSH's trees: diseases are in tree C or below Mental Disorders (F03), chemicals in tree D.

Gold mentions without a concept of the knowledge base (no concept, OMIM, supplementary records) cannot be found: they
are left out and counted. A gold mention of several concepts is found by any of them; ``document`` counts all of them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from rerank_plugin.files.errors import InputError
from rerank_plugin.knowledge.annotation import Mention
from rerank_plugin.knowledge.knowledge_base import KnowledgeBase
from rerank_plugin.knowledge.pubtator import GoldText

MEASURES = ("mention", "candidates", "overlap", "document")
CHEMICAL, DISEASE = "Chemical", "Disease"  # every other type of the corpora is one of diseases
TREES = {CHEMICAL: ("D",), DISEASE: ("C",)}  # letters of MeSH's trees
ROOTS = {DISEASE: ("D001523",)}  # Mental Disorders: in tree F with much that is none
ALL = "all"


class Score(NamedTuple):
    """``right`` of ``found`` mentions (or concepts of texts) are gold; ``hit`` of ``gold`` ones are found."""

    right: int
    found: int
    hit: int
    gold: int

    @property
    def precision(self) -> float:
        return self.right / self.found if self.found else 0.0

    @property
    def recall(self) -> float:
        return self.hit / self.gold if self.gold else 0.0

    @property
    def f1(self) -> float:
        total = self.precision + self.recall
        return 2 * self.precision * self.recall / total if total else 0.0


class GoldSpan(NamedTuple):
    """A gold mention with concepts of the knowledge base: its characters, and its concepts as rows."""

    start: int
    end: int
    kind: str
    concepts: frozenset[int]


class Gold(NamedTuple):
    """Texts and their gold mentions.

    ``left_out`` counts the mentions without a concept of the knowledge base, by reason.
    """

    texts: list[str]
    spans: list[list[GoldSpan]]
    left_out: Counter

    @property
    def kinds(self) -> list[str]:
        return sorted({span.kind for spans in self.spans for span in spans})


def gold(texts: Sequence[GoldText], knowledge: KnowledgeBase) -> Gold:
    """Gold texts with concepts as rows of a knowledge base.

    Raises:
        InputError: the knowledge base has none of the concepts.
    """
    ids = sorted({id for text in texts for mention in text.mentions for id in mention.concepts})
    rows = {id: row for id, row in zip(ids, knowledge.ids.find(ids).tolist()) if row >= 0}
    if not rows:
        raise InputError(
            f"{knowledge.folder}: has none of the {len(ids)} gold concepts: compile MeSH, of any recent year"
        )
    left_out: Counter = Counter()
    spans = []
    for text in texts:
        spans.append([])
        for mention in text.mentions:
            known = frozenset(rows[id] for id in mention.concepts if id in rows)
            if known:
                kind = CHEMICAL if mention.type == CHEMICAL else DISEASE
                spans[-1].append(GoldSpan(mention.start, mention.end, kind, known))
            else:
                left_out[_why(mention.concepts)] += 1
    return Gold([text.text for text in texts], spans, left_out)


def _why(concepts: tuple[str, ...]) -> str:
    if not concepts:
        return "without a concept"
    return "of OMIM" if concepts[0].startswith("OMIM") else "of concepts that are not in the knowledge base"


def of_kind(knowledge: KnowledgeBase, kind: str) -> np.ndarray:
    """The concepts that are diseases or chemicals, bool [C]; with ``all`` those that are either."""
    if kind == ALL:
        return of_kind(knowledge, CHEMICAL) | of_kind(knowledge, DISEASE)
    numbers = [number for number, name in enumerate(knowledge.type_names) if name in TREES[kind]]
    concepts = np.repeat(np.arange(len(knowledge)), np.diff(knowledge.type_offsets).astype(np.int64))
    kept = np.zeros(len(knowledge), bool)
    kept[concepts[np.isin(knowledge.types, numbers)]] = True
    return kept | below(knowledge, ROOTS.get(kind, ()))


def below(knowledge: KnowledgeBase, ids: Sequence[str]) -> np.ndarray:
    """Concepts and all their descendants, bool [C]; ids that the knowledge base lacks are ignored."""
    reached = np.zeros(len(knowledge), bool)
    rows = knowledge.ids.find(list(ids)) if ids else np.zeros(0, np.int64)
    reached[rows[rows >= 0]] = True
    if "parent" not in knowledge.relation_names:
        return reached
    edges = np.asarray(knowledge.relations) == knowledge.relation_names.index("parent")
    children, parents = np.asarray(knowledge.heads)[edges], np.asarray(knowledge.tails)[edges]
    count = -1
    while count != reached.sum():
        count = reached.sum()
        reached[children[reached[parents]]] = True
    return reached


def scores(
    found: Sequence[Sequence[Mention]], wanted: Sequence[Sequence[GoldSpan]], accepted: np.ndarray | None
) -> dict[str, Score]:
    """The four scores over all texts.

    Args:
        found: the mentions of each text. wanted: its gold ones.
        accepted: concepts that count, bool [C]: a mention counts whose best candidate is one (for ``candidates``, any
            candidate). None counts all.
    """
    totals = {measure: np.zeros(4, np.int64) for measure in MEASURES}
    for mentions, spans in zip(found, wanted, strict=True):
        if accepted is not None:
            best = [mention for mention in mentions if accepted[mention.concepts[0]]]
            any_ = [mention for mention in mentions if accepted[list(mention.concepts)].any()]
        else:
            best = any_ = list(mentions)
        totals["mention"] += _exact(best, spans, 1)
        totals["candidates"] += _exact(any_, spans, None)
        totals["overlap"] += _overlapping(best, spans)
        totals["document"] += _of_text(best, spans)
    return {measure: Score(*map(int, total)) for measure, total in totals.items()}


def _exact(mentions: Sequence[Mention], spans: Sequence[GoldSpan], depth: int | None) -> tuple[int, int, int, int]:
    """Score's four counts for equal spans, by the first ``depth`` candidates."""
    candidates = {(one.start, one.end): set(one.concepts[:depth]) for one in mentions}
    places: dict[tuple[int, int], set[int]] = {}
    for span in spans:
        places.setdefault((span.start, span.end), set()).update(span.concepts)
    right = sum(not candidates[place].isdisjoint(places.get(place, ())) for place in candidates)
    hit = sum(not span.concepts.isdisjoint(candidates.get((span.start, span.end), ())) for span in spans)
    return right, len(mentions), hit, len(spans)


def _overlapping(mentions: Sequence[Mention], spans: Sequence[GoldSpan]) -> tuple[int, int, int, int]:
    """Score's four counts for spans that overlap, by the best candidate."""

    def agree(mention: Mention, span: GoldSpan) -> bool:
        return mention.start < span.end and span.start < mention.end and mention.concepts[0] in span.concepts

    right = sum(any(agree(mention, span) for span in spans) for mention in mentions)
    hit = sum(any(agree(mention, span) for mention in mentions) for span in spans)
    return right, len(mentions), hit, len(spans)


def _of_text(mentions: Sequence[Mention], spans: Sequence[GoldSpan]) -> tuple[int, int, int, int]:
    found = {mention.concepts[0] for mention in mentions}
    wanted = set().union(*(span.concepts for span in spans))
    return len(found & wanted), len(found), len(found & wanted), len(wanted)


class QualityRow(NamedTuple):
    """Scores of one setting of the annotator, for one kind of gold mentions."""

    setting: str
    kind: str
    found: str
    scores: dict[str, Score]


def rows(
    setting: str, found: Sequence[Sequence[Mention]], wanted: Gold, knowledge: KnowledgeBase
) -> Iterable[QualityRow]:
    """A setting's scores: each kind against what was found of it, then all kinds, then against all that was found."""
    kinds = wanted.kinds
    for kind in kinds:
        spans = [[span for span in one if span.kind == kind] for one in wanted.spans]
        yield QualityRow(setting, kind, "of its kind", scores(found, spans, of_kind(knowledge, kind)))
    if len(kinds) > 1:
        yield QualityRow(setting, ALL, "of its kind", scores(found, wanted.spans, of_kind(knowledge, ALL)))
    yield QualityRow(setting, ALL, "everything", scores(found, wanted.spans, None))
