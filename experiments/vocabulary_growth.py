"""How the vocabulary of texts grows (Heaps' law), and how long they are: ``python -m experiments vocabulary``.

The citations of :mod:`rerank_plugin.sample.citations` are made to be like real abstracts in both; this compares them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from random import Random
from typing import NamedTuple

import numpy as np

import rerank_plugin as rp
from rerank_plugin import options as commandline
from rerank_plugin.corpora import documents
from rerank_plugin.sample.citations import Citations
from rerank_plugin.text.tokenizer import tokenizer

EXAMPLE = """\
example:
  python -m experiments vocabulary --corpus ../shared/data/abstracts"""
PER_DOUBLING = 2  # measured sizes
FROM = 10_000  # tokens: below, the first documents decide


class Growth(NamedTuple):
    """Tokens read and distinct terms then, int64 [n] each; tokens of each document's title and abstract."""

    tokens: np.ndarray
    terms: np.ndarray
    titles: np.ndarray
    abstracts: np.ndarray

    def law(self) -> tuple[float, float, float]:
        """K and beta of V = K n^beta by least squares of logarithms, and the largest relative error of it."""
        logs = np.log(self.tokens), np.log(self.terms)
        beta, constant = np.polyfit(*logs, 1)
        return float(np.exp(constant)), float(beta), float(np.abs(np.expm1(constant + beta * logs[0] - logs[1])).max())


def growth(texts: Iterable[rp.Document]) -> Growth:
    """Measure texts in their order."""
    tokenize, seen, read, after = tokenizer(None).tokenize, set[str](), 0, FROM
    sizes: list[tuple[int, int]] = []
    lengths: list[tuple[int, int]] = []
    for document in texts:
        title, abstract = tokenize(document.title), tokenize(document.abstract)
        lengths.append((len(title), len(abstract)))
        seen.update(title, abstract)
        read += len(title) + len(abstract)
        if read >= after:
            sizes.append((read, len(seen)))
            after = int(read * 2 ** (1 / PER_DOUBLING))
    return Growth(*np.array(sizes).T, *np.array(lengths).T)


def _shuffled(spec: str, seed: int) -> list[rp.Document]:
    """Sources have subjects of their own, one after the other: the vocabulary would grow in steps."""
    read = list(documents(spec, ids_required=False))
    Random(seed).shuffle(read)
    return read


def _generated(count: int, seed: int) -> Iterator[rp.Document]:
    texts = Citations(seed)
    for number in range(count):
        title, sentences = texts.text(number)
        yield rp.Document(str(number), title, " ".join(sentence for _, sentence in sentences))


def main(argv: list[str] | None = None) -> None:
    parser = commandline.parser("experiment vocabulary", __doc__.partition("\n\n")[0], EXAMPLE)
    parser.add_argument("--corpus", required=True, help="real abstracts")
    parser.add_argument("--documents", type=int, help="read so many documents (default: all of the corpus)")
    options = commandline.parse(parser, argv)
    real = list(islice(_shuffled(options.corpus, options.seed), options.documents))
    measured = {"real": growth(real), "generated": growth(_generated(len(real), options.seed))}
    print("| texts | tokens | terms | K | beta | largest error | title | abstract, quartiles | without abstract |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- | --- |")
    for name, of in measured.items():
        constant, beta, error = of.law()
        quartiles = " / ".join(f"{value:.0f}" for value in np.percentile(of.abstracts[of.abstracts > 0], (25, 50, 75)))
        print(
            f"| {name} | {of.tokens[-1]:,} | {of.terms[-1]:,} | {constant:.1f} | {beta:.3f} | {error:.1%} | "
            f"{of.titles.mean():.1f} | {quartiles} | {(of.abstracts == 0).mean():.0%} |"
        )
    print("\n| tokens | real terms | generated |\n| --- | --- | --- |")
    for tokens, terms in zip(*measured["real"][:2]):
        if tokens > measured["generated"].tokens[-1]:
            break
        generated = np.interp(tokens, *measured["generated"][:2])
        print(f"| {tokens:,} | {terms:,} | {generated:,.0f} ({generated / terms - 1:+.0%}) |")


if __name__ == "__main__":
    commandline.run(main)
