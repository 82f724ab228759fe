"""Models on the Hugging Face hub, by their names ``ORG/NAME``.

Only files that cannot run code are downloaded: weights as safetensors, and texts. A repository whose weights are only
pickles is refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

from rerank_plugin.base.errors import InputError
from rerank_plugin.base.extras import naming_extras
from rerank_plugin.base.register import one_line

NAME = re.compile(r"[A-Za-z0-9][\w.-]*/[\w.-]*\w", re.ASCII)
PATTERNS = ("*.safetensors", "*.json", "*.txt")


def is_hub_name(text: str) -> bool:
    """Whether a text has the form of a name on the hub, and is not a path below an existing folder."""
    return NAME.fullmatch(text) is not None and not Path(text.split("/")[0]).exists()


@cache
def hub_folder(name: str, revision: str | None = None, token: str | None = None) -> Path:
    """The local folder of a model on the hub, which is downloaded on first use.

    Within a process the folder stays the same, even if the branch on the hub changes.

    Raises:
        InputError: the model cannot be downloaded, or has no weights as safetensors.
    """
    absent = f"there is no folder {name}"
    with naming_extras(f"{absent}, and the hub"):
        from huggingface_hub import snapshot_download
        from huggingface_hub.errors import RepositoryNotFoundError

    patterns = " ".join(f'"{pattern}"' for pattern in PATTERNS)
    command = f"hf download {name} --include {patterns} --local-dir {name}"
    with one_line_hub_errors(f"{absent}, and it cannot be downloaded from the hub; with a network, run: {command}"):
        try:
            folder = Path(snapshot_download(name, revision=revision, token=token, allow_patterns=[*PATTERNS]))
        except RepositoryNotFoundError:
            raise InputError(f"{absent}, and no such model on the hub that you may read") from None
    if not any(folder.rglob("*.safetensors")):
        raise InputError(
            f"{name} on the hub holds no *.safetensors; weights in other formats can run any program and are not loaded"
        )
    return folder


@contextmanager
def one_line_hub_errors(problem: str) -> Iterator[None]:
    """Raise the errors of the hub's client in one line that begins with ``problem``."""
    try:
        yield
    except InputError:
        raise
    except Exception as error:  # the client's network library depends on its version
        raise InputError(f"{problem} ({type(error).__name__}: {one_line(error):.300})") from error
