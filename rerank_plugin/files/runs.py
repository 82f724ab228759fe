"""TREC run files: ``query Q0 document rank score tag``, one ranked document a line.

Runs of MS MARCO, ``query document rank``, are read too; a score there is the reciprocal rank.

Documents are always ordered by float32 score descending, ties by decreasing document id, as in [D18] 4.4 and trec_eval.
Other tools break ties differently (by the order of the file, or by increasing id), so our runs have no ties: equal
scores are separated by the smallest float32 steps.
"""

from __future__ import annotations

import logging
import os
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np

from rerank_plugin.base.errors import InputError
from rerank_plugin.base.records import Query
from rerank_plugin.files.outputs import FileKind, is_packed, is_stream, replacing
from rerank_plugin.files.text_files import DAMAGED, byte_lines, first_line, is_pipe, lines, parse_number

T = TypeVar("T")
log = logging.getLogger(__name__)

FORM = "query Q0 document rank score tag"
PART, JOURNAL = ".part", ".part.journal"  # suffixes of an unfinished run
MOST_PIPED = 20_000_000  # lines of a run, which are kept in memory, from a pipe: it may have no end
RANK = re.compile("[1-9][0-9]{0,8}")
TOO_LARGE = 2.0**128 - 2.0**103  # the smallest number that rounds to an infinite float32


class RankedList(NamedTuple):
    """The documents of one query, from rank 1 on, and their scores, float32 [C]."""

    doc_ids: list[str]
    scores: np.ndarray


def sort_order(doc_ids: Sequence[str], scores: np.ndarray) -> np.ndarray:
    """Indices from rank 1 on: float32 score descending, ties by decreasing document id; int64 [C]. NaN is not allowed.

    Ids compare by code points, which is the order of their UTF-8 bytes and of C's strcmp.
    """
    scores = np.asarray(scores, dtype=np.float32)  # [C]
    order = np.argsort(-scores, kind="stable")
    ranked = scores[order]
    if (ranked[1:] < ranked[:-1]).all():
        return order
    by_id = np.array(sorted(range(len(doc_ids)), key=doc_ids.__getitem__, reverse=True), dtype=np.int64)
    return by_id[np.argsort(-scores[by_id], kind="stable")]


def strictly_decreasing(scores_sorted: np.ndarray) -> np.ndarray:
    """Scores in the same order without ties, float32 [C]: a tie is lowered to the float32 below the previous score.

    Distinct scores stay unchanged. Infinite scores become finite; if the scores reach the lowest float32, the last ones
    are raised instead.
    """
    scores = np.asarray(scores_sorted, dtype=np.float32)
    bits = np.ascontiguousarray(scores).view(np.int32).astype(np.int64)  # [C]
    # Neighbouring floats get neighbouring integers, and both zeros get 0: moving down by one float is subtracting 1.
    steps = np.where(bits >= 0, bits, -(bits & 0x7FFFFFFF))
    position = np.arange(len(steps))
    highest = int(np.float32(np.finfo(np.float32).max).view(np.int32))
    steps = np.minimum.accumulate(np.minimum(steps, highest) + position) - position
    steps = np.maximum(steps, position[::-1] - highest)
    return np.where(steps >= 0, steps, -steps | -0x80000000).astype(np.int32).view(np.float32)


def format_ranking(query_id: str, doc_ids: Sequence[str], scores: np.ndarray, tag: str) -> str:
    """The lines of one query in rank order; ``doc_ids`` may be in any order.

    Raises:
        InputError: a NaN or infinite score, a repeated document, or an id or tag that is empty or holds white space.
    """
    scores = np.asarray(scores)
    if scores.shape != (len(doc_ids),):
        raise InputError(f"query {query_id}: {len(doc_ids)} documents have scores of shape {scores.shape}")
    with np.errstate(over="ignore"):  # reported below, with its document
        scores = scores.astype(np.float32)
    if not np.isfinite(scores).all():
        bad = int(np.flatnonzero(~np.isfinite(scores))[0])
        raise InputError(f"query {query_id}, document {doc_ids[bad]}: the score {scores[bad]} is not a finite float32")
    order = sort_order(doc_ids, scores)
    return format_ranked(query_id, [doc_ids[position] for position in order.tolist()], scores[order], tag)


