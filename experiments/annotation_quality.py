"""Precision, recall and F1 of an annotator on gold mentions, by four criteria.

    python -m experiments annotation --knowledge knowledge-bases/mesh --gold test.pubtator.gz

* ``mention``: the spans are equal, and the best candidate is a concept of the gold mention;
* ``candidates``: the same with any of the K candidates;
* ``overlap``: the spans overlap, and the best candidate is a concept of the gold mention;
* ``document``: the set of a text's concepts, by the best candidates.

The annotator marks all concepts of the knowledge base, the gold annotations only those of the corpus's subject. So
scores are computed twice: over all annotated mentions (where precision means little), and only over those of the gold's
kind, by MeSH's trees: diseases are in tree C or below Mental Disorders (F03), chemicals in tree D.

Gold mentions without a concept of the knowledge base (no concept, OMIM, supplementary records) cannot be found: they
are counted and left out. A gold mention of several concepts is found by any of them; ``document`` counts all of them.

Gold texts are files in the PubTator format, of BC5CDR and the NCBI disease corpus:

    8701013|t|Famotidine-associated delirium. A series of six cases.
    8701013|a|Famotidine is a histamine H2-receptor antagonist ...
    8701013<TAB>0<TAB>10<TAB>Famotidine<TAB>Chemical<TAB>D015738

Positions count characters of title and abstract with one character between them. A mention may have several concepts,
joined by ``|`` or ``+`` (D003110|D009369), none (-1), or a prefix (MESH:D015738; OMIM:215600 is of another vocabulary).
A seventh field and lines of relations (CID) are ignored.
"""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from rerank_plugin import InputError
from rerank_plugin import options as commandline
from rerank_plugin.concepts.annotation import Mention
from rerank_plugin.concepts.knowledge_base import KnowledgeBase
from rerank_plugin.files.tables import aligned, markdown
from rerank_plugin.files.text_files import lines
from rerank_plugin.knowledge.__main__ import add_annotator_options, annotator_of

MEASURES = ("mention", "candidates", "overlap", "document")
CHEMICAL, DISEASE = "Chemical", "Disease"  # all other types of the corpora are diseases
TREES = {CHEMICAL: "D", DISEASE: "C"}  # letters of MeSH's trees
MENTAL_DISORDERS = "D001523"  # diseases in tree F, which also has other concepts
ALL = "all"
NO_CONCEPT = "-1"
_TEXT = re.compile(r"([^|\t]+)\|([ta])\|(.*)")
_JOINED = re.compile(r"[|+]")


class GoldMention(NamedTuple):
    """A mention: characters ``start`` to ``end``, its type as the corpus has it, and its concepts' ids, () for none."""

    start: int
    end: int
    type: str
    concepts: tuple[str, ...]


class GoldText(NamedTuple):
    """A title and an abstract, joined by a line feed, and their mentions."""

    id: str
    text: str
    mentions: tuple[GoldMention, ...]


def read_pubtator(path: Path) -> list[GoldText]:
    """The texts of a file, plain or .gz, in its order.

    Raises:
        InputError: a line is not in the format, or a mention's text differs from the text at its position.
    """
    titles: dict[str, str] = {}
    abstracts: dict[str, str] = defaultdict(str)
    mentions: dict[str, list[GoldMention]] = defaultdict(list)
    for number, line in lines(path):
        where = f"{path}:{number}"
        if text := _TEXT.fullmatch(line):
            (titles if text[2] == "t" else abstracts)[text[1]] = text[3]
            continue
        fields = line.split("\t")
        if len(fields) == 4:
            continue  # a relation
        if len(fields) < 6:
            raise InputError(
                f"{where}: expected ID|t|TITLE, ID|a|ABSTRACT, or a mention of six fields separated by tabs"
            )
        id = fields[0]
        if id not in titles:
            raise InputError(f"{where}: a mention in {id} before its title")
        mention = _mention(fields, where)
        span = f"{titles[id]}\n{abstracts[id]}"[mention.start : mention.end]
        if span.split() != fields[3].split():
            raise InputError(
                f"{where}: {fields[3]!r} is not at {mention.start} to {mention.end}, where the text has {span!r}"
            )
        mentions[id].append(mention)
    if not titles:
        raise InputError(f"{path}: no text: a PubTator file begins with ID|t|TITLE")
    return [GoldText(id, f"{title}\n{abstracts[id]}", tuple(mentions[id])) for id, title in titles.items()]


