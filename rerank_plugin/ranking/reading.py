"""What a typed text means: plain words to rank by, or a strategy in PubMed's language, an id, an author or a journal.

A strategy becomes part of the query's filter, as every other filter, and its words rank the documents that match.
Citations are found as papers and PubMed write them, ``N Engl J Med. 2019;380(11):1011-20``; authors and journals as by
PubMed's automatic term mapping, and only where the index has the name as an entire value, in more documents than have
it in their texts.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from typing import Literal

from rerank_plugin.base.errors import InputError, unknown
from rerank_plugin.base.filters import Filter, folded
from rerank_plugin.base.records import Query
from rerank_plugin.base.strategy import (
    ALL,
    AND,
    EVERYTHING,
    OR,
    WORDS,
    Dates,
    Group,
    Strategy,
    Term,
    positive_terms,
    ranking_words,
)
from rerank_plugin.concepts.headings import Headings
from rerank_plugin.indexes.index_folder import Index
from rerank_plugin.indexes.strategy_query import StrategyQueries
from rerank_plugin.java.jvm import java_class
from rerank_plugin.ranking.pipeline import MOST_RANKED, Reading
from rerank_plugin.ranking.suggestions import suggest
from rerank_plugin.strategies.syntax import MOST_CLAUSES, MOST_OF_NAME, Reader, is_strategy
from rerank_plugin.strategies.tags import TAGS
from rerank_plugin.text.spelling import SPACED_NAME, spellings

PLAIN: Literal["plain"] = "plain"
PUBMED: Literal["pubmed"] = "pubmed"
SYNTAXES = (PLAIN, PUBMED)
MOST_IDS = 1000
MOST_COMPLETED = 50  # truncated words of a strategy that rank in their commonest form
FEW = 2  # documents: rare words may be misspelled
_PREFIX = re.compile(r"\s*(?:pmid|pubmed id|https?://pubmed\.ncbi\.nlm\.nih\.gov/)[:\s]*(?=\d)", re.IGNORECASE)
_DOI = re.compile(r"\s*(?:doi:\s*|https?://(?:dx\.)?doi\.org/)?(10\.\d{4,9}/\S+?)\s*", re.IGNORECASE)
_BEFORE_DOI = re.compile(r"(?<![:\s])\s+(?=doi:|https?:|10\.\d)", re.IGNORECASE)
_PMC = re.compile(r"\s*(PMC\d{1,9})\s*", re.IGNORECASE)
NAMED_TAGS = ("ti", "ab", "tiab", "au", "1au", "ta", "mh", "pt", "la")  # of AUTHOR: and the like
_WORD = re.compile(r"\s*(?=[\w/+-]*[^\W\d_])[\w/+'’-]+\s*")
_WORDS = re.compile(r"[^\s()\[\]\"*?:;,]+")  # and a letter or digit is in it
_ET_AL = re.compile(r"\bet al\b\.?,?")
_FIELD = re.compile(r"\s*(\w{2,8}):\s*([^:\[\]\"()]{1,200}?)\s*")  # author:Muller K


def read(
    index: Index,
    query: Query,
    syntax: str = PUBMED,
    rank_by: str | None = None,
    newest_first: bool = False,
    term_mapping: bool = True,
) -> Reading:
    """Read the text of a query.

    Without words, a filter alone decides the set.

    Args:
        syntax: ``plain`` for words only, ``pubmed`` for strategies, too.
        rank_by: the text that ranks a strategy's set, instead of its own words.
        newest_first: whether dates are to sort the set, for which plain words are all required.
        term_mapping: whether words of a strategy that name a heading also find it and those below it, where the index
            has MeSH, and whether an author or a journal of the index among words is taken for one.

    Raises:
        InputError: an unknown syntax, or a malformed strategy, of which the message names the place and the cure.
    """
    if syntax not in SYNTAXES:
        raise InputError(unknown("query syntax", syntax, SYNTAXES))
    text = query.text.encode(errors="replace").decode()  # a terminal may pass half a character
    names = KnownNames(index)
    reader = Reader(Headings.of(index.knowledge), names, term_mapping)
    strategy: Strategy | None = None
    if query.filter is not None and not text.strip():
        strategy = EVERYTHING
    elif syntax == PUBMED:
        strategy = _strategy(index, text, reader, names)
    if strategy is None and newest_first:
        strategy = _all_words(index, query, text)
        if strategy is None:
            reader.notes.append("no document has all words of the query: the most relevant ones are sorted by date")
    if strategy is None:
        if rank_by is not None:
            raise InputError(
                "a text to rank by is for a strategy in PubMed's language, as cats AND dogs; plain words rank by "
                "themselves"
            )
        unknown_words, meant = suggest(index, text, text)
        return Reading(query, notes=(*reader.notes, *unknown_words), did_you_mean=meant)
    filter = replace(query.filter or Filter(()), strategy=strategy)
    matches = index.matches(filter)
    words = "" if newest_first else rank_by
    if words is None:
        words = ranking_words(strategy, _completed(index))
    texts = " ".join(term.text for term in positive_terms(strategy) if term.field in WORDS and not term.truncated)
    unknown_words, meant = suggest(index, text, texts, matches.total <= FEW)
    notes = [*reader.notes, *unknown_words, *matches.notes]
    if matches.total > MOST_RANKED:
        ranked = "the newest" if newest_first else "the best"
        notes.append(f"{matches.total:,} documents match: {ranked} {MOST_RANKED:,} of them are listed")
    ranked_query = query._replace(text=words, filter=filter)
    return Reading(ranked_query, str(strategy), matches.total, tuple(notes), _marked(strategy), meant)


def _strategy(index: Index, text: str, reader: Reader, names: KnownNames) -> Strategy | None:
    """The strategy that a text is; None for plain words."""
    if is_strategy(text):
        return reader.read(text)
    text = " ".join(text.split())  # patterns take long for much white space
    if ids := _ids(index, text, reader):
        return ids
    dois = [_DOI.fullmatch(part) for part in _BEFORE_DOI.split(text.strip())]
    if all(dois) and len(dois) <= MOST_IDS:
        terms = tuple(Term(match[1].rstrip(".,;"), "doi") for match in dois if match)
        return terms[0] if len(terms) == 1 else Group(OR, terms)
    if match := _PMC.fullmatch(text):
        return Term(match[1], "pmc")
    if citation := cited(text, names.count):
        return citation
    if (pair := reader.pair(text)) and names.count(pair):
        return pair
    if match := _FIELD.fullmatch(text):
        term = Term(match[2], TAGS.get(match[1].lower(), ALL))
        return term if term.field in NAMED_TAGS and names.count(term) else None
    stripped = text.replace(" ", "-") if SPACED_NAME.fullmatch(text) else text
    if _WORD.fullmatch(stripped):
        word = Term(stripped, ALL)
        found = names.count(word)
        value = None if found and stripped.islower() else names.best([Term(stripped, "au"), Term(stripped, "ta")], word)
        return value or (word if found else None)
    return names.value(text) or _named(index, text, reader, names)


def _named(index: Index, text: str, reader: Reader, names: KnownNames) -> Strategy | None:
    """Words with an author or a journal among them, all required; None if no document has all, or there is no name."""
    text = _ET_AL.sub(" ", text)
    if not reader.term_mapping or not names.may_be_in(text):
        return None
    before = list(reader.notes)
    with suppress(InputError):
        strategy = reader.read(text)
        if names.found and names.count(strategy):
            return strategy
    reader.notes[:] = before
    if names.found:
        found = " and ".join(dict.fromkeys(map(str, names.found)))
        reader.notes.append(f"no document of {found} has all other words, too: all are read as words")
    return None


def _completed(index: Index) -> Callable[[Term], str]:
    """The texts of terms, truncated ones in their commonest form: models and stemmers do not know the beginnings."""
    left = MOST_COMPLETED

    def completed(term: Term) -> str:
        nonlocal left
        if not term.truncated or not left:
            return term.text
        left -= 1
        with suppress(InputError):  # of a cluster
            return StrategyQueries(index.shared_reader, index.description["lucene"]).commonest(term)
        return term.text

    return completed


def _marked(strategy: Strategy) -> str:
    """The words that match, for marks in texts: in all spellings, and truncated ones with an asterisk."""
    terms = [term for term in positive_terms(strategy) if term.field in WORDS]
    return " ".join(
        f"{term.text}*" if term.truncated else " ".join(spellings(term.text)) if term.field == ALL else term.text
        for term in terms
    )


def _all_words(index: Index, query: Query, text: str) -> Strategy | None:
    """The strategy of documents with all words of a text; None if no document has them."""
    words = [word for word in dict.fromkeys(_WORDS.findall(text)) if re.search(r"\w", word)]
    strategy = Group(AND, tuple(Term(word) for word in words))
    if not 0 < len(words) <= MOST_CLAUSES:
        return None
    return strategy if index.count(replace(query.filter or Filter(()), strategy=strategy)) else None


def _ids(index: Index, text: str, reader: Reader) -> Strategy | None:
    """The documents of a text of ids only, of which the index has one or more; those that it lacks get a note."""
    ids = re.split(r"[\s,;]+", _PREFIX.sub("", text, count=1).strip(" \t\n/,;"))
    if len(ids) > MOST_IDS or not all(any(map(str.isdigit, id)) for id in ids):
        return None
    known = index.forward.rows(ids) >= 0
    if not known.any() or not (known.all() or all(id.isdecimal() for id in ids)):
        return None
    if lacking := [id for id, has in zip(ids, known) if not has]:
        reader.notes.append(f"the index has no document {', '.join(lacking[:10])}{' ...' if lacking[10:] else ''}")
    terms = tuple(Term(id, "pmid") for id, has in zip(ids, known) if has)
    return terms[0] if len(terms) == 1 else Group(OR, terms)


LONGEST_CITATION = 2000  # characters
_PLACE = re.compile(
    r"\W\s*(?P<year>(?:19|20)\d\d)\b[^;:]{0,20}[;,]\s*(?P<volume>\w{1,9})\s*"
    r"(?:\([\w./ -]{1,20}\))?\s*[:,]\s*(?:pp?\.\s*)?(?P<page>[A-Za-z]{0,2}\d(?:[\d.]{0,12}\d)?)",
    re.ASCII,
)
_SHORT = re.compile(
    r"\s(?P<year>(?:19|20)\d\d)\s+(?P<volume>\d{1,4})\s+(?P<page>\d{1,6})$"
    r"|\s(?P<volume_alone>\d{1,4})\s*(?:\(\d{1,4}\))?:\s*(?P<page_alone>[A-Za-z]{0,2}\d{1,6})(?:[-–]\d{1,6})?$",
    re.ASCII,
)  # Lancet 2016 387 1531, Lancet 387:1531
_IDS = (("pmid", re.compile(r"\bPMID:\s*(\d{1,9})\b")), ("doi", re.compile(r"\b(10\.\d{4,9}/\S+?)[.,;]?(?=\s|$)")))


def cited(text: str, count: Callable[[Strategy], int]) -> Strategy | None:
    """What finds the document that a citation names: its PMID, its DOI, or journal, year, volume and page.

    None for other texts, and where no document matches by ``count``.
    """
    place = _PLACE.search(text) or _SHORT.search(text) if len(text) <= LONGEST_CITATION else None
    if place is None:
        return None
    return next((strategy for strategy in _strategies(text, place) if count(strategy)), None)


def _strategies(text: str, place: re.Match[str]) -> Iterator[Strategy]:
    for field, pattern in _IDS:
        if match := pattern.search(text, place.end()):
            yield Term(match[1], field)
    before = text[: place.start()].strip(" .,;:(")
    of = {name.removesuffix("_alone"): value for name, value in place.groupdict().items() if value}
    within: list[Strategy] = [Term(of["volume"], "vi"), Term(of["page"], "pg")]
    if "year" in of:
        within.insert(0, Dates("dp", of["year"], of["year"]))
    for start in dict.fromkeys((*(end.end() for end in re.finditer(r"[.?!,;] +", before)), 0)):  # of the journal
        if journal := before[start:].strip():
            yield Group(AND, (Term(journal, "ta"), *within))


_SMALL = "of|the|and|de|for|in|on|&"
_CAPITAL = r"[^\W\d_a-zß-ÿ][\w'’.&-]*"
# A last name of up to four words, and initials; or names that all begin with a capital letter.
_AUTHOR = re.compile(r"\s*(?:[^\W\d_][\w'’.-]*,? ){1,4}(?:[^\W\d_]\.? ?){1,3}\s*")
_CAPITALS = re.compile(rf"\s*(?:{_CAPITAL},?|{_SMALL})(?: (?:{_CAPITAL},?|{_SMALL}))+\s*")
_JOURNAL = re.compile(r"\s*(?:the\s|.*\b(?:journal|annals|archives|acta|proceedings)\b).{1,200}", re.IGNORECASE)
_INITIALS = re.compile(r"[^\W\d_a-zß-ÿ]{1,3}")
_PARTICLE = "van|von|der|den|de|del|della|da|di|dos|du|el|la|le|ten|ter"
_LAST_NAME = re.compile(rf"(?:(?:{_PARTICLE}|{_CAPITAL}) ){{0,3}}{_CAPITAL}")
# In small letters, unless they are common words.
_SMALL_WORDS = "am an as at be by do go he if in is it me my no of on or so to up us vs we a i"
_NOT_NAMES = "all and are but can did does for from has have how not should than that the was what when who with"
_SMALL_INITIALS = rf"(?!(?:{_SMALL_WORDS.replace(' ', '|')})(?!\w))[^\W\d_A-Z]{{1,2}}"
_SMALL_NAME = rf"(?!(?:{f'{_SMALL_WORDS} {_NOT_NAMES}'.replace(' ', '|')})(?!\w))[^\W\d_A-Z][^\W\d_A-Z'’-]+"
_SMALL_AUTHOR = re.compile(rf"(?<!\S)(?:(?:{_PARTICLE}) ){{0,3}}{_SMALL_NAME} {_SMALL_INITIALS}(?![\w-])")
_YEAR = re.compile(r"\(?(?:19|20)\d\d[).]?", re.ASCII)
_MAY_HOLD = re.compile(rf"(?<!\w){_CAPITAL},? [^\W\d_a-zß-ÿ]{{1,3}}(?![\w-])|(?<!\S){_YEAR.pattern}\s*$")
LONGEST_NAMED = 200  # characters of a text that is looked through


class KnownNames:
    """Finds the authors and journals of an index.

    Attributes:
        found: those that `longest` found, in their order.
    """

    def __init__(self, index: Index):
        self.index, self.found = index, list[Term]()

    def value(self, text: str) -> Term | None:
        """The author or journal that a text of several words is; None for words."""
        values = []
        if _AUTHOR.fullmatch(text) or _CAPITALS.fullmatch(text):
            values.append(Term(text, "au"))
        if _CAPITALS.fullmatch(text) or _JOURNAL.fullmatch(text):
            values.append(Term(text, "ta"))
        return self.best(values, Term(text, ALL, phrase=True))

    def best(self, values: list[Term], words: Term) -> Term | None:
        """The value of most documents; None if as many have the words, as of "Blood Pressure", or none has it."""
        counts = {value: self.count(value) for value in values}
        most = max(counts, key=lambda value: counts[value], default=None)
        return most if most is not None and counts[most] and counts[most] > self.count(words) else None

    def longest(self, words: list[str]) -> tuple[int, Term] | None:
        """The number of first words that are an author with initials, or are all but years and a name; None: none.

        A journal may also stand behind an author.
        """
        count = len(words)
        while count and _YEAR.fullmatch(words[count - 1]):
            count -= 1
        name = self.value(" ".join(words[:count])) if 1 < count <= MOST_OF_NAME else None
        if count == 1 < len(words) and _CAPITALS.fullmatch(f"{words[0]} A"):  # Lancet 2019
            name = self.best([Term(words[0], "ta")], Term(words[0]))
        if name is None and 0 < count <= MOST_OF_NAME and any(found.field == "au" for found in self.found):
            text = " ".join(words[:count])
            name = self.best([Term(text, "ta")], Term(text, ALL, phrase=True))
        if name is None:
            authors = (
                number
                for number in range(min(len(words), 5), 1, -1)
                if (_INITIALS.fullmatch(words[number - 1]) and _LAST_NAME.fullmatch(" ".join(words[: number - 1])))
                or _SMALL_AUTHOR.fullmatch(" ".join(words[:number]))
            )
            for count in authors:
                text = " ".join(words[:count])
                if name := self.best([Term(text, "au")], Term(text, ALL, phrase=True)):
                    break
        if name is None:
            return None
        self.found.append(name)
        return count, name

    def may_be_in(self, text: str) -> bool:
        """Whether plain words may have a name among them.

        Names in small letters are looked up, since many words look like them: vitamin d.
        """
        if len(text) > LONGEST_NAMED or may_hold_names(text):
            return len(text) <= LONGEST_NAMED
        authors = [folded(match[0]) for match in _SMALL_AUTHOR.finditer(text)]
        if not authors:
            return False
        with suppress(InputError):  # of a cluster
            reader, term = self.index.shared_reader, java_class("org.apache.lucene.index.Term")
            return any(reader.docFreq(term("author_names", author)) for author in authors)
        return True

    def count(self, strategy: Strategy) -> int:
        """The number of documents that match."""
        return self.index.count(Filter((), strategy=strategy))


def may_hold_names(text: str) -> bool:
    """Whether a text may name an author or a journal: a capitalized last name with initials, or a year at the end.

    >>> [may_hold_names(text) for text in ("Smith JA aspirin", "Lancet Oncol 2019", "aspirin for stroke", "Take it")]
    [True, True, False, False]
    """
    return _MAY_HOLD.search(text) is not None
