"""Keys of JSON objects by their use: those of ids, titles and texts of documents and queries in many exports."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

from rerank_plugin.corpora.metadata import KEYS, folded_key

ID_KEYS = ("_id", "id", "docid", "doc_id", "pmid")
TITLE_KEYS = ("title", "question")
TEXT_KEYS = ("text", "abstract", "body", "paragraphs", "answer", "content", "contents")
QUERY_ID_KEYS = ("_id", "id", "qid", "query_id")
QUERY_TEXT_KEYS = ("text", "query", "title")
# Further keys, without letter case and punctuation.
ALIASES = {
    ID_KEYS: "id docid docno documentid pmid pubmedid articleid paperid corduid corpusid pmcid doi",
    TITLE_KEYS: "title articletitle documenttitle papertitle question ti displayname",
    TEXT_KEYS: "text abstract abstracttext articleabstract abstractnote ab abstractinvertedindex indexedabstract "
    "summary body passage paragraphs contexts context tldr bodytext articlebody fulltext pdfjson pmcjson pdfparse "
    "answer longanswer content contents pagecontent",
    QUERY_ID_KEYS: "id qid queryid topicid questionid number",
    QUERY_TEXT_KEYS: "text query title body question",
}
NO_TEXT = frozenset(
    "metadata affiliation affiliations citation citations copyright country license publisher references "
    "source vernaculartitle".split()
)  # keys of values that are no text of a document

FORMATS = ("passages", "protocolSection")  # keys of objects of BioC and of ClinicalTrials.gov


class Keys(NamedTuple):
    """The keys of a record by what they hold, the preferred first."""

    id: list[str]
    title: list[str]
    text: list[str]
    unknown: list[str]
    format: str | None  # one of `FORMATS`, for a record without a text of its own


@lru_cache(maxsize=1024)
def keys_of(keys: tuple[str, ...]) -> Keys:
    """The keys of a record by their use."""
    ids, titles, texts = by_use = [present(keys, known) for known in (ID_KEYS, TITLE_KEYS, TEXT_KEYS)]
    others = NO_TEXT.union(*(names.split() for names in KEYS.values()))
    unknown = [key for key in keys if folded_key(key) not in others and not any(key in use for use in by_use)]
    format = next((key for key in FORMATS if key in keys and not texts), None)
    return Keys(ids, titles, texts, unknown, format)


@lru_cache(maxsize=1024)
def present(keys: tuple[str, ...], known: tuple[str, ...]) -> list[str]:
    """The keys of a record that are among ``known``, in that order, then those among their aliases."""
    exact = [key for key in known if key in keys]
    aliases = (key for alias in ALIASES[known].split() for key in keys if folded_key(key) == alias)
    return [*exact, *dict.fromkeys(key for key in aliases if key not in exact)]
