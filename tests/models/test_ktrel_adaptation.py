"""The bundled encoder adapted to a collection: two spaces, vectors of contexts, and the hybrid that reads them."""

import re
import shutil

import numpy as np
import pytest
import torch
from scipy import sparse

import rerank_plugin as rp
from rerank_plugin import embed, search
from rerank_plugin import index as index_command
from rerank_plugin.base.errors import InputError
from rerank_plugin.base.records import Query
from rerank_plugin.encoding.index_encoder import IndexEncoder
from rerank_plugin.indexes.index_folder import Index
from rerank_plugin.indexes.layout import ADAPTED, derived_folder
from rerank_plugin.indexes.vector_store import encodings_folder
from rerank_plugin.inputs.vector_features import VectorFeatures
from rerank_plugin.kernels.regularization import regularize
from rerank_plugin.models.checkpoint import Checkpoint, save_checkpoint
from rerank_plugin.models.ktrel.adaptation import ROUNDS, context_vectors
from rerank_plugin.models.ktrel.config import KtrelConfig
from rerank_plugin.models.ktrel.model import Ktrel
from rerank_plugin.rerankers import RerankerOptions, load
from rerank_plugin.retrieval.fusion import min_max
from rerank_plugin.retrieval.register import configure
from rerank_plugin.text.vocabulary import Vocabulary
from rerank_plugin.text.word_vectors import WordVectors
from tests.processes import run

QUERY = Query("q", "risk of heart disease in women")


def unit(vector):
    return vector / max(np.linalg.norm(vector), 1e-12)


def plain_contexts(counts, vectors):
    """Encodings of documents by the words' contexts, one word and document at a time, in double precision."""
    documents, words = counts.shape
    contexts = vectors.astype(np.float64)
    for _ in range(ROUNDS):
        encoded = [unit(sum(counts[d, w] * contexts[w] for w in range(words))) for d in range(documents)]
        means = np.zeros_like(contexts)
        for word in range(words):
            holding = [encoded[d] for d in range(documents) if counts[d, word]]
            if holding:
                weight = np.log(1 + (documents - len(holding) + 0.5) / (len(holding) + 0.5))
                means[word] = weight * np.mean(holding, axis=0)
        encoded = np.array([unit(sum(counts[d, w] * means[w] for w in range(words))) for d in range(documents)])
        values, directions = np.linalg.eigh(encoded.T @ encoded / documents)
        contexts = means @ directions @ np.diag(np.maximum(values, 1e-7) ** -0.5)
    return contexts


def test_contexts_are_those_of_a_plain_computation():
    """Up to one factor and the signs of directions, which no inner product shows."""
    random = np.random.default_rng(3)
    counts = random.poisson(0.4, (40, 12)).astype(np.float32)
    vectors = random.normal(size=(12, 4)).astype(np.float32)
    found = context_vectors(sparse.csr_array(counts), vectors).astype(np.float64)
    expected = plain_contexts(counts, vectors)
    products, plain = found @ found.T, expected @ expected.T
    assert products / np.trace(products) == pytest.approx(plain / np.trace(plain), abs=1e-4)
    lengths = [np.linalg.norm(some, axis=1).mean() for some in (found, vectors)]
    assert lengths[0] == pytest.approx(lengths[1], rel=1e-4)


def test_each_space_has_its_cosine():
    """Query (1, 0 | 0, 2), documents (3, 4 | 0, 5) and (0, 0 | 0, 7): cosines 0.6 and 1, 0 and 1."""
    vectors = torch.tensor([[0.0, 0, 0, 0], [1, 0, 0, 2], [3, 4, 0, 5], [0, 0, 0, 7]])
    model = Ktrel(KtrelConfig("words", layers=0, factor=2.0, space_weights=(1, 0.5)), vectors).eval()
    mask = torch.ones(1, 1, dtype=torch.bool)
    with torch.no_grad():
        query = model.encode_queries(torch.tensor([[1]]), mask)
        scores = [(query * model.encode_documents(torch.tensor([[word]]), mask)).sum().item() for word in (2, 3)]
    assert scores == pytest.approx([2.2, 1.0]) and model.largest_score.item() == 3
    with pytest.raises(InputError, match="3 spaces do not divide the 4"):
        Ktrel(KtrelConfig("words", layers=0, space_weights=(1, 1, 1)), vectors)
    with pytest.raises(InputError, match="words alone"):
        KtrelConfig("concepts", concepts=3, space_weights=(1, 1))


@pytest.fixture(scope="module")
def adapted(sample_index, tmp_path_factory):
    folder = shutil.copytree(sample_index, tmp_path_factory.mktemp("adapted") / "index")
    index_command.main(["--index", str(folder), "--encode", "ktrel"])
    return Index(folder)


def all_vectors(dense):
    """The vectors that the codes of all documents stand for, float32 [R, E]."""
    return dense.store.decode(np.arange(len(dense.store)))


