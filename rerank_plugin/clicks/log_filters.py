"""Filters for logged queries as in the papers ([D18] 4.1, [D17] 3.1), by the queries' texts and counts.

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

import re
from collections.abc import Callable, Collection
from typing import NamedTuple

from rerank_plugin.clicks.logs import LoggedQuery
from rerank_plugin.text.tokenizer import tokenize

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
