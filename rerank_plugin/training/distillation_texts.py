"""The texts that an encoder is distilled on: titles, passages, beginnings of documents, queries and names of concepts.

A student learns the meaning of texts of every length from the teacher's vectors, and the match of queries and documents
from pairs of short and long texts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np

from rerank_plugin.base.records import Document
from rerank_plugin.base.settings import check_bounds, setting
from rerank_plugin.files.string_table import StringsInMemory
from rerank_plugin.indexes.collection_statistics import CollectionStatistics
from rerank_plugin.knowledge.entries import Concept
from rerank_plugin.text.tokenizer import PLAIN, split_sentences

PASSAGE_SENTENCES = 2
LONGEST_PASSAGE = 90  # words
SHORTEST_BODY, BEGINNING = 60, 230  # words of the shortest body with a beginning, and of the beginning


@dataclass(frozen=True)
class DistillationConfig:
    """Settings of a distillation of word vectors; :mod:`rerank_plugin.training.distillation` defines t and a.

    A batch has half as many pairs as texts. The learning rate grows for 100 steps, then falls to a twentieth.
    """

    dimension: int = setting(256, "dimension of the vectors (default: 256)", ge=1)
    minimum_count: int = setting(
        3, "minimum frequency of a word in documents; rarer words get no vector (default: 3)", option="min_count", ge=1
    )
    epochs: int = setting(6, "passes over the texts (default: 6; of a reranker over its pairs, at most 30)", ge=1)
    batch_size: int = setting(1024, "texts, or pairs, of each step (default: 1024; delta 256, pacrr 32)", ge=4)
    learning_rate: float = setting(
        2e-3, "learning rate of the optimizer (default: 0.002; delta 0.01, pacrr 0.001)", gt=0
    )
    temperature: float = setting(
        0.1, "softmax temperature of the similarities within a batch (default: 0.1)", gt=0
    )  # t
    frequency: float = setting(
        1e-4, "relative frequency of a word that halves its initial weight (default: 0.0001)", gt=0
    )  # a
    common: int = setting(3, "number of directions common to all documents to remove at the end (default: 3)", ge=0)
    hashed: int = setting(
        6144, "number of random vectors that unknown words share by their hashes; 0 for none (default: 6144)", ge=0
    )
    hashed_length: float = setting(
        1.5, "length of the hashed vectors, in mean lengths of rare words (default: 1.5)", gt=0
    )
    concept_weight: float = setting(0.3, "weight of the concepts' cosine; the words' weight is 1 (default: 0.3)", gt=0)
    seed: int = 42

    def __post_init__(self) -> None:
        check_bounds(self)


class DistillationTexts:
    """A growing list of distinct texts, and pairs of their places."""

    def __init__(self) -> None:
        self._places: dict[str, int] = {}  # of each text, in the order of addition
        self.documents: list[tuple[int, int]] = []  # places of a title and the beginning of its document
        self.names: list[tuple[int, int]] = []  # places of a synonym and the name of its concept
        self.words: Counter[str] = Counter()  # collection frequency of each word
        self.of_names: set[str] = set()  # words of concepts' names
        self.frequency: Counter[str] = Counter()  # document frequency of each word
        self.lengths: Counter[str] = Counter()  # words of all titles and of all abstracts
        self.count = 0  # number of documents

    @property
    def texts(self) -> list[str]:
        """The texts in the order of addition."""
        return list(self._places)

    def add(self, text: str) -> int:
        """Add a text if it is new; returns its place."""
        return self._places.setdefault(" ".join(text.split()), len(self._places))

    def add_documents(self, documents: Iterable[Document], passages: int, beginnings: int, seed: int) -> None:
        """Add all titles of a corpus, and a random sample of its passages and beginnings.

        Args:
            passages: largest number of passages, of two sentences each.
            beginnings: largest number of beginnings of documents.
        """
        candidates: list[str] = []  # passages to draw from
        bodies: list[tuple[int | None, str]] = []  # place of the title, and beginning of the text
        for document in documents:
            tokens = {name: PLAIN.tokenize(getattr(document, name)) for name in ("title", "abstract")}
            self.words.update(chain(*tokens.values()))
            self.frequency.update(dict.fromkeys(chain(*tokens.values()), 1))  # in a fixed order
            self.lengths.update({name: len(of_field) for name, of_field in tokens.items()})
            self.count += 1
            title = self.add(document.title) if len(document.title.split()) > 1 else None
            words = document.abstract.split()
            if len(words) > SHORTEST_BODY:
                bodies.append((title, " ".join(words[:BEGINNING])))
            sentences = split_sentences(document.abstract)
            for start in range(0, len(sentences), PASSAGE_SENTENCES):
                passage = " ".join(sentences[start : start + PASSAGE_SENTENCES])
                if len(passage.split()) <= LONGEST_PASSAGE:
                    candidates.append(passage)
        random = np.random.default_rng(seed)
        for place in _sample(random, len(candidates), passages):
            self.add(candidates[place])
        for place in _sample(random, len(bodies), beginnings):
            title, body = bodies[place]
            beginning = self.add(body)
            if title is not None:
                self.documents.append((title, beginning))

    def add_concepts(self, concepts: Iterable[Concept]) -> None:
        """Add the names of a vocabulary's concepts, except permuted names such as "Infarction, Myocardial"."""
        for concept in concepts:
            name = self.add(concept.name)
            for synonym in concept.synonyms:
                if ", " not in synonym:
                    self.names.append((self.add(synonym), name))
            for text in (concept.name, *concept.synonyms):
                self.of_names.update(PLAIN.tokenize(text))

    def statistics(self) -> CollectionStatistics:
        """Statistics of the documents, as their index would have."""
        mean = {name: length / max(self.count, 1) for name, length in self.lengths.items()}
        frequency = {"text": np.array(list(self.frequency.values()), np.uint32)}
        lengths = {**mean, "text": sum(mean.values())}
        return CollectionStatistics(
            self.count, lengths, PLAIN, StringsInMemory(self.frequency), frequency, None, "the texts of a distillation"
        )

    def vocabulary(self, minimum_count: int) -> tuple[list[str], np.ndarray]:
        """The words of names, and words that occur ``minimum_count`` times in documents, the most frequent first.

        Returns:
            (words, their counts int64 [V])
        """
        kept = {word for word, count in self.words.items() if count >= minimum_count} | self.of_names
        words = sorted(kept, key=lambda word: (-self.words[word], word))
        return words, np.array([self.words[word] for word in words], np.int64)


def _sample(random: np.random.Generator, count: int, at_most: int) -> Sequence[int]:
    return np.sort(random.choice(count, min(count, at_most), replace=False)).tolist()
