"""Shared checkpoints: with checksums and a model card, in a folder or on the Hugging Face hub.

Only the files of a checkpoint are copied, and its tensors are safetensors: none of the files can run code.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rerank_plugin.base.errors import InputError
from rerank_plugin.base.extras import naming_extras
from rerank_plugin.files.artifact import Artifact
from rerank_plugin.files.outputs import replacing_folder, scratch_folder
from rerank_plugin.files.tables import markdown
from rerank_plugin.models.checkpoint import CHECKPOINT, CONFIG_FILE, WEIGHTS_FILE, WORDS, Checkpoint
from rerank_plugin.models.register import hub_folder, one_line_hub_errors
from rerank_plugin.text import word_vectors

CARD_FILE, CHECKSUMS_FILE = "README.md", "checksums.json"
FILES = (CONFIG_FILE, *CHECKPOINT.files)
SHARED = Artifact(
    "a shared checkpoint",
    CHECKSUMS_FILE,
    {"files": dict[str, dict[str, Any]]},
    (*FILES, CARD_FILE),
    editable=True,
    shared=True,
    apart=(CARD_FILE,),
    again="get the checkpoint again",
)


def save_shared(checkpoint: Path, folder: str | Path, name: str, overwrite: bool = False) -> None:
    """Copy a checkpoint, and write its model card and the checksums of its files, atomically.

    Args:
        name: the checkpoint's name in the card: its id on the hub, or the folder.

    Raises:
        InputError: the folder is not a checkpoint, or the output exists and must not be replaced.
    """
    opened = Checkpoint.open(checkpoint)
    opened.verify()
    config = opened.description
    with replacing_folder(folder, SHARED, overwrite) as writing:
        for file in _files(checkpoint):
            (writing / file).parent.mkdir(exist_ok=True)
            shutil.copyfile(checkpoint / file, writing / file)
        if (
            words := word_vectors.vectors_folder(checkpoint)
        ) != checkpoint:  # bundled models share the words of one of them
            for file in WORDS:
                shutil.copyfile(words / file, writing / file)
            CHECKPOINT.seal(writing, config)
        (writing / CARD_FILE).write_text(model_card(config, name), encoding="utf-8")
        SHARED.seal(writing, {})


def push(checkpoint: Path, repo_id: str, private: bool | None = None, token: str | None = None) -> str:
    """Upload a checkpoint to the hub and return its address; creates the repository if it does not exist.

    Raises:
        InputError: the folder is not a checkpoint, or the hub cannot be reached or refuses.
    """
    with naming_extras("the hub"):
        from huggingface_hub import HfApi

    with scratch_folder() as scratch:
        save_shared(checkpoint, scratch / "checkpoint", repo_id)
        with one_line_hub_errors(f"{repo_id} cannot be written on the hub"):
            api = HfApi(token=token)
            address = api.create_repo(repo_id, private=private, exist_ok=True)
            api.upload_folder(repo_id=repo_id, folder_path=scratch / "checkpoint", commit_message="Add a checkpoint")
    return str(address)


def fetch(name: str | Path, revision: str | None = None, token: str | None = None) -> Path:
    """The folder of a shared checkpoint; downloads it if ``name`` is not a folder but an id of the hub.

    Raises:
        InputError: no such checkpoint, or a file does not match its checksum.
    """
    folder = Path(name)
    if not folder.is_dir():
        if not isinstance(name, str) or len(name.split("/")) != 2:
            raise InputError(f"there is no folder {name}, and an id of the hub has the form OWNER/NAME")
        folder = hub_folder(name, revision, token)
    check(folder)
    return folder


def check(folder: Path) -> None:
    """Compare the files of a shared checkpoint with their checksums.

    Raises:
        InputError: a file differs, is missing or has no checksum, or the folder has no checksums.
    """
    if not (folder / CHECKSUMS_FILE).exists():
        raise InputError(
            f"{folder} holds no {CHECKSUMS_FILE}, which save_pretrained writes: get the checkpoint again, or load one "
            "of the train command with load"
        )
    description = SHARED.read(folder)
    SHARED.check_files(folder, description)
    for name in (CONFIG_FILE, WEIGHTS_FILE, *SHARED.list_files(folder)):
        if name not in description["files"]:
            raise InputError(f"{folder / name} has no checksum: {SHARED.again}")


def _files(checkpoint: Path) -> list[str]:
    """The files of a checkpoint, relative to its folder."""
    paths = (path for pattern in FILES for path in checkpoint.glob(pattern) if path.is_file())
    return sorted(path.relative_to(checkpoint).as_posix() for path in paths)


def model_card(config: Mapping[str, Any], name: str) -> str:
    """The model card of a checkpoint: Markdown after the hub's metadata.

    Args:
        config: the checkpoint's ``config.json``.
    """
    with naming_extras("a model card"):
        from huggingface_hub import ModelCardData

    model = config["model"]
    data = ModelCardData(library_name="rerank_plugin", pipeline_tag="text-ranking", tags=["reranking", model])
    training = config.get("training") or config.get("distillation") or {}
    sections = {
        "Data and training": training, "Validation": config.get("measures"), "Hyper-parameters": config["config"]
    }  # fmt: skip
    tables = [f"## {title}\n\n{_table(values)}" for title, values in sections.items() if values]
    usage = f"""## How to use

```python
import rerank_plugin as rp

reranker = rp.Reranker.from_pretrained("{name}")
for result in reranker.rerank("a query", ["an abstract", {{"title": "A title", "text": "another abstract"}}]):
    print(result.rank, result.index, result.score)
```"""
    return "\n\n".join([f"---\n{data.to_yaml()}\n---", f"# {name}: a re-ranker ({model})", usage, *tables]) + "\n"


def _table(values: Mapping[str, Any]) -> str:
    cells = [[key, f"`{json.dumps(value, ensure_ascii=False)}`"] for key, value in values.items()]
    return markdown([["", ""], *cells], texts=2).rstrip("\n")
