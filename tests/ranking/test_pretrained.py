"""Checkpoints that travel: folders with checksums and a card, a hub that is not there, and one on this machine."""

import json
import shutil
from hashlib import sha1
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import pytest

import rerank_plugin as rp
from rerank_plugin.models.checkpoint import CHECKPOINT
from rerank_plugin.models.register import checkpoint_folder, entry_of, hub_folder
from tests.models import tiny_encoders

QUERY, TEXTS = "statins and breast cancer", ["Statins and breast cancer.", {"title": "Stroke", "text": "Aspirin."}, ""]


@pytest.fixture(scope="module")
def delta():
    return rp.Reranker.load("delta")


@pytest.fixture
def saved(delta, tmp_path):
    delta.save_pretrained(tmp_path / "delta")
    return tmp_path / "delta"


def test_a_checkpoint_scores_the_same_elsewhere(delta, saved, index):
    loaded = rp.Reranker.from_pretrained(saved)
    assert loaded.rerank(QUERY, TEXTS) == delta.rerank(QUERY, TEXTS) and loaded.checkpoint == saved
    assert {path.name for path in saved.iterdir()} >= {"config.json", "model.safetensors", "statistics.safetensors"}
    stored = [rp.Reranker.load("delta", index), rp.Reranker.from_pretrained(str(saved), index, threads=1)]
    arguments = {"documents": ["B", "a", "MED-2"], "first_stage_scores": [3.0, 2.0, 1.0]}
    assert stored[0].rerank("stroke", **arguments) == stored[1].rerank("stroke", **arguments)


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
    with pytest.raises(rp.InputError, match="holds notes.txt, which does not belong to it"):
        delta.save_pretrained(saved, overwrite=True)
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "a.txt").write_text("mine")
    with pytest.raises(rp.InputError, match="is not a shared checkpoint"):
        delta.save_pretrained(tmp_path / "other", overwrite=True)


@pytest.mark.parametrize(
    "damage, message",
    [
        (lambda folder: (folder / "concepts.txt").write_text("C1\n"), "concepts.txt has no checksum"),
        (lambda folder: (folder / "checksums.json").write_text('{"files": {}}'), "config.json has no checksum"),
        (lambda folder: (folder / "checksums.json").unlink(), "holds no checksums.json, which save_pretrained writes"),
    ],
)
def test_damage_is_found(saved, damage, message):
    damage(saved)
    with pytest.raises(rp.InputError) as error:
        rp.Reranker.from_pretrained(saved)
    assert message in str(error.value) and "\n" not in str(error.value)


def test_pickles_and_other_files_do_not_travel(tmp_path):
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
        ("owner/name", "there is no folder owner/name, and it cannot be downloaded from the hub"),
        ("owner/not a name", "it cannot be downloaded from the hub"),
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
    _point_to("http://127.0.0.1:9", monkeypatch, tmp_path)


def _point_to(address, monkeypatch, tmp_path):
    from huggingface_hub import constants

    hub_folder.cache_clear()
    monkeypatch.setattr(constants, "ENDPOINT", address)
    template = "/{repo_id}/resolve/{revision}/{filename}"  # made of the endpoint when it is imported
    monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", address + template)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)  # where no folder is called as an owner on the hub


