"""Folds for cross-validation: parts of the judged queries, each the test set of a model trained without it ([P] 3.1).

[P]'s folds are the years of its tracks, 50 queries each: 50 random queries of the other years' 250 are held out for
validation, and 200 train. A file of folds has a line for each query, ``query id<TAB>fold name``.
"""

from __future__ import annotations

import logging
import re
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from rerank_plugin.base.errors import InputError
from rerank_plugin.base.records import Query
from rerank_plugin.files.text_files import lines
from rerank_plugin.text.tokenizer import tokenize

log = logging.getLogger(__name__)

SHARE = 0.2  # share of the remaining queries for validation: 50 of 250 in [P] 3.1

Parts = dict[str, list[Query]]  # queries by the name of their fold, in input order


class Fold(NamedTuple):
    """The disjoint training, validation and test queries of the model of one fold."""

    name: str
    train: list[Query]
    validation: list[Query]
    test: list[Query]


def random_parts(queries: Sequence[Query], count: int, seed: int) -> Parts:
    """Random parts named 1, 2, ... (with leading zeros from ten parts on), whose sizes differ by one at most.

    Raises:
        InputError: fewer than two parts, or fewer queries than parts.
    """
    if not 2 <= count <= len(queries):
        raise InputError(f"{count} folds: the {len(queries)} judged queries make 2 to {len(queries)}")
    order = np.random.default_rng([seed, count]).permutation(len(queries))
    width = len(str(count))
    return {
        f"{number:0{width}d}": [queries[place] for place in sorted(places.tolist())]
        for number, places in enumerate(np.array_split(order, count), 1)
    }


def read_parts(path: Path, queries: Sequence[Query]) -> Parts:
    """The parts of a file, in the order of their first lines. Lines of unknown queries are left out.

    Raises:
        InputError: a malformed line, a name that cannot name a folder, a query in two folds or in none, or only one
            fold.
    """
    fold_of: dict[str, str] = {}
    for number, line in lines(path):
        columns = line.rstrip("\r\n").split("\t")
        if columns == [""]:
            continue
        if len(columns) != 2 or not columns[0]:
            raise InputError(f"{path}:{number}: expected a query id, a tab, and the name of its fold")
        query_id, name = columns
        if not re.fullmatch(r"\w[\w.-]*", name):
            raise InputError(
                f"{path}:{number}: the fold {name!r} names a folder: use only letters, digits, '_', '.' and '-'"
            )
        if query_id in fold_of:
            raise InputError(f"{path}:{number}: query {query_id} is in a fold already, {fold_of[query_id]}")
        fold_of[query_id] = name
    missing = [query.id for query in queries if query.id not in fold_of]
    if missing:
        raise InputError(f"{path}: {len(missing)} judged queries are in no fold, e.g. '{missing[0]}'")
    unknown = fold_of.keys() - {query.id for query in queries}
    if unknown:
        log.warning("%s: %d queries are not among the training queries, e.g. '%s'", path, len(unknown), min(unknown))
    parts: Parts = {name: [] for name in fold_of.values()}
    for query in queries:
        parts[fold_of[query.id]].append(query)
    parts = {name: part for name, part in parts.items() if part}
    if len(parts) < 2:
        raise InputError(f"{path}: all queries are in one fold, {next(iter(parts))}: nothing is left to train on")
    return parts


def as_text(parts: Mapping[str, Sequence[Query]]) -> str:
    """The parts in the format that `read_parts` reads."""
    return "".join(f"{query.id}\t{name}\n" for name, part in parts.items() for query in part)


def make_folds(parts: Parts, held_out: float, seed: int) -> list[Fold]:
    """A fold for each part, which is the test set; a random sample of the other queries is for validation.

    Args:
        held_out: number of validation queries if at least 1, otherwise their share of the other queries.

    Raises:
        InputError: no query is left for validation or for training.
    """
    folds = []
    for name, test in parts.items():
        tested = {query.id for query in test}
        others = sorted(query for part in parts.values() for query in part if query.id not in tested)
        count = int(held_out) if held_out >= 1 else max(1, round(held_out * len(others)))
        if not 0 < count < len(others):
            raise InputError(
                f"cannot hold out {held_out:g} for validation: the {len(others)} queries outside the fold {name} must "
                "do for validation and training"
            )
        sample = np.random.default_rng([seed, zlib.crc32(name.encode())]).choice(len(others), count, replace=False)
        validation = {others[place].id for place in sample.tolist()}
        train = [query for query in others if query.id not in validation]
        folds.append(Fold(name, train, [query for query in others if query.id in validation], test))
    return folds


def warn_of_repeated_texts(parts: Parts) -> None:
    """Log a warning if queries of different folds have the same words: test data then leaks into training."""
    folds_of: dict[tuple[str, ...], dict[str, str]] = {}
    for name, part in parts.items():
        for query in part:
            folds_of.setdefault(tuple(tokenize(query.text)), {})[query.id] = name
    groups = [by_id for by_id in folds_of.values() if len(set(by_id.values())) > 1]
    if groups:
        shown = "; ".join(" = ".join(f"{id} (fold {name})" for id, name in by_id.items()) for by_id in groups[:5])
        log.warning(
            "%d queries have the same words as a query in another fold, so that models are tested on their training "
            "data: %s%s", sum(map(len, groups)), shown, "; ..." if groups[5:] else "",
        )  # fmt: skip