def format_ranked(query_id: str, doc_ids: Sequence[str], scores: np.ndarray, tag: str) -> str:
    """The lines of one query whose documents are in rank order (`sort_order`), with finite float32 scores.

    Raises:
        InputError: a repeated document, or an id or tag that is empty or holds white space.
    """
    for kind, name in (("query id", query_id), ("run tag", tag)):
        if name.split() != [name]:
            raise InputError(f"{kind} {name!r}: a run file cannot hold an empty name, or a name with white space")
    if " ".join(doc_ids).split() != list(doc_ids):
        bad = next(doc_id for doc_id in doc_ids if doc_id.split() != [doc_id])
        raise InputError(
            f"query {query_id}: document id {bad!r}: a run file cannot hold an empty id, or an id with white space"
        )
    if len(set(doc_ids)) != len(doc_ids):
        repeated = next(doc_id for doc_id, count in Counter(doc_ids).items() if count > 1)
        raise InputError(f"query {query_id}: document {repeated} is ranked twice")
    return "".join(
        f"{query_id} Q0 {doc_id} {rank} {score:.9g} {tag}\n"  # nine digits distinguish any two float32
        for rank, (doc_id, score) in enumerate(zip(doc_ids, strictly_decreasing(scores).tolist()), 1)
    )


def read_run(path: str | Path) -> dict[str, RankedList]:
    """The ranked lists of a run file (also compressed), by query id in the order of the file.

    Columns may be separated by any white space, and the lines of a query need not be adjacent. Ranks beside scores are
    ignored: the scores give the order.

    Raises:
        InputError: a malformed line, a score that is not a finite float32, a rank that is no whole number from 1 on, or
            a document or (of three columns) a rank that a query has twice; the message has file and line. Or a pipe
            gives more than `MOST_PIPED` lines.
    """
    path = Path(path)
    by_query: dict[str, dict[str, float]] = {}
    ranks: set[tuple[str, float]] = set()  # of three columns: judgments of such a form repeat their grades
    width = 0
    for number, line in lines(path):
        if number > MOST_PIPED and is_pipe(path):
            raise InputError(f"{path}: a pipe of more than {MOST_PIPED:,} lines of a run: name a file")
        columns = line.split()
        if len(columns) != (width := width or (3 if len(columns) == 3 else 6)):
            expected = "3 columns (query document rank)" if width == 3 else f"6 columns ({FORM})"
            raise InputError(f"{path}:{number}: expected {expected}, found {len(columns)}")
        try:
            query, document, score = _hit(columns)
        except ValueError as error:
            raise InputError(f"{path}:{number}: {error}") from None
        if width == 3 and (query, score) in ranks:
            raise InputError(f"{path}:{number}: query {query} has rank {columns[2]} twice: are these judgments?")
        hits = by_query.setdefault(query, {})
        if document in hits:
            raise InputError(f"{path}:{number}: query {query} ranks document {document} twice")
        hits[document] = score
        if width == 3:
            ranks.add((query, score))
    run = {}
    for query in list(by_query):
        hits = by_query.pop(query)  # a large run is not held twice
        doc_ids, scores = list(hits), np.fromiter(hits.values(), np.float32, len(hits))
        order = sort_order(doc_ids, scores)
        run[query] = RankedList([doc_ids[position] for position in order.tolist()], scores[order])
    return run


def _hit(columns: Sequence[str]) -> tuple[str, str, float]:
    """The query, document and score of the three or six columns of a line; a ValueError says what is wrong."""
    if len(columns) == 3:
        query, document, text = columns
        if not RANK.fullmatch(text):
            raise ValueError(f"the rank {text!r:.50} is not a whole number from 1 on")
        return query, document, 1 / int(text)
    query, _, document, _, text, _ = columns
    try:
        score = parse_number(text)
    except ValueError:
        raise ValueError(f"the score {text!r} is not a number") from None
    if not -TOO_LARGE < score < TOO_LARGE:  # false for NaN, too
        raise ValueError(f"the score {text} of document {document} is not a finite float32")
    return query, document, score


def run_files(folder: str | Path) -> list[Path]:
    """The runs of a folder, sorted by name; a warning names the entries that are left out, with the reasons.

    Folders, hidden files, parts of interrupted searches, and files whose first line is not that of a run are left out;
    only the first lines are read.

    Raises:
        InputError: the folder cannot be read or has no run, or two names differ only in ``.gz``.
    """
    folder = Path(folder)
    try:
        entries = sorted(folder.iterdir())
    except OSError as error:
        raise InputError(f"{folder}: cannot be read ({error.strerror or error})") from error
    reasons = {path: _reason_to_skip(path) for path in entries}
    left_out = ", ".join(f"{path.name} ({reason})" for path, reason in reasons.items() if reason)
    runs = [path for path, reason in reasons.items() if not reason]
    if not runs:
        raise InputError(f"{folder}: there is no run in this folder" + (f"; left out: {left_out}" if left_out else ""))
    if left_out:
        log.warning("%s: left out: %s", folder, left_out)
    by_name: dict[str, Path] = {}
    for path in runs:
        name = path.name[:-3] if is_packed(path) else path.name
        if (first := by_name.setdefault(name, path)) is not path:
            raise InputError(f"{folder}: {first.name} and {path.name} differ only in .gz: keep one of them")
    return runs