@pytest.fixture
def hub(monkeypatch, tmp_path):
    """A hub on this machine: the folder whose OWNER/NAME are its repositories, and what was downloaded of them."""
    root, downloaded = tmp_path / "repositories", []

    class Hub(BaseHTTPRequestHandler):
        def do_GET(self):
            path = self.path.partition("?")[0]
            if path.startswith("/api/models/"):
                owner, name, kind, commit = path.removeprefix("/api/models/").split("/")
                folder = root / owner / name
                files = sorted(file for file in folder.rglob("*") if file.is_file())
                names = {file: file.relative_to(folder).as_posix() for file in files}
                listed = [
                    {"type": "file", "path": names[file], "size": file.stat().st_size, "oid": "0"} for file in files
                ]
                about = {"id": f"{owner}/{name}", "sha": 40 * "a"}
                self.answer(json.dumps(listed if kind == "tree" else about).encode() if files else None)
            else:
                owner, name, _, _, *rest = path.strip("/").split("/")
                if self.command == "GET":
                    downloaded.append("/".join(rest))
                self.answer(root.joinpath(owner, name, *rest).read_bytes())

        do_HEAD = do_GET

        def answer(self, body):
            self.send_response(404 if body is None else 200)
            if body is None:
                self.send_header("X-Error-Code", "RepoNotFound")
            body = body or b""
            headers = {"Content-Length": len(body), "ETag": f'"{sha1(body).hexdigest()}"', "X-Repo-Commit": 40 * "a"}
            for header, value in headers.items():
                self.send_header(header, str(value))
            self.end_headers()
            if self.command == "GET":
                self.wfile.write(body)

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Hub)
    Thread(target=server.serve_forever, daemon=True).start()
    _point_to(f"http://127.0.0.1:{server.server_port}", monkeypatch, tmp_path)
    yield root, downloaded
    server.shutdown()
    server.server_close()


def test_a_cross_encoder_of_the_hub(hub, tmp_path):
    """As sentence-transformers' users know it, without an index and without statistics; no code and no pickle."""
    root, downloaded = hub
    words = "statins and breast cancer stroke aspirin".split()
    folder = tiny_encoders.bert(root / "cross-encoder" / "tiny", words, head=True)
    expected = rp.Reranker.load(folder).rerank(QUERY, TEXTS)
    assert len({one.score for one in expected}) > 1
    for name in ("modeling.py", "pytorch_model.bin", "onnx/model.onnx"):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text("raise SystemExit")
    for spec in ("cross-encoder/tiny", "bert:cross-encoder/tiny"):
        loaded = rp.Reranker.load(spec)
        assert (loaded.name, loaded.rerank(QUERY, TEXTS)) == ("bert", expected)
    assert {"config.json", "model.safetensors", "tokenizer.json"} <= set(downloaded)
    assert all(one.endswith((".json", ".safetensors", ".txt")) for one in downloaded)
    assert len(downloaded) == len(set(downloaded))  # once
    shutil.copytree(tiny_encoders.bert(tmp_path / "x", words, head=True, seed=1), tmp_path / "cross-encoder" / "tiny")
    assert rp.Reranker.load("cross-encoder/tiny").rerank(QUERY, TEXTS) != expected  # a folder of that name wins


def test_what_else_is_on_the_hub(hub, saved, delta):
    """A checkpoint of ours, an encoder of texts, weights in a pickle, and nothing."""
    root, _ = hub
    shutil.copytree(saved, root / "me" / "delta")
    assert rp.Reranker.from_pretrained("me/delta").rerank(QUERY, TEXTS) == delta.rerank(QUERY, TEXTS)
    (root / "me" / "encoder" / "1_Pooling").mkdir(parents=True)
    for name in ("modules.json", "model.safetensors", "1_Pooling/config.json"):
        (root / "me" / "encoder" / name).write_text(name)
    assert (checkpoint_folder("me/encoder") / "1_Pooling" / "config.json").is_file()  # as of dense:me/encoder
    (root / "me" / "pickle").mkdir()
    (root / "me" / "pickle" / "config.json").write_text("{}")
    (root / "me" / "pickle" / "pytorch_model.bin").write_bytes(b"\x80\x04.")
    for name, message in (("pickle", "on the hub holds no .*safetensors"), ("nothing", "no such model on the hub")):
        with pytest.raises(rp.InputError, match=message):
            rp.Reranker.load(f"bert:me/{name}")


def test_without_a_network_the_download_is_named(no_hub):
    command = 'hf download org/name --include "[*].safetensors" "[*].json" "[*].txt" --local-dir org/name'
    for load in (rp.Reranker.load, rp.Reranker.from_pretrained):
        with pytest.raises(rp.InputError, match=f"^there is no folder org/name, and it cannot .*, run: {command} "):
            load("org/name")
