"""Which of Lucene's analyzers an index was made with, and how texts reach it.

An analyzer is named as Pyserini and Anserini name it: English by its stemmer (``porter``, their default, ``krovetz`` or
``none``), ``whitespace`` for texts that were tokenized before (``-pretokenized``), other languages by their codes
(``zh``). The description of an index has, under ``lucene``, the ``analyzer`` and the ``normalization``: the version of
:mod:`rerank_plugin.text.normalization` in which the texts were analyzed. Indexes of other programs, and older ones of
this package, have none.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import cache
from typing import Any

from rerank_plugin.base.errors import InputError, unknown
from rerank_plugin.java.jvm import java_class
from rerank_plugin.text.normalization import NORMALIZATION_VERSION, analyzable, composed

PORTER = "porter"
ENGLISH = (PORTER, "krovetz", "none", "whitespace")
COMPARED = 50  # documents whose stored texts are compared with the indexed terms
TERMS_COMPARED = 200  # of each
NAMED = 3  # analyzers that agree equally well
AGREES, FEW = 0.98, 0.5  # shares of the terms: at least, for the right analyzer; at most, for none that is known


def languages() -> list[str]:
    """The codes of the languages with an analyzer in Anserini, without English; starts the JVM."""
    return sorted(java_class("io.anserini.analysis.AnalyzerMap").analyzerMap.keySet().toArray())


@cache
def analyzer(name: str) -> Any:
    """Lucene's analyzer of a name; an `InputError` if there is none."""
    english = java_class("io.anserini.analysis.DefaultEnglishAnalyzer")
    if name == "none":
        return english.newNonStemmingInstance()
    if name == "whitespace":
        return java_class("org.apache.lucene.analysis.core.WhitespaceAnalyzer")()
    if name in ENGLISH:
        return english.newStemmingInstance(name)
    if name not in (known := languages()):
        raise InputError(unknown("analyzer or language", name, [*ENGLISH, *known]))
    return java_class("io.anserini.analysis.AnalyzerMap").getLanguageSpecificAnalyzer(name)


@cache
def unstemmed_analyzer() -> Any:
    """Lucene's analyzer of words as they stand: neither stemmed nor without stop words."""
    builder = java_class("org.apache.lucene.analysis.custom.CustomAnalyzer").builder()
    return builder.withTokenizer("standard").addTokenFilter("lowercase").addTokenFilter("asciiFolding").build()


def normalizer_of(lucene: dict) -> Callable[[str], str]:
    """How a query's text reaches the analyzer of an index, by ``lucene`` of its description."""
    return analyzable if lucene.get("normalization") == NORMALIZATION_VERSION else composed


class Agreement:
    """Compares stored texts with indexed terms.

    Args:
        reader: an IndexReader.
        field: the field whose terms are compared.
        texts: by Lucene number, the stored texts in the form in which they reached the analyzer.
    """

    def __init__(self, reader: Any, field: str, texts: dict[int, str]):
        self.reader, self.field, self.texts = reader, field, texts
        self._held: dict[str, frozenset[int]] = {}  # by term, those of the texts' documents that hold it

    def share(self, name: str) -> float:
        """The share of the texts' distinct terms by an analyzer that their documents hold; 1 without any term.

        Raises:
            InputError: there is no such analyzer, or not in this Java.
        """
        from jnius import JavaException

        used, held, count = analyzer(name), 0, 0
        for number, text in self.texts.items():
            try:
                terms = java_class("io.anserini.analysis.AnalyzerUtils").analyze(used, text).toArray()
            except JavaException as error:
                message = str(error).splitlines()[0]
                raise InputError(f"this Java cannot analyze texts by '{name}' ({message:.200})") from None
            for term in list(dict.fromkeys(terms))[:TERMS_COMPARED]:
                held += number in self._documents(term)
                count += 1
        return held / count if count else 1.0

    def _documents(self, term: str) -> frozenset[int]:
        if term not in self._held:
            of_term = java_class("org.apache.lucene.index.Term")(self.field, term).bytes()
            postings = java_class("org.apache.lucene.index.MultiTerms").getTermPostingsEnum(
                self.reader, self.field, of_term
            )
            at, found = -1, set()
            for number in sorted(self.texts) if postings else ():
                if at < number:
                    at = postings.advance(number)
                if at == number:
                    found.add(number)
            self._held[term] = frozenset(found)
        return self._held[term]

    def check(self, name: str, folder: Any) -> str | None:
        """A warning if few of the terms are indexed by any analyzer; None if enough are.

        Raises:
            InputError: by another analyzer clearly more of the terms are indexed.
        """
        share = self.share(name)
        if share >= AGREES:
            return None
        others = {}
        for other in (*ENGLISH, *languages()):
            with suppress(InputError):  # not every Java can segment every language
                others[other] = self.share(other)
        best = max(others.values())
        said = f"{folder}: of the words of its stored texts {share:.0%} are indexed by the analyzer {name}"
        if best > share + (1 - AGREES):
            fitting = [other for other, found in others.items() if found > best - (1 - AGREES) / 2]
            option = "analyzer" if fitting[0] in ENGLISH else "language"
            raise InputError(
                f"{said}, and {best:.0%} by {' or '.join(fitting[:NAMED])}: build it with: "
                f"rerank-plugin index --lucene {folder} --{option} {fitting[0]}"
            )
        if share > FEW:
            return None
        return (
            f"{said}, and by no other that is known more: first stages of Lucene will find little; name the field that "
            "was indexed as the field of texts, or index the corpus itself"
        )
