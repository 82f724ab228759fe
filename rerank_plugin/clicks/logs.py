"""Reads click logs, and filters their queries as in the papers ([D18] 4.1, [D17] 3.1 and appendix A).

A log is a tab-separated file, also .gz, with a header that names its columns, in any order:

    query             the text of the query as the user entered it
    document          the document's id
    impressions       how often the document was shown for the query
    summary_clicks    clicks to its summary page (title and abstract)
    full_text_clicks  clicks from there to its full text
    full_text         1 if its full text is available, else 0
    query_id          optional: an id of the query

A line holds the counts of a period, such as a day; the counts of lines with the same query and document are summed.
Other columns are ignored. The papers leave these choices open:

* The full text of a document is available if any line of the document has 1.
* Without query ids, queries are equal if their texts differ only in white space and, after the filters, which depend on
  capitals, in letter case (`merged`). Their ids are derived from the text, so a query has the same id in any log.
* A document is clicked if it has a click of either kind. Impressions are summed, but no formula uses them: a query's
  documents are the documents of its lines.

The papers keep simple text searches of up to seven words, with at least 21 documents and at least 3 clicked documents;
no boolean expressions, no queries with document fields, no author searches. They do not say how they detected these.
Here:

* **boolean**: AND, OR or NOT in capitals as a separate word, as PubMed parses operators. "cats and dogs" is text;
  "ASTHMA AND COPD" is boolean, as it is to PubMed.
* **field**: a field tag of PubMed in square brackets, with or without a modifier: asthma[ti], smith j[au],
  Humans[MeSH Terms:noexp], 2010:2015[dp]. Other brackets, as in [18F]FDG, are text.
* **author**: only names in PubMed's form, a capitalized surname and one or two capital initials ("Smith JA", "van der
  Berg P, Smith JA"); or such a name with two initials anywhere ("Smith JA asthma"). Medical words that a letter often
  follows (vitamin D, hepatitis B) and words before abbreviations (brain CT) are not names.

Quotes, parentheses and asterisks are accepted. Known limits: names in lower case ("smith ja" reads like "breast ca"),
full names ("Jane Smith"), surnames alone, and initials that are also an abbreviation ("Smith MS") are not detected; the
two lists below are short.
"""

from __future__ import annotations

import hashlib
import re
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping
from itertools import chain
from pathlib import Path
from typing import NamedTuple

from rerank_plugin.base.errors import InputError
from rerank_plugin.corpora.columns import rows
from rerank_plugin.text.tokenizer import tokenize

COUNTS = ("impressions", "summary_clicks", "full_text_clicks")
COLUMNS = ("query", "document", *COUNTS, "full_text")
OPTIONAL = "query_id"
LONGEST = 12  # digits of a count


class Counts(NamedTuple):
    """The counts of a document for a query."""

    impressions: int
    summary_clicks: int
    full_text_clicks: int

    @property
    def clicked(self) -> bool:
        return self.summary_clicks + self.full_text_clicks > 0


class LoggedQuery(NamedTuple):
    """A query's text, with single spaces, and its documents."""

    text: str
    documents: dict[str, Counts]


class ClickLog(NamedTuple):
    """The summed counts of a log."""

    queries: dict[str, LoggedQuery]  # by id
    full_text: set[str]  # ids of the documents with an available full text
    ids_given: bool  # whether the log has query ids; otherwise they are the `derived_id` of the text


def derived_id(text: str) -> str:
    """A query's id derived from its text: a 64-bit hash, so collisions are unlikely among a billion queries."""
    return "q" + hashlib.sha256(text.encode()).hexdigest()[:16]


