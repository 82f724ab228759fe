"""The bundled sample is what its generator makes, is sound, and has the two problems that it is meant to model."""

from __future__ import annotations

import gzip
import json
import re
import zlib
from pathlib import Path
from random import Random

import pytest

from rerank_plugin.corpora import documents, judgments, queries
from rerank_plugin.files.errors import InputError
from rerank_plugin.sample import FOLDER, generator
from rerank_plugin.sample.__main__ import main
from rerank_plugin.sample.contents import AGENTS, CONCEPTS, CONDITIONS, KINDS

SPLITS = ("train", "dev", "test")


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def unpacked(folder: Path) -> dict[str, bytes]:
    return {name: gzip.decompress(data) if name.endswith(".gz") else data for name, data in contents(folder).items()}


def words(text: str) -> set[str]:
    return set(re.findall(r"\w+", text.lower()))


@pytest.fixture(scope="module")
def shipped_documents():
    return {document.id: document for document in documents(str(FOLDER))}


@pytest.fixture(scope="module")
def shipped_queries():
    return {query.id: query.text for query in queries(str(FOLDER))}


@pytest.fixture(scope="module")
def shipped_judgments():
    return {split: judgments(f"{FOLDER}:{split}") for split in SPLITS}


@pytest.fixture(scope="module")
def pairs(shipped_documents, shipped_queries, shipped_judgments):
    """All judged pairs: words of the query, words of the title, score."""
    return [
        (words(shipped_queries[query]), words(shipped_documents[document].title), score)
        for judged in shipped_judgments.values()
        for query, scores in judged.items()
        for document, score in scores.items()
    ]


# ---- reproducible ----


def test_the_default_command_makes_what_ships(tmp_path):
    main(["--output", str(tmp_path / "again")])
    again, shipped = tmp_path / "again", FOLDER
    assert unpacked(again) == unpacked(shipped)
    packed = contents(shipped)["corpus.jsonl.gz"]
    assert packed[4:8] == bytes(4) and not packed[3] & 0x08  # no time and no file name within
    # Other builds of zlib (zlib-ng, hardware) pack the same text into other bytes.
    if "ng" not in zlib.ZLIB_RUNTIME_VERSION:
        assert contents(again) == contents(shipped)


def test_two_runs_are_byte_identical_and_seeds_differ(tmp_path):
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        generator.generate(tmp_path / name, documents=120, queries=12, seed=seed)
    assert contents(tmp_path / "a") == contents(tmp_path / "b")
    assert contents(tmp_path / "a")["corpus.jsonl.gz"] != contents(tmp_path / "c")["corpus.jsonl.gz"]


# ---- sound ----


def test_documents_queries_and_judgments_are_sound(shipped_documents, shipped_queries, shipped_judgments):
    assert list(shipped_documents) == [f"S{number:06d}" for number in range(1, 1501)]
    assert all(document.title and document.abstract for document in shipped_documents.values())
    texts = [f"{document.title} {document.abstract}" for document in shipped_documents.values()]
    assert not [text for text in texts if "{" in text or "%s" in text]
    lengths = [len(document.abstract.split()) for document in shipped_documents.values()]
    assert 130 < sum(lengths) / len(lengths) < 200
    assert sum(len(data) for data in contents(FOLDER).values()) < 1_000_000

    assert all(2 <= len(text.split()) <= 7 for text in shipped_queries.values())
    assert len(set(shipped_queries.values())) == 150
    assert sum("review" in text for text in shipped_queries.values()) >= 10

    assert [len(shipped_judgments[split]) for split in SPLITS] == [90, 20, 40]
    assert set(shipped_queries) == {query for split in SPLITS for query in shipped_judgments[split]}  # 150: no overlap
    all_scores = [scores for judged in shipped_judgments.values() for scores in judged.values()]
    assert all(any(scores.values()) and not all(scores.values()) for scores in all_scores)
    assert {score for scores in all_scores for score in scores.values()} == {0, 1, 2}
    judged = {id for scores in all_scores for id in scores}
    assert judged <= shipped_documents.keys() and 0.05 < 1 - len(judged) / len(shipped_documents) < 0.6


def test_readme_says_that_it_is_invented():
    text = (FOLDER / "README.md").read_text()
    assert "synthetic" in text and "Apache-2.0" in text and "python -m rerank_plugin.sample" in text


def test_concepts_are_consistent():
    keys = [concept.key for concept in CONCEPTS]
    assert len(keys) == len(set(keys))
    assert {key for agent in AGENTS for key in agent.conditions} == {condition.key for condition in CONDITIONS}
    assert all(len(concept.forms) >= 3 and len(set(concept.forms)) == len(concept.forms) for concept in AGENTS)


# ---- the two problems ----


