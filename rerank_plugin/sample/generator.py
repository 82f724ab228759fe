"""``rerank-plugin sample``: writes the bundled sample, or a larger collection of the same kind.

A synthetic model of searching PubMed-style literature, so that every command runs without a download. A *topic* pairs
an agent (drug, gene or procedure) with a condition; its documents are

* full: of a wanted kind (patient studies, reviews, guidance) and about both concepts,
* partial: the same, with one of the two concepts replaced by a broader term,
* distractors: with the topic's words in the title but of an unwanted kind (animal work, protocols, letters, ...).

Every document and every query picks one of several synonyms of each concept: query words fail to match relevant
documents (term mismatch) and match many non-relevant ones (under-specified queries). The wanted kinds are the same for
all queries, so they can be learned from some queries and applied to others. A few judgments contradict the rule.

All other documents are *background*, about invented subjects. They are streamed: memory depends on the number of
queries, not of documents.
"""

from __future__ import annotations

import gzip
import json
import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random
from typing import NamedTuple

from rerank_plugin.base.errors import InputError
from rerank_plugin.base.records import Document
from rerank_plugin.base.terminal import progress
from rerank_plugin.files.beir_folder import write_queries_and_judgments
from rerank_plugin.files.outputs import FolderKind, replacing_folder
from rerank_plugin.sample.contents import AGENTS, CONDITIONS, KINDS, OUTCOMES, POPULATIONS, SHARED, WORDS, Concept, Kind

DOCUMENTS, QUERIES, SEED = 1500, 150, 13

COLLECTION = FolderKind("a generated collection", "corpus.jsonl.gz", (), ("queries.jsonl", "qrels/*.tsv", "README.md"))
MOST_QUERIES = 2 * len(AGENTS) * len(CONDITIONS)  # two for every pair
DOCUMENTS_PER_QUERY = 10  # at least
TOPICAL = 9.6  # documents about topics per query; the rest is background
SPLITS = {"train": 0.60, "dev": 0.13, "test": 0.27}  # shares of the topics: no topic is in two splits

FULL, PARTIAL = 0.32, 0.10  # shares of a topic's documents; the rest are distractors
FAVOURED = 0.7  # share of a topic's documents with the population, and with the outcome, that its queries may ask for
NEUTRAL_TITLE, NEUTRAL_OPENING, LATE_OPENING = 0.35, 0.25, 0.35
ASIDE = 0.3  # share of the documents with a sentence of the other side
ADDED_TO_TITLE = 0.5  # share of the titles with an addition, mostly a population or an outcome
MIXED = 0.7  # share of the documents with more than one synonym of a concept

# Shares of a concept's first synonym, its second, ...: distractors prefer common words a little more.
QUERY_FORMS = (0.89, 0.07, 0.04)
RELEVANT_FORMS = (0.72, 0.16, 0.12)
DISTRACTOR_FORMS = (0.88, 0.08, 0.04)

CONTRARY = 0.06  # share of the judgments that contradict the rule
JUDGED_RELEVANT, JUDGED_IN_TITLE, JUDGED_ELSEWHERE = 0.93, 0.95, 0.35  # judged shares of relevant ones and distractors
STRAY = 3  # judged non-relevant documents of other topics, per query

TABLE = 1024  # entries in a table of ready-made words or numbers


# ---- the plan: topics, documents, queries ----


class Topic(NamedTuple):
    agent: Concept
    condition: Concept
    population: Concept
    outcome: Concept
    split: str


class DocumentPlan(NamedTuple):
    """The plan of a document. ``broader`` names the concept that is replaced by a broader term."""

    topic: Topic
    kind: Kind
    broader: str  # "", "agent" or "condition"
    population: Concept
    outcome: Concept


class Need(NamedTuple):
    """An information need; fields that a query does not ask for are empty."""

    topic: Topic
    agent: Concept | None = None
    condition: Concept | None = None
    population: Concept | None = None
    outcome: Concept | None = None
    review: bool = False


def pick(rng: Random, items: Sequence):
    """Like ``rng.choice``, faster, and the same in all Python versions."""
    return items[int(rng.random() * len(items))]


def _shuffle(rng: Random, items: list) -> list:
    for last in range(len(items) - 1, 0, -1):
        drawn = int(rng.random() * (last + 1))
        items[last], items[drawn] = items[drawn], items[last]
    return items


