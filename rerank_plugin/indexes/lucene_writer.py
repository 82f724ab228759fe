"""Writes a Lucene index through Anserini, and reads the order of its documents."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from rerank_plugin.files.errors import InputError
from rerank_plugin.files.java import java_class

RAM_BUFFER_MB = 256.0
GENERATION_KEY = "rerank-plugin-generation"
_ID_PAGE = 50_000


class LuceneWriter:
    """Writes the Lucene index: fields title, abstract and contents, with positions and document vectors.

    Lucene's commit holds ``generation``, the unique id of this build.
    """

    def __init__(self, folder: Path, threads: int, generation: str):
        self.folder = folder
        arguments = ["-input", "", "-collection", "JsonCollection", "-threads", str(threads), "-index", str(folder)]
        arguments += ["-storePositions", "-storeDocvectors", "-storeRaw", "-fields", "title", "abstract"]
        self.indexer = java_class("io.anserini.index.SimpleIndexer")(arguments)
        # Anserini lets 2 GB of postings grow in memory before it writes them; its writer takes a smaller limit live.
        writer = java_class("org.apache.commons.lang3.reflect.FieldUtils").readField(self.indexer, "writer", True)
        writer.getConfig().setRAMBufferSizeMB(RAM_BUFFER_MB)
        # In every commit, so that a reader can tell that it opened the same build as the forward index.
        data = java_class("java.util.HashMap")()
        data.put(GENERATION_KEY, generation)
        writer.setLiveCommitData(data.entrySet())

    def add(self, ids: Sequence[str], titles: Sequence[str], abstracts: Sequence[str]) -> None:
        """Add documents, in one call to Java."""
        fields = [
            {"id": id, "contents": f"{title} {abstract}", "title": title, "abstract": abstract}
            for id, title, abstract in zip(ids, titles, abstracts)
        ]
        documents = [json.dumps(one, ensure_ascii=False) for one in fields]
        with self._writing():
            added = self.indexer.addRawDocuments(documents)
        if added != len(documents):
            raise InputError(
                f"Lucene took {added} of {len(documents)} documents between ids {ids[0]} and {ids[-1]}; "
                "its own messages in the log say more"
            )

    def close(self) -> None:
        with self._writing():
            self.indexer.close()

    @contextmanager
    def _writing(self) -> Iterator[None]:
        from jnius import JavaException

        try:
            yield
        except JavaException as error:
            said = str(error).splitlines()[0]
            raise InputError(f"{self.folder}: Lucene cannot write its index ({said:.200})") from None


def lucene_ids(folder: Path) -> Iterator[list[str]]:
    """External ids in the order of Lucene's document numbers, in large pages."""
    reader = open_reader(folder)
    searcher = java_class("org.apache.lucene.search.IndexSearcher")(reader)
    everything = java_class("org.apache.lucene.search.MatchAllDocsQuery")()
    score_doc = java_class("org.apache.lucene.search.ScoreDoc")
    scored_docs = java_class("io.anserini.search.ScoredDocs")
    try:
        page, done = searcher.search(everything, _ID_PAGE), 0
        while done < reader.maxDoc():
            ids = scored_docs.fromTopDocs(page, searcher).docids
            yield ids
            done += len(ids)
            # All documents score 1.0, so Lucene pages them by number.
            page = searcher.searchAfter(score_doc(done - 1, 1.0), everything, _ID_PAGE)
    finally:
        reader.close()


def open_reader(folder: Path):
    """An IndexReader of a Lucene index; starts the JVM."""
    directory = java_class("org.apache.lucene.store.FSDirectory").open(
        java_class("java.nio.file.Paths").get(str(folder.absolute()))  # Java stays where it was started
    )
    reader = java_class("org.apache.lucene.index.DirectoryReader").open(directory)
    from jnius import cast

    return cast("org.apache.lucene.index.IndexReader", reader)  # the declared type picks the right constructors
