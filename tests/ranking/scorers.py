"""A scorer of one's own, for the tests of what ranks with it."""


class ByLength:
    """Scores a document by its number of words, an integer, so that many are equal, and says nothing about it."""

    name = "by-length"

    def score(self, query, candidates):
        return candidates.lengths
