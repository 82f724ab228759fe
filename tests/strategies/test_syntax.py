"""PubMed's query language: what a text is read as, what is left out, and what is refused with its place and cure."""

from datetime import date, timedelta

import pytest

from rerank_plugin.base.errors import InputError
from rerank_plugin.base.strategy import ranking_words
from rerank_plugin.strategies.syntax import MOST_CLAUSES, MOST_NESTED, Reader, is_strategy

DOUBLED = "1 a\n" + "\n".join(f"{n} {n - 1} {{{n % 2}}} {n - 1}" for n in range(2, 40))  # 2^38 terms
LINES = "1. diabetes[tiab]\n\n2. insulin OR metformin\n3. #1 AND #2\n4. 3 NOT (animals[mh:noexp] NOT humans[mh:noexp])"


@pytest.mark.parametrize(
    "text, read_as",
    [
        ("A AND B OR C NOT D", "((A AND B) OR C) NOT D"),  # from left to right
        ("a OR b AND c", "(a OR b) AND c"),
        ("(aspirin OR rivaroxaban) NOT arthroplasty", "(aspirin OR rivaroxaban) NOT arthroplasty"),
        ("a AND NOT b", "a NOT b"),
        ("heart attack AND aspirin", "heart AND attack AND aspirin"),  # words side by side are joined by AND
        ("soy OR breast cancer OR x NOT y z", "(soy OR (breast AND cancer) OR x) NOT (y AND z)"),  # as a unit
        ("falls[tiab] AND systematic review[pt]", 'falls[tiab] AND "systematic review"[pt]'),
        ("“heart failure”[Title/Abstract]", '"heart failure"[tiab]'),
        ("(heart OR lung [ti])[tiab] failure", "(heart[tiab] OR lung[ti]) AND failure"),
        ('"acute pain"[tiab:~3]', '"acute pain"[tiab:~3]'),
        ('"vitamin d*" OR thrombo*[ti]', '"vitamin d*" OR thrombo*[ti]'),
        ('"heart fail"* [tw]', '"heart fail*"[tw]'),
        ("2015:2019[dp]", "2015:2019[dp]"),
        ("2019/3[pdat]", "2019/03[dp]"),
        ("2015:present[dp]", "2015:3000[dp]"),
        ("all[sb] NOT a", "all[sb] NOT a"),
        ('("2015/01/01"[Date - Publication] : "3000"[Date - Publication])', "2015/01/01:3000[dp]"),
        ("smith ja[1au] AND N Engl J Med[jour]", 'smith ja[1au] AND "N Engl J Med"[ta]'),
        ('"Heart Failure/drug therapy"[mesh:noexp]', '"Heart Failure/drug therapy"[mh:noexp]'),
        ("a[mesh: noexp] OR b [ Mesh : NoExp ]", "a[mh:noexp] OR b[mh:noexp]"),
        ('a[tiab]AND"b"OR(c)NOT d[ti]', '((a[tiab] AND "b") OR c) NOT d[ti]'),
        ("systematic[sb] AND english[filter]", '"systematic review"[pt] AND english[la]'),
        ("a AND hasabstract[text]", "a AND hasabstract[sb]"),
        ("benzo[a]pyrene AND [18F]FDG", "benzo[a]pyrene AND [18F]FDG"),
        ("IL-6 AND p<0.05", "IL-6 AND p<0.05"),
        ("a - b, AND c", "a AND b, AND c"),
        (LINES, "(diabetes[tiab] AND (insulin OR metformin)) NOT (animals[mh:noexp] NOT humans[mh:noexp])"),
        ("1. a[ti] OR\nb[ti]\n2. c\n  OR 5 d\n3. 1 AND 2", "(a[ti] OR b[ti]) AND (c OR (5 AND d))"),  # wrapped lines
        ("a AND (90000001 OR 10.1000/x.1) AND 2020", "a AND (90000001[pmid] OR 10.1000/x.1[doi]) AND 2020"),
        ('"Li W"[au] AND 2019[epdat]', '"Li W"[au] AND 2019[epdat]'),
        ("5:7[pmid] OR 8[uid] : 9[uid]", "5:7[pmid] OR 8:9[pmid]"),
        ("ep[sh] OR ep[sh:noexp] OR nursing[sh:noexp]", "epidemiology[sh] OR epidemiology[sh:noexp] OR nursing[sh]"),
        ("1,2[pmid] OR 3 4[uid]", "1[pmid] OR 2[pmid] OR (3[pmid] OR 4[pmid])"),
        (
            "#1 cats\n#2 1 OR dogs 1 OR 9",
            "cats OR (dogs AND 1) OR 9",
        ),  # a number among words, or of no line, is a word
    ],
)
def test_read_as(text, read_as):
    reader = Reader()
    assert str(reader.read(text)) == read_as and not reader.notes


