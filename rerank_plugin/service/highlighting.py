"""Matches of query words in a text, by Porter stems as in the index."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache, lru_cache

from rerank_plugin.text.normalization import IGNORED
from rerank_plugin.text.tokenizer import NUMERIC_CLASSES, PieceCache, tokenize_piece

INNER = f"['’\u0300-\u036f{IGNORED}]"  # in words, between letters or digits
REST = rf"[^\W_]*(?:{INNER}[^\W_]+)*"  # the characters of a word after its first
WORD = re.compile(rf"[^\W_]{REST}")
TRUNCATED = re.compile(r"(?<![^\W_])[^\W_]{2,}\*(?!\S)")  # from the beginning of a word: the time is linear
# The stop words of Lucene's English analyzer, which the index does not have.
STOP_WORDS = frozenset(
    "a an and are as at be but by for if in into is it no not of on or such that the their then there these they this "
    "to was will with".split()
)


@cache
def _stems() -> PieceCache:
    from gensim.parsing.porter import PorterStemmer  # imports in half a second

    stem = PorterStemmer().stem

    def stems(word: str) -> tuple[str, ...]:
        # Numbers stay as they are, as in the searched index: the tokenizer maps them to classes.
        return tuple(word if token in NUMERIC_CLASSES else stem(token) for token in tokenize_piece(word))

    return PieceCache(stems)


def query_stems(query: str) -> frozenset[str]:
    """The stems of the query's words, without stop words; of a truncated word its beginning with an asterisk."""
    beginnings = [word.lower() for word in TRUNCATED.findall(query)]
    words = (word for word in WORD.findall(TRUNCATED.sub(" ", query)) if word.lower() not in STOP_WORDS)
    return frozenset([*beginnings, *(stem for word in words for stem in _stems()[word])])


def places(query: str, title: str, abstract: str) -> dict[str, list[str]]:
    """The query's words by where a document has them: ``title``, else ``abstract``, else ``neither``; without stop
    words, each once."""
    words = {word.lower(): word for word in WORD.findall(query) if word.lower() not in STOP_WORDS}
    texts = {"title": title, "abstract": abstract}
    found: dict[str, list[str]] = {"title": [], "abstract": [], "neither": []}
    for word in words.values():
        stems = frozenset(_stems()[word])
        where = next((field for field, text in texts.items() if any(matches(stems, text))), "neither")
        found[where].append(word)
    return found


def phrases(stems: frozenset[str], text: str) -> Iterator[tuple[int, int, int]]:
    """Runs of consecutive matching words: start and end, in code points, and the number of different stems."""
    start, end, matched = 0, -1, set[str]()
    for next_start, next_end, word_stems in matches(stems, text):
        if matched and not WORD.search(text, end, next_start):
            end = next_end
            matched |= word_stems  # in place: a run may have thousands of stems
            continue
        if matched:
            yield start, end, len(matched)
        start, end, matched = next_start, next_end, {*word_stems}
    if matched:
        yield start, end, len(matched)


@lru_cache(256)
def _possible_matches(stems: frozenset[str]) -> re.Pattern[str]:
    """A pattern for all words that can match: their first character is that of a stem, or is not ASCII."""
    initials = {form for stem in stems for form in (stem[0], stem[0].upper())}
    letters = "".join(re.escape(initial) for initial in sorted(initials) if initial.isascii())
    # The character set is first and the lookbehinds follow it, so that the search skips to the set's characters.
    return re.compile(rf"[{letters}\x80-\U0010ffff](?<=[^\W_])(?<![^\W_].)(?<![^\W_]{INNER}.){REST}")


def matches(stems: frozenset[str], text: str) -> Iterator[tuple[int, int, frozenset[str]]]:
    """The words of a text that have some of the stems: start and end, in code points, and those stems."""
    memo, lengths = _stems(), {len(stem) - 1 for stem in stems if stem.endswith("*")}  # looked up, however many
    for word in _possible_matches(stems).finditer(text):
        if matched := stems.intersection(memo[word.group()]):
            yield *word.span(), matched
        elif lengths:
            form = word.group().lower()
            if matched := stems.intersection(f"{form[:length]}*" for length in lengths):
                yield *word.span(), matched
