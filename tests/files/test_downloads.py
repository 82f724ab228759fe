"""Every kind of model folder as a clone or a download leaves it, with one of its files not the file."""

from pathlib import Path

import pytest

import rerank_plugin as rp
from rerank_plugin.models.cross_encoder.model import CrossEncoder, CrossEncoderConfig
from rerank_plugin.models.encoder.folder import open_encoder
from rerank_plugin.retrieval.register import configure
from rerank_plugin.text import word_vectors

POINTER = "version https://git-lfs.github.com/spec/v1\noid sha256:0123\nsize 437955512\n"
PAGE = "\ufeff\n<!DOCTYPE HTML>\n<html><body>Sign in</body></html>\n"


@pytest.mark.parametrize("file, content, cure", [
    ("model.safetensors", POINTER, "is a pointer of git-lfs, not the file: run git lfs pull in"),
    ("1_Pooling/config.json", PAGE, "the download saved a page of HTML; download it again"),
])  # fmt: skip
@pytest.mark.parametrize("open_folder", [
    lambda folder, index: rp.Reranker.load(str(folder)),
    lambda folder, index: rp.Reranker.load(f"bert:{folder}", index),
    lambda folder, index: rp.Reranker.load(f"encoder:{folder}", index),
    lambda folder, index: rp.Reranker.load(f"delta:{folder}", index),
    lambda folder, index: rp.Reranker.load(f"wmd-title:{folder}", index),
    lambda folder, index: configure(f"dense:{folder}").open(index),
    lambda folder, index: CrossEncoder(CrossEncoderConfig(encoder=str(folder))),
    lambda folder, index: open_encoder(folder),
    lambda folder, index: word_vectors.load(folder),
])  # fmt: skip
def test_what_is_not_the_file_gets_its_cure(index, tmp_path, open_folder, file, content, cure):
    path = tmp_path / "model" / file
    path.parent.mkdir(parents=True)
    Path(path).write_text(content, encoding="utf-8")
    with pytest.raises(rp.InputError) as error:
        open_folder(tmp_path / "model", index)
    assert str(path) in str(error.value) and cure in str(error.value) and "\n" not in str(error.value)
