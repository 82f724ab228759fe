"""Training KTRel on concepts: queries share no word with the documents, only concepts."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch

from rerank_plugin import index as index_command
from rerank_plugin import search
from rerank_plugin.base.errors import InputError
from rerank_plugin.base.records import Query
from rerank_plugin.corpora import queries
from rerank_plugin.files.runs import read_run
from rerank_plugin.indexes.candidates import Candidates
from rerank_plugin.indexes.index_folder import Index
from rerank_plugin.knowledge.concept_vectors import save_concept_vectors
from rerank_plugin.knowledge.entries import Concept
from rerank_plugin.models.baselines.sevmos import SevMosConfig
from rerank_plugin.models.checkpoint import Checkpoint, save_checkpoint
from rerank_plugin.models.ktrel.config import KtrelCConfig, KtrelConfig, KtrelWConfig
from rerank_plugin.models.ktrel.model import Ktrel
from rerank_plugin.rerankers import RerankerOptions
from rerank_plugin.rerankers.neural import NeuralReranker
from rerank_plugin.text import word_vectors
from rerank_plugin.training.starting_point import start_from, starting_concepts
from tests import annotated
from tests.conformance.models import Case, assert_same, over_decoded, rounding
from tests.training import commanded, learnable

CONCEPTS = [
    Concept(f"T{number:02}", topic, (f"morbus {topic[::-1]}",)) for number, topic in enumerate(learnable.TOPICS)
]
TRAINED = learnable.TOPICS[: learnable.TRAINED]


def write_vectors(folder, ids=None, dimension=8):
    """Concept vectors in another order than the knowledge base's, and one that it does not know."""
    ids = ids or ["T99", *reversed([concept.id for concept in CONCEPTS])]
    matrix = np.random.default_rng(4).normal(size=(len(ids), dimension)).astype(np.float32)
    save_concept_vectors(ids, matrix, np.zeros((1, dimension), np.float32), folder, {})
    return folder


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """An index with concepts, word and concept vectors, queries of expert names, judgments and runs."""
    folder = tmp_path_factory.mktemp("concepts")
    index = annotated.build_index(folder / "index", learnable.documents(), CONCEPTS).forward
    word_vectors.save(learnable.vectors(), folder / "words", {})
    write_vectors(folder / "vectors")
    ids = [index.ids[row] for row in range(len(index))]
    for name, topics in {"train": TRAINED, "dev": learnable.TOPICS[learnable.TRAINED :]}.items():
        learnable.write(folder, name, [Query(f"q-{topic}", f"morbus {topic[::-1]}") for topic in topics], ids)
    return folder


def run(made, output, *more, model="ktrel"):
    options = f"--model {model} --measures AP --epochs 2 --dropout 0 --learning-rate 0.01"
    commanded.run(made, output, options, "--sampling balanced --training-documents candidates", *more)


@pytest.mark.parametrize("model", ["ktrel", "ktrel-c"])
def test_train_encode_and_search(made, tmp_path, model):
    """Two epochs; documents of a query's topic come first, although it shares no word with them (of 72 documents 3 are
    relevant: by chance AP is below 0.1). The search ranks as the validation did, and alike from encodings."""
    run(made, tmp_path / "c", f"--concepts {made}/vectors", model=model)
    config = json.loads((tmp_path / "c" / "config.json").read_text())
    parts = {"ktrel": "both", "ktrel-c": "concepts"}[model]
    assert (config["model"], config["config"]["parts"], config["config"]["concepts"]) == ("ktrel", parts, 13)
    assert config["training"]["concepts"] == str(made / "vectors") and "concepts_checksum" in config["training"]
    assert "threshold" in config["annotation"]
    trained, vocabulary = (opened := Checkpoint.open(tmp_path / "c")).module(), opened.vocabulary
    assert trained.concept_vocabulary.ids[:2] == ["T99", "T11"]
    runs = []
    for number in range(2):
        options = f"--index {made}/index --queries {made}/dev.tsv --run {made}/dev.run --reranker {model}:{tmp_path}/c"
        search.main([*options.split(), "--output", str(tmp_path / f"{number}.run")])
        runs.append(read_run(tmp_path / f"{number}.run"))
        if number == 0:
            index_command.main(["--encode", str(tmp_path / "c"), "--index", str(made / "index")])
    for ranked in runs:
        measured = np.mean([learnable.average_precision(query, ranked[query].doc_ids) for query in ranked])
        assert measured == pytest.approx(config["measures"]["AP"]) and measured > 0.8
    forward = Index(made / "index").forward
    decoded = NeuralReranker(over_decoded(trained), vocabulary, forward, RerankerOptions(fast=False))
    for query in queries(f"{made}/dev.tsv"):
        rows = forward.rows(runs[1][query.id].doc_ids)
        expected = decoded.score(query, Candidates(forward, rows, np.zeros(len(rows), np.float32)))
        found = np.array(runs[1][query.id].scores, np.float64)
        assert_same(found, expected, rounding(Case("ktrel", {}), "fast"))