def read(*paths: Path, progress: Callable[[Iterable], Iterable] = iter) -> ClickLog:
    """Read the files of a log; ``progress`` wraps the lines. An invalid line is an InputError that names it."""
    queries: dict[str, LoggedQuery] = {}
    available: set[str] = set()
    documents: dict[str, str] = {}  # each id once, shared by all queries
    by_name: dict[str, tuple[str, LoggedQuery]] = {}  # by id or by the text as written, so each text is parsed once
    ids_given = False
    for where, values in progress(chain.from_iterable(rows(path, COLUMNS, (OPTIONAL,)) for path in paths)):
        text, document, impressions, summary, full_text_clicks, full_text, *id = values
        if queries and bool(id) != ids_given:
            raise InputError(f"{where}: some files of the log have {OPTIONAL} and others not: convert them separately")
        ids_given = bool(id)
        name = id[0] if id else text
        if name not in by_name:
            normalized = " ".join(text.split())
            if not normalized:
                raise InputError(f"{where}: the query is empty: remove the line")
            key = _id(OPTIONAL, name, where) if id else derived_id(normalized)
            by_name[name] = text, queries.setdefault(key, LoggedQuery(normalized, {}))
        written, query = by_name[name]
        if written != text and query.text != " ".join(text.split()):
            raise InputError(
                f"{where}: the query id {name} belongs to {query.text!r} and here to {text!r}: give each its own id"
            )
        doc_id = documents.get(document) or documents.setdefault(document, _id("document", document, where))
        counts = _counts((impressions, summary, full_text_clicks), full_text, where)
        query.documents[doc_id] = _sum(query.documents.get(doc_id), counts)
        if full_text == "1":
            available.add(doc_id)
    if not queries:
        raise InputError(f"{', '.join(map(str, paths))}: holds no clicks: expected lines below the header")
    return ClickLog(queries, available, ids_given)


def merged(queries: Mapping[str, LoggedQuery]) -> dict[str, LoggedQuery]:
    """Merge queries whose texts differ in letter case only; the ids are derived from the case-folded text.

    The text is the spelling with the most clicks; ties are broken alphabetically.
    """
    spellings: dict[str, list[LoggedQuery]] = defaultdict(list)
    for query in queries.values():
        spellings[query.text.casefold()].append(query)
    result = {}
    for text, variants in spellings.items():
        documents: dict[str, Counts] = {}
        for query in variants:
            for document, counts in query.documents.items():
                documents[document] = _sum(documents.get(document), counts)
        best = min(variants, key=lambda query: (-_clicks(query), query.text))
        result[derived_id(text)] = LoggedQuery(best.text, documents)
    return result


def _clicks(query: LoggedQuery) -> int:
    return sum(counts.summary_clicks + counts.full_text_clicks for counts in query.documents.values())


def _sum(first: Counts | None, second: Counts) -> Counts:
    return second if first is None else Counts(*map(sum, zip(first, second)))


def _counts(texts: tuple[str, str, str], full_text: str, where: str) -> Counts:
    for name, text in zip(COUNTS, texts):
        if not (text.isascii() and text.isdigit() and len(text) <= LONGEST):
            raise InputError(f"{where}: {name} is {text!r:.50}: expected a whole number from 0 to {10**LONGEST - 1:,}")
    counts = Counts(*map(int, texts))
    if full_text not in ("0", "1"):
        raise InputError(f"{where}: full_text is {full_text!r}: expected 0 or 1")
    if counts.full_text_clicks and full_text == "0":
        raise InputError(f"{where}: full_text_clicks is {counts.full_text_clicks} but full_text is 0: correct one")
    return counts


def _id(name: str, text: str, where: str) -> str:
    if text.split() != [text]:
        raise InputError(f"{where}: {name} is {text!r}: expected an id without white space")
    return text


# Tags of PubMed's search fields, abbreviated and in full, and of the filters that it adds to queries.
FIELD_TAGS = frozenset(
    "ad|affiliation|aid|article identifier|all|all fields|au|author|auid|author - identifier|cn|corporate author|"
    "cois|conflict of interest statements|crdt|date - create|dcom|date - completion|dp|date - publication|"
    "publication date|pdat|edat|date - entry|entrez date|ecno|ec/rn number|rn|ed|editor|filter|fau|full author name|"
    "1au|author - first|first author name|lastau|author - last|last author name|fir|full investigator name|gr|"
    "grant number|grants and funding|ip|issue|ir|investigator|isbn|jid|nlm unique id|la|language|lid|location id|"
    "lr|date - modification|majr|mesh major topic|mh|mesh|mesh terms|mhda|mesh date|date - mesh|nm|"
    "supplementary concept|ot|other term|pa|pharmacological action|pg|pagination|pid|pl|place of publication|pmid|uid|"
    "ps|subject - personal name|personal name as subject|pt|publication type|pubn|publisher|sb|subset|sh|"
    "mesh subheading|subheading|si|secondary source id|so|ta|journal|jour|ti|title|tiab|title/abstract|tt|"
    "transliterated title|tw|text word|text words|vi|volume".split("|")
)