def _mention(fields: list[str], where: str) -> GoldMention:
    _, start, end, _, type, concepts = fields[:6]
    if not (start.isdecimal() and end.isdecimal() and int(start) < int(end)):
        raise InputError(f"{where}: a mention from {start!r} to {end!r}: expected two whole numbers, the first smaller")
    ids = dict.fromkeys(part.strip().removeprefix("MESH:") for part in _JOINED.split(concepts))
    return GoldMention(int(start), int(end), type, tuple(id for id in ids if id not in ("", NO_CONCEPT)))


class Score(NamedTuple):
    """Counts: ``right`` of ``found`` mentions (or concepts of texts) are gold; ``hit`` of ``gold`` ones are found."""

    right: int
    found: int
    hit: int
    gold: int

    def described(self) -> dict[str, float]:
        """The counts with precision, recall and F1, each 0 instead of a division by 0."""
        precision = self.right / self.found if self.found else 0.0
        recall = self.hit / self.gold if self.gold else 0.0
        f1 = 2 * precision * recall / (precision + recall) if precision + recall else 0.0
        return {**self._asdict(), "precision": precision, "recall": recall, "f1": f1}


class GoldSpan(NamedTuple):
    """A gold mention with concepts of the knowledge base: its characters, and its concepts as rows."""

    start: int
    end: int
    kind: str
    concepts: frozenset[int]


class Gold(NamedTuple):
    """Texts and their gold mentions."""

    texts: list[str]
    spans: list[list[GoldSpan]]
    left_out: Counter  # number of mentions without a concept of the knowledge base, by reason


def gold(texts: Sequence[GoldText], knowledge: KnowledgeBase) -> Gold:
    """Gold texts with concepts as rows of a knowledge base; an `InputError` if it has none of them."""
    ids = sorted({id for text in texts for mention in text.mentions for id in mention.concepts})
    rows = {id: row for id, row in zip(ids, knowledge.ids.find(ids).tolist()) if row >= 0}
    if not rows:
        raise InputError(f"{knowledge.folder}: has none of the {len(ids)} gold concepts: compile a recent MeSH")
    result = Gold([text.text for text in texts], [[] for _ in texts], Counter())
    for text, spans in zip(texts, result.spans):
        for mention in text.mentions:
            known = frozenset(rows[id] for id in mention.concepts if id in rows)
            if known:
                kind = CHEMICAL if mention.type == CHEMICAL else DISEASE
                spans.append(GoldSpan(mention.start, mention.end, kind, known))
            else:
                result.left_out[_reason(mention.concepts)] += 1
    return result


def _reason(concepts: tuple[str, ...]) -> str:
    if not concepts:
        return "without a concept"
    return "of OMIM" if concepts[0].startswith("OMIM") else "of concepts that are not in the knowledge base"


def of_kind(knowledge: KnowledgeBase, kind: str) -> np.ndarray:
    """Whether each concept is of a kind, disease or chemical, or with ``all`` of either, bool [C]."""
    if kind == ALL:
        return of_kind(knowledge, CHEMICAL) | of_kind(knowledge, DISEASE)
    of_tree = np.array([name == TREES[kind] for name in knowledge.type_names], bool)
    concepts = np.repeat(np.arange(len(knowledge)), np.diff(knowledge.type_offsets).astype(np.int64))
    kept = np.zeros(len(knowledge), bool)
    kept[concepts[of_tree[knowledge.types]]] = True
    return kept | _below(knowledge, MENTAL_DISORDERS) if kind == DISEASE else kept


