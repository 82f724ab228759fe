"""English stop-words: EnglishAnalyzer.ENGLISH_STOP_WORDS_SET of Lucene 9 and 10.

All are their own stems, so the list also fits an index of stems.
"""

STOP_WORDS = frozenset(
    "a an and are as at be but by for if in into is it no not of on or such that the their then there these they this "
    "to was will with".split()
)

# Words of questions and sentences beside those: they say nothing of a topic.
FUNCTION_WORDS = STOP_WORDS | frozenset(
    "about am because been being can could did do does doing done from get got had has have having he her him his how "
    "i its just like may me might must my our shall she should so some than them those we was were what when where "
    "which while who whom whose why would you your".split()
)

LEFT_OUT = {"keep": frozenset[str](), "remove": STOP_WORDS, "function": FUNCTION_WORDS}  # of queries, by name