def test_fine_tuning_with_other_concepts(made, tmp_path):
    run(made, tmp_path / "c", f"--concepts {made}/vectors", "--epochs 1")
    more = f"--start-from {tmp_path}/c --epochs 1"
    run(made, tmp_path / "again", f"--concepts {made}/vectors", more)
    other = write_vectors(tmp_path / "other", ["T98", *(concept.id for concept in CONCEPTS)])
    with pytest.raises(InputError, match="trained on other concepts: give the concept vectors"):
        run(made, tmp_path / "refused", f"--concepts {other}", more)


def test_both_parts_start_from_words_alone(made, tmp_path):
    """Words and their layer have the checkpoint's weights, concepts their initial ones."""
    run(made, tmp_path / "both", f"--concepts {made}/vectors", "--epochs 1")
    both = Checkpoint.open(tmp_path / "both").module()
    before = {name: tensor.clone() for name, tensor in both.state_dict().items()}
    torch.manual_seed(9)
    words = Ktrel(replace(both.config, parts="words", concepts=0), torch.rand_like(both.words.embeddings))
    vectors = word_vectors.load(tmp_path / "both")
    save_checkpoint(tmp_path / "words", words, vectors, {})
    start_from(both, tmp_path / "words", vectors)
    for name, tensor in both.state_dict().items():
        expected = words.state_dict()[name] if name == "a" or name.startswith("words.") else before[name]
        assert torch.equal(tensor, expected), name
    alone = Checkpoint.open(tmp_path / "words").module()
    with pytest.raises(InputError, match="trained on other concepts"):
        start_from(alone, tmp_path / "both", vectors)


def test_words_alone_need_no_concepts(made, tmp_path):
    with pytest.raises(InputError, match="nothing to learn"):  # without words in common
        run(made, tmp_path / "c", model="ktrel-w")
    with pytest.raises(InputError, match="'ktrel-w' reads no concepts: leave out their vectors"):
        run(made, tmp_path / "c", f"--concepts {made}/vectors", model="ktrel-w")


@pytest.mark.parametrize("model", ["ktrel", "ktrel-c"])
def test_missing_concepts_are_named(made, tmp_path, model):
    with pytest.raises(InputError, match=f"'{model}' reads concepts: give their vectors .*, or train ktrel-w"):
        run(made, tmp_path / "c", model=model)
    with pytest.raises(InputError, match="embed concepts"):
        run(made, tmp_path / "c", f"--concepts {tmp_path}/nowhere", model=model)


def test_an_index_without_concepts(made, inputs, tmp_path):
    with pytest.raises(InputError, match="the index holds no concepts"):
        run(made, tmp_path / "c", f"--concepts {made}/vectors", f"--index {inputs}/index")


def test_starting_concepts(made, index):
    for config, values in [(SevMosConfig, {}), (KtrelWConfig, {}), (KtrelConfig, {"parts": "words"})]:
        assert starting_concepts(None, "m", config, values, index) == ({}, {}, {})
    for config, values in [(KtrelCConfig, {}), (KtrelConfig, {}), (KtrelWConfig, {"parts": "both"})]:
        concepts = starting_concepts(made / "vectors", "m", config, values, index)
        assert concepts.values == {"concepts": 13, "concept_dimension": 8}
        assert concepts.arguments["concept_vectors"].shape == (13, 8)
        assert concepts.arguments["concept_vocabulary"].annotation is None
