"""Checkpoints that travel: with checksums and a model card, in a folder or on the Hugging Face hub.

Only the files of a checkpoint are taken, whose tensors are safetensors: none of them can run code.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rerank_plugin.base.errors import InputError
from rerank_plugin.base.extras import naming_extras
from rerank_plugin.files.fingerprints import describe_file
from rerank_plugin.files.outputs import FolderKind, replacing_folder, scratch_folder
from rerank_plugin.files.tables import markdown
from rerank_plugin.models.checkpoints import CHECKPOINT, CONFIG_FILE, WEIGHTS_FILE, WORDS, read_config
from rerank_plugin.models.hub import hub_faults, hub_folder
from rerank_plugin.text import word_vectors

CARD_FILE, CHECKSUMS_FILE = "README.md", "checksums.json"
FILES = (CONFIG_FILE, *CHECKPOINT.files)
SHARED = FolderKind("a shared checkpoint", CHECKSUMS_FILE, ("files",), (*FILES, CARD_FILE))


def save_shared(checkpoint: Path, folder: str | Path, name: str, overwrite: bool = False) -> None:
    """Copy a checkpoint, and write its model card and the checksums of its files, atomically.

    Args:
        name: what the card calls it: its id on the hub, or the folder.

    Raises:
        InputError: it is no checkpoint, or something is there that must not be replaced.
    """
    config = read_config(checkpoint)
    with replacing_folder(folder, SHARED, overwrite) as writing:
        for one in _files(checkpoint):
            (writing / one).parent.mkdir(exist_ok=True)
            shutil.copyfile(checkpoint / one, writing / one)
        if (words := word_vectors.home(checkpoint)) != checkpoint:  # a bundled model refers to another one's words
            for one in WORDS:
                shutil.copyfile(words / one, writing / one)
        (writing / CARD_FILE).write_text(model_card(config, name), encoding="utf-8")
        checksums = {"files": {one: describe_file(writing / one) for one in _files(writing)}}
        (writing / CHECKSUMS_FILE).write_text(json.dumps(checksums, indent=1), encoding="utf-8")


def push(checkpoint: Path, repo_id: str, private: bool | None = None, token: str | None = None) -> str:
    """Upload a checkpoint to the hub; returns its address there. The repository is made if there is none.

    Raises:
        InputError: it is no checkpoint, or the hub cannot be reached or refuses.
    """
    with naming_extras("the hub"):
        from huggingface_hub import HfApi

    with scratch_folder() as scratch:
        save_shared(checkpoint, scratch / "checkpoint", repo_id)
        with hub_faults(f"{repo_id} cannot be written on the hub"):
            api = HfApi(token=token)
            address = api.create_repo(repo_id, private=private, exist_ok=True)
            api.upload_folder(repo_id=repo_id, folder_path=scratch / "checkpoint", commit_message="Add a checkpoint")
    return str(address)


def fetch(name: str | Path, revision: str | None = None, token: str | None = None) -> Path:
    """The folder of a shared checkpoint, which is downloaded if ``name`` is no folder but an id of the hub.

    Raises:
        InputError: there is none, or a file does not match its checksum.
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
        InputError: one differs, is missing or has no checksum, or there are no checksums.
    """
    path = folder / CHECKSUMS_FILE
    if not path.is_file():
        raise InputError(
            f"{folder} holds no {CHECKSUMS_FILE}: save_pretrained writes it; a checkpoint as it was trained is loaded "
            "by load"
        )
    try:
        listed = json.loads(path.read_text(encoding="utf-8"))["files"]
        expected = {str(name): described["blake2b"] for name, described in listed.items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise InputError(f"{path} cannot be read ({error!r}): get the checkpoint again") from None
    found = {name: describe_file(folder / name)["blake2b"] for name in _files(folder)}
    for name in sorted({CONFIG_FILE, WEIGHTS_FILE, *expected, *found}):
        if found.get(name) != expected.get(name) or name not in found:
            what = (
                "is missing" if name not in found else "does not match its checksum" if name in expected else "has none"
            )
            raise InputError(f"{folder / name} {what}: get the checkpoint again")


def _files(checkpoint: Path) -> list[str]:
    """The files of a checkpoint, relative to its folder."""
    found = (path for pattern in FILES for path in checkpoint.glob(pattern) if path.is_file())
    return sorted(path.relative_to(checkpoint).as_posix() for path in found)


def model_card(config: Mapping[str, Any], name: str) -> str:
    """The model card of a checkpoint, Markdown with the hub's metadata before it.

    Args:
        config: the checkpoint's ``config.json``.
    """
    with naming_extras("a model card"):
        from huggingface_hub import ModelCardData

    model = config["model"]
    data = ModelCardData(library_name="rerank_plugin", pipeline_tag="text-ranking", tags=["reranking", model])
    made = config.get("training") or config.get("distillation") or {}
    sections = {"Data and training": made, "Validation": config.get("measures"), "Hyper-parameters": config["config"]}
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
