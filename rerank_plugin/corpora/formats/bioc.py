"""BioC, passages of documents (https://bioc.sourceforge.net), as PubTator3, PMC and annotated corpora have them.

`document` reads one as JSON, which :mod:`jsonl` finds by its passages, and so in collections and PubTator3's answers;
a file of XML holds a collection. The id is the PMID, or else the document's own. Passages with the title and the
abstract are known by their type or section; without an abstract, the text is that of all others. The texts of
annotations are no part of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from rerank_plugin.base.extras import naming_extras
from rerank_plugin.base.records import Document
from rerank_plugin.corpora.metadata import whole_number
from rerank_plugin.corpora.problems import Problems
from rerank_plugin.corpora.records import Record
from rerank_plugin.corpora.register import CORPUS, XML_ROOT, Format, register

KINDS = ("section_type", "type", "section")  # infons that tell what a passage is, the most reliable first
REFERENCES = ("ref", "references")


def documents(paths: Iterable[Path], problems: Problems, ids_required: bool = True) -> Iterator[Document]:
    """Stream the documents of files in XML, in their order."""
    with naming_extras("reading BioC"):
        from rerank_plugin.corpora import xml_records
    return xml_records.documents(paths, problems, ids_required, "document", _of_xml)


def _of_xml(element: Any) -> Record:
    def infons(parent: Any) -> dict[str, str]:
        return {infon.get("key", ""): infon.text or "" for infon in parent.iterfind("infon")}

    passages = [
        {"infons": infons(passage), "text": " ".join(text.text or "" for text in passage.iter("text") if _own(text))}
        for passage in element.iterfind("passage")
    ]
    return document({"id": (element.findtext("id") or "").strip(), "infons": infons(element), "passages": passages})


def _own(text: Any) -> bool:
    """Whether a text is that of a passage or its sentences, rather than of an annotation."""
    return text.getparent().tag in ("passage", "sentence")


def document(record: Mapping[str, Any]) -> Record:
    """The record of a document, as JSON has it; a ValueError if its passages are no list of objects."""
    texts: dict[str, list[str]] = {"title": [], "abstract": [], "": []}
    infons: dict[str, Any] = {}
    passages = record["passages"]
    if not isinstance(passages, list) or not all(isinstance(passage, dict) for passage in passages):
        raise ValueError("passages: expected a list of objects")
    for passage in passages:
        of_passage = passage.get("infons")
        of_passage = of_passage if isinstance(of_passage, dict) else {}
        kind = next((str(of_passage[key]).lower() for key in KINDS if of_passage.get(key)), "")
        if kind not in REFERENCES and (text := _text(passage)):
            texts[kind if kind in texts else ""].append(text)
        infons = {**of_passage, **infons}  # those of the first passage, which has the title, are the article's
    if isinstance(of_document := record.get("infons"), dict):
        infons |= of_document
    pmid = whole_number(record.get("pmid") or infons.get("article-id_pmid"), of_pubmed=True)
    names = [str(name) for key, name in infons.items() if key.startswith("name_")]
    metadata = {
        **infons, **record, "pmid": pmid,
        "doi": record.get("doi") or infons.get("article-id_doi") or infons.get("doi"),
        "authors": record.get("authors") or infons.get("authors") or [*map(_author, names)],
    }  # fmt: skip
    id = pmid or whole_number(record.get("id") or record.get("_id"))
    if not texts["title"] and not texts["abstract"]:
        texts["title"], texts[""] = texts[""][:1], texts[""][1:]
    title, abstract = (" ".join(parts) for parts in (texts["title"], texts["abstract"] or texts[""]))
    return Record(id, title, abstract, metadata)


def _text(passage: Mapping[str, Any]) -> str:
    """The text of a passage, or of its sentences."""
    sentences = passage.get("sentences")
    parts = [passage, *(sentences if isinstance(sentences, list) else [])]
    texts = [part.get("text") for part in parts if isinstance(part, dict)]
    return " ".join(text for text in texts if isinstance(text, str)).strip()


def _author(name: str) -> str:
    """``Doe J`` of ``surname:Doe;given-names:Jane``, as PMC writes it."""
    parts = dict(part.split(":", 1) for part in name.split(";") if ":" in part)
    return f"{parts.get('surname', '')} {parts.get('given-names', '')[:1]}".strip() or name


register(Format("BioC", __name__, {CORPUS: "BioC XML and JSON"}, begins=XML_ROOT % "collection"))
