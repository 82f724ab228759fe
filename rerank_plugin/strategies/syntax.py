"""PubMed's query language: a text is read as a :class:`~rerank_plugin.base.strategy.Strategy`.

https://pubmed.ncbi.nlm.nih.gov/help/: AND, OR and NOT in capital letters, from left to right; words side by side are
joined by AND; parentheses, phrases in quotes, ``word*``, ``"words"[tiab:~3]``, ``2015:2019[dp]``, a tag after a term;
a strategy of numbered lines, where a later line names earlier ones (``1 OR 2``, ``#1 AND #2``) and the last one counts.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

from rerank_plugin.base.errors import InputError, nearest
from rerank_plugin.base.strategy import ALL, AND, HEADINGS, NOT, OR, WORDS, Dates, Group, Strategy, Term
from rerank_plugin.strategies.lines import HISTORY, filters_strategy, lines, of_ovid
from rerank_plugin.strategies.other_languages import OVID, summed_up
from rerank_plugin.strategies.qualifiers import is_qualifier, narrower, with_qualifier
from rerank_plugin.strategies.tags import SUBSETS, TAGS, UNANSWERED
from rerank_plugin.strategies.tokens import Token, fault, last_dates, read_date, tagged_parentheses, tokens_of

MOST_CLAUSES = 1000
MOST_NESTED = 100  # parentheses in parentheses, and groups in groups, those of earlier lines included
MOST_NEAR = 1000
MOST_OF_NAME = 20  # words of a heading, an author or a journal
MOST_TOGETHER = 200  # words of a phrase: each document is compared with all of them
MOST_DIGITS = 4  # of the number of a line, or of words
SPLIT = "split the strategy into several"
DATES = ("dp", "edat", "crdt", "ppdat", "epdat")
_QUOTES = str.maketrans("“”„‟″＂", '""""""')
_ID = re.compile(r"(?P<doi>10\.\d{4,9}/\S+)|(?P<pmc>[Pp][Mm][Cc]\d{4,9})|(?P<pmid>[0-9]{6,8})")  # between operators
_PMIDS = re.compile(r"(\d{1,9}):(\d{1,9})", re.ASCII)
_REFERENCE = re.compile(r"#(\d{1,4})")
_YEARS = re.compile(r"y_(\d{1,3})")  # of PubMed's filters
_NEAR = re.compile(r"(.*?)\s*:\s*~\s*(\d+)", re.DOTALL)
_KNOWN_TAG = "|".join(
    sorted((re.escape(tag).replace(r"\ ", r"\s+") for tag in (*TAGS, *UNANSWERED)), key=len, reverse=True)
)
SYNTAX = re.compile(
    rf"""
      (?:^|[\s)"\]])(?-i:AND|OR|NOT)(?:[\s(]|$)                          # an operator
    | (?:^|[\s(])"[^"\s][^"]*"(?=$|[\s)\[*]|(?-i:AND|OR|NOT)\b)                               # a phrase
    | \[\s*(?:{_KNOWN_TAG})\s*(?::\s*(?:~\s*\d+|noexp))?\s*\](?:(?!\w)|(?-i:AND|OR|NOT)\b)  # a tag
    | \b\w{{2,}}\*(?=$|[\s)\[])                                          # a truncated word
    | (?:^|\s)\#\d{{1,4}}(?:\s|$)                                        # a line of a strategy
    | {HISTORY} | {OVID}                                                  # pasted from elsewhere
    """,
    re.VERBOSE | re.IGNORECASE,
)


def is_strategy(text: str) -> bool:
    """Whether a text is written in PubMed's language: it has an operator, a phrase, a tag or a truncated word.

    >>> [is_strategy(text) for text in ("cats AND dogs", "cats and dogs", "IL-6 (p<0.05)", 'a "quote')]
    [True, False, False, False]
    """
    text = text.translate(_QUOTES)
    return SYNTAX.search(" ".join(text.split())) is not None or of_ovid(text)


@dataclass
class Reader:
    """Reads one strategy; ``notes`` has what was left out or changed.

    Args:
        headings: adds those below a heading to it, and takes an entry term for its heading; None without MeSH.
        names: takes words for an author or a journal; None takes none.
        term_mapping: whether words without a tag that name a heading also find it, as PubMed's automatic term mapping,
            and names are looked for.
    """

    headings: Headings | None = None
    names: Names | None = None
    term_mapping: bool = True
    notes: list[str] = field(default_factory=list)
    clauses: int = 0

    def read(self, text: str) -> Strategy:
        """The strategy of a text.

        Raises:
            InputError: it is malformed; the message names the place and the cure.
        """
        text = text.translate(_QUOTES)
        earlier: dict[int, _Part] = {}
        last = _Part(None)
        found = lines(text, self._note)
        self.notes[:] = summed_up(self.notes)
        elsewhere = next((note for note in self.notes if " language is read as words" in note), "")
        try:
            for line in found:
                last = self._filtered(self._tree(tokens_of(line.query, line.place), line.query, earlier), line.filters)
                if line.number:
                    earlier[line.number] = last
        except InputError as error:
            if not elsewhere:
                raise
            raise InputError(f"{error} ({elsewhere.replace(' is read as words', '')})") from error
        return self._kept(last, text)

    def _filtered(self, part: _Part, filters: str) -> _Part:
        """The part with PubMed's filters, written as in its history."""
        if not (strategy := filters and filters_strategy(filters, self._note)):
            return part
        level = _Level(None)
        level.add(part, Token("word", filters, 1))
        level.operate(Token(AND, AND, 1))
        level.add(self._tree(tokens_of(strategy, 0), strategy, {}), Token("word", filters, 1))
        return level.part

    def _kept(self, part: _Part, text: str) -> Strategy:
        if part.tree is None:
            reason, shown = "; ".join(self.notes) or "give words", " ".join(text.split())
            raise InputError(f"nothing of '{shown:.60}' can be searched for here: {reason}")
        return part.tree

    def _tree(self, tokens: list[Token], line: str, earlier: dict[int, _Part]) -> _Part:
        """The tree of one line."""
        only_references = bool(earlier) and all(
            token.kind in ("open", "close", AND, OR, NOT) or _is_number(token.text.lstrip("#")) for token in tokens
        )
        stack, tagged, at = [_Level(None)], tagged_parentheses(tokens), 0
        while at < len(tokens):
            token, level = tokens[at], stack[-1]
            at += 1
            if token.kind == "open":
                if len(stack) > MOST_NESTED:
                    raise fault(token, f"more than {MOST_NESTED} parentheses in one another", "simplify the strategy")
                stack.append(_Level(token, level.tagged or at - 1 in tagged))
            elif token.kind == "close":
                if len(stack) == 1:
                    raise fault(token, "')' without its '('", "remove it, or add the '('")
                if not level.begun:
                    raise fault(token, "nothing between '(' and ')'", "remove them, or write a term between them")
                level.finish()
                stack.pop()
                part = level.part
                if at < len(tokens) and tokens[at].kind == "tag":
                    part = part._replace(tree=self._tagged(part.tree, tokens[at]))
                    at += 1
                stack[-1].add(part, token)
            elif token.kind in (AND, OR, NOT):
                level.operate(token)
            elif token.kind == "tag":
                raise fault(
                    token, f"the tag {token.text} follows no term", "write it directly after a word or a phrase"
                )
            elif reference := _reference(token, only_references or _stands_alone(tokens, at - 1, earlier)):
                if reference not in earlier:
                    raise fault(token, f"no line {reference} stands before", "number the lines, and name earlier ones")
                level.add(earlier[reference], token)
            else:
                at = self._operand(tokens, at - 1, level)
        if len(stack) > 1:
            raise fault(stack[-1].opened, "'(' without its ')'", "add the ')', or remove it")
        if not stack[0].begun:
            raise InputError(f"no term in '{line.strip():.60}': give words to search for")
        stack[0].finish()
        return stack[0].part

    def _operand(self, tokens: list[Token], at: int, level: _Level) -> int:
        """Add a phrase, or the words up to the next operator, with its tag; returns the place of the next token."""
        first, words, before = tokens[at], list[Token](), tokens[at - 1].kind if at else "open"
        if first.kind == "phrase":
            words, at = [first], at + 1
            if at < len(tokens) and tokens[at].text == "*":  # "heart fail"*
                words, at = [first._replace(text=first.text + "*")], at + 1
        else:
            while at < len(tokens) and tokens[at].kind == "word" and not _REFERENCE.fullmatch(tokens[at].text):
                if words and tokens[at].text == ":":
                    break
                words.append(tokens[at])
                at += 1
            if words and words[0].text in ("and", "or", "not") and before != "open":
                self._note(f"'{words[0].text}' in small letters is a word: write AND, OR, NOT")
            if not words:
                raise fault(first, f"'{first.text}' stands alone", "write dates as 2015:2019[dp]")
        tag = tokens[at] if at < len(tokens) and tokens[at].kind == "tag" else None
        at += tag is not None
        if tag is None:
            self._untagged(words, level)
            return at
        name, near = self._field(tag)
        if name is None:
            level.add(_Part(None), first)
            return at
        text, at = _range(" ".join(word.text for word in words), name, tokens, at)
        if name in DATES:
            level.add(_Part(self._dates(text, name, first)), first)
            return at
        term = self._term(text, name, first, first.kind == "phrase", near)
        if name in HEADINGS and not tag.text.lower().rstrip(" ]").endswith("noexp"):
            term = self._exploded(term)
        level.add(_Part(term), first)
        return at

    def _untagged(self, words: list[Token], level: _Level) -> None:
        """Add words side by side, or a list of PMIDs, DOIs and PMC ids; words that name a MeSH heading find it, too."""
        if not level.tagged and all(word.kind == "word" for word in words) and (ids := _ids(words)):
            named = [self._term(id[0], id.lastgroup or "pmid", words[0], False, None) for id in ids]
            level.add(_Part(_together(named, OR)), words[0])
            return
        alone = self.term_mapping and not level.tagged and all(word.kind == "word" for word in words)
        if alone and (pair := self.pair(" ".join(word.text for word in words))):
            self.clauses += 1
            level.add(_Part(pair), words[0])
            return
        at, run = 0, list[Strategy | None]()
        while at < len(words):
            first, count = words[at], 1
            terms: list[Strategy | None] = [self._term(first.text, ALL, first, first.kind == "phrase", None)]
            maps = self.term_mapping and first.kind == "word" and not level.tagged
            plain = [word.text.strip(",;") for word in words[at : at + MOST_OF_NAME + 1]]
            found = self.headings.longest(plain) if maps and self.headings is not None else None
            if found is not None:
                count, heading = found
                terms += [self._term(word.text, ALL, word, False, None) for word in words[at + 1 : at + count]]
                mapped = [Term(heading, "mh", below=self.headings.below(heading))]  # type: ignore[union-attr]
                if heading.lower() != " ".join(plain[:count]).lower():
                    mapped.append(Term(heading, ALL, phrase=True))
                terms = [Group(OR, (*mapped, _together(terms)))]
            elif maps and (at or len(plain) > 1) and self.names is not None and (name := self.names.longest(plain)):
                count, terms = name[0], [name[1]]
            run += terms
            at += count
        if level.operator is None or level.operator.kind == AND:
            for term in run:
                level.add(_Part(term), words[0])
        else:  # of "a OR b c" the words b and c belong together
            level.add(_Part(_together(run), max(1, len(run)), int(len(run) > 1)), words[0])

    def pair(self, text: str) -> Strategy | None:
        """The heading with a qualifier that a text without a tag is, ``Metformin/therapeutic use``; None for others."""
        name, slash, qualifier = text.rpartition("/")
        if not slash or not is_qualifier(qualifier):
            return None
        known = (self.headings is not None and self.headings.heading(name)) or (
            self.names is not None and self.names.count(Term(name, "mh"))
        )
        return self._exploded(Term(text, "sh")) if known else None

    def _exploded(self, strategy: Strategy | None) -> Strategy | None:
        """A heading with those below it, each with its qualifier, and a qualifier with those that it includes."""
        if isinstance(strategy, Group):
            parts = (self._exploded(part) for part in strategy.parts)
            return Group(strategy.role, tuple(part for part in parts if part is not None))
        if not isinstance(strategy, Term) or strategy.truncated or strategy.field not in HEADINGS:
            return strategy
        name, slash, qualifier = strategy.text.rpartition("/") if strategy.field == "sh" else (strategy.text, "", "")
        headings, qualifiers = [name], (qualifier, *narrower(qualifier))
        if self.headings is not None and name:
            name = headings[0] = self.headings.heading(name) or name
            headings += self.headings.below(name)
        elif name:
            tag = "mh" if strategy.field == "sh" else strategy.field
            self._note(f"[{tag}] finds the heading itself: narrower headings are added where an index has MeSH")
        _, *below = (f"{heading}{slash}{each}" for heading in headings for each in qualifiers)
        whole = self.headings is None and name and not below
        return strategy._replace(text=f"{name}{slash}{qualifier}", below=None if whole else tuple(below))

    def _field(self, tag: Token) -> tuple[str | None, int | None]:
        """The field of a tag, None for one that cannot be answered, and the number of words of a proximity."""
        name, near = re.sub(r"\s*:\s*", ":", " ".join(tag.text[1:-1].lower().split())), None
        if match := _NEAR.fullmatch(name):
            name, near = match[1], int(match[2]) if len(match[2]) <= MOST_DIGITS else MOST_NEAR + 1
            if TAGS.get(name) not in ("ti", "ab", "tiab", ALL) or near > MOST_NEAR:
                raise fault(tag, f"{tag.text} is no proximity", 'write it as "two words"[tiab:~3]')
        if name in UNANSWERED:
            self._note(f"[{name}] ({UNANSWERED[name]}) is not indexed: terms with it are left out")
            return None, None
        if name not in TAGS:
            close = nearest(name, TAGS)
            meant = (
                f"did you mean [{close}]?"
                if close
                else "PubMed's tags are [ti], [tiab], [au], [ta], [mh], [pt], [dp] ..."
            )
            raise fault(tag, f"unknown tag {tag.text}", meant)
        return TAGS[name], near

    def _term(self, text: str, name: str, token: Token, phrase: bool, near: int | None) -> Strategy | None:
        self.clauses += 1
        if self.clauses > MOST_CLAUSES:
            raise fault(token, f"more than {MOST_CLAUSES:,} terms", SPLIT)
        text = " ".join(text.split())
        truncated = text.endswith("*")
        bare = text.rstrip("*").strip()
        if "?" in bare and name in WORDS and re.search(r"\w\?\w", bare):
            self._note(f"'?' is no wildcard in PubMed's language: {bare} is read as two words")
        if "*" in bare or (truncated and not re.search(r"\w", bare)):
            raise fault(
                token, f"'*' within or before the word '{text:.40}'", "'*' stands at the end of a word, as in thrombo*"
            )
        if truncated and name in ("pmid", "pmc", "doi"):
            raise fault(token, f"'{text:.40}' is cut short", f"write the whole {name.upper()}, without '*'")
        if truncated and name in WORDS and len(re.findall(r"\w", bare)) < 2:
            raise fault(token, f"'{text:.40}' is too short for '*'", "write at least two letters before it")
        if not re.search(r"\w", bare):
            if phrase:
                raise fault(token, f'the phrase "{text}" has no word', "remove it, or write words in the quotes")
            return None  # a dash or a comma between words
        if name in WORDS and len(bare.split()) > MOST_TOGETHER:
            raise fault(token, f"a phrase of more than {MOST_TOGETHER} words", "write the words apart, joined by AND")
        if near is not None and len(bare.split()) < 2:
            raise fault(token, f"a proximity of the one word '{bare}'", "write two words or more in quotes")
        if name == "pmid" and len(ids := re.findall(r"[^\s,;]+", bare)) > 1:
            terms = (self._term(id, name, token, False, None) for id in ids)
            return Group(OR, tuple(term for term in terms if term is not None))
        if name == "pmid" and (match := _PMIDS.fullmatch(bare)) and int(match[1]) > int(match[2]):
            raise fault(token, f"the PMIDs {bare} end before they begin", "exchange them")
        if name == "sb":
            if match := _YEARS.fullmatch(bare):
                return Dates("dp", *(last_dates(f"last {match[1]} years") or ()))
            if (subset := SUBSETS.get(bare.lower())) is None:
                self._note(f"the subset {bare}[sb] is not indexed, and is left out")
            return subset
        if name in ("tw", ALL) and bare.lower() in ("hasabstract", "hasabstracttext"):
            return SUBSETS["hasabstract"]
        if name in HEADINGS and (name == "sh" or "/" in bare):
            text = with_qualifier(bare)
            alone = "/" not in text and (truncated or not narrower(text))
            pair = Term(text, "sh", phrase, truncated, below=() if alone else None)
            if name != "majr":
                return pair
            self._note(f"of which qualifier a heading is a main topic is not indexed: {bare}[majr] finds those of any")
            return Group(AND, (pair, Term(bare.partition("/")[0].strip(), "majr", phrase)))
        return Term(bare, name, phrase, truncated, near)

    def _dates(self, text: str, name: str, first: Token) -> Dates:
        """One date or a range of dates."""
        parts = last_dates(text) or [read_date(part.strip(), first) for part in text.split(":")]
        if len(parts) > 2:
            raise fault(first, f"'{text}' is no range of dates", "write it as 2015:2019[dp]")
        if parts[0] > f"{parts[-1]}~":
            raise fault(first, f"the dates {text} end before they begin", "exchange them")
        self.clauses += 1
        return Dates(name, parts[0], parts[-1])

    def _tagged(self, tree: Strategy | None, tag: Token) -> Strategy | None:
        """The tree with the tag of a parenthesis at its terms that have none."""
        name, near = self._field(tag)
        if near is not None or name in DATES or name == "sb":
            raise fault(tag, f"{tag.text} after ')'", "write it after each term")
        tagged = None if name is None else _with_field(tree, name)
        return self._exploded(tagged) if name in HEADINGS and "noexp" not in tag.text.lower() else tagged

    def _note(self, note: str) -> None:
        if note not in self.notes:
            self.notes.append(note)


class _Part(NamedTuple):
    """A part of a strategy, with its size: as lines name earlier ones, it could double with each line."""

    tree: Strategy | None  # None: all of it is left out
    terms: int = 1
    depth: int = 0  # groups in groups


class _Level:
    """The part of a strategy between two parentheses, read from left to right."""

    def __init__(self, opened: Token | None, tagged: bool = False):
        self.opened, self.tagged, self.begun = opened, tagged, False
        self.part = _Part(None)
        self.operator: Token | None = None

    def operate(self, token: Token) -> None:
        if self.operator is not None:
            if (self.operator.kind, token.kind) == (AND, NOT):  # "AND NOT" is NOT
                self.operator = token
                return
            raise fault(token, f"{token.kind} follows {self.operator.kind}", "remove one of them")
        if not self.begun:
            raise fault(token, f"{token.kind} follows no term", "write a term before it, or the word in small letters")
        self.operator = token

    def add(self, part: _Part, token: Token) -> None:
        role = AND if self.operator is None else self.operator.kind
        self.operator, first = None, not self.begun
        self.begun = True
        before, terms = self.part.tree, self.part.terms + part.terms
        if part.tree is None:  # left out
            return
        if before is None:
            if first or role != NOT:
                self.part = part
            return
        if terms > MOST_CLAUSES:
            raise fault(token, f"more than {MOST_CLAUSES:,} terms, with those of earlier lines", SPLIT)
        if isinstance(before, Group) and before.role == role:
            depth = max(self.part.depth, part.depth + 1)
            self.part = _Part(Group(role, (*before.parts, part.tree)), terms, depth)
        else:
            depth = max(self.part.depth, part.depth) + 1
            self.part = _Part(Group(role, (before, part.tree)), terms, depth)
        if depth > MOST_NESTED:
            raise fault(token, f"AND, OR and NOT change more than {MOST_NESTED} times", "group terms by parentheses")

    def finish(self) -> None:
        if self.operator is not None:
            raise fault(self.operator, f"nothing follows {self.operator.kind}", "write a term after it, or remove it")


def _ids(words: list[Token]) -> list[re.Match[str]]:
    """The ids that words are, with commas or without; empty if one is another word."""
    ids = [_ID.fullmatch(word.text) for word in words]
    if not all(ids):
        ids = [_ID.fullmatch(text) for word in words for text in re.findall(r"[^,;]+", word.text)]
    return [id for id in ids if id] if all(ids) else []


def _range(text: str, name: str, tokens: list[Token], at: int) -> tuple[str, int]:
    """The text of a date or a PMID with the end of its range, which may be a term of its own, and the next place."""
    if name not in (*DATES, "pmid") or at + 1 >= len(tokens) or tokens[at].text != ":":
        return text, at
    if tokens[at + 1].kind not in ("phrase", "word"):
        raise fault(tokens[at], "no date after ':'", "write a range as 2015:2019[dp]")
    tagged = at + 2 < len(tokens) and tokens[at + 2].kind == "tag"
    return f"{text}:{tokens[at + 1].text}", at + 2 + tagged


def _is_number(text: str) -> bool:
    return text.isdecimal() and len(text) <= MOST_DIGITS


def _reference(token: Token, bare: bool) -> int:
    """The number of the line that a token names; 0 if it names none. ``bare``: a number alone names one."""
    if token.kind != "word":
        return 0
    if match := _REFERENCE.fullmatch(token.text):
        return int(match[1])
    return int(token.text) if bare and _is_number(token.text) else 0


def _stands_alone(tokens: list[Token], at: int, earlier: dict[int, _Part]) -> bool:
    """Whether a token is the number of an earlier line, and no word of several."""
    operators = (AND, OR, NOT)
    before, after = tokens[at - 1].kind if at else AND, tokens[at + 1].kind if at + 1 < len(tokens) else AND
    number = tokens[at].text
    return (
        before in (*operators, "open")
        and after in (*operators, "close")
        and _is_number(number)
        and int(number) in earlier
    )


def _with_field(tree: Strategy | None, name: str) -> Strategy | None:
    if isinstance(tree, Group):
        return Group(tree.role, tuple(part for each in tree.parts if (part := _with_field(each, name))))
    return tree._replace(field=name) if isinstance(tree, Term) and tree.field == ALL else tree


def _together(terms: list[Strategy | None], operator: str = AND) -> Any:
    """The terms joined by an operator; None if there are none."""
    kept = tuple(term for term in terms if term is not None)
    return Group(operator, kept) if len(kept) > 1 else kept[0] if kept else None


class Headings(Protocol):
    """The headings of MeSH, as of :class:`~rerank_plugin.concepts.headings.Headings`."""

    def heading(self, name: str) -> str | None: ...

    def longest(self, words: list[str]) -> tuple[int, str] | None: ...

    def below(self, heading: str) -> tuple[str, ...]: ...


class Names(Protocol):
    """The authors and journals of an index."""

    def longest(self, words: list[str]) -> tuple[int, Term] | None: ...

    def count(self, strategy: Strategy) -> int: ...
