"""Distillation: the texts, the losses against their formulas, and a student of the real MiniLM from the command on."""

import json
import shutil

import numpy as np
import pytest
import torch

import rerank_plugin as rp
from rerank_plugin import distill, index, search
from rerank_plugin.base.errors import InputError
from rerank_plugin.corpora import Document
from rerank_plugin.indexes.collection_statistics import CollectionStatistics
from rerank_plugin.indexes.index_folder import Index
from rerank_plugin.knowledge.entries import Concept
from rerank_plugin.models.checkpoint import Checkpoint
from rerank_plugin.text.tokenizer import PLAIN
from rerank_plugin.training import distillation
from rerank_plugin.training.distillation import Teacher, distil
from rerank_plugin.training.distillation_texts import DistillationConfig, DistillationTexts
from tests.annotated import knowledge_base
from tests.conftest import DOCUMENTS

SENTENCES = [f"Aspirin number {number} lowers the risk of stroke in old men." for number in range(12)]


BODY = " ".join(SENTENCES)
CORPUS = [
    Document("1", "Aspirin and stroke", BODY),
    Document("2", "Aspirin and stroke", "Too short for a beginning."),
    Document("3", "Migraine", BODY),
    Document("4", "", BODY.replace("Aspirin", "Warfarin")),
]


def texts_of(passages=30, beginnings=3, seed=1):
    texts = DistillationTexts()
    texts.add_documents(CORPUS, passages, beginnings, seed)
    return texts


def test_titles_passages_and_beginnings_become_texts_and_pairs():
    texts = texts_of(passages=1000, beginnings=1000)
    assert texts.texts[0] == "Aspirin and stroke"  # once, though two documents are called so
    assert "Migraine" not in texts.texts  # a title of one word says too little
    assert " ".join(SENTENCES[2:4]) in texts.texts and " ".join(SENTENCES[1:3]) not in texts.texts
    [(title, body)] = texts.documents
    assert (texts.texts[title], texts.texts[body]) == ("Aspirin and stroke", BODY)
    assert len(texts.texts) == len(set(texts.texts))
    assert texts.words["aspirin"] == 26 and texts.words["migraine"] == 1


def test_the_sample_depends_only_on_the_seed():
    drawn = [texts_of(passages=4, beginnings=1, seed=seed).texts for seed in (1, 1, 2)]
    assert drawn[0] == drawn[1] != drawn[2]
    assert len(drawn[0]) <= 1 + 4 + 1


def test_names_of_concepts_have_vectors_however_rare():
    texts = texts_of(passages=10, beginnings=1)
    texts.add_concepts([Concept("D1", "Migraine Disorders", ("Status Migrainosus", "Disorders, Migraine"))])
    assert [(texts.texts[a], texts.texts[b]) for a, b in texts.names] == [("Status Migrainosus", "Migraine Disorders")]
    words, counts = texts.vocabulary(minimum_count=3)
    assert {"migrainosus", "migraine", "aspirin"} <= set(words) and "short" not in words
    assert counts.tolist() == sorted(counts.tolist(), reverse=True)
    assert counts[words.index("migraine")] == 1 and counts[words.index("migrainosus")] == 0


def test_the_losses_are_their_formulas():
    torch.manual_seed(3)
    student, teacher = (torch.nn.functional.normalize(torch.randn(5, 4, dtype=torch.float64)) for _ in range(2))

    def shares(one, other, left_out=0):
        exponentials = np.exp((one @ other.T).numpy() / 0.1) * (1 - left_out)
        return exponentials / exponentials.sum(axis=1, keepdims=True)

    def divergence(p, q):
        kept = p > 0
        return (p[kept] * np.log(p[kept] / q[kept])).sum() / len(p)

    expected = 1 - np.mean((student * teacher).sum(dim=1).numpy())
    expected += divergence(shares(teacher, teacher, np.eye(5)), shares(student, student, np.eye(5)))
    assert float(distillation._loss_of_texts(student, teacher, 0.1)) == pytest.approx(expected, abs=1e-9)
    other, taught = student.flip(0), shares(teacher, teacher)
    expected = (divergence(taught, shares(student, other)) + divergence(taught, shares(other, student))) / 2
    found = float(distillation._loss_of_pairs(student, other, teacher, teacher, 0.1))
    assert found == pytest.approx(expected, abs=1e-9)


