"""Where the words of a query are in a text, compared by Porter's stems as the index compares them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache, lru_cache

from rerank_plugin.text.tokenizer import NUMERIC_CLASSES, PieceMemo, tokenize_piece

REST = r"[^\W_]*(?:['’][^\W_]+)*"  # of a word, after its first character
WORD = re.compile(rf"[^\W_]{REST}")
# Those of Lucene's analyzer, which the index leaves out.
STOP_WORDS = frozenset(
    "a an and are as at be but by for if in into is it no not of on or such that the their then there these they this "
    "to was will with".split()
)


@cache
def _stems() -> PieceMemo:
    from gensim.parsing.porter import PorterStemmer  # takes half a second

    stem = PorterStemmer().stem

    def stems(word: str) -> tuple[str, ...]:
        # Numbers are themselves, as in the index that is searched, and not the classes of the tokenizer.
        return tuple(word if token in NUMERIC_CLASSES else stem(token) for token in tokenize_piece(word))

    return PieceMemo(stems)


def query_stems(query: str) -> frozenset[str]:
    """The stems of the words that a query searches for."""
    words = (word for word in WORD.findall(query) if word.lower() not in STOP_WORDS)
    return frozenset(stem for word in words for stem in _stems()[word])


def phrases(stems: frozenset[str], text: str) -> Iterator[tuple[int, int, int]]:
    """Matches that follow each other as one: start, end, and how many of the stems it has."""
    start, end, found = 0, -1, frozenset[str]()
    for next_start, next_end, more in matches(stems, text):
        if found and not WORD.search(text, end, next_start):
            end, found = next_end, found | more
            continue
        if found:
            yield start, end, len(found)
        start, end, found = next_start, next_end, more
    if found:
        yield start, end, len(found)


@lru_cache(256)
def _beginning_alike(stems: frozenset[str]) -> re.Pattern[str]:
    """Words that begin as one of the stems, or with what is no ASCII: few of all words, and all that can match."""
    initials = {form for stem in stems for form in (stem[0], stem[0].upper())}
    letters = "".join(re.escape(one) for one in sorted(initials) if one.isascii())
    # The set comes first, and what stands before it is looked at afterwards: so the search skips to its characters.
    return re.compile(rf"[{letters}\x80-\U0010ffff](?<=[^\W_])(?<![^\W_].)(?<![^\W_]['’].){REST}")


def matches(stems: frozenset[str], text: str) -> Iterator[tuple[int, int, frozenset[str]]]:
    """Start and end, in code points, of each word of a text that has some of the stems, and which it has."""
    memo = _stems()
    for word in _beginning_alike(stems).finditer(text):
        if found := stems.intersection(memo[word.group()]):
            yield *word.span(), found