def test_the_hybrid_reads_the_adapted_encoder_and_the_matches(adapted):
    """After one search by BM25 and the encoder, and one by the query moved towards the best five."""
    dense, bm25 = configure(f"dense:{derived_folder(adapted, ADAPTED)}").open(adapted), configure("bm25").open(adapted)
    words, query = bm25.search(QUERY, 1000), dense.encoder.encode(QUERY.text)
    assert len(query) == 512 and np.linalg.norm(query[:256]) == pytest.approx(1) == np.linalg.norm(query[256:])

    vectors = all_vectors(dense)

    def fused(asked):
        products = vectors @ asked
        best = np.argsort(-products)[:1000]
        total = np.zeros(len(products))
        total[best] += 0.4 * min_max(products[best])
        total[words.rows] += 0.6 * min_max(words.first_stage_scores)
        return total

    total = fused(query + 0.5 * vectors[np.argsort(-fused(query))[:5]].mean(axis=0))
    best = np.argsort(-total)[:300]
    reranker = dense.encoder.reranker
    matches = VectorFeatures(["vector_matches"], reranker.module.words.embeddings.numpy(), 256)
    candidates = type(words)(adapted.forward, best, total[best].astype(np.float32))
    read = reranker.builder.query(adapted.forward.query(QUERY.text))
    total[best] += 0.2 * min_max(matches(reranker.builder, read, candidates)[:, 0])
    order = best[np.argsort(-total[best])]
    scores = regularize(total[order].astype(np.float32), vectors[order], 5, 0.3)
    found = configure("hybrid").open(adapted).search(QUERY, 10)
    expected = dict(zip(order.tolist(), scores.tolist()))
    assert [expected[row] for row in found.rows.tolist()] == pytest.approx(found.first_stage_scores.tolist(), abs=1e-5)
    assert min(found.first_stage_scores) >= np.sort(scores)[-10] - 1e-5


def test_one_store_serves_the_bundled_encoder_and_the_adapted_one(adapted):
    """Dense retrieval and re-ranking by ktrel have the same scores, of the first space, near the module's."""
    assert len(list((adapted.folder / "encodings").iterdir())) == 1
    stage = configure("dense:ktrel").open(adapted)
    both = configure(f"dense:{derived_folder(adapted, ADAPTED)}").open(adapted)
    hits, rows = stage.search(QUERY, 100), np.arange(len(stage.store))
    assert np.array_equal(stage.store.decode(rows), both.store.decode(rows)[:, :256])
    scores = {
        fast: load("ktrel", adapted.forward, RerankerOptions(fast=fast)).score(QUERY, hits) for fast in (True, False)
    }
    assert scores[True].tolist() == hits.first_stage_scores.tolist()
    assert 0 < np.abs(scores[True] - scores[False]).max() < 0.01 * scores[False].max()


def test_an_adapted_index_is_whole_and_can_be_adapted_again(adapted):
    again = ["--index", str(adapted.folder), "--encode", "ktrel"]
    key = IndexEncoder(adapted.forward, derived_folder(adapted, ADAPTED)).key
    with pytest.raises(InputError, match="replace them with --overwrite"):
        index_command.main(again)
    index_command.main([*again, "--overwrite"])
    assert IndexEncoder(adapted.forward, derived_folder(adapted, ADAPTED)).key == key
    index_command.main(["--index", str(adapted.folder), "--verify"])


def test_judged_queries_are_compared_by_the_bundled_encoder(adapted):
    """And listened to by the adapted hybrid."""
    index_command.main(["--index", str(adapted.folder), "--encode", "ktrel", "--judged", "sample:train"])
    stage = configure("neighbours:ktrel").open(adapted)
    assert stage.encoder.spaces.size == 256 and stage.rankings[0].dense.encoder.spaces.size == 512
    assert len(stage.search(QUERY, 10)) == 10


def test_what_is_missing_of_an_adapted_index_is_made(adapted, tmp_path, capsys):
    """After an interruption, damage, and an adaptation of other weights.

    Until then an encoder that is damaged is refused: the one that it was adapted from would rank otherwise.
    """
    folder = shutil.copytree(adapted.folder, tmp_path / "index")
    vectors = encodings_folder(Index(folder).forward, IndexEncoder(adapted.forward, folder / ADAPTED / "000001").key)

    config, weights = folder / ADAPTED / "000001" / "config.json", folder / ADAPTED / "000001" / "model.safetensors"

    def size():
        return configure("hybrid").open(Index(folder)).dense.encoder.spaces.size

    said = []
    for harm in (lambda: shutil.rmtree(vectors), lambda: weights.write_bytes(b"")):
        harm()
        with pytest.raises(InputError):
            index_command.main(["--index", str(folder), "--verify"])
        with pytest.raises(InputError, match=f"index --encode ktrel --index {folder}"):
            size()
        assert ("not adapted to this index" in capsys.readouterr().err) == (not vectors.is_dir())
        index_command.main(["--index", str(folder), "--encode", "ktrel"])
        said.append(capsys.readouterr().err)
        assert size() == 512 and vectors.is_dir()
    assert "encoding by ktrel as it is and as adapted to this collection" in said[0]
    config.write_text(re.sub('"source": "[^"]*"', '"source": "other"', config.read_text()))
    index_command.main(["--index", str(folder), "--encode", "ktrel"])
    assert size() == 512 and '"source": "other"' not in config.read_text()
    index_command.main(["--index", str(folder), "--verify"])