def test_an_invalid_teacher_is_refused(tmp_path):
    pytest.importorskip("sentence_transformers")
    with pytest.raises(InputError, match="config.json"):
        Teacher(str(tmp_path), tmp_path / "cache")
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / "pytorch_model.bin").write_bytes(b"")
    with pytest.raises(InputError, match="pytorch_model.bin is pickled"):
        Teacher(str(tmp_path), tmp_path / "cache")


def test_vectors_are_cached(minilm, monkeypatch):
    texts = ["heart attack", "myocardial infarction", "a much longer text about the price of rice in China"]
    vectors = minilm.encode(texts)
    assert vectors.shape == (3, 384) and np.allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-3)
    assert vectors[0] @ vectors[1] > vectors[0] @ vectors[2] + 0.2
    monkeypatch.setattr(minilm, "model", None)
    assert (minilm.encode(texts) == vectors).all()


def test_a_student_comes_near_its_teacher(minilm):
    texts = texts_of()
    targets = minilm.encode(texts.texts)

    def agreement(epochs):
        # Keeps the common directions, which carry most of the meaning of 16 texts.
        settings = {"dimension": 8, "batch_size": 8, "learning_rate": 0.02, "minimum_count": 1, "common": 0}
        student = distil(texts, minilm, DistillationConfig(epochs=epochs, **settings))
        assert not student.matrix[0].any() and student.vocabulary.hashed == 6144
        sums = [
            student.matrix[[id for id in student.vocabulary.lookup(PLAIN.tokenize(text)) if id]].sum(axis=0)
            for text in texts.texts
        ]
        unit = np.stack(sums) / np.linalg.norm(sums, axis=1)[:, None]
        between = ~np.eye(len(unit), dtype=bool)
        return np.corrcoef((unit @ unit.T)[between], (targets @ targets.T)[between])[0, 1]

    assert agreement(50) > 0.95 > agreement(1) + 0.05


def test_the_common_direction_of_documents_is_removed(minilm):
    texts = texts_of()
    before, after = (
        distil(texts, minilm, DistillationConfig(dimension=8, minimum_count=1, batch_size=8, common=common))
        for common in (0, 1)
    )
    bodies = [before.vocabulary.lookup(PLAIN.tokenize(texts.texts[body])) for _, body in texts.documents]
    sums = np.stack([before.matrix[ids].sum(axis=0) for ids in bodies])
    common = np.linalg.svd(sums / np.linalg.norm(sums, axis=1)[:, None])[2][0]  # [D]
    words = len(before.vocabulary) - before.vocabulary.hashed
    expected = before.matrix[:words] - np.outer(before.matrix[:words] @ common, common)
    np.testing.assert_allclose(after.matrix[:words], expected, atol=1e-5)


def test_half_precision_gives_almost_the_same_vectors(minilm):
    texts = ["heart attack", "a much longer text about the price of rice in China"]
    half = Teacher("minilm", minilm.cache, precision="bfloat16").encode(texts)
    full = minilm.encode(texts)
    assert (half != full).any() and ((half * full).sum(axis=1) > 0.999).all()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"dimension": 8}, "too few for batches of 1024"),
        ({"batch_size": 8}, "and 256 dimensions"),
        ({"dimension": 8, "batch_size": 8, "minimum_count": 1000}, "0 texts and 0 documents"),
    ],
)
def test_too_few_texts_are_refused_before_the_encoding(settings, message):
    with pytest.raises(InputError, match=message):
        distil(texts_of(), None, DistillationConfig(**settings))


