"""``python -m experiments.open_collection``: the judged collection of the bundled model's training.

Its sources have licences that allow the distribution of a model:

* MedQuAD (CC BY 4.0; Ben Abacha and Demner-Fushman, BMC Bioinformatics 2019): questions and answers about a disease
  with synonyms. A document is an answer, titled by its question. A query names a disease, half of the time by a
  synonym, and half of the time with a kind of question ("treatment"). Answers about the disease have grade 1, and
  answers to the kind of question grade 2.
* PubMedQA (MIT; Jin et al., EMNLP 2019): the question is the query, its abstract has grade 2.
* Randomised trials from PubMed Central (CC BY and CC0): the title is the query, the article's beginning has grade 2.
* Titles and abstracts of the sources with a CC0 or CC BY licence in ``abstracts``: the title is the query, as before.

Half of the queries of the last three are cut to a span of two to five words, since users type short queries. The title
of their documents is the first sentence, since their own would be the query. Half of all documents lose the title, so
that a model does not learn its absence as evidence against relevance.

A tenth of the diseases, questions and articles is for validation. Diseases that share a name or a synonym count as one,
so no disease is in both splits.
"""

from __future__ import annotations

import gzip
import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from rerank_plugin import InputError
from rerank_plugin import options as commandline
from rerank_plugin.corpora import documents, queries_and_judgments
from rerank_plugin.corpora.json_objects import parse
from rerank_plugin.files.outputs import FolderKind, check_free, replacing_folder
from rerank_plugin.files.text_files import byte_lines
from rerank_plugin.text.stop_words import STOP_WORDS
from rerank_plugin.text.tokenizer import split_sentences

OPEN_COLLECTION = FolderKind(
    "an open collection", "collection.json", ("seed",), ("corpus.jsonl.gz", "queries.jsonl", "qrels/*.tsv")
)
HELD_OUT = 0.1  # share of the queries of each source
UNTITLED, SHORTENED = 0.5, 0.5  # shares of the documents, and of the queries from titles or questions
SHORT_WORDS = (2, 5)
ARTICLE_WORDS = 250  # words of an article's beginning, about an abstract


class Judged(NamedTuple):
    """A query with its grades by document id, in one split."""

    split: str
    id: str
    text: str
    grades: dict[str, int]


class OpenCollection:
    """A growing list of documents and judged queries."""

    def __init__(self, seed: int):
        self.seed = seed
        self.random = np.random.default_rng(seed)
        self.documents: list[tuple[str, str, str]] = []  # id, title, text
        self.judged: list[Judged] = []

    def add_medquad(self, path: Path) -> None:
        """Add answers under their questions, and a query for every disease with at least two answers."""
        records = [record for record in json_records(path) if record.get("answer")]
        diseases = _diseases(records)
        for number, record in enumerate(records):
            self._add_document(f"medquad-{number}", str(record["question"]), str(record["answer"]))
        for disease, numbers in sorted(diseases.items()):
            split = self._split()
            if len(numbers) < 2:
                continue
            focus = str(records[numbers[0]]["focus"])
            synonyms = sorted({name for number in numbers for name in records[number].get("synonyms") or ()} - {focus})
            name, kind = focus, None
            if synonyms and self.random.random() < 0.5:
                name = synonyms[self.random.integers(len(synonyms))]
            if self.random.random() < 0.5:
                kind = records[numbers[self.random.integers(len(numbers))]]["type"]
            grades = {f"medquad-{n}": 2 if kind in (None, records[n]["type"]) else 1 for n in numbers}
            self.judged.append(Judged(split, f"disease-{disease}", f"{name} {kind}" if kind else name, grades))

    def add_known_items(self, source: str, pairs: Iterator[tuple[str, str]]) -> None:
        """Add texts that are the only answer to a query: (query, text)."""
        for number, (query, text) in enumerate(pairs):
            title, *rest = split_sentences(text) or [""]
            if not rest:
                continue
            id = f"{source}-{number}"
            if not self._add_document(id, title, " ".join(rest)):
                self.documents[-1] = (id, "", text)
            self.judged.append(Judged(self._split(), id, self._shortened(query), {id: 2}))

    def _split(self) -> str:
        return "dev" if self.random.random() < HELD_OUT else "train"

    def _add_document(self, id: str, title: str, text: str) -> bool:
        """Add a document, half of the time without its title; returns whether it has one."""
        titled = self.random.random() >= UNTITLED
        self.documents.append((id, title if titled else "", text))
        return titled

    def _shortened(self, query: str) -> str:
        """Half of the time a span of the query's words."""
        return query if self.random.random() >= SHORTENED else span_of(query, self.random)

    def write(self, folder: Path, overwrite: bool = False) -> None:
        """Write a BEIR folder with the splits train and dev atomically."""
        write_collection(folder, OPEN_COLLECTION, {"seed": self.seed}, self.documents, self.judged, overwrite)