@pytest.mark.parametrize(
    "text, read_as, note",
    [
        ("cancer AND harvard[ad]", "cancer", "[ad] (affiliation) is not indexed"),
        ("harvard[Affiliation] OR cancer", "cancer", "[affiliation] (affiliation) is not indexed"),
        ("cancer NOT medline[sb]", "cancer", "the subset medline[sb] is not indexed, and is left out"),
        ("a/b[majr:noexp]", "a/b[mh:noexp] AND a[majr:noexp]", "of which qualifier a heading is a main topic is not"),
        ("cancer AND anticoagulants[pa]", "cancer", "[pa] (pharmacological action) is not indexed"),
        ("stroke/th[mh]", "stroke/therapy[mh]", "[mh] finds the heading itself"),
        ("aspirin[mh]", "aspirin[mh:noexp]", "[mh] finds the heading itself"),
        ("a[ti] or b[ti]", 'a[ti] AND "or b"[ti]', "'or' in small letters is a word"),
        ("'a b'/exp AND c", "'a AND b'/exp AND c", 'Embase\'s language is read as words: write "a b"[mh]'),
        ("a:ti,ab AND c", "a:ti,ab AND c", "'a:ti,ab' of Embase's language is read as words: write a[tiab]"),
        ("TITLE-ABS-KEY(a AND b)", "TITLE-ABS-KEY AND (a AND b)", "'TITLE-ABS-KEY(' of Scopus's language"),
        ('(MH "Falls") AND b', 'MH AND "Falls" AND b', "of EBSCO's language"),
        ("Our search\n1. a\n2. b\n3. 1 OR 2", "a OR b", "'Our search' stands before the first numbered line"),
        ("wom?n AND cancer", "wom?n AND cancer", "'?' is no wildcard"),
    ],
)
def test_what_is_not_answered_is_noted(text, read_as, note):
    reader = Reader()
    assert str(reader.read(text)) == read_as
    assert len(reader.notes) == 1 and note in reader.notes[0]


