"""The process that reads files of a mirror; :mod:`rerank_plugin.pubmed.reading` starts it with their paths.

It writes lines of JSON: deletions and documents, in batches; at last the problems, and the message of an `InputError`
or null.
"""

from __future__ import annotations

import json
import os
import sys
from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import islice
from pathlib import Path
from typing import Any

from rerank_plugin.base.errors import InputError
from rerank_plugin.corpora import Problems, pubmed_xml

BATCH = 256  # documents
AHEAD = 1 << 25  # characters that may wait for the process that reads them: limits memory


def main(paths: list[Path]) -> None:
    answer = open(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what libraries print is no answer

    def write(line: str) -> None:
        answer.write(line)
        answer.flush()

    with ThreadPoolExecutor(1) as executor:
        waiting, ahead = deque[tuple[Future[None], int]](), 0

        def send(value: Any, most: int = AHEAD) -> None:
            nonlocal ahead
            line = f"{json.dumps(value, ensure_ascii=False)}\n"
            waiting.append((executor.submit(write, line), len(line)))
            ahead += len(line)
            while ahead > most:
                written, length = waiting.popleft()
                written.result()
                ahead -= length

        problems, error = Problems(), None
        try:
            documents, sent = pubmed_xml.documents(paths, problems), 0
            while batch := list(islice(documents, BATCH)):
                send([documents.deletions[sent:], batch])
                sent = len(documents.deletions)
            send([documents.deletions[sent:], []])
        except InputError as raised:
            error = str(raised)
        send({"error": error, "counts": problems.counts, "examples": problems.examples}, most=0)


if __name__ == "__main__":
    try:
        main(list(map(Path, sys.argv[1:])))
    except BrokenPipeError:  # the process that started this one died
        os._exit(1)