def test_the_rarest_words_give_the_length_of_hashed_vectors(minilm):
    texts = texts_of()
    config = DistillationConfig(dimension=8, minimum_count=24, epochs=1, batch_size=8)
    assert min(texts.vocabulary(24)[1]) > distillation.RARE
    assert np.isfinite(distil(texts, minilm, config).matrix).all()


@pytest.fixture
def distilled(minilm, tmp_path):
    """Runs the command over documents with a long body; returns the checkpoint."""
    records = [{"id": doc.id, "title": doc.title, "abstract": f"{doc.abstract} {BODY}"} for doc in DOCUMENTS]
    (tmp_path / "corpus.jsonl").write_text("\n".join(map(json.dumps, records)), encoding="utf-8")

    def run(options):
        always = f"--corpus {tmp_path}/corpus.jsonl --output {tmp_path}/student --cache {minilm.cache} --epochs 2"
        distill.main(f"{always} --min-count 1 --passages 60 {options}".split())
        return tmp_path / "student"

    return run


def first_hit(capsys, folder, output, query):
    """The line of the first hit of an encoder, after its encodings are added to an index."""
    index.main(["--encode", str(output), "--index", str(folder)])
    capsys.readouterr()
    search.main(["--index", str(folder), "--first-stage", f"dense:{output}", "--query", query])
    return capsys.readouterr().out.splitlines()[1]


def test_the_command_makes_an_encoder_that_indexes_and_searches(distilled, tmp_path, index_folder, capsys):
    output, copy = distilled("--dimension 32 --batch-size 32"), tmp_path / "index"
    model, vocabulary = (opened := Checkpoint.open(output)).module(), opened.vocabulary
    assert model.config.fixed_words and model.encoding_size == 32 and "malaria" in vocabulary
    assert not list(model.parameters())[0].ndim  # the only parameter is the factor, not the words
    texts = ["Costs", "Malaria nets protect children"]
    assert rp.Reranker.load(output).rerank("malaria in children", texts)[0].index == 1
    index.main(["--corpus", str(tmp_path / "corpus.jsonl"), "--index", str(tmp_path / "same")])
    kept, expected = CollectionStatistics.load(output), CollectionStatistics.of_index(Index(tmp_path / "same").forward)
    assert (kept.documents, kept.mean_lengths) == (expected.documents, expected.mean_lengths)
    rows = expected.terms.find(kept.terms.strings)
    assert kept.document_frequency["text"].tolist() == expected.document_frequency["text"][rows].tolist()
    shutil.copytree(index_folder, copy)
    assert "Malaria" in first_hit(capsys, copy, output, "malaria in children")


def test_the_command_makes_an_encoder_of_words_and_concepts(distilled, tmp_path, capsys):
    knowledge = knowledge_base(tmp_path / "knowledge")
    concepts = f"--knowledge-base {knowledge.folder} --common 0 --concept-weight 4"
    output = distilled(f"--dimension 16 --batch-size 16 {concepts}")
    model = Checkpoint.open(output).module()
    assert model.concept_vocabulary.ids == knowledge.ids.take(np.arange(len(knowledge))) and model.encoding_size == 32
    assert [one.item() for one in (model.a, model.b)] == [1, 4]
    vectors = torch.nn.functional.normalize(model.concepts.embeddings.detach(), dim=1)  # [C, D]
    attack, cancer, colon = (knowledge.ids.find([id])[0] for id in ("H01", "H06", "H07"))
    assert vectors[colon] @ vectors[cancer] > vectors[colon] @ vectors[attack]  # no text has them, so by their names
    index.main(f"--corpus {tmp_path}/corpus.jsonl --knowledge {knowledge.folder} --index {tmp_path}/index".split())
    assert "prevention of heart attack" in first_hit(capsys, tmp_path / "index", output, "myocardial infarction")
