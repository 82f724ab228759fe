"""A plain second annotator: Python sets, and every n-gram compared with every form."""

from __future__ import annotations

from rerank_plugin.concepts import word_forms
from rerank_plugin.concepts.annotation import AnnotatorConfig, Mention


def trigrams(form: str) -> set[str]:
    """A form of fewer than three characters is one shorter trigram."""
    return {form[i : i + 3] for i in range(max(len(form) - 2, 1))}


def jaccard(first: set[str], second: set[str]) -> float:
    common = len(first & second)
    return common / (len(first) + len(second) - common)


class PlainAnnotator:
    """``terms``: the names of each concept, in the order of the concepts' rows."""

    def __init__(self, terms: list[list[str]], config: AnnotatorConfig = AnnotatorConfig()):
        self.config = config
        written: dict[str, set[int]] = {}
        changed: dict[str, set[int]] = {}
        for row, names in enumerate(terms):
            for name in names:
                for form, verbatim in word_forms.term_forms(name).items():
                    (written if verbatim else changed).setdefault(form, set()).add(row)
        self.forms = {form: written.get(form) or changed[form] for form in {**written, **changed}}
        self.trigrams = {form: trigrams(form) for form in self.forms}
        self.cache: dict[str, list[tuple[str, float]]] = {}

    def similar(self, ngram: str) -> list[tuple[str, float]]:
        """All forms that are similar enough."""
        if ngram not in self.cache:
            grams = trigrams(ngram)
            similarities = ((form, jaccard(grams, form_grams)) for form, form_grams in self.trigrams.items())
            self.cache[ngram] = [(form, value) for form, value in similarities if value >= self.config.threshold]
        return self.cache[ngram]

    def candidates(self, ngram: str, approximate: bool) -> list[tuple[int, float]]:
        best: dict[int, float] = {}
        equal = [(ngram, 1.0)] if ngram in self.forms else []
        for form, value in equal + (self.similar(ngram) if approximate and len(ngram) >= 3 else []):
            for row in self.forms[form]:
                best[row] = max(best.get(row, 0.0), value)
        return sorted(best.items(), key=lambda item: (-item[1], item[0]))[: self.config.candidates]

    def matches(self, text: str) -> list[Mention]:
        written, forms, separators = word_forms.words(text)
        starts, place = [], 0
        for separator, word in zip(separators, written):
            starts.append(place + len(separator))
            place += len(separator) + len(word)
        matches = []
        for i in range(len(forms)):
            for j in range(i, len(forms)):
                if j > i and word_forms.breaks(separators[j]):
                    break
                bounds = word_forms.bounds(written[i]), word_forms.bounds(written[j])
                start, end = starts[i], starts[j] + len(written[j])
                if end - start < self.config.shortest or (i == j and not bounds[0]):
                    continue
                approximate = self.config.approximate and j - i < self.config.window and all(bounds)
                candidates = self.candidates(" ".join(forms[i : j + 1]), approximate)
                if candidates:
                    matches.append(Mention(start, end, *map(tuple, zip(*candidates))))
        return matches

    def annotate(self, text: str) -> list[Mention]:
        def rank(mention: Mention):
            length = mention.end - mention.start
            best = mention.similarities[0]
            return (-length, -best) if self.config.overlap == "length" else (-best, -length)

        kept: list[Mention] = []
        for match in sorted(self.matches(text), key=rank):
            if all(match.end <= mention.start or mention.end <= match.start for mention in kept):
                kept.append(match)
        return sorted(kept)
