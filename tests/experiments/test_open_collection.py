"""The collection that the bundled model is trained on, made from small files of the same kinds."""

import gzip
import json

import pytest

from experiments import open_collection
from rerank_plugin import InputError
from rerank_plugin.corpora import documents, judgments, queries

SENTENCES = "The first sentence is here. A second one follows it. The third ends the text."


def write(path, records):
    with gzip.open(path, "wt", encoding="utf-8") as file:
        file.writelines(json.dumps(record) + "\n" for record in records)
    return path


def answer(focus, kind, synonyms=()):
    return {
        "question": f"What about {focus} and {kind}?", "answer": f"About {focus}. {SENTENCES}", "focus": focus,
        "type": kind, "synonyms": list(synonyms),
    }  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("open")
    answers = [
        answer(f"disease {n}", kind, [f"illness {n}"])
        for n in range(60)
        for kind in ("treatment", "symptoms", "causes")
    ]
    answers += [
        answer("illness 7", "prevention"),
        answer("alone", "treatment"),
    ]  # a synonym joins the first to disease 7
    write(folder / "medquad.jsonl.gz", answers)
    write(folder / "articles.jsonl.gz", [
        {"title": f"A trial of drug {n} in adults with pain", "paragraphs": [f"Article {n}. {SENTENCES}", "More."],
         "license": licence}
        for n, licence in enumerate(["CC BY", "CC0"] * 30 + ["CC BY-NC"] * 3)
    ])  # fmt: skip
    write(folder / "abstracts.jsonl.gz", [
        {"title": f"Effects of diet {n} on blood pressure", "abstract": f"Abstract {n}. {SENTENCES}"} for n in range(40)
    ] + [{"title": "No abstract", "abstract": ""}])  # fmt: skip
    (folder / "pubmedqa" / "qrels").mkdir(parents=True)
    write(folder / "pubmedqa" / "corpus.jsonl.gz", [
        {"_id": f"p{n}", "title": "", "text": f"PubMedQA {n}. {SENTENCES}"} for n in range(30)
    ])  # fmt: skip
    (folder / "pubmedqa" / "queries.jsonl").write_text(
        "".join(json.dumps({"_id": f"p{n}", "text": f"Does drug {n} help?"}) + "\n" for n in range(30))
    )
    for split, numbers in (("train", range(20)), ("test", range(20, 30))):
        lines = "".join(f"p{n}\tp{n}\t1\n" for n in numbers)
        (folder / "pubmedqa" / "qrels" / f"{split}.tsv").write_text("query-id\tcorpus-id\tscore\n" + lines)
    return folder


def make(folder, output, *more):
    open_collection.main([
        "--medquad", str(folder / "medquad.jsonl.gz"), "--pubmedqa", str(folder / "pubmedqa"), "--articles",
        str(folder / "articles.jsonl.gz"), "--abstracts", str(folder / "abstracts.jsonl.gz"),
        "--output", str(output), *more,
    ])  # fmt: skip
    return output


@pytest.fixture(scope="module")
def made(folder):
    return make(folder, folder / "open")


def test_the_collection(made):
    texts = {document.id: document for document in documents(str(made))}
    assert len(texts) == 182 + 20 + 60 + 40  # answers, training questions, articles with a licence, abstracts
    untitled = sum(not document.title for document in texts.values())
    assert 0.35 < untitled / len(texts) < 0.65
    split = {name: judgments(f"{made}:{name}") for name in ("train", "dev")}
    assert not split["train"].keys() & split["dev"].keys() and len(split["dev"]) > 5
    everything = {**split["train"], **split["dev"]}
    text_of = {query.id: query.text for query in queries(str(made))}
    assert everything.keys() == text_of.keys()
    for id, grades in everything.items():
        assert grades.keys() <= texts.keys()
        if not id.startswith("disease"):
            assert list(grades.items()) == [(id, 2)]
            assert texts[id].abstract and text_of[id] not in texts[id].abstract


def test_known_items_keep_their_first_sentence(made):
    """As the title, or in the text where the document has none."""
    for document in documents(str(made)):
        if document.id.startswith("article"):
            number = document.id.split("-")[1]
            whole = f"{document.title} {document.abstract}" if document.title else document.abstract
            assert whole == f"Article {number}. {SENTENCES} More."


def test_diseases(made):
    """Grade 2 for answers of the requested kind, or for all; a disease with one answer has no query."""
    everything = {**judgments(f"{made}:train"), **judgments(f"{made}:dev")}
    found = [query for query in queries(str(made)) if query.id.startswith("disease")]
    assert len(found) == 60
    assert sorted(len(everything[query.id]) for query in found) == [3] * 59 + [4]
    for query in found:
        grades = list(everything[query.id].values())
        has_kind = query.text.rpartition(" ")[2] in ("treatment", "symptoms", "causes", "prevention")
        assert (grades.count(2) == 1) if has_kind else set(grades) == {2}


def test_queries_are_shortened_and_the_seed_decides(folder, tmp_path):
    made = {name: make(folder, tmp_path / name, "--seed", seed) for name, seed in (("a", "1"), ("b", "1"), ("c", "2"))}
    texts = {name: (path / "queries.jsonl").read_bytes() for name, path in made.items()}
    assert texts["a"] == texts["b"] != texts["c"]
    titles = [query.text for query in queries(str(made["a"])) if query.id.startswith("article")]
    short = [text for text in titles if not text.startswith("A trial")]
    assert 0.25 < len(short) / len(titles) < 0.75
    assert all(2 <= len(text.split()) <= 5 and text.split()[0] not in ("of", "in", "with") for text in short)


def test_a_damaged_line_is_named(folder, tmp_path):
    broken = tmp_path / "broken.jsonl"
    broken.write_text("{}\n{")
    with pytest.raises(InputError, match=r"broken\.jsonl:2"):
        list(open_collection.json_records(broken))