def _choose(rng: Random, items: Sequence, weights: Sequence[float]):
    """An item with a probability in proportion to its weight; surplus weights are ignored."""
    weights = weights[: len(items)]
    remaining = rng.random() * sum(weights)
    for item, weight in zip(items, weights):
        remaining -= weight
        if remaining < 0:
            return item
    return items[0]


def _topics(rng: Random, count: int) -> list[Topic]:
    """Pairs of an agent and a condition, the plausible ones first, divided into the splits."""
    pairs = [(agent, condition) for agent in AGENTS for condition in CONDITIONS]
    plausible = _shuffle(rng, [pair for pair in pairs if pair[1].key in pair[0].conditions])
    others = _shuffle(rng, [pair for pair in pairs if pair[1].key not in pair[0].conditions])
    chosen = _shuffle(rng, (plausible + others)[:count])
    topics, start, share = [], 0, 0.0
    for split, part in SPLITS.items():
        share += part
        end = round(share * count)
        for agent, condition in chosen[start:end]:
            topics.append(Topic(agent, condition, pick(rng, POPULATIONS), pick(rng, OUTCOMES), split))
        start = end
    return topics


def _plans(rng: Random, topics: list[Topic], count: int) -> list[DocumentPlan]:
    """``count`` documents, spread evenly over the topics, in random order."""
    plans = []
    for number, topic in enumerate(topics):
        size = (number + 1) * count // len(topics) - number * count // len(topics)
        full = max(1, round(FULL * size))
        partial = round(PARTIAL * size)
        for position in range(size):
            wanted = position < full + partial
            broader = pick(rng, ("agent", "condition")) if full <= position < full + partial else ""
            kind = pick(rng, _KINDS[wanted, topic.agent.type])
            population = topic.population if rng.random() < FAVOURED else pick(rng, POPULATIONS)
            outcome = topic.outcome if rng.random() < FAVOURED else pick(rng, OUTCOMES)
            plans.append(DocumentPlan(topic, kind, broader, population, outcome))
    return _shuffle(rng, plans)


_KINDS = {
    (wanted, type): [kind for kind in KINDS if kind.wanted == wanted and type in kind.agents for _ in range(kind.share)]
    for wanted in (True, False)
    for type in ("drug", "gene", "procedure")
}


def _need(rng: Random, topic: Topic) -> Need:
    both = Need(topic, topic.agent, topic.condition)
    forms = {
        0.57: both,
        0.11: both._replace(population=topic.population),
        0.09: both._replace(outcome=topic.outcome),
        0.08: both._replace(review=True),
        0.07: Need(topic, condition=topic.condition),
        0.05: Need(topic, condition=topic.condition, review=True),
        0.03: Need(topic, agent=topic.agent, outcome=topic.outcome),
    }
    return _choose(rng, list(forms.values()), list(forms))


def _query_text(rng: Random, need: Need) -> str:
    """Keywords: one synonym of each concept, in either order."""
    first = [_choose(rng, concept.forms, QUERY_FORMS) for concept in (need.agent, need.condition) if concept]
    if len(first) == 2 and rng.random() < 0.3:
        first.reverse()
    rest = [_choose(rng, concept.forms, QUERY_FORMS) for concept in (need.population, need.outcome) if concept]
    return " ".join(first + rest + ["review"] * need.review)


def _needs(rng: Random, topics: list[Topic], count: int) -> dict[str, Need]:
    """Distinct query texts of 2 to 7 words with their information needs, in the order of the topics."""
    needs: dict[str, Need] = {}
    for number, topic in enumerate(topics):
        size = (number + 1) * count // len(topics) - number * count // len(topics)
        while size:
            need = _need(rng, topic)
            text = _query_text(rng, need)
            if text not in needs and 2 <= len(text.split()) <= 7:
                needs[text] = need
                size -= 1
    return needs


def grade(need: Need, plan: DocumentPlan) -> int:
    """The rule of the judgments: 2 for a document of a wanted kind that meets the need, 1 if in part, else 0."""
    topic = plan.topic
    if not plan.kind.wanted:
        return 0
    if (need.agent and need.agent is not topic.agent) or (need.condition and need.condition is not topic.condition):
        return 0
    complete = (
        not (need.agent and plan.broader == "agent")
        and not (need.condition and plan.broader == "condition")
        and need.population in (None, plan.population)
        and need.outcome in (None, plan.outcome)
        and (plan.kind.review or not need.review)
    )
    return 2 if complete else 1


# ---- the texts ----


_ONSETS = "b br c cr d dr f fl g gl h j k kl l m n p pl qu r s st t tr v w x y".split()
_VOWELS = "a e i o u ae ia ou".split()
_ENDS = "l lin m mab n nib nor r rex ron s st t tide x zole".split()


