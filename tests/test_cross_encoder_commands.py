"""A cross-encoder from the command line, on the bundled sample: trained, searched with, and refused."""

import json

import numpy as np
import pytest

from rerank_plugin.base.errors import InputError
from rerank_plugin.corpora import documents
from rerank_plugin.files.runs import read_run
from rerank_plugin.text.tokenizer import PLAIN
from tests.models import tiny_encoders
from tests.processes import inside

SEARCH = "search --index index --queries sample:test --depth 20"


@pytest.fixture(scope="module")
def workspace(tmp_path_factory, sample_index):
    """An index of the sample, and two tiny encoders of its words: one without a head, one with."""
    folder = tmp_path_factory.mktemp("cross-encoder")
    (folder / "index").symlink_to(sample_index)
    words = {word for one in documents("sample") for word in PLAIN.tokenize(f"{one.title} {one.abstract}")}
    tiny_encoders.bert(folder / "encoder", words)
    tiny_encoders.bert(folder / "ready", words, head=True)
    return folder


def test_training_and_searching(workspace):
    said = inside(
        workspace,
        "train --model bert --set encoder=encoder trainable_layers=1 --index index --train sample:train "
        "--validation sample:dev --depth 20 --epochs 1 --pairs-per-query 4 --measures AP --output trained",
    )
    assert "trained: best epoch 1 of 1, validation AP" in said
    assert json.loads((workspace / "trained" / "config.json").read_text())["config"]["encoder"] == "encoder"
    (workspace / "encoder").rename(workspace / "moved")  # a checkpoint needs it no more
    inside(workspace, f"{SEARCH} --output bm25.run")
    inside(workspace, f"{SEARCH} --reranker bert:trained --output bert.run")
    (workspace / "moved").rename(workspace / "encoder")
    before, after = (read_run(workspace / name) for name in ("bm25.run", "bert.run"))
    assert {query: set(ranked.doc_ids) for query, ranked in before.items()} == {
        query: set(ranked.doc_ids) for query, ranked in after.items()
    }
    assert any(ranked.doc_ids != before[query].doc_ids for query, ranked in after.items())
    assert np.unique(np.concatenate([ranked.scores for ranked in after.values()])).size > 100


def test_an_encoder_with_a_head_ranks_as_it_is(workspace):
    inside(workspace, f"{SEARCH} --reranker bert:ready --output ready.run")
    assert (workspace / "ready.run").read_text().split()[5] == "bert"


def test_an_encoder_without_a_head_is_refused(workspace):
    with pytest.raises(InputError, match="train it first"):
        inside(workspace, f"{SEARCH} --reranker bert:encoder --output no.run")
    assert not (workspace / "no.run").exists()
