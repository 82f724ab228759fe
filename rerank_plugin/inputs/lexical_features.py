"""The lexical match features of [D18] 4.2.2, for all candidates of a query at once.

Every feature is named ``MEASURE_FIELD``. Numbers in brackets are the paper's:

==================  ===========================================================  ======  =======  ==========
measure             definition                                                   text    title    abstract
==================  ===========================================================  ======  =======  ==========
overlap             share of the distinct query words that are in the field      (1)     (9)      (14)
bigram_overlap      share of the distinct query bigrams that are in the field    (2)     (10)     (15)
jaccard             |Q ∩ F| / |Q ∪ F| over distinct words                        (3)     (11)     (16)
idf_overlap         IDF-weighted overlap                                         (4)     (12)     (17)
idf_jaccard         IDF-weighted jaccard                                         (5)     (13)     (18)
bm25                BM25, k1 = 2.0, b = 0.75 ([D18] 4.3.1)                       (8)     (6)      (7)
==================  ===========================================================  ======  =======  ==========

Queries and documents are tokenized by the index's tokenizer, without truncation and without conflating rare words.
Choices that the paper leaves open: IDF is ``ln(1 + (R - df + 0.5) / (df + 0.5))``, as a weight over the whole text, in
BM25 over the field; a query word that no document contains has df 0 and counts in every denominator; BM25 counts
repeated query words; a feature whose denominator is zero is 0.

Three more features are not in the paper. ``bm25_share_text`` is BM25 of the text, with the first stage's k1 = 0.9 and
b = 0.4, divided by the most that any text can have for the query: from 0 to 1, for any query, collection and list of
candidates. ``first_stage`` is the candidate's first-stage score. It adds evidence that the
features above lack, such as stems; a model trained with it needs the same first stage. ``first_stage_share`` is that
score divided by the highest among the query's candidates (0 unless the highest is positive), which is comparable
between collections and between queries of any length.

The two features of word vectors are in :mod:`rerank_plugin.inputs.vector_features`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from rerank_plugin.base.errors import InputError
from rerank_plugin.indexes.candidates import Candidates
from rerank_plugin.indexes.forward import FIELDS, IndexQuery

MEASURES = {  # with their descriptions
    "overlap": "share of the query's words",
    "bigram_overlap": "share of the query's pairs of words",
    "jaccard": "share of all words in common",
    "idf_overlap": "share of the query's words, by rarity,",
    "idf_jaccard": "share of all words in common, by rarity,",
    "bm25": "BM25",
}
PAPER_NAMES = tuple(f"{measure}_{field}" for measure in MEASURES for field in FIELDS)
BM25_SHARE = "bm25_share_text"
FIRST_STAGE, FIRST_STAGE_SHARE = "first_stage", "first_stage_share"
COSINE, MATCHES = "vector_cosine", "vector_matches"
VECTOR_NAMES = (COSINE, MATCHES)
SCORE_BEFORE = "score_before"  # of a cascade's sums; no model reads it
LEXICAL_NAMES = (*PAPER_NAMES, BM25_SHARE, FIRST_STAGE, FIRST_STAGE_SHARE)
NAMES = (*LEXICAL_NAMES, *VECTOR_NAMES)
OTHER_DESCRIPTIONS = {
    BM25_SHARE: "BM25 in the text, as a share of the most for this query",
    FIRST_STAGE: "the first stage's score",
    FIRST_STAGE_SHARE: "the first stage's score, as a share of its best",
    SCORE_BEFORE: "the score before re-ranking, from 0 to 1",
    COSINE: "likeness of query and document as wholes",
    MATCHES: "likeness of the query's words to the closest of the document",
}
LISTWISE = {FIRST_STAGE, FIRST_STAGE_SHARE}  # features of first-stage scores, which depend on the run
LEX3 = ("bm25_abstract", "idf_jaccard_title", "idf_overlap_title")  # [D18] 5.1
SETS: dict[str, tuple[str, ...]] = {"lex3": LEX3, "all": PAPER_NAMES, "none": ()}


def in_words(name: str) -> str:
    """The description of a feature; an unknown name stays the same."""
    measure, _, field = name.rpartition("_")
    return f"{MEASURES[measure]} in the {field}" if name in PAPER_NAMES else OTHER_DESCRIPTIONS.get(name, name)


def named_features(names: Any) -> Any:
    """Expand the name of a feature set (``lex3``, ``all`` or ``none``) to a list; return other values unchanged."""
    names = [names] if isinstance(names, str) else names
    return list(SETS[names[0]]) if names in ([name] for name in SETS) else names


def check_names(names: Sequence[str]) -> tuple[str, ...]:
    """The names as a tuple; an `InputError` if one is unknown or occurs twice."""
    for name in names:
        if name not in NAMES:
            raise InputError(f"unknown lexical feature '{name}'; known: {', '.join(NAMES)}")
    if len(set(names)) != len(names):
        raise InputError(f"a lexical feature is named twice in: {' '.join(names)}")
    return tuple(names)


def frequency_fields(names: Sequence[str]) -> set[str]:
    """The fields whose document frequencies the named features read, and ``text``, whose IDF weights words."""
    return {"text", *(name.rpartition("_")[2] for name in names if name.startswith("bm25_"))}


def lexical_features(names: Sequence[str], query: IndexQuery, candidates: Candidates) -> np.ndarray:
    """The named features of every candidate, float32 [C, F]. It is thread-safe: it keeps no state between calls."""
    from rerank_plugin.inputs.matches import WordMatches  # here, because it imports numba

    matches = WordMatches(query, candidates)
    columns = np.zeros((len(candidates), len(names)), np.float32)
    for column, name in enumerate(names):
        if name == FIRST_STAGE:
            columns[:, column] = candidates.first_stage_scores
        elif name == FIRST_STAGE_SHARE:
            highest = np.float32(candidates.highest_score())
            columns[:, column] = candidates.first_stage_scores / highest if highest > 0 else 0
        else:
            measure, field = name.rsplit("_", 1)
            columns[:, column] = getattr(matches, measure)(field)
    return columns
