"""The bundled sample equals its generator's output, is sound, and has the two problems that it models."""

import gzip
import math
import re
import zlib
from collections import Counter, defaultdict
from random import Random

import pytest

from rerank_plugin.base.errors import InputError
from rerank_plugin.corpora import documents, judgments, queries
from rerank_plugin.corpora.specs import SAMPLE
from rerank_plugin.sample import generator
from rerank_plugin.sample.__main__ import main
from rerank_plugin.sample.contents import AGENTS, CONCEPTS, CONDITIONS, KINDS


def contents(folder):
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def unpacked(folder):
    packed = "corpus.jsonl.gz"
    return {name: gzip.decompress(data) if name == packed else data for name, data in contents(folder).items()}


def words(text):
    return re.findall(r"\w+", text.lower())


@pytest.fixture(scope="module")
def shipped():
    """The documents by id."""
    return {document.id: document for document in documents(str(SAMPLE))}


@pytest.fixture(scope="module")
def query_texts():
    """The texts of the queries by id."""
    return {query.id: query.text for query in queries(str(SAMPLE))}


@pytest.fixture(scope="module")
def judged():
    """The judgments of each split."""
    return {split: judgments(f"{SAMPLE}:{split}") for split in ("train", "dev", "test")}


@pytest.fixture(scope="module")
def pairs(shipped, query_texts, judged):
    """All judged pairs, in two lists (of relevant documents, of others): query id, its words, words of the title."""
    found = [], []
    for of_split in judged.values():
        for query, scores in of_split.items():
            for id, score in scores.items():
                found[score == 0].append((query, set(words(query_texts[query])), set(words(shipped[id].title))))
    return found


def test_the_default_command_makes_what_ships(tmp_path):
    main(["--output", str(tmp_path / "again")])
    assert unpacked(tmp_path / "again") == unpacked(SAMPLE)
    packed = contents(SAMPLE)["corpus.jsonl.gz"]
    assert packed[4:8] == bytes(4) and not packed[3] & 0x08  # no time and no file name within
    # Other builds of zlib (zlib-ng, hardware) pack the same text into other bytes.
    if "ng" not in zlib.ZLIB_RUNTIME_VERSION:
        assert contents(tmp_path / "again") == contents(SAMPLE)


def test_documents_are_sound(shipped):
    assert list(shipped) == [f"S{number:06d}" for number in range(1, 1501)]
    assert all(document.title and document.abstract for document in shipped.values())
    assert not any(
        mark in f"{document.title} {document.abstract}" for document in shipped.values() for mark in ("{", "%s")
    )
    assert 130 < sum(len(document.abstract.split()) for document in shipped.values()) / 1500 < 200
    assert sum(len(data) for data in contents(SAMPLE).values()) < 1_000_000


def test_queries_and_judgments_are_sound(shipped, query_texts, judged):
    assert all(2 <= len(text.split()) <= 7 for text in query_texts.values())
    assert len(set(query_texts.values())) == 150
    assert sum("review" in text for text in query_texts.values()) >= 10
    assert [len(of_split) for of_split in judged.values()] == [90, 20, 40]
    assert query_texts.keys() == {query for of_split in judged.values() for query in of_split}  # 150: no overlap
    scores = [of_query for of_split in judged.values() for of_query in of_split.values()]
    assert all(any(grades.values()) and not all(grades.values()) for grades in scores)
    assert {grade for grades in scores for grade in grades.values()} == {0, 1, 2}
    ids = {id for grades in scores for id in grades}
    assert ids <= shipped.keys() and 0.05 < 1 - len(ids) / len(shipped) < 0.6


def test_readme_says_that_it_is_invented():
    text = (SAMPLE / "README.md").read_text()
    assert "synthetic" in text and "Apache-2.0" in text and "rerank-plugin sample" in text


def test_concepts_are_consistent():
    keys = [concept.key for concept in CONCEPTS]
    assert len(keys) == len(set(keys))
    assert {key for agent in AGENTS for key in agent.conditions} == {condition.key for condition in CONDITIONS}
    assert all(len(concept.forms) >= 3 and len(set(concept.forms)) == len(concept.forms) for concept in AGENTS)


def test_term_mismatch(pairs):
    """Relevant documents whose title has not all words of the query, or none at all."""
    relevant, _ = pairs
    assert 0.5 < sum(not query <= title for _, query, title in relevant) / len(relevant) < 0.85
    assert 0.1 < sum(not query & title for _, query, title in relevant) / len(relevant) < 0.35


def test_under_specified_queries(pairs):
    """Non-relevant documents with all words of the query in the title; most queries have some."""
    _, others = pairs
    wrong = Counter(id for id, query, title in others if query <= title)
    assert 0.3 < wrong.total() / len(others) < 0.75
    assert sum(count >= 3 for count in wrong.values()) / 150 > 0.4


