"""Checkpoints that travel: folders with checksums and a card, and a hub that is not there."""

import json

import pytest

import rerank_plugin as rp
from rerank_plugin.models.checkpoints import CHECKPOINT
from rerank_plugin.models.register import entry_of

QUERY, TEXTS = "statins and breast cancer", ["Statins and breast cancer.", {"title": "Stroke", "text": "Aspirin."}, ""]


@pytest.fixture(scope="module")
def delta():
    return rp.Reranker.load("delta")


@pytest.fixture
def saved(delta, tmp_path):
    delta.save_pretrained(tmp_path / "delta")
    return tmp_path / "delta"


def test_a_checkpoint_scores_the_same_elsewhere(delta, saved, index):
    found = rp.Reranker.from_pretrained(saved)
    assert found.rerank(QUERY, TEXTS) == delta.rerank(QUERY, TEXTS) and found.checkpoint == saved
    assert {path.name for path in saved.iterdir()} >= {"config.json", "model.safetensors", "statistics.safetensors"}
    stored = [rp.Reranker.load("delta", index), rp.Reranker.from_pretrained(str(saved), index, threads=1)]
    given = {"documents": ["B", "a", "MED-2"], "first_stage_scores": [3.0, 2.0, 1.0]}
    assert stored[0].rerank("stroke", **given) == stored[1].rerank("stroke", **given)


def test_the_card_says_what_it_is(saved):
    card = (saved / "README.md").read_text()
    config = json.loads((saved / "config.json").read_text())
    head, text = card.split("\n---\n", 1)
    assert head.startswith("---\nlibrary_name: rerank_plugin\n") and "pipeline_tag: text-ranking" in head
    assert f'from_pretrained("{saved}")' in text and str(config["measures"]["nDCG@20"]) in text
    assert config["training"]["train"] in text and '"first_stage_share"' in text


def test_what_is_there_is_replaced_only_where_it_is_ours(delta, saved, tmp_path):
    with pytest.raises(rp.InputError, match="exists already"):
        delta.save_pretrained(saved)
    delta.save_pretrained(saved, overwrite=True)
    (saved / "notes.txt").write_text("mine")
    with pytest.raises(rp.InputError, match="holds notes.txt, which is of something else"):
        delta.save_pretrained(saved, overwrite=True)
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "a.txt").write_text("mine")
    with pytest.raises(rp.InputError, match="is not a shared checkpoint"):
        delta.save_pretrained(tmp_path / "other", overwrite=True)


def _cut(path):
    path.write_bytes(path.read_bytes()[:-1] + b"x")


@pytest.mark.parametrize(
    "damage, message",
    [
        (lambda folder: _cut(folder / "model.safetensors"), "model.safetensors does not match its checksum: get the"),
        (lambda folder: (folder / "vocab.txt").unlink(), "vocab.txt is missing"),
        (lambda folder: (folder / "concepts.txt").write_text("C1\n"), "concepts.txt has none"),
        (lambda folder: (folder / "checksums.json").write_text('{"files": {}}'), "config.json has none"),
        (lambda folder: (folder / "checksums.json").write_text("{}"), "checksums.json cannot be read"),
        (lambda folder: (folder / "checksums.json").unlink(), "holds no checksums.json: save_pretrained writes it"),
    ],
)
def test_damage_is_found(saved, damage, message):
    damage(saved)
    with pytest.raises(rp.InputError) as error:
        rp.Reranker.from_pretrained(saved)
    assert message in str(error.value) and "\n" not in str(error.value)


def test_pickles_and_other_files_do_not_travel(tmp_path):
    import shutil

    shutil.copytree(entry_of("ktrel").bundled, tmp_path / "own")
    (tmp_path / "own" / "pytorch_model.bin").write_bytes(b"\x80\x04.")
    rp.Reranker.load(tmp_path / "own").save_pretrained(tmp_path / "saved")
    names = {path.name for path in (tmp_path / "saved").iterdir()}
    assert names <= {"README.md", "checksums.json", "config.json", *CHECKPOINT.files}


def test_a_lexical_reranker_has_nothing_to_save(index, tmp_path):
    with pytest.raises(rp.InputError, match="'bm25-title' has no checkpoint that could be saved"):
        rp.Reranker.load("bm25-title", index).save_pretrained(tmp_path / "x")


@pytest.mark.parametrize(
    "name, message",
    [
        ("nowhere", "there is no folder nowhere, and an id of the hub has the form OWNER/NAME"),
        ("a/b/c", "there is no folder a/b/c, and an id"),
        ("owner/name", "there is no folder owner/name, and it cannot be got from the hub"),
        ("owner/not a name", "it cannot be got from the hub"),
    ],
)
def test_what_is_nowhere(name, message, no_hub):
    with pytest.raises(rp.InputError) as error:
        rp.Reranker.from_pretrained(name)
    assert message in str(error.value) and "\n" not in str(error.value)


def test_a_hub_that_is_not_there_takes_nothing(delta, no_hub):
    with pytest.raises(rp.InputError, match="owner/name cannot be written on the hub") as error:
        delta.push_to_hub("owner/name", token="hf_none")
    assert "\n" not in str(error.value)


@pytest.fixture
def no_hub(monkeypatch, tmp_path):
    """A hub at a port where nobody listens, and an empty cache."""
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "ENDPOINT", "http://127.0.0.1:9")
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
