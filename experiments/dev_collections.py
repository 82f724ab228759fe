"""``python -m experiments.dev_collections``: judged collections to choose settings on, beside the dev sets of two.

Settings that are chosen on NFCorpus's and BioASQ's dev queries alone do worse on other texts. These four are made, by
rules and without a judge, of texts that no bundled model was trained on:

* ``lay-titles``: NFCorpus's titles alone, for lay questions (training queries of its other types: titles of questions
  and one-sentence descriptions of videos).
* ``e-mails``: abstracts in which experts marked diseases (BC5CDR and the NCBI disease corpus). A query is one of
  MedQuAD's questions about a disease in a letter of several sentences, with misspelt words. Abstracts with the disease
  in the title have grade 2, others that name it grade 1. The questions, without letters, are among the texts of the
  bundled models' training; the abstracts are not.
* ``claims``: abstracts of trials without their conclusions; a query is a sentence of the conclusions, and its abstract
  is relevant. Articles whose full text was trained on are left out.
* ``known-items``: PubMedQA's test half among other abstracts; half of the questions are cut to a few words.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import numpy as np

from experiments.annotation_quality import read_pubtator
from experiments.open_collection import Judged, abstracts, json_records, span_of, write_collection
from rerank_plugin import options as commandline
from rerank_plugin.corpora import documents, queries_and_judgments
from rerank_plugin.files.outputs import FolderKind
from rerank_plugin.knowledge.mesh import tsv_source
from rerank_plugin.text.tokenizer import split_sentences

DEV_COLLECTION = FolderKind(
    "a dev collection", "collection.json", ("rule", "seed"), ("corpus.jsonl.gz", "queries.jsonl", "qrels/*.tsv")
)
QUERIES = 250  # of each collection
OTHERS = 3000  # abstracts that nobody asks for
MOST_RELEVANT = 60  # abstracts that name a disease
CLAIM_WORDS = (8, 35)
SHORTENED = 0.5  # share of the known items' questions
MISSPELT, MISSPELT_NAME, MISSPELT_LETTERS = 0.04, 0.4, 5  # shares of words and of names; letters of a word, at least
_CONCLUSIONS = re.compile(r"\bconclusions?\b(?:\s+and\s+\w+)?\s*:\s*", re.IGNORECASE)
GREETINGS = ("Hello,", "Hi there.", "Dear doctor,", "Good morning.", "To whom it may concern,", "")
STORIES = (
    "My {who} has been told that it is {disease}, and we left the office with more questions than answers.",
    "I am {age} years old and was sent home last week with the diagnosis {disease}.",
    "My {who}, who is {age}, has had {disease} for some years now.",
    "A friend of the family thinks that my {who} may have {disease} and I cannot sleep since then.",
    "Since the spring I have lived with {disease}, or so they say.",
)
ASIDES = (
    "We live far from the next large town, so seeing a specialist takes a whole day.",
    "Work has been hard and I keep forgetting to eat in time.",
    "The leaflet that they gave us was short and I did not understand half of it.",
    "I have read many pages on the internet, and each of them says something else.",
    "Two neighbors told me different stories, which did not help at all.",
    "There are three children at home and everybody is worried.",
)
CLOSINGS = ("Thank you for your time.", "Please write back soon.", "Any advice is welcome. Many thanks!", "Regards, M.")
WHO = ("mother", "son", "wife", "brother", "daughter", "husband", "aunt", "grandfather")


class Collection(NamedTuple):
    """Documents (id, title, text) and judged queries."""

    documents: list[tuple[str, str, str]]
    judged: list[Judged]


def lay_titles(data: Path, random: np.random.Generator) -> Collection:
    """NFCorpus's titles, and questions of lay people."""
    folder = data / "nfcorpus"
    titles = [(one.id, one.title, "") for one in documents(str(folder)) if one.title]
    _, judgments = queries_and_judgments(f"{folder}:train")
    typed = [one for one in json_records(folder / "queries_by_type.jsonl") if one["split"] == "train"]
    judged = []
    for kind in ("nontopic-titles", "vid-desc"):
        asked = [one for one in typed if one["type"] == kind and one["_id"] in judgments]
        for at in random.permutation(len(asked))[: QUERIES // 2].tolist():
            id = str(asked[at]["_id"])
            judged.append(Judged("dev", f"{kind}-{id}", str(asked[at]["text"]), dict(judgments[id])))
    return Collection(titles, judged)


def e_mails(data: Path, random: np.random.Generator) -> Collection:
    """Abstracts with marked diseases, and MedQuAD's questions about them in letters."""
    texts, grades = {}, defaultdict[str, dict[str, int]](dict)
    for path in sorted((data / "entity-linking").glob("*.pubtator.gz")):
        for text in read_pubtator(path):
            title, _, abstract = text.text.partition("\n")
            texts[text.id] = text.id, title, abstract
            for mention in text.mentions:
                for concept in mention.concepts:
                    grade = 2 if mention.start < len(title) else 1
                    grades[concept][text.id] = max(grade, grades[concept].get(text.id, 0))
    diseases = {
        name.lower(): concept.id
        for concept in tsv_source(data / "mesh").concepts
        if concept.id in grades and len(grades[concept.id]) <= MOST_RELEVANT
        for name in (*concept.synonyms, concept.name)
    }
    asked = defaultdict[str, list[tuple[str, str]]](list)
    for record in json_records(data / "medquad" / "qa.jsonl.gz"):
        for name in (record["focus"], *(record.get("synonyms") or ())):
            if (disease := diseases.get(str(name).lower())) is not None:
                asked[disease].append((str(record["focus"]), str(record["question"])))
                break
    judged = []
    for number in range(QUERIES):
        disease = sorted(asked)[number % len(asked)]
        name, question = asked[disease][random.integers(len(asked[disease]))]
        judged.append(Judged("dev", f"letter-{number}", letter(name, question, random), dict(grades[disease])))
    return Collection(list(texts.values()), judged)


def letter(disease: str, question: str, random: np.random.Generator) -> str:
    """A letter about a disease with a question, some of its words misspelt."""

    def one_of(texts: Sequence[str]) -> str:
        return texts[random.integers(len(texts))]

    story = one_of(STORIES).format(who=one_of(WHO), age=random.integers(19, 88), disease=disease.lower())
    asides = [ASIDES[at] for at in random.permutation(len(ASIDES))[: random.integers(1, 4)]]
    question = " ".join(question.replace("(are)", "").replace("(s)", "").split())
    text = " ".join([one_of(GREETINGS), story, *asides, question, one_of(CLOSINGS)]).strip()
    names = [word for word in disease.lower().split() if len(word) >= MISSPELT_LETTERS]
    wrong = max(names, key=len) if names and random.random() < MISSPELT_NAME else None
    if wrong is not None:
        text = re.sub(re.escape(wrong), misspelt(wrong, random), text, flags=re.IGNORECASE)
    return " ".join(
        misspelt(word, random) if len(word) > MISSPELT_LETTERS and random.random() < MISSPELT else word
        for word in text.split()
    )


def misspelt(word: str, random: np.random.Generator) -> str:
    """The word with two letters exchanged, or one doubled, missing or another; the first stays."""
    at = int(random.integers(1, len(word) - 1))
    before, letter, after = word[:at], word[at], word[at + 1 :]
    wrong = (after[0] + letter + after[1:], letter * 2 + after, after, "aeiou"[random.integers(5)] + after)
    return before + wrong[random.integers(len(wrong))]


def claims(data: Path, random: np.random.Generator) -> Collection:
    """Abstracts of trials without conclusions, and sentences of those."""
    trained = {str(one["pmid"]) for one in json_records(data / "fulltext" / "rct-articles-ccby.jsonl.gz")}
    texts, judged = [], []
    for record in json_records(data / "abstracts" / "evidence-inference.jsonl.gz"):
        id, title, abstract = (str(record[key] or "") for key in ("pmid", "title", "abstract"))
        parts = _CONCLUSIONS.split(abstract)
        if not id or id in trained or not title or len(parts) < 2 or not parts[0].strip():
            continue
        texts.append((id, title, "".join(parts[:-1]).strip()))
        least, most = CLAIM_WORDS
        sentences = [one for one in split_sentences(parts[-1]) if least <= len(one.split()) <= most]
        if sentences:
            judged.append(Judged("dev", f"claim-{id}", sentences[random.integers(len(sentences))], {id: 1}))
    return Collection(texts, [judged[at] for at in random.permutation(len(judged))[:QUERIES].tolist()])


def known_items(data: Path, random: np.random.Generator) -> Collection:
    """PubMedQA's test half among other abstracts."""
    queries, judgments = queries_and_judgments(f"{data / 'pubmedqa'}:test")
    wanted = {id for grades in judgments.values() for id in grades}
    texts = [(one.id, one.title, one.abstract) for one in documents(str(data / "pubmedqa")) if one.id in wanted]
    others = abstracts([data / "abstracts" / "ohsumed-first-20000.jsonl.gz"])
    texts += [(f"other-{number}", "", text) for number, (_, text) in enumerate(islice(others, OTHERS))]
    judged = []
    for at in random.permutation(len(queries))[:QUERIES].tolist():
        query = queries[at]
        text = span_of(query.text, random) if random.random() < SHORTENED else query.text
        judged.append(Judged("dev", query.id, text, dict(judgments[query.id])))
    return Collection(texts, judged)


RULES: dict[str, Callable[[Path, np.random.Generator], Collection]] = {
    "lay-titles": lay_titles, "e-mails": e_mails, "claims": claims, "known-items": known_items,
}  # fmt: skip


def main(argv: list[str] | None = None) -> None:
    parser = commandline.parser("dev_collections", __doc__.split("\n\n", 1)[1])
    parser.prog = "python -m experiments.dev_collections"
    parser.add_argument("--data", type=Path, required=True, help="folder of the sources (experiments/README.md)")
    parser.add_argument("--output", type=Path, required=True, help="folder of the collections, a BEIR folder each")
    parser.add_argument("--overwrite", action="store_true", help="replace collections of this command")
    options = parser.parse_args(argv)
    commandline.set_up_logging(options.verbose)
    for name, rule in RULES.items():
        texts, judged = rule(options.data, np.random.default_rng(options.seed))
        description = {"rule": name, "seed": options.seed}
        write_collection(options.output / name, DEV_COLLECTION, description, texts, judged, options.overwrite)
        grades = Counter(grade for query in judged for grade in query.grades.values())
        print(f"{name}: {len(texts):,} documents, {len(judged):,} queries, {grades.total():,} judgments")


if __name__ == "__main__":
    commandline.run(main)
