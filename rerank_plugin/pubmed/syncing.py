"""Fetches the files that a mirror lacks.

A file is fetched into ``NAME.part``, which a later run continues, and gets its name when its MD5 is that of the server.
A file that is here as it was verified is asked for again only if the server's list says something else of it than then.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import Any

from rerank_plugin.base.errors import InputError
from rerank_plugin.pubmed.distribution import BASELINE, FOLDERS, MD5, SourceFile, file_name, listed_files, md5_of
from rerank_plugin.pubmed.mirror import PART, Mirror, file_md5
from rerank_plugin.pubmed.server import NotFetchedError, Server

log = logging.getLogger(__name__)

NLM = "https://ftp.ncbi.nlm.nih.gov/pubmed/"
TRIES = 3  # to fetch a file whose MD5 is not that of the server


@dataclass
class SyncReport:
    """What a run did.

    Attributes:
        fetched: how many files. bytes: in them.
        removed: how many files that a newer baseline replaces.
        failed: the reasons why files could not be fetched.
    """

    fetched: int = 0
    bytes: int = 0
    removed: int = 0
    failed: list[str] = field(default_factory=list)


def listed(server: Server) -> dict[SourceFile, str]:
    """The files of the newest release that a server has, with what its list says of each, in their order.

    Raises:
        InputError: the server cannot be asked, or has no baseline.
    """
    files = {file: said for folder in FOLDERS for file, said in listed_files(server.text(f"{folder}/"), folder)}
    releases = {file.release for file in files if file.folder == BASELINE and file.number == 1}
    if not releases:
        raise InputError(f"{server.base_url}{BASELINE}/ lists no baseline: give the address of PubMed's distribution")
    newest = max(releases)
    return {file: files[file] for file in sorted(files) if file.release == newest}


def missing_numbers(files: Iterable[SourceFile]) -> list[int]:
    """The numbers that a list of files of one release, from 1 on, leaves out."""
    numbers = [file.number for file in files]
    return sorted({*range(1, max(numbers, default=0) + 1)}.difference(numbers))


def sync(
    mirror: Mirror,
    server: Server,
    progress: Callable[[list[SourceFile]], Iterable[SourceFile]] = iter,
) -> SyncReport:
    """Fetch what a mirror lacks of the newest release; files of older ones go as those with their numbers come.

    Those whose numbers the newest release lacks go when it is here whole; an update file shows that its baseline is.
    A file that cannot be fetched costs no other file.

    Args:
        progress: wraps the files that are fetched, for a progress bar.

    Raises:
        InputError: the server cannot be asked or has no baseline, or the mirror cannot be written.
    """
    report = SyncReport()
    with mirror.writing():
        files = listed(server)
        mirror.state |= {
            "base_url": server.base_url,
            "asked": datetime.now(timezone.utc).isoformat(timespec="seconds"),
            "listed": [file.path for file in files],
        }
        mirror.write()
        if gaps := missing_numbers(files):
            first = file_name(max(files).release, gaps[0])
            log.warning("%s lacks %d files, the first %s", server.base_url, len(gaps), first)
        wanted = [file for file, said in files.items() if not mirror.holds(file, said)]
        older = [file for file in mirror.files() if file.release < max(files).release]
        mirror.remove_begun(kept=files)
        for file in progress(wanted):
            try:
                size = _fetch(mirror, server, file, files[file])
            except NotFetchedError as error:
                log.warning("%s", error)
                report.failed.append(str(error))
                continue
            report.fetched, report.bytes = report.fetched + (size > 0), report.bytes + size
            report.removed += _remove(mirror, older, lambda old: old.number == file.number)
        if not (report.failed or gaps) and max(files).folder != BASELINE:
            report.removed += _remove(mirror, older, lambda old: True)
    return report


def _remove(mirror: Mirror, older: list[SourceFile], is_replaced: Callable[[SourceFile], Any]) -> int:
    replaced = [file for file in older if is_replaced(file)]
    for file in replaced:
        mirror.remove(file)
        older.remove(file)
    return len(replaced)


def _fetch(mirror: Mirror, server: Server, file: SourceFile, said: str) -> int:
    """Fetch a file that is not here, or not as it was verified; gives its size, 0 if it is here after all."""
    part, path = mirror.path(file, PART), mirror.path(file)
    for _ in range(TRIES):
        try:
            expected = md5_of(server.text(f"{file.path}{MD5}"), file)
        except InputError as error:
            raise NotFetchedError(f"{server.base_url}{error}") from None
        if path.exists() and file_md5(path) == expected:  # fetched before a kill, or by another program
            mirror.put(file, path, expected, said)
            return 0
        changed = server.fetch(file.path, part)
        if (found := file_md5(part)) == expected:
            if changed is not None:
                os.utime(part, (changed, changed))
            mirror.put(file, part, expected, said)
            return path.stat().st_size
        part.unlink()
    raise NotFetchedError(
        f"{server.base_url}{file.path}: its MD5 is {found}, and {expected} in {file.name}{MD5}, {TRIES} times in a row"
    )
