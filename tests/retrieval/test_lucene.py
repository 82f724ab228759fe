"""Real Lucene: scores, fields, the tie rule at the cut, and text that looks like query syntax."""

import math
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from rerank_plugin.corpora import Document, Problems
from rerank_plugin.files.errors import InputError
from rerank_plugin.files.records import Query
from rerank_plugin.indexes.building import build_index
from rerank_plugin.indexes.index_folder import Index
from rerank_plugin.indexes.verification import verify
from rerank_plugin.retrieval.lucene import LuceneConfig

# Words that Lucene's stemmer leaves alone. The twins tie with one another for every query; their ids differ in length.
DOCUMENTS = [
    Document("b2", "aspirin heart", "blood blood mouse"),
    Document("a1", "", "aspirin kidney"),
    Document("c", "heart kidney liver", ""),
    Document("zz", "β-catenin", "mouse liver aspirin aspirin"),
    *(Document(f"twin{number}", "twin", "brain") for number in (1, 10, 2, 3, 20, 100)),
]


@pytest.fixture(scope="module")
def index(tmp_path_factory):
    folder = tmp_path_factory.mktemp("lucene") / "index"
    report = build_index(iter(DOCUMENTS), folder, "test", Problems(), threads=2)
    assert report.documents == len(DOCUMENTS)
    return Index(folder)


def search(index, text, depth=10, **settings):
    return index.first_stage(LuceneConfig(**settings)).search(Query("q", text), depth)


def test_lucene_numbers_lead_to_the_right_rows(index):
    for document in DOCUMENTS[:4]:
        row = int(index.forward.rows([document.id])[0])
        assert index.forward.ids[row] == document.id
        assert index.forward.titles[row] == document.title
    assert search(index, "β-catenin").ids == ["zz"]
    assert set(search(index, "kidney").ids) == {"a1", "c"}


def test_bm25_is_lucenes(index):
    """score = idf * tf / (tf + k1 (1 - b + b length / mean)); lengths below 40 words are exact in Lucene."""
    texts = {document.id: f"{document.title} {document.abstract}".replace("-", " ").split() for document in DOCUMENTS}
    mean = sum(map(len, texts.values())) / len(texts)
    found = search(index, "aspirin", k1=1.2, b=0.75)
    holding = [id for id, words in texts.items() if "aspirin" in words]
    idf = math.log(1 + (len(texts) - len(holding) + 0.5) / (len(holding) + 0.5))
    expected = {}
    for id in holding:
        tf, length = texts[id].count("aspirin"), len(texts[id])
        expected[id] = idf * tf / (tf + 1.2 * (1 - 0.75 + 0.75 * length / mean))
    assert dict(zip(found.ids, found.first_stage_scores.tolist())) == pytest.approx(expected, rel=1e-5)


def test_a_field_is_searched_alone(index):
    assert set(search(index, "aspirin", field="title").ids) == {"b2"}
    assert set(search(index, "aspirin", field="abstract").ids) == {"a1", "zz"}


@pytest.mark.parametrize("depth", [1, 2, 3, 5, 6, 50])
def test_ties_are_cut_by_decreasing_document_id(index, depth):
    expected = sorted((f"twin{number}" for number in (1, 10, 2, 3, 20, 100)), reverse=True)
    found = search(index, "brain", depth)
    assert found.ids == expected[:depth]
    assert len(set(found.first_stage_scores.tolist())) == 1


@pytest.mark.parametrize("name", ["bm25", "qld", "bm25+rm3"])
@pytest.mark.parametrize("text", ['AND OR "( ] / * ~ aspirin:', "", "the of and", "!?", "aspirin " * 3000])
def test_queries_are_plain_text(index, name, text):
    found = search(index, text, name=name)
    assert len(found) == (3 if "aspirin" in text else 0)


def test_rm3_brings_words_of_the_best_documents(tmp_path):
    """Anserini's RM3 takes no word that stands in more than a tenth of the documents, so there must be some."""
    filler = [Document(f"f{number}", f"filler{number}", "") for number in range(60)]
    relevant = [Document("r1", "heart", "aspirin"), Document("r2", "heart", "aspirin"), Document("r3", "", "aspirin")]
    build_index(iter(filler + relevant), tmp_path / "index", "test", Problems())
    index = Index(tmp_path / "index")
    assert search(index, "heart").ids == ["r2", "r1"]
    assert search(index, "heart", name="bm25+rm3").ids == ["r2", "r1", "r3"]


def test_query_likelihood_scores_differ_with_mu(index):
    low, high = (search(index, "aspirin", name="qld", mu=mu).first_stage_scores for mu in (10, 1000))
    assert low.shape == high.shape and not np.allclose(low, high)


def test_threads_search_as_one_does(index):
    first_stage = index.first_stage(LuceneConfig())
    texts = ["aspirin", "brain", "heart kidney", "mouse"] * 10
    alone = [first_stage.search(Query("q", text), 5).ids for text in texts]
    with ThreadPoolExecutor(4) as executor:
        assert [
            found.ids for found in executor.map(lambda text: first_stage.search(Query("q", text), 5), texts)
        ] == alone


@pytest.mark.parametrize(
    "wrong", [{"name": "splade"}, {"field": "body"}, {"k1": -1}, {"b": 2}, {"mu": 0}, {"rm3_terms": 0}]
)
def test_settings_are_checked(wrong):
    with pytest.raises(InputError):
        LuceneConfig(**wrong)


def test_an_interrupted_build_leaves_nothing(tmp_path):
    def broken():
        yield DOCUMENTS[0]
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        build_index(broken(), tmp_path / "index", "test", Problems())
    assert list(tmp_path.iterdir()) == []


def test_a_damaged_index_is_refused(tmp_path):
    build_index(iter(DOCUMENTS), tmp_path / "index", "test", Problems())
    path = tmp_path / "index" / "forward" / "tokens.npy"
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    with pytest.raises(InputError, match="tokens.npy does not match its checksum"):
        verify(Index(tmp_path / "index"))
    path.write_bytes(content[:-4])
    with pytest.raises(InputError, match="tokens.npy has .* damaged or half copied"):
        Index(tmp_path / "index")
