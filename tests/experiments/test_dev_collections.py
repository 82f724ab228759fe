"""The dev collections, made from small files of the same kinds."""

import gzip
import json

import numpy as np
import pytest

from experiments import dev_collections
from rerank_plugin.corpora import documents, queries_and_judgments

PUBTATOR = """\
7|t|Gout in adults.
7|a|Pain of the toe.
7\t0\t4\tGout\tDisease\tD006073

8|t|Diet of adults.
8|a|It may cause gout.
8\t29\t33\tgout\tDisease\tD006073
"""
CLAIM = "The drug lowered all the pain that adults had in trial"
SOURCES = {
    "nfcorpus/corpus.jsonl.gz": [{"_id": "d1", "title": "Kale and acne", "text": "Of no use here."}],
    "nfcorpus/queries.jsonl": [{"_id": "q1", "text": "kale"}, {"_id": "q2", "text": "acne"}],
    "nfcorpus/queries_by_type.jsonl": [
        {"_id": "q1", "type": "vid-desc", "split": "train", "text": "kale may be good ."},
        {"_id": "q2", "type": "vid-desc", "split": "test", "text": "a test query"},
    ],
    "medquad/qa.jsonl.gz": [
        {"focus": "Gout", "question": "What causes Gout ?", "synonyms": []},
        {"focus": "Unmarked disease", "question": "What is it ?"},
    ],
    "fulltext/rct-articles-ccby.jsonl.gz": [{"pmid": "1"}],
    "abstracts/evidence-inference.jsonl.gz": [
        {"pmid": id, "title": f"Trial {id}", "abstract": f"AIM: {id}. CONCLUSION: {CLAIM} {id}."}
        for id in ("1", "2")
    ],
    "abstracts/ohsumed-first-20000.jsonl.gz": [{"title": "Other", "abstract": "Another abstract."}],
    "pubmedqa/corpus.jsonl.gz": [{"_id": id, "title": "", "text": f"Text {id}."} for id in ("p1", "p2")],
    "pubmedqa/queries.jsonl": [{"_id": f"q{id}", "text": "Does the drug of adults help?"} for id in ("p1", "p2")],
}  # fmt: skip
QRELS = {"nfcorpus/qrels/train.tsv": "q1\td1\t1", "pubmedqa/qrels/test.tsv": "qp2\tp2\t1"}


@pytest.fixture(scope="module")
def collections(tmp_path_factory):
    data = tmp_path_factory.mktemp("data")
    for name, records in SOURCES.items():
        (data / name).parent.mkdir(parents=True, exist_ok=True)
        with (gzip.open if name.endswith(".gz") else open)(data / name, "wt", encoding="utf-8") as file:
            file.writelines(json.dumps(record) + "\n" for record in records)
    for name, line in QRELS.items():
        (data / name).parent.mkdir(exist_ok=True)
        (data / name).write_text(f"query-id\tcorpus-id\tscore\n{line}\n")
    for name in ("entity-linking", "mesh"):
        (data / name).mkdir()
    with gzip.open(data / "entity-linking" / "one.pubtator.gz", "wt") as file:
        file.write(PUBTATOR)
    (data / "mesh" / "descriptors.tsv").write_text(
        "descriptor_ui\tname\tsynonyms\ttree_numbers\nD006073\tGout\t\tC05.550\n"
    )
    dev_collections.main(["--data", str(data), "--output", str(data / "dev")])
    return {name: f"{data / 'dev' / name}" for name in dev_collections.RULES}


def test_no_query_asks_what_was_trained_on_or_is_tested(collections):
    judged = {name: queries_and_judgments(f"{folder}:dev") for name, folder in collections.items()}
    assert judged["lay-titles"][1] == {"vid-desc-q1": {"d1": 1}}
    assert judged["claims"][1] == {"claim-2": {"2": 1}} and "lowered all the pain" in judged["claims"][0][0].text
    assert [document.id for document in documents(collections["claims"])] == ["2"]
    assert "lowered" not in next(iter(documents(collections["claims"]))).abstract
    assert judged["known-items"][1] == {"qp2": {"p2": 1}}
    assert "p1" not in {document.id for document in documents(collections["known-items"])}
    letters, grades = judged["e-mails"]
    assert all(each == {"7": 2, "8": 1} for each in grades.values())
    assert len(letters) == dev_collections.QUERIES and all(len(letter.text.split()) > 20 for letter in letters)


def test_a_misspelt_word_is_another_of_nearly_the_same_letters():
    random = np.random.default_rng(0)
    wrong = [dev_collections.misspelt("prednisolone", random) for _ in range(20)]
    assert {len(word) - len("prednisolone") for word in wrong} == {-1, 0, 1} and {word[0] for word in wrong} == {"p"}