BEFORE_LETTERS = frozenset(  # words before a capital letter that is not an initial
    "allele amphotericin antigen apolipoprotein bisphenol botulinum cathepsin chromosome class coenzyme complement "
    "concanavalin coxsackie cyclin cyclosporin cytochrome endothelin factor fetuin gene group haemoglobin haemophilia "
    "hemoglobin hemophilia hepatitis histone immunoglobulin influenza interleukin kinase lamin level lipoprotein "
    "method mitomycin mutation ochratoxin phase polymyxin protein provitamin receptor rifamycin stage strain "
    "streptococcus subtype the toxin trial troponin type variant vitamin vitamins".split()
)
ABBREVIATIONS = frozenset(
    "AD AF AI CA CF CI CK CT DA DD DM DR ER EU GG GI GP HF HR HT II IL IQ IV IX MD MI "
    "MR MS NK NT OA OK OR PD PE PK PT QT RA RF RT SI TB TG UK UN US UV VI VT XI XX XY".split()
)

_OPERATOR = re.compile(r"(?<![^\s()\"])(?:AND|OR|NOT)(?![^\s()\"])")
_BRACKETS = re.compile(r"\[([^\[\]]+)\]")
_PARTICLES = frozenset("al da de del della den der di dos du el la le ten ter van von zu".split())


class LogFilter(NamedTuple):
    """Filters out the queries for which ``removes`` is true; ``reason`` is for messages."""

    reason: str
    removes: Callable[[LoggedQuery], bool]


def filters(
    max_words: int, min_documents: int, min_clicked: int, keep: Collection[str] = ()
) -> tuple[list[LogFilter], list[LogFilter]]:
    """The filters of texts without those named in ``keep``, and the filters of counts, in order of application."""
    syntax = {
        "boolean": LogFilter("boolean expressions (AND, OR, NOT)", lambda query: is_boolean(query.text)),
        "field": LogFilter("queries with field tags", lambda query: has_field(query.text)),
        "author": LogFilter("author searches", lambda query: is_author_search(query.text)),
    }
    words = LogFilter(f"not 1 to {max_words} words", lambda query: not 1 <= len(tokenize(query.text)) <= max_words)
    counts = [
        LogFilter(f"fewer than {min_documents} documents", lambda query: len(query.documents) < min_documents),
        LogFilter(f"fewer than {min_clicked} clicked documents", lambda query: _clicked(query) < min_clicked),
    ]
    return [filter for name, filter in syntax.items() if name not in keep] + [words], counts


def is_boolean(text: str) -> bool:
    """Whether the query has a boolean operator of PubMed.

    >>> is_boolean("asthma AND (child OR infant)"), is_boolean("black and white"), is_boolean("ORAL contraceptives")
    (True, False, False)
    """
    return _OPERATOR.search(text) is not None


def has_field(text: str) -> bool:
    """Whether the query has a field tag of PubMed.

    >>> has_field("smith j[au]"), has_field("Humans[MeSH Terms:noexp]"), has_field("[18F]FDG positron emission")
    (True, True, False)
    """
    tags = (re.split("[:~]", inside)[0] for inside in _BRACKETS.findall(text))
    return any(" ".join(tag.casefold().split()) in FIELD_TAGS for tag in tags)


def is_author_search(text: str) -> bool:
    """Whether the query is an author search, by the rules in the module's docstring.

    >>> is_author_search("Smith JA asthma"), is_author_search("Smith J"), is_author_search("Vitamin D")
    (True, True, False)
    """
    words = [word.strip('".()').replace(".", "") for word in re.split(r"[\s,;]+", text)]
    words = [word for word in words if word]
    initials = [i + 1 for i, pair in enumerate(zip(words, words[1:])) if _is_name(*pair)]
    if any(len(words[i]) == 2 for i in initials):
        return True
    in_names = {*initials, *(i - 1 for i in initials)}
    others = [word for i, word in enumerate(words) if i not in in_names]
    return bool(initials) and all(word.casefold() in _PARTICLES for word in others)


def _is_name(surname: str, initials: str) -> bool:
    letters = re.sub("[-'’]", "", surname)
    capitalized = letters.isalpha() and letters[0].isupper() and len(letters) > 1 and letters[-1].islower()
    if not capitalized or not (len(initials) <= 2 and initials.isalpha() and initials.isupper()):
        return False
    return surname.casefold() not in BEFORE_LETTERS and initials not in ABBREVIATIONS


def _clicked(query: LoggedQuery) -> int:
    return sum(counts.clicked for counts in query.documents.values())
