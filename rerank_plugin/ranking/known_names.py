"""Authors and journals of an index among the words of a query, as PubMed's automatic term mapping finds them.

A name is taken for one only where the index has it as an entire value, in more documents than have it in their texts.
"""

from __future__ import annotations

import re
from contextlib import suppress

from rerank_plugin.base.errors import InputError
from rerank_plugin.base.filters import Filter, folded
from rerank_plugin.base.strategy import ALL, Strategy, Term
from rerank_plugin.indexes.index_folder import Index
from rerank_plugin.java.jvm import java_class
from rerank_plugin.strategies.syntax import MOST_OF_NAME

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
_WORDS = "am an as at be by do go he if in is it me my no of on or so to up us vs we a i"
_NOT_NAMES = "all and are but can did does for from has have how not should than that the was what when who with"
_SMALL_INITIALS = rf"(?!(?:{_WORDS.replace(' ', '|')})(?!\w))[^\W\d_A-Z]{{1,2}}"
_SMALL_NAME = rf"(?!(?:{f'{_WORDS} {_NOT_NAMES}'.replace(' ', '|')})(?!\w))[^\W\d_A-Z][^\W\d_A-Z'’-]+"
_SMALL_AUTHOR = re.compile(rf"(?<!\S)(?:(?:{_PARTICLE}) ){{0,3}}{_SMALL_NAME} {_SMALL_INITIALS}(?![\w-])")
_YEAR = re.compile(r"\(?(?:19|20)\d\d[).]?", re.ASCII)
_MAY_HOLD = re.compile(rf"(?<!\w){_CAPITAL},? [^\W\d_a-zß-ÿ]{{1,3}}(?![\w-])|(?<!\S){_YEAR.pattern}\s*$")
LONGEST = 200  # characters of a text that is looked through


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
        if len(text) > LONGEST or may_hold_names(text):
            return len(text) <= LONGEST
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
    """Whether words have a last name with a capital letter and initials, or a year at their end.

    >>> [may_hold_names(text) for text in ("Smith JA aspirin", "Lancet Oncol 2019", "aspirin for stroke", "Take it")]
    [True, True, False, False]
    """
    return _MAY_HOLD.search(text) is not None
