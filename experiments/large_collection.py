"""``python -m experiments.large_collection``: a collection of any size from real texts, to measure speed and recall.

The documents are the texts of some corpora, each once. Further documents are spliced: the first half of the title and
of the sentences of a text, followed by the second halves of another. No pair of texts occurs twice, so neither texts
nor vectors repeat; on a collection of copies, every approximate search looks good. Needles are documents of judged
collections, which keep their ids and come first.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable, Iterator
from itertools import chain, islice
from pathlib import Path

import numpy as np

from rerank_plugin import Document, InputError
from rerank_plugin import options as commandline
from rerank_plugin.base.terminal import progress
from rerank_plugin.corpora import CORPUS, accepted, documents
from rerank_plugin.files.outputs import FolderKind, check_free, replacing_folder
from rerank_plugin.text.tokenizer import split_sentences

COLLECTION = FolderKind("a large collection", "collection.json", ("texts", "seed"), ("corpus.jsonl.gz",))
LEAST_WORDS = 50  # of an abstract; shorter texts are titles alone, or remarks
LEVEL = 1  # of gzip: 5 million documents in minutes


def real_texts(corpora: Iterable[str]) -> list[Document]:
    """The documents of all corpora with the length of an abstract, each text once."""
    by_text: dict[str, Document] = {}
    for corpus in corpora:
        for document in documents(corpus, ids_required=False):
            if len(document.abstract.split()) >= LEAST_WORDS:
                by_text.setdefault(document.abstract, document)
    return list(by_text.values())


def spliced(texts: list[Document], seed: int) -> Iterator[tuple[str, str]]:
    """Title and abstract of every splice of two different texts, in a random order with evenly spread texts."""
    halves = [(*_halves(text.title.split()), *_halves(split_sentences(text.abstract))) for text in texts]
    random = np.random.default_rng(seed)
    order = random.permutation(len(texts))
    for shift in 1 + random.permutation(len(texts) - 1):
        for first, second in zip(order, np.roll(order, shift)):
            title, _, opening, _ = halves[first]
            _, rest_of_title, _, ending = halves[second]
            yield f"{title} {rest_of_title}".strip(), f"{opening} {ending}"


def _halves(parts: list[str]) -> tuple[str, str]:
    middle = (len(parts) + 1) // 2
    return " ".join(parts[:middle]), " ".join(parts[middle:])


def main(argv: list[str] | None = None) -> None:
    parser = commandline.parser("large_collection", __doc__.split("\n\n", 1)[1])
    parser.prog = "python -m experiments.large_collection"
    add = parser.add_argument
    add("--texts", nargs="+", required=True, metavar="CORPUS", help=f"real texts: {accepted(CORPUS)}")
    add("--needles", nargs="+", default=[], metavar="CORPUS", help="documents to include with their own ids")
    add("--documents", type=int, default=200_000, help="number of documents")
    add("--output", type=Path, required=True, help="BEIR folder to write (corpus.jsonl.gz)")
    add("--overwrite", action="store_true", help="replace an existing collection of this command")
    options = commandline.parse(parser, argv)
    parser.check_counts(options, "documents")
    check_free(options.output, COLLECTION, options.overwrite)
    needles = list(chain.from_iterable(map(documents, options.needles)))
    texts = real_texts(options.texts)
    if len(texts) < 2:
        raise InputError(f"{', '.join(options.texts)}: fewer than two texts of {LEAST_WORDS} words: name other corpora")
    generated = chain(
        ((needle.id, needle.title, needle.abstract) for needle in needles),
        ((f"text-{number}", text.title, text.abstract) for number, text in enumerate(texts)),
        ((f"splice-{number}", *parts) for number, parts in enumerate(spliced(texts, options.seed))),
    )
    with replacing_folder(options.output, COLLECTION, options.overwrite) as writing:
        description = {"texts": options.texts, "needles": options.needles, "seed": options.seed}
        (writing / COLLECTION.description).write_text(json.dumps(description), encoding="utf-8")
        with gzip.open(writing / "corpus.jsonl.gz", "wt", LEVEL, encoding="utf-8") as file:
            written = islice(generated, options.documents)
            for id, title, text in progress(written, "writing", "documents", total=options.documents):
                file.write(json.dumps({"_id": id, "title": title, "text": text}, ensure_ascii=False) + "\n")
    real = min(len(needles) + len(texts), options.documents)
    print(f"{options.output}: {options.documents:,} documents, {options.documents - real:,} of them spliced")


if __name__ == "__main__":
    commandline.run(main)