def test_searches_with_ktrel_and_its_encodings_need_no_torch(adapted, capsys):
    """Dense retrieval, the hybrid and re-ranking, by the encoder as it is and as it was adapted."""
    line = ["--index", str(adapted.folder), "--query", QUERY.text, "--show", "30"]
    commands = [
        [*line, "--reranker", "ktrel"],
        [*line, "--reranker", f"ktrel-w:{derived_folder(adapted, ADAPTED)}"],
        [*line, "--first-stage", "dense:ktrel"],
        [*line, "--first-stage", "hybrid"],
    ]
    code = f"""if True:
        import sys
        sys.modules["torch"] = None
        from rerank_plugin.search import main
        for command in {commands!r}:
            main(command)
    """
    found = run("-c", code)
    for command in commands:
        search.main(command)
    expected = capsys.readouterr().out
    assert found == expected and len(expected.splitlines()) > 4 * 30


def test_contexts_of_a_checkpoint_count_by_their_weight(adapted, tmp_path):
    """The adapted index's encodings, whose spaces count alike, have both cosines."""
    folder, checkpoint = shutil.copytree(adapted.folder, tmp_path / "index"), tmp_path / "contexts"
    command = ["contexts", "--index", str(folder), "--checkpoint"]
    embed.main([*command, "ktrel", "--weight", "0.25", "--output", str(checkpoint)])
    index_command.main(["--index", str(folder), "--encode", str(checkpoint)])
    equal, weighted = (
        configure(f"dense:{one}").open(Index(folder)) for one in (folder / ADAPTED / "000001", checkpoint)
    )
    query, found = equal.encoder.encode(QUERY.text), weighted.search(QUERY, 50)
    cosines = (all_vectors(equal) * query)[found.rows].reshape(50, 2, 256).sum(axis=2)
    assert found.first_stage_scores == pytest.approx(cosines @ [1, 0.25], abs=1e-4)
    with torch.no_grad():
        module = weighted.encoder.reranker.module
        ids, mask = torch.tensor([[3, 5, 7]]), torch.ones(1, 3, dtype=torch.bool)
        assert module.encode_queries(ids, mask).reshape(2, 256).norm(dim=1).tolist() == pytest.approx([1, 0.5])
    with pytest.raises(InputError, match="exists already"):
        embed.main([*command, "ktrel", "--output", str(checkpoint)])
    for encoder in (str(checkpoint), "delta"):  # adapted already; another model
        with pytest.raises(InputError, match="cannot be adapted"):
            embed.main([*command, encoder, "--output", str(tmp_path / "again")])
    with pytest.raises(InputError, match="above 0"):
        embed.main([*command, "ktrel", "--weight", "0", "--output", str(tmp_path / "again")])


def test_a_trained_encoder_keeps_what_search_reads(adapted, tmp_path):
    """Trained from vectors that were brought to length 1: two words of the index, whose statistics it gets."""
    matrix = np.random.default_rng(5).normal(size=(3, 4)).astype(np.float32)
    model = Ktrel(KtrelConfig("words", layers=0, unit_vectors=True, document_words=250), torch.from_numpy(matrix))
    save_checkpoint(tmp_path / "trained", model, WordVectors(Vocabulary(["heart", "disease"]), matrix), {})
    command = ["contexts", "--index", str(adapted.folder), "--checkpoint", str(tmp_path / "trained")]
    embed.main([*command, "--output", str(tmp_path / "contexts")])
    found, vocabulary = (opened := Checkpoint.open(tmp_path / "contexts")).module(), opened.vocabulary
    assert found.config.space_weights == (1.0, 0.2) and found.config.document_words == 250
    assert list(vocabulary.words) == ["<unk>", "heart", "disease"] and found.a.item() == model.a.item()
    own = found.words.embeddings[:, :4].numpy()  # 8-bit numbers
    assert own == pytest.approx(model.words.embeddings.detach().numpy(), abs=0.02)
    ranked = rp.Reranker.load(f"ktrel:{tmp_path / 'contexts'}").rerank("heart disease", ["heart", "no word of these"])
    assert [one.index for one in ranked] == [0, 1]


def test_what_is_not_adapted(adapted, sample_index, index_folder, tmp_path):
    small = shutil.copytree(index_folder, tmp_path / "small")
    plain = shutil.copytree(sample_index, tmp_path / "plain")
    index_command.main(["--index", str(small), "--encode", "ktrel"])
    index_command.main(["--index", str(plain), "--encode", "ktrel", "--no-adapt"])
    assert not (small / ADAPTED).exists() and not (plain / ADAPTED).exists()
    with pytest.raises(InputError, match="fewer than the 500 documents"):
        IndexEncoder(Index(small).forward, "ktrel").adapted()
    with pytest.raises(InputError, match="the bundled encoder ktrel can"):
        IndexEncoder(adapted.forward, derived_folder(adapted, ADAPTED)).adapted()