def _reason_to_skip(path: Path) -> str | None:
    """The reason why an entry of a folder is not a run; None for a run."""
    if path.name.startswith("."):
        return "hidden"
    if path.name.endswith((PART, JOURNAL)):
        return "unfinished"
    if not path.is_file():
        return "not a file"
    try:
        first = next((line for line in byte_lines(path) if line.strip()), b"")
    except DAMAGED:
        return None  # reading the run reports the damage
    if not first:
        return "empty"
    columns = first.decode(errors="replace").split()
    with suppress(ValueError):
        if len(columns) == 3:
            _hit(columns)
        else:
            _, _, _, _, score, _ = columns
            parse_number(score)  # reading the run reports a score that is not finite
        return None
    return f"its first line is not: {FORM}"


def _is_written_run(path: Path) -> bool:
    """Whether the first line of a file is that of a run we wrote: ``query Q0 document 1 score tag``."""
    try:
        _, q0, _, rank, score, _ = first_line(path).decode().split()
        parse_number(score)
    except ValueError:
        return False
    return (q0, rank) == ("Q0", "1")


RUN = FileKind("a run", _is_written_run)


def check_not_read(output: str | Path, read: Iterable[str | Path | None]) -> None:
    """An `InputError` if an output is one of the runs that the same command reads, and would overwrite it."""
    target = os.path.realpath(output)
    if not is_stream(output) and any(path and target == os.path.realpath(path) for path in read):
        raise InputError(f"{output} is also an input and would be overwritten: name another output")


def checked_run(run: object, name: str) -> dict[str, RankedList]:
    """A run in memory, with texts for ids that are whole numbers, as tables have them.

    Raises:
        InputError: it is no mapping, its values are no ranked lists, an id is neither a text nor a whole number, or two
            query ids are equal as texts.
    """
    for one in run.values() if isinstance(run, Mapping) else [run]:
        if not isinstance(one, RankedList):
            raise InputError(f"{name}: a run is {{query id: RankedList(doc_ids, scores)}}; found {type(one).__name__}")
    assert isinstance(run, Mapping)  # anything else has been refused
    return {
        query: ranked._replace(doc_ids=[text_id(id, name) for id in ranked.doc_ids])
        for query, ranked in with_text_ids(run, name).items()
    }


def with_text_ids(by_id: Mapping[Any, T], name: str) -> dict[str, T]:
    """A mapping whose ids that are whole numbers are texts; an `InputError` if two are then equal."""
    found = {text_id(id, name): value for id, value in by_id.items()}
    if len(found) < len(by_id):
        twice = next(one for one, count in Counter(map(str, by_id)).items() if count > 1)
        raise InputError(f"{name}: the id {twice} is there as a text and as a number: leave one of them")
    return found


def text_id(id: object, name: str) -> str:
    """An id as a text: itself, or the digits of a whole number; ``name`` is for the `InputError` about any other."""
    if isinstance(id, str):
        return id
    if isinstance(id, (int, np.integer)) and not isinstance(id, bool):
        return str(id)
    raise InputError(f"{name}: the id {id!r} is of type {type(id).__name__}: give a text")


def distinct(queries: Iterable[Query]) -> list[Query]:
    """The queries, with texts for ids that are whole numbers; an `InputError` unless their ids differ."""
    by_id: dict[str, Query] = {}
    for query in queries:
        if (id := text_id(query.id, "queries")) in by_id:
            raise InputError(f"two queries have the id '{id}': query ids must differ")
        by_id[id] = query._replace(id=id)
    return list(by_id.values())


def write_run(path: str | Path, run: Mapping[str, RankedList], tag: str, overwrite: bool = False) -> None:
    """Write a whole run atomically, gzipped if the name ends in .gz.

    Raises:
        InputError: an existing file must not be replaced, or a ranking cannot be written.
    """
    checked = checked_run(run, str(path))
    with replacing(path, RUN, overwrite) as file:
        for query_id, ranking in checked.items():
            file.write(encode(format_ranking(query_id, ranking.doc_ids, ranking.scores, tag), query_id))


def encode(text: str, query_id: str) -> bytes:
    """The lines of a query in UTF-8; an `InputError` for ids that are not valid Unicode."""
    try:
        return text.encode()
    except UnicodeEncodeError as error:  # lone surrogates, which JSON can hold
        raise InputError(f"query {query_id}: its id or a document id is not valid Unicode ({error})") from error