def invented_word(number: int) -> str:
    """A made-up word for each whole number, longer for larger ones."""
    letters = ""
    while True:
        number, onset = divmod(number, len(_ONSETS))
        number, vowel = divmod(number, len(_VOWELS))
        letters += _ONSETS[onset] + _VOWELS[vowel]
        if number < len(_ENDS):
            return letters + _ENDS[number]
        number -= len(_ENDS)


def _rare(rng: Random) -> int:
    """A number with a heavy tail: n draws give about n^0.75 distinct ones, so the vocabulary never stops growing."""
    return 4000 + int((1.0 - rng.random()) ** -3 * 5000) % 10**10  # from 4000 on, words have two syllables and more


def _symbol(rng: Random) -> str:
    """A symbol like that of a gene: CXR14, IL-31, KDM5B."""
    letters = "".join(pick(rng, "BCDFGHKLMNPRSTXZ") for _ in range(2 + int(rng.random() * 3)))
    return letters + pick(rng, ("", "-")) + str(1 + int(rng.random() ** 2 * 40)) + pick(rng, ("", "", "", "A", "α"))


def _zipf(rng: Random, words: Sequence[str]) -> list[str]:
    """A table that holds the r-th word in proportion to 1 / (r + 2)."""
    weights = [1 / (rank + 3) for rank in range(len(words))]
    return [_choose(rng, words, weights) for _ in range(TABLE)]


def _general_tables() -> dict[str, list[str]]:
    """Ready-made words and numbers for the slots that do not depend on the document; the same for every seed."""
    rng = Random("general tables")
    real = rng.random

    def table(make) -> list[str]:
        return [make() for _ in range(TABLE)]

    return {
        "adj": _zipf(rng, WORDS["adjectives"]),
        "noun": _zipf(rng, WORDS["nouns"]),
        "x": _zipf(rng, WORDS["subjects"]),
        "r": table(lambda: f"0.{int(real() * 90) + 10}"),
        "n": table(lambda: str(int(2 + real() ** 2 * 80))),
        "N": table(lambda: f"{int(60 + 20 ** (1 + real() * 2.4)):,}" if real() < 0.5 else str(int(50 + real() * 900))),
        "pct": table(lambda: f"{real() * 100:.{int(real() * 2)}f}%"),
        "p": table(lambda: pick(rng, ("< 0.001", "< 0.05", f"= 0.{int(real() * 900) + 10:03d}"))),
        "ci": table(lambda: f"95% CI 0.{int(real() * 50) + 10} to 1.{int(real() * 90) + 10}"),
        "ratio": table(lambda: f"{real() * 3:.2f}"),
        "year": table(lambda: str(int(1985 + real() * 39))),
        "months": table(lambda: str(pick(rng, (1, 2, 3, 6, 9, 12, 18, 24, 36, 48, 60)))),
        "dose": table(lambda: f"{pick(rng, (1, 2, 5, 10, 25, 40, 75, 100, 250))} {pick(rng, ('mg', 'µM', 'nM'))}"),
        "gene": _zipf(rng, WORDS["genes"] + [_symbol(rng) for _ in range(300)]),
    }


