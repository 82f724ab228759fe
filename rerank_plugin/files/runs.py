"""TREC run files: ``query Q0 document rank score tag``, one ranked document a line.

One rule orders documents everywhere: float32 score descending, ties by decreasing document id, as [D18] 4.4 and
trec_eval resolve them. Tools that read a run disagree on ties (some keep the order of the file, some compare ids the
other way round), so what we write has no ties: equal scores are moved apart by the smallest float32 steps.
"""

from __future__ import annotations

import gzip
import json
import logging
import os
import shutil
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO, Iterator, Mapping, NamedTuple, Sequence

import numpy as np

from rerank_plugin.files.errors import InputError
from rerank_plugin.files.text_files import DAMAGED, byte_lines, lines

log = logging.getLogger(__name__)

UNFINISHED = (".part", ".part.journal", ".tmp")  # what RunWriter and replacing leave when they are killed
TOO_LARGE = 2.0**128 - 2.0**103  # from here on a number rounds to an infinite float32


class RankedList(NamedTuple):
    """The documents found for one query, from rank 1 on, and their scores, float32 [C]."""

    doc_ids: list[str]
    scores: np.ndarray


def sort_order(doc_ids: Sequence[str], scores: np.ndarray) -> np.ndarray:
    """Indices from rank 1 on: float32 score descending, ties by decreasing document id; int64 [C]. No NaN, please.

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
    """Scores in the same order without ties, float32 [C]: each is lowered to the next float32 below the one before it.

    Scores that are distinct already stay as they are. Infinite ones become finite; where the scores reach the lowest
    float32, the last ones are raised instead, so that there is always room.
    """
    scores = np.asarray(scores_sorted, dtype=np.float32)
    bits = np.ascontiguousarray(scores).view(np.int32).astype(np.int64)  # [C]
    # Neighbouring floats get neighbouring integers, and both zeros get 0: moving down by one float is subtracting 1.
    steps = np.where(bits >= 0, bits, -(bits & 0x7FFFFFFF))
    place = np.arange(len(steps))
    highest = int(np.float32(np.finfo(np.float32).max).view(np.int32))
    steps = np.minimum.accumulate(np.minimum(steps, highest) + place) - place
    steps = np.maximum(steps, place[::-1] - highest)
    return np.where(steps >= 0, steps, -steps | -0x80000000).astype(np.int32).view(np.float32)


def format_ranking(query_id: str, doc_ids: Sequence[str], scores: np.ndarray, tag: str) -> str:
    """The lines of one query, in rank order. Nine digits tell any two float32 apart.

    Raises:
        InputError: a NaN or infinite score, a repeated document, or an id or tag that is empty or holds white space.
    """
    for kind, one in (("query id", query_id), ("run tag", tag)):
        if one.split() != [one]:
            raise InputError(f"{kind} {one!r}: a run file takes no empty names and no white space in them")
    if " ".join(doc_ids).split() != list(doc_ids):
        bad = next(one for one in doc_ids if one.split() != [one])
        raise InputError(
            f"query {query_id}: document id {bad!r}: a run file takes no empty ids and no white space in them"
        )
    scores = np.asarray(scores)
    if scores.shape != (len(doc_ids),):
        raise InputError(f"query {query_id}: {len(doc_ids)} documents have scores of shape {scores.shape}")
    with np.errstate(over="ignore"):  # told below, with its document
        scores = scores.astype(np.float32)
    if not np.isfinite(scores).all():
        at = int(np.flatnonzero(~np.isfinite(scores))[0])
        raise InputError(f"query {query_id}, document {doc_ids[at]}: the score {scores[at]} is no finite float32")
    if len(set(doc_ids)) != len(doc_ids):
        seen: set[str] = set()
        twice = next(one for one in doc_ids if one in seen or seen.add(one))
        raise InputError(f"query {query_id}: document {twice} is ranked twice")
    order = sort_order(doc_ids, scores)
    written = strictly_decreasing(scores[order]).tolist()
    return "".join(
        f"{query_id} Q0 {doc_ids[at]} {rank} {score:.9g} {tag}\n"
        for rank, (at, score) in enumerate(zip(order.tolist(), written), 1)
    )


def read_run(path: str | Path) -> dict[str, RankedList]:
    """The ranked lists of a run file (also .gz), by query id in the order of the file.

    Columns may be separated by any white space, the lines of a query need not be together, and ranks are not looked
    at: the scores give the order.

    Raises:
        InputError: naming file and line, for a malformed line, a score that is no finite float32, or a document that
            a query ranks twice.
    """
    path = Path(path)
    found: dict[str, dict[str, float]] = {}
    for number, line in lines(path):
        columns = line.split()
        if len(columns) != 6:
            raise InputError(
                f"{path}:{number}: expected 6 columns (query Q0 document rank score tag), found {len(columns)}"
            )
        query, _, document, _, text, _ = columns
        try:
            score = float(text)
        except ValueError:
            raise InputError(f"{path}:{number}: the score {text!r} is no number") from None
        if not -TOO_LARGE < score < TOO_LARGE:  # NaN, too, is not between them
            raise InputError(f"{path}:{number}: the score {text} of document {document} is no finite float32")
        of_query = found.get(query)
        if of_query is None:
            of_query = found[query] = {}
        if document in of_query:
            raise InputError(f"{path}:{number}: query {query} ranks document {document} twice")
        of_query[document] = score
    run = {}
    for query in list(found):
        of_query = found.pop(query)  # large runs need not be held twice
        doc_ids, scores = list(of_query), np.fromiter(of_query.values(), np.float32, len(of_query))
        order = sort_order(doc_ids, scores)
        run[query] = RankedList([doc_ids[at] for at in order.tolist()], scores[order])
    return run


def run_files(folder: str | Path) -> list[Path]:
    """The runs of a folder, by name; what is left out is named in one warning, with the reason.

    Left out are folders, hidden files, what an interrupted search left, and files whose first line is none of a run:
    runs have no suffix in common, so their content tells. Only the first line is looked at, so a run that is damaged
    further down counts as one.

    Raises:
        InputError: the folder cannot be read or has no run, or two files would be the same run but for the ``.gz``.
    """
    folder = Path(folder)
    try:
        entries = sorted(folder.iterdir())
    except OSError as error:
        raise InputError(f"{folder}: cannot be read ({error.strerror or error})") from error
    reasons = {path: _no_run(path) for path in entries}
    left_out = ", ".join(f"{path.name} ({reason})" for path, reason in reasons.items() if reason)
    found = [path for path, reason in reasons.items() if not reason]
    if not found:
        raise InputError(f"{folder}: there is no run in this folder" + (f"; left out: {left_out}" if left_out else ""))
    if left_out:
        log.warning("%s: left out: %s", folder, left_out)
    same: dict[str, Path] = {}
    for path in found:
        name = path.name[:-3] if _is_packed(path) else path.name
        if (other := same.setdefault(name, path)) is not path:
            raise InputError(
                f"{folder}: {other.name} and {path.name} have the same name but for .gz: leave one of them"
            )
    return found


def _no_run(path: Path) -> str | None:
    """Why an entry of a folder is no run; None for a run."""
    if path.name.startswith("."):
        return "hidden"
    if path.name.endswith(UNFINISHED):
        return "unfinished"
    if not path.is_file():
        return "no file"
    try:
        first = next((line for line in byte_lines(path) if line.strip()), b"")
    except DAMAGED:
        return None  # whoever reads it says what is wrong
    if not first:
        return "empty"
    with suppress(ValueError):
        _, _, _, _, score, _ = first.decode(errors="replace").split()
        float(score)
        return None
    return "its first line is not: query Q0 document rank score tag"


def write_run(path: str | Path, run: Mapping[str, RankedList], tag: str) -> None:
    """Write a whole run, gzipped where the name ends in .gz, under another name first: it is all or nothing."""
    with replacing(Path(path)) as file:
        for query_id, ranking in run.items():
            file.write(_encode(format_ranking(query_id, ranking.doc_ids, ranking.scores, tag), query_id))


class RunWriter:
    """Writes a run query by query, so that an interrupted search can go on where it stopped.

    Finished queries stand in ``PATH.part``. ``PATH.part.journal`` holds the settings (JSON, one line) and, for each
    finished query, the length of PATH.part after it, a tab, and the query's id. A query counts once its journal line
    is complete; what PATH.part holds beyond the last such line is cut off on resuming. Closing renames PATH.part to
    PATH; leaving the ``with`` block by an exception keeps both files.

    Args:
        settings: what a resumed run must have in common with its first part; goes through JSON.
        resume: go on with PATH.part, if there is one; otherwise it is overwritten.

    Attributes:
        finished: ids of the queries that are done, those of the resumed part included.
    """

    def __init__(self, path: str | Path, tag: str, settings: Mapping[str, Any], resume: bool = False):
        self.path, self.tag = Path(path), tag
        self.part, self.journal_path = _sibling(self.path, ".part"), _sibling(self.path, ".part.journal")
        self.finished: set[str] = set()
        header = json.dumps({**settings, "tag": tag}, default=str)
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            if not (resume and self._reopen(json.loads(header))):
                self._start(header)
        except OSError as error:
            raise _unwritable(self.path, error) from error

    def __enter__(self) -> RunWriter:
        return self

    def __exit__(self, kind, error, traceback) -> None:
        if kind is None:
            self.close()
        else:
            self._close_files()

    def write(self, query_id: str, doc_ids: Sequence[str], scores: np.ndarray) -> None:
        """Add the ranking of one query, in any order of its documents; one with no documents counts as finished."""
        if query_id in self.finished:
            raise InputError(f"{self.path}: query {query_id} is written twice: query ids must be unique")
        block = _encode(format_ranking(query_id, doc_ids, scores, self.tag), query_id)
        try:
            # The block must be with the operating system before the line that vouches for it.
            self._file.write(block)
            self._file.flush()
            self._journal.write(f"{self._file.tell()}\t{query_id}\n".encode())
            self._journal.flush()
        except OSError as error:
            raise _unwritable(self.path, error) from error
        self.finished.add(query_id)

    def close(self) -> None:
        """Give the run its final name and remove the journal."""
        if self._file.closed:
            return
        try:
            os.fsync(self._file.fileno())
            self._close_files()
            if _is_packed(self.path):
                self._pack()
            else:
                os.replace(self.part, self.path)
            self.journal_path.unlink()
        except OSError as error:
            raise _unwritable(self.path, error) from error

    def _start(self, header: str) -> None:
        self.journal_path.unlink(missing_ok=True)  # first: it must never vouch for a file it does not belong to
        self._file = open(self.part, "wb")
        self._journal = open(self.journal_path, "wb")
        self._journal.write(header.encode() + b"\n")
        self._journal.flush()

    def _reopen(self, settings: dict) -> bool:
        """Go on with an earlier part; False where there is none."""
        if not self.part.exists() or not self.journal_path.exists():
            return False
        header, *entries = self.journal_path.read_bytes().split(b"\n")[:-1] or [b""]  # without an incomplete last line
        if not header:
            return False
        self._compare(header, settings)
        size, end, kept = self.part.stat().st_size, 0, len(header) + 1
        for entry in entries:
            offset, tab, query_id = entry.partition(b"\t")
            # After a power failure the journal can be ahead of the run itself, or damaged: trust its sound beginning.
            if not (tab and query_id and offset.isdigit() and end <= int(offset) <= size):
                break
            end = int(offset)
            kept += len(entry) + 1
            self.finished.add(query_id.decode())
        self._file = _cut(self.part, end)
        self._journal = _cut(self.journal_path, kept)
        return True

    def _compare(self, header: bytes, settings: dict) -> None:
        try:
            before = json.loads(header)
        except ValueError:
            before = None
        if not isinstance(before, dict):
            raise InputError(f"{self.journal_path}: damaged: leave out --resume to start afresh")
        differing = [
            f"{name} was {json.dumps(before.get(name))} and is {json.dumps(settings.get(name))}"
            for name in sorted(before.keys() | settings.keys())
            if before.get(name) != settings.get(name)
        ]
        if differing:
            raise InputError(
                f"{self.part}: was begun with other settings: {', '.join(differing)}: repeat its settings to go on, or "
                "leave out --resume to start afresh"
            )

    def _pack(self) -> None:
        with open(self.part, "rb") as plain, replacing(self.path) as packed:
            shutil.copyfileobj(plain, packed)
        self.part.unlink()

    def _close_files(self) -> None:
        self._file.close()
        self._journal.close()


@contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """A file to write that takes ``path``'s place when the block ends well, and vanishes when it does not.

    Where the name ends in .gz it is gzipped, without name and time, so that equal contents make equal files.
    """
    temporary = _sibling(path, f".{os.getpid()}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with ExitStack() as files:
            file = files.enter_context(open(temporary, "wb"))
            yield files.enter_context(gzip.GzipFile("", "wb", fileobj=file, mtime=0)) if _is_packed(path) else file
        os.replace(temporary, path)
    except OSError as error:
        raise _unwritable(path, error) from error
    finally:
        with suppress(OSError):  # it is in place, or was never made
            temporary.unlink()


def _is_packed(path: Path) -> bool:
    return path.name.lower().endswith(".gz")


def _sibling(path: Path, suffix: str) -> Path:
    return path.with_name(path.name + suffix)


def _cut(path: Path, size: int) -> BinaryIO:
    """Open a file for writing on after its first ``size`` bytes, without what follows them."""
    file = open(path, "r+b")
    file.truncate(size)
    file.seek(size)
    return file


def _encode(text: str, query_id: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError as error:  # lone surrogates, which JSON can hold
        raise InputError(f"query {query_id}: its id or one of its documents' is no valid Unicode ({error})") from error


def _unwritable(path: Path, error: OSError) -> InputError:
    return InputError(f"{path}: cannot be written ({error.strerror or error})")
