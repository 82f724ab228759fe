"""Models on the Hugging Face hub, by their names there, ``ORG/NAME``.

Only files that cannot run code are downloaded: weights as safetensors, and texts. A repository with weights in pickles
alone is refused.
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


def is_hub_name(given: str) -> bool:
    """Whether a text has the form of a name on the hub. A path below a folder that is here has not."""
    return NAME.fullmatch(given) is not None and not Path(given.split("/")[0]).exists()


@cache
def hub_folder(name: str, revision: str | None = None, token: str | None = None) -> Path:
    """The folder that a model of the hub is downloaded to, or was before.

    Within a process it stays the same, whatever happens to the branch on the hub.

    Raises:
        InputError: the model cannot be got, or has no weights as safetensors.
    """
    absent = f"there is no folder {name}"
    with naming_extras(f"{absent}, and the hub"):
        from huggingface_hub import snapshot_download
        from huggingface_hub.errors import RepositoryNotFoundError

    patterns = " ".join(f'"{one}"' for one in PATTERNS)
    command = f"hf download {name} --include {patterns} --local-dir {name}"
    with hub_faults(f"{absent}, and it cannot be got from the hub here; with a network, run: {command}"):
        try:
            folder = Path(snapshot_download(name, revision=revision, token=token, allow_patterns=[*PATTERNS]))
        except RepositoryNotFoundError:
            raise InputError(f"{absent}, and no such model on the hub that you may read") from None
    if not any(folder.rglob("*.safetensors")):
        raise InputError(
            f"{name} on the hub holds no *.safetensors; weights in other forms can run any program, and are not loaded"
        )
    return folder


@contextmanager
def hub_faults(said: str) -> Iterator[None]:
    """Give the errors of the hub's client in one line that begins with ``said``."""
    try:
        yield
    except InputError:
        raise
    except Exception as error:  # of whatever library the client uses for the network in its version
        raise InputError(f"{said} ({type(error).__name__}: {one_line(error):.300})") from error