class Writer:
    """Writes the texts of planned and background documents, all with one random generator."""

    def __init__(self, seed: int):
        self._rng = Random(f"{seed} documents")
        self._general = _general_tables()

    def topical(self, plan: DocumentPlan) -> tuple[str, str]:
        """The title and the abstract of a planned document."""
        forms = RELEVANT_FORMS if plan.kind.wanted else DISTRACTOR_FORMS
        agent, condition = plan.topic.agent, plan.topic.condition
        titled, slots = {}, self._slots()
        for slot, concept, type in (("a", agent, "agent"), ("c", condition, "condition")):
            mentions = self._mentions(concept, forms)
            titled[slot] = slots[slot] = mentions
            if plan.broader == type:
                # Mostly the broader term, and the concept itself in one of seven mentions.
                slots[slot] = [concept.broader] * 6 + [mentions[0]]
                titled[slot] = [concept.broader]
        slots["as"], slots["cs"] = agent.company, condition.company
        slots["pop"] = (_choose(self._rng, plan.population.forms, forms),)
        slots["out"] = (_choose(self._rng, plan.outcome.forms, forms),)
        return self._text(plan.kind, slots, titled)

    def background(self) -> tuple[str, str]:
        """The title and the abstract of a document about invented subjects."""
        rng, nouns = self._rng, self._general["noun"]
        agent, condition = invented_word(_rare(rng)), invented_word(_rare(rng))
        type = pick(rng, ("drug", "gene", "procedure"))
        slots = self._slots()
        slots["a"] = (agent, agent, f"{agent} {pick(rng, ('therapy', 'gene', 'testing', 'levels'))}")
        slots["c"] = (f"{condition} disease", f"{condition} syndrome")
        # Real concepts are named in passing, as company.
        slots["as"], slots["cs"] = (
            (pick(rng, concept.company), pick(rng, nouns), pick(rng, concept.forms))
            for concept in (pick(rng, AGENTS), pick(rng, CONDITIONS))
        )
        slots["pop"], slots["out"] = pick(rng, POPULATIONS).forms, pick(rng, OUTCOMES).forms
        return self._text(pick(rng, _KINDS[rng.random() < 0.5, type]), slots, {})

    def _slots(self) -> dict[str, Sequence[str]]:
        rng = self._rng
        first, second, place = (invented_word(_rare(rng)) for _ in range(3))
        subject = pick(rng, self._general["x"])
        return {**self._general, "rare": (first, second), "place": (place.capitalize(),), "x": (subject,)}

    def _mentions(self, concept: Concept, weights: Sequence[float]) -> list[str]:
        """The forms to draw a concept's mentions from: mostly one synonym, in most documents also another."""
        rng = self._rng
        main = _choose(rng, concept.forms, weights)
        if rng.random() >= MIXED:
            return [main]
        other = pick(rng, concept.forms)
        return [main] * 5 + [other, other, f"{main} ({other})" if other != main else main]

    def _text(self, kind: Kind, slots: dict, titled: dict) -> tuple[str, str]:
        """The title and the abstract; ``titled``: slots that differ in the title, which takes their first entries."""
        rng, random = self._rng, self._rng.random
        in_title = {**slots, **{slot: entries[:1] for slot, entries in titled.items()}}
        title = pick(rng, SHARED["neutral_titles"] if random() < NEUTRAL_TITLE else kind.titles).fill(rng, in_title)
        if random() < ADDED_TO_TITLE:
            title += pick(rng, SHARED["added_to_titles"]).fill(rng, in_title)
        opening = pick(rng, SHARED["neutral_openings"] if random() < NEUTRAL_OPENING else kind.openings)
        background = pick(rng, SHARED["background"])
        templates = [background, opening] if random() < LATE_OPENING else [opening, background]
        templates.append(pick(rng, kind.methods))
        if kind.length:
            templates.append(pick(rng, SHARED["about_agent"]))
            templates += [pick(rng, SHARED["common"]) for _ in range(kind.length - 1 + int(random() * 3))]
        if random() < ASIDE:
            asides = SHARED["lab_asides" if kind.wanted else "clinic_asides"]
            templates.insert(2 + int(random() * 2), pick(rng, asides))
        templates.append(pick(rng, kind.conclusions))
        return title, " ".join([template.fill(rng, slots) for template in templates])


# ---- the files ----


def generate(output: Path, documents: int = DOCUMENTS, queries: int = QUERIES, seed: int = SEED) -> None:
    """Write a collection as a BEIR folder: the same bytes for the same arguments.

    The folder appears once it is complete; an existing folder that is not empty is an `InputError`.
    """
    if not 10 <= queries <= MOST_QUERIES:
        raise InputError(f"{queries} queries: give a number from 10 to {MOST_QUERIES}")
    if documents < DOCUMENTS_PER_QUERY * queries:
        raise InputError(
            f"{documents} documents: {queries} queries need at least {DOCUMENTS_PER_QUERY * queries} documents "
            f"({DOCUMENTS_PER_QUERY} each): give more documents or fewer queries"
        )
    with replacing_folder(output, COLLECTION) as folder:
        _write(folder, documents, queries, seed)


class TopicalDocuments:
    """The topical documents as written, and their positions by concept."""

    def __init__(self) -> None:
        self.documents: list[tuple[str, str, DocumentPlan]] = []  # id, title, plan
        self.positions: dict[str, list[int]] = defaultdict(list)  # concept key -> positions in ``documents``

    def add(self, id: str, title: str, plan: DocumentPlan) -> None:
        for concept in (plan.topic.agent, plan.topic.condition):
            self.positions[concept.key].append(len(self.documents))
        self.documents.append((id, title, plan))


