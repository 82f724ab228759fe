"""The judged collections that lie beside the project, where they do: counts, and the first and last record."""

import json
import shutil

import pytest

from rerank_plugin.corpora import Problems, documents, judgments, queries, queries_and_judgments
from tests.conftest import REAL_DATA as DATA
from tests.processes import run

NFCORPUS = DATA / "nfcorpus"

pytestmark = [
    pytest.mark.real_data,
    pytest.mark.skipif(not NFCORPUS.is_dir(), reason="no ../shared/data/nfcorpus beside the project"),
]


def test_documents_and_queries_of_nfcorpus():
    problems = Problems()
    first, *_, last = docs = list(documents(str(NFCORPUS), problems))
    assert len(docs) == 3633 and problems.total == 0
    assert (first.id, first.title, len(first.abstract)) == (
        "MED-10", "Statin Use and Breast Cancer Survival: A Nationwide Cohort Study from Finland", 1724)  # fmt: skip
    assert (last.id, last.title) == ("MED-961", "Vitamin D(3) is more potent than vitamin D(2) in humans.")
    assert last.abstract.endswith("when correcting vitamin D deficiency.")
    assert len(queries(str(NFCORPUS))) == 3237
    assert queries(str(NFCORPUS))[0][:2] == ("PLAIN-3", "Breast Cancer Cells Feed on Cholesterol")


def test_nfcorpus_as_inverted_indexes(tmp_path):
    """In OpenAlex's form the texts are the same, whatever words they have."""
    expected = list(documents(str(NFCORPUS)))
    with open(tmp_path / "works.jsonl", "w") as file:
        for document in expected:
            index = {}
            for position, word in enumerate(document.abstract.split(" ")):
                index.setdefault(word, []).append(position)
            work = {"id": document.id, "title": document.title, "abstract_inverted_index": index}
            print(json.dumps(work), file=file)
    problems = Problems()
    read = list(documents(str(tmp_path / "works.jsonl"), problems))
    assert [document[:3] for document in read] == [document[:3] for document in expected] and not problems.total


@pytest.mark.parametrize(
    "split, of_queries, grades",
    [
        ("train", 2590, {1: 110_575}),
        ("train.graded", 2590, {1: 106_296, 2: 4_279}),
        ("dev", 324, {1: 10_864, 2: 521}),
        ("test", 323, {1: 11_758, 2: 576}),
    ],
)
def test_judgments_of_nfcorpus(split, of_queries, grades):
    judged_queries, judged = queries_and_judgments(f"{NFCORPUS}:{split}")
    assert len(judged_queries) == len(judged) == of_queries
    values = [grade for of_query in judged.values() for grade in of_query.values()]
    assert {grade: values.count(grade) for grade in set(values)} == grades


def test_the_original_files_agree_with_those_of_beir():
    assert judgments(str(NFCORPUS / "original" / "test.2-1-0.qrel.gz")) == judgments(f"{NFCORPUS}:test")
    assert len(queries(str(NFCORPUS / "original" / "test.titles.queries"))) == 325


def test_abstracts_without_ids_are_documents_where_only_words_matter():
    problems = Problems()
    assert sum(1 for _ in documents(str(DATA / "abstracts"), problems, ids_required=False)) == 56_454
    assert problems.total == 0
    problems = Problems()
    with_id = sum(1 for _ in documents(str(DATA / "abstracts" / "pubmed-mixed.jsonl.gz"), problems))
    assert with_id + problems.counts.get("missing id", 0) == 828


def test_the_same_collection_through_ir_datasets(tmp_path):
    """In a process of its own: the library reads IR_DATASETS_HOME when it is imported."""
    home = tmp_path / "home"
    shutil.copytree(DATA / "ir_datasets", home, copy_function=shutil.copyfile)
    for folder in [home, *(path for path in home.rglob("*") if path.is_dir())]:
        folder.chmod(0o755)  # the originals may be read-only, and the library unpacks beside them
    code = (
        "import json\n"
        "from rerank_plugin.corpora import documents, queries_and_judgments\n"
        "print(json.dumps([list(documents('beir/nfcorpus/test')), *queries_and_judgments('beir/nfcorpus/test')]))"
    )
    output = run("-c", code, IR_DATASETS_HOME=str(home), IR_DATASETS_TMP=str(tmp_path / "tmp"))
    docs, judged_queries, judged = json.loads(output)
    expected, expected_judgments = queries_and_judgments(f"{NFCORPUS}:test")
    assert sorted(map(tuple, judged_queries)) == sorted(expected)
    assert judged == expected_judgments
    assert [tuple(doc) for doc in docs] == list(documents(str(NFCORPUS)))