@pytest.mark.parametrize(
    "text, message",
    [
        ("(a OR b", r"character 1: '\(' without its '\)'; add"),
        ("a ) AND b", r"character 3: '\)' without its '\('"),
        ("a () b", "character 4: nothing between"),
        ("a AND", "character 3: nothing follows AND"),
        ("a AND (b OR)", "character 10: nothing follows OR"),
        ("a AND OR b", "character 7: OR follows AND"),
        ("OR a", "character 1: OR follows no term"),
        ('a AND "b', "character 7: a quote that does not close"),
        ("a[ti", r"character 2: a '\[' that does not close"),
        ("foo[tiba] AND b", r"character 4: unknown tag \[tiba\]; did you mean \[tiab\]"),
        ("[ti] AND b", r"character 1: the tag \[ti\] follows no term"),
        ("*foo AND b", r"character 1: '\*' within or before the word"),
        ("hyper*tension AND b", r"character 1: '\*' within"),
        ("a* AND b", "character 1: 'a\\*' is too short"),
        ('a AND "..."', 'character 7: the phrase "..." has no word'),
        ('"pain"[tiab:~3]', "character 1: a proximity of the one word"),
        ('"acute pain"[mh:~3]', "character 13: .* is no proximity"),
        ("2019:2015[dp]", "character 1: the dates 2019:2015 end before they begin"),
        ("12*[pmid]", "character 1: '12\\*' is cut short; write the whole PMID"),
        ("9:5[pmid]", "character 1: the PMIDs 9:5 end before they begin"),
        ("a AND soon[dp]", "character 7: 'soon' is no date; write it as 2015"),
        ("2025/02/30[dp]", "'2025/02/30' is no date"),
        ("2015:2016:2017[dp]", "is no range of dates"),
        ("(a OR b)[dp]", r"character 9: \[dp\] after '\)'"),
        ("1. a\n2. 1 AND 3", "character 15: no line 3 stands before"),
        ("#2 AND b", "character 1: no line 2 stands before"),
        ("harvard[ad]", r"nothing of 'harvard\[ad\]' can be searched for here: \[ad\]"),
        ("-- AND ..", "nothing of '-- AND ..' can be searched"),
        (" OR ".join(["x"] * (MOST_CLAUSES + 1)), f"more than {MOST_CLAUSES:,} terms; split"),
        ('"' + "the cats " * 101 + '"[ti]', "a phrase of more than 200 words"),
        ("(" * 2000 + "a" + ")" * 2000, f"more than {MOST_NESTED} parentheses"),
        ("a" + " AND b OR c" * 200, f"change more than {MOST_NESTED} times"),
        (DOUBLED.format("OR", "AND"), "more than 1,000 terms, with those of earlier lines; split"),
        (DOUBLED.format("OR", "OR"), "more than 1,000 terms"),
        ("1 a\n" + "\n".join(f"{n} {n - 1} {('OR', 'AND')[n % 2]} b" for n in range(2, 200)), "change more than"),
        (f'"a b"[tiab:~{"9" * 5000}]', "is no proximity"),
        ("٢٠١٥[dp]", "is no date"),
    ],
)
def test_what_is_malformed_is_refused_with_its_place(text, message):
    with pytest.raises(InputError, match=message) as error:
        Reader().read(text)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    "text, strategy",
    [
        ("cats AND dogs", True), ("cats and dogs", False), ("IL-6", False), ("p<0.05 (n=3)", False),
        ('an open " quote', False), ('5" and 6" needles', False), ('the "heart attack" of women', True),
        ("benzo[a]pyrene", False), ("[Ca2+]i in cells", False), ("stroke [MeSH Terms:noexp]", True),
        ("thrombo*", True), ("HLA-A*02:01", False), ("3 * 4", False), ("ANDROGEN OR", True), ("#1 wound", True),
        ("(breast) cancer", False), ("smoking AND/OR drinking", False),
        ("on www.au. and www.nm. sites", False), ("exp *Stroke/", True), ("1. mice/\n2. lancet.jn.", True),
        ("1. Stroke/ep\n2. mice", True), ("1. yes/no\n2. and/or", False), ("ON/ OFF and on/off", False),
        ('"a"AND b', True),
    ],
)  # fmt: skip
def test_nothing_is_a_strategy_that_was_not_meant(text, strategy):
    assert is_strategy(text) is strategy


@pytest.mark.parametrize(
    "text, words",
    [
        ("(aspirin OR rivaroxaban[ti]) NOT arthroplasty", "aspirin rivaroxaban"),
        ("Falls[tiab] AND falls prevention[tiab] AND review[pt] NOT (a NOT b)", "falls prevention"),
        ('"Heart Failure"[mh] AND 2019[dp]', "Heart Failure"),
        ("2019[dp] AND smith[au]", ""),
    ],
)
def test_free_words_that_are_not_negated_rank(text, words):
    assert ranking_words(Reader().read(text)) == words


def test_dates_up_to_now():
    assert str(Reader().read("y_5[Filter]")) == str(Reader().read('"last 5 years"[dp]'))
    assert str(Reader().read('"last 30 days"[dp]')) == f"{date.today() - timedelta(30):%Y/%m/%d}:3000[dp]"
    with pytest.raises(InputError, match="'last few years' is no date"):
        Reader().read("last few years[dp]")