def _below(knowledge: KnowledgeBase, id: str) -> np.ndarray:
    """Whether each concept is this one or a descendant, bool [C]; all False if the knowledge base lacks it."""
    reached = np.zeros(len(knowledge), bool)
    rows = knowledge.ids.find([id])
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
        found: the annotated mentions of each text.
        wanted: the gold mentions of each text.
        accepted: concepts to count, bool [C]: a mention counts if its best candidate (for ``candidates``, any
            candidate) is accepted. None counts all.
    """
    totals = np.zeros((len(MEASURES), 4), np.int64)
    for mentions, spans in zip(found, wanted, strict=True):
        best = any_ = mentions
        if accepted is not None:
            best = [mention for mention in mentions if accepted[mention.concepts[0]]]
            any_ = [mention for mention in mentions if accepted[list(mention.concepts)].any()]
        totals += [_exact(best, spans, 1), _exact(any_, spans, None), _overlapping(best, spans), _of_text(best, spans)]
    return {measure: Score(*total) for measure, total in zip(MEASURES, totals.tolist())}


def _exact(mentions: Sequence[Mention], spans: Sequence[GoldSpan], depth: int | None) -> tuple[int, int, int, int]:
    """The four counts of a score for equal spans, by the top ``depth`` candidates."""
    candidates = {(mention.start, mention.end): set(mention.concepts[:depth]) for mention in mentions}
    places: dict[tuple[int, int], set[int]] = {}
    for span in spans:
        places.setdefault((span.start, span.end), set()).update(span.concepts)
    right = sum(not candidates[place].isdisjoint(places.get(place, ())) for place in candidates)
    hit = sum(not span.concepts.isdisjoint(candidates.get((span.start, span.end), ())) for span in spans)
    return right, len(mentions), hit, len(spans)


def _overlapping(mentions: Sequence[Mention], spans: Sequence[GoldSpan]) -> tuple[int, int, int, int]:
    """The four counts of a score for overlapping spans, by the best candidate."""
    agree = [
        [m.start < span.end and span.start < m.end and m.concepts[0] in span.concepts for span in spans]
        for m in mentions
    ]
    return sum(map(any, agree)), len(mentions), sum(map(any, zip(*agree))), len(spans)


def _of_text(mentions: Sequence[Mention], spans: Sequence[GoldSpan]) -> tuple[int, int, int, int]:
    found = {mention.concepts[0] for mention in mentions}
    wanted = set().union(*(span.concepts for span in spans))
    return len(found & wanted), len(found), len(found & wanted), len(wanted)


class QualityRow(NamedTuple):
    """Scores of one setting of the annotator, for one kind of gold mentions."""

    setting: str
    gold: str
    found: str
    scores: dict[str, Score]


def rows(
    setting: str, found: Sequence[Sequence[Mention]], wanted: Gold, knowledge: KnowledgeBase
) -> Iterable[QualityRow]:
    """A setting's scores: by kind, for both kinds, and over all annotated mentions."""
    kinds = sorted({span.kind for spans in wanted.spans for span in spans})
    for kind in kinds:
        spans = [[span for span in of_text if span.kind == kind] for of_text in wanted.spans]
        yield QualityRow(setting, kind, "of its kind", scores(found, spans, of_kind(knowledge, kind)))
    if len(kinds) > 1:
        yield QualityRow(setting, ALL, "of its kind", scores(found, wanted.spans, of_kind(knowledge, ALL)))
    yield QualityRow(setting, ALL, "everything", scores(found, wanted.spans, None))


def arguments():
    parser = commandline.parser(
        "annotation",
        "Precision, recall and F1 on gold mentions in PubTator format (BC5CDR, NCBI disease),\n"
        "with equal names only and at several thresholds (docs/concept-annotation.md).",
    )
    parser.prog = "python -m experiments annotation"
    add = parser.add_argument
    add("--knowledge", type=Path, required=True, metavar="KB", help="compiled knowledge base")
    add("--gold", type=Path, nargs="+", required=True, help="files in PubTator format, also .gz")
    add("--thresholds", type=float, nargs="+", default=[0.6, 0.7, 0.8, 0.9], help="similarities to try")
    add("--format", choices=("text", "markdown", "json"), default="text", help="format of the output")
    add_annotator_options(parser)
    return parser


def main(argv: list[str] | None = None) -> None:
    options = commandline.parse(arguments(), argv)
    knowledge = KnowledgeBase(options.knowledge)
    wanted = gold([text for path in options.gold for text in read_pubtator(path)], knowledge)
    found_rows: list[QualityRow] = []
    for threshold in (None, *options.thresholds):
        found = annotator_of(options, knowledge, threshold).annotate_all(wanted.texts)
        found_rows += rows("exact" if threshold is None else f"{threshold:g}", found, wanted, knowledge)
    mentions = sum(map(len, wanted.spans))
    if options.format == "json":
        shown = [
            {**row._asdict(), "scores": {measure: score.described() for measure, score in row.scores.items()}}
            for row in found_rows
        ]
        counts = {"texts": len(wanted.texts), "mentions": mentions, "left_out": dict(wanted.left_out)}
        print(json.dumps({**counts, "rows": shown}, indent=1))
        return
    left_out = ", ".join(f"{count:,} {why}" for why, count in sorted(wanted.left_out.items())) or "none"
    print(f"{len(wanted.texts):,} texts, {mentions:,} gold mentions; left out: {left_out}\n")
    shares = ("precision", "recall", "f1")
    heads = (f"{measure} {what}" for measure in MEASURES for what in ("P", "R", "F1"))
    table = [["setting", "gold", "found", *heads]]
    for row in found_rows:
        values = (row.scores[measure].described()[share] for measure in MEASURES for share in shares)
        table.append([row.setting, row.gold, row.found, *(f"{100 * value:.1f}" for value in values)])
    print((markdown if options.format == "markdown" else aligned)(table, texts=3), end="")


if __name__ == "__main__":
    commandline.run(main)
