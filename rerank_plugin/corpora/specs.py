"""What a spec means: the bundled sample, a file or folder with an optional split, or an ir-datasets id."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import NamedTuple

from rerank_plugin.base.errors import InputError
from rerank_plugin.corpora.register import QUERIES, accepted
from rerank_plugin.sample import FOLDER as SAMPLE

_SELECTED = re.compile(r"(?P<file>.+?)(?P<keys>(?::[\w-]+=[^:=]*)+)", re.DOTALL)
_DATASET_ID = re.compile(r"[\w.-]+(/[\w.-]+)*")


class Source(NamedTuple):
    """Either a path, with the split of a BEIR folder where one was named, or the id of an ir-datasets data set.

    ``selected`` are the keys and values that the lines of a file must have.
    """

    path: Path | None = None
    split: str | None = None
    dataset: str | None = None
    selected: tuple[tuple[str, str], ...] = ()


def resolve(spec: str, what: str) -> Source:
    """Decide what ``spec`` names. What exists on disk wins over an ir-datasets id of the same name; only the word
    ``sample`` always means the bundled collection (a folder of that name is ``./sample``)."""
    spec = os.fspath(spec)
    name, colon, split = spec.rpartition(":")
    if spec == "sample" or name == "sample":
        if not SAMPLE.is_dir():
            raise InputError(f"the bundled sample is missing ({SAMPLE} is no folder): install the package again")
        return Source(SAMPLE, _split(spec, split) if colon else None)
    if spec and os.path.exists(spec):
        return Source(Path(spec))
    if colon and os.path.isdir(name):
        return Source(Path(name), _split(spec, split))
    selection = _SELECTED.fullmatch(spec)
    if selection and what == QUERIES and os.path.isfile(selection["file"]):
        pairs = (pair.split("=") for pair in selection["keys"][1:].split(":"))
        return Source(Path(selection["file"]), selected=tuple((key, value) for key, value in pairs))
    if colon and os.path.isfile(name):
        raise InputError(f"{spec}: {name} is a file; only a BEIR folder has splits (folder:split)")
    if _DATASET_ID.fullmatch(spec):
        return Source(dataset=spec)
    raise unknown(spec, what)


def exists(spec: str) -> bool:
    """Whether the whole of ``spec`` names a file or folder, with or without a split."""
    name, colon, _ = spec.rpartition(":")
    return os.path.exists(spec) or bool(colon and os.path.exists(name))


def unknown(spec: str, what: str, hint: str = "") -> InputError:
    return InputError(
        f"{spec!r} is no existing file or folder and no ir-datasets id{hint}; {what} can be {accepted(what)}"
    )


def _split(spec: str, split: str) -> str:
    if not split or "/" in split or os.sep in split:
        raise InputError(f"{spec}: {split!r} cannot be the name of a split (folder:split, as in data/nfcorpus:test)")
    return split