def write_collection(
    folder: Path,
    kind: FolderKind,
    description: dict,
    documents: Iterable[tuple[str, str, str]],
    judged: Sequence[Judged],
    overwrite: bool = False,
) -> None:
    """Write a BEIR folder atomically, with the splits of the queries; a document is its id, title and text."""
    with replacing_folder(folder, kind, overwrite) as writing:
        (writing / kind.description).write_text(json.dumps(description), encoding="utf-8")
        with gzip.open(writing / "corpus.jsonl.gz", "wt", encoding="utf-8") as file:
            for id, title, text in documents:
                file.write(json.dumps({"_id": id, "title": title, "text": text}, ensure_ascii=False) + "\n")
        with open(writing / "queries.jsonl", "w", encoding="utf-8") as file:
            for query in judged:
                file.write(json.dumps({"_id": query.id, "text": query.text}, ensure_ascii=False) + "\n")
        (writing / "qrels").mkdir()
        for split in dict.fromkeys(query.split for query in judged):
            with open(writing / "qrels" / f"{split}.tsv", "w", encoding="utf-8") as file:
                file.write("query-id\tcorpus-id\tscore\n")
                for query in judged:
                    if query.split == split:
                        file.writelines(f"{query.id}\t{id}\t{grade}\n" for id, grade in query.grades.items())


def span_of(query: str, random: np.random.Generator) -> str:
    """A span of a query's words that neither starts nor ends with a stop-word; the query where there is none."""
    words = query.rstrip("?. ").split()
    spans = [
        words[start:end]
        for start in range(len(words))
        for end in range(start + SHORT_WORDS[0], min(start + SHORT_WORDS[1], len(words)) + 1)
        if not {words[start].lower(), words[end - 1].lower()} & STOP_WORDS
    ]
    return " ".join(spans[random.integers(len(spans))]) if spans else query


def _diseases(records: list[dict]) -> dict[int, list[int]]:
    """Numbers of the records of each disease; records with a common name or synonym belong together."""
    names: dict[str, int] = {}
    pairs = [
        (number, names.setdefault(str(name).lower().strip(), len(names)))
        for number, record in enumerate(records)
        for name in (record["focus"], *(record.get("synonyms") or ()))
    ]
    rows, columns = np.array(pairs).T
    size = len(records) + len(names)
    graph = coo_array((np.ones(len(rows)), (rows, columns + len(records))), shape=(size, size))
    labels = connected_components(graph, directed=False)[1][: len(records)]
    diseases = defaultdict(list)
    for number, label in enumerate(labels.tolist()):
        diseases[label].append(number)
    return diseases


def json_records(path: Path) -> Iterator[dict]:
    for number, line in enumerate(byte_lines(path), 1):
        try:
            yield parse(line)
        except ValueError as error:
            raise InputError(f"{path}:{number}: {error}") from None


def pubmedqa(folder: Path) -> Iterator[tuple[str, str]]:
    """Questions and abstracts of the training split; the test split stays unseen."""
    texts = {document.id: document.abstract for document in documents(str(folder))}
    queries, judged = queries_and_judgments(f"{folder}:train")
    for query in queries:
        yield query.text, texts[next(iter(judged[query.id]))]


def articles(path: Path) -> Iterator[tuple[str, str]]:
    """Titles and beginnings of articles under CC BY or CC0."""
    for record in json_records(path):
        if str(record.get("license", "")).upper() not in ("CC BY", "CC0"):
            continue
        words = " ".join(record["paragraphs"]).split()[:ARTICLE_WORDS]
        yield str(record["title"]), " ".join(words)


def abstracts(paths: list[Path]) -> Iterator[tuple[str, str]]:
    """Titles and abstracts of the documents that have both."""
    for path in paths:
        for document in documents(str(path), ids_required=False):
            if document.title and document.abstract:
                yield document.title, document.abstract


def main(argv: list[str] | None = None) -> None:
    parser = commandline.parser("open_collection", __doc__.split("\n\n", 1)[1])
    parser.prog = "python -m experiments.open_collection"
    parser.add_argument("--medquad", type=Path, required=True, help="question-answer pairs, JSONL")
    parser.add_argument("--pubmedqa", type=Path, required=True, help="BEIR folder with a train split")
    parser.add_argument("--articles", type=Path, required=True, help="articles with paragraphs and licence, JSONL")
    parser.add_argument("--abstracts", type=Path, nargs="+", required=True, help="titles and abstracts, JSONL files")
    parser.add_argument("--output", type=Path, required=True, help="BEIR folder to write")
    parser.add_argument("--overwrite", action="store_true", help="replace an existing collection of this command")
    options = parser.parse_args(argv)
    commandline.set_up_logging(options.verbose)
    check_free(options.output, OPEN_COLLECTION, options.overwrite)
    collection = OpenCollection(options.seed)
    collection.add_medquad(options.medquad)
    collection.add_known_items("pubmedqa", pubmedqa(options.pubmedqa))
    collection.add_known_items("article", articles(options.articles))
    collection.add_known_items("abstract", abstracts(options.abstracts))
    collection.write(options.output, options.overwrite)
    print(f"{options.output}: {len(collection.documents):,} documents, {len(collection.judged):,} queries")


if __name__ == "__main__":
    commandline.run(main)