def test_relevance_is_learnable(shipped, judged):
    """From all words: naive Bayes of the training split orders most pairs of relevant and other documents."""
    held = {
        split: [
            (set(words(f"{shipped[id].title} {shipped[id].abstract}")), score > 0)
            for scores in of_split.values()
            for id, score in scores.items()
        ]
        for split, of_split in judged.items()
    }
    counts, sizes = {0: Counter(), 1: Counter()}, Counter(kind for _, kind in held["train"])
    for text, kind in held["train"]:
        counts[kind].update(text)
    odds = {
        word: math.log((counts[1][word] + 1) / (sizes[1] + 2)) - math.log((counts[0][word] + 1) / (sizes[0] + 2))
        for word in counts[0] | counts[1]
    }
    scored = [(sum(odds.get(word, 0) for word in text), kind) for text, kind in held["dev"] + held["test"]]
    relevant, others = ([score for score, kind in scored if kind == wanted] for wanted in (1, 0))
    assert sum(a > b for a in relevant for b in others) > 0.85 * len(relevant) * len(others)


def test_no_single_word_gives_relevance_away(shipped, judged):
    """The best word among the first 50 separates relevant from other documents only a little better than chance."""
    counts, sizes = defaultdict(Counter), Counter()
    for of_split in judged.values():
        for scores in of_split.values():
            for id, score in scores.items():
                start = words(f"{shipped[id].title} {shipped[id].abstract}")[:50]
                counts[score > 0].update(set(start))
                sizes[score > 0] += 1
    shares = [{word: count / sizes[kind] for word, count in counts[kind].items()} for kind in (True, False)]
    best = max(abs(shares[0].get(word, 0) - shares[1].get(word, 0)) for word in shares[0] | shares[1])
    assert 0.55 < 0.5 + best / 2 < 0.65  # balanced accuracy


TOPIC, OTHER, *_ = generator._topics(Random("1 topics"), 5)
TRIAL, REVIEW, ANIMAL = ({kind.name: kind for kind in KINDS}[name] for name in ("trial", "review", "animal"))


@pytest.mark.parametrize(
    ("need", "plan", "grade"),
    [
        ({}, {}, 2),
        ({}, {"broader": "agent"}, 1),
        ({}, {"broader": "condition"}, 1),
        ({}, {"kind": ANIMAL}, 0),
        ({}, {"topic": OTHER}, 0),
        ({"review": True}, {}, 1),
        ({"review": True}, {"kind": REVIEW}, 2),
        ({"outcome": TOPIC.outcome}, {"outcome": None}, 1),
        ({"agent": None}, {"broader": "agent"}, 2),
    ],
)
def test_the_rule_of_relevance(need, plan, grade):
    whole = generator.Need(TOPIC, agent=TOPIC.agent, condition=TOPIC.condition)
    full = generator.DocumentPlan(TOPIC, TRIAL, "", TOPIC.population, TOPIC.outcome)
    assert generator.grade(whole._replace(**need), full._replace(**plan)) == grade


def test_larger_collections_have_distinct_ids_and_a_growing_vocabulary(tmp_path):
    (tmp_path / "large").mkdir()  # an empty folder is filled
    generator.generate(tmp_path / "large", documents=3000, queries=300, seed=5)
    assert len(queries(str(tmp_path / "large"))) == 300
    made = list(documents(str(tmp_path / "large")))
    assert len({document.id for document in made}) == len(made) == 3000
    vocabulary, sizes = set(), []
    for number, document in enumerate(made, 1):
        vocabulary.update(words(f"{document.title} {document.abstract}"))
        if number % 1000 == 0:
            sizes.append(len(vocabulary))
    assert sizes[1] - sizes[0] > 500 and sizes[2] - sizes[1] > 500


def test_the_seed_decides(tmp_path):
    first, other = tmp_path / "1", tmp_path / "2"
    for folder in (first, other):
        generator.generate(folder, documents=100, queries=10, seed=int(folder.name))
    assert unpacked(first)["corpus.jsonl.gz"] != unpacked(other)["corpus.jsonl.gz"]


def test_documents_are_streamed():
    """The first document of a million comes at once."""
    plans = generator._plans(Random("1 plans"), [TOPIC, OTHER], 96)
    assert next(generator._documents(1, plans, 10**6, generator.TopicalDocuments())).id == "S000001"


def test_invented_words_differ():
    made = [generator.invented_word(number) for number in range(4000, 24_000)]
    assert len(set(made)) > 0.95 * len(made)
    assert all(word.isalpha() and word.islower() for word in made)


def test_an_existing_collection_is_left_alone(tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "corpus.jsonl.gz").write_bytes(b"precious")
    with pytest.raises(InputError, match="mine exists already"):
        generator.generate(tmp_path / "mine", documents=100, queries=10)
    assert contents(tmp_path) == {"mine/corpus.jsonl.gz": b"precious"}


def test_a_failure_leaves_nothing_behind(tmp_path, monkeypatch):
    monkeypatch.setattr(generator, "_judged", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        generator.generate(tmp_path / "new", documents=100, queries=10)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("counts, culprit", [((99, 10), "99 documents"), ((100, 9), "9 queries")])
def test_impossible_counts(tmp_path, counts, culprit):
    with pytest.raises(InputError, match=culprit):
        generator.generate(tmp_path / "none", *counts)


def test_a_file_is_no_place_for_a_collection(tmp_path, refused):
    (tmp_path / "file").write_text("")
    assert "is a file" in refused("sample --output file")