def _write(folder: Path, documents: int, queries: int, seed: int) -> None:
    topics = _topics(Random(f"{seed} topics"), max(1, queries // 2))
    plans = _plans(Random(f"{seed} plans"), topics, int(queries * TOPICAL))
    needs = _needs(Random(f"{seed} queries"), topics, queries)

    topical = TopicalDocuments()
    stream = progress(_documents(seed, plans, documents, topical), "writing", "documents", documents)
    _write_corpus(folder / "corpus.jsonl.gz", stream, documents)

    texts = {f"Q{number:03d}": text for number, text in enumerate(needs, 1)}
    rng = Random(f"{seed} judgments")
    splits: dict[str, list[tuple[str, str, int]]] = {split: [] for split in SPLITS}
    for (id, text), need in zip(texts.items(), needs.values()):  # in the order of the splits, as the topics are
        splits[need.topic.split] += [(id, document, score) for document, score in _judged(rng, text, need, topical)]
    write_queries_and_judgments(folder, texts.items(), splits)
    (folder / "README.md").write_bytes(README.format(documents=documents, queries=queries, seed=seed).encode())


def _documents(seed: int, plans: list[DocumentPlan], count: int, topical: TopicalDocuments) -> Iterator[Document]:
    """All documents in order, the planned ones scattered among the background and added to ``topical``."""
    writer = Writer(seed)
    positions = _positions(Random(f"{seed} places"), len(plans), count)
    remaining = iter(plans)
    for number in range(count):
        id = f"S{number + 1:06d}"
        if number in positions:
            plan = next(remaining)
            title, abstract = writer.topical(plan)
            topical.add(id, title, plan)
        else:
            title, abstract = writer.background()
        yield Document(id, title, abstract)


def _positions(rng: Random, count: int, end: int) -> set[int]:
    """``count`` distinct numbers below ``end``: shuffled if they are a large share of all, else drawn."""
    if end < 2 * count:
        return set(_shuffle(rng, list(range(end)))[:count])
    positions: set[int] = set()
    while len(positions) < count:
        positions.add(int(rng.random() * end))
    return positions


def _judged(rng: Random, text: str, need: Need, topical: TopicalDocuments) -> list[tuple[str, int]]:
    """The judged documents of a query: most relevant ones, distractors as a searcher meets them, and a few others."""
    words = set(_words(text))
    concepts = [concept for concept in (need.agent, need.condition) if concept]
    near = {position for concept in concepts for position in topical.positions[concept.key]}
    stray = {int(rng.random() * len(topical.documents)) for _ in range(STRAY)}
    judged = []
    for position in sorted(near | stray):
        id, title, plan = topical.documents[position]
        score = grade(need, plan)
        if score:
            share = JUDGED_RELEVANT
        elif words.issubset(_words(title)):
            share = JUDGED_IN_TITLE
        elif plan.topic is need.topic:
            share = JUDGED_ELSEWHERE
        else:
            share = float(position in stray)
        if rng.random() < share:
            if rng.random() < CONTRARY:
                score = 0 if score else 1
            judged.append((id, score))
    return judged


def _words(text: str) -> list[str]:
    return re.findall(r"\w+", text.lower())


def _write_corpus(path: Path, documents: Iterator[Document], count: int) -> None:
    """Write JSON lines, gzipped without name and time, so that the file is reproducible; small ones at level 9."""
    level = 9 if count <= 10_000 else 1
    encode = json.JSONEncoder(ensure_ascii=False).encode
    with open(path, "wb") as raw, gzip.GzipFile("", "wb", level, raw, mtime=0) as zipped:
        lines = []
        for document in documents:
            lines.append(encode({"_id": document.id, "title": document.title, "text": document.abstract}))
            if len(lines) == 500:
                zipped.write(("\n".join(lines) + "\n").encode())
                lines.clear()
        zipped.write("".join(line + "\n" for line in lines).encode())


README = """\
# Sample collection

{documents:,} titles and abstracts, {queries} queries, and judgments in the splits train, dev and test, in the layout of
BEIR. **All of it is synthetic:** a program composed the text from invented sentences. No study, finding, number or
recommendation in it is real, and none of it may guide anybody's care. The document numbers are not PMIDs.

Judgments are graded: 2 for a document about all that the query asks for and of a kind that searchers open (studies of
patients, reviews, guidance), 1 for one that meets a part of it, 0 otherwise. A few contradict this rule on purpose.

Made, and to be made again, by

    rerank-plugin sample --output DIR --documents {documents} --queries {queries} --seed {seed}

Licence: Apache-2.0, as the program.
"""
