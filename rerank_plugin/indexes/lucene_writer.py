"""Writes a Lucene index through Anserini."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rerank_plugin.base.errors import InputError
from rerank_plugin.base.filters import FILTERS, STORED_ONLY, folded
from rerank_plugin.base.records import Document
from rerank_plugin.java.jvm import java_class

RAM_BUFFER_MB = 256.0
FIELDS = ("title", "abstract", *FILTERS.values())  # beside id, contents and raw
SEPARATOR = "\n"  # between the values of a metadata field


class LuceneWriter:
    """Writes the Lucene index: fields title, abstract and contents, with positions and document vectors.

    Metadata that a filter is by are fields, too, whose terms are whole values, folded. A document is stored under
    ``raw`` as a JSON object with its id, contents, title, abstract and metadata.

    Attributes:
        metadata: number of documents that have each field of metadata.
    """

    def __init__(self, folder: Path, threads: int):
        self.folder, self.metadata = folder, Counter[str]()
        arguments = ["-index", str(folder), "-input", "", "-collection", "JsonCollection", "-threads", str(threads)]
        arguments += ["-storePositions", "-storeDocvectors", "-storeRaw", "-fields", *FIELDS]
        self.indexer = java_class("io.anserini.index.SimpleIndexer")(arguments)
        fields = java_class("org.apache.commons.lang3.reflect.FieldUtils")
        config = fields.readField(self.indexer, "writer", True).getConfig()
        # Anserini lets 2 GB of postings grow in memory before it writes them; its writer takes a smaller limit live.
        config.setRAMBufferSizeMB(RAM_BUFFER_MB)
        # Anserini analyzes all fields as English text.
        fields.writeField(config, "analyzer", _analyzer(config.getAnalyzer()), True)
        # Documents are made by Jackson from Anserini's own field names: so they hold what we write, and cost one call.
        self.document_array = java_class("java.lang.Class").forName("[Lio.anserini.collection.JsonCollection$Document;")
        self.mapper = java_class("com.fasterxml.jackson.databind.ObjectMapper")()
        self.mapper.setVisibility(
            java_class("com.fasterxml.jackson.annotation.PropertyAccessor").FIELD,
            java_class("com.fasterxml.jackson.annotation.JsonAutoDetect$Visibility").ANY,
        )

    def add(self, documents: Sequence[Document]) -> None:
        """Add documents, in one call to Java."""
        texts = json.dumps([self._fields(one) for one in documents], ensure_ascii=False)
        with self._writing():
            added = self.indexer.addJsonDocuments(self.mapper.readValue(texts, self.document_array))
        if added != len(documents):
            raise InputError(
                f"Lucene took {added} of {len(documents)} documents between ids {documents[0].id} and "
                f"{documents[-1].id}; its own messages in the log say more"
            )

    def _fields(self, document: Document) -> dict[str, Any]:
        """What Anserini makes a Lucene document of: its ``fields`` are indexed beside the contents."""
        id, title, abstract, metadata = document
        contents, fields = f"{title} {abstract}", {"title": title, "abstract": abstract}
        raw = json.dumps({"id": id, "contents": contents, **fields, **(metadata or {})}, ensure_ascii=False)
        for name, value in (metadata or {}).items():
            if name in STORED_ONLY:
                continue
            self.metadata[name] += 1
            fields[name] = SEPARATOR.join(map(folded, _terms(value)))
        return {"id": id, "contents": contents, "raw": raw, "fields": fields}

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


def _terms(value: Any) -> list[str]:
    """The terms of a metadata value."""
    if isinstance(value, bool):
        return ["yes" if value else "no"]
    return [value] if isinstance(value, str) else value


def _analyzer(of_texts: Any) -> Any:
    """An analyzer that takes the values of metadata fields as terms, and leaves the other fields to another one."""
    builder = java_class("org.apache.lucene.analysis.custom.CustomAnalyzer").builder()
    of_values = builder.withTokenizer("pattern", "pattern", SEPARATOR).build()
    fields = java_class("java.util.HashMap")()
    for name in FILTERS.values():
        fields.put(name, of_values)
    return java_class("org.apache.lucene.analysis.miscellaneous.PerFieldAnalyzerWrapper")(of_texts, fields)
