"""What else the words of a query find."""

import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import rerank_plugin as rp
from rerank_plugin.base.errors import InputError
from rerank_plugin.base.filters import Filter
from rerank_plugin.base.records import Document, Query
from rerank_plugin.base.strategy import Term
from rerank_plugin.concepts.annotation import Annotator
from rerank_plugin.corpora import Problems
from rerank_plugin.indexes.building import build_single
from rerank_plugin.knowledge.entries import Concept, Relation
from rerank_plugin.retrieval.expansion import Expansion
from rerank_plugin.retrieval.lucene import LuceneConfig, LuceneFirstStage
from tests.annotated import knowledge_base

DOCUMENTS = [
    Document("anaemia", "Anaemia", "in the young"), Document("anemia", "Anemia anemia", "of the old"),
    Document("il6", "IL-6 and IL-8", "il il, in 17 women"), Document("il17", "IL-17 in a long title of psoriasis", ""),
    Document("heading", "A trial", "", {"mesh": ["Aspirin"]}), Document("aspirin", "Aspirin", ""),
    Document("infarction", "Myocardial infarction", ""), Document("attack", "Heart attack", "attack of the heart"),
]  # fmt: skip
CONCEPTS = [Concept("D3", "Myocardial Infarction", ("Heart Attack",)), Concept("D1", "Heart Diseases")]


@pytest.fixture(scope="module")
def index(tmp_path_factory):
    folder = tmp_path_factory.mktemp("expansion")
    base = knowledge_base(folder / "kb", CONCEPTS, [Relation("D3", "parent", "D1")])
    build_single(DOCUMENTS, folder / "index", "tests", Problems(), annotator=Annotator(base, threads=1))
    return rp.Index(folder / "index")


def found(index, text, expand):
    candidates = LuceneConfig(expand=expand).open(index).search(Query("q", text), 10)
    return index.forward.ids.take(candidates.rows)


@pytest.mark.parametrize(
    "text, expand, without, expanded",
    [
        ("anemia", "spellings", ["anemia"], ["anemia", "anaemia"]),
        ("IL17", "spellings", [], ["il17"]),
        ("IL-17", "phrases", ["il6", "il17"], ["il17", "il6"]),
        ("aspirin", "subjects", ["aspirin"], ["aspirin", "heading"]),
        ("heart attack?", "mesh", ["attack"], ["attack", "infarction"]),
        ("the", "spellings, phrases,subjects,mesh", [], []),
    ],
)
def test_what_is_found(index, text, expand, without, expanded):
    assert found(index, text, "") == without and found(index, text, expand) == expanded


def test_threads_search_at_the_same_time(index):
    """Threads take turns more often here than usual."""
    stage = LuceneConfig(expand="spellings,phrases,subjects,mesh").open(index)
    strategy = Filter((), strategy=Term("anemia"))
    texts, rows = ("anemia IL-17", "heart attack", "aspirin"), np.arange(len(index.forward))

    def search(number):
        query = Query("q", texts[number % len(texts)])
        found = stage.search(query, 9)
        return found.rows.tolist(), stage.scores_of(query, rows[number % 2 :]).tolist(), index.count(strategy)

    expected, usual = [search(number) for number in range(6)], sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(4) as threads:
            results = list(threads.map(search, range(60)))
    finally:
        sys.setswitchinterval(usual)
    assert results == expected * 10 and results[0][2] == 2


@pytest.mark.parametrize("text", ["anemia IL-6 anemia", "the heart of il", ""])
def test_without_expansion_it_is_the_bag_of_words(index, text):
    stage = LuceneConfig().open(index)
    assert isinstance(stage, LuceneFirstStage)
    numbers, scores = stage._hits(stage._words(text), 10)
    stage.expansion = Expansion(frozenset(), "contents", lambda word: stage._tokens(word).toArray(), None)
    again, other_scores = stage._hits(stage._words(text), 10)
    assert numbers.tolist() == again.tolist() and scores.tolist() == pytest.approx(other_scores.tolist())


def test_what_cannot_be_expanded(index, index_folder):
    with pytest.raises(InputError, match="unknown kind of expansion 'spelling': did you mean 'spellings'"):
        LuceneConfig(expand="spelling")
    with pytest.raises(InputError, match=r"bm25\+rm3 takes no expansion but its own"):
        LuceneConfig("bm25+rm3", expand="mesh")
    with pytest.raises(InputError, match="needs an index with MeSH"):
        LuceneConfig(expand="mesh").open(rp.Index(index_folder))