def test_term_mismatch(pairs):
    """Relevant documents whose title has not all words of the query, or none at all."""
    relevant = [(query, title) for query, title, score in pairs if score > 0]
    assert 0.5 < sum(not query <= title for query, title in relevant) / len(relevant) < 0.85
    assert 0.1 < sum(not query & title for query, title in relevant) / len(relevant) < 0.35


def test_under_specified_queries(pairs, shipped_queries, shipped_judgments, shipped_documents):
    """Non-relevant documents with all words of the query in the title; most queries have some."""
    others = [(query, title) for query, title, score in pairs if score == 0]
    assert 0.3 < sum(query <= title for query, title in others) / len(others) < 0.75
    troubled = 0
    for judged in shipped_judgments.values():
        for query, scores in judged.items():
            asked = words(shipped_queries[query])
            wrong = [id for id, score in scores.items() if score == 0 and asked <= words(shipped_documents[id].title)]
            troubled += len(wrong) >= 3
    assert troubled / len(shipped_queries) > 0.4


def test_relevance_is_learnable_but_no_single_word_gives_it_away(shipped_documents, shipped_judgments):
    """The best word among the first 50 separates relevant from other documents only a little better than chance."""
    relevant, others = [], []
    for judged in shipped_judgments.values():
        for scores in judged.values():
            for id, score in scores.items():
                document = shipped_documents[id]
                start = set(re.findall(r"\w+", f"{document.title} {document.abstract}".lower())[:50])
                (relevant if score else others).append(start)
    best = 0.0
    for word in set().union(*relevant, *others):
        hit = sum(word in start for start in relevant) / len(relevant)
        miss = sum(word in start for start in others) / len(others)
        best = max(best, 0.5 + abs(hit - miss) / 2)
    assert 0.55 < best < 0.65  # balanced accuracy


def test_the_rule_of_relevance():
    topics = generator._topics(Random("1 topics"), 5)
    topic, other = topics[0], topics[1]
    kinds = {kind.name: kind for kind in KINDS}
    trial, review, animal = kinds["trial"], kinds["review"], kinds["animal"]
    plan = generator.DocumentPlan(topic, trial, "", topic.population, topic.outcome)
    both = generator.Need(topic, agent=topic.agent, condition=topic.condition)
    assert generator.grade(both, plan) == 2
    assert generator.grade(both, plan._replace(broader="agent")) == 1
    assert generator.grade(both, plan._replace(kind=animal)) == 0
    assert generator.grade(both, plan._replace(topic=other)) == 0
    assert generator.grade(both._replace(review=True), plan) == 1
    assert generator.grade(both._replace(review=True), plan._replace(kind=review)) == 2
    assert generator.grade(both._replace(outcome=topic.outcome), plan._replace(outcome=None)) == 1
    assert generator.grade(generator.Need(topic, condition=topic.condition), plan._replace(broader="agent")) == 2


# ---- larger collections ----


def test_larger_collections_have_distinct_ids_and_a_growing_vocabulary(tmp_path):
    (tmp_path / "large").mkdir()  # an empty folder is filled
    generator.generate(tmp_path / "large", documents=3000, queries=300, seed=5)
    assert len(queries(str(tmp_path / "large"))) == 300
    ids, vocabulary, sizes = set(), set(), []
    with gzip.open(tmp_path / "large" / "corpus.jsonl.gz", "rt", encoding="utf-8") as lines:
        for number, line in enumerate(lines, 1):
            record = json.loads(line)
            ids.add(record["_id"])
            vocabulary |= words(record["title"] + " " + record["text"])
            if number % 1000 == 0:
                sizes.append(len(vocabulary))
    assert len(ids) == 3000
    assert sizes[1] - sizes[0] > 500 and sizes[2] - sizes[1] > 500


def test_documents_are_streamed():
    """The first document of a million comes at once."""
    topics = generator._topics(Random("1 topics"), 5)
    plans = generator._plans(Random("1 plans"), topics, 96)
    stream = generator._documents(1, plans, 10**6, generator.Planned())
    assert next(stream).id == "S000001"


def test_invented_words_differ():
    made = [generator.invented_word(number) for number in range(4000, 24_000)]
    assert len(set(made)) > 0.95 * len(made)
    assert all(word.isalpha() and word.islower() for word in made)


# ---- refusals ----


@pytest.mark.parametrize("counts, culprit", [((99, 10), "99 documents"), ((100, 9), "9 queries")])
def test_impossible_counts(tmp_path, counts, culprit):
    with pytest.raises(InputError, match=culprit):
        generator.generate(tmp_path / "none", *counts)


def test_command_exits_with_2_and_one_line(tmp_path, refused):
    (tmp_path / "file").write_text("")
    assert "is a file" in refused("sample.__main__ --output file")
