"""Notes on a query: lines that commands, the library and the service give beside a ranking.

The syntax of other search engines is read as plain words; a model knows few of the query's words, or reads only the
first of them; a first stage reads a misspelt word as another.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Sequence

from rerank_plugin.base.records import Query
from rerank_plugin.rerankers.scorer import MOST_TOLD, Scorer
from rerank_plugin.retrieval.register import FirstStage, lacking_words, meant_words

log = logging.getLogger(__name__)

SYNTAX = "AND, OR, NOT, quotes, wildcards and field tags are read as words"
LACKING = "{} few of the query's words, so the ranking means little; the models of this package read English"
MEANT = "no document has '{}': it is read as '{}'"
_VALUES = re.compile(r"'[^']*'|\d+")  # of a note: what differs between queries
# PubMed's tags after a term, and Lucene's fields before a term. Other brackets are part of names: benzo[a]pyrene.
_TAGS = (
    "1au|ab|abstract|ad|all fields|au|author|dp|journal|la|majr|mesh|mesh major topic|mesh terms|mh|nm|pdat|pmid|pt|"
    "publication type|rn|sh|ta|text word|ti|tiab|title|title/abstract|tw"
).replace(" ", "[ ]")
_FIELDS = "ab|abstract|au|author|contents|journal|mesh|mh|ti|tiab|title"
_READ_AS_WORDS = re.compile(
    rf"""
      (?:^|\s)(?-i:AND|OR|NOT)\s
    | "[^"]+" | “[^”]+”
    | \[\s*(?:{_TAGS})(?::[^\]]*)?\s*\]
    | \b\w{{3,}}\*(?=\s|\)|\[|$)
    """,
    re.VERBOSE | re.IGNORECASE,
)
# What is neither PubMed's language nor a plain word, and what to write instead.
_MISTAKES = {
    rf"(?i)(?:^|[\s(])((?:{_FIELDS}):)(?=\S)": "'{}' is read as a word: fields are tags, as in aspirin[ti]",
    r"\b(\w+[?]\w+)": "'?' is no wildcard in {}: only '*' at the end of a word is, as in thrombo*",
    r"(?:^|[\s(])(\*\w+)": "'*' is ignored in {}: it stands at the end of a word, as in thrombo*",
    rf"(?i)\w(\[(?!(?:{_TAGS})\b)[a-z/ ]{{2,30}}\])(?=\s|$)": "{} is no tag of PubMed's, and is read as words",
    r"\b(NEAR/\d{1,3})\b": "'{}' is read as words: words near each other are written \"two words\"[tiab:~3]",
    r'^[^"]*((?:(?<=\s)|^)"\w)[^"]*$': "the quote does not close, and is ignored",
}
MISTAKES = {re.compile(pattern): note for pattern, note in _MISTAKES.items()}


def notes_of(query: Query, first_stage: FirstStage | None, reranker: Scorer | None) -> list[str]:
    """The notes on a query for a first stage and a reranker; None for either skips it."""
    text = " ".join(query.text.split())  # patterns take long for much white space
    notes = [SYNTAX] if _READ_AS_WORDS.search(text) else []
    notes += [note.format(found[1]) for mistake, note in MISTAKES.items() if (found := mistake.search(text))]
    models = [] if first_stage is None else lacking_words(first_stage, query)
    models += [] if reranker is None else reranker.lacking_words(query)
    if names := " and ".join(dict.fromkeys(models)):
        notes.append(LACKING.format(f"{names} {'know' if ' and ' in names else 'knows'}"))
    if first_stage is not None:
        notes += [MEANT.format(word, other) for word, other in meant_words(first_stage, query).items()]
    if reranker is not None:
        notes += reranker.unread_words(query)
    return notes


class NotesLog:
    """Logs the notes on queries as warnings, once for each query.

    Several queries get one line for each kind of note, with the first of it.
    """

    def __init__(self) -> None:
        self._seen: set[str] = set()

    def log(self, queries: Sequence[Query], first_stage: FirstStage | None, reranker: Scorer | None) -> None:
        """Log the notes on queries of one search."""
        of_kind: dict[str, list[tuple[str, str]]] = {}  # text and note
        for query in queries:
            if query.text not in self._seen:
                if len(self._seen) >= MOST_TOLD:
                    self._seen.clear()
                self._seen.add(query.text)
                for note in notes_of(query, first_stage, reranker):
                    of_kind.setdefault(note if len(queries) == 1 else _VALUES.sub("", note), []).append(
                        (query.text, note)
                    )
        for noted in of_kind.values():
            text, note = noted[0]
            if len(queries) == 1:
                log.warning("'%.60s': %s", text, note)
            else:
                log.warning("%d of %d queries, as '%.60s': %s", len({*noted}), len(queries), text, note)
