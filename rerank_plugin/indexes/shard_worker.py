"""The process that builds one shard; :mod:`rerank_plugin.indexes.shard_building` starts it as a module.

It reads lines of JSON: its settings, then batches of documents, then null; an input that ends earlier is of a process
that died, and nothing is kept. It answers by one line: the message of an `InputError`, or null.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TextIO

from rerank_plugin.base.errors import InputError
from rerank_plugin.base.records import Document
from rerank_plugin.indexes.building import write_part
from rerank_plugin.text.tokenizer import tokenizer


def main() -> None:
    answer = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what libraries print is no answer
    lines = open(0, encoding="utf-8")
    settings, error = json.loads(lines.readline()), None
    try:
        folders, words = (Path(settings["segment"]), Path(settings["lucene"])), tokenizer(settings["stemmer"])
        write_part(*folders, _batches(lines), words, None, settings["term_vectors"])
    except InputError as raised:
        error = str(raised)
        for _ in lines:  # a writer that is not read would wait for ever
            pass
    print(json.dumps(error), file=answer, flush=True)


def _batches(lines: TextIO) -> Iterator[tuple[list[Document], None]]:
    for line in lines:
        if not line.endswith("\n"):
            break  # the process that wrote it died
        if (batch := json.loads(line)) is None:
            return
        yield [Document(*fields) for fields in batch], None
    sys.exit(1)


if __name__ == "__main__":
    main()
