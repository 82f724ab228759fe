"""Resolves specs: the bundled sample, a file or pipe, a folder with an optional split, or an ir-datasets id."""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from rerank_plugin.base.errors import InputError
from rerank_plugin.corpora.register import CORPUS, QUERIES, accepted
from rerank_plugin.files.text_files import is_input, is_there

SAMPLE = Path(__file__).parents[1] / "sample" / "data"  # the bundled sample, a BEIR folder
_SELECTED = re.compile(r"(?P<file>.+?)(?P<keys>(?::[\w-]+=[^:=]*)+)", re.DOTALL)
_DATASET_ID = re.compile(r"[\w.-]+(/[\w.-]+)*")


class Dataset(NamedTuple):
    """A data set of ir-datasets."""

    id: str


class Files(NamedTuple):
    """A file, or a folder with an optional split of BEIR; ``selected``: the keys and values of the lines to read."""

    path: Path
    split: str | None = None
    selected: tuple[tuple[str, str], ...] = ()


def resolve(spec: str, kind: str) -> Files | Dataset:
    """The files or the data set that ``spec`` names.

    A path on disk wins over an ir-datasets id of the same name, but ``sample`` always means the bundled collection (a
    folder of that name is ``./sample``).

    Raises:
        InputError: the spec names nothing; the message lists the accepted forms of this kind of records.
    """
    spec = os.fspath(spec)
    name, colon, split = spec.rpartition(":")
    if spec == "sample" or name == "sample":
        if not SAMPLE.is_dir():
            raise InputError(f"the bundled sample is missing ({SAMPLE} is not a folder): install the package again")
        return Files(SAMPLE, _split(spec, split) if colon else None)
    if spec and (is_there(spec) or is_input(spec)):
        return Files(Path(spec))
    if colon and is_there(name) and os.path.isdir(name):
        return Files(Path(name), _split(spec, split))
    selection = _SELECTED.fullmatch(spec)
    if selection and kind == QUERIES and is_input(selection["file"]):
        pairs = (pair.split("=") for pair in selection["keys"][1:].split(":"))
        return Files(Path(selection["file"]), selected=tuple((key, value) for key, value in pairs))
    if colon and is_input(name):
        raise InputError(f"{spec}: {name} is a file; only a BEIR folder has splits (folder:split)")
    if _DATASET_ID.fullmatch(spec):
        return Dataset(spec)
    raise unknown(spec, kind)


def resolve_corpora(specs: Iterable[str | os.PathLike[str]]) -> list[Files | Dataset]:
    """The files and data sets of corpora; a pattern such as ``baseline/*.xml.gz`` names several.

    Raises:
        InputError: a spec names nothing.
    """
    resolved: list[Files | Dataset] = []
    for spec in [os.fspath(spec) for spec in specs]:
        if glob.has_magic(spec) and not os.path.exists(spec):
            paths = sorted(glob.glob(spec, recursive=True))
            if not paths:
                raise InputError(f"{spec}: no file or folder has a name of this pattern")
            resolved += map(Files, map(Path, paths))
        else:
            resolved.append(resolve(spec, CORPUS))
    return resolved


def exists(spec: str) -> bool:
    """Whether the whole of ``spec`` names a file or folder, with or without a split."""
    name, colon, _ = spec.rpartition(":")
    return is_there(spec) or bool(colon and is_there(name))


def unknown(spec: str, kind: str, hint: str = "") -> InputError:
    """The error for a spec that names nothing."""
    return InputError(f"{spec!r} is not a file, a folder or an ir-datasets id{hint}; {kind} can be {accepted(kind)}")


def _split(spec: str, split: str) -> str:
    if not split or "/" in split or os.sep in split:
        raise InputError(f"{spec}: {split!r} cannot be the name of a split (folder:split, as in data/nfcorpus:test)")
    return split
