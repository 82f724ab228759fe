"""English stop-words: EnglishAnalyzer.ENGLISH_STOP_WORDS_SET of Lucene 9 and 10.

All are their own stems, so the list also fits an index of stems.
"""

STOP_WORDS = frozenset(
    "a an and are as at be but by for if in into is it no not of on or such that the their then there these they this "
    "to was will with".split()
)
