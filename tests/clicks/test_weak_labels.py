"""Weak labels: titles as queries, their abstracts as relevant documents."""

import pytest

from rerank_plugin import weak
from rerank_plugin.base.errors import InputError
from rerank_plugin.clicks.weak_labels import WeakLabelsConfig, write
from rerank_plugin.corpora import Document, documents, judgments, queries

LONG = " ".join(f"word{number}" for number in range(40))


def corpus(count):
    return [Document(f"pmid{n}", f"Effects of drug{n} on risk{n}", f"Abstract {n}. {LONG}") for n in range(count)]


def test_every_query_is_a_title_and_its_abstract_is_relevant(tmp_path):
    assert write(corpus(20), tmp_path / "weak", WeakLabelsConfig(queries=12, held_out=4), seed=1) == 20
    texts = {document.id: document for document in documents(str(tmp_path / "weak"))}
    assert len(texts) == 20 and not any(document.title for document in texts.values())
    splits = {split: judgments(f"{tmp_path / 'weak'}:{split}") for split in ("train", "dev")}
    assert {split: len(judged) for split, judged in splits.items()} == {"train": 8, "dev": 4}
    assert not splits["train"].keys() & splits["dev"].keys()
    for query in queries(str(tmp_path / "weak")):
        [(document, grade)] = {**splits["train"], **splits["dev"]}[query.id].items()
        number = query.text.split()[2].removeprefix("drug")
        assert grade == 1 and texts[document].abstract == f"Abstract {number}. {LONG}"


def test_the_seed_decides(tmp_path):
    config = WeakLabelsConfig(queries=6, held_out=2)
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        write(corpus(20), tmp_path / name, config, seed)
    files = [(tmp_path / name / "queries.jsonl").read_bytes() for name in "abc"]
    assert files[0] == files[1] != files[2]


def test_left_out_documents(tmp_path):
    """Repeated titles or abstracts, titles of two words or very many, and short abstracts."""
    good = corpus(3)
    others = [
        Document("1", good[0].title.upper(), f"Another abstract. {LONG}"),
        Document("2", "A title of its own", good[1].abstract),
        Document("3", "Two words", f"Fine. {LONG}"),
        Document("4", LONG, f"Fine, too. {LONG}"),
        Document("5", "A title without much text", "Short."),
    ]
    assert write(good + others, tmp_path / "weak", WeakLabelsConfig(queries=3, held_out=1), seed=1) == 3
    with pytest.raises(InputError, match="only 3 documents.*ask for fewer queries"):
        write(good + others, tmp_path / "more", WeakLabelsConfig(queries=4, held_out=1), seed=1)
    assert not (tmp_path / "more").exists()


def test_the_command(tmp_path, capsys):
    weak.main(["--corpus", "sample", "--queries", "20", "--held-out", "5", "--output", str(tmp_path / "weak")])
    assert "15 queries for training and 5 for validation" in capsys.readouterr().out
    with pytest.raises(InputError, match="weak exists already"):
        weak.main(["--corpus", "sample", "--output", str(tmp_path / "weak")])
    with pytest.raises(InputError, match="held out"):
        weak.main(["--corpus", "sample", "--queries", "5", "--held-out", "5", "--output", str(tmp_path / "other")])
